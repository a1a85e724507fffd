//! Brings the table of a configuration onto the members of its cluster, so that all gateways that
//! have the same one may use it. It may be killed at any step, and is run again then.

use std::collections::BTreeMap;
use std::time::Duration;

use super::super::member::{MemberAnswer, MemberTable, notes_of};
use super::super::read::WrittenTable;
use super::failure::ClusterError;
use super::plan::Plan;
use super::server::{MemberServer, servers};
use crate::catalogue::Listing;
use crate::settings::{BackendSettings, Settings};

/// What is to be done with a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Apply,
    /// All is looked at, and nothing is written.
    DryRun,
}

/// Applies the table of these settings at `now_ns`; `say` is told of each step.
///
/// # Errors
/// What stands in the way. The members keep using the table of before.
pub async fn apply(
    settings: &Settings,
    mode: Mode,
    now_ns: i64,
    say: &mut dyn FnMut(&str),
) -> Result<(), ClusterError> {
    let backends = settings.backends()?;
    let written = WrittenTable::of(settings)?.ok_or_else(WrittenTable::is_missing)?;
    written.table(&backends)?;
    let servers = servers(&written, &backends)?;
    let mut found = BTreeMap::new();
    for server in &servers {
        found.insert(server.name().to_owned(), server.found().await?);
    }
    let check_interval = settings.cluster.clone().unwrap_or_default().check_interval.get();
    let plan = Plan::of(&written, &found, (now_ns, check_interval), rand::random)?;
    if plan.is_done(&found) {
        say("every member has this table, and it is complete");
        return Ok(());
    }
    if let Some(from_ns) = plan.new_from_ns {
        have_no_points_past(&servers, &plan, from_ns).await?;
    }
    plan.describe(say);
    if mode == Mode::DryRun {
        return Ok(());
    }
    let all = all_databases(&servers).await?;
    // The new ones first: whoever is known to others has its table.
    let (new, known): (Vec<_>, Vec<_>) =
        servers.iter().partition(|server| plan.new_members.iter().any(|new| new == server.name()));
    let answers: BTreeMap<String, MemberAnswer> =
        found.into_iter().map(|(name, found)| (name, found.answer)).collect();
    for server in &new {
        server.create(&all).await?;
        server.note_forgotten(&notes_of(&answers)).await?;
    }
    for server in new.iter().chain(&known) {
        server.put(&plan.tables[server.name()]).await?;
        say(&format!("{}: has the table", server.name()));
    }
    if let Some(from_ns) = plan.new_from_ns {
        let pause = check_interval + longest_timeout(&backends);
        say(&format!("waiting {pause:?} until every gateway has read it"));
        tokio::time::sleep(pause).await;
        have_no_points_past(&servers, &plan, from_ns).await?;
    }
    for server in &servers {
        let table = &plan.tables[server.name()];
        let complete = written.placement.len();
        server.put(&MemberTable { complete, ..table.clone() }).await?;
        say(&format!("{}: the table is complete", server.name()));
    }
    Ok(())
}

fn longest_timeout(backends: &[BackendSettings]) -> Duration {
    let timeouts = backends.iter().filter_map(|backend| Some(backend.server()?.timeout));
    timeouts.max().unwrap_or_default()
}

async fn have_no_points_past(
    servers: &[MemberServer],
    plan: &Plan,
    from_ns: i64,
) -> Result<(), ClusterError> {
    for server in servers.iter().filter(|server| !plan.is_new(server.name())) {
        if let Some(place) = server.point_past(from_ns).await? {
            let from = wire::influxql::rfc3339_short(from_ns);
            let words = format!("it has points of {place} at or past {from}: begin later");
            return Err(ClusterError::Member { name: server.name().to_owned(), words });
        }
    }
    Ok(())
}

/// The databases and policies of all members.
async fn all_databases(servers: &[MemberServer]) -> Result<Listing, ClusterError> {
    let mut all = Listing::default();
    for server in servers {
        all.unite(&server.databases().await?);
    }
    Ok(all)
}
