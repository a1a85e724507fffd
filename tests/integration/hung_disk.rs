//! A disk that does not come back from a sync, and comes back later.

use std::thread::{self, JoinHandle};

use rig::http::{self, Connection, Message, Request};
use rig::wait;
use rig::weir::{Setup, Weir};

use crate::scene::{Scene, assert_points, point, points};

/// A write that waits for its answer in a thread of its own.
fn write_meanwhile(weir: &Weir, lines: String) -> JoinHandle<Message> {
    let http = weir.http;
    thread::spawn(move || http::send(http, &Request::post("/write?db=db", lines)).unwrap())
}

/// Everything but a write, over a connection that is there already and over new ones.
#[track_caller]
fn assert_answers_others(weir: &Weir, connection: &mut Connection) {
    assert_eq!(connection.send(&Request::get("/ping")).unwrap().status(), 204);
    assert_eq!(weir.send(&Request::get("/ping")).status(), 204);
    assert_eq!(weir.send(&Request::get("/health")).status(), 200);
    assert_eq!(weir.query("SELECT v FROM load", &[("db", "db")]).status(), 200);
    assert_eq!(weir.write("nowhere", "").status(), 404);
}

#[test]
fn a_sync_that_hangs_holds_up_only_those_who_write() {
    let scene = Scene::with(Setup::with_faults);
    scene.weir.wait_catalogue();
    scene.write_one_by_one(0, 10);
    let mut connection = Connection::open(scene.weir.http).unwrap();
    let held = scene.weir.hold_syncs();
    let writing: Vec<_> = (10..20).map(|n| write_meanwhile(&scene.weir, point(n))).collect();
    // The only worker never waits for the disk itself.
    for _ in 0..20 {
        assert_answers_others(&scene.weir, &mut connection);
    }
    assert!(!writing.iter().any(JoinHandle::is_finished), "nothing is acknowledged unsynced");
    drop(held);
    for answer in writing {
        assert_eq!(answer.join().unwrap().status(), 204);
    }
    scene.weir.wait_delivered();
    assert_points(&scene.a, 0, 20);
    assert_points(&scene.b, 0, 20);
}

#[test]
fn a_write_that_a_hung_sync_keeps_waiting_is_a_503_and_may_come_again() {
    let scene = Scene::with(|setup| setup.with_faults().ack_timeout("1s"));
    scene.weir.wait_catalogue();
    let mut connection = Connection::open(scene.weir.http).unwrap();
    let held = scene.weir.hold_syncs();
    for n in 0..3 {
        let writing = write_meanwhile(&scene.weir, point(n));
        let answer = connection.send(&Request::post("/write?db=db", point(n))).unwrap();
        for answer in [answer, writing.join().unwrap()] {
            let words = "the journal did not acknowledge in time; the write may still be delivered";
            assert_eq!(answer.status(), 503, "{}", answer.text());
            assert_eq!(answer.text(), format!("{{\"error\":\"{words}\"}}\n"));
            assert_eq!(answer.header("x-influxdb-error"), Some(words));
            assert_eq!(answer.header("retry-after"), Some("1"));
        }
        assert_answers_others(&scene.weir, &mut connection);
    }
    let refused = scene.weir.metrics().sum("weir_journal_ack_timeouts_total", &[]);
    assert_eq!(refused, 6.0);
    drop(held);
    for n in 0..10 {
        wait::until("writes are acknowledged again", wait::LONG, || {
            connection.send(&Request::post("/write?db=db", point(n))).unwrap().status() == 204
        });
    }
    scene.weir.wait_delivered();
    assert_points(&scene.a, 0, 10);
    assert_points(&scene.b, 0, 10);
}

#[test]
fn writes_that_find_the_next_group_full_are_throttled_and_the_others_arrive() {
    const WRITES: u64 = 64;
    const EACH: u64 = 20;
    let scene = Scene::with(|setup| setup.with_faults().journal("group-max = \"8KiB\""));
    scene.weir.wait_catalogue();
    let held = scene.weir.hold_syncs();
    let write = |n| (n, write_meanwhile(&scene.weir, points(n * EACH, EACH)));
    let writing: Vec<_> = (0..WRITES).map(write).collect();
    wait::until("the group is full", wait::LONG, || {
        writing.iter().any(|(_, answer)| answer.is_finished())
    });
    drop(held);
    let answers = writing.into_iter().map(|(n, answer)| (n, answer.join().unwrap()));
    let (taken, throttled): (Vec<_>, Vec<_>) =
        answers.partition(|(_, answer)| answer.status() == 204);
    assert!(!taken.is_empty() && !throttled.is_empty(), "{taken:?} {throttled:?}");
    for (_, answer) in &throttled {
        assert_eq!(answer.status(), 503, "{}", answer.text());
        assert_eq!(answer.text(), "request throttled, queue full\n");
        assert_eq!(answer.header("content-type"), Some("text/plain; charset=utf-8"));
        assert_eq!(answer.header("retry-after"), Some("1"));
    }
    scene.weir.wait_delivered();
    assert_eq!(scene.a.distinct() as u64, taken.len() as u64 * EACH, "and no other");
    for (n, _) in &throttled {
        wait::until("it is taken", wait::LONG, || {
            scene.weir.write("db", &points(n * EACH, EACH)).status() == 204
        });
    }
    scene.weir.wait_delivered();
    assert_points(&scene.a, 0, WRITES * EACH);
    assert_points(&scene.b, 0, WRITES * EACH);
}
