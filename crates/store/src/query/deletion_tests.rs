//! Conditions on tags beside the answers of an InfluxDB 1.8.10: what they delete, and what they
//! choose for `SELECT` and `SHOW`. `tests/integration/deletions.rs` says how its answers in
//! `fixtures/deletions.jsonl` are made anew.

use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};

use serde_json::Value;
use wire::influxql::ast::{Expr, Op, Statement};
use wire::influxql::{Params, parse};

use super::context::Context;
use super::encode::{self, Epoch, Format};
use super::run;
use crate::condition::{Constants, reduce};
use crate::store::testing::TestStore;
use crate::{go_regex, overreach};

const NOW: i64 = 1_600_000_000_000_000_000;
const ANSWERS: &str = include_str!("../../fixtures/deletions.jsonl");
/// Rounds that must be there at least.
const ROUNDS_MIN: usize = 800;
/// How many differences a failure shows.
const SHOWN_MAX: usize = 20;

/// A database of its own in the store.
struct Database<'a> {
    store: &'a TestStore,
    name: String,
}

impl Database<'_> {
    fn change(&self, statement: &Statement) -> Result<(), String> {
        let at = self.store.next();
        let changed = self.store.store.apply_change(at, statement, &self.name, "", NOW);
        changed.map_err(|error| error.to_string())
    }

    fn fill(&self, world: &Value) {
        let name = &self.name;
        for q in [
            format!("CREATE DATABASE {name}"),
            format!("CREATE RETENTION POLICY second ON {name} DURATION INF REPLICATION 1"),
        ] {
            self.change(&statement(&q)).unwrap();
        }
        for (policy, of) in [("", "lines"), ("second", "second")] {
            let lines: Vec<&str> =
                world[of].as_array().unwrap().iter().filter_map(Value::as_str).collect();
            if !lines.is_empty() {
                self.store.write_to(name, policy, &lines.join("\n"));
            }
        }
    }

    fn ask(&self, q: &str) -> Value {
        let all = Arc::new(Mutex::new(Vec::new()));
        let into = Arc::clone(&all);
        let take = move |piece: bytes::Bytes| {
            into.lock().unwrap().extend_from_slice(&piece);
            ControlFlow::Continue(())
        };
        let format = Format { epoch: Epoch::of("ns"), ..Format::default() };
        let mut encoder = encode::new(format, Box::new(take));
        let context = Context::new(&self.name, NOW);
        run(&self.store.store, &[statement(q)], &context, &mut *encoder, &mut |_| Ok(()));
        serde_json::from_slice(&all.lock().unwrap()).unwrap()
    }

    /// The points of all policies.
    fn left(&self) -> Vec<i64> {
        let mut all = Vec::new();
        for policy in ["autogen", "second"] {
            let answer = self.ask(&format!("SELECT v FROM {policy}.m, {policy}.n"));
            all.extend(rows(&answer).iter().filter_map(|(_, row)| row[1].as_i64()));
        }
        all.sort_unstable();
        all
    }
}

fn statement(q: &str) -> Statement {
    parse(q, &Params::default()).unwrap().pop().unwrap()
}

/// The rows of an answer, each with the name of its series.
fn rows(answer: &Value) -> Vec<(&str, &Value)> {
    let series = answer["results"][0]["series"].as_array().into_iter().flatten();
    series
        .flat_map(|one| {
            let name = one["name"].as_str().unwrap_or_default();
            one["values"].as_array().into_iter().flatten().map(move |row| (name, row))
        })
        .collect()
}

/// As the fixture has answers: the values of `v`, or the rows as words, or the error.
fn told(answer: &Value, is_select: bool) -> Value {
    if let Some(error) = answer["results"][0]["error"].as_str() {
        return error.into();
    }
    let rows = rows(answer);
    if is_select {
        let mut all: Vec<i64> = rows.iter().filter_map(|(_, row)| row[1].as_i64()).collect();
        all.sort_unstable();
        return all.into();
    }
    let word = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let words = |(name, row): &(&str, &Value)| {
        let row: Vec<String> = row.as_array().into_iter().flatten().map(word).collect();
        format!("{name} {}", row.join("=")).trim_start().to_owned()
    };
    rows.iter().map(words).collect::<Vec<_>>().into()
}

