//! What `DELETE` and `DROP SERIES` delete, and what their conditions choose elsewhere, beside the
//! answers of an InfluxDB 1.8.10, which are in `crates/store/fixtures/deletions.jsonl`. The store's
//! own tests play all of them; some are played here through `/query`.
//!
//! `INFLUXD_1_8=/path/to/influxd cargo test -p weir-tests --test integration -- --ignored
//! answers_about_deletions_are_written_down_anew` makes the file anew, from fixed seeds.

mod round;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use rand::SeedableRng;
use rand::rngs::StdRng;
use rig::influxd::Influxd;
use rig::places;
use rig::weir::{Setup, Weir};
use serde_json::{Value, json};

use round::World;

const WORLDS: u64 = 40;
const ROUNDS: usize = 20;
/// Of the rounds so many are played through `/query`: one in this many.
const PLAYED: usize = 16;

fn file() -> PathBuf {
    places::root().join("crates/store/fixtures/deletions.jsonl")
}

/// The error of a statement, without the number of the shard that says so.
fn error(answer: &Value) -> Option<String> {
    let text = answer["error"].as_str().or(answer["results"][0]["error"].as_str())?;
    let of_shard = text.strip_prefix("shard ").and_then(|rest| rest.split_once(": "));
    Some(of_shard.map_or(text, |(_, text)| text).to_owned())
}

/// The rows of an answer by series: its name, and the values.
fn rows(answer: &Value) -> Vec<(String, Value)> {
    let series = answer["results"][0]["series"].as_array().cloned().unwrap_or_default();
    let mut rows = Vec::new();
    for one in series {
        let name = one["name"].as_str().unwrap_or_default().to_owned();
        let values = one["values"].as_array().cloned().unwrap_or_default();
        rows.extend(values.into_iter().map(|row| (name.clone(), row)));
    }
    rows
}

/// The values of `v`, sorted, or the error.
fn points(answer: &Value) -> Value {
    if let Some(error) = error(answer) {
        return error.into();
    }
    let mut all: Vec<i64> = rows(answer).iter().filter_map(|(_, row)| row[1].as_i64()).collect();
    all.sort_unstable();
    all.into()
}

/// The rows as words, with the measurement's name before them, or the error.
fn words(answer: &Value) -> Value {
    if let Some(error) = error(answer) {
        return error.into();
    }
    let word = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let words = |(name, row): &(String, Value)| {
        let row: Vec<String> = row.as_array().into_iter().flatten().map(word).collect();
        format!("{name} {}", row.join("=")).trim_start().to_owned()
    };
    rows(answer).iter().map(words).collect::<Vec<_>>().into()
}

