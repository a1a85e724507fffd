//! A network that drops what the server sends, and resets nothing: what waits there ends within
//! `tcp-user-timeout`, whichever way it goes, and a server that is only slow is never taken for
//! gone.

use std::thread;
use std::time::{Duration, Instant};

use rig::network::{Silence, test_apart};
use rig::postgres::{Cluster, MessageClient};
use rig::wait;
use rig::weir::{Setup, Weir};
use wire::postgres::frontend::put_query;

use super::scene::{asks, client, peer, table, until_known, value};

/// The limit in these tests.
const LIMIT: Duration = Duration::from_secs(4);
/// How long before a request its server was heard last, at most: silence begins there, and on a
/// busy machine some time passes until the network is cut and the request is sent.
const HEARD: Duration = Duration::from_secs(1);
/// When a request must have ended that waits in silence: a busy machine looks late.
const ENDED: Duration = Duration::from_secs(30);

fn weir(cluster: &Cluster, lines: &str) -> Weir {
    let top = "workers = 1\ntcp-user-timeout = \"4s\"";
    Setup::new().top(top).table(&table(&[cluster], lines)).start()
}

/// How many connections to servers were ended for their silence.
fn ended(weir: &Weir) -> f64 {
    weir.metrics().sum("weir_server_connections_silent_total", &[])
}

fn query(text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    put_query(&mut out, text.as_bytes());
    out
}

/// What is said to the end of the round, an error's SQLSTATE in it.
fn heard(peer: &mut MessageClient) -> String {
    match peer.reply() {
        Ok(reply) => reply.error.unwrap_or_else(|| "no error".to_owned()),
        Err(error) => error.to_string(),
    }
}

/// Sends to a server that has gone silent, and is told of it within the limit.
#[track_caller]
fn is_unknown_in_time(peer: &mut MessageClient, bytes: &[u8]) {
    let begun = Instant::now();
    peer.send(bytes).expect("it is taken");
    let heard = heard(peer);
    let took = begun.elapsed();
    assert!(heard.contains("08007"), "{heard:?} after {took:?}");
    assert!((LIMIT - HEARD..ENDED).contains(&took), "{took:?}");
}

#[test]
fn a_statement_of_a_transaction_hears_of_a_silent_network() {
    test_apart(None, || {
        let cluster = Cluster::start();
        let weir = weir(&cluster, "");
        let mut ann = peer(&weir);
        asks(&mut ann, "CREATE TABLE t (n int)");
        asks(&mut ann, "BEGIN");
        asks(&mut ann, "INSERT INTO t VALUES (1)");
        let _silence = Silence::of(cluster.address.port());
        is_unknown_in_time(&mut ann, &query("INSERT INTO t VALUES (2)"));
        weir.wait_log("acknowledged nothing for tcp-user-timeout");
    });
}

#[test]
fn a_statement_that_the_server_has_hears_of_a_silent_network_too() {
    test_apart(None, || {
        let cluster = Cluster::start();
        let weir = weir(&cluster, "");
        let mut ann = peer(&weir);
        asks(&mut ann, "BEGIN");
        let begun = Instant::now();
        ann.send(&query("SELECT pg_sleep(600)")).expect("it is taken");
        let running = "SELECT count(*) FROM pg_stat_activity WHERE query = 'SELECT pg_sleep(600)'";
        wait::until("the server has it", wait::LONG, || cluster.value(running) == "1");
        let _silence = Silence::of(cluster.address.port());
        // Nothing is owed: the kernel asks for a sign of life, and there is none.
        let heard = heard(&mut ann);
        assert!(heard.contains("08007"), "{heard:?}");
        assert!(begun.elapsed() < 2 * ENDED, "{:?}", begun.elapsed());
    });
}

#[test]
fn a_copy_hears_of_a_silent_network() {
    test_apart(None, || {
        let cluster = Cluster::start();
        let weir = weir(&cluster, "");
        let mut ann = peer(&weir);
        asks(&mut ann, "CREATE TABLE t (n int)");
        assert_eq!(asks(&mut ann, "COPY t FROM STDIN").status, 'G');
        let _silence = Silence::of(cluster.address.port());
        let data = [b"d\0\0\0\x061\n".repeat(64), b"c\0\0\0\x04".to_vec()].concat();
        is_unknown_in_time(&mut ann, &data);
    });
}

