//! Anything that a Redis client may send, cut anywhere: the same commands come out as if it came at
//! once, and what is sent on is one command, the same again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::resp::{CommandFrame, Commands, Limits};

fuzz_target!(|input: (&[u8], u8)| {
    let (bytes, cut) = input;
    let whole = commands(bytes, bytes.len().max(1));
    assert_eq!(whole, commands(bytes, usize::from(cut) + 1));
});

/// The commands there are, and whether more can be understood.
fn commands(bytes: &[u8], chunk: usize) -> (Vec<Vec<Vec<u8>>>, bool) {
    let (limits, mut found) = (Limits::default(), Vec::new());
    let (mut cutter, mut at, mut available) = (Commands::default(), 0, 0);
    loop {
        let rest = &bytes[at..available];
        match cutter.cut(rest, &limits) {
            Ok(CommandFrame::More) if available == bytes.len() => return (found, true),
            Ok(CommandFrame::More) => available = (available + chunk).min(bytes.len()),
            Ok(CommandFrame::Nothing(len)) => at += len,
            Ok(CommandFrame::Command(len)) => {
                let command = cutter.command(rest);
                let words: Vec<Vec<u8>> = command.iter().map(<[u8]>::to_vec).collect();
                let mut again = Commands::default();
                let sent = command.bytes();
                let frame = again.cut(sent, &limits);
                assert!(matches!(frame, Ok(CommandFrame::Command(len)) if len == sent.len()));
                assert!(again.command(sent).iter().eq(words.iter().map(Vec::as_slice)));
                found.push(words);
                at += len;
            }
            Err(_) => return (found, false),
        }
    }
}
