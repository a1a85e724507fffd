//! Every way in which one backend can fail, while the other one and the clients notice nothing.

use std::time::{Duration, Instant};

use rig::fake::{Event, Fake, Mode};
use rig::status::Account;
use rig::wait;
use rig::weir::Setup;

use crate::scene::{Scene, assert_points, points};

/// For a backend that hangs.
const HANGS: &str = "timeout = \"500ms\"";

/// One backend fails in this way; then it is well again.
#[track_caller]
fn survives(fault: Mode) {
    let lines = if fault == Mode::Hang { HANGS } else { "" };
    let scene = Scene::with_b(|setup| setup, lines);
    scene.b.set(fault);
    scene.write_one_by_one(0, 200);
    wait::until("the healthy backend has everything", wait::LONG, || {
        scene.weir.account("a").waiting == 0
    });
    assert_points(&scene.a, 0, 200);
    wait::until("the faulty backend was tried more than once", wait::LONG, || {
        scene.b.requests() >= 2
    });
    let b = scene.weir.account("b");
    assert_eq!((b.waiting, b.dead_lettered, b.dropped), (200, 0, 0), "{b:?}");
    assert!(!b.last_error.is_empty(), "the status says what is wrong: {b:?}");
    scene.b.set(Mode::Accept);
    scene.weir.wait_delivered();
    assert_points(&scene.b, 0, 200);
    assert!(scene.weir.accounts().iter().all(Account::adds_up));
}

#[test]
fn a_backend_that_accepts_and_never_answers_holds_up_nobody() {
    survives(Mode::Hang);
}

#[test]
fn a_backend_that_resets_connections_loses_nothing() {
    survives(Mode::Reset);
}

#[test]
fn a_backend_that_answers_500_loses_nothing() {
    survives(Mode::error(500, "engine is closed"));
}

#[test]
fn a_backend_that_times_out_inside_loses_nothing() {
    survives(Mode::error(500, "timeout"));
}

#[test]
fn a_backend_whose_cache_is_full_loses_nothing() {
    survives(Mode::error(500, "cache-max-memory-size exceeded: (1073741824/1073741824)"));
}

#[test]
fn a_backend_that_answers_503_loses_nothing() {
    survives(Mode::error(503, "request throttled, queue full"));
}

#[test]
fn a_backend_that_answers_garbage_loses_nothing() {
    survives(Mode::Garbage);
}

#[test]
fn a_proxy_that_answers_404_for_everything_loses_nothing() {
    survives(Mode::Answer { status: 404, headers: Vec::new(), body: "<html>nginx</html>".into() });
}

#[test]
fn a_backend_that_asks_for_a_pause_gets_it() {
    let scene = Scene::new();
    scene.b.set(Mode::error(429, "slow down").with_header("Retry-After", "2"));
    let begun = Instant::now();
    scene.write_one_by_one(0, 1);
    wait::until("it was asked", wait::LONG, || scene.b.requests() > 0);
    scene.b.set(Mode::Accept);
    wait::until("it is asked again", wait::LONG, || scene.b.requests() > 1);
    assert!(begun.elapsed() > Duration::from_secs(2), "only after {:?}", begun.elapsed());
    scene.weir.wait_delivered();
    assert_points(&scene.b, 0, 1);
}

#[test]
fn a_slow_backend_gets_larger_batches_and_everything() {
    let scene = Scene::new();
    scene.b.set(Mode::Slow(Duration::from_millis(100)));
    scene.write_one_by_one(0, 1_000);
    scene.weir.wait_delivered();
    assert_points(&scene.b, 0, 1_000);
    assert!(scene.b.requests() < 500, "{} requests for 1,000 points", scene.b.requests());
}

