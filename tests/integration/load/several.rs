//! Run files of several loads, demands on single operations, think time, and who reads what a load
//! prints.

use std::fs;
use std::process::{Command, Output, Stdio};

use rig::influxd::Influxd;
use rig::redis::Redis;
use rig::witness::{Manner, Witness};
use rig::{machine, places};
use serde_json::Value;
use tempfile::TempDir;

fn weir(place: &TempDir, args: &[&str]) -> Command {
    let mut command = Command::new(places::weir());
    command.current_dir(place.path()).arg("load").args(args);
    command
}

fn output(place: &TempDir, args: &[&str]) -> (Option<i32>, String) {
    let Output { status, stdout, stderr } =
        weir(place, args).output().expect("weir can be started");
    (status.code(), String::from_utf8_lossy(&[stdout, stderr].concat()).into_owned())
}

fn report(place: &TempDir, run: &str) -> Value {
    let report = fs::read(place.path().join(run).join("report.json")).expect("it is written");
    serde_json::from_slice(&report).expect("it is JSON")
}

fn missed(report: &Value) -> Vec<&str> {
    let all = report["missed"].as_array().map(Vec::as_slice).unwrap_or_default();
    all.iter().filter_map(|missed| missed["demand"].as_str()).collect()
}

/// How many requests an operation has had.
fn requests(report: &Value, name: &str) -> u64 {
    let all = report["operations"].as_array().expect("there are operations").iter();
    let of = all.filter(|operation| operation["name"] == name);
    of.filter_map(|operation| operation["latency"]["count"].as_u64()).sum()
}

#[test]
fn several_loads_run_at_a_time_and_each_is_told_of() {
    let _alone = machine::alone();
    let (cache, web, place) =
        (Redis::start(), Witness::start(Manner::default()), places::directory());
    let text = format!(
        "rate = 200\nduration = '1s'\nwarmup = '0s'\nconnections = 2\n\
         require = ['errors<1% of cache', 'rate>100000 of web', 'rate>100000 of cache set']\n\
         [verdict]\nlate-share = 1.0\n\
         [[load]]\nname = 'cache'\nurl = '{}'\nmix = 'set,get'\nkeys = 10\nshare = 3\n\
         [[load]]\nname = 'web'\nurl = '{}'\nshare = 1\nconnections = 3\n",
        cache.url(),
        web.url()
    );
    fs::write(place.path().join("mix.toml"), text).expect("there is room");
    let (code, said) = output(&place, &["run", "mix.toml", "--out", "first"]);
    assert!(matches!(code, Some(3 | 4)), "{said}");
    let first = report(&place, "first");
    assert_eq!(missed(&first), ["rate>100000 of web", "rate>100000 of cache set"], "{said}");
    assert_eq!((&first["requests"], &first["failed"]), (&200.into(), &0.into()), "{said}");
    let (sets, gets) = (requests(&first, "cache set"), requests(&first, "cache get"));
    assert_eq!((sets + gets, requests(&first, "web")), (150, 50), "{said}");
    assert_eq!((super::calls(&cache, "set"), super::calls(&cache, "get")), (sets, gets));
    assert_eq!((web.answered().len(), first["network"].as_array().map(Vec::len)), (50, Some(2)));
    assert_eq!(first["thresholds"]["late_share"], 1.0);
    assert!(said.contains("cache set") && said.contains(&cache.address.to_string()), "{said}");

    // What is left of it is a run file again, of the same load.
    let (code, said) = output(&place, &["run", "first/run.toml", "--out", "again"]);
    assert!(matches!(code, Some(3 | 4)), "{said}");
    let again = report(&place, "again");
    assert_eq!((missed(&again), &again["requests"]), (missed(&first), &first["requests"]));
    assert_eq!((requests(&again, "cache set"), requests(&again, "web")), (sets, 50));
    assert_eq!(again["thresholds"], first["thresholds"]);
    let (code, said) = output(&place, &["run", "mix.toml", "--require", "p99<1s of cach"]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("no operation \"cach\"; there are cache set, cache get, web"), "{said}");
    let (code, said) = output(&place, &["run", "mix.toml", "--find-limit", "p99<1s"]);
    assert!(matches!(code, Some(1)) && said.contains("weir: "), "{said}");
}