#[test]
fn a_write_hears_of_a_silent_network_in_a_batch_and_by_lease() {
    for lines in ["", "[postgres.batches]\non = false"] {
        test_apart(None, || {
            let cluster = Cluster::start();
            cluster.sql("CREATE TABLE t (n int PRIMARY KEY)");
            let weir = weir(&cluster, lines);
            until_known(&weir, &mut client(&weir).expect("let in"));
            let mut ann = peer(&weir);
            for n in 0..20 {
                asks(&mut ann, &format!("INSERT INTO t VALUES ({n})"));
            }
            let _silence = Silence::of(cluster.address.port());
            is_unknown_in_time(&mut ann, &query("INSERT INTO t VALUES (99)"));
        });
    }
}

/// A read that a silent network has swallowed is asked again, and answered once the network is
/// back.
#[track_caller]
fn is_asked_again(lines: &str, way: &str) {
    const READ: &str = "SELECT n FROM t";
    test_apart(None, || {
        let cluster = Cluster::start();
        cluster.sql("CREATE TABLE t (n int)");
        cluster.sql("INSERT INTO t VALUES (1)");
        let weir = weir(&cluster, lines);
        let mut ann = client(&weir).expect("let in");
        let rounds = || weir.metrics().sum("weir_postgres_rounds_total", &[("way", way)]);
        wait::until("it goes this way", wait::LONG, || {
            let before = rounds();
            assert_eq!(value(&mut ann, READ).as_deref(), Ok("1"));
            rounds() > before
        });
        let before = ended(&weir);
        let silence = Silence::of(cluster.address.port());
        let asking = thread::spawn(move || {
            let begun = Instant::now();
            (value(&mut ann, READ), begun.elapsed())
        });
        wait::until("its connection has ended", ENDED, || ended(&weir) > before);
        drop(silence);
        let (answer, took) = asking.join().expect("no panic");
        assert_eq!(answer.as_deref(), Ok("1"), "after {took:?}");
        assert!(took >= LIMIT, "{took:?}");
    });
}

#[test]
fn a_read_of_a_lane_is_asked_again_after_a_silent_network() {
    is_asked_again("", "lane");
}

#[test]
fn a_read_by_lease_is_asked_again_after_a_silent_network() {
    is_asked_again("[postgres.lanes]\non = false", "lease");
}

#[test]
fn a_copy_that_waits_for_a_lock_is_not_taken_for_a_silent_network() {
    let cluster = Cluster::start();
    let weir = weir(&cluster, "");
    let mut holder = peer(&weir);
    asks(&mut holder, "CREATE TABLE t (n int PRIMARY KEY, s text)");
    asks(&mut holder, "BEGIN");
    asks(&mut holder, "INSERT INTO t VALUES (0)");
    let mut ann = peer(&weir);
    assert_eq!(asks(&mut ann, "COPY t FROM STDIN").status, 'G');
    let text = "x".repeat(8000);
    let copying = thread::spawn(move || {
        for n in 0..2000 {
            let row = format!("{n}\t{text}\n");
            let len = u32::try_from(row.len() + 4).expect("it is short");
            ann.send(&[b"d", &len.to_be_bytes()[..], row.as_bytes()].concat())?;
        }
        ann.send(b"c\0\0\0\x04")?;
        ann.reply()
    });
    // The server waits for the holder's row and reads nothing: its window closes.
    let waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'";
    wait::until("it waits for the lock", wait::LONG, || cluster.value(waits) == "1");
    let until = Instant::now() + 4 * LIMIT;
    wait::until("it has waited for long", wait::LONG, || Instant::now() > until);
    assert!(!copying.is_finished());
    asks(&mut holder, "ROLLBACK");
    let reply = copying.join().expect("no panic").expect("it is heard");
    assert_eq!((reply.error, reply.tags), (None, vec!["COPY 2000".to_owned()]));
    assert_eq!(ended(&weir), 0.0);
}
