//! A gateway that falls silent while it has points for a member, and returns.

use std::ops::Range;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rig::http::Request;
use rig::influxd::Influxd;
use rig::wait;
use rig::weir::{Setup, Weir};
use rustix::process::Signal;
use serde_json::Value;

use super::{PLACEMENT, sets, start_applied};
use crate::influxql::clustered::is_same;

/// Longer than what members of a set may differ by to take turns, and than notes take to be read.
const LAG: Duration = Duration::from_secs(6);

const QUERIES: [&str; 7] = [
    "SELECT count(v), sum(v) FROM m",
    "SELECT v, host FROM m",
    "SELECT percentile(v, 90) FROM m GROUP BY host",
    "SELECT v FROM m GROUP BY *",
    "SELECT last(v) FROM m",
    "SELECT max(c) FROM (SELECT count(v) AS c FROM m GROUP BY host)",
    "SHOW SERIES",
];

/// What one server answers that has everything.
#[track_caller]
fn answers_as(whole: &Influxd, gateway: &Weir) {
    for sql in QUERIES {
        let pairs = [("db", "db"), ("epoch", "ns")];
        let (wanted, found) = (whole.ask(sql, &pairs), gateway.query(sql, &pairs).json());
        assert!(is_same(&wanted, &found), "{sql}\n{wanted}\n{found}");
    }
}

/// Writes points of these numbers through a gateway, and to the one server.
fn write(whole: &Influxd, gateway: &Weir, numbers: Range<u64>) {
    let lines: String =
        numbers.map(|n| format!("m,host=h{},rack=r{} v={n}i {n}\n", n % 9, n % 4)).collect();
    gateway.must_write("db", &lines);
    assert_eq!(whole.send(&Request::post("/write?db=db", lines)).status(), 204);
}

/// Until when each gateway has noted on a member that all of its points are there, in seconds.
fn whole_until(member: &Influxd) -> Vec<u64> {
    let answer = member.ask("SELECT last(note) FROM note GROUP BY gateway", &[("db", "_weir")]);
    let series = answer["results"][0]["series"].as_array().cloned().unwrap_or_default();
    let note = |one: &Value| one["values"][0][1].as_str().map(str::to_owned);
    let notes = series.iter().filter_map(note);
    let seconds = |note: String| {
        let note: Value = serde_json::from_str(&note).ok()?;
        note["whole_until"]["secs"].as_u64()
    };
    notes.filter_map(seconds).collect()
}

#[test]
fn while_a_gateway_is_silent_the_other_asks_the_members_that_have_its_points() {
    let mut members: Vec<Influxd> = (0..4).map(|_| Influxd::start()).collect();
    let whole = Influxd::start();
    let mut setup = Setup::new();
    for (name, server) in ["a1", "a2", "b1", "b2"].iter().zip(&members) {
        setup = setup.backend(name, &server.url());
    }
    let setup = setup.table(&(sets(&["s1: a1 a2", "s2: b1 b2"]) + PLACEMENT));
    let first = start_applied(setup.clone());
    let mut second = setup.start();
    assert_eq!(first.query("CREATE DATABASE db", &[]).status(), 200);
    whole.create("db");
    for gateway in [&first, &second] {
        let is_known = || gateway.write("db", "").status() != 404;
        wait::until("the database is known", wait::LONG, is_known);
    }
    write(&whole, &first, 0..50);
    write(&whole, &second, 50..100);
    first.wait_delivered();
    second.wait_delivered();
    answers_as(&whole, &first);
    answers_as(&whole, &second);
    // Both have points for one member, and the second keeps its own while it is silent.
    members[1].kill();
    write(&whole, &first, 100..150);
    write(&whole, &second, 150..300);
    let begun = SystemTime::now().duration_since(UNIX_EPOCH).unwrap() + LAG;
    wait::until("notes on the other member of the set", wait::LONG, || {
        let until = whole_until(&members[0]);
        until.len() == 2 && until.iter().all(|secs| *secs > begun.as_secs())
    });
    second.running().signal(Signal::STOP);
    members[1].start_again();
    first.wait_delivered();
    for _ in 0..4 {
        answers_as(&whole, &first);
    }
    write(&whole, &first, 300..350);
    first.wait_delivered();
    answers_as(&whole, &first);
    second.running().signal(Signal::CONT);
    second.wait_delivered();
    answers_as(&whole, &second);
    // The member has everything now.
    members[0].kill();
    answers_as(&whole, &first);
    answers_as(&whole, &second);
}
