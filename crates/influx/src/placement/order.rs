//! When a statement that takes points away may run: once all gateways have brought everything that
//! they had accepted before it. Pure.

use std::collections::{BTreeMap, BTreeSet};

use super::note::{GatewayId, GatewayState, MemberNotes, Note};

/// So many notes are written until one surely was begun after the statement came: one may be on its
/// way then.
const NOTES_AFTER: u64 = 2;

/// A statement that waits for the gateways of a cluster.
#[derive(Debug)]
pub struct StatementOrder {
    /// The gateway that has the statement, which knows its own deliveries.
    own: Option<GatewayId>,
    /// What was noted when the statement came.
    before: BTreeMap<String, MemberNotes>,
    /// Where the journal of a gateway ended after the statement came.
    ends: BTreeMap<GatewayId, u64>,
}

impl StatementOrder {
    /// Of a statement that has come while these are the members' notes.
    pub fn new(own: Option<GatewayId>, before: BTreeMap<String, MemberNotes>) -> Self {
        Self { own, before, ends: BTreeMap::new() }
    }

    /// Looks at newer notes; gives what is still waited for, in words.
    pub fn look(&mut self, now: &BTreeMap<String, MemberNotes>) -> Vec<String> {
        let gateways: BTreeSet<&GatewayId> = now.values().flat_map(MemberNotes::keys).collect();
        let others = gateways.into_iter().filter(|id| Some(*id) != self.own.as_ref());
        let others: Vec<GatewayId> = others.cloned().collect();
        others.iter().filter_map(|gateway| self.awaited(gateway, now)).collect()
    }

    fn awaited(
        &mut self,
        gateway: &GatewayId,
        now: &BTreeMap<String, MemberNotes>,
    ) -> Option<String> {
        let notes = || now.iter().map(|(member, notes)| (member, notes.get(gateway)));
        let known = || notes().filter_map(|(_, note)| note);
        if known().any(|note| note.progress.state == GatewayState::Forgotten) {
            return None;
        }
        let host = known().next().map_or("", |note| note.host.as_str());
        let name = format!("gateway {gateway} on {host}");
        if notes().all(|(_, note)| note.is_some_and(is_at_rest)) {
            return None;
        }
        let after = notes().filter(|(member, note)| self.is_after(gateway, member, *note));
        let after = after.filter_map(|(_, note)| Some(note?.progress.end)).min();
        let end = match (self.ends.get(gateway), after) {
            (Some(end), _) => *end,
            (None, Some(end)) => *self.ends.entry(gateway.clone()).or_insert(end),
            (None, None) => return Some(format!("{name}, which writes no notes")),
        };
        let behind =
            notes().filter(|(_, note)| note.is_none_or(|note| note.progress.position < end));
        let behind: Vec<&str> = behind.map(|(member, _)| member.as_str()).collect();
        match behind.is_empty() {
            true => None,
            false => Some(format!("{name}, which has points for {}", behind.join(", "))),
        }
    }

    /// Whether a gateway has begun a note after the statement came.
    fn is_after(&self, gateway: &GatewayId, member: &str, note: Option<&Note>) -> bool {
        let Some(note) = note else { return false };
        match self.before.get(member).and_then(|notes| notes.get(gateway)) {
            Some(before) if before.run == note.run => note.count >= before.count + NOTES_AFTER,
            _ => note.count >= NOTES_AFTER,
        }
    }
}

/// Whether a gateway has ended, with nothing left to bring.
fn is_at_rest(note: &Note) -> bool {
    note.progress.state == GatewayState::Ended && note.progress.is_whole()
}
