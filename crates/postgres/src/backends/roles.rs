//! Which backend is the primary, by what each says of itself.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use serde::Serialize;

use super::Facts;
use crate::settings::{Role, TwoPrimaries};

/// What is known of a backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sight {
    /// Nobody has asked it yet.
    Unasked,
    /// It does not answer.
    Down,
    /// The server's answer about itself.
    Up(Facts),
}

/// A backend as the decision sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ObservedBackend {
    /// What it may be.
    pub role: Role,
    /// What the last poll found.
    pub sight: Sight,
}

/// What a backend is taken for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
#[repr(u8)]
pub enum BackendState {
    /// It has not been asked yet.
    #[default]
    Unknown = 0,
    /// It does not answer.
    Down = 1,
    /// It is the one that takes writes.
    Primary = 2,
    /// It takes reads, where it is new enough.
    Replica = 3,
    /// One of several that say they are the primary. It gets nothing.
    Rival = 4,
    /// It says that it is a primary and should be none. It gets nothing.
    Misplaced = 5,
    /// Its data is another cluster's. It gets nothing.
    Foreign = 6,
}

impl BackendState {
    /// As it is shown.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Down => "down",
            Self::Primary => "primary",
            Self::Replica => "replica",
            Self::Rival => "rival",
            Self::Misplaced => "misplaced",
            Self::Foreign => "foreign",
        }
    }

    /// Of a number in an atomic.
    pub(super) const fn of(number: u8) -> Self {
        match number {
            1 => Self::Down,
            2 => Self::Primary,
            3 => Self::Replica,
            4 => Self::Rival,
            5 => Self::Misplaced,
            6 => Self::Foreign,
            _ => Self::Unknown,
        }
    }

    /// Whether statements may go there.
    pub const fn is_of_use(self) -> bool {
        matches!(self, Self::Primary | Self::Replica)
    }
}

impl fmt::Display for BackendState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Why nothing can be written now.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoPrimary {
    /// Not every backend has been asked yet.
    #[error("the servers have not all been asked for their roles yet")]
    Starting,
    /// None says that it is the primary.
    #[error("no server is the primary now: all are down, or replicas; promote one of them")]
    None,
    /// More than one says so.
    #[error("{} all say that they are the primary; stop all but one", .0.join(", "))]
    Several(
        /// The names of these backends.
        Arc<[String]>,
    ),
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// The cluster that the backends are of, once that is known.
    pub system: Option<u64>,
    /// What each is taken for.
    pub standings: Vec<BackendState>,
    /// The places of the primary, or of those that all say so.
    pub primaries: Vec<usize>,
    /// Whether some have not been asked yet.
    pub is_starting: bool,
}

impl Decision {
    /// The one primary's place.
    pub fn primary(&self) -> Option<usize> {
        match self.primaries.as_slice() {
            [one] if !self.is_starting => Some(*one),
            _ => None,
        }
    }
}

/// Decides. `system` is the cluster that was decided on before.
pub fn decide(seen: &[ObservedBackend], rule: TwoPrimaries, system: Option<u64>) -> Decision {
    let is_starting = seen.iter().any(|one| one.sight == Sight::Unasked);
    let system = cluster(seen, system, is_starting);
    let mut standings: Vec<_> = seen.iter().map(|one| alone(one, system)).collect();
    let mut primaries = places(&standings, BackendState::Primary);
    if primaries.len() > 1
        && rule == TwoPrimaries::HigherTimeline
        && let Some(newest) = newest(seen, &primaries)
    {
        for place in primaries.drain(..).filter(|place| *place != newest) {
            standings[place] = BackendState::Misplaced;
        }
        primaries.push(newest);
    }
    if primaries.len() > 1 {
        primaries.iter().for_each(|place| standings[*place] = BackendState::Rival);
    }
    Decision { system, standings, primaries, is_starting }
}

fn places(standings: &[BackendState], wanted: BackendState) -> Vec<usize> {
    (0..standings.len()).filter(|place| standings[*place] == wanted).collect()
}

/// What a backend is as if there were no others.
fn alone(seen: &ObservedBackend, system: Option<u64>) -> BackendState {
    let facts = match seen.sight {
        Sight::Unasked => return BackendState::Unknown,
        Sight::Down => return BackendState::Down,
        Sight::Up(facts) => facts,
    };
    let foreign = facts.system.zip(system).is_some_and(|(its, ours)| its != ours);
    match (facts.in_recovery, seen.role) {
        _ if foreign => BackendState::Foreign,
        (true, _) => BackendState::Replica,
        (false, Role::Replica) => BackendState::Misplaced,
        (false, Role::Auto | Role::Primary) => BackendState::Primary,
    }
}

/// The one that was promoted last; `None` where two are on the same timeline.
fn newest(seen: &[ObservedBackend], primaries: &[usize]) -> Option<usize> {
    let timeline = |place: &usize| match seen[*place].sight {
        Sight::Up(facts) => facts.timeline,
        Sight::Unasked | Sight::Down => None,
    };
    let newest = primaries.iter().copied().max_by_key(timeline)?;
    let highest = timeline(&newest)?;
    let alone = primaries.iter().filter(|place| timeline(place) == Some(highest)).count() == 1;
    alone.then_some(newest)
}

/// Which cluster the backends are of: once decided it stays, unless every backend answers and none
/// is of it, as after all have been set up anew. Were it to change earlier, a server of another
/// cluster could get the writes while the right ones are down.
fn cluster(seen: &[ObservedBackend], known: Option<u64>, is_starting: bool) -> Option<u64> {
    let all_up = seen.iter().all(|one| matches!(one.sight, Sight::Up(_)));
    let systems = || {
        seen.iter().filter_map(|one| match one.sight {
            Sight::Up(facts) => facts.system.map(|system| (one, facts, system)),
            Sight::Unasked | Sight::Down => None,
        })
    };
    if known.is_some_and(|known| !all_up || systems().any(|(.., system)| system == known)) {
        return known;
    }
    if is_starting {
        return None;
    }
    // The one that most are of; then a configured primary's, a primary's, the first in the file.
    let mut votes: HashMap<u64, (usize, bool, bool)> = HashMap::new();
    for (one, facts, system) in systems() {
        let vote = votes.entry(system).or_default();
        vote.0 += 1;
        vote.1 |= one.role == Role::Primary;
        vote.2 |= !facts.in_recovery;
    }
    let most = votes.values().max()?;
    systems().map(|(.., system)| system).find(|system| votes.get(system) == Some(most))
}
