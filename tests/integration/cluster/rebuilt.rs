//! A member that lost its disk, or has one of before, is filled from another one of its set.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rig::http::Request;
use rig::influxd::Influxd;
use rig::weir::{Setup, Weir};
use rig::{places, wait};
use serde_json::Value;

use super::gateways::until_said;
use super::noted::load;
use super::{sets, start_applied};
use crate::scene::points;

const LIMIT: Duration = Duration::from_secs(60);
const HOUR_NS: u64 = 3_600_000_000_000;
pub const DAY_NS: u64 = 24 * HOUR_NS;
pub const FIRST_NS: u64 = 1_600_000_000_000_000_000;
/// The points of the second gateway begin here.
pub const SECOND: u64 = 1_000_000;
/// Bytes of the journal that are most of 16,000 points, and more than what is there before.
const MOST_OF_IT: u64 = 500_000;
pub const PERIOD: &str = "[[influx.placement]]\nsets = [\"s1\"]\nfuture-max = \"20000d\"\n";

/// A gateway of one set of these members.
pub fn setup(members: &[(&str, &Influxd)]) -> Setup {
    let members: Vec<_> = members.iter().map(|(name, server)| (*name, server.url())).collect();
    setup_at(&members)
}

/// A gateway of one set of the members with these URLs.
pub fn setup_at(members: &[(&str, String)]) -> Setup {
    let mut setup = Setup::new();
    for (name, url) in members {
        setup = setup.backend_with(name, url, "timeout = \"2s\"");
    }
    let names: Vec<&str> = members.iter().map(|(name, _)| *name).collect();
    setup.table(&(sets(&[&format!("s1: {}", names.join(" "))]) + PERIOD))
}

fn write(weir: &Weir, policy: &str, lines: String) {
    let target = format!("/write?db=db&rp={policy}");
    let answer = weir.send(&Request::post(&target, lines.into_bytes()));
    assert_eq!(answer.status(), 204, "{}", answer.text());
}

/// Points of all types in several policies, with all that has to be escaped, and a tag and a field
/// of one name.
pub fn fill_alike(weir: &Weir) {
    for statement in [
        "CREATE DATABASE db",
        "CREATE DATABASE \"other one\"",
        "CREATE RETENTION POLICY \"a year\" ON db DURATION 30000d REPLICATION 1 SHARD DURATION 30d",
        "CREATE RETENTION POLICY hours ON db DURATION 30000d REPLICATION 1 SHARD DURATION 1d",
    ] {
        let answer = weir.query(statement, &[]).json();
        assert!(answer["results"][0]["error"].is_null(), "{statement}: {answer}");
    }
    let line = |n: u64| {
        let time = FIRST_NS + n * HOUR_NS;
        format!(
            "all\\ types,host=h\\ {},k\\,\\=ey=v\\=\\,{} f={}.5,i={n}i,s=\"q\\\"\\\\ {n}\nline\",\
             b={},whole={n} {time}\n",
            n % 3,
            n % 2,
            n,
            n.is_multiple_of(2)
        )
    };
    write(weir, "", (0..2_000).map(line).collect());
    write(weir, "a%20year", (0..200).map(line).collect());
    let both = |n: u64| format!("both,name=tag{} name=\"field\",v={n} {}\n", n % 2, FIRST_NS + n);
    weir.must_write("other one", &(0..100).map(both).collect::<String>());
}

/// The same, and a field that is a float at one time, and an integer or a text at another.
pub fn fill(weir: &Weir) {
    fill_alike(weir);
    let changing = |n: u64| match n % 3 {
        0 => format!("changing,x=1 v={n} {}\n", FIRST_NS + n * DAY_NS),
        1 => format!("changing,x=1 v={n}i {}\n", FIRST_NS + n * DAY_NS),
        _ => format!("changing,x=1 v=\"{n}\" {}\n", FIRST_NS + n * DAY_NS),
    };
    write(weir, "hours", (0..60).map(changing).collect());
}

