//! `weir load --stream`: windows as points while the run goes on, beside a server that takes them
//! and one that does not.

use std::net::TcpListener;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use rig::fake::{Fake, Mode};
use rig::weir::{Setup, Weir};
use rig::witness::{Manner, Witness};
use rig::{places, wait};
use serde_json::Value;

/// Runs a load of 3 s; what it said.
fn load(url: &str, stream: &str) -> Output {
    let place = places::directory();
    let mut command = Command::new(places::weir());
    command.current_dir(place.path()).args(["load", url, "--rate", "200", "--duration", "3s"]);
    command.args(["--warmup", "0s", "--run-id", "night", "--out", "run", "--stream", stream]);
    let output = command.output().expect("weir can be started");
    let kept = std::fs::read_to_string(place.path().join("run/run.toml")).unwrap_or_default();
    assert!(kept.contains("stream = ") && !kept.contains("hush"), "{kept}");
    output
}

#[track_caller]
fn told(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(matches!(output.status.code(), Some(0 | 4)), "{text}{errors}");
    text
}

fn value(weir: &Weir, q: &str) -> Value {
    let answer = weir.query(q, &[("db", "load")]).json();
    answer["results"][0]["series"][0]["values"][0][1].clone()
}

#[test]
fn a_dashboard_sees_each_window_and_all_requests_once() {
    let store = Setup::new().embedded().start();
    assert_eq!(store.query("CREATE DATABASE load", &[]).status(), 200);
    let server = Witness::start(Manner::default());
    let text = told(&load(&server.url(), &format!("http://{}/write?db=load", store.http)));
    assert!(text.contains("stream   ") && !text.contains("DROPPED"), "{text}");
    assert_eq!(value(&store, "SELECT sum(\"count\") FROM weir_load WHERE run = 'night'"), 600);
    assert_eq!(value(&store, "SELECT sum(offered) FROM weir_load_window"), 600);
    assert_eq!(value(&store, "SELECT count(offered) FROM weir_load_window"), 3);
    let aligned =
        store.query("SELECT offered FROM weir_load_window", &[("db", "load"), ("epoch", "ms")]);
    let rows = aligned.json()["results"][0]["series"][0]["values"].clone();
    assert!(
        rows.as_array().unwrap().iter().all(|row| row[0].as_u64().unwrap() % 1000 == 0),
        "{rows}"
    );
    let q = "SELECT last(latency_histogram) FROM weir_load WHERE result = 'succeeded'";
    assert!(value(&store, q).as_str().is_some_and(|text| text.starts_with("HISTFAAA")));
}

#[test]
fn a_server_that_takes_nothing_slows_no_request_and_what_it_lacks_is_counted() {
    // From here on it has its share of the machine, for which it may have waited.
    let _place = places::directory();
    // It listens, and nobody accepts.
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let server = Witness::start(Manner::default());
    let hung = format!("http://ann:hush@{}/write?db=load", silent.local_addr().unwrap());
    let begun = Instant::now();
    let text = told(&load(&server.url(), &hung));
    assert!(text.contains("600 requests in 3 s"), "{text}");
    assert!(text.contains("DROPPED") && !text.contains("hush"), "{text}");
    assert!(begun.elapsed() < Duration::from_secs(40), "it is waited for no longer than said");
    let refused = "http://127.0.0.1:1/write?db=load";
    let text = told(&load(&server.url(), refused));
    assert!(text.contains("stream   0 points") && text.contains("can't be asked"), "{text}");
}

#[test]
fn a_server_that_comes_back_has_all_that_it_missed_once() {
    let (server, mut fake) = (Witness::start(Manner::default()), Fake::start("a", &["load"]));
    let stream = format!("{}/write?db=load", fake.url());
    fake.take_down();
    let text = std::thread::scope(|scope| {
        let run = scope.spawn(|| told(&load(&server.url(), &stream)));
        wait::until("a window has ended", wait::LONG, || server.answered().len() > 300);
        fake.set(Mode::error(503, "later"));
        fake.bring_up();
        wait::until("it is asked again", wait::LONG, || fake.requests() > 0);
        fake.set(Mode::Accept);
        run.join().expect("it has ended")
    });
    assert!(text.contains("stream   ") && !text.contains("DROPPED"), "{text}");
    let lines = fake.lines();
    assert_eq!(lines.len(), fake.distinct(), "{lines:?}");
    let windows = lines.iter().filter(|line| line.starts_with("weir_load_window,"));
    assert_eq!(windows.count(), 3, "{lines:?}");
    let results = lines.iter().filter(|line| line.starts_with("weir_load,"));
    let counts = results.map(|line| {
        let (_, fields) = line.split_once(" count=").expect("it has a count");
        fields.split('i').next().and_then(|count| count.parse::<u64>().ok()).expect("a number")
    });
    assert_eq!(counts.sum::<u64>(), 600, "{lines:?}");
}
