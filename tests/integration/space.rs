//! What happens at the journal's size, for either choice.

use rig::fake::Mode;
use rig::http::Request;
use rig::status::Account;
use rig::wait;

use crate::scene::{Scene, assert_points, points};

/// Small enough to be filled in a moment.
const SMALL: &str = "segment-size = \"256KiB\"\nmax-size = \"1MiB\"";

/// Writes hundreds of points at a time until `done`; gives how many were taken.
fn fill(scene: &Scene, mut done: impl FnMut(u16) -> bool) -> u64 {
    let mut taken = 0;
    for _ in 0..1_000 {
        let answer = scene.weir.write("db", &points(taken, 500));
        if answer.status() == 204 {
            taken += 500;
        }
        if done(answer.status()) {
            return taken;
        }
    }
    panic!("half a million points fit into 1 MiB");
}

#[test]
fn a_full_journal_refuses_until_the_backend_has_caught_up() {
    let scene = Scene::with(|setup| setup.journal(SMALL));
    scene.b.set(Mode::error(503, "away"));
    let mut taken = fill(&scene, |status| status == 503);
    // A single point may still find room where five hundred did not.
    let answer = wait::value("a single point is refused", wait::LONG, || {
        let answer = scene.weir.write("db", &points(taken, 1));
        taken += u64::from(answer.status() == 204);
        (answer.status() != 204).then_some(answer)
    });
    assert_eq!(answer.status(), 503);
    assert!(answer.header("retry-after").is_some() && answer.text().contains("error"));
    let status = String::from_utf8(scene.weir.command(&["status"]).stdout).unwrap();
    assert!(status.contains("FULL"), "{status}");
    assert_eq!(scene.weir.ask_admin("/ready").status(), 503, "a load balancer goes elsewhere");
    scene.b.set(Mode::Accept);
    scene.weir.wait_delivered();
    wait::until("writes are taken again", wait::LONG, || {
        scene.weir.write("db", &points(taken, 1)).status() == 204
    });
    scene.weir.wait_delivered();
    assert_points(&scene.a, 0, taken + 1);
    assert_points(&scene.b, 0, taken + 1);
    assert_eq!(scene.weir.account("b").dropped, 0);
}

#[test]
fn drop_oldest_drops_only_what_the_slow_backend_lacks_and_counts_it() {
    let scene = Scene::with(|s| s.journal(SMALL).journal("when-full = \"drop-oldest\""));
    scene.b.set(Mode::error(503, "away"));
    let mut rounds = 0;
    let taken = fill(&scene, |status| {
        assert_eq!(status, 204, "nothing is refused");
        rounds += 1;
        if rounds % 10 != 0 {
            return false;
        }
        // It lags by a part of the journal at most, however busy the machine is.
        wait::until("the healthy one has everything", wait::LONG, || {
            scene.weir.account("a").waiting == 0
        });
        scene.weir.account("b").dropped > 5_000
    });
    let (a, b) = (scene.weir.account("a"), scene.weir.account("b"));
    assert_eq!((a.dropped, a.delivered), (0, taken));
    assert!(b.adds_up() && b.accepted == taken, "{b:?}");
    scene.weir.wait_log("given up");
    scene.b.set(Mode::Accept);
    scene.weir.wait_delivered();
    let b = scene.weir.account("b");
    assert_eq!(b.delivered + b.dropped, taken, "{b:?}");
    // A batch that was under way when its points were given up may have arrived all the same.
    assert!(scene.b.distinct() as u64 >= b.delivered, "{b:?}");
    assert_points(&scene.a, 0, taken);
    let newest = points(taken - 1, 1);
    assert!(scene.b.lines().iter().any(|line| line == newest.trim_end()), "the newest are kept");
}

#[test]
fn the_journal_stays_small_while_the_backends_keep_up() {
    let scene = Scene::with(|setup| setup.journal(SMALL));
    for round in 0..40 {
        scene.weir.must_write("db", &points(round * 1_000, 1_000));
        scene.weir.wait_delivered();
    }
    assert_points(&scene.b, 0, 40_000);
    assert!(scene.weir.accounts().iter().all(Account::adds_up));
}

#[test]
fn a_write_larger_than_the_journal_takes_is_refused_at_once() {
    let scene = Scene::with(|s| s.journal("segment-size = \"64KiB\"\nmax-size = \"1MiB\""));
    let answer = scene.weir.send(&Request::post("/write?db=db", points(0, 5_000)));
    assert_eq!(answer.status(), 413, "{}", answer.text());
    scene.write_one_by_one(0, 10);
    scene.weir.wait_delivered();
    assert_points(&scene.a, 0, 10);
}
