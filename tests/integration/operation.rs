//! Running Weir: stopping, reloading, adding and removing backends, and the three kinds of ack.

use std::thread;
use std::time::Duration;

use rig::fake::{Fake, Mode};
use rig::sending;
use rig::wait;
use rig::weir::Setup;

use crate::scene::{Scene, assert_points, point, points, single_points};

#[test]
fn sigterm_answers_what_was_begun_and_keeps_what_was_taken() {
    let mut scene = Scene::new();
    let plan = sending::closed(scene.weir.http, 8, Duration::from_secs(3600));
    let stop = plan.stop.clone();
    let running = thread::spawn(move || sending::run(&plan, single_points("db")));
    wait::until("the load is under way", wait::LONG, || {
        scene.weir.metrics().sum("weir_influx_points_accepted_total", &[]) > 500.0
    });
    let status = scene.weir.terminate();
    assert!(status.success(), "{status}");
    stop.ask();
    let report = running.join().unwrap();
    scene.weir.start_again();
    scene.weir.wait_delivered();
    let lines = scene.a.lines();
    for n in report.acknowledged {
        let point = point(n);
        assert!(lines.iter().any(|line| line == point.trim_end()), "point {n} was acknowledged");
    }
    // Nothing was sent twice: a stop in good order leaves no doubt about what was delivered.
    assert_eq!(lines.len(), scene.a.distinct());
}

#[test]
fn a_request_under_way_at_sigterm_is_still_answered() {
    let mut scene = Scene::new();
    let mut connection = rig::http::Connection::open(scene.weir.http).unwrap();
    let request = rig::http::Request::post("/write?db=db", points(0, 10)).encode();
    let (first, rest) = request.split_at(request.len() / 2);
    connection.push(first).unwrap();
    // A request on another connection shows that the first half has been read by then.
    scene.write_one_by_one(100, 1);
    scene.weir.running().signal(rustix::process::Signal::TERM);
    wait::until("no new connection is taken", wait::LONG, || {
        rig::http::send(scene.weir.http, &rig::http::Request::get("/ping")).is_err()
    });
    connection.push(rest).unwrap();
    assert_eq!(connection.answer(false).unwrap().status(), 204);
    wait::until("it ends", wait::LONG, || scene.weir.running().ended().is_some());
    scene.weir.start_again();
    scene.weir.wait_delivered();
    assert_eq!(scene.a.distinct(), 11);
}

#[test]
fn sighup_takes_what_can_change_and_names_what_cannot() {
    let mut scene = Scene::new();
    let mut kept = rig::http::Connection::open(scene.weir.http).unwrap();
    let ping = rig::http::Request::get("/ping");
    assert_eq!(kept.send(&ping).unwrap().status(), 204);
    scene.weir.configure(|s| s.influx("stamp = { site = \"north\" }").journal("ack = \"memory\""));
    scene.weir.reload();
    scene.weir.wait_log("reloaded");
    assert!(scene.weir.log().contains("restart"), "the journal needs one: {}", scene.weir.log());
    scene.weir.must_write("db", "load v=1 1\n");
    scene.weir.wait_delivered();
    assert_eq!(scene.a.lines(), ["load,site=north v=1 1"]);
    assert_eq!(kept.send(&ping).unwrap().status(), 204, "no connection was dropped");

    scene.weir.configure(|setup| setup.influx("no-such-key = 1"));
    scene.weir.reload();
    scene.weir.wait_log("no-such-key");
    scene.weir.must_write("db", "load v=2 2\n");
}

#[test]
fn removing_a_backend_that_has_a_backlog_is_an_error_until_it_is_forgotten() {
    let mut scene = Scene::new();
    scene.b.take_down();
    scene.write_one_by_one(0, 10);
    assert!(scene.weir.terminate().success());
    let both = scene.weir.config();
    let text = std::fs::read_to_string(&both).unwrap();
    let (before, from_b) = text.split_once("[[influx.backend]]\nname = \"b\"").unwrap();
    std::fs::write(&both, before).unwrap();
    let (code, log) = scene.weir.start_in_vain();
    assert!(matches!(code, Some(1 | 78)), "{code:?}: {log}");
    assert!(log.contains("weir journal forget b"), "the remedy is named: {log}");
    scene.weir.must_run(&["journal", "forget", "b"]);
    scene.weir.start_again();
    scene.weir.must_write("db", &point(10));
    scene.weir.wait_delivered();
    assert_points(&scene.a, 0, 11);
    assert!(!from_b.is_empty());
}

#[test]
fn a_backend_added_later_begins_at_the_end_or_at_the_oldest_record() {
    let mut scene = Scene::new();
    scene.b.take_down();
    scene.write_one_by_one(0, 10);
    assert!(scene.weir.terminate().success());
    let (late, full) = (Fake::start("late", &["db"]), Fake::start("full", &["db"]));
    scene.weir.configure(|setup| {
        setup.backend("late", &late.url()).backend_with("full", &full.url(), "start = \"oldest\"")
    });
    scene.weir.start_again();
    scene.write_one_by_one(10, 10);
    wait::until("the new ones have theirs", wait::LONG, || {
        scene.weir.account("late").waiting == 0 && scene.weir.account("full").waiting == 0
    });
    assert_points(&late, 10, 10);
    assert_points(&full, 0, 20);
}