/// Each world with its rounds.
fn worlds() -> Vec<(Value, Vec<Value>)> {
    let mut worlds: Vec<(Value, Vec<Value>)> = Vec::new();
    for line in ANSWERS.lines() {
        let said: Value = serde_json::from_str(line).unwrap();
        match worlds.last_mut() {
            Some((_, rounds)) if !said["q"].is_null() => rounds.push(said),
            _ => worlds.push((said, Vec::new())),
        }
    }
    assert!(worlds.iter().map(|(_, rounds)| rounds.len()).sum::<usize>() >= ROUNDS_MIN);
    worlds
}

#[track_caller]
fn none_differ(differ: Vec<String>) {
    let shown = &differ[..differ.len().min(SHOWN_MAX)];
    assert!(differ.is_empty(), "{} differ\n{}", differ.len(), shown.join("\n"));
}

/// What of a world a statement deletes by its words alone, an absent tag being empty; `None` where
/// a field would have to decide.
fn by_words(world: &Value, q: &str) -> Option<Vec<i64>> {
    let (Statement::Delete(of) | Statement::DropSeries(of)) = statement(q) else { return None };
    let known = Constants { now_ns: Some(NOW), zone: None };
    let condition = reduce(of.condition.as_ref()?, known);
    let lines = ["lines", "second"].into_iter().flat_map(|of| world[of].as_array().unwrap());
    let mut found = Vec::new();
    for line in lines.filter_map(Value::as_str) {
        let [series, fields, time] = line.split(' ').collect::<Vec<_>>()[..] else { panic!() };
        let (name, tags) = series.split_once(',').unwrap_or((series, ""));
        let tags: Vec<_> = tags.split(',').filter_map(|tag| tag.split_once('=')).collect();
        let v = fields.split(['=', 'i']).nth(1).unwrap().parse::<i64>().unwrap();
        let of = |key: &str| match key {
            "_name" => name.to_owned(),
            _ => {
                let tag = tags.iter().find(|(known, _)| *known == key);
                tag.map_or("", |(_, value)| value).to_owned()
            }
        };
        if holds(&condition, &of, time.parse().unwrap())? {
            found.push(v);
        }
    }
    found.sort_unstable();
    Some(found)
}

fn holds(condition: &Expr, tag: &dyn Fn(&str) -> String, time: i64) -> Option<bool> {
    let (op, left, right) = match condition {
        Expr::Boolean(yes) => return Some(*yes),
        Expr::Paren(inner) => return holds(inner, tag, time),
        Expr::Binary { op: Op::And, left, right } => {
            return Some(holds(left, tag, time)? & holds(right, tag, time)?);
        }
        Expr::Binary { op: Op::Or, left, right } => {
            return Some(holds(left, tag, time)? | holds(right, tag, time)?);
        }
        Expr::Binary { op, left, right } => (*op, &**left, &**right),
        _ => return None,
    };
    let ordered = |order| crate::condition::ordered(op, Some(order));
    if let (Expr::Reference { name, .. }, Expr::Integer(ns)) = (left, right) {
        return (name == "time").then(|| ordered(time.cmp(ns))).flatten();
    }
    let text = |expr: &Expr| match expr {
        Expr::Reference { name, .. } => Some(tag(name)),
        Expr::String(text) => Some(text.clone()),
        _ => None,
    };
    match (op, right) {
        (Op::EqualRegex | Op::NotEqualRegex, Expr::Regex(pattern)) => {
            let matched = go_regex::compile(&pattern.0).unwrap().is_match(text(left)?.as_bytes());
            Some(matched == (op == Op::EqualRegex))
        }
        _ => ordered(text(left)?.cmp(&text(right)?)),
    }
}

