use proptest::prelude::*;

use crate::postgres::backend::{self, Status};
use crate::postgres::reply::{ASIDE_BYTES_MAX, Copying, Run, Scan, Scanner};
use crate::postgres::{Refusal, sqlstate};

const MAX: usize = 1 << 20;

/// A message of any kind with a body of `len` bytes.
fn message(tag: u8, len: usize) -> Vec<u8> {
    let mut out = vec![tag];
    out.extend_from_slice(&(len as u32 + 4).to_be_bytes());
    out.extend(std::iter::repeat_n(b'x', len));
    out
}

fn ready(status: Status) -> Vec<u8> {
    let mut out = Vec::new();
    backend::put_ready_for_query(&mut out, status);
    out
}

/// Runs until bytes are wanted, equal neighbours that are parts joined, with `chunk` bytes more at
/// a time.
fn runs(bytes: &[u8], chunk: usize) -> Vec<(Run, Vec<u8>)> {
    let mut scanner = Scanner::new(MAX);
    let (mut at, mut available) = (0, 0);
    let mut found: Vec<(Run, Vec<u8>)> = Vec::new();
    loop {
        let Scan { len, run } = scanner.scan(&bytes[at..available]);
        let piece = &bytes[at..at + len];
        at += len;
        match (run, found.last_mut()) {
            (Run::Wanted, _) if available == bytes.len() => return found,
            (Run::Wanted, _) => available = (available + chunk).min(bytes.len()),
            (Run::Broken(_), _) => {
                found.push((run, Vec::new()));
                return found;
            }
            (Run::End(_), Some((last @ Run::Part, before))) => {
                before.extend_from_slice(piece);
                *last = run;
            }
            (Run::Part, Some((Run::Part, before))) => before.extend_from_slice(piece),
            _ => found.push((run, piece.to_vec())),
        }
    }
}

#[test]
fn a_whole_reply_is_one_run() {
    let reply =
        [message(b'T', 30), message(b'D', 9), message(b'C', 9), ready(Status::Idle)].concat();
    let two = [reply.clone(), reply.clone()].concat();
    let mut scanner = Scanner::new(MAX);
    let end = Scan { len: reply.len(), run: Run::End(Status::Idle) };
    assert_eq!(scanner.scan(&two), end);
    assert!(!scanner.is_open());
    assert_eq!(scanner.scan(&two[reply.len()..]), end);
    assert_eq!(scanner.scan(&[]).run, Run::Wanted);
}

#[test]
fn a_long_row_goes_on_as_it_comes() {
    let row = message(b'D', 100_000);
    let mut scanner = Scanner::new(MAX);
    assert_eq!(scanner.scan(&row[..4]), Scan { len: 0, run: Run::Wanted });
    assert_eq!(scanner.scan(&row[..5000]), Scan { len: 5000, run: Run::Part });
    assert!(scanner.is_open());
    assert_eq!(scanner.scan(&row[5000..9000]).len, 4000);
    let rest = [&row[9000..], &ready(Status::InTransaction)[..]].concat();
    let end = Scan { len: rest.len(), run: Run::End(Status::InTransaction) };
    assert_eq!(scanner.scan(&rest), end);
}

#[test]
fn news_amid_a_reply_stands_alone() {
    let (row, news) = (message(b'D', 3), message(b'A', 12));
    let stream = [&news[..], &row, &message(b'S', 8), &row, &ready(Status::Idle), &news].concat();
    for chunk in [1, 2, 3, 7, 1000] {
        let found = runs(&stream, chunk);
        let kinds: Vec<Run> = found.iter().map(|(run, _)| *run).collect();
        let expected = [Run::Aside, Run::Part, Run::Aside, Run::End(Status::Idle), Run::Aside];
        assert_eq!(kinds, expected, "{chunk}");
    }
}

