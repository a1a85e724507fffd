//! Names made whole: each measurement with its database and policy
//! (`StatementExecutor.NormalizeStatement`). Only told to the client; nothing runs on it.

use wire::influxql::ast::{Measurement, MeasurementName, Select, Source, Statement};

use super::context::Context;
use crate::refusal::QueryError;
use crate::snapshot::Snapshot;

/// A statement as InfluxDB shows it, when it speaks of it.
pub fn normalised(statement: &Statement, snapshot: &Snapshot, context: &Context) -> Statement {
    let mut whole = statement.clone();
    if let Statement::Select(select) = &mut whole {
        fill(select, snapshot, context);
    }
    whole
}

fn fill(select: &mut Select, snapshot: &Snapshot, context: &Context) {
    if let Some(target) = &mut select.target {
        name(target, snapshot, context);
    }
    for source in &mut select.sources {
        match source {
            Source::Measurement(measurement) => name(measurement, snapshot, context),
            Source::Subquery(inner) => fill(inner, snapshot, context),
        }
    }
}

fn name(measurement: &mut Measurement, snapshot: &Snapshot, context: &Context) {
    let db = measurement.db.get_or_insert_with(|| context.db.clone());
    if measurement.policy.is_some() {
        return;
    }
    let said = Some(context.rp.clone()).filter(|rp| !rp.is_empty());
    let default = || {
        let database = snapshot.catalogue().database(db)?;
        Some(database.policy(None)?.name.clone())
    };
    measurement.policy = said.or_else(default);
}

/// Refuses a `SELECT` from the measurements that InfluxDB keeps for itself.
///
/// # Errors
/// When it reads one.
pub fn check_sources(select: &Select) -> Result<(), QueryError> {
    for source in &select.sources {
        let Source::Measurement(Measurement { name: MeasurementName::Name(name), .. }) = source
        else {
            continue;
        };
        let instead = match name.as_str() {
            "_fieldKeys" => "SHOW FIELD KEYS",
            "_measurements" => "SHOW MEASUREMENTS",
            "_series" => "SHOW SERIES",
            "_tagKeys" => "SHOW TAG KEYS",
            "_tags" => "SHOW TAG VALUES",
            _ => continue,
        };
        let text = format!("unable to use system source '{name}': use {instead} instead");
        return Err(QueryError(text));
    }
    Ok(())
}
