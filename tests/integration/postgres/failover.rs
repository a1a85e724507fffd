//! The primary is killed under load and a replica promoted.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use rig::beside::EndGuard;
use rig::postgres::{Cluster, Setup, rows};
use rig::wait;
use rig::weir::Weir;

use super::scene::{client, weir};

/// Clients that write and read what they have written.
const SESSIONS: usize = 8;
/// Reads after each write.
const READS: usize = 10;
/// What a session hears that has waited for a primary in vain.
const NO_PRIMARY: &str = "no server is the primary now";

/// What came of one session.
#[derive(Debug, Default)]
struct SessionOutcome {
    /// Numbers whose insert was acknowledged.
    acknowledged: Vec<u64>,
    /// Errors of writes, whose outcome is unknown, and of reads.
    errors: Vec<String>,
    /// Reads that missed the session's own write.
    stale: Vec<String>,
}

/// Writes a number, reads the highest back a few times, and so on.
fn session(weir: &Weir, number: usize, stop: &AtomicBool) -> SessionOutcome {
    let (mut told, mut connection, mut next) = (SessionOutcome::default(), None, 0u64);
    while !stop.load(Ordering::Relaxed) {
        let open = match connection.take() {
            Some(open) => Ok(open),
            None => client(weir),
        };
        let mut open = match open {
            Ok(open) => open,
            Err(error) => {
                told.errors.push(format!("connect: {error:?}"));
                continue;
            }
        };
        next += 1;
        let insert = format!("INSERT INTO t VALUES ({number}, {next})");
        match open.simple_query(&insert) {
            Ok(_) => told.acknowledged.push(next),
            Err(error) => {
                told.errors.push(format!("insert: {error:?}"));
                // A session's own writes are those of its connection.
                continue;
            }
        }
        let select = format!("SELECT max(n) FROM t WHERE s = {number}");
        for _ in 0..READS {
            match rows(&mut open, &select) {
                Ok(found) => {
                    let newest = found[0][0].as_deref().and_then(|n| n.parse().ok());
                    if newest.unwrap_or(0u64) < next {
                        told.stale.push(format!("wrote {next}, read {newest:?}"));
                    }
                }
                Err(error) => told.errors.push(format!("select: {error:?}")),
            }
            // The later ones find replicas that have the write.
            thread::sleep(Duration::from_millis(20));
        }
        if !open.is_closed() {
            connection = Some(open);
        }
    }
    told
}

fn selects(cluster: &Cluster) -> u64 {
    let ask = "SELECT coalesce(sum(seq_scan + coalesce(idx_scan, 0)), 0) \
               FROM pg_stat_user_tables WHERE relname = 't'";
    cluster.value(ask).parse().unwrap_or(0)
}

#[test]
fn a_primary_killed_under_load_costs_no_acknowledged_write_and_no_session_its_own() {
    // A commit waits for one replica, so that a failover by itself loses nothing.
    let setup = Setup::new().setting("synchronous_standby_names", "*");
    let mut primary = setup.start();
    primary.sql("SET synchronous_commit = local; CREATE TABLE t (s int, n bigint)");
    primary.sql("SET synchronous_commit = local; CREATE INDEX ON t (s, n)");
    let (second, third) = (primary.replica(), primary.replica());
    second.catch_up(&primary);
    third.catch_up(&primary);
    let weir = weir(&[&primary, &second, &third], "failover-wait = \"120s\"");
    client(&weir).expect("it takes clients");

    let stop = AtomicBool::new(false);
    let told: Vec<SessionOutcome> = thread::scope(|scope| {
        let (weir, stop) = (&weir, &stop);
        let end = EndGuard(stop);
        let sessions: Vec<_> =
            (0..SESSIONS).map(|n| scope.spawn(move || session(weir, n, stop))).collect();
        // Replicas take reads of sessions' own writes once they have them.
        wait::until("replicas read", wait::LONG, || selects(&second) + selects(&third) > 20);
        primary.kill();
        // Until then they may still take in what the primary has sent.
        let streams = "SELECT count(*) FROM pg_stat_wal_receiver WHERE status = 'streaming'";
        wait::until("nobody follows it", wait::LONG, || {
            [&second, &third].iter().all(|replica| replica.value(streams) == "0")
        });
        let (to, from) = match position(&second) >= position(&third) {
            true => (&second, &third),
            false => (&third, &second),
        };
        to.promote();
        from.follow(to);
        let rows = |cluster: &Cluster| cluster.value("SELECT count(*) FROM t");
        let at = rows(to);
        wait::until("writes go on", wait::LONG, || rows(to) != at);
        let reads = selects(from);
        wait::until("reads go on", wait::LONG, || selects(from) > reads + 20);
        drop(end);
        sessions.into_iter().map(|session| session.join().expect("no panic")).collect()
    });

    let promoted = if second.is_replica() { &third } else { &second };
    let mut errors = 0;
    for (number, told) in told.iter().enumerate() {
        assert!(told.stale.is_empty(), "session {number}: {:?}", told.stale);
        let there = promoted.sql(&format!("SELECT n FROM t WHERE s = {number}"));
        let there: std::collections::HashSet<u64> =
            there.iter().filter_map(|row| row[0].as_deref()?.parse().ok()).collect();
        let lost: Vec<_> = told.acknowledged.iter().filter(|n| !there.contains(n)).collect();
        assert!(lost.is_empty(), "session {number} lost {lost:?}");
        errors += told.errors.len();
        // One write may have been under way when the primary died; the others wait, not in vain.
        assert!(told.errors.len() <= 3, "session {number}: {:#?}", told.errors);
        let in_vain = told.errors.iter().any(|error| error.contains(NO_PRIMARY));
        assert!(!in_vain, "session {number}: {:#?}", told.errors);
    }
    eprintln!("{errors} errors in {SESSIONS} sessions");
}

fn position(cluster: &Cluster) -> u64 {
    let ask = "SELECT pg_last_wal_receive_lsn() - '0/0'::pg_lsn";
    cluster.value(ask).parse().expect("a position")
}
