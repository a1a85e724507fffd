//! A member is rebuilt while policies drop what is copied.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rig::gate::{Gate, Stop};
use rig::influxd::Influxd;
use rig::wait;
use serde_json::Value;

use super::gateways::until_said;
use super::rebuilt::{DAY_NS, FIRST_NS, assert_alike, begin_rebuild, fill, setup, setup_at};
use super::start_applied;

const LIMIT: Duration = Duration::from_secs(60);
const WEEK_NS: u64 = 7 * DAY_NS;
/// The first Monday of 1970: a shard group of a week begins there, and each week after.
const MONDAY_NS: u64 = 4 * DAY_NS;

/// The id of the shard of a policy that has a time, with the begin of its group.
fn shard(server: &Influxd, policy: &str, time_ns: u64) -> Option<(u64, u64)> {
    let answer = server.ask("SHOW SHARDS", &[("epoch", "ns")]);
    let series = answer["results"][0]["series"].as_array().unwrap().clone();
    let rows = series.iter().filter_map(|of| of["values"].as_array()).flatten();
    let time = |value: &Value| {
        let time: jiff::Timestamp = value.as_str()?.parse().ok()?;
        u64::try_from(time.as_nanosecond()).ok()
    };
    let mut rows = rows.filter(|row| row[2] == policy);
    rows.find_map(|row| {
        let (from, to) = (time(&row[4])?, time(&row[5])?);
        (from <= time_ns && time_ns < to).then_some((row[0].as_u64()?, from))
    })
}

#[test]
fn what_a_policy_has_not_dropped_yet_is_copied_though_it_is_older_than_that_keeps() {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64;
    // The oldest group is dropped in three days, and most of it is older than points are kept:
    // that is longer than a group lasts, as the server wants it.
    let end = now - (now - MONDAY_NS) % WEEK_NS - WEEK_NS;
    let kept = now - end + 3 * DAY_NS;
    let (a, mut b) = (Influxd::start(), Influxd::start());
    let weir = start_applied(setup(&[("a", &a), ("b", &b)]));
    for statement in [
        "CREATE DATABASE db",
        "CREATE RETENTION POLICY p ON db DURATION 52w REPLICATION 1 SHARD DURATION 1w DEFAULT",
    ] {
        let answer = weir.query(statement, &[]).json();
        assert!(answer["results"][0]["error"].is_null(), "{statement}: {answer}");
    }
    let hour = DAY_NS / 24;
    let lines = (end - 2 * WEEK_NS..now).step_by(hour as usize);
    weir.must_write("db", &lines.map(|time| format!("m,x=1 v=1 {time}\n")).collect::<String>());
    // One that has nothing but such points.
    let lines = (end - 6 * DAY_NS..end - 4 * DAY_NS).step_by(hour as usize);
    weir.must_write("db", &lines.map(|time| format!("old,x=1 v=1 {time}\n")).collect::<String>());
    weir.wait_delivered();
    let alter = format!("ALTER RETENTION POLICY p ON db DURATION {}s", kept / 1_000_000_000);
    assert!(!weir.query(&alter, &[]).text().contains("error"));
    for server in [&a, &b] {
        // As the check of every half hour does.
        let (id, _) = shard(server, "p", end - 2 * WEEK_NS).unwrap();
        server.ask(&format!("DROP SHARD {id}"), &[]);
    }
    assert_alike(&a, &b);
    let before = ["m", "old"].map(|name| a.count("db", name, "v"));
    assert_eq!(before[1], 48);
    b.lose_disk();
    until_said(&weir, "b", "it has no table yet");
    weir.must_run(&["placement", "rebuild", "b"]);
    weir.wait_delivered();
    assert_eq!(["m", "old"].map(|name| b.count("db", name, "v")), before);
    assert_alike(&a, &b);
    let verified = weir.must_run(&["placement", "verify"]);
    assert!(verified.contains(", 0 differ"), "{verified}");
}

#[test]
fn a_slice_that_is_dropped_while_it_is_copied_is_left_out() {
    let (a, mut b) = (Influxd::start(), Influxd::start());
    let gate = Gate::before(a.address);
    let weir = start_applied(setup(&[("a", &a), ("b", &b)]));
    fill(&weir);
    weir.wait_delivered();
    b.lose_disk();
    until_said(&weir, "b", "it has no table yet");
    let command = setup_at(&[("a", gate.url()), ("b", b.url())]).prepare();
    // Once its points were counted, and before they are read.
    let (id, from) = shard(&a, "hours", FIRST_NS + 20 * DAY_NS).unwrap();
    let of = format!("SELECT count(*) FROM \"db\".\"hours\".\"changing\" WHERE time >= {from} ");
    gate.stop_at(&of, Stop::Behind);
    let mut running = begin_rebuild(&command, &["b"]);
    wait::until("it to be counted", LIMIT, || {
        assert!(running.try_wait().unwrap().is_none());
        gate.is_stopped()
    });
    let dropped = a.ask(&format!("DROP SHARD {id}"), &[]);
    assert!(dropped["results"][0]["error"].is_null(), "{dropped}");
    gate.let_go();
    let output = running.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("a has dropped it meanwhile"), "{text}");
    weir.wait_delivered();
    assert_alike(&a, &b);
}
