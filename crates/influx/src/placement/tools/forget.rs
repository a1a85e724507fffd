//! Giving up a gateway that will not come back.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::super::member::MemberAnswer;
use super::super::note::{GatewayId, GatewayState, MemberNotes, Note};
use super::super::read::WrittenTable;
use super::failure::ClusterError;
use super::server::{MemberServer, servers};
use crate::settings::{Settings, SettingsError};

/// How long a gateway has to write no note to count as one that does not run.
const SILENCE: Duration = Duration::from_secs(5);

/// Gives up a gateway by its name on all members: nobody waits for its points any more, and should
/// it come back it writes nothing.
///
/// # Errors
/// When a member does not answer, no member has a note of it, or it still writes.
pub async fn forget(settings: &Settings, gateway: &str) -> Result<(), ClusterError> {
    let written = WrittenTable::of(settings)?.ok_or_else(WrittenTable::is_missing)?;
    let servers = servers(&written, &settings.backends()?)?;
    let gateway = GatewayId::from(gateway);
    let before = notes(&servers).await?;
    let last = last_note(&before, &gateway).ok_or_else(|| unknown(&gateway, &before))?;
    tokio::time::sleep(SILENCE).await;
    let after = notes(&servers).await?;
    let of = |notes: &BTreeMap<String, MemberNotes>| -> Vec<Option<Note>> {
        notes.values().map(|notes| notes.get(&gateway).cloned()).collect()
    };
    if of(&before) != of(&after) {
        return Err(wrong(format!("gateway {gateway} on {} writes notes: stop it", last.host)));
    }
    for server in &servers {
        let there = after.get(server.name()).and_then(|notes| notes.get(&gateway));
        let mut note = there.unwrap_or(&last).clone();
        note.progress.state = GatewayState::Forgotten;
        server.note(&gateway, &note).await?;
    }
    Ok(())
}

/// What gateways have noted on each member; all have to answer.
async fn notes(servers: &[MemberServer]) -> Result<BTreeMap<String, MemberNotes>, ClusterError> {
    let mut all = BTreeMap::new();
    for server in servers {
        match server.answer().await? {
            MemberAnswer::Table(_, notes) => drop(all.insert(server.name().to_owned(), notes)),
            MemberAnswer::Nothing => return Err(server.failed("it has no table")),
            MemberAnswer::Error(words) => return Err(server.failed(words)),
        }
    }
    Ok(all)
}

/// The note of a gateway that is furthest, of all members.
fn last_note(notes: &BTreeMap<String, MemberNotes>, gateway: &GatewayId) -> Option<Note> {
    let of = notes.values().filter_map(|notes| notes.get(gateway));
    of.max_by_key(|note| note.progress.position).cloned()
}

fn unknown(gateway: &GatewayId, notes: &BTreeMap<String, MemberNotes>) -> ClusterError {
    let known: BTreeSet<String> =
        notes.values().flat_map(MemberNotes::keys).map(ToString::to_string).collect();
    let known: Vec<String> = known.into_iter().collect();
    wrong(format!("no member has a note of gateway {gateway}; there are {}", known.join(", ")))
}

fn wrong(what: String) -> ClusterError {
    SettingsError { at: "placement".to_owned(), what }.into()
}
