//! What gateways side by side know of each other by their notes on the members.

use std::collections::{BTreeMap, BTreeSet};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use meter::engine::Stop;
use rig::fake::{Event, Fake, Mode};
use rig::places;
use rig::sending;
use rig::wait;
use rig::weir::{Setup, Weir};
use serde_json::Value;

use super::gateways::until_said;
use super::{PLACEMENT, sets, start_applied};
use crate::scene::point;

const LIMIT: Duration = Duration::from_secs(30);
pub const DELETE: &str = "DELETE FROM load WHERE host = 'h1'";
/// The points of the second gateway begin here.
const SECOND: u64 = 1_000_000;

/// Four members in two sets.
pub fn fakes() -> [Fake; 4] {
    ["a1", "a2", "b1", "b2"].map(|name| Fake::start(name, &["db"]))
}

/// A gateway of them.
pub fn setup(fakes: &[Fake; 4]) -> Setup {
    let mut setup = Setup::new();
    for (name, fake) in ["a1", "a2", "b1", "b2"].iter().zip(fakes) {
        setup = setup.backend_with(name, &fake.url(), "timeout = \"1s\"");
    }
    setup.table(&(sets(&["s1: a1 a2", "s2: b1 b2"]) + PLACEMENT))
}

fn points(numbers: std::ops::Range<u64>) -> String {
    numbers.map(point).collect()
}

/// Writes the points from `first` on through a gateway, one a request, until it is stopped.
pub fn load(weir: &Weir, connections: usize, first: u64) -> (Stop, JoinHandle<sending::Report>) {
    let plan = sending::closed(weir.http, connections, Duration::from_secs(3600));
    let stop = plan.stop.clone();
    let request = move |n, out: &mut Vec<u8>| {
        sending::put_post(out, "/write?db=db", point(first + n).as_bytes());
    };
    (stop, thread::spawn(move || sending::run(&plan, request)))
}

/// What the gateways have noted on a member.
fn notes(fake: &Fake) -> Vec<Value> {
    fake.notes().values().map(|note| serde_json::from_str(note).unwrap()).collect()
}

/// The names of all gateways that have noted something.
fn gateways(fakes: &[Fake; 4]) -> BTreeSet<String> {
    fakes.iter().flat_map(|fake| fake.notes().into_keys()).collect()
}

/// How many statements of this text a member has run.
pub fn runs(fake: &Fake, statement: &str) -> usize {
    let is_it =
        |event: &&Event| matches!(event, Event::Statement { text, .. } if text == statement);
    fake.events().iter().filter(is_it).count()
}

/// The points of each set: both members have the same, and no point is in both.
pub fn points_of_sets(fakes: &[Fake; 4]) -> [BTreeSet<String>; 2] {
    let of = |fake: &Fake| fake.lines().into_iter().collect::<BTreeSet<String>>();
    let [a1, a2, b1, b2] = [0, 1, 2, 3].map(|n| of(&fakes[n]));
    assert!(a1 == a2 && b1 == b2, "{} {} {} {}", a1.len(), a2.len(), b1.len(), b2.len());
    assert!(a1.is_disjoint(&b1));
    [a1, b1]
}

