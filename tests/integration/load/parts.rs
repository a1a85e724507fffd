//! A run that several injectors share, each with its part, and what `weir load merge` makes of it.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rig::process::Process;
use rig::redis::Redis;
use rig::witness::{Manner, Witness};
use rig::{machine, network, places, wait};
use serde_json::Value;

/// A whole second by which every part has its connections, on a busy machine, too.
pub fn soon() -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("it is after 1970");
    let start = wire::influxql::rfc3339_short((now.as_secs() as i64 + 5) * 1_000_000_000);
    assert!(start.ends_with('Z'), "{start}");
    start
}

pub fn part(place: &Path, url: &str, part: &str, start: &str, more: &[&str]) -> Child {
    let out = part.replace('/', "-of-");
    let mut command = Command::new(places::weir());
    command.current_dir(place).args(["load", url, "--duration", "2s", "--warmup", "500ms"]);
    command.args(["--run-id", "night", "--start-at", start, "--part", part, "--out", &out]);
    command.args(more).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().expect("weir can be started")
}

/// Waits for parts, each of which must have ended well.
#[track_caller]
pub fn ended(parts: impl IntoIterator<Item = Child>) {
    for part in parts {
        let output = part.wait_with_output().expect("it was started");
        let text = words(&output);
        assert!(matches!(output.status.code(), Some(0 | 4)), "{text}");
        assert!(text.contains("weir load merge DIR..."), "{text}");
    }
}

pub fn load(place: &Path, args: &[&str]) -> (Option<i32>, String) {
    let mut command = Command::new(places::weir());
    let output = command.current_dir(place).arg("load").args(args).output();
    let output = output.expect("weir can be started");
    (output.status.code(), words(&output))
}

pub fn words(output: &Output) -> String {
    let said = [&output.stdout[..], &output.stderr].concat();
    String::from_utf8_lossy(&said).into_owned()
}

pub fn report(place: &Path, run: &str) -> Value {
    let text = fs::read(place.join(run).join("report.json")).expect("it is written");
    serde_json::from_slice(&text).expect("it is JSON")
}

pub fn causes(report: &Value) -> String {
    report["because"].to_string()
}

#[test]
fn parts_send_the_requests_of_one_run_and_merge_to_it() {
    let _alone = machine::alone();
    let (server, place) = (Witness::start(Manner::default()), places::directory());
    let place = place.path();
    let start = soon();
    let more = ["--rate", "600", "--connections", "9", "--require", "rate>5000", "--poisson"];
    let url = server.url();
    ended(["1/3", "2/3", "3/3"].map(|of| part(place, &url, of, &start, &more)));
    let (code, text) = load(place, &["merge", "3-of-3", "1-of-3", "2-of-3", "--out", "all"]);
    assert!(matches!(code, Some(3 | 4)), "{text}");
    let (all, parts) =
        (report(place, "all"), [1, 2, 3].map(|n| report(place, &format!("{n}-of-3"))));
    let count = |report: &Value| report["requests"].as_u64().expect("it is counted");
    assert_eq!(count(&all), parts.iter().map(count).sum::<u64>());
    assert!((1_000..1_400).contains(&count(&all)), "{all}");
    assert!(
        parts.iter().all(|part| count(part).abs_diff(count(&all) / 3) < 2),
        "one in three each"
    );
    // What one injector alone would have sent.
    let line = [&[url.as_str()], &more[..], &["--duration", "2s", "--warmup", "500ms"]].concat();
    load(place, &[&line[..], &["--out", "alone"]].concat());
    assert_eq!(count(&report(place, "alone")), count(&all), "the schedule is split, not copied");
    assert_eq!((&all["began"], &all["connections"]), (&parts[0]["began"], &9.into()));
    // The demand on the rate is of the whole run, and no part's.
    let missed = |report: &Value| report["missed"].as_array().map_or(0, Vec::len);
    assert_eq!((missed(&all), parts.iter().map(missed).sum::<usize>()), (1, 0), "{text}");
    assert_eq!(all["sharing"]["injectors"].as_array().map(Vec::len), Some(3), "{all}");
    assert!(text.contains("3 of 3 parts"), "{text}");
    let rows = |run: &str| fs::read_to_string(place.join(run).join("windows.csv")).unwrap();
    let offered = |run: &str| -> u64 {
        let rows = rows(run);
        rows.lines().skip(1).map(|row| row.split(',').nth(1).unwrap().parse::<u64>().unwrap()).sum()
    };
    assert_eq!(offered("all"), offered("alone"));
    assert!(place.join("all/report.html").exists() && place.join("all/windows.hlog").exists());
}

