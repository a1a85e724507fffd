//! Backends that share the points out among them: each point on every member of its one set.

mod asked;
mod at_once;
mod dropped;
mod founded;
mod gateways;
mod killed;
mod loaded;
mod noted;
mod rebuilt;
mod silent;
mod streamed;
mod verified;

use std::collections::BTreeSet;
use std::fs;
use std::thread;
use std::time::Duration;

use rig::fake::{Fake, Mode};
use rig::sending;
use rig::status::Account;
use rig::wait;
use rig::weir::{Setup, Weir};

use crate::scene::{point, single_points};

/// Two sets of two, by series.
pub const PLACEMENT: &str = "[[influx.placement]]\nsets = [\"s1\", \"s2\"]\n";

/// The tables of these sets, `name: member member`.
pub fn sets(sets: &[&str]) -> String {
    let mut tables = "[influx.cluster]\nname = \"prod\"\ncheck-interval = \"2s\"\n".to_owned();
    for set in sets {
        let (name, members) = set.split_once(": ").unwrap();
        let members: Vec<&str> = members.split(' ').collect();
        tables.push_str(&format!("[[influx.set]]\nname = \"{name}\"\nmembers = {members:?}\n"));
    }
    tables
}

/// Starts a Weir whose table is on its members.
pub fn start_applied(setup: Setup) -> Weir {
    let mut weir = setup.prepare();
    weir.must_run(&["placement", "apply"]);
    weir.start_again();
    weir
}

/// Two sets of two fakes, and a complete copy.
struct Cluster {
    members: [Fake; 4],
    copy: Fake,
    weir: Weir,
}

impl Cluster {
    fn new() -> Self {
        let members = ["a1", "a2", "b1", "b2"].map(|name| Fake::start(name, &["db"]));
        let copy = Fake::start("copy", &["db"]);
        let mut setup = Setup::new().backend("copy", &copy.url());
        for (name, fake) in ["a1", "a2", "b1", "b2"].iter().zip(&members) {
            setup = setup.backend(name, &fake.url());
        }
        let tables = sets(&["s1: a1 a2", "s2: b1 b2"]) + PLACEMENT;
        Self { weir: start_applied(setup.table(&tables)), members, copy }
    }

    /// The points that each set has; both members have the same, and no point is in both.
    fn points(&self) -> [BTreeSet<String>; 2] {
        let of = |fake: &Fake| fake.lines().into_iter().collect::<BTreeSet<String>>();
        let [a1, a2, b1, b2] = [0, 1, 2, 3].map(|n| of(&self.members[n]));
        assert!(a1 == a2, "{} and {} points", a1.len(), a2.len());
        assert!(b1 == b2, "{} and {} points", b1.len(), b2.len());
        assert!(a1.is_disjoint(&b1), "no point is in two sets");
        [a1, b1]
    }

    fn assert_accounted(&self) {
        let accounts = self.weir.accounts();
        assert!(accounts.iter().all(Account::adds_up), "{accounts:?}");
        let of = |name: &str| accounts.iter().find(|of| of.name == name).unwrap();
        assert_eq!(of("copy").elsewhere, 0);
        let (a, b) = (of("a1"), of("b1"));
        assert!(a.elsewhere > 0 && b.elsewhere > 0, "{a:?} {b:?}");
        assert_eq!(a.elsewhere, b.delivered + b.dead_lettered, "{a:?} {b:?}");
    }
}

