//! How far the members of a set lag behind each other, by the notes of all gateways. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::note::{GatewayId, GatewayState, MemberNotes, Progress};
use crate::settings::SetSettings;

/// How much less a member has than the best of its set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Lag {
    /// Whether a gateway has never reached it, so that nobody knows what it lacks.
    pub is_unknown: bool,
    /// How long ago it was like the best, by the clock of the gateway that it lags most for.
    pub behind: Duration,
    /// Points that it will never be given and that others of the set have.
    pub lacks: u64,
}

/// The lag of each member of a set that has notes.
pub fn lags(set: &SetSettings, notes: &BTreeMap<String, MemberNotes>) -> BTreeMap<String, Lag> {
    let members = || set.members.iter().filter_map(|name| Some((name, notes.get(name)?)));
    let mut lags: BTreeMap<String, Lag> =
        members().map(|(name, _)| (name.clone(), Lag::default())).collect();
    let gateways: BTreeSet<&GatewayId> = members().flat_map(|(_, notes)| notes.keys()).collect();
    for gateway in gateways {
        let of = |notes: &MemberNotes| {
            let Progress { state, whole_until, lacks, .. } = notes.get(gateway)?.progress;
            (state != GatewayState::Forgotten).then_some((whole_until, lacks))
        };
        let known = || members().filter_map(|(_, notes)| of(notes));
        let Some(best) = known().map(|(until, _)| until).max() else { continue };
        let least = known().map(|(_, lacks)| lacks).min().unwrap_or_default();
        for (name, notes) in members() {
            let lag = lags.entry(name.clone()).or_default();
            let Some((until, lacks)) = of(notes) else {
                lag.is_unknown = true;
                continue;
            };
            lag.behind = lag.behind.max(best.saturating_sub(until));
            lag.lacks = lag.lacks.saturating_add(lacks.saturating_sub(least));
        }
    }
    lags
}