/// All that a server has of clients, with the types of fields.
fn contents(server: &Influxd) -> Vec<(String, Value)> {
    let mut all = Vec::new();
    for db in server.databases().iter().filter(|db| !db.starts_with('_')) {
        let policies = server.ask(&format!("SHOW RETENTION POLICIES ON \"{db}\""), &[]);
        let rows = policies["results"][0]["series"][0]["values"].as_array().unwrap().clone();
        for name in rows.iter().filter_map(|row| row[0].as_str()) {
            let place = format!("\"{db}\".\"{name}\"./.*/");
            for question in [
                format!("SELECT * FROM {place} GROUP BY *"),
                format!("SHOW FIELD KEYS ON \"{db}\" FROM {place}"),
            ] {
                let answer = server.ask(&question, &[("epoch", "ns"), ("db", db)]);
                assert!(answer["results"][0]["error"].is_null(), "{question}: {answer}");
                all.push((question, answer["results"][0]["series"].clone()));
            }
        }
        all.push((db.clone(), policies["results"][0]["series"].clone()));
    }
    all
}

#[track_caller]
pub fn assert_alike(one: &Influxd, other: &Influxd) {
    let (one, other) = (contents(one), contents(other));
    assert_eq!(one.len(), other.len());
    for ((question, one), (_, other)) in one.iter().zip(&other) {
        let rows = |of: &Value| of.to_string().len();
        assert!(one == other, "{question}: {} and {} bytes", rows(one), rows(other));
    }
}

/// The numbers of the points of loads that a server has.
pub fn numbers(server: &Influxd) -> BTreeSet<u64> {
    let answer = server.ask("SELECT v FROM load", &[("db", "db"), ("epoch", "ns")]);
    let rows = answer["results"][0]["series"][0]["values"].as_array().cloned();
    rows.unwrap_or_default().iter().filter_map(|row| row[1].as_u64()).collect()
}

