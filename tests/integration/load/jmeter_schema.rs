//! `--stream-schema jmeter`: what dashboards made for JMeter show of a run, and of merged parts.

use std::path::Path;
use std::time::Duration;

use rig::influxd::Influxd;
use rig::places;
use rig::weir::{Setup, Weir};
use rig::witness::{Manner, Witness};
use serde_json::Value;

use super::agents::{Agent, coordinator, ran};
use super::parts::{ended, load, part, report, soon};

/// Every fourth request is answered too late.
fn server() -> Witness {
    let mut delays = vec![Duration::from_millis(1); 3];
    delays.push(Duration::from_millis(400));
    Witness::start(Manner { delays, ..Manner::default() })
}

const LOAD: [&str; 6] = ["--rate", "100", "--connections", "30", "--timeout", "150ms"];

/// What panels for JMeter's measurement ask: those of Grafana's dashboard 5496, their variables
/// filled in, and of the template that JMeter brings along.
const QUERIES: [&str; 23] = [
    "SELECT sum(\"count\") FROM jmeter WHERE transaction = 'all' AND statut = 'all'",
    "SELECT sum(\"countError\") FROM jmeter WHERE transaction = 'all'",
    "SELECT sum(\"count\") FROM jmeter WHERE transaction != 'all' AND statut = 'ok'",
    "SELECT sum(\"count\") FROM jmeter WHERE responseCode != ''",
    "SELECT max(\"max\") FROM jmeter WHERE statut = 'all' AND transaction != 'all'",
    "SELECT mean(\"pct95.0\") FROM jmeter WHERE statut = 'ok' GROUP BY transaction",
    "SELECT mean(\"count\") / 5 FROM jmeter WHERE transaction = 'all' AND statut = 'all'",
    // 5496: totals, errors and rates of the run.
    "SELECT sum(\"count\") FROM jmeter WHERE (application =~ /^weir$/ AND transaction = 'all') \
     GROUP BY time(5s) fill(null)",
    "SELECT sum(\"countError\") FROM jmeter WHERE (transaction = 'all' AND application =~ \
     /^weir$/) GROUP BY time(5s) fill(null)",
    "SELECT mean(\"count\") / 5 FROM jmeter WHERE (transaction = 'all' AND application =~ \
     /^weir$/) GROUP BY time(5s) fill(null)",
    "SELECT sum(\"count\") FROM jmeter WHERE (application =~ /^weir$/ AND responseCode !~ /^$/) \
     GROUP BY transaction, responseCode, responseMessage",
    // 5496: of each transaction.
    "SELECT last(\"count\") / 5 FROM jmeter WHERE (transaction !~ /all|internal/ AND statut = \
     'ok') GROUP BY time(5s)",
    "SELECT last(\"pct90.0\") FROM jmeter WHERE (transaction !~ /all|internal/ AND statut = 'ok') \
     GROUP BY time(5s) fill(null)",
    "SELECT mean(\"pct99.0\") AS \"99pct\" FROM jmeter WHERE (application =~ /^weir$/ AND \
     transaction !~ /[Ii]nternal/) GROUP BY transaction",
    // JMeter's template.
    "SELECT last(startedT) FROM jmeter WHERE application =~ /weir$/ GROUP BY time(5s) fill(null)",
    "SELECT sum(hit) / 30 FROM jmeter WHERE application = 'weir' AND transaction = 'all' GROUP BY \
     time(30s)",
    "SELECT sum(\"countError\") / sum(\"count\") FROM jmeter WHERE application =~ /weir$/ AND \
     transaction = 'all'",
    "SELECT mean(\"avg\") FROM jmeter WHERE application =~ /weir$/ GROUP BY time(5s), transaction",
    "SELECT last(\"count\") / 30 FROM jmeter WHERE statut = 'ko' GROUP BY time(30s), transaction \
     fill(null)",
    "SHOW TAG VALUES FROM jmeter WITH KEY IN (transaction, application) WHERE application =~ \
     /weir/ AND transaction !~ /all/",
    "SELECT text, title FROM events WHERE application =~ /weir/",
    // Of bytes.
    "SELECT sum(\"sb\"), sum(\"rb\") FROM jmeter WHERE transaction = 'all'",
    "SELECT mean(\"rb\") / 5 FROM jmeter WHERE (application =~ /^weir$/ AND transaction !~ \
     /all|internal/ AND statut = 'all') GROUP BY time(5s), transaction fill(null)",
];