#[test]
fn ledgers_of_several_loads_are_verified_one_after_the_other() {
    let (one, other, place) = (Redis::start(), Redis::start(), places::directory());
    let text = format!(
        "ledger = true\nrate = 40\nduration = '1s'\nwarmup = '0s'\nconnections = 2\nmix = 'set'\n\
         [[load]]\nname = 'one'\nurl = '{}'\n[[load]]\nname = 'other'\nurl = '{}'\nthreads = 2\n",
        one.url(),
        other.url()
    );
    fs::write(place.path().join("mix.toml"), text).expect("there is room");
    let (code, said) = output(&place, &["run", "mix.toml", "--out", "run"]);
    assert!(matches!(code, Some(0 | 4)), "{said}");
    let (code, said) = output(&place, &["verify", "run"]);
    assert!(code == Some(0) && said.matches("RIGHT  40 acknowledged").count() == 2, "{said}");
    other.client().ask(&["FLUSHALL"]);
    let (code, said) = output(&place, &["verify", "run"]);
    assert_eq!(code, Some(3), "{said}");
    let (front, back) = said.split_once("other  redis://").expect("each has its name");
    assert!(front.contains("RIGHT  40") && back.contains("40 lost"), "{said}");
}

#[test]
fn connections_of_a_closed_loop_think_between_an_answer_and_the_next_request() {
    let (server, place) = (Witness::start(Manner::default()), places::directory());
    let args = [&*server.url(), "--closed", "--think", "80ms-120ms", "--connections", "4"];
    let rest = ["--duration", "2s", "--warmup", "0s", "--out", "run"];
    let (code, said) = output(&place, &[&args[..], &rest].concat());
    assert!(matches!(code, Some(0 | 4)), "{said}");
    let report = report(&place, "run");
    // Each sends 20 at most, and the first of each comes at once or within 120 ms.
    let count = report["requests"].as_u64().expect("requests are counted");
    assert!(count <= 4 * 26, "{said}");
    assert!(count >= 4 * 10 || report["verdict"] == "INVALID", "{said}");
    let found = report["injector"]["little_connections"].as_f64().expect("it is a closed loop");
    assert!((found - 4.0).abs() < 0.08, "{said}");
}

#[test]
fn a_write_that_influxdb_refuses_is_told_in_its_own_words() {
    let (server, place) = (Influxd::start(), places::directory());
    let args = [&*server.url(), "--workload", "influx-write", "--db", "gone", "--rate", "20"];
    let rest = ["--duration", "1s", "--warmup", "0s", "--out", "run"];
    let (_, said) = output(&place, &[&args[..], &rest].concat());
    let words = "20 x server: status 404: database not found: \"gone\"";
    assert!(said.contains(words), "{said}");
    assert_eq!(report(&place, "run")["codes"]["404"], 20);
}

#[test]
fn a_run_of_which_every_request_fails_ends_with_3_and_says_so_first() {
    let _alone = machine::alone();
    let (server, place) = (Influxd::start(), places::directory());
    let args = [&*server.url(), "--workload", "influx-write", "--db", "gone", "--rate", "50"];
    let rest = ["--duration", "1s", "--warmup", "0s", "--out", "run"];
    let (code, said) = output(&place, &[&args[..], &rest].concat());
    // A busy machine makes a run invalid, which is another code.
    let is_invalid = report(&place, "run")["verdict"] == "INVALID";
    assert_eq!(code, Some(if is_invalid { 4 } else { 3 }), "{said}");
    assert!(is_invalid || said.contains("VALID  Every request failed"), "{said}");
    assert!(!said.contains("--find-limit"), "{said}");
}

#[test]
fn a_reader_that_goes_away_keeps_no_file_from_being_finished() {
    let (server, place) = (Witness::start(Manner::default()), places::directory());
    let url = server.url();
    let gone = |args: &[&str]| {
        let mut command = weir(&place, &[&[&*url, "--warmup", "0s"], args].concat());
        command.stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().expect("weir can be started");
        drop(child.stdout.take());
        child.wait().expect("it ends").code()
    };
    let code = gone(&["--rate", "50", "--duration", "1s", "--require", "p99<1s", "--out", "run"]);
    assert!(matches!(code, Some(0 | 4)), "{code:?}");
    assert_ne!(report(&place, "run")["verdict"], "UNFINISHED");
    assert!(place.path().join("run/report.html").exists());
    // What a run comes to is still told by its exit code.
    let missed = ["--rate", "50", "--duration", "1s", "--require", "rate>1000", "--out", "missed"];
    assert!(matches!(gone(&missed), Some(3 | 4)));
}

#[test]
fn two_run_files_are_compared() {
    let (server, place) = (Witness::start(Manner::default()), places::directory());
    let text = format!("url = '{}'\nrate = 100\nduration = '10s'\nwarmup = '0s'\n", server.url());
    for name in ["a.toml", "b.toml"] {
        fs::write(place.path().join(name), &text).expect("there is room");
    }
    let args = ["compare", "a.toml", "b.toml", "--pairs", "1", "--out", "both"];
    let (code, said) = output(&place, &[&args[..], &["--", "--duration", "1s"]].concat());
    assert!(code == Some(4) && said.contains("too few to tell"), "{said}");
    assert_eq!(report(&place, "both/a/01")["requests"], 100, "{said}");
    assert_eq!(report(&place, "both/b/01")["requests"], 100, "{said}");
}
