//! A client that ends its sending side behind its last message has all its answers.

use wire::postgres::frontend::{put_parse, put_query};

use super::beside::{Beside, put_bound};
use super::scene::{asks, client, until_known};
use crate::isolation::peer::{Peer, Reply};

/// Sends all of it and nothing more.
fn sends(peer: &mut Peer, bytes: &[u8]) {
    peer.send(bytes).expect("it is taken");
    peer.ends_sending().expect("its own side");
}

/// What is answered to all of it up to the end of the connection.
fn answered(mut peer: Peer, bytes: &[u8]) -> Vec<Reply> {
    sends(&mut peer, bytes);
    std::iter::from_fn(|| peer.reply().ok()).collect()
}

/// The same message by message: a server may tell of several errors amid a COPY.
fn messages(mut peer: Peer, bytes: &[u8]) -> Vec<(u8, Vec<u8>)> {
    sends(&mut peer, bytes);
    std::iter::from_fn(|| peer.message().ok()).collect()
}

#[test]
fn who_sends_nothing_more_still_hears_what_was_asked() {
    let beside = Beside::new("CREATE TABLE t (id int PRIMARY KEY); INSERT INTO t VALUES (1)", "");
    until_known(&beside.weir, &mut client(&beside.weir).expect("let in"));
    for statements in [
        &["SELECT id FROM t WHERE id = 1"][..],
        &["SELECT id FROM t WHERE id = 1"; 20],
        &["SELECT pg_sleep(0.3), 'late'"],
        &["BEGIN", "INSERT INTO t VALUES (2)", "SELECT count(*) FROM t"],
        &["BEGIN", "INSERT INTO t VALUES (3)", "SELECT pg_sleep(0.1)", "ROLLBACK", "SELECT 7"],
        &["CREATE TEMP TABLE mine AS SELECT 1 AS n", "SELECT n FROM mine", "SELECT 1 / 0"],
        &["LISTEN c", "NOTIFY c", "SELECT 1"],
        &["DELETE FROM t WHERE id = 9", "SELECT 1"],
    ] {
        for by_text in [true, false] {
            let mut bytes = Vec::new();
            for sql in statements {
                if by_text {
                    put_query(&mut bytes, sql.as_bytes());
                } else {
                    put_parse(&mut bytes, b"", sql.as_bytes(), &[]);
                    put_bound(&mut bytes, "", &[]);
                }
            }
            let mut wanted = answered(beside.directly(), &bytes);
            assert_eq!(wanted.len(), statements.len(), "{statements:?}");
            wanted.iter_mut().for_each(|reply| reply.notified = 0);
            for _ in 0..4 {
                let mut found = answered(beside.through(), &bytes);
                found.iter_mut().for_each(|reply| reply.notified = 0);
                assert_eq!(found, wanted, "{statements:?}, by text: {by_text}");
            }
        }
    }
}

#[test]
fn whoever_sends_no_more_amid_what_waits_for_it_keeps_no_server_connection() {
    let beside = Beside::new("CREATE TABLE t (id int)", "pool.size = 1");
    // Whoever has ended its side waits for a server connection for a second at most.
    until_known(&beside.weir, &mut client(&beside.weir).expect("let in"));
    let mut copy_by_parse = Vec::new();
    put_parse(&mut copy_by_parse, b"", b"COPY t FROM STDIN", &[]);
    put_bound(&mut copy_by_parse, "", &[]);
    let mut copy_by_query = Vec::new();
    put_query(&mut copy_by_query, b"COPY t FROM STDIN");
    let mut within = Vec::new();
    put_parse(&mut within, b"", b"SELECT 1", &[]);
    let mut half = Vec::new();
    put_query(&mut half, b"BEGIN");
    put_query(&mut half, b"INSERT INTO t VALUES (1)");
    put_query(&mut half, b"SELECT 'half of it'");
    half.truncate(half.len() - 5);
    for bytes in [copy_by_parse, copy_by_query, within, half] {
        let wanted = messages(beside.directly(), &bytes);
        assert_eq!(messages(beside.through(), &bytes), wanted);
        // The next client has the only connection.
        assert_eq!(asks(&mut beside.through(), "SELECT count(*) FROM t").value(), Some("0"));
    }
}
