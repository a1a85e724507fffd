//! Writes of many clients that share transactions: none is lost, none is done twice, and each
//! client hears of its own.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use pg::Client;
use rig::beside::EndGuard;
use rig::postgres::{Cluster, MessageClient, SUPERUSER};
use rig::wait;
use rig::weir::Weir;
use wire::postgres::frontend::{Target, put_bind, put_close, put_execute, put_parse, put_sync};

use super::scene::{client, config, console, said, value, weir};

const CLIENTS: u64 = 24;
const WRITES: u64 = 60;

fn cluster() -> Cluster {
    let cluster = Cluster::start();
    cluster.sql(
        "CREATE TABLE t (id int PRIMARY KEY, k int DEFAULT 0, c text);
         INSERT INTO t SELECT n, 0, '' FROM generate_series(1, 8) n;
         CREATE TABLE made (id int PRIMARY KEY, at timestamptz DEFAULT now())",
    );
    cluster
}

fn counted(weir: &Weir, name: &str) -> u64 {
    weir.metrics().sum(name, &[]) as u64
}

/// Rounds that shared a transaction.
fn batched(weir: &Weir) -> u64 {
    weir.metrics().sum("weir_postgres_rounds_total", &[("way", "batch")]) as u64
}

/// Clients whose statements wait for a server.
fn waiting(weir: &Weir) -> u64 {
    weir.metrics().sum("weir_postgres_clients", &[("state", "waiting")]) as u64
}

/// Runs a statement until its like goes into batches.
fn until_batched(weir: &Weir, client: &mut Client, sql: &str) {
    wait::until("it shares a transaction", wait::LONG, || {
        let before = batched(weir);
        client.simple_query(sql).expect("it is done");
        batched(weir) > before
    });
}

/// So many clients at once, each with its number; what they say.
fn together<T: Send>(count: u64, each: impl Fn(u64) -> T + Sync) -> Vec<T> {
    thread::scope(|scope| {
        let each = &each;
        let all: Vec<_> = (0..count).map(|n| scope.spawn(move || each(n))).collect();
        all.into_iter().map(|one| one.join().expect("it ends")).collect()
    })
}

#[test]
fn each_write_is_done_once_however_many_share_a_transaction() {
    let cluster = cluster();
    let weir = weir(&[&cluster], "");
    until_batched(&weir, &mut client(&weir).unwrap(), "UPDATE t SET k = 0 WHERE id = 1");
    until_batched(&weir, &mut client(&weir).unwrap(), "UPDATE t SET k = k + 0 WHERE id = 1");
    cluster.sql("UPDATE t SET k = 0");
    let before = (batched(&weir), counted(&weir, "weir_postgres_batches_total"));
    together(CLIENTS, |n| {
        let mut client = client(&weir).expect("it is let in");
        // As text, and prepared.
        let prepared = client.prepare("UPDATE t SET k = k + $1 WHERE id = $2").unwrap();
        for write in 0..WRITES {
            let row = (n * 7 + write) % 8 + 1;
            if write % 2 == 0 {
                let sql = format!("UPDATE t SET k = k + 1 WHERE id = {row}");
                client.simple_query(&sql).expect("it is done");
            } else {
                let changed = client.execute(&prepared, &[&1_i32, &(row as i32)]);
                assert_eq!(changed.expect("it is done"), 1);
            }
            let sql = format!("INSERT INTO made (id) VALUES ({})", n * WRITES + write);
            client.simple_query(&sql).expect("it is done");
        }
    });
    assert_eq!(cluster.value("SELECT sum(k) FROM t"), (CLIENTS * WRITES).to_string());
    assert_eq!(cluster.value("SELECT count(*) FROM made"), (CLIENTS * WRITES).to_string());
    let (rounds, batches) =
        (batched(&weir) - before.0, counted(&weir, "weir_postgres_batches_total") - before.1);
    assert!(rounds > CLIENTS * WRITES && batches < rounds, "{batches} batches, {rounds} rounds");
    let shared = "SELECT max(n) FROM (SELECT count(*) n FROM made GROUP BY xmin::text) x";
    assert!(cluster.value(shared).parse::<u64>().unwrap() > 1, "no two share a transaction");
}

