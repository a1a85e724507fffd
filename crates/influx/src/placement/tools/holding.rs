//! Whether a member that is being rebuilt can be filled: once every gateway holds its points for
//! it, and another member of its set has all that was before those. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use watch::words::{bytes, seconds};

use super::super::disk_number::DiskNumber;
use super::super::note::{GatewayId, GatewayState, MemberNotes, Note};

/// What is still waited for until `source` has all that no gateway holds for the member, in words.
///
/// Each gateway that saw the mark has noted on the member's new disk where its cursor for it
/// stands: what is behind that place it will deliver, what is before it is to be copied.
pub fn awaited(
    notes: &BTreeMap<String, MemberNotes>,
    (member, disk): (&str, DiskNumber),
    source: &str,
) -> Vec<String> {
    let awaited = gateways(notes).into_iter().filter_map(|gateway| {
        let on = |member: &str| notes.get(member)?.get(gateway);
        let held = on(member).filter(|note| note.disk == Some(disk));
        let words = match (held, on(source)) {
            (None, _) => "which has not seen that it is rebuilt".to_owned(),
            (Some(held), Some(there)) if there.progress.position >= held.progress.position => {
                return None;
            }
            _ => format!("which has points for {source} from before"),
        };
        Some(format!("gateway {gateway} on {}, {words}", host(notes, gateway)))
    });
    awaited.collect()
}

/// Points that a member will never be given, by the notes of all gateways.
pub fn lacks(notes: &MemberNotes) -> u64 {
    let of = notes.values().filter(|note| note.progress.state != GatewayState::Forgotten);
    of.map(|note| note.progress.lacks).sum()
}

/// What is said of how long journals have room for what waits, by their ends at two moments and
/// the most that one holds, in bytes.
pub fn room(
    (before, now): (&BTreeMap<String, MemberNotes>, &BTreeMap<String, MemberNotes>),
    between: Duration,
    max_size: u64,
) -> Vec<String> {
    let end = |notes: &BTreeMap<String, MemberNotes>, gateway: &GatewayId| {
        let of = notes.values().filter_map(|notes| notes.get(gateway));
        of.map(|note| note.progress.end).max()
    };
    let words = gateways(now).into_iter().filter_map(|gateway| {
        let grown = end(now, gateway)?.saturating_sub(end(before, gateway)?);
        let rate = grown as f64 / between.as_secs_f64().max(0.001);
        let lasts = max_size as f64 / rate;
        let (host, each, max) = (host(now, gateway), bytes(rate as u64), bytes(max_size));
        (grown > 0).then(|| {
            let lasts = seconds(lasts);
            format!("the journal of {host} grows by {each} a second: {max} last about {lasts}")
        })
    });
    words.collect()
}

/// The gateways that take part.
fn gateways(notes: &BTreeMap<String, MemberNotes>) -> BTreeSet<&GatewayId> {
    let is_forgotten = |gateway: &GatewayId| {
        let mut of = notes.values().filter_map(|notes| notes.get(gateway));
        of.any(|note| note.progress.state == GatewayState::Forgotten)
    };
    let all = notes.values().flat_map(MemberNotes::keys);
    all.filter(|gateway| !is_forgotten(gateway)).collect()
}

fn host<'a>(notes: &'a BTreeMap<String, MemberNotes>, gateway: &GatewayId) -> &'a str {
    let mut of = notes.values().filter_map(|notes| notes.get(gateway));
    of.next().map_or("", |note: &Note| note.host.as_str())
}
