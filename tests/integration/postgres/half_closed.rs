//! A client that ends its sending side behind its last message has all its answers.

use wire::postgres::frontend::{put_parse, put_query};

use super::beside::{Beside, put_bound};
use super::scene::{client, until_known};
use crate::isolation::peer::{Peer, Reply};

/// Sends all of it and nothing more; what is answered up to the end of the connection.
fn answered(mut peer: Peer, bytes: &[u8]) -> Vec<Reply> {
    peer.send(bytes).expect("it is taken");
    peer.ends_sending().expect("its own side");
    std::iter::from_fn(|| peer.reply().ok()).collect()
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
