//! `kill -9` of Weir under load.

use std::collections::HashSet;
use std::thread;
use std::time::{Duration, Instant};

use rand::Rng as _;
use rig::sending::{self, Report};
use rig::status::Account;
use rig::weir::Weir;
use rig::{chance, wait};

use crate::scene::{Scene, point, single_points};

/// How often by default; `WEIR_TEST_KILLS` sets the full hundred.
const KILLS: u32 = 5;

fn kills() -> u32 {
    std::env::var("WEIR_TEST_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(KILLS)
}

/// How long is waited for many points, where a slow disk lets few be taken at a time.
const MANY: Duration = Duration::from_secs(5);

/// Waits until so many points are taken, or some after a while.
pub fn until_taken(weir: &Weir, points: f64) {
    let begun = Instant::now();
    wait::until("points are taken", wait::LONG, || {
        let taken = weir.metrics().sum("weir_influx_points_accepted_total", &[]);
        taken >= points || (taken > 0.0 && begun.elapsed() > MANY)
    });
}

/// Kills and starts Weir again and again while clients write; gives what they heard.
fn killed_under_load(scene: &mut Scene) -> Report {
    let plan = sending::closed(scene.weir.http, 16, Duration::from_secs(3600));
    let stop = plan.stop.clone();
    let running = thread::spawn(move || sending::run(&plan, single_points("db")));
    let mut draws = chance::draws();
    for _ in 0..kills() {
        let moment = f64::from(draws.random_range(20..2_000));
        until_taken(&scene.weir, moment);
        scene.weir.kill();
        scene.weir.start_again();
    }
    until_taken(&scene.weir, 100.0);
    stop.ask();
    running.join().unwrap()
}

#[test]
fn weir_is_killed_again_and_again_and_no_acknowledged_point_is_lost() {
    nothing_is_lost(Scene::new());
}

/// What the kernel has outlives the process; flushes are many, so that groups begin behind them.
#[test]
fn what_is_written_and_not_flushed_outlives_a_kill() {
    let written = "ack = \"written\"\nflush-interval = \"5ms\"";
    nothing_is_lost(Scene::with(|setup| setup.journal(written)));
}

fn nothing_is_lost(mut scene: Scene) {
    let report = killed_under_load(&mut scene);
    scene.weir.wait_delivered();
    let sent: HashSet<String> = (0..report.sent).map(|n| point(n).trim_end().to_owned()).collect();
    for fake in [&scene.a, &scene.b] {
        let lines: HashSet<String> = fake.lines().into_iter().collect();
        let lost = report.acknowledged.iter().filter(|n| !lines.contains(point(**n).trim_end()));
        assert_eq!(lost.count(), 0, "of {} acknowledged", report.acknowledged.len());
        let altered: Vec<_> = lines.difference(&sent).take(3).collect();
        assert!(altered.is_empty(), "nothing arrives that was not sent: {altered:?}");
    }
    assert!(scene.weir.accounts().iter().all(Account::adds_up), "{:?}", scene.weir.accounts());
}

#[test]
fn weir_is_killed_while_a_backend_is_away_and_the_backlog_is_still_there() {
    let mut scene = Scene::new();
    scene.b.take_down();
    scene.write_one_by_one(0, 300);
    scene.weir.kill();
    scene.weir.start_again();
    scene.write_one_by_one(300, 100);
    assert_eq!(scene.weir.account("b").waiting, 400);
    scene.b.bring_up();
    scene.weir.wait_delivered();
    crate::scene::assert_points(&scene.b, 0, 400);
    crate::scene::assert_points(&scene.a, 0, 400);
    // In the order of one connection's writes, as new points never overtake the backlog.
    let order: Vec<String> = scene.b.lines();
    let expected: Vec<String> = (0..400).map(|n| point(n).trim_end().to_owned()).collect();
    assert!(order == expected, "in the order they were written");
}