#[test]
fn no_delete_deletes_more_than_influxdb_or_than_it_says() {
    let (mut differ, mut refused) = (Vec::new(), 0);
    for (at, (world, rounds)) in worlds().iter().enumerate() {
        let store = TestStore::new();
        let databases: Vec<Database<'_>> = (0..rounds.len())
            .map(|round| Database { store: &store, name: format!("d{round}") })
            .collect();
        databases.iter().for_each(|database| database.fill(world));
        // Files are deleted from by tombstones.
        let in_files = at % 5 == 1;
        if in_files {
            store.store.flush().unwrap();
        }
        let mut lefts = Vec::new();
        for (database, said) in databases.iter().zip(rounds) {
            let q = said["q"].as_str().unwrap();
            let before = database.left();
            let outcome = database.change(&statement(q));
            let after = database.left();
            let gone: Vec<i64> = before.iter().copied().filter(|v| !after.contains(v)).collect();
            lefts.push(after);
            let theirs: Vec<i64> =
                said["gone"].as_array().unwrap().iter().filter_map(Value::as_i64).collect();
            let words = by_words(world, q).unwrap_or_else(|| theirs.clone());
            let is_refused = overreach::refuse(&statement(q), NOW).is_err();
            refused += usize::from(is_refused);
            let as_theirs = match (&outcome, said["error"].as_str()) {
                (Err(_), _) if is_refused => gone.is_empty(),
                (Err(ours), Some(theirs)) => gone.is_empty() && ours.ends_with(theirs),
                (Ok(()), None) => gone == theirs,
                _ => false,
            };
            let more = |than: &[i64]| gone.iter().any(|v| !than.contains(v));
            if !as_theirs || more(&theirs) || more(&words) {
                differ.push(format!(
                    "{q}\n  by its words: {words:?}\n  InfluxDB: {theirs:?} {}\n  the store: \
                     {gone:?} {outcome:?}",
                    said["error"]
                ));
            }
        }
        if in_files {
            store.store.flush().unwrap();
            store.store.compact().unwrap();
            for (database, left) in databases.iter().zip(lefts) {
                assert_eq!(database.left(), left, "after a compaction");
            }
        }
    }
    none_differ(differ);
    assert!(refused > 50, "{refused} refused");
}

/// What docs/influxql.md names as different: two names in `SHOW TAG KEYS | VALUES`; and what is a
/// field of one measurement alone, which InfluxDB takes for one of all that are asked.
fn is_known(name: &str, condition: &str, ours: &Value) -> bool {
    let mut words = condition.split(|c: char| !c.is_alphanumeric());
    match name {
        "keys" | "values" => {
            ours.as_str().is_some_and(|error| error.starts_with("bad WHERE clause for metaquery"))
        }
        "series" => condition.contains("::field"),
        _ => words.any(|word| matches!(word, "s" | "g" | "f")),
    }
}

#[test]
fn a_condition_chooses_for_select_and_show_what_it_does_in_influxdb() {
    let mut differ = Vec::new();
    for (world, rounds) in worlds() {
        let store = TestStore::new();
        let database = Database { store: &store, name: "d".to_owned() };
        database.fill(&world);
        for said in &rounds {
            let condition = said["where"].as_str().unwrap();
            for (name, what) in [
                ("select", "SELECT v FROM m, n"),
                // The index of the fixture's InfluxDB is `inmem`, one for all policies.
                ("series", "SHOW SERIES FROM autogen./.*/, second./.*/"),
                ("keys", "SHOW TAG KEYS"),
                ("values", "SHOW TAG VALUES WITH KEY =~ /./"),
                ("count", "SHOW SERIES EXACT CARDINALITY"),
            ] {
                let q = format!("{what} WHERE {condition}");
                let ours = told(&database.ask(&q), name == "select");
                if ours != said[name] && !is_known(name, condition, &ours) {
                    differ.push(format!("{q}\n  InfluxDB: {}\n  the store: {ours}", said[name]));
                }
            }
        }
    }
    none_differ(differ);
}