/// What panels of Grafana's dashboard 4026 ask beside those, and its variables and events.
const QUERIES_OF_4026: [&str; 15] = [
    "SELECT sum(\"error\") / sum(\"all\") FROM (SELECT sum(\"count\") AS \"all\" FROM jmeter WHERE \
     transaction = 'all' AND application =~ /^weir$/ GROUP BY time(5s) fill(null)), (SELECT \
     sum(\"countError\") AS \"error\" FROM jmeter WHERE transaction = 'all' AND application =~ \
     /^weir$/ GROUP BY time(5s) fill(null))",
    "SELECT last(\"maxAT\") FROM jmeter WHERE (transaction = 'internal' AND application =~ \
     /^weir$/) GROUP BY time(5s) fill(null)",
    "SELECT mean(\"pct95.0\") FROM jmeter WHERE (statut = 'ok' AND application =~ /^weir$/) GROUP \
     BY transaction, time(5s) fill(null)",
    "SELECT sum(\"count\") FROM jmeter WHERE (application =~ /^weir$/ AND statut = 'ko') GROUP BY \
     transaction",
    "SELECT sum(\"count\") FROM jmeter WHERE (application =~ /^weir$/ AND responseCode !~ /^$/) \
     GROUP BY responseCode, responseMessage",
    "SELECT sum(\"count\") FROM jmeter WHERE (application =~ /^weir$/ AND transaction =~ \
     /^[^ai].*$/ AND statut = 'all') GROUP BY time(5s) fill(null)",
    "SELECT sum(\"count\") FROM jmeter WHERE (application =~ /^weir$/ AND transaction =~ \
     /^[^ai].*$/ AND statut = 'ko') GROUP BY time(5s) fill(null)",
    "SELECT sum(\"error\") / sum(\"all\") FROM (SELECT sum(\"count\") AS \"all\" FROM jmeter WHERE \
     transaction =~ /^[^ai].*$/ AND statut = 'all' GROUP BY time(5s) fill(null)), (SELECT \
     sum(\"count\") AS \"error\" FROM jmeter WHERE transaction =~ /^[^ai].*$/ AND statut = 'ko' \
     GROUP BY time(5s) fill(null))",
    "SELECT last(\"count\") / 5 FROM jmeter WHERE (transaction =~ /^[^ai].*$/ AND statut = 'ok') \
     GROUP BY time(5s)",
    "SELECT last(\"avg\"), last(\"pct50.0\") FROM jmeter WHERE (transaction =~ /^[^ai].*$/ AND \
     statut = 'ok') GROUP BY time(5s)",
    "SELECT last(\"pct95.0\"), last(\"pct99.0\"), last(\"max\") FROM jmeter WHERE (transaction =~ \
     /^[^ai].*$/ AND statut = 'ok') GROUP BY time(5s) fill(null)",
    "SELECT mean(\"count\") / 5 FROM jmeter WHERE (transaction = 'all' AND application =~ \
     /^weir$/) GROUP BY time(5s) fill(null)",
    "SHOW TAG VALUES FROM \"jmeter\" WITH KEY = \"application\"",
    "SHOW TAG VALUES FROM \"jmeter\" WITH KEY = \"transaction\" WHERE \"application\" =~ /^weir$/ \
     AND \"transaction\" != 'internal' AND \"transaction\" != 'all'",
    "SELECT text FROM events",
];

fn number(answer: &Value) -> f64 {
    answer["results"][0]["series"][0]["values"][0][1].as_f64().unwrap_or(f64::NAN)
}

/// Holds what a dashboard shows against the report.
#[track_caller]
fn shows_the_report(ask: impl Fn(&str) -> Value, place: &Path, run: &str) {
    let report = report(place, run);
    let [all, failed, ok, errors, max, ..] = QUERIES.map(|q| number(&ask(q)));
    let requests = report["requests"].as_f64().expect("it is counted");
    assert!(failed > 10.0, "{report}");
    assert_eq!((all, ok + failed, errors), (requests, requests, failed), "{report}");
    assert!((150.0..1_000.0).contains(&max), "{max}");
    let min = number(&ask(
        "SELECT min(\"min\") FROM jmeter WHERE statut = 'all' AND transaction != 'all'",
    ));
    for (shown, name) in [(min, "min_ns"), (max, "max_ns")] {
        let reported_ms = report["latency"][name].as_f64().expect("it is measured") / 1e6;
        assert!((shown - reported_ms).abs() < 1e-6, "{name}: {shown} shown, {reported_ms} in fact");
    }
    let bytes = &ask(QUERIES[21])["results"][0]["series"][0]["values"][0];
    assert_eq!(bytes[1].as_f64(), report["bytes"]["sent"].as_f64(), "{report}");
    assert_eq!(bytes[2].as_f64(), report["bytes"]["received"].as_f64(), "{report}");
    assert_eq!(number(&ask("SELECT count(text) FROM events")), 2.0);
    assert_eq!(number(&ask("SELECT max(startedT) FROM jmeter")), 30.0);
    for q in [QUERIES[16], QUERIES_OF_4026[0], QUERIES_OF_4026[7]] {
        let share = number(&ask(q));
        assert!((share - failed / all).abs() < 1e-9, "{share}: {q}");
    }
    // A rate of rows is the whole run's.
    let rows = &ask(QUERIES[7])["results"][0]["series"][0]["values"];
    let rows = rows.as_array().expect("there are rows").iter().filter(|row| !row[1].is_null());
    let rate = number(&ask(QUERIES[6]));
    assert!((rate * 5.0 * rows.count() as f64 - all).abs() < 1e-6, "{rate}");
}

