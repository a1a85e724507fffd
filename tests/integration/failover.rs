//! The field report's run, in its bounded form.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use meter::engine::Plan;
use rig::disk::Probe;
use rig::influxd::Influxd;
use rig::sending;
use rig::weir::Setup;
use rig::{places, wait};

use crate::scene::{point, single_points};

/// What the bare disk is asked beside Weir, a second: enough to see what stands still, and a small
/// part of what Weir asks.
const MEANWHILE_RATE: f64 = 100.0;
/// So many that no request is blocked when the time is over: that would not be sent.
const CONNECTIONS: usize = 1_000;

/// What the environment says, or the bounded form's number.
fn number(variable: &str, bounded: u64) -> u64 {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(bounded)
}

/// The full form by hand: `WEIR_TEST_RATE=10000 WEIR_TEST_SECONDS=60`.
#[test]
fn a_server_is_killed_and_started_again_and_no_client_notices() {
    let rate = number("WEIR_TEST_RATE", 2_000);
    let seconds = number("WEIR_TEST_SECONDS", 10);
    let (a, mut b) = (Influxd::start(), Influxd::start());
    a.create("load");
    b.create("load");
    let dir = places::directory();
    let probe = Probe::lay_down(dir.path(), point(0).len()).unwrap();
    let by_itself = || {
        let begun = Instant::now();
        probe.run(rate as f64, || begun.elapsed() >= Duration::from_secs(seconds) / 6).unwrap()
    };
    let mut disk = by_itself();
    let weir = Setup::new().backend("a", &a.url()).backend("b", &b.url()).start();
    let plan = sending::rate(weir.http, rate as f64, Duration::from_secs(seconds));
    let plan = Plan { connections: CONNECTIONS, ..plan };
    let all = rate * seconds;
    // Counted by the load: to ask Weir a hundred times a second would be a load of its own.
    let (sent, is_over) = (Arc::new(AtomicU64::new(0)), AtomicBool::new(false));
    let sent_part = |part: u64| {
        wait::until("a part of the load is sent", wait::LONG, || {
            sent.load(Ordering::Relaxed) >= all * part / 10 || is_over.load(Ordering::Relaxed)
        });
    };
    let (report, meanwhile) = thread::scope(|scope| {
        let running = scope.spawn(|| {
            let (mut request, sent) = (single_points("load"), Arc::clone(&sent));
            let report = sending::run(&plan, move |n, out| {
                sent.store(n, Ordering::Relaxed);
                request(n, out);
            });
            is_over.store(true, Ordering::Relaxed);
            report
        });
        scope.spawn(|| {
            sent_part(4);
            b.kill();
            sent_part(6);
            b.start_again();
        });
        let meanwhile = probe.run(MEANWHILE_RATE, || running.is_finished()).unwrap();
        (running.join().unwrap(), meanwhile)
    });
    // On a busy machine some find no connection until the end, and are never sent.
    let all = report.sent;
    assert_eq!(report.statuses, BTreeMap::from([(204, all)]), "every request was taken");
    weir.wait_delivered();
    assert_eq!(a.count("load", "load", "v"), all, "on the server that stayed");
    assert_eq!(b.count("load", "load", "v"), all, "on the server that was killed");
    let (p50, p99, lag) = (report.latency(0.5), report.latency(0.99), report.lag(0.99));
    let sync = weir.metrics().bound("weir_journal_sync_seconds", 0.99);
    println!("acknowledged in {p50:?} (p50), {p99:?} (p99) from the intended time");
    println!("the load was {lag:?} late, a sync took up to {:.1} ms (p99)", sync * 1e3);
    let p99 = |histogram: &Histogram<u64>| Duration::from_micros(histogram.value_at_quantile(0.99));
    disk.add(by_itself()).unwrap();
    let (disk, meanwhile) = (p99(&disk), p99(&meanwhile));
    println!(
        "the disk by itself took up to {disk:?} before and after, {meanwhile:?} meanwhile (p99)"
    );
}

#[test]
fn both_servers_are_away_and_writes_are_still_taken() {
    let (mut a, mut b) = (Influxd::start(), Influxd::start());
    a.create("load");
    b.create("load");
    let weir = Setup::new().backend("a", &a.url()).backend("b", &b.url()).start();
    weir.must_write("load", &crate::scene::points(0, 10));
    weir.wait_delivered();
    a.kill();
    b.kill();
    let plan = sending::rate(weir.http, 1_000.0, Duration::from_secs(2));
    let plan = Plan { connections: CONNECTIONS, ..plan };
    let report = sending::run(&plan, |n, out| single_points("load")(n + 10, out));
    // A busy machine does not send all in time.
    let sent = report.statuses.values().sum();
    assert!(sent > 0);
    assert_eq!(report.statuses, BTreeMap::from([(204, sent)]));
    assert_eq!(weir.account("a").waiting, sent);
    a.start_again();
    b.start_again();
    weir.wait_delivered();
    let all = sent + 10;
    assert_eq!((a.count("load", "load", "v"), b.count("load", "load", "v")), (all, all));
}
