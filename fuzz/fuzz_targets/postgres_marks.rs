//! Whatever a server answers to a mark: it proves something only where it is the whole answer, in
//! order, of a transaction that was committed.
#![no_main]

use libfuzzer_sys::fuzz_target;
use postgres::commit::mark::{MarkReply, MarkVerdict};
use wire::postgres::frame;

fuzz_target!(|bytes: &[u8]| {
    let (mut reply, mut rest) = (MarkReply::default(), bytes);
    let (mut tags, mut notices) = (Vec::new(), 0);
    while let Ok(Some(message)) = frame::next(rest, 1 << 16) {
        rest = &rest[message.whole.len()..];
        match message.tag {
            b'S' => {}
            b'N' => notices += 1,
            tag => tags.push(tag),
        }
        match reply.hear(message) {
            Ok(None) => continue,
            Ok(Some(verdict)) => {
                assert_eq!(tags, b"TDCZ");
                assert_eq!(verdict == MarkVerdict::Durable, notices == 0);
            }
            Err(_) => return,
        }
        tags.clear();
        notices = 0;
    }
});
