//! Weir with its own store, as a newcomer has it: nothing else runs. What it answers to queries is
//! held against InfluxDB elsewhere; here it is about keeping, losing, starting and stopping.

mod crashes;
mod kept;
mod limits;
mod stalled;
mod together;
mod types;
mod unread;

use std::collections::BTreeMap;

use rig::http::{Message, Request};
use rig::weir::{Setup, Weir};
use serde_json::Value;

/// Weir with the store and the database `db`.
fn store() -> Weir {
    with(|setup| setup)
}

/// The same with changes to the configuration.
fn with(change: impl FnOnce(Setup) -> Setup) -> Weir {
    let weir = change(Setup::new().embedded()).start();
    must_run(&weir, "CREATE DATABASE db");
    weir
}

/// Runs statements on `db`; none may fail.
#[track_caller]
fn must_run(weir: &Weir, q: &str) -> Value {
    let answer = weir.query(q, &[("db", "db"), ("epoch", "ns")]);
    assert_eq!(answer.status(), 200, "{q}: {}", answer.text());
    assert!(!answer.text().contains("\"error\""), "{q}: {}", answer.text());
    answer.json()
}

/// The rows of the only series of the only result.
#[track_caller]
fn rows(weir: &Weir, q: &str) -> Vec<Vec<Value>> {
    let answer = must_run(weir, q);
    let rows = answer["results"][0]["series"][0]["values"].as_array().cloned();
    let row = |row: Value| row.as_array().cloned().unwrap_or_default();
    rows.unwrap_or_default().into_iter().map(row).collect()
}

/// How many points of `load` there are.
#[track_caller]
fn count(weir: &Weir) -> u64 {
    let rows = rows(weir, "SELECT count(v) FROM load");
    rows.first().map_or(0, |row| row[1].as_u64().unwrap_or_default())
}

/// The values of `load` by their times.
#[track_caller]
fn values(weir: &Weir) -> BTreeMap<u64, i64> {
    let rows = rows(weir, "SELECT v FROM load");
    let pair = |row: Vec<Value>| (row[0].as_u64().unwrap_or(0), row[1].as_i64().unwrap_or(-1));
    rows.into_iter().map(pair).collect()
}

/// A GET of `/query` on `db`, as Grafana's proxy sends it.
fn get(weir: &Weir, q: &str, pairs: &str) -> Message {
    let q = rig::http::escape(q);
    weir.send(&Request::get(&format!("/query?db=db&q={q}{pairs}")))
}