#[test]
fn each_point_is_on_every_member_of_its_one_set_over_kills_and_absences() {
    let mut cluster = Cluster::new();
    let plan = sending::closed(cluster.weir.http, 8, Duration::from_secs(3600));
    let stop = plan.stop.clone();
    let running = thread::spawn(move || sending::run(&plan, single_points("db")));
    crate::kill::until_taken(&cluster.weir, 300.0);
    cluster.members[1].take_down();
    cluster.weir.kill();
    cluster.weir.start_again();
    crate::kill::until_taken(&cluster.weir, 300.0);
    cluster.members[2].take_down();
    cluster.members[1].bring_up();
    cluster.weir.kill();
    cluster.weir.start_again();
    cluster.members[2].bring_up();
    crate::kill::until_taken(&cluster.weir, 100.0);
    stop.ask();
    let report = running.join().unwrap();
    cluster.weir.wait_delivered();
    let [a, b] = cluster.points();
    assert!(a.len() > 50 && b.len() > 50, "{} and {}", a.len(), b.len());
    let copy: BTreeSet<String> = cluster.copy.lines().into_iter().collect();
    assert!(a.union(&b).eq(&copy), "a backend in no set has all of them");
    let lost = report.acknowledged.iter().filter(|n| !copy.contains(point(**n).trim_end()));
    assert_eq!(lost.count(), 0, "of {} acknowledged", report.acknowledged.len());
    cluster.assert_accounted();
}

#[test]
fn a_point_that_one_copy_refuses_is_a_dead_letter_of_that_copy_alone() {
    let cluster = Cluster::new();
    cluster.members[0].set(Mode::Conflict("h3".to_owned()));
    let lines: String = (0..700).map(point).collect();
    cluster.members[2].set(Mode::Conflict("h3".to_owned()));
    cluster.weir.must_write("db", &lines);
    cluster.weir.wait_delivered();
    let a = cluster.weir.account("a1");
    let b = cluster.weir.account("b1");
    assert_eq!(a.dead_lettered + b.dead_lettered, 100, "{a:?} {b:?}");
    let refusing = if a.dead_lettered > 0 { "a1" } else { "b1" };
    let shown = cluster.weir.must_run(&["dead-letters", "show", refusing]);
    // Its index counts the record's lines, not the member's own.
    assert!(shown.contains("point 3") && shown.contains("point 696"), "{shown}");
    cluster.assert_accounted();
}

#[test]
fn dead_letters_are_not_sent_again_to_a_member_that_is_not_what_it_was() {
    let cluster = Cluster::new();
    cluster.members.iter().for_each(|member| member.set(Mode::Conflict("h3".to_owned())));
    cluster.weir.must_write("db", &(0..100).map(point).collect::<String>());
    cluster.weir.wait_delivered();
    let refused = |name: &str| cluster.weir.account(name).dead_lettered;
    let (at, name) = if refused("a1") > 0 { (0, "a1") } else { (2, "b1") };
    let (member, letters) = (&cluster.members[at], refused(name));
    assert!(letters > 0);
    member.set(Mode::Accept);
    let (before, table) = (member.distinct(), member.table());
    let replay = || {
        let output = cluster.weir.command(&["dead-letters", "replay", name, "--all"]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success(), "{said}");
        said
    };
    member.set_table(None);
    let said = replay();
    assert!(said.contains("it has no table yet; run `weir placement apply`"), "{said}");
    // The server of another member of the set.
    member.set_table(cluster.members[at + 1].table());
    let said = replay();
    assert!(said.contains("look at the URLs"), "{said}");
    assert_eq!(member.distinct(), before, "nothing was sent");
    member.set_table(table);
    cluster.weir.must_run(&["dead-letters", "replay", name, "--all"]);
    assert_eq!(member.distinct(), before + letters as usize);
}

#[test]
fn points_that_could_not_be_found_again_are_refused_and_the_others_are_taken() {
    let fakes = ["a", "b"].map(|name| Fake::start(name, &["db"]));
    let [a, b] = &fakes;
    let setup = Setup::new().backend("a", &a.url()).backend("b", &b.url());
    let placement = "[[influx.placement]]\nsets = [\"s1\", \"s2\"]\nsplit-by = [\"host\"]\n\
                     future-max = \"1h\"";
    let weir = start_applied(setup.table(&(sets(&["s1: a", "s2: b"]) + placement)));
    weir.wait_catalogue();
    let ahead = "m,host=a v=1 4000000000000000000\nm,host=a v=1 1\n";
    let answer = weir.write("db", ahead);
    assert_eq!(answer.status(), 400);
    let words = answer.text();
    assert!(words.contains("partial write") && words.contains("future-max"), "{words}");
    assert!(words.contains("dropped=1"), "{words}");
    let answer = weir.write("db", "m,rack=1 host=\"a\" 1\n");
    assert!(answer.status() == 400 && answer.text().contains("shared out by"), "{}", answer.text());
    weir.wait_delivered();
    assert_eq!(a.distinct() + b.distinct(), 1);
}