#[test]
fn an_error_is_told_to_whom_it_belongs() {
    let cluster = cluster();
    let weir = weir(&[&cluster], "");
    until_batched(
        &weir,
        &mut client(&weir).unwrap(),
        "INSERT INTO made VALUES (0) ON CONFLICT DO NOTHING",
    );
    let mut warm = 1_000_000;
    wait::until("inserts share transactions", wait::LONG, || {
        let before = batched(&weir);
        warm += 1;
        let sql = format!("INSERT INTO made (id) VALUES ({warm})");
        client(&weir).unwrap().simple_query(&sql).expect("it is done");
        batched(&weir) > before
    });
    let refused = AtomicU64::new(0);
    together(CLIENTS, |n| {
        let mut client = client(&weir).expect("it is let in");
        for write in 1..=WRITES {
            // Every fourth client inserts what is there.
            let id = if n % 4 == 0 { 0 } else { n * 1000 + write };
            let done = client.simple_query(&format!("INSERT INTO made (id) VALUES ({id})"));
            match done {
                Ok(_) => assert_ne!(id, 0),
                Err(error) => {
                    assert_eq!(id, 0, "{}", said(&error));
                    assert!(said(&error).starts_with("23505 "), "{}", said(&error));
                    refused.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
    });
    assert_eq!(refused.into_inner(), CLIENTS / 4 * WRITES);
    let there = cluster.value("SELECT count(*) FROM made WHERE id BETWEEN 1 AND 999999");
    assert_eq!(there, (CLIENTS * 3 / 4 * WRITES).to_string());
}

#[test]
fn a_lock_of_somebody_elses_holds_up_nobody_but_who_wants_it() {
    let cluster = cluster();
    let weir = weir(&[&cluster], "");
    until_batched(&weir, &mut client(&weir).unwrap(), "UPDATE t SET k = 1 WHERE id = 1");
    let mut holder = cluster.connect().expect("it is let in");
    holder.batch_execute("BEGIN; UPDATE t SET c = 'held' WHERE id = 5").unwrap();
    thread::scope(|scope| {
        let waits = scope.spawn(|| {
            let mut client = client(&weir).expect("it is let in");
            client.simple_query("UPDATE t SET k = 2 WHERE id = 5").expect("it is done in the end");
        });
        let count = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'";
        wait::until("it waits", wait::LONG, || cluster.value(count) == "1");
        together(8, |n| {
            let mut client = client(&weir).expect("it is let in");
            for write in 0..40 {
                let row = if n < 4 { n + 1 } else { n + 2 - n / 7 };
                let row = if row == 5 { 6 } else { row };
                let sql = format!("UPDATE t SET k = {write} WHERE id = {row}");
                client.simple_query(&sql).expect("it is done");
            }
        });
        assert!(!waits.is_finished());
        // What waits for it must not be what its own next lock is refused for.
        holder.batch_execute("UPDATE t SET c = 'too' WHERE id IN (1, 2, 3, 4)").unwrap();
        holder.batch_execute("COMMIT").unwrap();
    });
    assert_eq!(cluster.value("SELECT k || c FROM t WHERE id = 5"), "2held");
}

#[test]
fn what_is_prepared_and_run_in_one_round_waits_for_a_lock_and_is_done_then() {
    let cluster = cluster();
    let weir = weir(&[&cluster], "");
    let sql = "UPDATE t SET k = k + 1 WHERE id = 1";
    until_batched(&weir, &mut client(&weir).unwrap(), sql);
    let parameters = [("user", SUPERUSER), ("database", SUPERUSER)];
    let mut ann = MessageClient::connect(weir.postgres, &parameters).unwrap();
    let mut holder = cluster.connect().expect("it is let in");
    for _ in 0..3 {
        holder.batch_execute("BEGIN; UPDATE t SET k = k WHERE id = 1").unwrap();
        let mut round = Vec::new();
        put_close(&mut round, Target::Statement(b"s"));
        put_parse(&mut round, b"s", sql.as_bytes(), &[]);
        put_bind(&mut round, b"", b"s", &[]);
        put_execute(&mut round, b"", 0);
        put_sync(&mut round);
        ann.send(&round).unwrap();
        // Longer than a batch waits for a lock.
        thread::sleep(Duration::from_millis(200));
        holder.batch_execute("COMMIT").unwrap();
        assert_eq!(ann.reply().unwrap().error, None);
    }
}

#[test]
fn what_a_broken_batch_has_done_is_not_known_and_what_was_told_is_there() {
    let cluster = cluster();
    let weir = weir(&[&cluster], "");
    let mut first = client(&weir).unwrap();
    let mut id = 1_000_000;
    wait::until("inserts share transactions", wait::LONG, || {
        let before = batched(&weir);
        id += 1;
        first.simple_query(&format!("INSERT INTO made (id) VALUES ({id})")).expect("it is done");
        batched(&weir) > before
    });
    cluster.sql("DELETE FROM made");
    let until = Instant::now() + Duration::from_secs(3);
    let told = thread::scope(|scope| {
        let kills = scope.spawn(|| {
            while Instant::now() < until {
                thread::sleep(Duration::from_millis(100));
                cluster.sql(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                     WHERE query LIKE 'INSERT%' AND pid <> pg_backend_pid()",
                );
            }
        });
        let told = together(8, |n| {
            let (mut sure, mut unsure) = (Vec::new(), Vec::new());
            let mut client = None;
            for id in (n * 1_000_000..).take_while(|_| Instant::now() < until) {
                let client = client.get_or_insert_with(|| super::scene::client(&weir).unwrap());
                match client.simple_query(&format!("INSERT INTO made (id) VALUES ({id})")) {
                    Ok(_) => sure.push(id),
                    Err(error) => {
                        let code = error.code().map(|code| code.code().to_owned());
                        assert!(
                            // Without one it is closed already.
                            matches!(code.as_deref(), None | Some("08007" | "57P01" | "08006")),
                            "{id}: {}",
                            said(&error)
                        );
                        unsure.push(id);
                    }
                }
                if client.is_closed() {
                    *client = super::scene::client(&weir).unwrap();
                }
            }
            (sure, unsure)
        });
        kills.join().expect("it ends");
        told
    });
    let there: std::collections::HashSet<u64> = cluster
        .sql("SELECT id::text FROM made")
        .into_iter()
        .filter_map(|row| row[0].as_deref()?.parse().ok())
        .collect();
    let (sure, unsure): (Vec<_>, Vec<_>) = told.into_iter().unzip();
    let (sure, unsure) = (sure.concat(), unsure.concat());
    assert!(sure.iter().all(|id| there.contains(id)), "what was told is not there");
    assert!(there.len() <= sure.len() + unsure.len(), "more is there than was sent");
    assert!(!unsure.is_empty() && sure.len() > 100, "{} and {}", sure.len(), unsure.len());
}

#[test]
fn what_others_could_tell_goes_alone() {
    let cluster = cluster();
    cluster.sql(
        "CREATE TABLE watched (id int PRIMARY KEY, k int);
         INSERT INTO watched VALUES (1, 0);
         CREATE FUNCTION tell() RETURNS trigger LANGUAGE plpgsql AS
             $$ BEGIN PERFORM pg_notify('w', ''); RETURN new; END $$;
         CREATE TRIGGER w AFTER UPDATE ON watched FOR EACH ROW EXECUTE FUNCTION tell();
         CREATE TABLE parent (id int PRIMARY KEY, k int);
         INSERT INTO parent VALUES (1, 0);
         CREATE TABLE child (id int REFERENCES parent ON DELETE CASCADE);
         CREATE FUNCTION checks(int) RETURNS bool LANGUAGE sql AS 'SELECT true';
         CREATE TABLE checked (id int PRIMARY KEY, k int CHECK (checks(k)));
         INSERT INTO checked VALUES (1, 0);
         CREATE TABLE guarded (id int PRIMARY KEY, k int);
         INSERT INTO guarded VALUES (1, 0);
         ALTER TABLE guarded ENABLE ROW LEVEL SECURITY",
    );
    let weir = weir(&[&cluster], "");
    let mut one = client(&weir).unwrap();
    until_batched(&weir, &mut one, "UPDATE t SET k = 1 WHERE id = 1");
    for table in ["watched", "parent", "checked", "guarded"] {
        let before = batched(&weir);
        for _ in 0..20 {
            one.simple_query(&format!("UPDATE {table} SET k = 1 WHERE id = 1")).unwrap();
        }
        assert_eq!(batched(&weir), before, "{table}");
    }
    // Sessions whose transactions are of another kind, or that say how long they wait for locks.
    let own =
        ["SET default_transaction_isolation = 'serializable'", "SET lock_timeout = '5s'", "BEGIN"];
    for own in own {
        let mut other = client(&weir).unwrap();
        other.simple_query(own).unwrap();
        let before = batched(&weir);
        for _ in 0..20 {
            other.simple_query("UPDATE t SET k = 1 WHERE id = 1").unwrap();
        }
        assert_eq!(batched(&weir), before, "{own}");
    }
    // A trigger that is new, made through Weir.
    until_batched(&weir, &mut one, "UPDATE t SET k = 1 WHERE id = 1");
    one.simple_query("CREATE TRIGGER w AFTER UPDATE ON t FOR EACH ROW EXECUTE FUNCTION tell()")
        .unwrap();
    let before = batched(&weir);
    for _ in 0..20 {
        one.simple_query("UPDATE t SET k = 1 WHERE id = 1").unwrap();
    }
    assert_eq!(batched(&weir), before);
}

#[test]
fn one_that_waits_can_be_cancelled_and_goes_on_after_a_pause() {
    let cluster = cluster();
    let weir = weir(&[&cluster], "");
    let mut one = client(&weir).unwrap();
    until_batched(&weir, &mut one, "UPDATE t SET k = 1 WHERE id = 1");
    let mut console = console(&weir);
    console.simple_query("PAUSE").expect("it is paused");
    let cancel = one.cancel_token();
    thread::scope(|scope| {
        let waits = scope.spawn(|| one.simple_query("UPDATE t SET k = 7 WHERE id = 1").map(drop));
        wait::until("it waits", wait::LONG, || waiting(&weir) > 0);
        cancel.cancel_query(pg::NoTls).expect("it is taken");
        let told = waits.join().expect("it ends").expect_err("it is cancelled");
        assert!(said(&told).starts_with("57014 "), "{}", said(&told));
        let goes_on = scope.spawn(|| one_more(&weir));
        wait::until("it waits", wait::LONG, || waiting(&weir) > 0);
        console.simple_query("RESUME").expect("it goes on");
        goes_on.join().expect("it ends");
    });
    assert_eq!(value(&mut one, "SELECT k FROM t WHERE id = 1").unwrap(), "8");
}

#[test]
fn a_pause_comes_between_two_batches() {
    let cluster = cluster();
    let weir = weir(&[&cluster], "");
    until_batched(&weir, &mut client(&weir).unwrap(), "UPDATE t SET k = 1 WHERE id = 1");
    let (stop, done) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        let end = EndGuard(&stop);
        for n in 1..=8 {
            let (weir, stop, done) = (&weir, &stop, &done);
            scope.spawn(move || {
                let mut client = client(weir).expect("it is let in");
                while !stop.load(Ordering::Relaxed) {
                    let sql = format!("UPDATE t SET k = 2 WHERE id = {n}");
                    client.simple_query(&sql).expect("it is done");
                    done.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        wait::until("they write", wait::LONG, || done.load(Ordering::Relaxed) > 100);
        let mut console = console(&weir);
        console.simple_query("PAUSE").expect("it is paused");
        wait::until("all wait", wait::LONG, || waiting(&weir) == 8);
        let before = done.load(Ordering::Relaxed);
        thread::sleep(Duration::from_millis(50));
        assert_eq!(done.load(Ordering::Relaxed), before);
        console.simple_query("RECONNECT").expect("they are outdated");
        console.simple_query("RESUME").expect("it goes on");
        let more = || done.load(Ordering::Relaxed) > before + 100;
        wait::until("they write again", wait::LONG, more);
        drop(end);
    });
}

fn one_more(weir: &Weir) {
    let mut client = config(weir.postgres, rig::postgres::SUPERUSER, rig::postgres::SUPERUSER)
        .connect(pg::NoTls)
        .expect("it is let in");
    client.simple_query("UPDATE t SET k = 8 WHERE id = 1").expect("it is done");
}
