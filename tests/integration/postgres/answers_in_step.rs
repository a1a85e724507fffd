//! Each answer belongs to its question, whatever a server says unasked: that a connection ends,
//! that a setting has changed, that somebody was notified.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rig::beside::EndGuard;
use rig::postgres::{Cluster, MessageClient, Reply, SUPERUSER};
use rig::wait;
use wire::postgres::frontend::put_query;

use super::beside::{Beside, put_bound};

const WRITERS: u64 = 24;
/// As many answers as are to be heard meanwhile at least.
const ANSWERS_MIN: u64 = 500;
/// How long the server is disturbed.
const DISTURBED: Duration = Duration::from_secs(4);

const TABLE: &str = "CREATE TABLE t (id int PRIMARY KEY, k int NOT NULL DEFAULT 0)";

/// What was asked, and how its answer begins.
struct ExpectedAnswer {
    sql: String,
    tag: &'static str,
    value: Option<String>,
}

/// Questions whose answers can be told from each other, by turns.
fn question(writer: u64, n: u64) -> ExpectedAnswer {
    let id = writer * 1_000_000 + n / 4;
    let (sql, tag, value) = match n % 4 {
        0 => (format!("INSERT INTO t VALUES ({id}, 0)"), "INSERT 0 ", None),
        1 => (format!("UPDATE t SET k = k + 1 WHERE id = {id}"), "UPDATE ", None),
        2 => (format!("DELETE FROM t WHERE id = {id}"), "DELETE ", None),
        _ => (format!("SELECT {}", writer * 7 + n), "SELECT 1", Some((writer * 7 + n).to_string())),
    };
    ExpectedAnswer { sql, tag, value }
}

/// Whether an answer can be that to a question.
fn fits(asked: &ExpectedAnswer, reply: &Reply) -> Result<(), String> {
    let tag_fits = reply.tags.iter().all(|tag| tag.starts_with(asked.tag));
    let value_fits = reply.error.is_some() || reply.value() == asked.value.as_deref();
    let whole = reply.error.is_some() || reply.tags.len() == 1;
    if tag_fits && value_fits && whole && reply.status == 'I' {
        return Ok(());
    }
    Err(format!("{} was answered by {reply:?}", asked.sql))
}

