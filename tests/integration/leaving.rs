//! Clients that leave in the midst of a round, on a server connection of their own, and servers
//! that do.

use rig::postgres::{Cluster, MessageClient, SUPERUSER};
use rig::wait;
use rig::weir::{Setup, Weir};
use wire::postgres::frontend::{
    put_bind, put_execute, put_flush, put_parse, put_query, put_sync, put_terminate,
};
use wire::postgres::message;

fn weir(cluster: &Cluster) -> Weir {
    let url = cluster.url();
    let table = format!(
        "[postgres]\nlisten = \"{{postgres}}\"\n\
         [[postgres.auth]]\naddress = [\"127.0.0.1\"]\nmethod = \"trust\"\n\
         [[postgres.backend]]\nname = \"a\"\nurl = \"{url}\"\n"
    );
    Setup::new().top("workers = 1").table(&table).start()
}

fn connect(weir: &Weir) -> MessageClient {
    let parameters = [("user", SUPERUSER), ("database", SUPERUSER)];
    MessageClient::connect(weir.postgres, &parameters).expect("it is let in")
}

/// Parse, Bind and Execute; what ends the round is the caller's.
fn put_run(out: &mut Vec<u8>, sql: &str) {
    put_parse(out, b"", sql.as_bytes(), &[]);
    put_bind(out, b"", b"", &[]);
    put_execute(out, b"", 0);
}

fn copy_in(out: &mut Vec<u8>) {
    put_query(out, b"COPY seen FROM STDIN");
}

fn copy_in_by_parts(out: &mut Vec<u8>) {
    put_run(out, "COPY seen FROM STDIN");
    put_sync(out);
}

fn round_without_sync(out: &mut Vec<u8>) {
    put_run(out, "INSERT INTO seen VALUES (2)");
    put_flush(out);
}

#[test]
fn a_client_that_leaves_in_the_midst_of_a_round_leaves_nothing_behind() {
    let cluster = Cluster::start();
    cluster.sql("CREATE TABLE seen (n int)");
    let weir = weir(&cluster);
    let left = "SELECT count(*) FROM pg_locks WHERE relation = 'seen'::regclass";
    for begin in [copy_in, copy_in_by_parts, round_without_sync] {
        for (says_so, waits) in [(true, true), (true, false), (false, true)] {
            let mut peer = connect(&weir);
            let mut out = Vec::new();
            put_run(&mut out, "INSERT INTO seen VALUES (1)");
            put_sync(&mut out);
            begin(&mut out);
            if waits {
                peer.send(&out).expect("it is there");
                out.clear();
                wait::until("it has begun", wait::LONG, || cluster.value(left) == "1");
            }
            if says_so {
                put_terminate(&mut out);
            }
            peer.send(&out).expect("it is there");
            // Where it says so, that has to do: the socket stays open.
            let still = says_so.then_some(peer);
            wait::until("its server connection ends", wait::LONG, || cluster.value(left) == "0");
            drop(still);
        }
    }
    wait::until("whole rounds count", wait::LONG, || {
        cluster.value("SELECT sum(n) FROM seen") == "9"
    });
}

#[test]
fn a_client_that_leaves_behind_what_no_copy_takes_any_more_is_let_go() {
    let cluster = Cluster::start();
    cluster.sql("CREATE TABLE seen (n int)");
    let weir = weir(&cluster);
    let mut peer = connect(&weir);
    let mut out = Vec::new();
    copy_in(&mut out);
    message(&mut out, b'd', |out| out.extend_from_slice(b"no number\n"));
    let rest = out.len() + 100_000;
    message(&mut out, b'd', |out| out.resize(out.len() + 200_000, b'\n'));
    put_terminate(&mut out);
    peer.send(&out[..rest]).expect("it is there");
    assert_eq!(peer.reply().expect("it is asked for data").status, 'G');
    assert_eq!(peer.reply().expect("it answers").error.as_deref(), Some("22P02"));
    peer.send(&out[rest..]).expect("it is there");
    let end = peer.reply().expect_err("it is closed");
    assert_eq!(end.to_string(), "unexpected end of file");
}

/// How the server ends what `sql` has begun, and whatever follows it.
fn ended(cluster: &Cluster, weir: &Weir, sql: &str) -> [String; 2] {
    let mut peer = connect(weir);
    let mut out = Vec::new();
    put_query(&mut out, b"SET application_name = 'ended'");
    peer.send(&out).expect("it is there");
    peer.reply().expect("it answers");
    out.clear();
    put_query(&mut out, sql.as_bytes());
    peer.send(&out).expect("it is there");
    if !sql.contains("pg_sleep") {
        peer.reply().expect("it answers");
    }
    let process = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
                   WHERE application_name = 'ended' AND query ~ 'seen|sleep'";
    wait::until("it is there", wait::LONG, || cluster.value(process) == "1");
    [(); 2].map(|()| peer.reply().expect_err("it is closed").to_string())
}

#[test]
fn what_a_server_says_in_leaving_is_the_last_word() {
    let cluster = Cluster::start();
    cluster.sql("CREATE TABLE seen (n int)");
    let weir = weir(&cluster);
    for sql in [
        "SELECT pg_sleep(100)",
        "BEGIN; INSERT INTO seen VALUES (1)",
        "BEGIN; INSERT INTO seen VALUES (1); SELECT pg_sleep(100)",
        "CREATE TEMPORARY TABLE seen_here (n int)",
    ] {
        let [said, then] = ended(&cluster, &weir, sql);
        assert!(said.contains("57P01 terminating connection due to admin"), "{sql}: {said}");
        assert_eq!(then, "unexpected end of file", "{sql}");
    }
}
