//! Anything that an HTTP server may send, cut anywhere: an answer that is whole when it comes at
//! once is the same answer when it comes in pieces.
#![no_main]

use libfuzzer_sys::fuzz_target;
use meter::http::answer::Answers;
use meter::workload::{Answer, Reader};

fuzz_target!(|input: (&[u8], u8, bool)| {
    let (bytes, cut, is_head) = input;
    let whole = answer(bytes, bytes.len().max(1), is_head);
    if let Ok(whole) = whole {
        assert_eq!(answer(bytes, usize::from(cut) + 1, is_head), Ok(whole));
    }
});

fn answer(bytes: &[u8], piece: usize, is_head: bool) -> Result<Option<Answer>, ()> {
    let mut answers = Answers::new(is_head);
    let mut pieces = bytes.chunks(piece);
    while let Some(piece) = pieces.next() {
        if let Some(answer) = answers.read(piece).map_err(drop)? {
            return if pieces.next().is_none() { Ok(Some(answer)) } else { Err(()) };
        }
    }
    Ok(answers.ended())
}
