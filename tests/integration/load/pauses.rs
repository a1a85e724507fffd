//! An injector that is stopped, or has to wait for its CPU: its own figures are marked, no demand
//! is judged by them, and no error is the network's that is not.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use rig::machine;
use rig::places;
use rig::process::Process;
use rig::wait;
use rig::witness::{Manner, Witness};
use rustix::process::Signal;
use serde_json::Value;

const MS: Duration = Duration::from_millis(1);

/// What came of a load that was stopped once.
struct Stopped {
    code: Option<i32>,
    said: String,
    report: Value,
}

/// Runs `weir load` and stops its process for so long once the server has answered so many.
#[track_caller]
fn stopped(server: &Witness, options: &str, answered: usize, length: Duration) -> Stopped {
    let place = places::directory();
    let log = place.path().join("log");
    let mut command = Command::new(places::weir());
    command.current_dir(place.path()).args(["load", &server.url()]);
    command.args(options.split_whitespace()).args(["--warmup", "0s", "--out", "run"]);
    let mut injector = Process::start("weir load", &mut command, &log);
    wait::until("the server has answered", wait::LONG, || {
        assert!(injector.ended().is_none(), "{}", injector.log());
        server.answered().len() >= answered
    });
    injector.signal(Signal::STOP);
    // That is how long it is stopped, and nothing is waited for.
    std::thread::sleep(length);
    injector.signal(Signal::CONT);
    let mut status = None;
    wait::until("the load has ended", wait::LONG, || {
        status = injector.ended();
        status.is_some()
    });
    let code = status.and_then(|status| status.code());
    Stopped { code, said: injector.log(), report: report(&place.path().join("run")) }
}

fn report(run: &Path) -> Value {
    let text = std::fs::read(run.join("report.json")).expect("it is written");
    serde_json::from_slice(&text).expect("it is JSON")
}

/// Whether a figure of a line is marked as the injector's.
fn is_marked(report: &Value, line: &str, figure: &str) -> bool {
    let own = report[line]["injectors"].as_array();
    own.is_some_and(|own| own.iter().any(|name| name == figure))
}

#[test]
fn the_longest_latency_of_an_injector_that_was_stopped_is_its_own() {
    let _alone = machine::alone();
    let server = Witness::start(Manner::default());
    let of = stopped(&server, "--rate 10 --duration 4s --connections 4", 10, 500 * MS);
    let told = of.report["latency"]["max_ns"].as_u64().expect("there is a longest");
    assert!(told >= 300_000_000, "{}", of.report);
    assert!(is_marked(&of.report, "latency", "max"), "{}", of.report);
    let line = of.said.lines().find(|line| line.starts_with("latency")).unwrap_or_default();
    assert!(line.contains("ms* from when each was due"), "{}", of.said);
    let note = "*        the injector's, by which no demand is judged: without its delays, ";
    assert!(of.said.contains(note), "{}", of.said);
}

#[test]
fn a_demand_is_not_missed_by_an_injector_that_was_stopped() {
    let _alone = machine::alone();
    let server = Witness::start(Manner::default());
    let options = "--rate 100 --duration 3s --require max<80ms --require p99.9<80ms";
    let of = stopped(&server, options, 100, 150 * MS);
    assert_eq!(of.code, Some(4), "{}", of.said);
    assert!(of.said.contains("max<80ms can't be judged: it was "), "{}", of.said);
    assert!(!of.said.contains("MISSED"), "{}", of.said);
}

#[test]
fn a_closed_loop_that_was_stopped_marks_what_it_found_when_it_went_on() {
    let _alone = machine::alone();
    let server = Witness::start(Manner { delays: vec![100 * MS], ..Manner::default() });
    let of = stopped(&server, "--closed --connections 64 --duration 4s", 640, 180 * MS);
    assert!(is_marked(&of.report, "service", "max"), "{}", of.report);
    assert!(is_marked(&of.report, "service", "p99.9"), "{}", of.report);
}

#[test]
fn answers_that_lay_in_the_sockets_of_a_stopped_injector_are_no_errors() {
    let _alone = machine::alone();
    let server = Witness::start(Manner { delays: vec![20 * MS], ..Manner::default() });
    for pace in ["--closed", "--rate 400"] {
        let before = server.answered().len();
        let options = format!("{pace} --connections 64 --duration 4s --timeout 1s");
        let of = stopped(&server, &options, before + 300, 1200 * MS);
        let owners = of.report["errors"].as_array().expect("there is a list").iter();
        let owners: Vec<_> = owners.map(|error| error["owner"].to_string()).collect();
        assert_eq!(of.report["failed"], 0, "{pace}: {owners:?} {}", of.said);
    }
}

#[test]
fn an_injector_that_waits_for_its_cpu_marks_what_that_adds() {
    let _alone = machine::alone();
    let server = Witness::start(Manner { delays: vec![50 * MS], ..Manner::default() });
    let place = places::directory();
    let loops: Vec<_> = (0..8)
        .map(|number| {
            let mut command = Command::new(places::need("taskset"));
            command.args(["--cpu-list", "0", "sh", "-c", "while :; do :; done"]);
            Process::start("a busy loop", &mut command, &place.path().join(format!("{number}")))
        })
        .collect();
    let mut command = Command::new(places::need("taskset"));
    command.args(["--cpu-list", "0"]).arg(places::weir()).args(["load", &server.url()]);
    command.args("--rate 100 --duration 3s --warmup 0s --out run".split(' '));
    let output = command.current_dir(place.path()).output().expect("it can be started");
    drop(loops);
    assert!(matches!(output.status.code(), Some(0 | 4)), "{output:?}");
    let report = report(&place.path().join("run"));
    let max = |of: &Value| of["max_ns"].as_u64().expect("there is a longest");
    let (measured, latency) = (max(&report["latency"]), &report["latency"]);
    // It may have had a CPU each time that it needed one.
    if measured > 60_000_000 {
        assert!(is_marked(&report, "latency", "max"), "{report}");
        assert!(max(&latency["corrected"]) < measured, "{report}");
    }
}
