//! `SHOW SERIES`.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;

use wire::influxql::ast::{Expr, Op, ShowClauses};

use super::super::context::Context;
use super::super::results::{Rows, Sink};
use super::schema::{Schema, Tags};
use super::{BYTES_AT_ONCE, Listed, ROWS_AT_ONCE, columns, places, table};
use crate::condition::{TagReading, has_time, split};
use crate::refusal::QueryError;
use crate::snapshot::Snapshot;
use crate::value::Value;

/// A series as in line protocol.
pub(super) fn key(measurement: &str, tags: &Tags) -> String {
    let mut key = String::with_capacity(measurement.len() + 16 * tags.len());
    escaped(&mut key, measurement, &[',', ' ']);
    for (name, value) in tags.iter() {
        key.push(',');
        escaped(&mut key, name, &[',', '=', ' ']);
        key.push('=');
        escaped(&mut key, value, &[',', '=', ' ']);
    }
    key
}

fn escaped(out: &mut String, text: &str, special: &[char]) {
    for char in text.chars() {
        if special.contains(&char) {
            out.push('\\');
        }
        out.push(char);
    }
}

pub(super) async fn show(
    snapshot: &Snapshot,
    clauses: &ShowClauses,
    context: &Context,
    sink: &mut dyn Sink,
) -> Result<(), QueryError> {
    let places = places(clauses, context)?;
    let condition = split(clauses.condition.as_ref(), context.now_ns, None)?;
    let timed = clauses.condition.as_ref().is_some_and(has_time);
    // With a time InfluxDB makes a `SELECT` of it.
    let reading = if timed { TagReading::Value } else { TagReading::Presence };
    let mut out = Out::new(clauses, context, sink);
    let mut found: Vec<(Schema, super::names::NameMatcher)> = Vec::new();
    let mut names = BTreeSet::new();
    for (db, policy, named) in places {
        let schema = Schema::policy(snapshot, &db, policy.as_deref());
        let schema = schema.map_err(|error| QueryError(error.to_string()))?.within(condition.time);
        names.extend(schema.measurements().into_iter().filter(|name| named.is(name)));
        found.push((schema, named));
    }
    if !timed {
        condition.rest.as_ref().map_or(Ok(()), only_equality)?;
    }
    for name in names {
        let mut keys = BTreeSet::new();
        for (schema, _) in found.iter().filter(|(_, named)| named.is(&name)) {
            context.check()?;
            let filter = schema.filter(&name, condition.rest.as_ref(), reading)?;
            // What is said of fields beside a time is true of none, as in InfluxDB.
            let series = schema.series(&name, &filter, !timed)?;
            keys.extend(series.keys().map(|tags| key(&name, tags)));
        }
        let bytes = keys.iter().map(|key| 48 + key.len()).sum();
        let _listed = Listed::new(context, bytes);
        for key in keys {
            if out.push(key).await.is_break() {
                return Ok(());
            }
        }
    }
    out.finish();
    Ok(())
}

/// The index knows no order of values, and does not calculate.
fn only_equality(condition: &Expr) -> Result<(), QueryError> {
    match condition {
        Expr::Binary { op, left, right } => match op {
            Op::And | Op::Or | Op::Equal | Op::NotEqual | Op::EqualRegex | Op::NotEqualRegex => {
                only_equality(left).and_then(|()| only_equality(right))
            }
            _ => Err(QueryError("invalid tag comparison operator".to_owned())),
        },
        Expr::Paren(inner) => only_equality(inner),
        _ => Ok(()),
    }
}

/// Keys on their way out, within `LIMIT` and `OFFSET`; only some are held at a time.
struct Out<'a> {
    sink: &'a mut dyn Sink,
    context: &'a Context,
    columns: Arc<[String]>,
    skip: u64,
    left: u64,
    rows: Vec<Vec<Value>>,
    bytes: usize,
}

impl<'a> Out<'a> {
    fn new(clauses: &ShowClauses, context: &'a Context, sink: &'a mut dyn Sink) -> Self {
        let left = if clauses.limit == 0 { u64::MAX } else { clauses.limit };
        let columns = columns(&["key"]);
        Self { sink, context, columns, skip: clauses.offset, left, rows: Vec::new(), bytes: 0 }
    }

    async fn push(&mut self, key: String) -> ControlFlow<()> {
        if self.skip > 0 {
            self.skip -= 1;
            return ControlFlow::Continue(());
        }
        if self.left == 0 {
            return ControlFlow::Continue(());
        }
        self.left -= 1;
        if self.rows.len() == ROWS_AT_ONCE || self.bytes >= BYTES_AT_ONCE {
            let rows = table("", &self.columns, std::mem::take(&mut self.rows));
            self.bytes = 0;
            self.sink.rows(Rows { partial: true, ..rows })?;
            self.context.room().await;
        }
        self.bytes += key.len() + 4;
        self.rows.push(vec![Value::String(Arc::from(key))]);
        ControlFlow::Continue(())
    }

    fn finish(self) {
        if !self.rows.is_empty() {
            let _ = self.sink.rows(table("", &self.columns, self.rows));
        }
    }
}
