//! LISTEN and UNLISTEN in portals, message by message, of a client that has a server connection
//! while Weir listens for it.

use wire::postgres::frontend::{
    Target, put_bind, put_close, put_describe, put_execute, put_flush, put_parse, put_query,
    put_sync,
};

use super::beside::Beside;
use super::scene::asks;
use rig::postgres::MessageClient;

/// Prepares both, waits for that as drivers do, and sends messages by their letters: small ones are
/// of the unnamed portal, which has the statement; the others of one that reads.
fn says(peer: &mut MessageClient, sql: &str, messages: &str) -> Vec<(u8, String)> {
    let mut out = Vec::new();
    put_parse(&mut out, b"", sql.as_bytes(), &[]);
    put_parse(&mut out, b"reads", b"SELECT 7", &[]);
    put_flush(&mut out);
    peer.send(&out).expect("it is taken");
    let mut heard: Vec<_> = (0..2).map(|_| peer.message().expect("it is answered")).collect();
    out.clear();
    for message in messages.bytes() {
        match message {
            b'b' => put_bind(&mut out, b"", b"", &[]),
            b'd' => put_describe(&mut out, Target::Portal(b"")),
            b'e' => put_execute(&mut out, b"", 0),
            b'c' => put_close(&mut out, Target::Portal(b"")),
            b'B' => put_bind(&mut out, b"p", b"reads", &[]),
            b'D' => put_describe(&mut out, Target::Portal(b"p")),
            b'E' => put_execute(&mut out, b"p", 0),
            _ => put_close(&mut out, Target::Portal(b"p")),
        }
    }
    put_close(&mut out, Target::Statement(b"reads"));
    put_sync(&mut out);
    put_query(&mut out, b"DEALLOCATE ALL");
    peer.send(&out).expect("it is taken");
    heard.extend(peer.messages().expect("it is answered"));
    heard.extend(peer.messages().expect("it is answered"));
    let told = |(tag, body): (u8, Vec<u8>)| match tag {
        // The code is what counts.
        b'E' => (tag, String::from_utf8_lossy(&body).split('\0').nth(2).unwrap_or("").to_owned()),
        _ => (tag, String::from_utf8_lossy(&body).into_owned()),
    };
    heard.into_iter().map(told).collect()
}

#[test]
fn another_portal_is_another_portal_and_each_runs_once() {
    let beside = Beside::new("", "");
    for before in ["UNLISTEN *", "LISTEN c"] {
        for sql in ["LISTEN c", "UNLISTEN c", "UNLISTEN *"] {
            for messages in
                ["be", "bde", "bBEe", "bBeE", "bBDdEeC", "bee", "beBE", "bce", "becBE", "b", "bB"]
            {
                let hears = |mut peer: MessageClient| {
                    asks(&mut peer, before);
                    let said = says(&mut peer, sql, messages);
                    asks(&mut beside.directly(), "NOTIFY c");
                    // Whoever listens has heard of it by its next answers.
                    let notified = (0..20).any(|_| {
                        std::thread::sleep(std::time::Duration::from_millis(5));
                        asks(&mut peer, "SELECT 1").notified > 0
                    });
                    (said, notified)
                };
                let wanted = hears(beside.directly());
                let case = format!("{before}; {sql}: {messages}");
                assert_eq!(hears(beside.through()), wanted, "{case}");
            }
        }
    }
}

#[test]
fn a_channel_that_is_left_and_joined_again_in_one_round_is_heard() {
    let beside = Beside::new("", "");
    for leaves in ["UNLISTEN c", "UNLISTEN *"] {
        let mut peer = beside.through();
        asks(&mut peer, "LISTEN c");
        let mut out = Vec::new();
        put_parse(&mut out, b"leaves", leaves.as_bytes(), &[]);
        put_parse(&mut out, b"joins", b"LISTEN c", &[]);
        put_flush(&mut out);
        peer.send(&out).expect("it is taken");
        (0..2).for_each(|_| drop(peer.message().expect("it is answered")));
        out.clear();
        for statement in [b"leaves".as_slice(), b"joins"] {
            put_bind(&mut out, b"", statement, &[]);
            put_execute(&mut out, b"", 0);
        }
        put_sync(&mut out);
        peer.send(&out).expect("it is taken");
        peer.messages().expect("it is answered");
        asks(&mut beside.directly(), "NOTIFY c");
        let notified = (0..50).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(20));
            asks(&mut peer, "SELECT 1").notified > 0
        });
        assert!(notified, "{leaves}");
    }
}
