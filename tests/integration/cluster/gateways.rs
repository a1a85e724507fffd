//! Gateways side by side, and members that are not what they were.

use std::collections::BTreeSet;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rig::fake::{Event, Fake};
use rig::wait;
use rig::weir::{Setup, Weir};

use super::{PLACEMENT, refused_apply, sets, start_applied};
use crate::scene::point;

const LIMIT: Duration = Duration::from_secs(30);
const SETS: [&str; 2] = ["s1: a", "s2: b"];

/// Gateways of these two members with this table.
fn setup(fakes: &[Fake; 2], tables: &str) -> Setup {
    let [a, b] = fakes;
    let timeout = "timeout = \"1s\"";
    let of = Setup::new().backend_with("a", &a.url(), timeout);
    of.backend_with("b", &b.url(), timeout).table(tables)
}

fn fakes() -> [Fake; 2] {
    ["a", "b"].map(|name| Fake::start(name, &["db"]))
}

fn lines(fakes: &[Fake; 2]) -> usize {
    fakes.iter().map(Fake::distinct).sum()
}

/// Why a backend's delivery waits.
fn reason(weir: &Weir, backend: &str) -> String {
    let status = weir.ask_admin("/status").json();
    let backends = status["influx"]["backends"].as_array().unwrap().clone();
    let of = backends.iter().find(|of| of["name"] == backend).unwrap();
    of["reason"].as_str().unwrap_or_default().to_owned()
}

pub fn until_said(weir: &Weir, backend: &str, words: &str) {
    let said = || reason(weir, backend).contains(words);
    wait::until(&format!("{backend} to say {words:?}"), LIMIT, said);
}

#[test]
fn points_wait_until_the_table_is_on_its_members_and_then_are_where_it_says() {
    let fakes = fakes();
    let weir = setup(&fakes, &(sets(&SETS) + PLACEMENT)).start();
    let shown = weir.command(&["placement", "show"]);
    let text = String::from_utf8_lossy(&shown.stdout);
    assert_eq!(shown.status.code(), Some(3));
    assert!(text.contains("member a: it has no table yet"), "{text}");
    weir.must_write("db", &(0..100).map(point).collect::<String>());
    until_said(&weir, "a", "weir placement apply");
    let answer = weir.query("SELECT v FROM m", &[("db", "db")]).json();
    assert!(answer["results"][0]["error"].as_str().unwrap().contains("weir placement apply"));
    assert_eq!(lines(&fakes), 0);
    weir.must_run(&["placement", "apply", "--dry-run"]);
    assert!(fakes[0].table().is_none());
    weir.must_run(&["placement", "apply"]);
    weir.wait_delivered();
    assert_eq!(lines(&fakes), 100);
    for fake in &fakes {
        assert!(fake.distinct() > 20, "{}", fake.distinct());
    }
    let shown = weir.must_run(&["placement", "show"]);
    assert!(shown.contains("set s1: a") && shown.contains("member b: has the table"), "{shown}");
    assert!(weir.must_run(&["placement", "apply"]).contains("complete"));
    // Where a point lies is known without asking anybody.
    let line = point(7);
    let placed = weir.must_run(&["placement", "explain", "--db", "db", line.trim_end()]);
    let at = fakes[0].lines().contains(&line.trim_end().to_owned());
    assert!(placed.contains(if at { "set s1, on a" } else { "set s2, on b" }), "{placed}");
    let query = "SELECT max(v) FROM m; SELECT v FROM m; SHOW MEASUREMENTS";
    let told = weir.must_run(&["placement", "explain", "--db", "db", query]);
    for words in
        ["merged from partial", "run here on the points of", "united from a member of each of"]
    {
        assert!(told.contains(words), "{told}");
    }
    for (query, words) in [
        ("SELECT sum(v) / count(v) FROM m", "merged from partial results from a member of each"),
        ("SELECT difference(max(v)) FROM m GROUP BY time(1h)", "merged from partial results from"),
        ("SELECT distinct(v) FROM m", "since distinct values come in the order of the times"),
        ("SELECT max(v) - median(v) FROM m", "since it has a function other than count, sum"),
    ] {
        let told = weir.must_run(&["placement", "explain", "--db", "db", query]);
        assert!(told.contains(words), "{query}: {told}");
    }
}