#[test]
fn backends_come_move_and_go_by_reloads_while_points_flow() {
    let mut scene = Scene::new();
    let (moved, late) = (Fake::start("moved", &["db"]), Fake::start("late", &["db"]));
    let mut kept = rig::http::Connection::open(scene.weir.http).unwrap();
    let mut write = |from: u64| {
        for n in from..from + 50 {
            let request = rig::http::Request::post("/write?db=db", point(n));
            assert_eq!(kept.send(&request).unwrap().status(), 204, "on one connection");
        }
    };
    let path = scene.weir.config();
    let both = std::fs::read_to_string(&path).unwrap();
    let reload = |scene: &mut Scene, text: &str, log: &str| {
        std::fs::write(&path, text).unwrap();
        scene.weir.reload();
        scene.weir.wait_log(log);
    };
    write(0);
    // One that cannot be used changes nothing.
    reload(&mut scene, &format!("{both}password-file = \"/none\"\nuser = \"u\"\n"), "not reloaded");
    let (before, from_b) = both.split_once("[[influx.backend]]\nname = \"b\"").unwrap();
    let begins = "start = \"oldest\"\n";
    let third =
        format!("\n[[influx.backend]]\nname = \"late\"\nurl = \"{}\"\n{begins}", late.url());
    let elsewhere = both.replace(&scene.b.url(), &moved.url());
    reload(&mut scene, &format!("{elsewhere}{third}"), "configuration was reloaded");
    write(50);
    wait::until("all have theirs", wait::LONG, || {
        late.distinct() == 100 && scene.b.distinct() + moved.distinct() >= 100
    });
    scene.weir.wait_delivered();
    assert!(moved.distinct() >= 50, "the second half at the least: {}", moved.distinct());

    reload(&mut scene, &format!("{before}{third}"), "it had everything");
    write(100);
    wait::until("the others have theirs", wait::LONG, || {
        scene.a.distinct() == 150 && late.distinct() == 150
    });
    assert_points(&scene.a, 0, 150);
    assert!(moved.distinct() <= 100, "nothing is sent to one that is gone");
    let status = scene.weir.must_run(&["status"]);
    assert!(!from_b.is_empty() && status.contains("late"), "{status}");
    assert!(!scene.weir.log().contains("restart"), "{}", scene.weir.log());
}

#[test]
fn written_and_memory_acknowledge_and_deliver_too() {
    for ack in ["written", "memory"] {
        let mut scene = Scene::with(|setup| setup.journal(&format!("ack = \"{ack}\"")));
        scene.write_one_by_one(0, 200);
        scene.weir.wait_delivered();
        assert_points(&scene.a, 0, 200);
        scene.b.set(Mode::error(503, "away"));
        scene.write_one_by_one(200, 50);
        assert!(scene.weir.terminate().success());
        scene.b.set(Mode::Accept);
        scene.weir.start_again();
        scene.weir.wait_delivered();
        assert_points(&scene.b, 0, 250);
    }
}

#[test]
fn what_was_written_survives_the_death_of_the_process() {
    let mut scene = Scene::with(|setup| setup.journal("ack = \"written\""));
    scene.a.take_down();
    scene.b.take_down();
    scene.write_one_by_one(0, 200);
    scene.weir.kill();
    scene.a.bring_up();
    scene.b.bring_up();
    scene.weir.start_again();
    scene.weir.wait_delivered();
    assert_points(&scene.a, 0, 200);
}

#[test]
fn a_catching_up_backend_is_not_knocked_over() {
    let mut scene = Scene::with_b(|setup| setup, "catch-up-rate = 2000\nbatch-points = 100");
    scene.b.take_down();
    for round in 0..20 {
        scene.weir.must_write("db", &points(round * 1_000, 1_000));
    }
    wait::until("the backlog is old enough to be one", wait::LONG, || {
        let scrape = scene.weir.metrics();
        scrape.sum("weir_influx_backend_waiting_age_seconds", &[("backend", "b")]) > 2.5
    });
    let begun = std::time::Instant::now();
    scene.b.bring_up();
    scene.weir.wait_delivered();
    // Ten seconds but for what was under way before it counted as a backlog.
    assert!(begun.elapsed() > Duration::from_secs(4), "20,000 points in {:?}", begun.elapsed());
    assert_points(&scene.b, 0, 20_000);
}

#[test]
fn several_workers_share_the_port() {
    let a = Fake::start("a", &["db"]);
    let weir = Setup::new().top("workers = 3").backend("a", &a.url()).start();
    let plan = sending::closed(weir.http, 32, Duration::from_secs(1));
    let report = sending::run(&plan, single_points("db"));
    assert_eq!(report.count(204), report.sent, "{:?}", report.statuses);
    weir.wait_delivered();
    assert_points(&a, 0, report.sent);
}

#[test]
fn a_low_limit_of_open_files_is_raised_as_far_as_it_may_be() {
    let a = Fake::start("a", &["db"]);
    let mut weir = Setup::new().backend("a", &a.url()).open_files(256).start();
    let limits = format!("/proc/{}/limits", weir.running().id());
    let limits = std::fs::read_to_string(limits).unwrap();
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files")).unwrap();
    let mut words = line.split_whitespace();
    let (soft, hard) = (words.next().unwrap(), words.next().unwrap());
    assert_ne!(hard, "256", "what was lowered is the soft one: {line}");
    assert_eq!(soft, hard, "{line}");
}
