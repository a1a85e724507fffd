//! Any bytes as a stream of Dubbo's frames, cut anywhere: the same frames come, and each body is
//! read or refused.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::dubbo::{FrameReader, Header, Message};
use wire::hessian2::Limits;

const LIMITS: Limits = Limits { depth: 64, bytes: 4096, values: 4096, classes: 64 };
const BODY_BYTES_MAX: u32 = 64 << 10;

fuzz_target!(|input: (&[u8], u8)| {
    let (bytes, cut) = input;
    let whole = frames(bytes, bytes.len().max(1));
    assert_eq!(whole, frames(bytes, usize::from(cut) + 1));
    for (header, body) in &whole {
        let mut again = Vec::new();
        header.put(&mut again);
        assert_eq!(Header::parse(&again, BODY_BYTES_MAX), Ok(Some(*header)));
        if let Err(error) = Message::decode(header, body, LIMITS) {
            assert!(!error.to_string().is_empty());
        }
    }
});

fn frames(bytes: &[u8], length: usize) -> Vec<(Header, Vec<u8>)> {
    let (mut reader, mut frames) = (FrameReader::new(BODY_BYTES_MAX), Vec::new());
    for mut piece in bytes.chunks(length) {
        loop {
            match reader.read(&mut piece) {
                Ok(Some(frame)) => frames.push((frame.header, frame.body.to_vec())),
                Ok(None) => break,
                Err(_) => return frames,
            }
        }
        assert!(piece.is_empty());
    }
    frames
}
