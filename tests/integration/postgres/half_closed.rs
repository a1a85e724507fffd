//! A client that ends its sending side behind its last message has all its answers.

use rustix::process::{Pid, Signal, kill_process};
use wire::postgres::backend::tag;
use wire::postgres::frontend::{put_parse, put_query};

use super::beside::{Beside, put_bound};
use super::scene::{asks, client, until_known};
use rig::postgres::{MessageClient, Reply};

/// Sends all of it and nothing more.
fn sends(peer: &mut MessageClient, bytes: &[u8]) {
    peer.send(bytes).expect("it is taken");
    peer.ends_sending().expect("its own side");
}

/// What is answered to all of it up to the end of the connection.
fn answered(mut peer: MessageClient, bytes: &[u8]) -> Vec<Reply> {
    sends(&mut peer, bytes);
    std::iter::from_fn(|| peer.reply().ok()).collect()
}

/// The same message by message: a server may tell of several errors amid a COPY. Who waits long for
/// a server connection may hear once more what it was told of settings.
fn messages(mut peer: MessageClient, bytes: &[u8]) -> Vec<(u8, Vec<u8>)> {
    sends(&mut peer, bytes);
    let all = std::iter::from_fn(|| peer.message().ok());
    all.filter(|(kind, _)| *kind != tag::PARAMETER_STATUS).collect()
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

/// Weir looks each second whether who waits has gone.
#[test]
fn who_sends_nothing_more_waits_for_a_server_connection_and_who_has_gone_does_not() {
    let beside = Beside::new("CREATE TABLE t (id int)", "pool.size = 1");
    until_known(&beside.weir, &mut client(&beside.weir).expect("let in"));
    let mut holder = beside.through();
    asks(&mut holder, "BEGIN");
    asks(&mut holder, "LOCK TABLE t IN SHARE MODE");
    let mut waits = beside.through();
    let mut bytes = Vec::new();
    put_query(&mut bytes, b"INSERT INTO t VALUES (1); SELECT 'it has waited'");
    sends(&mut waits, &bytes);
    let mut goes = beside.through();
    bytes.clear();
    put_query(&mut bytes, b"INSERT INTO t VALUES (2); SELECT 'nobody hears it'");
    sends(&mut goes, &bytes);
    drop(goes);
    std::thread::sleep(std::time::Duration::from_millis(3_500));
    asks(&mut holder, "COMMIT");
    let replies: Vec<Reply> = std::iter::from_fn(|| waits.reply().ok()).collect();
    assert_eq!(replies.len(), 1);
    assert_eq!(replies[0].value(), Some("it has waited"));
    let rows = asks(&mut beside.through(), "SELECT id FROM t").rows;
    assert_eq!(rows, [[Some("1".to_owned())]], "who had gone ran nothing");
}

/// Weir listens on one connection, which a server may be slow to answer.
#[test]
fn who_sends_nothing_more_waits_for_a_listen_to_be_confirmed() {
    let beside = Beside::new("", "");
    asks(&mut beside.through(), "LISTEN other");
    let pid = "SELECT pid FROM pg_stat_activity WHERE application_name = 'weir: listen'";
    let process = beside.cluster.value(pid);
    let process = Pid::from_raw(process.parse().expect("its number")).expect("it is one");
    let mut waits = beside.through();
    kill_process(process, Signal::STOP).expect("it is there");
    let mut bytes = Vec::new();
    put_query(&mut bytes, b"LISTEN c");
    put_query(&mut bytes, b"SELECT 'it has waited'");
    sends(&mut waits, &bytes);
    std::thread::sleep(std::time::Duration::from_millis(2_500));
    kill_process(process, Signal::CONT).expect("it is there");
    let replies: Vec<Reply> = std::iter::from_fn(|| waits.reply().ok()).collect();
    assert_eq!(replies.len(), 2, "{replies:?}");
    assert_eq!((&*replies[0].tags[0], replies[1].value()), ("LISTEN", Some("it has waited")));
}
