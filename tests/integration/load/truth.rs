//! Whether what `weir load` says is true, in short: the rows `load-*` of the bench have the long
//! form. A machine that runs other tests makes times longer and never shorter, and a run on it may
//! be INVALID; then only what it can't do is held.

use std::net::SocketAddr;
use std::process::Command;
use std::time::{Duration, SystemTime};

use rig::process::Process;
use rig::witness::{Manner, Stalls, Witness};
use rig::{machine, network, places};
use serde_json::Value;

const MS: Duration = Duration::from_millis(1);

/// Runs `weir load` with a command line in which no word has a space; gives its report.
#[track_caller]
fn load(line: &str) -> Value {
    let place = places::directory();
    let mut command = Command::new(places::weir());
    command.current_dir(place.path()).arg("load").args(line.split_whitespace());
    let output = command.args(["--out", "run"]).output().expect("weir can be started");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(matches!(output.status.code(), Some(0 | 4)), "{}: {errors}", output.status);
    let report = std::fs::read(place.path().join("run/report.json")).expect("it is written");
    serde_json::from_slice(&report).expect("it is JSON")
}

#[track_caller]
fn time(report: &Value, place: &str) -> Duration {
    let nanos = report.pointer(place).and_then(Value::as_u64);
    Duration::from_nanos(nanos.unwrap_or_else(|| panic!("{place} in {report}")))
}

#[test]
fn a_silent_server_is_told_of_as_its_own_log_has_it() {
    let _alone = machine::alone();
    let stalls = Stalls { first: 750 * MS, length: 500 * MS, every: Duration::from_secs(10) };
    for connections in [16, 400] {
        let server = Witness::start(Manner { stalls: Some(stalls), ..Manner::default() });
        let line = format!("{} --rate 500 --duration 2s --warmup 0s", server.url());
        let report = load(&format!("{line} --connections {connections}"));
        let began = report["began"].as_f64().expect("it says when it began");
        let began = SystemTime::UNIX_EPOCH + Duration::from_secs_f64(began);
        let waits = server.waits(began, 500.0);
        for (name, share) in [("p99", 0.99), ("max", 1.0)] {
            let rank = (share * waits.len() as f64).ceil() as usize;
            let by_log = Duration::from_nanos(waits[rank - 1]);
            let told = time(&report, &format!("/latency/{name}_ns"));
            let words = format!("{name} with {connections}: {told:?}, by the log {by_log:?}");
            assert!(by_log >= 450 * MS, "{words}");
            assert!(told >= by_log.mul_f64(0.95), "{words}");
            let is_near = told <= by_log.mul_f64(1.05) + 20 * MS;
            assert!(is_near || report["verdict"] == "INVALID", "{words}");
        }
        // Whoever came meanwhile and found no connection waited for the server.
        let blocked = report["injector"]["blocked"].as_u64();
        assert!(connections > 16 || blocked >= Some(200), "{report}");
    }
}

#[test]
fn a_server_counts_as_many_requests_as_the_load() {
    let _alone = machine::alone();
    let server = Witness::start(Manner::default());
    let line = format!("{} --rate 2000 --duration 2s --warmup 0s", server.url());
    let report = load(&format!("{line} --connections 256"));
    let unsent = report["kinds"]["unsent"]["count"].as_u64().unwrap_or(0);
    let requests = report["requests"].as_u64().expect("requests are counted");
    assert_eq!(requests, 4_000, "{report}");
    assert_eq!(server.answered().len() as u64, requests - unsent, "{report}");
    let answered = requests - unsent;
    assert_eq!(report["codes"]["204"], answered, "{report}");
    let bytes = |way: &str| report["bytes"][way].as_u64().expect("bytes are counted");
    assert_eq!(bytes("received"), answered * rig::witness::ANSWER.len() as u64, "{report}");
    assert!(bytes("sent") > answered * 20 && bytes("sent").is_multiple_of(answered), "{report}");
}