/// What is asked of a condition besides what it deletes.
fn asked(condition: &str, ask: &dyn Fn(&str) -> Value) -> [(&'static str, Value); 5] {
    let ask = |what: &str| ask(&format!("{what} WHERE {condition}"));
    [
        ("select", points(&ask("SELECT v FROM m, n"))),
        ("series", words(&ask("SHOW SERIES"))),
        ("keys", words(&ask("SHOW TAG KEYS"))),
        ("values", words(&ask("SHOW TAG VALUES WITH KEY =~ /./"))),
        ("count", words(&ask("SHOW SERIES EXACT CARDINALITY"))),
    ]
}

/// The points of all policies.
fn left(ask: &dyn Fn(&str) -> Value) -> Vec<i64> {
    let mut all = Vec::new();
    for policy in ["autogen", "second"] {
        let answer = ask(&format!("SELECT v FROM {policy}.m, {policy}.n"));
        all.extend(rows(&answer).iter().filter_map(|(_, row)| row[1].as_i64()));
    }
    all.sort_unstable();
    all
}

/// Makes a database and fills it.
fn fill(world: &Value, ask: &dyn Fn(&str) -> Value, write: &dyn Fn(&str, &str)) {
    assert_eq!(error(&ask("CREATE DATABASE db")), None);
    let second = "CREATE RETENTION POLICY second ON db DURATION INF REPLICATION 1";
    assert_eq!(error(&ask(second)), None);
    for (policy, name) in [("lines", "autogen"), ("second", "second")] {
        let lines = world[policy].as_array().unwrap();
        let lines: String =
            lines.iter().map(|line| format!("{}\n", line.as_str().unwrap())).collect();
        if !lines.is_empty() {
            write(name, &lines);
        }
    }
}

/// Runs the rounds of a world on a real InfluxDB.
fn answers(server: &Influxd, seed: u64, out: &mut String) {
    let mut chance = StdRng::seed_from_u64(seed);
    let World { lines, second } = World::made(&mut chance);
    let world = json!({ "lines": lines, "second": second });
    writeln!(out, "{world}").unwrap();
    let ask = |q: &str| server.ask(q, &[("db", "db"), ("epoch", "ns")]);
    let write = |policy: &str, lines: &str| {
        let target = format!("/write?db=db&rp={policy}");
        assert_eq!(server.send(&rig::http::Request::post(&target, lines)).status(), 204);
    };
    for _ in 0..ROUNDS {
        fill(&world, &ask, &write);
        let (q, condition) = round::deletion(&mut chance);
        let mut said = json!({ "q": q, "where": condition });
        for (name, answer) in asked(&condition, &ask) {
            said[name] = answer;
        }
        let before = left(&ask);
        let answer = ask(&q);
        let after = left(&ask);
        said["gone"] = before.into_iter().filter(|v| !after.contains(v)).collect();
        if let Some(error) = error(&answer) {
            said["error"] = error.into();
        }
        writeln!(out, "{said}").unwrap();
        ask("DROP DATABASE db");
    }
}

#[test]
#[ignore = "needs an InfluxDB 1.8.10, which INFLUXD_1_8 names"]
fn answers_about_deletions_are_written_down_anew() {
    let program = std::env::var_os("INFLUXD_1_8").expect("INFLUXD_1_8 names an influxd of 1.8.10");
    let server = Influxd::of(Path::new(&program));
    let mut out = String::new();
    (0..WORLDS).for_each(|seed| answers(&server, seed, &mut out));
    std::fs::write(file(), out).unwrap();
}

/// A Weir with its store, as `asked` and the others ask it.
fn asking(weir: &Weir) -> impl Fn(&str) -> Value {
    |q: &str| weir.query(q, &[("db", "db"), ("epoch", "ns")]).json()
}

#[test]
fn nothing_is_deleted_through_http_that_influxdb_would_not_delete() {
    let weir = Setup::new().embedded().start();
    let ask = asking(&weir);
    let text = std::fs::read_to_string(file()).unwrap();
    let (mut world, mut refused) = (Value::Null, 0);
    for (at, line) in text.lines().enumerate() {
        let said: Value = serde_json::from_str(line).unwrap();
        if said["q"].is_null() {
            world = said;
            continue;
        }
        if !at.is_multiple_of(PLAYED) {
            continue;
        }
        fill(&world, &ask, &|policy, lines| {
            let target = format!("/write?db=db&rp={policy}");
            assert_eq!(weir.send(&rig::http::Request::post(&target, lines)).status(), 204);
        });
        let before = left(&ask);
        let q = said["q"].as_str().unwrap();
        let answer = weir.query(q, &[("db", "db")]);
        let after = left(&ask);
        let gone: Vec<i64> = before.into_iter().filter(|v| !after.contains(v)).collect();
        if answer.status() == 400 {
            assert!(gone.is_empty(), "{q}: {gone:?} {}", answer.text());
            refused += 1;
        } else if error(&answer.json()).is_some() {
            assert_eq!(error(&answer.json()).map(Value::from), Some(said["error"].clone()), "{q}");
            assert!(gone.is_empty(), "{q}: {gone:?}");
        } else {
            assert_eq!(Value::from(gone), said["gone"], "{q}");
        }
        ask("DROP DATABASE db");
    }
    assert!(refused > 0, "some compare tags in ways that are refused");
}

#[test]
fn a_delete_whose_quotes_were_forgotten_deletes_nothing_it_does_not_say() {
    let weir = Setup::new().embedded().start();
    weir.query("CREATE DATABASE db", &[]);
    weir.must_write("db", "m,h=a v=1i 1\nm,h=b v=2i 2\nm v=3i 3\nm,h=a,r=b v=4i 4\n");
    let ask = asking(&weir);
    let left = || points(&ask("SELECT v FROM m"));
    // Neither tag is there.
    assert_eq!(weir.query("DELETE FROM m WHERE p != q", &[("db", "db")]).status(), 200);
    assert_eq!(left(), json!([1, 2, 3, 4]));
    for condition in ["h = a", "h = r", "h > 'a'", "h <= r", "time > 9223372036854775807"] {
        for statement in ["DELETE FROM m", "DROP SERIES FROM m", "DELETE"] {
            let q = format!("{statement} WHERE {condition}");
            let answer = weir.query(&q, &[("db", "db")]);
            assert_eq!(answer.status(), 400, "{q}: {}", answer.text());
            assert!(answer.text().contains("refused"), "{q}: {}", answer.text());
        }
    }
    // Nothing of such a request runs.
    let q = "DELETE FROM m WHERE h = 'a'; DELETE FROM m WHERE h = a";
    assert_eq!(weir.query(q, &[("db", "db")]).status(), 400);
    assert_eq!(left(), json!([1, 2, 3, 4]));
    // `h` is there, and `a` is not a tag.
    assert_eq!(weir.query("DELETE FROM m WHERE h != a", &[("db", "db")]).status(), 200);
    assert_eq!(left(), json!([3]), "points without h stay");
}