#[test]
fn a_member_that_is_put_back_to_yesterday_gets_nothing_and_is_not_asked() {
    let mut fakes = fakes();
    let mut weir = start_applied(setup(&fakes));
    weir.must_write("db", &points(0..50));
    weir.wait_delivered();
    wait::until("a note that all is there", LIMIT, || {
        notes(&fakes[0]).iter().any(|note| note["position"].as_u64() > Some(0))
    });
    let yesterday = fakes[0].notes();
    weir.must_write("db", &points(50..100));
    weir.wait_delivered();
    wait::until("a note of today", LIMIT, || fakes[0].notes() != yesterday);
    // Over a restart, too: the cursor on the disk never passes the note.
    weir.terminate();
    weir.start_again();
    for notes in [yesterday, BTreeMap::new()] {
        fakes[0].take_down();
        let today = fakes[0].notes();
        fakes[0].set_notes(notes);
        fakes[0].bring_up();
        until_said(&weir, "a1", "put back to a state of before");
        let before = fakes[0].lines().len();
        weir.must_write("db", &points(100..150));
        wait::until("the other to have its points", LIMIT, || weir.account("a2").waiting == 0);
        assert_eq!(fakes[0].lines().len(), before);
        for _ in 0..10 {
            let answer = weir.query("SHOW MEASUREMENTS", &[("db", "db")]).text();
            assert!(!answer.contains("a1"), "{answer}");
        }
        fakes[0].take_down();
        fakes[0].set_notes(today);
        fakes[0].bring_up();
        weir.wait_delivered();
    }
    let [a, b] = points_of_sets(&fakes);
    assert_eq!(a.len() + b.len(), 150);
}

#[test]
fn two_gateways_bring_each_point_to_every_member_of_its_one_set_over_kills_and_absences() {
    let mut fakes = fakes();
    let mut gateways = [start_applied(setup(&fakes)), setup(&fakes).start()];
    let loads = [0, 1].map(|n| load(&gateways[n], 4, n as u64 * SECOND));
    let taken = |weir: &Weir| crate::kill::until_taken(weir, 200.0);
    gateways.iter().for_each(taken);
    fakes[1].take_down();
    gateways[0].kill();
    gateways[0].start_again();
    taken(&gateways[0]);
    fakes[2].take_down();
    fakes[1].bring_up();
    gateways[1].kill();
    gateways[1].start_again();
    taken(&gateways[1]);
    fakes[2].set(Mode::Hang);
    fakes[2].bring_up();
    taken(&gateways[0]);
    fakes[2].set(Mode::Slow(Duration::from_millis(20)));
    gateways.iter().for_each(taken);
    fakes[2].set(Mode::Accept);
    let reports = loads.map(|(stop, load)| {
        stop.ask();
        load.join().unwrap()
    });
    gateways.iter().for_each(Weir::wait_delivered);
    let [a, b] = points_of_sets(&fakes);
    let all: BTreeSet<&String> = a.union(&b).collect();
    for (n, report) in reports.iter().enumerate() {
        let line = |number: &u64| point(n as u64 * SECOND + number).trim_end().to_owned();
        let lost = report.acknowledged.iter().filter(|number| !all.contains(&line(number)));
        assert_eq!(lost.count(), 0, "of {} acknowledged", report.acknowledged.len());
    }
    let shown = gateways[0].must_run(&["placement", "show"]);
    assert_eq!(shown.matches("gateway ").count(), 2, "{shown}");
}

#[test]
fn a_gateway_takes_no_write_before_the_others_can_know_of_it() {
    let fakes = fakes();
    let first = start_applied(setup(&fakes));
    for fake in &fakes {
        fake.set(Mode::Slow(Duration::from_millis(300)));
    }
    let mut second = setup(&fakes).start();
    second.must_write("db", &points(0..10));
    assert!(fakes.iter().any(|fake| fake.notes().len() == 2), "a statement would not wait for it");
    second.wait_delivered();
    // Nor does it where it was there before, and had nothing left.
    assert!(second.terminate().success());
    let is_running =
        |fake: &Fake| notes(fake).iter().filter(|note| note["state"] == "running").count();
    assert!(fakes.iter().all(|fake| is_running(fake) == 1));
    second.start_again();
    second.must_write("db", &points(10..20));
    assert!(fakes.iter().any(|fake| is_running(fake) == 2));
    // Clients do not wait for members that are away.
    assert!(second.terminate().success());
    for fake in &fakes {
        fake.set(Mode::Hang);
    }
    second.start_again();
    second.must_write("db", &points(20..30));
    drop(first);
}

