//! A store that can't write its files as fast as points come, or not at all.

use std::fs;
use std::time::{Duration, Instant};

use rig::http::Message;
use rig::weir::{Setup, Weir};
use rig::{places, wait};

use super::{count, must_run, with};
use crate::disk_faults::Mount;
use crate::scene::points;

/// Writes until it is refused; gives how many points were taken, the refusal, and how long that
/// took.
fn fill(weir: &Weir) -> (u64, Message, Duration) {
    let mut taken = 0;
    wait::value("writes are refused", wait::LONG, || {
        let begun = Instant::now();
        let answer = weir.write("db", &points(taken, 1_000));
        if answer.status() == 204 {
            taken += 1_000;
            return None;
        }
        Some((taken, answer, begun.elapsed()))
    })
}

fn must_be_taken_again(weir: &Weir, taken: u64) {
    wait::until("writes are taken again", wait::LONG, || {
        weir.write("db", &points(taken, 1)).status() == 204
    });
    assert_eq!(count(weir), taken + 1);
    assert_eq!(weir.ask_admin("/ready").status(), 200);
}

fn failing(weir: &Weir, work: &str) -> bool {
    weir.metrics().sum("weir_store_failing", &[("work", work)]) == 1.0
}

fn status(weir: &Weir) -> String {
    String::from_utf8(weir.command(&["status"]).stdout).unwrap()
}

#[test]
fn the_journal_runs_so_far_ahead_of_the_store_and_then_writes_wait_and_are_refused() {
    let mut weir =
        with(|setup| setup.with_faults().store("journal-ahead = \"2MiB\"\nmemory = \"64MiB\""));
    weir.store_faults("hold");
    let (taken, refusal, took) = fill(&weir);
    assert_eq!(refusal.status(), 503);
    assert!(took >= Duration::from_secs(1), "it waits first: {took:?}");
    assert!(refusal.header("retry-after").is_some());
    assert!(refusal.text().contains("too far behind the journal"), "{}", refusal.text());
    let ahead = points(0, taken).len();
    assert!((1_500_000..2_500_000).contains(&ahead), "{ahead}");
    // What was taken can be read, and a load balancer goes elsewhere.
    assert_eq!(count(&weir), taken);
    let ready = weir.ask_admin("/ready");
    assert_eq!(ready.status(), 503);
    assert!(ready.text().contains("too far behind"), "{}", ready.text());
    weir.kill();
    weir.start_unready();
    wait::until("what was taken is read again", wait::LONG, || {
        let answer = rig::http::send(weir.http, &rig::http::Request::get("/ready"));
        answer.is_ok_and(|answer| answer.text().contains("too far behind"))
    });
    assert_eq!(count(&weir), taken);
    weir.store_faults("");
    must_be_taken_again(&weir, taken);
}

#[test]
fn new_series_count_for_more_than_their_bytes() {
    let weir = with(|setup| setup.with_faults().store("journal-ahead = \"1MiB\""));
    weir.store_faults("hold");
    let lines: String = (0..10_000).map(|n| format!("m,n={n} v={n}i 1\n")).collect();
    assert!(lines.len() < 300_000);
    weir.must_write("db", &lines);
    wait::until("they are applied", wait::LONG, || {
        weir.ask_admin("/ready").text().contains("too far behind")
    });
    assert_eq!(weir.write("db", "m v=1i 1\n").status(), 503);
    weir.store_faults("");
    wait::until("writes are taken again", wait::LONG, || {
        weir.write("db", "m v=1i 1\n").status() == 204
    });
}

#[test]
fn a_full_disk_of_the_store_refuses_writes_keeps_answering_and_recovers_by_itself() {
    let dir = places::directory();
    let mount = dir.path().join("disk");
    fs::create_dir(&mount).unwrap();
    let mounted = Mount::tmpfs(&mount, "24m");
    let mut weir = with(|setup| setup.store("memory = \"1MiB\"").store_dir(mount.join("store")));
    weir.must_write("db", &points(0, 1_000));
    let ballast = mount.join("ballast");
    assert!(fs::write(&ballast, vec![1; 24 << 20]).is_err(), "there is no room left");
    let (taken, refusal, _) = fill(&weir);
    assert_eq!(refusal.status(), 503);
    assert!(refusal.header("retry-after").is_some());
    let words = refusal.text();
    assert!(
        words.contains("until this is set right") && words.contains("No space left"),
        "{words}"
    );
    // Everything that was taken is answered, and where to look says so.
    assert_eq!(count(&weir), taken);
    assert!(failing(&weir, "flush"));
    assert!(weir.metrics().sum("weir_store_failures_total", &[("work", "flush")]) >= 1.0);
    assert_eq!(weir.metrics().sum("weir_influx_writes_refused_total", &[]), 1.0);
    for shown in [status(&weir), weir.ask_admin("/ready").text(), weir.ask_admin("/status").text()]
    {
        assert!(shown.contains("No space left"), "{shown}");
    }
    assert_eq!(weir.ask_admin("/ready").status(), 503);
    // Nor is anything lost that was taken and is nowhere in files.
    weir.kill();
    weir.start_unready();
    wait::until("what was taken is read again", wait::LONG, || {
        let answer = rig::http::send(weir.admin, &rig::http::Request::get("/ready"));
        answer.is_ok_and(|answer| answer.text().contains("No space left"))
    });
    assert_eq!(count(&weir), taken);
    fs::remove_file(&ballast).unwrap();
    must_be_taken_again(&weir, taken);
    wait::until("nothing fails", wait::LONG, || !failing(&weir, "flush"));
    assert!(!status(&weir).contains("No space left"), "{}", status(&weir));
    assert!(weir.accounts().iter().all(rig::status::Account::adds_up));
    drop(weir);
    drop(mounted);
}

#[test]
fn files_that_cannot_be_joined_are_seen_before_they_are_too_many() {
    let weir = Setup::new().embedded().with_faults().store("flush-interval = \"50ms\"").start();
    must_run(&weir, "CREATE DATABASE db");
    weir.store_faults("fail store-compact");
    let mut taken = 0;
    wait::until("files can't be joined", wait::LONG, || {
        weir.must_write("db", &points(taken, 1));
        taken += 1;
        failing(&weir, "compaction")
    });
    let shown = status(&weir);
    assert!(shown.contains("files can't be joined"), "{shown}");
    assert_eq!(weir.ask_admin("/ready").status(), 200, "writes are taken all the same");
    assert_eq!(count(&weir), taken);
    weir.store_faults("");
    wait::until("they are joined", wait::LONG, || !failing(&weir, "compaction"));
    assert!(!status(&weir).contains("can't be joined"), "{}", status(&weir));
}
