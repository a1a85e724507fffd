//! `SHOW`: the catalogue, the schema, and what runs (`coordinator/statement_executor.go`,
//! `query/statement_rewriter.go` of InfluxDB 1.x).

mod cardinality;
mod catalogue;
mod fields;
mod names;
mod present;
mod schema;
mod series;
mod tags;

use std::ops::ControlFlow;
use std::sync::Arc;

use wire::influxql::ast::{Show, ShowClauses};

use super::context::Context;
use super::encode::Pieces;
use super::results::{Rows, Sink};
use crate::refusal::QueryError;
use crate::snapshot::Snapshot;
use crate::value::Value;
pub use cardinality::Figures;

/// Rows that are handed on at once where there may be a million, and their bytes, about.
const ROWS_AT_ONCE: usize = 10_000;
const BYTES_AT_ONCE: usize = 192 << 10;

/// Executes a `SHOW` on what a snapshot holds.
///
/// # Errors
/// What InfluxDB would answer, in its words.
pub async fn answer(
    snapshot: &Snapshot,
    what: &Show,
    context: &Context,
    sink: &mut dyn Sink,
) -> Result<(), QueryError> {
    let db = |said: &Option<String>| database(said.as_deref(), context);
    match what {
        Show::Databases => catalogue::databases(snapshot, context, sink),
        Show::RetentionPolicies { db: said } => catalogue::policies(snapshot, &db(said)?, sink),
        Show::Measurements(clauses) => {
            names::show(snapshot, &db(&clauses.db)?, clauses, context, sink).await
        }
        Show::TagKeys(clauses) => {
            tags::keys(snapshot, &db(&clauses.db)?, clauses, context, sink).await
        }
        Show::TagValues(clauses) => {
            tags::values(snapshot, &db(&clauses.db)?, clauses, context, sink).await
        }
        Show::Series(clauses) => series::show(snapshot, clauses, context, sink).await,
        Show::FieldKeys(clauses) => fields::show(snapshot, clauses, context, sink).await,
        Show::Cardinality { what, exact, clauses, dimensions } => {
            let asked =
                cardinality::CardinalityQuery { what: *what, exact: *exact, clauses, dimensions };
            cardinality::show(snapshot, &asked, context, sink).await
        }
        Show::Queries => catalogue::queries(context, sink),
        Show::ContinuousQueries => {
            catalogue::of_databases(snapshot, &["name", "query"], context, sink)
        }
        Show::Users => catalogue::empty("", &["user", "admin"], sink),
        Show::Grants => Err(QueryError("user not found".to_owned())),
        Show::Subscriptions => Ok(()),
        Show::Shards => catalogue::of_databases(snapshot, &catalogue::SHARDS, context, sink),
        Show::ShardGroups => catalogue::empty("shard groups", &catalogue::SHARD_GROUPS, sink),
        Show::Stats => catalogue::stats(context, sink),
        Show::Diagnostics => catalogue::diagnostics(sink),
    }
}

/// How a chunked answer of it is cut.
pub fn pieces(what: &Show) -> Pieces {
    match what {
        Show::Series(_) | Show::FieldKeys(_) => Pieces::Cut,
        Show::Cardinality { exact, clauses, dimensions, what } => {
            let asked =
                cardinality::CardinalityQuery { what: *what, exact: *exact, clauses, dimensions };
            if asked.is_estimate() { Pieces::Whole } else { Pieces::Cut }
        }
        Show::TagKeys(_) | Show::TagValues(_) => Pieces::Series,
        _ => Pieces::Whole,
    }
}

/// The database that is said, or that of the request.
fn database(said: Option<&str>, context: &Context) -> Result<String, QueryError> {
    match said.filter(|db| !db.is_empty()).unwrap_or(&context.db) {
        "" => Err(QueryError("database name required".to_owned())),
        db => Ok(db.to_owned()),
    }
}

/// Where the sources of a statement lie: database and policy of each.
fn places(
    clauses: &ShowClauses,
    context: &Context,
) -> Result<Vec<(String, Option<String>, names::NameMatcher)>, QueryError> {
    let rp = Some(context.rp.clone()).filter(|rp| !rp.is_empty());
    if clauses.sources.is_empty() {
        let db = database(clauses.db.as_deref(), context)?;
        return Ok(vec![(db, rp, names::NameMatcher::All)]);
    }
    let mut places = Vec::with_capacity(clauses.sources.len());
    for measurement in names::measurements(&clauses.sources) {
        let said = measurement.db.as_deref().or(clauses.db.as_deref());
        let db = database(said, context)?;
        let rp = measurement.policy.clone().filter(|rp| !rp.is_empty()).or_else(|| rp.clone());
        places.push((db, rp, names::NameMatcher::of(measurement)?));
    }
    Ok(places)
}

/// What is left of a list behind `OFFSET` and `LIMIT`.
fn limited<T>(all: Vec<T>, clauses: &ShowClauses) -> Vec<T> {
    let offset = usize::try_from(clauses.offset).unwrap_or(usize::MAX);
    let limit = match usize::try_from(clauses.limit).unwrap_or(usize::MAX) {
        0 => usize::MAX,
        limit => limit,
    };
    all.into_iter().skip(offset).take(limit).collect()
}

fn text(text: &str) -> Value {
    Value::String(Arc::from(text))
}

fn columns(names: &[&str]) -> Arc<[String]> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn table(name: &str, columns: &Arc<[String]>, values: Vec<Vec<Value>>) -> Rows {
    let (name, columns) = (name.to_owned(), Arc::clone(columns));
    Rows { name, tags: Vec::new(), columns, values, partial: false }
}

/// Hands a short table on; a sink that wants no more ends the statement, and says so itself.
fn give(sink: &mut dyn Sink, rows: Rows) -> ControlFlow<()> {
    sink.rows(rows)
}

/// Hands a table on that may be long, a part at a time as its client reads it.
async fn give_in_parts(sink: &mut dyn Sink, rows: Rows, context: &Context) -> ControlFlow<()> {
    let mut left = rows.values.into_iter().peekable();
    loop {
        let (mut values, mut bytes) = (Vec::new(), 0);
        while values.len() < ROWS_AT_ONCE && bytes < BYTES_AT_ONCE {
            let Some(row) = left.next() else { break };
            bytes += row.iter().map(value_bytes).sum::<usize>();
            values.push(row);
        }
        let (name, tags, columns) = (rows.name.clone(), rows.tags.clone(), rows.columns.clone());
        let partial = left.peek().is_some();
        give(sink, Rows { name, tags, columns, values, partial })?;
        context.room().await;
        if !partial {
            return ControlFlow::Continue(());
        }
    }
}

fn value_bytes(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len() + 4,
        _ => 20,
    }
}

/// Memory that a statement's list takes; given back when this goes. It is part of the index as
/// well, so that no limit refuses it.
struct Listed<'a> {
    context: &'a Context,
    bytes: usize,
}

impl<'a> Listed<'a> {
    fn new(context: &'a Context, bytes: usize) -> Self {
        context.cancel.count(bytes);
        Self { context, bytes }
    }
}

impl Drop for Listed<'_> {
    fn drop(&mut self) {
        self.context.cancel.release(self.bytes);
    }
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod values_tests;
