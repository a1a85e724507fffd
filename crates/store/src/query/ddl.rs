//! Statements that change something, before they are written to the journal: what InfluxDB would
//! refuse is refused here, so that what is in the journal can be applied.

use wire::influxql::ast::{Selection, Statement};

use super::results::Message;
use crate::catalogue::Catalogue;
use crate::condition::has_time;
use crate::refusal::QueryError;

/// Whether a statement changes the store and so has to go through the journal.
pub fn changes(statement: &Statement) -> bool {
    matches!(
        statement,
        Statement::CreateDatabase { .. }
            | Statement::DropDatabase(_)
            | Statement::CreateRetentionPolicy { .. }
            | Statement::AlterRetentionPolicy { .. }
            | Statement::DropRetentionPolicy { .. }
            | Statement::Delete(_)
            | Statement::DropSeries(_)
            | Statement::DropMeasurement(_)
    )
}

/// Checks a statement that [`changes`] something, for the database of its request.
///
/// # Errors
/// Where InfluxDB refuses, in its words.
pub fn check(catalogue: &Catalogue, statement: &Statement, db: &str) -> Result<(), QueryError> {
    let known = || match catalogue.database(db) {
        Some(_) => Ok(()),
        None => Err(QueryError(format!("database not found: {db}"))),
    };
    match statement {
        Statement::DropMeasurement(_) | Statement::Delete(_) => known(),
        Statement::DropSeries(Selection { condition, .. }) => {
            known()?;
            if condition.as_ref().is_some_and(has_time) {
                let text = "DROP SERIES doesn't support time in WHERE clause";
                return Err(QueryError(text.to_owned()));
            }
            Ok(())
        }
        Statement::CreateDatabase { name, policy } => {
            valid_name(name)?;
            let first = policy.as_ref().and_then(|policy| policy.name.as_deref());
            first.filter(|name| !name.is_empty()).map_or(Ok(()), valid_name)?;
            try_out(catalogue, statement)
        }
        Statement::CreateRetentionPolicy { policy, .. } => {
            valid_name(policy.name.as_deref().unwrap_or_default())?;
            try_out(catalogue, statement)
        }
        Statement::AlterRetentionPolicy { .. } => try_out(catalogue, statement),
        _ => Ok(()),
    }
}

/// Runs a statement on a copy of the catalogue, which is small.
fn try_out(catalogue: &Catalogue, statement: &Statement) -> Result<(), QueryError> {
    catalogue.clone().change(u64::MAX, statement)
}

/// `meta.ValidName`: it is the name of a directory in InfluxDB.
fn valid_name(name: &str) -> Result<(), QueryError> {
    let printable = |c: char| c == ' ' || !(c.is_control() || c.is_whitespace());
    let valid = !matches!(name, "" | "." | "..")
        && name.chars().all(printable)
        && !name.contains(['/', '\\']);
    if valid { Ok(()) } else { Err(QueryError("invalid name".to_owned())) }
}

/// What a `GET` of a changing statement is told besides its result; `DELETE` is told nothing.
pub fn deprecated(statement: &Statement) -> Option<Message> {
    let told = match statement {
        Statement::Delete(_) => false,
        Statement::Select(select) => select.target.is_some(),
        Statement::KillQuery(_) => true,
        other => changes(other),
    };
    let text = || {
        format!(
            "deprecated use of '{statement}' in a read only context, please use a POST request \
             instead"
        )
    };
    told.then(|| Message { level: "warning", text: text() })
}
