//! What was acknowledged is there, once, after restarts and kills.

use std::thread;
use std::time::Duration;

use rand::Rng as _;
use rig::sending;
use rig::status::Account;
use rig::{chance, wait};

use super::{count, get, must_run, rows, store, values, with};
use crate::kill::until_taken;
use crate::scene::{point, points, single_points};

#[test]
fn what_is_written_can_be_read_at_once_and_after_a_restart() {
    let mut weir = store();
    for n in 0..20 {
        weir.must_write("db", &points(n * 50, 50));
        assert_eq!(count(&weir), (n + 1) * 50, "each write is seen by the next query");
    }
    weir.terminate();
    weir.start_again();
    assert_eq!(count(&weir), 1_000);
    weir.kill();
    weir.start_again();
    assert_eq!(count(&weir), 1_000);
    let found = values(&weir);
    assert!((0..1_000).all(|n| found.get(&(1_600_000_000_000_000_000 + n)) == Some(&(n as i64))));
    let account = weir.account("store");
    assert!(account.adds_up() && account.accepted == 1_000, "{account:?}");
}

/// Kills it while 16 connections write and the store writes files; gives what there is to expect.
fn killed_under_load(memory: &str, kills: u32) {
    let mut weir = with(|setup| setup.store(&format!("memory = \"{memory}\"")));
    let plan = sending::closed(weir.http, 16, Duration::from_secs(3600));
    let stop = plan.stop.clone();
    let running = thread::spawn(move || sending::run(&plan, single_points("db")));
    let mut draws = chance::draws();
    for _ in 0..kills {
        let moment = f64::from(draws.random_range(20..20_000));
        until_taken(&weir, moment);
        weir.kill();
        weir.start_again();
    }
    until_taken(&weir, 100.0);
    stop.ask();
    let report = running.join().unwrap();
    let found = values(&weir);
    let time = |n: u64| 1_600_000_000_000_000_000 + n;
    let lost = report.acknowledged.iter().filter(|n| found.get(&time(**n)) != Some(&(**n as i64)));
    assert_eq!(lost.count(), 0, "of {} acknowledged", report.acknowledged.len());
    assert!(found.keys().all(|at| *at < time(report.sent)), "nothing that was not sent");
    assert_eq!(count(&weir), found.len() as u64, "nothing twice");
    let account = weir.account("store");
    assert!(account.adds_up(), "{account:?}");
}

#[test]
fn a_kill_during_writes_and_flushes_loses_nothing_acknowledged() {
    killed_under_load("1MiB", 4);
}

#[test]
fn a_database_that_is_dropped_and_made_again_while_writes_run_is_a_new_one() {
    let weir = store();
    let plan = sending::closed(weir.http, 8, Duration::from_secs(3600));
    let stop = plan.stop.clone();
    let running = thread::spawn(move || sending::run(&plan, single_points("db")));
    for _ in 0..10 {
        weir.must_write("db", "old v=1i 1\n");
        must_run(&weir, "DROP DATABASE db; CREATE DATABASE db");
        assert!(rows(&weir, "SELECT v FROM old").is_empty());
    }
    stop.ask();
    running.join().unwrap();
    weir.wait_delivered();
    let account = weir.account("store");
    assert!(account.adds_up(), "{account:?}");
    weir.must_write("db", &points(1_000_000, 10));
    assert!(count(&weir) >= 10);
}

#[test]
fn deletes_stay_among_the_writes_over_a_kill() {
    let mut weir = store();
    weir.must_write("db", &points(0, 100));
    must_run(&weir, "DELETE FROM load WHERE time < 1600000000000000050");
    assert_eq!(count(&weir), 50);
    weir.must_write("db", &points(0, 10));
    assert_eq!(count(&weir), 60);
    must_run(&weir, "DROP SERIES FROM load WHERE host = 'h3'");
    let left = count(&weir);
    weir.kill();
    weir.start_again();
    assert_eq!(count(&weir), left);
    weir.terminate();
    weir.start_again();
    assert_eq!(count(&weir), left);
    let measurements = get(&weir, "SHOW MEASUREMENTS", "").text();
    assert!(measurements.contains("load"), "{measurements}");
    must_run(&weir, "DROP MEASUREMENT load");
    assert_eq!(count(&weir), 0);
}

#[test]
fn nothing_is_answered_from_half_of_what_was_acknowledged() {
    let mut weir = with(|setup| setup.store("memory = \"256MiB\""));
    for n in 0..40 {
        weir.must_write("db", &points(n * 5_000, 5_000));
    }
    weir.kill();
    weir.start_unready();
    let mut refused = 0;
    wait::until("it is ready", wait::LONG, || {
        let request = rig::http::Request::query("SELECT count(v) FROM load", &[("db", "db")]);
        let Ok(answer) = rig::http::send(weir.http, &request) else { return false };
        if answer.status() == 503 {
            refused += 1;
            return false;
        }
        let counted = answer.json()["results"][0]["series"][0]["values"][0][1].as_u64();
        assert_eq!(counted, Some(200_000), "{}", answer.text());
        true
    });
    println!("refused {refused} times");
    assert_eq!(weir.ask_admin("/ready").status(), 200);
    assert!(weir.accounts().iter().all(Account::adds_up));
    weir.must_write("db", &point(1_000_000));
    assert_eq!(count(&weir), 200_001);
}
