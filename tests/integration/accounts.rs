//! Every accepted point is accounted for, at any time.

use std::thread;
use std::time::Duration;

use meter::engine::Plan;
use rig::fake::Mode;
use rig::sending;
use rig::wait;

use crate::scene::{Scene, single_points};

#[test]
fn accepted_is_delivered_and_dead_lettered_and_dropped_and_waiting_at_any_time() {
    let scene = Scene::with_b(|setup| setup, "timeout = \"1s\"\nbatch-points = 50");
    // So many that none is blocked when the time is over: that would not be sent.
    let plan = sending::rate(scene.weir.http, 500.0, Duration::from_secs(6));
    let plan = Plan { connections: 1_000, ..plan };
    let running = thread::spawn(move || sending::run(&plan, single_points("db")));
    let faults = [
        Mode::Hang,
        Mode::Accept,
        Mode::error(500, "no"),
        Mode::Conflict("h3 ".to_owned()),
        Mode::Reset,
        Mode::Accept,
    ];
    for (at, fault) in faults.into_iter().enumerate() {
        scene.b.set(fault);
        wait::until("a part of the load has been taken", wait::LONG, || {
            let accounts = scene.weir.accounts();
            for account in &accounts {
                assert!(account.adds_up(), "{account:?}");
            }
            let scrape = scene.weir.metrics();
            for backend in ["a", "b"] {
                let of = |what: &str| {
                    let name = format!("weir_influx_backend_{what}");
                    assert!(scrape.has(&name), "{name}");
                    scrape.sum(&name, &[("backend", backend)])
                };
                let gone = of("delivered_points_total")
                    + of("dead_lettered_points_total")
                    + of("dropped_points_total");
                let waiting = of("waiting_points");
                assert_eq!(of("accepted_points_total"), gone + waiting, "of {backend}, at once");
            }
            accounts.iter().all(|account| account.accepted >= 500 * (at as u64 + 1))
        });
    }
    let report = running.join().unwrap();
    assert_eq!(report.count(204), 3_000, "{:?}", report.statuses);
    scene.weir.wait_delivered();
    for account in scene.weir.accounts() {
        assert_eq!(account.accepted, 3_000, "{account:?}");
        assert_eq!(account.delivered + account.dead_lettered, 3_000, "{account:?}");
    }
    assert_eq!(scene.a.distinct(), 3_000);
}
