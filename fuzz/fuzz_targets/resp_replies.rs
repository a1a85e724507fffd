//! Anything that a Redis server may send, cut anywhere: replies end where they end if it comes at
//! once, and a whole reply can be read to its end.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::resp::{Piece, Replies, value};

fuzz_target!(|input: (&[u8], u8)| {
    let (bytes, cut) = input;
    let whole = replies(bytes, bytes.len().max(1));
    for (_, reply) in &whole {
        if let Ok((_, len)) = value(reply) {
            assert_eq!(len, reply.len());
        }
    }
    assert_eq!(whole, replies(bytes, usize::from(cut) + 1));
});

fn replies(bytes: &[u8], chunk: usize) -> Vec<(Piece, Vec<u8>)> {
    let (mut replies, mut found, mut reply) = (Replies::default(), Vec::new(), Vec::new());
    let (mut at, mut available) = (0, 0);
    loop {
        let rest = &bytes[at..available];
        let step = if rest.is_empty() { None } else { Some(replies.scan(rest)) };
        match step {
            Some(Err(_)) => return found,
            Some(Ok(step)) if step.len > 0 => {
                assert!(step.len <= rest.len());
                reply.extend_from_slice(&rest[..step.len]);
                at += step.len;
                if step.what != Piece::Part {
                    found.push((step.what, std::mem::take(&mut reply)));
                }
            }
            _ if available == bytes.len() => return found,
            _ => available = (available + chunk).min(bytes.len()),
        }
    }
}