#[test]
fn wrong_credentials_stop_the_backend_and_keep_its_points() {
    let scene = Scene::new();
    scene.b.set(Mode::error(401, "authorization failed"));
    scene.write_one_by_one(0, 50);
    wait::until("the status names the reason", wait::LONG, || {
        scene.weir.account("b").last_error.contains("authorization failed")
    });
    let b = scene.weir.account("b");
    assert_eq!((b.waiting, b.dead_lettered), (50, 0));
    assert_ne!(b.state, scene.weir.account("a").state, "{b:?}");
    scene.weir.wait_log("authorization failed");
    scene.b.set(Mode::Accept);
    scene.weir.wait_delivered();
    assert_points(&scene.b, 0, 50);
}

#[test]
fn both_backends_hang_and_clients_do_not() {
    let both = [Fake::start("a", &["db"]), Fake::start("b", &["db"])];
    let [a, b] = both.each_ref().map(Fake::url);
    let weir = Setup::new().backend_with("a", &a, HANGS).backend_with("b", &b, HANGS).start();
    both.iter().for_each(|fake| fake.set(Mode::Hang));
    for n in 0..100 {
        weir.must_write("db", &points(n, 1));
    }
    for account in weir.accounts() {
        assert_eq!((account.accepted, account.delivered), (100, 0), "{account:?}");
    }
    both.iter().for_each(|fake| fake.set(Mode::Accept));
    weir.wait_delivered();
    both.iter().for_each(|fake| assert_points(fake, 0, 100));
}

#[test]
fn a_batch_that_is_too_large_for_a_backend_is_halved() {
    let scene = Scene::new();
    scene.b.set(Mode::AtMost(100));
    scene.weir.must_write("db", &points(0, 1_000));
    scene.weir.wait_delivered();
    assert_points(&scene.b, 0, 1_000);
    assert_eq!(scene.weir.account("b").dead_lettered, 0);
}

#[test]
fn a_database_that_is_missing_on_one_backend_is_created_there() {
    let scene = Scene::new();
    scene.write_one_by_one(0, 1);
    scene.weir.wait_delivered();
    scene.b.lose_database("db");
    scene.write_one_by_one(1, 1);
    scene.weir.wait_delivered();
    assert_points(&scene.b, 0, 2);
    assert!(scene.b.databases().contains(&"db".to_owned()));
}

#[test]
fn without_create_missing_the_backend_waits_for_somebody_to_create_it() {
    let scene = Scene::with_b(|setup| setup, "create-missing = false");
    scene.b.lose_database("db");
    scene.write_one_by_one(0, 20);
    wait::until("the status names the database", wait::LONG, || {
        scene.weir.account("b").last_error.contains("database not found")
    });
    let b = scene.weir.account("b");
    assert_eq!((b.waiting, b.dead_lettered, b.dropped), (20, 0, 0));
    let answer =
        rig::http::send(scene.b.address, &rig::http::Request::query("CREATE DATABASE \"db\"", &[]));
    assert_eq!(answer.unwrap().status(), 200);
    scene.weir.wait_delivered();
    assert_points(&scene.b, 0, 20);
}

#[test]
fn a_backend_knows_only_its_own_credentials() {
    let (a, b) = (Fake::start("a", &["db"]), Fake::start("b", &["db"]));
    let weir = Setup::new()
        .backend_with("a", &a.url(), "user = \"weir\"\npassword = \"secret\"")
        .backend_with("b", &b.url(), "gzip = true")
        .start();
    let request = rig::http::Request::post("/write?db=db&u=client&p=hidden", points(0, 1));
    assert_eq!(weir.send(&request).status(), 204);
    weir.wait_delivered();
    let seen = |fake: &Fake| match fake.events().first() {
        Some(Event::Write { authorization, target, .. }) => (authorization.clone(), target.clone()),
        other => panic!("{other:?}"),
    };
    let (authorization, target) = seen(&a);
    assert_eq!(authorization.as_deref(), Some("Basic d2VpcjpzZWNyZXQ="));
    assert!(!target.contains("hidden"));
    let (authorization, target) = seen(&b);
    assert_eq!(authorization, None);
    assert!(!target.contains("hidden"));
    assert_points(&b, 0, 1);
}
