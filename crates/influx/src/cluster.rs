//! What `weir placement` does: shows a cluster's table, tells where a point lies and how a query
//! goes, and brings a table onto the members.

use std::collections::BTreeMap;
use std::time::Duration;

use wire::influxql;

use crate::clock::now_ns;
use crate::front::routing;
pub use crate::placement::tools::{ClusterError, Difference, Mode, Verification};
use crate::placement::{self, QueryScope, Table, WrittenTable, tools};
use crate::settings::{Settings, SettingsError};

/// A cluster's table as its members have it.
#[derive(Debug)]
pub struct ClusterView {
    /// The table of the configuration, in lines.
    pub table: Vec<String>,
    /// Each member's name, and what keeps it from being used.
    pub members: BTreeMap<String, Result<(), String>>,
    /// What file and members do not agree on, in words.
    pub awaited: Option<String>,
}

/// Checks what settings say of a cluster, by itself.
///
/// # Errors
/// The first thing found wrong, with its key.
pub fn check(settings: &Settings) -> Result<(), SettingsError> {
    WrittenTable::check(settings)
}

/// Applies the table of these settings, `say` is told of each step.
///
/// # Errors
/// What stands in the way. Gateways go on with the table of before.
pub async fn apply(
    settings: &Settings,
    mode: Mode,
    say: &mut dyn FnMut(&str),
) -> Result<(), ClusterError> {
    tools::apply(settings, mode, now_ns(), say).await
}

/// Compares the members of each set; `tell` is told of each slice that differs.
///
/// # Errors
/// When a member does not answer; what was told until then differs.
pub async fn verify(
    settings: &Settings,
    wanted: Verification,
    tell: &mut dyn FnMut(&Difference),
) -> Result<u64, ClusterError> {
    tools::verify(settings, wanted, tell).await
}

/// Reads the table of the settings, and what each member has of it within `timeout`.
///
/// # Errors
/// When there is none, or one that can't work.
pub async fn view(settings: &Settings, timeout: Duration) -> Result<ClusterView, ClusterError> {
    let (written, _) = table(settings)?;
    let servers = tools::servers(&written, &settings.backends()?)?;
    let answers = tools::answers(&servers, timeout).await;
    let (members, awaited) = placement::judge(&written, answers);
    Ok(ClusterView { table: written.lines(), members, awaited })
}

/// Tells where the point of a line lies, whose time is in nanoseconds.
///
/// # Errors
/// When there is no such table, or it is no line with a time.
pub fn explain_line(settings: &Settings, db: &str, line: &str) -> Result<String, ClusterError> {
    let (_, table) = table(settings)?;
    table.explain(db, line.as_bytes()).ok_or_else(|| {
        let what = format!("{line:?} is not a point with a time in nanoseconds");
        SettingsError { at: "placement".to_owned(), what }.into()
    })
}

/// Tells for each statement of a query which sets are asked, and what becomes of their answers.
///
/// # Errors
/// When there is no such table, or it is not InfluxQL.
pub fn explain_query(
    settings: &Settings,
    db: &str,
    query: &str,
) -> Result<Vec<String>, ClusterError> {
    let (_, table) = table(settings)?;
    let statements = influxql::parse(query, &influxql::Params::default());
    let statements = statements
        .map_err(|error| SettingsError { at: "placement".to_owned(), what: error.to_string() })?;
    let scope = QueryScope { db, now_ns: now_ns() };
    Ok(statements.iter().map(|statement| routing::explain(&table, statement, scope)).collect())
}

fn table(settings: &Settings) -> Result<(WrittenTable, Table), ClusterError> {
    let written = WrittenTable::of(settings)?.ok_or_else(WrittenTable::is_missing)?;
    let table = written.table(&settings.backends()?)?;
    Ok((written, table))
}