fn store() -> Weir {
    let store = Setup::new().embedded().start();
    assert_eq!(store.query("CREATE DATABASE load", &[]).status(), 200);
    store
}

fn asked(store: &Weir, q: &str) -> Value {
    store.query(q, &[("db", "load")]).json()
}

#[test]
fn a_dashboard_for_jmeter_shows_the_counts_of_the_report() {
    let (server, place, store) = (server(), places::directory(), store());
    let (url, stream) = (server.url(), format!("http://{}/write?db=load", store.http));
    let run = ["--duration", "3s", "--warmup", "0s", "--out", "run", "--stream", &stream];
    let line = [&[&*url], &LOAD[..], &run[..], &["--stream-schema", "jmeter"]].concat();
    let (code, text) = load(place.path(), &line);
    assert!(matches!(code, Some(0 | 4)) && !text.contains("DROPPED"), "{text}");
    shows_the_report(|q| asked(&store, q), place.path(), "run");
    let own = asked(&store, "SELECT sum(\"count\") FROM weir_load");
    assert_eq!(number(&own), 300.0, "the injector's own rows are there, too");
}

#[test]
fn a_merge_writes_one_series_of_all_parts_and_a_part_refuses_to() {
    let (server, place, store, influxd) =
        (server(), places::directory(), store(), Influxd::start());
    influxd.create("load");
    let (place, url, start) = (place.path(), server.url(), soon());
    let to_store = format!("http://{}/write?db=load", store.http);
    let refused = ["--part", "1/2", "--run-id", "a", "--start-at", &start, "--stream", &to_store];
    let line = [&[&*url], &refused[..], &["--stream-schema", "jmeter"]].concat();
    let (code, text) = load(place, &line);
    assert!(code != Some(0) && text.contains("weir load merge DIR... --stream URL"), "{text}");
    ended(["1/2", "2/2"].map(|of| part(place, &url, of, &start, &LOAD)));
    let to_influxd = format!("{}/write?db=load", influxd.url());
    for (out, stream) in [("all", &to_store), ("again", &to_influxd)] {
        let line = ["merge", "1-of-2", "2-of-2", "--out", out, "--stream", stream];
        let (code, text) = load(place, &[&line[..], &["--stream-schema", "jmeter"]].concat());
        assert!(matches!(code, Some(0 | 4)) && !text.contains("DROPPED"), "{text}");
    }
    shows_the_report(|q| asked(&store, q), place, "all");
    for q in QUERIES.into_iter().chain(QUERIES_OF_4026) {
        // Windows go on to this moment: one more may begin between two answers.
        let (first, theirs) = (asked(&store, q), influxd.ask(q, &[("db", "load")]));
        let same = [first, asked(&store, q)].map(|ours| ours["results"] == theirs["results"]);
        assert_ne!(same, [false, false], "{q}: {} for {theirs}", asked(&store, q));
    }
}

#[test]
fn agents_are_one_series_and_each_has_rows_of_its_own() {
    let (server, place, store) = (server(), places::directory(), store());
    let agents = ["a", "b"].map(|name| Agent::start(place.path(), name, &[]));
    let all: Vec<_> = agents.iter().collect();
    let (url, stream) = (server.url(), format!("http://{}/write?db=load", store.http));
    let run = ["--duration", "3s", "--warmup", "0s", "--out", "run", "--stream", &stream];
    let line = [&[&*url], &LOAD[..], &run[..], &["--stream-schema", "jmeter"]].concat();
    let (code, said) = ran(coordinator(place.path(), &all, &line));
    assert!(matches!(code, Some(0 | 4)) && !said.contains("DROPPED"), "{said}");
    shows_the_report(|q| asked(&store, q), place.path(), "run");
    let own = asked(&store, "SELECT sum(\"count\") FROM weir_load GROUP BY injector");
    let own = own["results"][0]["series"].as_array().expect("there are rows").clone();
    let mut names: Vec<_> = own.iter().map(|of| of["tags"]["injector"].as_str().unwrap()).collect();
    names.sort_unstable();
    let mut addresses: Vec<_> = agents.iter().map(|agent| &*agent.address).collect();
    addresses.sort_unstable();
    assert_eq!(names, addresses, "the coordinator has none");
    let sum: u64 = own.iter().filter_map(|of| of["values"][0][1].as_u64()).sum();
    assert_eq!(sum, 300);
}
