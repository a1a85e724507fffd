//! `SELECT ... INTO`: rows become points again (`convertRowToPoints` in InfluxDB's
//! `coordinator/statement_executor.go`).

use std::collections::{BTreeMap, HashMap};
use std::ops::ControlFlow;
use std::sync::Arc;

use wire::influxql::ast::{Measurement, MeasurementName};

use super::execute::{EachGroup, execute};
use super::feeds::Key;
use super::frame::Frame;
use super::merged;
use super::prepare::place;
use crate::query::context::{Context, Target};
use crate::query::results::{Rows, Sink};
use crate::refusal::QueryError;
use crate::value::Value;

/// Points of one write.
const BATCH_POINTS: usize = 10_000;

/// Executes a statement and writes its rows, then tells how many there were.
///
/// # Errors
/// Of the query, or that of a write.
pub(super) async fn write(
    frame: &Frame<'_>,
    target: &Measurement,
    context: &Context,
    sink: &mut dyn Sink,
) -> Result<(), QueryError> {
    let (db, policy) = place(target, context)?;
    let Some(into) = &context.into else {
        return Err(QueryError("INTO is not allowed here".to_owned()));
    };
    let mut writer = Writer {
        frame,
        target,
        context,
        to: into.as_ref(),
        place: (db, policy.unwrap_or("")),
        fields: Fields::of(&frame.of.columns),
        tags: frame.written_tags(),
        batch: Batch { lines: Vec::new(), points: 0 },
        written: 0,
    };
    execute(frame, context, &mut writer).await?;
    writer.flush()?;
    let written = writer.written;
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

/// Writes the rows of a statement.
struct Writer<'a> {
    frame: &'a Frame<'a>,
    target: &'a Measurement,
    context: &'a Context,
    to: &'a dyn Target,
    /// The database and the policy.
    place: (&'a str, &'a str),
    fields: Fields,
    tags: Vec<String>,
    batch: Batch,
    written: i64,
}

impl Writer<'_> {
    fn flush(&mut self) -> Result<(), QueryError> {
        let points = std::mem::take(&mut self.batch.points);
        let lines = std::mem::take(&mut self.batch.lines);
        let (db, policy) = self.place;
        if points > 0 { self.to.write(db, policy, lines).map_err(QueryError) } else { Ok(()) }
    }
}

impl EachGroup for Writer<'_> {
    async fn group(
        &mut self,
        key: &Key,
        _: usize,
        rows: merged::Rows<'_>,
    ) -> Result<ControlFlow<()>, QueryError> {
        let mut prefix = series(self.frame, self.target, key, &self.tags, &[]);
        for row in rows {
            let (time, values) = row?;
            let (values, tag_values) = self.fields.split(&values)?;
            if !self.tags.is_empty() {
                prefix = series(self.frame, self.target, key, &self.tags, tag_values);
            }
            if self.batch.add(&prefix, &self.fields, values, time) {
                self.written += 1;
            }
            if self.batch.points >= BATCH_POINTS {
                self.context.check()?;
                self.flush()?;
            }
        }
        Ok(ControlFlow::Continue(()))
    }
}

/// Which columns are written, and as what.
struct Fields {
    /// The names of the columns behind the time's, `None` where another one of that name follows:
    /// of those the last is the field, as in InfluxDB, also where it has no value.
    names: Vec<Option<String>>,
    /// Whether the first column, and no other, is named `time`.
    timed: bool,
}

impl Fields {
    fn of(columns: &[String]) -> Self {
        let last: HashMap<&String, usize> =
            columns.iter().enumerate().map(|(at, name)| (name, at)).collect();
        let name =
            |(at, name): (usize, &String)| (last.get(name) == Some(&at)).then(|| name.clone());
        Self {
            names: columns.iter().enumerate().skip(1).map(name).collect(),
            timed: last.get(&"time".to_owned()) == Some(&0),
        }
    }

    /// The values of the fields, and those of tags behind them.
    ///
    /// # Errors
    /// When it cannot be told which column is the time, in InfluxDB's words.
    fn split<'a>(&self, values: &'a [Value]) -> Result<(&'a [Value], &'a [Value]), QueryError> {
        if !self.timed {
            return Err(QueryError("error finding time index in result".to_owned()));
        }
        Ok(values.split_at_checked(self.names.len()).unwrap_or((values, &[])))
    }
}

/// The measurement and tags of a point in line protocol: the tags of its group, and those written
/// besides.
fn series(
    frame: &Frame<'_>,
    target: &Measurement,
    key: &Key,
    more: &[String],
    values: &[Value],
) -> String {
    let name = match &target.name {
        MeasurementName::Name(name) if !name.is_empty() => name,
        _ => &*key.name,
    };
    let mut line = String::new();
    escape(name, &[',', ' '], &mut line);
    let value = |value: &'_ Value| match value {
        Value::String(text) => Arc::clone(text),
        _ => Arc::from(""),
    };
    let grouped = frame.tags.iter().zip(key.values.iter().cloned());
    let tags: BTreeMap<&String, Arc<str>> =
        grouped.chain(more.iter().zip(values.iter().map(value))).collect();
    for (tag, value) in tags {
        if !value.is_empty() {
            line.push(',');
            escape(tag, &[',', ' ', '='], &mut line);
            line.push('=');
            escape(&value, &[',', ' ', '='], &mut line);
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
    fn add(&mut self, prefix: &str, of: &Fields, values: &[Value], time: i64) -> bool {
        let mut fields = String::new();
        for (name, value) in of.names.iter().zip(values) {
            let (Some(name), Some(text)) = (name, field(value)) else { continue };
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