pub fn begin_rebuild(weir: &Weir, words: &[&str]) -> Child {
    let mut command = Command::new(places::weir());
    command.args(["placement", "rebuild"]).args(words).env("WEIR_CONFIG", weir.config());
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Whether a line of it says that one gateway is waited for.
fn is_of_one(line: &str) -> bool {
    line.contains("waiting for ") && line.matches("gateway ").count() == 1
}

/// How far a member says that its rebuild is.
pub fn progress(server: &Influxd) -> Option<String> {
    let answer = server.ask("SELECT copied FROM \"_weir\"..rebuild", &[]);
    answer["results"][0]["series"][0]["values"][0][1].as_str().map(str::to_owned)
}

/// Up to where the one gateway has noted that a member has all; 0 while more is to come.
fn noted(server: &Influxd) -> u64 {
    let answer = server.ask("SELECT note FROM \"_weir\"..note", &[]);
    let note = answer["results"][0]["series"][0]["values"][0][1].as_str().unwrap_or_default();
    let note: Value = serde_json::from_str(note).unwrap_or_default();
    let position = note["position"].as_u64().unwrap_or(0);
    if note["end"].as_u64() == Some(position) { position } else { 0 }
}

/// How many notes its gateway has written.
fn count_of_notes(server: &Influxd) -> u64 {
    let answer = server.ask("SELECT note FROM \"_weir\"..note", &[]);
    let note = answer["results"][0]["series"][0]["values"][0][1].as_str().unwrap_or_default();
    let note: Value = serde_json::from_str(note).unwrap_or_default();
    note["count"].as_u64().expect("a note is counted")
}

#[test]
fn a_member_that_lost_its_disk_is_rebuilt_under_load_and_has_what_the_other_has() {
    let (a, mut b) = (Influxd::start(), Influxd::start());
    let of = |b: &Influxd| setup(&[("a", &a), ("b", b)]);
    let gateways = [start_applied(of(&b)), of(&b).start()];
    fill(&gateways[0]);
    gateways[0].wait_delivered();
    let loads = [0, 1].map(|n| load(&gateways[n], 2, n as u64 * SECOND));
    gateways.iter().for_each(|weir| crate::kill::until_taken(weir, 500.0));
    b.lose_disk();
    gateways.iter().for_each(|weir| until_said(weir, "b", "it has no table yet"));
    assert!(super::refused_apply(&gateways[0]).contains("weir placement rebuild b"));
    let said = gateways[1].must_run(&["placement", "rebuild", "b"]);
    assert!(said.contains("b: is marked") && said.contains("b: is in force"), "{said}");
    let taken = gateways.each_ref().map(|weir| weir.account("b").accepted);
    wait::until("more points behind it", LIMIT, || {
        gateways.iter().zip(taken).all(|(weir, taken)| weir.account("b").accepted > taken + 50)
    });
    let reports = loads.map(|(stop, load)| {
        stop.ask();
        load.join().unwrap()
    });
    gateways.iter().for_each(Weir::wait_delivered);
    assert_alike(&a, &b);
    let there = numbers(&b);
    for (n, report) in reports.iter().enumerate() {
        let first = n as u64 * SECOND;
        let lost = report.acknowledged.iter().filter(|n| !there.contains(&(first + **n)));
        assert_eq!(lost.count(), 0, "of {} acknowledged", report.acknowledged.len());
    }
    let types = b.ask("SHOW FIELD KEYS FROM hours.changing", &[("db", "db")]);
    assert_eq!(types["results"][0]["series"][0]["values"].as_array().unwrap().len(), 3);
    let verified = gateways[0].must_run(&["placement", "verify"]);
    assert!(verified.contains(", 0 differ"), "{verified}");
    assert!(gateways[0].accounts().iter().all(rig::status::Account::adds_up));
}

#[test]
fn a_rebuild_that_is_killed_or_loses_its_source_is_run_again() {
    let (mut a, mut b, c) = (Influxd::start(), Influxd::start(), Influxd::start());
    let weir = start_applied(setup(&[("a", &a), ("b", &b), ("c", &c)]));
    fill(&weir);
    weir.must_write("db", &points(0, 5_000));
    weir.wait_delivered();
    b.lose_disk();
    until_said(&weir, "b", "it has no table yet");
    // Killed while it copies.
    let mut running = begin_rebuild(&weir, &["b", "--rate", "500"]);
    wait::until("something to be copied", LIMIT, || progress(&b).is_some());
    running.kill().unwrap();
    running.wait().unwrap();
    let shown = weir.command(&["placement", "show"]);
    let text = String::from_utf8_lossy(&shown.stdout);
    assert!(text.contains("member b: it is being rebuilt"), "{text}");
    until_said(&weir, "b", "it is being rebuilt");
    // What is written meanwhile waits for it, and it is not asked.
    weir.must_write("db", &points(10_000, 100));
    wait::until("the others to have it", LIMIT, || weir.account("a").waiting == 0);
    assert!(weir.account("b").waiting >= 100);
    let statement = weir.query("DROP MEASUREMENT both", &[("db", "other one")]);
    assert!(statement.status() == 503 && statement.text().contains("it is being rebuilt"));
    // Its source is killed half way.
    let far = progress(&b);
    let mut running = begin_rebuild(&weir, &["b", "--rate", "500"]);
    wait::until("more to be copied", LIMIT, || progress(&b) != far);
    a.kill();
    let mut words = String::new();
    running.stderr.take().unwrap().read_to_string(&mut words).unwrap();
    assert_eq!(running.wait().unwrap().code(), Some(1));
    assert!(words.contains("member \"a\""), "{words}");
    let said = weir.must_run(&["placement", "rebuild", "b"]);
    for words in ["goes on", "a: does not know of it", "copied from c", "b: is in force"] {
        assert!(said.contains(words), "{words}: {said}");
    }
    a.start_again();
    weir.wait_delivered();
    assert_alike(&b, &c);
    assert_alike(&a, &c);
}

#[test]
fn a_rebuild_waits_for_a_gateway_that_is_silent_and_names_it() {
    let (a, mut b) = (Influxd::start(), Influxd::start());
    let of = |b: &Influxd| setup(&[("a", &a), ("b", b)]);
    let first = start_applied(of(&b));
    let mut second = of(&b).start();
    fill(&first);
    wait::until("the second to know it", LIMIT, || second.write("db", "").status() == 204);
    second.must_write("db", &points(SECOND, 500));
    [&first, &second].into_iter().for_each(Weir::wait_delivered);
    wait::until("notes of both", LIMIT, || {
        let shown = first.must_run(&["placement", "show"]);
        shown.matches("all members have its points").count() == 2
    });
    second.kill();
    b.lose_disk();
    let mut running = begin_rebuild(&first, &["b"]);
    let mut lines = BufReader::new(running.stdout.take().unwrap()).lines();
    // First for both, then for the one alone.
    let said = lines.by_ref().map(Result::unwrap).find(|line| is_of_one(line)).unwrap();
    assert!(said.contains("which has not seen that it is rebuilt"), "{said}");
    assert!(progress(&b).is_none(), "nothing is copied yet");
    second.start_again();
    let said: Vec<String> = lines.map(Result::unwrap).collect();
    assert!(running.wait().unwrap().success() && said.last().unwrap().contains("is in force"));
    second.must_write("db", &points(SECOND + 500, 100));
    [&first, &second].into_iter().for_each(Weir::wait_delivered);
    assert_alike(&a, &b);
}

#[test]
fn a_member_that_was_put_back_is_brought_up_to_date_and_a_slice_is_mended() {
    let (a, mut b) = (Influxd::start(), Influxd::start());
    let weir = start_applied(setup(&[("a", &a), ("b", &b)]));
    fill(&weir);
    weir.wait_delivered();
    b.kill();
    let yesterday = b.snapshot();
    b.start_again();
    let before = noted(&b);
    (0..16).for_each(|n| weir.must_write("db", &points(n * 1_000, 1_000)));
    weir.wait_delivered();
    wait::until("a note of that", LIMIT, || noted(&b) > before + MOST_OF_IT);
    // The cursor follows behind a note.
    let seen = count_of_notes(&b);
    wait::until("two more", LIMIT, || count_of_notes(&b) > seen + 1);
    b.kill();
    b.put_back(&yesterday);
    b.start_again();
    until_said(&weir, "b", "put back to a state of before");
    weir.must_write("db", &points(16_000, 100));
    weir.must_run(&["placement", "rebuild", "b"]);
    weir.wait_delivered();
    assert_alike(&a, &b);
    // A slice of it is gone, which nobody can see but by a comparison.
    let (from, to) = ("2020-09-20T00:00:00Z", "2020-09-27T00:00:00Z");
    b.ask(
        &format!("DELETE FROM \"all types\" WHERE time >= '{from}' AND time < '{to}'"),
        &[("db", "db")],
    );
    assert_eq!(weir.command(&["placement", "verify"]).status.code(), Some(3));
    let said = weir.must_run(&["placement", "rebuild", "b", "--from", from, "--to", to]);
    assert!(said.contains("copied from a"), "{said}");
    weir.must_run(&["placement", "verify"]);
    assert_alike(&a, &b);
    // What the others have not is not taken for theirs.
    b.create("strange");
    let output = weir.command(&["placement", "rebuild", "b"]);
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(words.contains("the database \"strange\""), "{words}");
    until_said(&weir, "b", "it is being rebuilt");
    b.ask("DROP DATABASE strange", &[]);
    weir.must_run(&["placement", "rebuild", "b"]);
    weir.wait_delivered();
    assert_alike(&a, &b);
}

#[test]
fn one_more_member_of_a_set_is_filled_and_one_alone_begins_empty() {
    let (a, b) = (Influxd::start(), Influxd::start());
    let mut weir = start_applied(setup(&[("a", &a)]));
    fill(&weir);
    weir.wait_delivered();
    weir.configure(|_| setup(&[("a", &a), ("b", &b)]));
    weir.reload();
    assert!(super::refused_apply(&weir).contains("weir placement rebuild b"));
    weir.must_run(&["placement", "rebuild", "b"]);
    weir.must_write("db", &points(0, 100));
    weir.wait_delivered();
    assert_alike(&a, &b);
    let output = weir.command(&["placement", "rebuild", "b", "--empty"]);
    assert!(String::from_utf8_lossy(&output.stderr).contains("a is of its set, too"));
    // Nobody has what it had.
    let tables = sets(&["s1: a b", "s2: c"]) + PERIOD;
    let mut c = Influxd::start();
    let three = || {
        let setup = Setup::new().backend("a", &a.url()).backend("b", &b.url());
        setup.backend("c", &c.url()).table(&tables)
    };
    weir.configure(|_| three());
    weir.reload();
    weir.must_run(&["placement", "apply"]);
    c.lose_disk();
    let output = weir.command(&["placement", "rebuild", "c"]);
    assert!(String::from_utf8_lossy(&output.stderr).contains("`--empty` puts it in force"));
    let said = weir.must_run(&["placement", "rebuild", "c", "--empty"]);
    assert!(said.contains("c: is in force as it is"), "{said}");
    assert!(c.databases().contains(&"other one".to_owned()));
    weir.must_run(&["placement", "show"]);
}

#[test]
fn a_member_with_a_new_url_is_filled_under_load_by_gateways_that_are_reloaded_one_by_one() {
    let (a, mut b, moved) = (Influxd::start(), Influxd::start(), Influxd::start());
    let before = || setup(&[("a", &a), ("b", &b)]);
    let mut gateways = [start_applied(before()), before().start()];
    fill(&gateways[0]);
    let loads = [0, 1].map(|n| load(&gateways[n], 2, n as u64 * SECOND));
    gateways.iter().for_each(|weir| crate::kill::until_taken(weir, 500.0));
    let move_it = |weir: &mut Weir| {
        weir.configure(|_| setup(&[("a", &a), ("b", &moved)]));
        weir.reload();
    };
    move_it(&mut gateways[0]);
    until_said(&gateways[0], "b", "it has no table yet");
    let mut running = begin_rebuild(&gateways[0], &["b"]);
    let mut lines = BufReader::new(running.stdout.take().unwrap()).lines();
    // The other still gives points to the old server, and is waited for.
    let said = lines.by_ref().map(Result::unwrap).find(|line| is_of_one(line)).unwrap();
    assert!(said.contains("which has not seen that it is rebuilt"), "{said}");
    move_it(&mut gateways[1]);
    let said: Vec<String> = lines.map(Result::unwrap).collect();
    assert!(running.wait().unwrap().success(), "{said:?}");
    let reports = loads.map(|(stop, load)| {
        stop.ask();
        load.join().unwrap()
    });
    gateways.iter().for_each(Weir::wait_delivered);
    assert_alike(&a, &moved);
    let there = numbers(&moved);
    for (n, report) in reports.iter().enumerate() {
        let first = n as u64 * SECOND;
        let lost = report.acknowledged.iter().filter(|n| !there.contains(&(first + **n)));
        assert_eq!(lost.count(), 0, "of {} acknowledged", report.acknowledged.len());
    }
    // The old server is of before, should somebody name it again.
    b.kill();
    b.start_again();
    gateways[0].configure(|_| setup(&[("a", &a), ("b", &b)]));
    gateways[0].reload();
    until_said(&gateways[0], "b", "it has a disk of before");
}