#[test]
fn notices_belong_to_the_reply_they_are_in() {
    let notice = message(b'N', 20);
    let stream = [&notice[..], &message(b'C', 4), &notice, &ready(Status::Idle)].concat();
    let kinds: Vec<Run> = runs(&stream, 1000).iter().map(|(run, _)| *run).collect();
    assert_eq!(kinds, [Run::Notice, Run::End(Status::Idle)]);
}

#[test]
fn errors_and_copies_are_seen() {
    let mut scanner = Scanner::new(MAX);
    let mut error = Vec::new();
    Refusal::error(sqlstate::SYNTAX_ERROR, "no").encode(&mut error);
    error.extend_from_slice(&ready(Status::Failed));
    assert_eq!(scanner.scan(&error).run, Run::End(Status::Failed));
    assert!(scanner.has_failed());
    assert_eq!(scanner.scan(&ready(Status::Idle)).run, Run::End(Status::Idle));
    assert!(!scanner.has_failed());
    for (tag, copying) in [(b'G', Copying::In), (b'H', Copying::Out), (b'W', Copying::Both)] {
        scanner.scan(&message(tag, 7));
        assert_eq!(scanner.copying(), Some(copying));
        scanner.scan(&message(b'd', 7));
        scanner.scan(&message(b'c', 0));
        assert_eq!(scanner.copying(), Some(copying));
        scanner.scan(&message(b'C', 7));
        assert_eq!(scanner.copying(), None);
        scanner.scan(&ready(Status::Idle));
    }
}

#[test]
fn a_broken_stream_is_found_after_what_is_sound() {
    let row = message(b'D', 3);
    let long = (MAX as u32).to_be_bytes();
    let faults: [Vec<u8>; 8] = [
        b"D\0\0\0\x03".to_vec(),
        [&b"D"[..], &long].concat(),
        b"D\xff\xff\xff\xff".to_vec(),
        message(b'!', 3),
        message(b'R', 4),
        message(b'Z', 2),
        message(b'Z', 1),
        message(b'A', ASIDE_BYTES_MAX),
    ];
    for fault in faults {
        let mut scanner = Scanner::new(MAX);
        let stream = [&row[..], &fault].concat();
        let first = Scan { len: row.len(), run: Run::Part };
        assert_eq!(scanner.scan(&stream), first, "{:?}", &fault[..5]);
        let then = scanner.scan(&fault);
        assert!(matches!(then, Scan { len: 0, run: Run::Broken(_) }), "{then:?}");
    }
}

fn any_message() -> impl Strategy<Value = Vec<u8>> {
    let part = (prop::sample::select(b"DTC123tnsIdcVEGHWNAS".to_vec()), 0usize..60)
        .prop_map(|(tag, len)| message(tag, len));
    let ready = prop::sample::select(vec![Status::Idle, Status::InTransaction, Status::Failed])
        .prop_map(ready);
    prop_oneof![4 => part, 1 => ready]
}

proptest! {
    #[test]
    fn cuts_change_nothing(
        messages in prop::collection::vec(any_message(), 0..30), chunk in 1usize..50,
    ) {
        let stream = messages.concat();
        let whole = runs(&stream, stream.len().max(1));
        let cut = runs(&stream, chunk);
        prop_assert_eq!(&whole, &cut);
        let bytes: Vec<u8> = whole.iter().flat_map(|(_, bytes)| bytes.clone()).collect();
        prop_assert_eq!(bytes, stream);
        let ends = whole.iter().filter(|(run, _)| matches!(run, Run::End(_))).count();
        prop_assert_eq!(ends, messages.iter().filter(|m| m[0] == b'Z').count());
        let asides = whole.iter().filter(|(run, _)| *run == Run::Aside).count();
        prop_assert_eq!(asides, messages.iter().filter(|m| b"AS".contains(&m[0])).count());
    }

    #[test]
    fn any_bytes_are_scanned_calmly(
        bytes in prop::collection::vec(any::<u8>(), 0..300), chunk in 1usize..50,
    ) {
        runs(&bytes, chunk);
    }
}