#[test]
fn what_is_not_one_run_is_not_merged_and_what_lacks_a_part_is_invalid() {
    let (server, place) = (Witness::start(Manner::default()), places::directory());
    let (place, start, url) = (place.path(), soon(), server.url());
    let more = ["--rate", "100", "--connections", "4"];
    let mut parts =
        vec![part(place, &url, "1/3", &start, &more), part(place, &url, "2/3", &start, &more)];
    parts.push(part(place, &url, "3/3", &start, &["--rate", "90", "--connections", "4"]));
    ended(parts);
    let (code, text) = load(place, &["merge", "1-of-3", "2-of-3", "--out", "two"]);
    assert_eq!(code, Some(4), "{text}");
    let causes = causes(&report(place, "two"));
    assert!(causes.contains("of 3 parts there is no part 3"), "{causes}");
    for (directories, words) in [
        (&["1-of-3", "3-of-3"][..], "are not of one run: pace is"),
        (&["1-of-3", "1-of-3"], "both are part 1/3"),
        (&["1-of-3"], "at least two parts"),
        (&["1-of-3", "nowhere"], "has no part of a run that has ended"),
    ] {
        let (code, text) = load(place, &[&["merge"], directories, &["--out", "none"]].concat());
        assert!(code == Some(1) && text.contains(words), "{text}");
        assert!(!place.join("none").exists(), "nothing is left behind");
    }
    let late = part(place, &url, "1/2", "2020-01-01T00:00:00Z", &[]);
    let late = late.wait_with_output().unwrap();
    assert!(words(&late).contains("agree on a later time"), "{}", words(&late));
    for (args, said) in [
        (&["--part", "1/2"][..], "--run-id"),
        (&["--part", "3/2", "--run-id", "a"], "is not a part"),
        (&["--start-at", "soon"], "is not a whole second"),
    ] {
        let (_, text) = load(place, &[&[url.as_str()], args].concat());
        assert!(text.contains(said), "{text}");
    }
}

#[test]
fn parts_that_send_other_bytes_are_not_merged_and_their_secrets_are_nowhere() {
    let (server, place) = (Witness::start(Manner::default()), places::directory());
    let (place, url, start) = (place.path(), server.url(), soon());
    let part = |of: &str, body: &str, token: &str| {
        let token = format!("Authorization: Token {token}");
        let more = ["--rate", "40", "--connections", "4", "--body", body, "-H", &token];
        part(place, &url, of, &start, &more)
    };
    ended([
        part("1/4", "hush-body", "hush-token"),
        part("2/4", "hush-body", "hush-token"),
        part("3/4", "hash-body", "hush-token"),
        part("4/4", "hush-body", "hash-token"),
    ]);
    for other in ["3-of-4", "4-of-4"] {
        let (code, text) = load(place, &["merge", "1-of-4", other, "--out", "none"]);
        assert_eq!(code, Some(1), "{text}");
        assert!(text.contains("what they send differs in a body"), "{text}");
    }
    let (code, text) = load(place, &["merge", "1-of-4", "2-of-4", "--out", "two"]);
    assert_eq!(code, Some(4), "{text}");
    for directory in ["1-of-4", "two"] {
        for file in fs::read_dir(place.join(directory)).unwrap() {
            let bytes = fs::read(file.unwrap().path()).unwrap();
            let text = String::from_utf8_lossy(&bytes);
            assert!(!text.contains("hush-"), "a secret is in the results");
        }
    }
}