#[test]
fn what_takes_points_away_waits_for_those_of_the_other_gateway() {
    let fakes = fakes();
    let first = start_applied(setup(&fakes));
    let second = setup(&fakes).start();
    first.must_write("db", &points(0..100));
    second.must_write("db", &points(SECOND..SECOND + 100));
    // A member takes no points for a while, so both gateways have some left.
    fakes[0].set(Mode::error(503, "busy"));
    second.must_write("db", &points(SECOND + 100..SECOND + 200));
    let answer = first.query(DELETE, &[("db", "db")]);
    assert_eq!(answer.status(), 503);
    let text = answer.text();
    assert!(text.contains("was not run") && text.contains("has points for a1"), "{text}");
    assert!(fakes.iter().all(|fake| runs(fake, DELETE) == 0));
    // What makes names need not wait, and one that is there already is not made again.
    let policy = "CREATE RETENTION POLICY p ON db DURATION 1d REPLICATION 1";
    assert_eq!(first.query(policy, &[]).status(), 200);
    assert_eq!(fakes.iter().map(|fake| runs(fake, policy)).collect::<Vec<_>>(), [1; 4]);
    first.wait_catalogue();
    assert_eq!(first.query("CREATE DATABASE db", &[]).status(), 200);
    assert_eq!(runs(&fakes[0], "CREATE DATABASE db"), 0);
    fakes[0].set(Mode::Accept);
    // From both at once: each runs once on every member, behind all points.
    let other = "DELETE FROM load WHERE host = 'h2'";
    thread::scope(|scope| {
        let second = scope.spawn(|| second.query(other, &[("db", "db")]).text());
        let answer = first.query(DELETE, &[("db", "db")]).text();
        assert!(!answer.contains("error"), "{answer}");
        let answer = second.join().unwrap();
        assert!(!answer.contains("error"), "{answer}");
    });
    for fake in &fakes {
        let events = fake.events();
        let is_write = |event: &Event| matches!(event, Event::Write { .. });
        let last = events.iter().rposition(is_write).unwrap();
        for statement in [DELETE, other] {
            assert_eq!(runs(fake, statement), 1);
            let is_it =
                |event: &Event| matches!(event, Event::Statement { text, .. } if text == statement);
            assert!(events.iter().position(is_it).unwrap() > last, "{events:?}");
        }
    }
    let [a, b] = points_of_sets(&fakes);
    assert_eq!(a.len() + b.len(), 300);
}

