//! The field report's run, in its bounded form.

use std::collections::BTreeMap;
use std::thread;
use std::time::Duration;

use rig::influxd::Influxd;
use rig::load::{self, Plan};
use rig::wait;
use rig::weir::Setup;

use crate::scene::single_points;

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
    let weir = Setup::new().backend("a", &a.url()).backend("b", &b.url()).start();
    let plan = Plan::rate(weir.http, rate as f64, Duration::from_secs(seconds));
    let running = thread::spawn(move || load::run(&plan, single_points("load")));

    let all = rate * seconds;
    let accepted = |part: u64| {
        wait::until("a part of the load has been taken", wait::LONG, || {
            weir.metrics().sum("weir_influx_points_accepted_total", &[]) as u64 >= all * part / 10
        });
    };
    accepted(4);
    b.kill();
    accepted(6);
    b.start_again();

    let report = running.join().unwrap();
    assert_eq!(report.statuses, BTreeMap::from([(204, all)]), "every request was taken");
    weir.wait_delivered();
    assert_eq!(a.count("load", "load", "v"), all, "on the server that stayed");
    assert_eq!(b.count("load", "load", "v"), all, "on the server that was killed");
    let (p50, p99) = (report.percentile(50.0), report.percentile(99.0));
    let lag = Duration::from_micros(report.lag.value_at_quantile(0.99));
    let sync = weir.metrics().bound("weir_journal_sync_seconds", 0.99);
    println!("acknowledged in {p50:?} (p50), {p99:?} (p99) from the intended time");
    println!("the load was {lag:?} late, a sync took up to {:.1} ms (p99)", sync * 1e3);
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
    let plan = Plan::rate(weir.http, 1_000.0, Duration::from_secs(2));
    let report = load::run(&plan, |n, out| single_points("load")(n + 10, out));
    assert_eq!(report.statuses, BTreeMap::from([(204, 2_000)]));
    assert_eq!(weir.account("a").waiting, 2_000);
    a.start_again();
    b.start_again();
    weir.wait_delivered();
    assert_eq!((a.count("load", "load", "v"), b.count("load", "load", "v")), (2_010, 2_010));
}
