//! Anything that a master may send, cut anywhere: a base ends where it ends if it comes at once,
//! and so do the commands of its stream.
#![no_main]

use libfuzzer_sys::fuzz_target;
use redis::replica::rdb::{Check, Framing, RdbError};
use redis::replica::stream::Tracker;

fuzz_target!(|input: (&[u8], &[u8], u8)| {
    let (head, bytes, cut) = input;
    let step = usize::from(cut) + 1;
    let whole = framed(head, bytes, bytes.len().max(1));
    assert_eq!(whole, framed(head, bytes, step));
    let mut check = Check::default();
    bytes.chunks(step).for_each(|piece| check.take(piece));
    let mut at_once = Check::default();
    at_once.take(bytes);
    assert_eq!((check.finish(), check.bytes()), (at_once.finish(), at_once.bytes()));
    assert_eq!(ends(bytes, bytes.len().max(1)), ends(bytes, step));
});

/// The base, and what was taken up to its end; `None` where it does not begin, or does not end.
fn framed(head: &[u8], bytes: &[u8], step: usize) -> Option<Result<(Vec<u8>, usize), RdbError>> {
    let mut framing = Framing::read(head, 1 << 20).ok()?;
    let (mut out, mut at) = (Vec::new(), 0);
    for piece in bytes.chunks(step) {
        match framing.take(piece, &mut out) {
            Ok(Some(len)) => return Some(Ok((out, at + len))),
            Ok(None) => at += piece.len(),
            Err(error) => return Some(Err(error)),
        }
    }
    None
}

/// Where commands end, with what is known there; up to the first byte that is of none.
fn ends(bytes: &[u8], step: usize) -> Vec<(usize, bool, u32)> {
    let (mut tracker, mut found, mut at) = (Tracker::default(), Vec::new(), 0);
    for piece in bytes.chunks(step) {
        let mut rest = piece;
        loop {
            match tracker.advance(rest) {
                Ok(Some(len)) => {
                    at += len;
                    rest = &rest[len..];
                    found.push((at, tracker.is_at_rest(), tracker.database()));
                }
                Ok(None) => break,
                Err(_) => return found,
            }
        }
        at += rest.len();
    }
    found
}