#[test]
fn the_table_is_nobodys_database() {
    let fakes = fakes();
    let weir = start_applied(setup(&fakes, &(sets(&SETS) + PLACEMENT)));
    weir.wait_catalogue();
    assert_eq!(weir.write("_weir", "m v=1 1\n").status(), 404);
    let names = weir.query("SHOW DATABASES", &[]).text();
    assert!(names.contains("db") && !names.contains("_weir"), "{names}");
    for (sql, db) in [
        ("SELECT * FROM placement", "_weir"),
        ("SELECT * FROM _weir..placement", "db"),
        ("DROP DATABASE _weir", "db"),
    ] {
        let answer = weir.query(sql, &[("db", db)]).text();
        assert!(answer.contains("database not found: _weir"), "{sql}: {answer}");
    }
    assert!(fakes.iter().all(|fake| fake.table().is_some()));
}

#[test]
fn a_member_that_is_not_what_it_was_gets_nothing_and_is_not_asked() {
    let mut fakes = fakes();
    let tables = sets(&SETS) + PLACEMENT;
    let mut weir = start_applied(setup(&fakes, &tables));
    weir.must_write("db", &(0..50).map(point).collect::<String>());
    weir.wait_delivered();
    // Its disk is an empty one: it comes back without its table.
    let table = fakes[0].table();
    let before = fakes[0].distinct();
    fakes[0].take_down();
    fakes[0].set_table(None);
    fakes[0].bring_up();
    weir.must_write("db", &(50..100).map(point).collect::<String>());
    until_said(&weir, "a", "it has no table yet");
    assert_eq!(fakes[0].distinct(), before);
    assert!(refused_apply(&weir).contains("its disk is another one"));
    // Nobody else has its points, and the client hears why.
    let answer = weir.query("SELECT max(v) FROM load", &[("db", "db")]).text();
    assert!(answer.contains("no member of set \\\"s1\\\" answered the query: a: it has no table"));
    // A statement runs on all members or on none.
    let statement = "CREATE RETENTION POLICY later ON db DURATION 1d REPLICATION 1";
    let answer = weir.query(statement, &[]);
    assert_eq!(answer.status(), 503);
    let text = answer.text();
    assert!(text.contains("was not run") && text.contains("a: it has no table yet"), "{text}");
    // What the other set has is still had.
    wait::until("b to have its points", LIMIT, || weir.account("b").waiting == 0);
    // It is the disk of before once more, then one of another member, then its own.
    let other = fakes[1].table();
    fakes[0].set_table(other);
    until_said(&weir, "a", "is the member \"b\"");
    assert_eq!(fakes[0].distinct(), before);
    fakes[0].set_table(table);
    weir.wait_delivered();
    assert_eq!(lines(&fakes), 100);
    let ran = |event: &Event| matches!(event, Event::Statement { text, .. } if text == statement);
    let times = |fake: &Fake| fake.events().iter().filter(|event| ran(event)).count();
    assert_eq!(fakes.iter().map(times).collect::<Vec<_>>(), [0, 0]);
    assert_eq!(weir.query(statement, &[]).status(), 200);
    assert_eq!(fakes.iter().map(times).collect::<Vec<_>>(), [1, 1]);
    // The URLs are swapped by a reload.
    let [a, b] = &fakes;
    let swapped = Setup::new().backend("a", &b.url()).backend("b", &a.url()).table(&tables);
    weir.configure(|_| swapped);
    weir.reload();
    weir.wait_log("the configuration was reloaded");
    weir.must_write("db", &(100..150).map(point).collect::<String>());
    until_said(&weir, "a", "look at the URLs");
    until_said(&weir, "b", "look at the URLs");
    weir.configure(|_| setup(&fakes, &tables));
    weir.reload();
    weir.wait_delivered();
    let [a, b] = [0, 1].map(|n| fakes[n].lines().into_iter().collect::<BTreeSet<_>>());
    assert!(a.is_disjoint(&b) && a.len() + b.len() == 150, "{} and {}", a.len(), b.len());
}