/// Asks and hears until the time is up; where its connection ends it comes back.
fn writes(
    address: SocketAddr,
    writer: u64,
    stop: &AtomicBool,
    heard: &AtomicU64,
) -> Result<(), String> {
    let mut n = writer * 4;
    'connected: while !stop.load(Ordering::Relaxed) {
        let parameters = [("user", SUPERUSER), ("database", SUPERUSER)];
        let Ok(mut peer) = MessageClient::connect(address, &parameters) else { continue };
        let mut asked = VecDeque::new();
        while !stop.load(Ordering::Relaxed) {
            let mut out = Vec::new();
            for _ in 0..1 + n % 3 {
                let question = question(writer, n);
                if n.is_multiple_of(2) {
                    put_query(&mut out, question.sql.as_bytes());
                } else {
                    wire::postgres::frontend::put_parse(
                        &mut out,
                        b"",
                        question.sql.as_bytes(),
                        &[],
                    );
                    put_bound(&mut out, "", &[]);
                }
                asked.push_back(question);
                n += 1;
            }
            if peer.send(&out).is_err() {
                continue 'connected;
            }
            while let Some(question) = asked.pop_front() {
                // What it was told last may be that its connection ends.
                let Ok(reply) = peer.reply() else { continue 'connected };
                fits(&question, &reply)?;
                heard.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
    Ok(())
}

/// Writers while a server is disturbed; what is wrong.
fn disturbed(beside: &mut Beside, mut disturb: impl FnMut(&mut Cluster)) {
    let (stop, heard) = (AtomicBool::new(false), AtomicU64::new(0));
    let Beside { cluster, weir } = beside;
    let address = weir.postgres;
    let results: Vec<_> = thread::scope(|scope| {
        let (stop, heard) = (&stop, &heard);
        let end = EndGuard(stop);
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| scope.spawn(move || writes(address, writer, stop, heard)))
            .collect();
        let begun = Instant::now();
        while begun.elapsed() < DISTURBED || heard.load(Ordering::Relaxed) < ANSWERS_MIN {
            disturb(cluster);
            assert!(begun.elapsed() < wait::LONG, "hardly anything is answered");
        }
        drop(end);
        writers.into_iter().map(|writer| writer.join().expect("no panic")).collect()
    });
    let wrong: Vec<_> = results.iter().filter_map(|of| of.as_ref().err()).collect();
    assert!(wrong.is_empty(), "{} of {WRITERS}, the first: {}", wrong.len(), wrong[0]);
    let log = weir.log();
    assert!(!log.contains("panicked"), "{log}");
}

#[test]
fn when_server_processes_are_ended_in_the_midst_of_batches() {
    let mut beside = Beside::new(TABLE, "");
    disturbed(&mut beside, |cluster| {
        cluster.sql(
            "WITH theirs AS MATERIALIZED (SELECT pid FROM pg_stat_activity \
             WHERE backend_type = 'client backend' AND pid <> pg_backend_pid() AND random() < 0.3) \
             SELECT pg_terminate_backend(pid) FROM theirs",
        );
        thread::sleep(Duration::from_millis(60));
    });
}

#[test]
fn when_the_server_restarts_fast() {
    let mut beside = Beside::new(TABLE, "");
    disturbed(&mut beside, |cluster| {
        thread::sleep(Duration::from_millis(700));
        cluster.restart();
    });
}

#[test]
fn when_the_server_stops_at_once_or_a_process_of_it_crashes() {
    let mut beside = Beside::new(TABLE, "");
    let mut crash = false;
    disturbed(&mut beside, |cluster| {
        thread::sleep(Duration::from_millis(700));
        crash = !crash;
        if crash {
            // The others warn their clients (57P02) and end.
            crash_one(cluster);
            thread::sleep(Duration::from_millis(500));
        } else {
            cluster.stop_at_once();
            cluster.start_again();
        }
    });
}

/// Kills one of the server's processes that serve clients.
fn crash_one(cluster: &Cluster) {
    let sql = "SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend' \
               AND pid <> pg_backend_pid() LIMIT 1";
    let found = cluster.try_sql(sql).ok().and_then(|rows| rows.into_iter().flatten().next()?);
    let pid = found.and_then(|pid| pid.parse().ok()).and_then(rustix::process::Pid::from_raw);
    if let Some(pid) = pid {
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
    }
}

#[test]
fn when_a_reported_setting_changes_for_all() {
    let mut beside = Beside::new(TABLE, "");
    let mut n = 0;
    disturbed(&mut beside, |cluster| {
        n += 1;
        let zone = ["Asia/Tokyo", "America/Lima"][n % 2];
        cluster.sql(&format!("ALTER SYSTEM SET timezone = '{zone}'"));
        cluster.reload();
        thread::sleep(Duration::from_millis(30));
    });
}

#[test]
fn when_somebody_else_notifies() {
    let mut beside = Beside::new(TABLE, "");
    let parameters = [("user", SUPERUSER), ("database", SUPERUSER)];
    // One that listens on a server connection of its own, another by Weir.
    let mut listening = Vec::new();
    for sql in ["LISTEN t", "BEGIN; LISTEN t; COMMIT"] {
        let mut peer =
            MessageClient::connect(beside.weir.postgres, &parameters).expect("it is let in");
        let mut out = Vec::new();
        put_query(&mut out, sql.as_bytes());
        peer.send(&out).expect("it is taken");
        assert_eq!(peer.reply().expect("it is answered").error, None, "{sql}");
        listening.push(peer);
    }
    disturbed(&mut beside, |cluster| {
        cluster.sql("SELECT pg_notify('t', n::text) FROM generate_series(1, 50) n");
    });
    for mut peer in listening {
        let mut out = Vec::new();
        put_query(&mut out, b"SELECT 'still here'");
        peer.send(&out).expect("it is taken");
        let reply = peer.reply().expect("it is answered");
        assert_eq!(reply.value(), Some("still here"));
    }
}
