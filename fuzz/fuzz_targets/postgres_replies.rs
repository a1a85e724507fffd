//! Any stream of a server's, cut anywhere: the same runs come out as if it came at once, and no
//! byte is lost, doubled or moved.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::postgres::reply::{Run, Scan, Scanner};

const MAX: usize = 1 << 16;

fuzz_target!(|input: (&[u8], u8)| {
    let (bytes, cut) = input;
    let whole = runs(bytes, bytes.len().max(1));
    let cut = runs(bytes, usize::from(cut) + 1);
    assert_eq!(whole, cut);
});

/// Kinds and lengths; parts that follow one another are one, and one with the end they lead to.
fn runs(bytes: &[u8], chunk: usize) -> Vec<(Run, usize)> {
    let mut scanner = Scanner::new(MAX);
    let (mut at, mut available) = (0, 0);
    let mut found: Vec<(Run, usize)> = Vec::new();
    loop {
        let Scan { len, run } = scanner.scan(&bytes[at..available]);
        assert!(len <= available - at);
        at += len;
        match (run, found.last_mut()) {
            (Run::Wanted, _) if available == bytes.len() => return found,
            (Run::Wanted, _) => available = (available + chunk).min(bytes.len()),
            (Run::Broken(_), _) => {
                found.push((run, 0));
                return found;
            }
            (Run::Part | Run::End(_), Some((last @ Run::Part, before))) => {
                *before += len;
                *last = run;
            }
            _ => found.push((run, len)),
        }
        assert!(len > 0 || run == Run::Wanted);
    }
}
