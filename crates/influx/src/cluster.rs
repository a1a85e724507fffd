//! What `weir placement` does: shows a cluster's table, tells where a point lies and how a query
//! goes, and brings a table onto the members.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use journal::inspect::put_back;
use wire::influxql::{self, rfc3339_short};

use crate::client::Greeting;
use crate::clock::now_ns;
use crate::front::routing;
pub use crate::placement::tools::{
    ClusterError, Difference, Extent, Mode, Rebuild, TimeSpan, Verification,
};
use crate::placement::{
    self, GatewayId, GatewayState, MemberNotes, QueryScope, Table, WrittenTable, tools,
};
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
    /// What each gateway has noted, in lines.
    pub gateways: Vec<String>,
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

/// Fills a member from another one of its set and puts it in force; `say` is told of each step.
/// Gives whether what was copied is alike on both.
///
/// # Errors
/// What stands in the way. The member gets nothing and is not asked until it is run to its end.
pub async fn rebuild(
    settings: &Settings,
    wanted: &Rebuild,
    say: &mut dyn FnMut(&str),
) -> Result<bool, ClusterError> {
    tools::rebuild(settings, wanted, now_ns(), say).await
}

/// A time as an operator writes it, in nanoseconds since 1970.
///
/// # Errors
/// When it is none.
pub fn time_ns(text: &str) -> Result<i64, String> {
    let time = text.parse::<i64>().ok().or_else(|| {
        let time: jiff::Timestamp = text.parse().ok()?;
        i64::try_from(time.as_nanosecond()).ok()
    });
    time.ok_or_else(|| "write it as in 2026-12-07T00:00:00Z, or in nanoseconds".to_owned())
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
    let gateways = gateways(&placement::notes_of(&answers));
    let (members, awaited) = placement::judge(&written, answers);
    Ok(ClusterView { table: written.lines(), members, awaited, gateways })
}

/// A line for each gateway, with what it still has for members.
fn gateways(notes: &BTreeMap<String, MemberNotes>) -> Vec<String> {
    let ids: BTreeSet<&GatewayId> = notes.values().flat_map(MemberNotes::keys).collect();
    let line = |id: &GatewayId| {
        let of = || notes.iter().map(|(member, notes)| (member, notes.get(id)));
        let known = || of().filter_map(|(_, note)| note);
        let host = known().next().map_or("", |note| &note.host);
        let last = known().map(|note| note.progress.whole_until).max().unwrap_or_default();
        let has_state = |state| known().all(|note| note.progress.state == state);
        let state = match () {
            () if has_state(GatewayState::Forgotten) => "forgotten",
            () if has_state(GatewayState::Ended) => "has ended",
            () => "last seen",
        };
        let last = rfc3339_short(i64::try_from(last.as_nanos()).unwrap_or(i64::MAX));
        let behind = of().filter_map(|(member, note)| match note {
            None => Some(format!("{member} has no note of it")),
            Some(note) if !note.progress.is_whole() => {
                Some(format!("{member} lacks its last points"))
            }
            Some(_) => None,
        });
        let behind: Vec<String> = behind.collect();
        let behind = if behind.is_empty() {
            "all members have its points".into()
        } else {
            behind.join(", ")
        };
        format!("gateway {id} on {host}: {state} {last}; {behind}")
    };
    ids.into_iter().map(line).collect()
}

/// Gives up a gateway that will not come back, by its name.
///
/// # Errors
/// When a member does not answer, no member has a note of it, or it still writes.
pub async fn forget(settings: &Settings, gateway: &str) -> Result<(), ClusterError> {
    tools::forget(settings, gateway).await
}

/// Has the gateway of a journal, which does not run, take part again after it was forgotten: by
/// another name, and with the cursors of each set back at its lowest. Gives the name.
///
/// # Errors
/// When the journal is in use, or its files cannot be read or written.
pub fn rejoin(settings: &Settings, journal: &Path, dir: &Path) -> Result<String, ClusterError> {
    let written = WrittenTable::of(settings)?.ok_or_else(WrittenTable::is_missing)?;
    for set in &written.sets {
        let members: Vec<&str> = set.members.iter().map(String::as_str).collect();
        put_back(journal, &members)?;
    }
    Ok(placement::rename(dir)?.to_string())
}

/// What each connection begins with over which something is sent to a backend by hand: a member
/// takes nothing whose table is another one. `None` where the backend is no member. The tables of
/// the other members are read within `timeout`.
///
/// # Errors
/// When the configuration can't work.
pub async fn greeting(
    settings: &Settings,
    backend: &str,
    timeout: Duration,
) -> Result<Option<Arc<dyn Greeting>>, ClusterError> {
    let Some(written) = WrittenTable::of(settings)? else { return Ok(None) };
    let backends = settings.backends()?;
    let greeting = tools::MemberGreeting::of(written, &backends, backend, timeout).await?;
    Ok(greeting.map(|greeting| Arc::new(greeting) as Arc<dyn Greeting>))
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
