//! Anything that an HTTP server may send, cut anywhere: an answer that is whole when it comes at
//! once is the same answer when it comes in pieces, with the same body for who looks into it.
#![no_main]

use std::time::SystemTime;

use libfuzzer_sys::fuzz_target;
use meter::http::answer::Answers;
use meter::http::cookies::{CookieScope, Jar};
use meter::workload::{Answer, Reader};

fuzz_target!(|input: (&[u8], u8, bool)| {
    let (bytes, cut, is_head) = input;
    let whole = answer(bytes, bytes.len().max(1), is_head);
    if let Ok(whole) = whole {
        assert_eq!(answer(bytes, usize::from(cut) + 1, is_head), Ok(whole));
    }
});

/// An answer, its body and its cookies.
type Seen = (Answer, Option<Vec<u8>>, Vec<Vec<u8>>);

fn answer(bytes: &[u8], piece: usize, is_head: bool) -> Result<Option<Seen>, ()> {
    let mut answers = Answers::new(is_head);
    answers.expect(is_head, true);
    let mut pieces = bytes.chunks(piece);
    while let Some(piece) = pieces.next() {
        if let Some(answer) = answers.read(piece).map_err(drop)? {
            return if pieces.next().is_none() {
                Ok(Some(seen(&answers, answer)))
            } else {
                Err(())
            };
        }
    }
    let ended = answers.ended();
    Ok(ended.map(|answer| seen(&answers, answer)))
}

fn seen(answers: &Answers, answer: Answer) -> Seen {
    let kept = answers.kept().expect("it is kept");
    let mut jar = Jar::default();
    let asked = CookieScope { host: "host", target: b"/", is_tls: true };
    kept.headers("Set-Cookie").for_each(|line| jar.take_in(line, &asked, SystemTime::UNIX_EPOCH));
    let mut head = Vec::new();
    jar.put(&asked, &mut head);
    // A server can't put a line of its own into what is sent next.
    assert!(head.is_empty() || line_ends(&head) == 1);
    let lines = kept.headers("Set-Cookie").map(<[u8]>::to_vec).collect();
    (answer, kept.body().map(<[u8]>::to_vec), lines)
}

fn line_ends(bytes: &[u8]) -> usize {
    bytes.iter().filter(|byte| **byte == b'\n').count()
}
