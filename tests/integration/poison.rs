//! Points that a backend will never take: they go to the dead letters with its own words, and
//! everything else goes on.

use rig::fake::{Event, Mode};
use rig::status::Account;
use rig::wait;

use crate::scene::{Scene, point};

const POISON: &str = "poison";

/// So many hundred points, every fiftieth of which a backend can't take.
fn write_some_poison(scene: &Scene, batches: u64) -> (usize, usize) {
    let (mut good, mut poisoned) = (0, 0);
    for batch in 0..batches {
        let lines: String = (0..100)
            .map(|n| match n % 50 {
                7 => {
                    poisoned += 1;
                    format!("{POISON} v=\"{batch}\" {}\n", 1_600_000_000_000_000_000_u64 + n)
                }
                _ => {
                    good += 1;
                    point(batch * 100 + n)
                }
            })
            .collect();
        scene.weir.must_write("db", &lines);
    }
    (good, poisoned)
}

#[track_caller]
fn check(scene: &Scene, good: usize, poisoned: usize) {
    scene.weir.wait_delivered();
    assert_eq!(scene.a.distinct(), good + poisoned, "the other backend took all");
    assert_eq!(scene.b.distinct(), good, "every good point arrives");
    assert!(!scene.b.lines().iter().any(|line| line.contains(POISON)));
    let b = scene.weir.account("b");
    assert_eq!(b.dead_lettered, poisoned as u64, "{b:?}");
    assert_eq!(b.delivered, good as u64, "{b:?}");
    assert!(scene.weir.accounts().iter().all(Account::adds_up));
    let listed = scene.weir.must_run(&["dead-letters", "list"]);
    assert!(listed.contains('b') && listed.contains(&poisoned.to_string()), "{listed}");
    let shown = scene.weir.must_run(&["dead-letters", "show", "b"]);
    assert_eq!(shown.matches(&format!("{POISON} v=")).count(), poisoned, "{shown}");
}

#[test]
fn a_field_type_conflict_in_every_batch_holds_up_nobody() {
    let scene = Scene::new();
    scene.b.set(Mode::Conflict(POISON.to_owned()));
    let (good, poisoned) = write_some_poison(&scene, 4);
    check(&scene, good, poisoned);
    let shown = scene.weir.must_run(&["dead-letters", "show", "b"]);
    assert!(shown.contains("field type conflict"), "in the backend's own words: {shown}");
}

#[test]
fn a_point_that_makes_a_backend_answer_500_holds_up_nobody() {
    let scene = Scene::new();
    scene.b.set(Mode::Chokes(POISON.to_owned()));
    let (good, poisoned) = write_some_poison(&scene, 4);
    check(&scene, good, poisoned);
}

#[test]
fn a_point_that_hangs_a_backend_holds_up_nobody() {
    // Each point of them costs about twenty such timeouts to find.
    let scene = Scene::with_b(|setup| setup, "timeout = \"500ms\"");
    scene.b.set(Mode::HangsOn(POISON.to_owned()));
    let (good, poisoned) = write_some_poison(&scene, 1);
    check(&scene, good, poisoned);
}

#[test]
fn a_point_alone_in_its_database_that_makes_a_backend_answer_500_holds_up_nobody() {
    let scene = Scene::new();
    scene.b.set(Mode::Chokes(POISON.to_owned()));
    scene.weir.must_write("db", &format!("{POISON} v=1 1\n"));
    wait::until("it was tried alone", wait::LONG, || scene.b.requests() >= 2);
    scene.write_one_by_one(0, 10);
    scene.weir.wait_delivered();
    crate::scene::assert_points(&scene.b, 0, 10);
    assert_eq!(scene.weir.account("b").dead_lettered, 1);
}

#[test]
fn points_that_are_all_too_old_are_dead_letters_at_once() {
    let mut scene = Scene::new();
    let words = "partial write: points beyond retention policy dropped=100";
    scene.b.set(Mode::error(400, words));
    scene.weir.must_write("db", &crate::scene::points(0, 100));
    scene.weir.wait_delivered();
    assert_eq!(scene.weir.account("b").dead_lettered, 100);
    assert!(scene.b.requests() < 10, "{} requests, not a search", scene.b.requests());
    let is_told = |scene: &Scene| {
        let status = scene.weir.ask_admin("/status").json();
        let mut backends = status["influx"]["backends"].as_array().into_iter().flatten();
        backends.any(|of| of["last_refusal"].as_str().is_some_and(|why| why.contains(words)))
    };
    assert!(is_told(&scene), "the status says why they were refused");
    assert!(scene.weir.terminate().success());
    scene.weir.start_again();
    wait::until("it says so after a restart, too", wait::LONG, || is_told(&scene));
}

#[test]
fn dead_letters_can_be_sent_again_or_dropped() {
    let scene = Scene::new();
    scene.b.set(Mode::Conflict(POISON.to_owned()));
    let (good, poisoned) = write_some_poison(&scene, 4);
    check(&scene, good, poisoned);

    let replay = scene.weir.command(&["dead-letters", "replay", "b", "--all"]);
    assert_eq!(replay.status.code(), Some(3), "done, and what was found is bad");
    let listed = scene.weir.must_run(&["dead-letters", "list"]);
    assert!(listed.contains(&poisoned.to_string()), "what is refused again stays: {listed}");

    scene.b.set(Mode::Accept);
    scene.weir.must_run(&["dead-letters", "replay", "b", "--all"]);
    assert_eq!(scene.b.distinct(), good + poisoned, "what was put right arrives");
    let shown = scene.weir.must_run(&["dead-letters", "show", "b"]);
    assert!(!shown.contains(&format!("{POISON} v=")), "and is not a dead letter any more: {shown}");

    scene.b.set(Mode::Conflict(POISON.to_owned()));
    scene.weir.must_write("db", &format!("{POISON} v=\"again\" 1\n"));
    scene.weir.wait_delivered();
    scene.weir.must_run(&["dead-letters", "drop", "b", "--all"]);
    let shown = scene.weir.must_run(&["dead-letters", "show", "b"]);
    assert!(!shown.contains(POISON), "{shown}");
}

#[test]
fn a_full_file_of_dead_letters_stops_the_backend_and_loses_nothing() {
    let scene = Scene::with_b(|setup| setup, "dead-letters-max = \"4KiB\"");
    scene.b.set(Mode::Conflict(POISON.to_owned()));
    // More than the 16 that a file holds and less than two files of them, however they come in
    // batches: one drop makes room for the rest.
    for n in 0..28 {
        scene.weir.must_write("db", &format!("{POISON} v=\"{n}\" {n}\n"));
    }
    rig::wait::until("the status says why it stopped", rig::wait::LONG, || {
        scene.weir.account("b").last_error.contains("dead-letters")
    });
    let b = scene.weir.account("b");
    assert!(b.waiting > 0 && b.adds_up(), "{b:?}");
    let stopped = || {
        ["a", "b"].map(|name| {
            scene.weir.metrics().sum("weir_influx_backend_stopped", &[("backend", name)])
        })
    };
    assert_eq!(stopped(), [0.0, 1.0]);
    scene.weir.must_run(&["dead-letters", "drop", "b", "--all"]);
    scene.b.set(Mode::Accept);
    scene.weir.wait_delivered();
    assert_eq!(stopped(), [0.0, 0.0]);
    let events = scene.b.events();
    assert!(events.iter().any(|event| matches!(event, Event::Write { .. })), "{events:?}");
}
