//! `SELECT ... INTO`: rows become points again.

use std::ops::ControlFlow;
use std::sync::Arc;

use wire::influxql::ast::{Measurement, MeasurementName};

use super::execute::execute;
use super::feeds::Key;
use super::frame::Frame;
use super::prepare::place;
use crate::query::context::Context;
use crate::query::results::{QueryError, Rows, Sink, Value};

/// Points of one write.
const BATCH_POINTS: usize = 10_000;

/// Executes a statement and writes its rows, then tells how many there were.
///
/// # Errors
/// Of the query, or that of a write.
pub(super) fn write(
    frame: &Frame<'_>,
    target: &Measurement,
    context: &Context,
    sink: &mut dyn Sink,
) -> Result<(), QueryError> {
    let (db, policy) = place(target, context)?;
    let Some(into) = &context.into else {
        return Err(QueryError("INTO is not allowed here".to_owned()));
    };
    let mut batch = Batch { lines: Vec::new(), points: 0 };
    let mut written: i64 = 0;
    let flush = |batch: &mut Batch| {
        let points = std::mem::take(&mut batch.points);
        let lines = std::mem::take(&mut batch.lines);
        if points > 0 {
            into.write(db, policy.unwrap_or(""), lines).map_err(QueryError)
        } else {
            Ok(())
        }
    };
    execute(frame, context, &mut |key, _, rows| {
        let prefix = series(frame, target, key);
        for row in rows {
            let (time, values) = row?;
            if batch.add(&prefix, frame.of.columns.get(1..).unwrap_or_default(), &values, time) {
                written += 1;
            }
            if batch.points >= BATCH_POINTS {
                context.check()?;
                flush(&mut batch)?;
            }
        }
        Ok(ControlFlow::Continue(()))
    })?;
    flush(&mut batch)?;
    let answer = Rows {
        name: "result".to_owned(),
        tags: Vec::new(),
        columns: Arc::from(["time".to_owned(), "written".to_owned()]),
        values: vec![vec![Value::Time(0), Value::Integer(written)]],
        partial: false,
    };
    let _ = sink.rows(answer);
    Ok(())
}

/// The measurement and tags of a group in line protocol.
fn series(frame: &Frame<'_>, target: &Measurement, key: &Key) -> String {
    let name = match &target.name {
        MeasurementName::Name(name) if !name.is_empty() => name,
        _ => &*key.name,
    };
    let mut line = String::new();
    escape(name, &[',', ' '], &mut line);
    for (tag, value) in frame.tags.iter().zip(&key.values) {
        if !value.is_empty() {
            line.push(',');
            escape(tag, &[',', ' ', '='], &mut line);
            line.push('=');
            escape(value, &[',', ' ', '='], &mut line);
        }
    }
    line
}

/// Points that wait to be written.
struct Batch {
    lines: Vec<u8>,
    points: usize,
}

impl Batch {
    /// Adds a point; false where it has no value at all.
    fn add(&mut self, prefix: &str, names: &[String], values: &[Value], time: i64) -> bool {
        let mut fields = String::new();
        for (name, value) in names.iter().zip(values) {
            let Some(text) = field(value) else { continue };
            if !fields.is_empty() {
                fields.push(',');
            }
            escape(name, &[',', ' ', '='], &mut fields);
            fields.push('=');
            fields.push_str(&text);
        }
        if fields.is_empty() {
            return false;
        }
        self.lines.extend_from_slice(format!("{prefix} {fields} {time}\n").as_bytes());
        self.points += 1;
        true
    }
}

fn escape(text: &str, special: &[char], into: &mut String) {
    for letter in text.chars() {
        if special.contains(&letter) {
            into.push('\\');
        }
        into.push(letter);
    }
}

/// A field's value in line protocol; `None` where it cannot be written.
fn field(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::Float(number) => number.is_finite().then(|| number.to_string()),
        Value::Integer(number) | Value::Time(number) => Some(format!("{number}i")),
        Value::Unsigned(number) => Some(format!("{number}u")),
        Value::Boolean(truth) => Some(truth.to_string()),
        Value::String(text) => {
            let mut quoted = String::from("\"");
            escape(text, &['"', '\\'], &mut quoted);
            quoted.push('"');
            Some(quoted)
        }
    }
}