#[test]
fn a_gateway_that_is_lost_is_forgotten_and_takes_part_again_by_another_name() {
    let fakes = fakes();
    let mut first = start_applied(setup(&fakes));
    let mut second = setup(&fakes).start();
    first.must_write("db", &points(0..20));
    second.must_write("db", &points(SECOND..SECOND + 20));
    second.wait_delivered();
    wait::until("both gateways' notes", LIMIT, || fakes.iter().all(|fake| fake.notes().len() == 2));
    let names = gateways(&fakes);
    fakes[3].set(Mode::error(503, "busy"));
    second.must_write("db", &points(SECOND + 20..SECOND + 40));
    wait::until("all but one to have them", LIMIT, || {
        let [a1, a2, b1] = [0, 1, 2].map(|n| fakes[n].distinct());
        a1 + b1 == 60 && a1 == a2
    });
    let last =
        |fake: &Fake, of: &str| notes(fake).iter().filter_map(|note| note[of].as_u64()).max();
    let end = || last(&fakes[0], "end");
    wait::until("a backlog that others see", LIMIT, || last(&fakes[3], "position") < end());
    second.kill();
    fakes[3].set(Mode::Accept);
    first.wait_delivered();
    let text = first.query(DELETE, &[("db", "db")]).text();
    assert!(text.contains("which writes no notes"), "{text}");
    let lost = names.iter().find(|name| text.contains(*name)).unwrap();
    let living = names.iter().find(|name| *name != lost).unwrap();
    let refused = |gateway: &str| {
        let output = first.command(&["placement", "forget", gateway]);
        assert_eq!(output.status.code(), Some(1));
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let said = refused(living);
    assert!(said.contains("writes notes: stop it"), "{said}");
    let said = refused("nobody");
    assert!(said.contains(lost) && said.contains(living), "{said}");
    first.must_run(&["placement", "forget", lost]);
    assert_eq!(first.query(DELETE, &[("db", "db")]).status(), 200);
    assert_eq!(runs(&fakes[0], DELETE), 1);
    let shown = first.must_run(&["placement", "show"]);
    assert!(shown.contains(&format!("gateway {lost}")) && shown.contains("forgotten"), "{shown}");
    // It returns, and writes nothing.
    second.start_again();
    until_said(&second, "b2", "weir placement rejoin");
    second.must_write("db", &points(SECOND + 40..SECOND + 50));
    thread::sleep(Duration::from_secs(2));
    let before = |n: usize| fakes[n].distinct();
    assert_eq!(before(0) + before(2), 20 + 40, "none of the last ten");
    assert!(before(3) < before(2));
    let running = second.command(&["placement", "rejoin"]);
    assert!(String::from_utf8_lossy(&running.stderr).contains("in use"));
    second.terminate();
    let name = second.must_run(&["placement", "rejoin"]);
    second.start_again();
    second.wait_delivered();
    first.terminate();
    let [a, b] = points_of_sets(&fakes);
    assert_eq!(a.len() + b.len(), 20 + 50);
    let now = gateways(&fakes);
    assert!(now.iter().any(|id| name.contains(id)) && now.len() == 3, "{now:?} {name}");
}

#[test]
fn a_new_member_knows_which_gateways_are_forgotten() {
    let fakes = ["a", "b"].map(|name| Fake::start(name, &["db"]));
    let [a, b] = &fakes;
    let first = "[[influx.placement]]\nsets = [\"s1\"]\n";
    let before = || Setup::new().backend("a", &a.url()).table(&(sets(&["s1: a"]) + first));
    let mut weir = start_applied(before());
    wait::until("its note", LIMIT, || a.notes().len() == 1);
    let own = a.notes().into_keys().next().unwrap();
    let mut lost = before().start();
    wait::until("notes of both", LIMIT, || a.notes().len() == 2);
    lost.kill();
    let forgotten = a.notes().into_keys().find(|name| *name != own).unwrap();
    weir.must_run(&["placement", "forget", &forgotten]);
    let later = "[[influx.placement]]\nfrom = \"2200-01-01T00:00:00Z\"\nsets = [\"s2\"]\n";
    let after = sets(&["s1: a", "s2: b"]) + first + later;
    weir.configure(|_| Setup::new().backend("a", &a.url()).backend("b", &b.url()).table(&after));
    weir.reload();
    weir.must_run(&["placement", "apply"]);
    assert!(b.notes()[&forgotten].contains("forgotten"));
    wait::until("the other to note there, too", LIMIT, || b.notes().len() == 2);
}

#[test]
fn a_journal_that_runs_twice_writes_by_two_names() {
    let fakes = fakes();
    let mut first = start_applied(setup(&fakes));
    first.must_write("db", &points(0..50));
    first.wait_delivered();
    first.terminate();
    let copy = setup(&fakes).prepare();
    places::copy_directory(&first.journal_dir(), &copy.journal_dir());
    first.start_again();
    let mut copy = copy;
    copy.start_again();
    for n in 1..4 {
        first.must_write("db", &points(n * 50..n * 50 + 50));
        copy.must_write("db", &points(SECOND + n * 50..SECOND + n * 50 + 50));
        wait::until("two names", LIMIT, || gateways(&fakes).len() == 2);
    }
    first.wait_delivered();
    copy.wait_delivered();
    let [a, b] = points_of_sets(&fakes);
    assert_eq!(a.len() + b.len(), 50 + 150 + 150);
}
