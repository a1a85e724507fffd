//! `SHOW` of databases, retention policies, and of what the store does not have.

use std::sync::Arc;
use std::time::Instant;

use super::super::context::Context;
use super::super::registry::{go_duration, rough};
use super::super::results::{Rows, Sink};
use super::{columns, give, table, text};
use crate::refusal::QueryError;
use crate::snapshot::Snapshot;
use crate::value::Value;

/// The columns of `SHOW SHARDS`.
pub(super) const SHARDS: [&str; 8] = [
    "id",
    "database",
    "retention_policy",
    "shard_group",
    "start_time",
    "end_time",
    "expiry_time",
    "owners",
];
/// The columns of `SHOW SHARD GROUPS`.
pub(super) const SHARD_GROUPS: [&str; 6] =
    ["id", "database", "retention_policy", "start_time", "end_time", "expiry_time"];

/// The names of all databases that may be seen, the oldest first.
fn names(snapshot: &Snapshot, context: &Context) -> Vec<String> {
    let databases = &snapshot.catalogue().databases;
    let seen = |db: &String| context.visible.as_ref().is_none_or(|visible| visible(db));
    let mut names: Vec<_> = databases.iter().map(|(name, db)| (db.id, name.clone())).collect();
    names.sort_unstable();
    names.into_iter().map(|(_, name)| name).filter(seen).collect()
}

pub(super) fn databases(
    snapshot: &Snapshot,
    context: &Context,
    sink: &mut dyn Sink,
) -> Result<(), QueryError> {
    let values = names(snapshot, context).iter().map(|db| vec![text(db)]).collect();
    let _ = give(sink, table("databases", &columns(&["name"]), values));
    Ok(())
}

pub(super) fn policies(
    snapshot: &Snapshot,
    db: &str,
    sink: &mut dyn Sink,
) -> Result<(), QueryError> {
    let policies = snapshot.policies(db).map_err(|error| QueryError(error.to_string()))?;
    let columns = columns(&["name", "duration", "shardGroupDuration", "replicaN", "default"]);
    let row = |policy: crate::catalogue::Policy| {
        vec![
            text(&policy.name),
            text(&go_duration(policy.duration_ns)),
            text(&go_duration(policy.partition_ns)),
            Value::Unsigned(policy.replication),
            Value::Boolean(policy.default),
        ]
    };
    let _ = give(sink, table("", &columns, policies.into_iter().map(row).collect()));
    Ok(())
}

/// A table without rows.
pub(super) fn empty(name: &str, names: &[&str], sink: &mut dyn Sink) -> Result<(), QueryError> {
    let _ = give(sink, table(name, &columns(names), Vec::new()));
    Ok(())
}

/// A table without rows for each database that may be seen.
pub(super) fn of_databases(
    snapshot: &Snapshot,
    of: &[&str],
    context: &Context,
    sink: &mut dyn Sink,
) -> Result<(), QueryError> {
    let columns = columns(of);
    for name in names(snapshot, context) {
        if give(sink, table(&name, &columns, Vec::new())).is_break() {
            break;
        }
    }
    Ok(())
}

pub(super) fn queries(context: &Context, sink: &mut dyn Sink) -> Result<(), QueryError> {
    let columns = columns(&["qid", "query", "database", "duration", "status"]);
    let running = context.registry.as_ref().map(|registry| registry.running());
    let now = Instant::now();
    let row = |query: super::super::registry::RunningQuery| {
        let status = match (query.cancel.is_ended(), query.cancel.is_parked()) {
            (true, _) => "killed",
            (false, true) => "parked",
            (false, false) => "running",
        };
        vec![
            Value::Unsigned(query.id),
            text(&query.text),
            text(&query.db),
            text(&rough(now.saturating_duration_since(query.since))),
            text(status),
        ]
    };
    let values = running.unwrap_or_default().into_iter().map(row).collect();
    let _ = give(sink, table("", &columns, values));
    Ok(())
}

/// The queries only: everything else is in the metrics of the admin port.
pub(super) fn stats(context: &Context, sink: &mut dyn Sink) -> Result<(), QueryError> {
    let active = context.registry.as_ref().map_or(0, |registry| registry.running().len());
    let values = vec![vec![Value::Integer(i64::try_from(active).unwrap_or(i64::MAX))]];
    let _ = give(sink, table("queryExecutor", &columns(&["queriesActive"]), values));
    Ok(())
}

pub(super) fn diagnostics(sink: &mut dyn Sink) -> Result<(), QueryError> {
    let version = env!("CARGO_PKG_VERSION");
    let values = vec![vec![text("weir"), text(version)]];
    let _ = give(sink, table("build", &columns(&["Program", "Version"]), values));
    let system: Arc<[String]> = columns(&["Arch", "OS", "PID"]);
    let pid = Value::Integer(i64::from(std::process::id()));
    let here = vec![text(std::env::consts::ARCH), text(std::env::consts::OS), pid];
    let rows: Rows = table("system", &system, vec![here]);
    let _ = give(sink, rows);
    Ok(())
}