#[test]
fn ports_that_are_used_up_are_no_fault_of_the_server() {
    let _alone = machine::alone();
    network::test_apart(Some(40_000..=40_063), || {
        let server = Witness::start(Manner { closes: true, ..Manner::default() });
        let line = format!("{} --rate 200 --duration 2s --connections 8", server.url());
        let report = load(&format!("{line} --timeout 1s"));
        assert_eq!(report["verdict"], "INVALID", "{report}");
        let causes = report["because"].as_array().expect("there is a cause");
        let is_named = |cause: &Value| cause["cause"].to_string().contains("injector itself had");
        assert!(causes.iter().any(is_named), "{report}");
        let errors = report["errors"].as_array().expect("there are errors");
        let is_ours = |error: &Value| error["owner"] == "injector";
        assert!(errors.iter().any(is_ours), "{report}");
    });
}

#[test]
fn a_network_that_is_2_ms_away_and_a_server_that_takes_2_ms_are_told_apart() {
    let _alone = machine::alone();
    network::test_apart(None, || {
        let dir = places::directory();
        let mut command = Command::new(places::need("python3"));
        // Each way; together that is the round trip.
        command.arg(places::root().join("tests/clients/tun/held.py")).arg("1");
        let mut device = Process::start("a TUN device", &mut command, &dir.path().join("log"));
        // Its log is filled by the device's own process.
        rig::wait::until("the device is up", rig::wait::LONG, || {
            assert!(device.ended().is_none(), "{}", device.log());
            device.log().contains("ready")
        });
        let port = places::free_address().port();
        let anywhere = SocketAddr::from(([0, 0, 0, 0], port));
        let rest = "--rate 100 --duration 1s --warmup 0s --connections 16 \
                    --expect-rtt 1.5ms";
        let far = {
            let _server = Witness::start_at(anywhere, Manner::default());
            load(&format!("http://10.9.0.2:{port}/ {rest}"))
        };
        let near = {
            let delays = vec![2 * MS];
            let server = Witness::start(Manner { delays, ..Manner::default() });
            load(&format!("{} {rest}", server.url()))
        };
        // Who waits for an answer sees no difference.
        for report in [&far, &near] {
            assert_eq!((&report["requests"], &report["failed"]), (&100.into(), &0.into()));
            assert!(time(report, "/service/min_ns") >= 2 * MS, "{report}");
        }
        let connect = |report| time(report, "/connect/min_ns");
        assert!(connect(&far) >= 2 * MS, "{far}");
        assert!(connect(&near) < 2 * MS, "{near}");
        let round_trip = |report| time(report, "/network/0/min_round_trip_ns");
        assert!(round_trip(&far) >= 2 * MS, "{far}");
        assert!(round_trip(&near) < MS, "{near}");
        for (report, is_warned) in [(&far, true), (&near, false)] {
            assert_eq!(report["network"][0]["is_too_long"], is_warned, "{report}");
        }
    });
}

#[test]
fn an_address_of_the_name_that_refuses_is_left_out_and_said() {
    let _alone = machine::alone();
    let server = Witness::start(Manner::default());
    let url = server.url().replace("127.0.0.1", "localhost");
    let place = places::directory();
    let hosts = "::1 localhost\n127.0.0.1 localhost\n";
    std::fs::write(place.path().join("hosts"), hosts).expect("it can be written");
    // For this load alone `localhost` is [::1] first, where nobody listens.
    let script = "mount --bind hosts /etc/hosts || exit 77; exec \"$0\" load \"$1\" --rate 100 \
                  --duration 1s --warmup 0s --connections 4 --out run";
    let mut command = Command::new(places::need("unshare"));
    command.current_dir(place.path()).args(["--mount", "sh", "-c", script]);
    let output = command.arg(places::weir()).arg(url).output().expect("it can be started");
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    if output.status.code() == Some(77) || errors.starts_with("unshare:") {
        eprintln!("NOT TESTED: /etc/hosts can't be another, it needs root: {errors}");
        return;
    }
    assert!(matches!(output.status.code(), Some(0 | 4)), "{}: {told}{errors}", output.status);
    assert!(told.contains("left out: [::1]:") && told.contains("refused"), "{told}");
    assert!(!server.answered().is_empty(), "{told}");
}