#[test]
fn an_apply_that_is_killed_anywhere_is_run_again() {
    // Each of the two members is given the table twice.
    for written in 0..4 {
        let fakes = fakes();
        let weir = setup(&fakes, &(sets(&SETS) + PLACEMENT)).start();
        weir.must_write("db", &(0..40).map(point).collect::<String>());
        let (a, b) = (written / 2 + written % 2, written / 2);
        fakes[0].let_tables(Some(a));
        fakes[1].let_tables(Some(b));
        assert!(refused_apply(&weir).contains("the table is not taken"), "{written}");
        if written < 3 {
            assert_eq!(lines(&fakes), 0, "{written}");
        }
        fakes.iter().for_each(|fake| fake.let_tables(None));
        weir.must_run(&["placement", "apply"]);
        weir.wait_delivered();
        let [a, b] = [0, 1].map(|n| fakes[n].lines().into_iter().collect::<BTreeSet<_>>());
        assert!(a.is_disjoint(&b) && a.len() + b.len() == 40, "{} and {}", a.len(), b.len());
    }
}

/// A period that begins in so many seconds, over the second set alone.
pub fn period_in(seconds: u64) -> (String, u64) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let from = now.as_secs() + seconds;
    let time = jiff::Timestamp::from_second(from.try_into().unwrap()).unwrap();
    let period =
        format!("[[influx.placement]]\nfrom = \"{time}\"\nsets = [\"s2\"]\nfuture-max = \"1s\"\n");
    (period, from * 1_000_000_000)
}

#[test]
fn a_gateway_whose_file_lacks_a_period_holds_its_points_back_and_says_so() {
    let fakes = fakes();
    let first = "[[influx.placement]]\nsets = [\"s1\"]\nfuture-max = \"1s\"\n";
    let cluster = sets(&SETS).replace("\"2s\"", "\"1s\"");
    let before = format!("{cluster}{first}");
    let mut one = start_applied(setup(&fakes, &before));
    let mut two = setup(&fakes, &before).start();
    let (period, from_ns) = period_in(14);
    let after = format!("{before}{period}");
    let too_early = format!("{before}{}", period_in(5).0);
    one.configure(|_| setup(&fakes, &too_early));
    assert!(refused_apply(&one).contains("begins too early"));
    one.configure(|_| setup(&fakes, &after));
    one.reload();
    // Files first: what is not complete changes nothing for points of before.
    one.must_write("db", &point(0));
    one.wait_delivered();
    fast_apply(&one);
    two.must_write("db", &point(1));
    two.wait_delivered();
    assert_eq!(fakes[0].distinct(), 2);
    let until = UNIX_EPOCH + Duration::from_nanos(from_ns);
    std::thread::sleep(until.duration_since(SystemTime::now()).unwrap_or_default());
    let late = |n: u64| format!("m,host=h v={n} {}\n", from_ns + n);
    one.must_write("db", &late(10));
    one.wait_delivered();
    assert_eq!(fakes[1].lines(), [late(10).trim_end()]);
    two.must_write("db", &late(11));
    for member in ["a", "b"] {
        until_said(&two, member, "the file lacks");
    }
    let answer = two.query("SELECT v FROM m", &[("db", "db")]).json();
    assert!(answer["results"][0]["error"].as_str().unwrap().contains("file lacks"), "{answer}");
    assert_eq!(lines(&fakes), 3);
    two.configure(|_| setup(&fakes, &after));
    two.reload();
    two.wait_delivered();
    assert_eq!((fakes[0].distinct(), fakes[1].distinct()), (2, 2));
    // A file of before is refused by a gateway that knows better.
    two.terminate();
    two.configure(|_| setup(&fakes, &before));
    let (_, log) = two.start_in_vain();
    assert!(log.contains("stays as it is"), "{log}");
}

/// Applies a table that adds a period to others.
pub fn fast_apply(weir: &Weir) {
    let said = weir.must_run(&["placement", "apply"]);
    assert!(said.contains("is added, over") && said.contains("waiting"), "{said}");
}
