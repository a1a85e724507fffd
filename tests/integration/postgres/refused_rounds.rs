//! A round that gets no server connection is answered with an error, wherever it ends, and its
//! client goes on behind it.

use rig::wait;
use wire::postgres::frontend::{Target, put_describe, put_flush, put_parse, put_query, put_sync};

use super::beside::{Beside, prepare};
use super::scene::{asks, console, rows};
use rig::postgres::MessageClient;

/// What a driver prepares with, and waits for: the round goes on behind that.
fn flushed() -> Vec<u8> {
    let mut out = Vec::new();
    put_parse(&mut out, b"s", b"SELECT 1", &[]);
    put_describe(&mut out, Target::Statement(b"s"));
    put_flush(&mut out);
    out
}

/// The tag of the next message, and the code where it is an error.
fn next(peer: &mut MessageClient) -> (char, String) {
    let (tag, body) = loop {
        match peer.message().expect("the client is not closed") {
            // Who waits long may hear once more what holds.
            (b'S', _) => {}
            message => break message,
        }
    };
    let said = String::from_utf8_lossy(&body).into_owned();
    let code = said.split('\0').nth(2).unwrap_or_default();
    (char::from(tag), if tag == b'E' { code[1..].to_owned() } else { String::new() })
}

/// A client waits for the only connection with what it has sent, hears an error in the place of an
/// answer, sends the rest, and goes on.
fn goes_on(beside: &Beside, first: &[u8], rest: &[u8], cancels: bool, code: &str) {
    let mut holder = beside.through();
    asks(&mut holder, "BEGIN");
    asks(&mut holder, "SELECT 1");
    let mut ann = beside.through();
    ann.send(first).expect("it is taken");
    if cancels {
        let mut console = console(&beside.weir);
        wait::until("it waits", wait::LONG, || {
            rows(&mut console, "SHOW CLIENTS").iter().any(|row| row["state"] == "waiting")
        });
        ann.cancel().expect("it is taken");
    }
    assert_eq!(next(&mut ann), ('E', code.to_owned()));
    ann.send(rest).expect("it is taken");
    assert_eq!(next(&mut ann), ('Z', String::new()), "{code}");
    asks(&mut holder, "COMMIT");
    drop(holder);
    // What was left out has left nothing.
    prepare(&mut ann, "s", "SELECT 2");
    assert_eq!(asks(&mut ann, "SELECT 3").value(), Some("3"), "{code}");
}

/// What comes first, and what its client sends once it has heard of the error.
fn rounds() -> [(Vec<u8>, Vec<u8>); 3] {
    let mut rest = Vec::new();
    put_parse(&mut rest, b"t", b"SELECT 4", &[]);
    put_sync(&mut rest);
    let mut whole = flushed();
    put_sync(&mut whole);
    let mut long = Vec::new();
    put_query(&mut long, format!("SELECT '{}'", "x".repeat(100_000)).as_bytes());
    [(flushed(), rest), (whole, Vec::new()), (long, Vec::new())]
}

#[test]
fn a_cancel_ends_a_round_that_waits_with_a_flush_in_it_and_not_its_client() {
    let beside = Beside::new("", "pool.size = 1\nlanes.on = false");
    for (first, rest) in rounds() {
        goes_on(&beside, &first, &rest, true, "57014");
    }
}

#[test]
fn a_round_with_a_flush_in_it_that_waits_too_long_is_refused_and_its_client_goes_on() {
    let lines = "pool.size = 1\nlanes.on = false\ntimeouts.query-wait = \"300ms\"";
    let beside = Beside::new("", lines);
    for (first, rest) in rounds() {
        goes_on(&beside, &first, &rest, false, "57014");
    }
}

#[test]
fn a_transaction_that_no_server_has_heard_of_fails_with_a_round_that_is_refused() {
    let beside = Beside::new("", "pool.size = 1\nlanes.on = false");
    let mut holder = beside.through();
    asks(&mut holder, "BEGIN");
    asks(&mut holder, "SELECT 1");
    let mut ann = beside.through();
    asks(&mut ann, "BEGIN");
    ann.send(&flushed()).expect("it is taken");
    let mut console = console(&beside.weir);
    wait::until("it waits", wait::LONG, || {
        rows(&mut console, "SHOW CLIENTS").iter().any(|row| row["state"] == "waiting")
    });
    ann.cancel().expect("it is taken");
    assert_eq!(next(&mut ann), ('E', "57014".to_owned()));
    let mut sync = Vec::new();
    put_sync(&mut sync);
    ann.send(&sync).expect("it is taken");
    assert_eq!(ann.reply().expect("it is answered").status, 'E');
    asks(&mut holder, "COMMIT");
    assert_eq!(asks(&mut ann, "SELECT 1").error.as_deref(), Some("25P02"));
    assert_eq!(asks(&mut ann, "ROLLBACK").status, 'I');
}