#[test]
fn parts_of_several_loads_are_merged_load_by_load() {
    let (one, two, place) =
        (Witness::start(Manner::default()), Witness::start(Manner::default()), places::directory());
    let (place, start) = (place.path(), soon());
    let text = |rate: u32| {
        format!(
            "duration = '2s'\nwarmup = '0s'\nconnections = 4\nrequire = ['rate>1000 of two']\n\
             [[load]]\nname = 'one'\nurl = '{}'\nrate = 60\n\
             [[load]]\nname = 'two'\nurl = '{}'\nrate = {rate}\n",
            one.url(),
            two.url()
        )
    };
    fs::write(place.join("mix.toml"), text(40)).unwrap();
    fs::write(place.join("other.toml"), text(20)).unwrap();
    let part = |file: &str, of: &str, out: &str| {
        let mut command = Command::new(places::weir());
        command.current_dir(place).args(["load", "run", file, "--run-id", "night"]);
        command.args(["--start-at", &start, "--part", of, "--out", out]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    ended([
        part("mix.toml", "1/2", "a"),
        part("mix.toml", "2/2", "b"),
        part("other.toml", "2/2", "c"),
    ]);
    let (code, text) = load(place, &["merge", "a", "b", "--out", "all"]);
    assert!(matches!(code, Some(3 | 4)), "{text}");
    let all = report(place, "all");
    let operations = all["operations"].as_array().expect("there are operations").iter();
    let counts = operations.map(|of| (of["name"].as_str(), of["latency"]["count"].as_u64()));
    let counts: Vec<_> = counts.collect();
    assert_eq!(counts, [(Some("one"), Some(120)), (Some("two"), Some(80))]);
    assert_eq!(all["missed"].as_array().map(Vec::len), Some(1), "{text}");
    let (code, text) = load(place, &["merge", "a", "c", "--out", "none"]);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("of the load \"two\", pace is"), "{text}");
}

#[test]
fn a_merge_says_that_parts_were_aborted_or_have_used_up_their_rows() {
    let slow = Manner { delays: vec![Duration::from_millis(300)], ..Manner::default() };
    let (slow, place) = (Witness::start(slow), places::directory());
    let (place, start) = (place.path(), soon());
    let more = ["--rate", "40", "--connections", "40", "--abort", "p99<100ms"];
    let aborted = ["1/2", "2/2"].map(|of| part(place, &slow.url(), of, &start, &more));
    for part in aborted {
        let output = part.wait_with_output().expect("it was started");
        assert!(words(&output).contains("ABORTED  p99<100ms"), "{}", words(&output));
    }
    let (code, text) = load(place, &["merge", "1-of-2", "2-of-2", "--out", "aborted"]);
    assert!(matches!(code, Some(3 | 4)) && text.contains("ABORTED  p99<100ms"), "{text}");
    let sum = |runs: [&str; 2]| runs.map(|run| report(place, run)["requests"].as_u64().unwrap());
    let requests = |run| report(place, run)["requests"].as_u64();
    assert_eq!(requests("aborted"), Some(sum(["1-of-2", "2-of-2"]).iter().sum()), "{text}");

    let (server, start) = (Witness::start(Manner::default()), soon());
    let rows: String = (0..400).map(|n| format!("{n}\n")).collect();
    fs::write(place.join("rows.csv"), format!("n\n{rows}")).expect("there is room");
    let more = ["--closed", "--think", "10ms", "--connections", "4", "--data", "rows.csv=once"];
    let more = [&more[..], &["--body", "{{n}}"]].concat();
    // Other numbers of parts have other directories.
    ended(["1/3", "2/3", "3/3"].map(|of| part(place, &server.url(), of, &start, &more)));
    let (code, text) = load(place, &["merge", "1-of-3", "2-of-3", "3-of-3", "--out", "rows"]);
    assert!(matches!(code, Some(0 | 4)), "{text}");
    assert!(text.contains("ENDED  after") && text.contains("each row of the data"), "{text}");
}

#[test]
fn ledgers_of_all_parts_are_verified_as_one() {
    let (server, place) = (Redis::start(), places::directory());
    let (place, start) = (place.path(), soon());
    let more =
        ["--mix", "set", "--rate", "100", "--connections", "4", "--ledger", "--threads", "2"];
    ended(["1/2", "2/2"].map(|of| part(place, &server.url(), of, &start, &more)));
    let (_, text) = load(place, &["merge", "1-of-2", "2-of-2", "--out", "both"]);
    assert!(text.contains("ledger: weir load verify both"), "{text}");
    let (code, text) = load(place, &["verify", "both"]);
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("250"), "{text}");
    let mut client = server.client();
    let keys = client.ask(&["KEYS", "ledger:*"]);
    let lost = keys.split(' ').find(|word| word.starts_with("ledger:")).expect("there are keys");
    client.ask(&["DEL", lost]);
    let (code, text) = load(place, &["verify", "both"]);
    assert!(code == Some(3) && text.contains(lost), "{text}");
}

/// Two injectors with one address of a server before them, one of which is a network away.
#[test]
fn injectors_at_two_distances_make_the_sum_invalid() {
    let _alone = machine::alone();
    places::weir();
    let (place, start, port) = (places::directory(), soon(), places::free_address().port());
    let place = place.path();
    let anywhere = SocketAddr::from(([0, 0, 0, 0], port));
    let url = format!("http://10.9.0.2:{port}/");
    let more = ["--rate", "100", "--connections", "4"];
    let run = |of: &str| ended([part(place, &url, of, &start, &more)]);
    let far = || {
        let mut command = Command::new(places::need("python3"));
        command.arg(places::root().join("tests/clients/tun/held.py")).arg("2");
        let mut device = Process::start("a TUN device", &mut command, &place.join("log"));
        wait::until("the device is up", wait::LONG, || {
            assert!(device.ended().is_none(), "{}", device.log());
            device.log().contains("ready")
        });
        let _server = Witness::start_at(anywhere, Manner::default());
        run("1/2");
    };
    let near = || {
        let args = ["address", "add", "10.9.0.2/32", "dev", "lo"];
        assert!(Command::new("ip").args(args).status().expect("ip is there").success());
        let _server = Witness::start_at(anywhere, Manner::default());
        run("2/2");
    };
    let apart = std::thread::scope(|scope| {
        let far = scope.spawn(|| network::apart(None, far));
        let near = scope.spawn(|| network::apart(None, near));
        [far.join(), near.join()]
            .map(|ended| ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    });
    if let Some(error) = apart.into_iter().find_map(Result::err) {
        eprintln!("NOT TESTED: a network of its own can't be had, it needs root: {error}");
        return;
    }
    let (code, text) = load(place, &["merge", "1-of-2", "2-of-2", "--out", "both"]);
    // docs/jmeter.md has it.
    println!("{text}");
    assert_eq!(code, Some(4), "{text}");
    let causes = causes(&report(place, "both"));
    assert!(causes.contains("the least round trip to 10.9.0.2"), "{causes}");
}