#[test]
fn a_cluster_grows_by_a_reload_and_an_apply_and_nothing_else_about_it_changes() {
    let fakes = ["a", "b", "c"].map(|name| Fake::start(name, &["db"]));
    let [a, b, c] = &fakes;
    let first = "[[influx.placement]]\nsets = [\"s1\"]\n";
    let mut weir = Setup::new().backend("a", &a.url()).start();
    weir.must_write("db", &point(0));
    weir.wait_delivered();
    let with = |tables: &str| {
        let tables = tables.to_owned();
        move |setup: Setup| setup.backend("b", &b.url()).table(&tables)
    };
    weir.terminate();
    let several = sets(&["s1: a", "s2: b"]) + PLACEMENT;
    let plain = Setup::new().backend("a", &a.url());
    weir.configure(|_| with(&several)(plain.clone()));
    assert!(refused_apply(&weir).contains("has points of before"));
    // The lone set of a cluster is taken as it is.
    weir.configure(|_| plain.clone().table(&(sets(&["s1: a"]) + first)));
    weir.must_run(&["placement", "apply"]);
    weir.start_again();
    weir.must_write("db", &point(1));
    weir.wait_delivered();
    assert_eq!(a.distinct(), 2);
    // A set for the points to come.
    let later = "[[influx.placement]]\nfrom = \"2200-01-01T00:00:00Z\"\nsets = [\"s2\"]\n";
    let grown = sets(&["s1: a", "s2: b"]) + first + later;
    weir.configure(|_| with(&grown)(plain.clone()));
    weir.reload();
    weir.must_run(&["placement", "apply"]);
    // Until then the new member has no account.
    weir.wait_log("delivery has begun");
    weir.must_write("db", &point(2));
    weir.wait_delivered();
    assert_eq!((a.distinct(), b.distinct()), (3, 0));
    let own = weir.account("b");
    assert!(own.elsewhere > 0 && own.adds_up(), "{own:?}");
    // What is in force stays.
    let kept = weir.journal_dir().join("influx/placement.json");
    let is_kept = || fs::read_to_string(&kept).is_ok_and(|text| text.contains("2200"));
    wait::until("the gateway to know it", Duration::from_secs(30), is_kept);
    let changed = grown.replace("sets = [\"s2\"]", "sets = [\"s1\", \"s2\"]");
    for (tables, words) in [
        (changed, "stays as it is"),
        (grown.replace("\"prod\"", "\"test\""), "keeps its name"),
        (String::new(), "put its tables back"),
    ] {
        weir.configure(|_| with(&tables)(plain.clone()).backend("c", &c.url()));
        weir.running().signal(rustix::process::Signal::HUP);
        weir.wait_log(words);
        weir.must_write("db", &point(3));
        weir.wait_delivered();
        assert_eq!((a.distinct(), b.distinct(), c.distinct()), (4, 0, 0));
    }
    let more = grown.replace("members = [\"a\"]", "members = [\"a\", \"c\"]");
    weir.configure(|_| with(&more)(plain.clone()).backend("c", &c.url()));
    assert!(refused_apply(&weir).contains("lacks the points that set \"s1\" has"));
    weir.terminate();
    weir.configure(|_| with("")(plain.clone()));
    let (_, log) = weir.start_in_vain();
    assert!(log.contains("put its tables back"), "{log}");
}

/// What is said of a table that can't be applied.
pub fn refused_apply(weir: &Weir) -> String {
    let output = weir.command(&["placement", "apply"]);
    assert_eq!(output.status.code(), Some(1));
    String::from_utf8_lossy(&output.stderr).into_owned()
}
