//! All backends together: what each one's last word means for it and for the others. Pure.

use std::time::Duration;

use super::history::{History, Lag, Sample};
use super::roles::{Decision, ObservedBackend, Sight, decide};
use super::{BackendState, Facts, Moment};
use crate::settings::{Role, TwoPrimaries};

/// When a replica is too far behind, and what two primaries mean.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Rules {
    pub(super) two_primaries: TwoPrimaries,
    /// Zero is without limit.
    pub(super) lag_max: Duration,
    /// Zero is without limit.
    pub(super) lag_bytes_max: u64,
}

impl Rules {
    /// Whether a replica is too far behind: over the limit, and then until under half of it, so
    /// that it does not come and go.
    fn is_behind(&self, lag: Lag, was: bool) -> bool {
        let half = if was { 2 } else { 1 };
        let by_time = !self.lag_max.is_zero() && lag.time * half > self.lag_max;
        let by_bytes =
            self.lag_bytes_max > 0 && lag.bytes.saturating_mul(half.into()) > self.lag_bytes_max;
        by_time || by_bytes
    }
}

/// What came of asking a backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Noted {
    /// The server's answer about itself.
    Up(Facts),
    /// It does not answer, or not to the point.
    Down,
    /// It has no room or no time for Weir's question, but runs, or the connection has ended and
    /// the next one is not there yet. It is taken for what it was; only what it has replayed is
    /// not known any more, since it may have been restarted.
    Unsure,
}

/// A backend in the picture.
#[derive(Debug, Clone)]
pub(super) struct Member {
    pub(super) id: usize,
    pub(super) role: Role,
    pub(super) sight: Sight,
    pub(super) standing: BackendState,
    /// The highest timeline seen since it is up. A replica never goes back, and what it receives
    /// is no longer told once its primary is gone.
    pub(super) timeline: Option<u32>,
    /// As a replica: as of when it has everything.
    pub(super) caught_up: Moment,
    /// As a replica, where there is something to compare with.
    pub(super) lag: Option<Lag>,
    /// As a replica: over the limit.
    pub(super) is_behind: bool,
    /// As a replica: it follows another primary, or has not found the new one yet.
    pub(super) is_astray: bool,
    /// Nothing has been heard since [`Noted::Unsure`].
    is_unsure: bool,
}

impl Member {
    pub(super) fn new(id: usize, role: Role) -> Self {
        Self {
            id,
            role,
            sight: Sight::Unasked,
            standing: BackendState::Unknown,
            timeline: None,
            caught_up: Moment::NEVER,
            lag: None,
            is_behind: false,
            is_astray: false,
            is_unsure: false,
        }
    }

    /// Whether it takes reads as a replica.
    pub(super) fn takes_reads(&self) -> bool {
        self.standing == BackendState::Replica && !self.is_behind && !self.is_astray
    }

    fn see(&mut self, noted: Noted) {
        match noted {
            Noted::Up(facts) => {
                let highest = self.timeline.max(facts.timeline);
                self.timeline = if facts.in_recovery { highest } else { facts.timeline };
                self.sight = Sight::Up(facts);
                self.is_unsure = false;
            }
            // Restarted, a replica may for a while show less than it has shown before.
            Noted::Unsure if matches!(self.sight, Sight::Up(_)) => {
                self.is_unsure = true;
                self.timeline = None;
            }
            Noted::Down | Noted::Unsure => {
                let Self { id, role, .. } = *self;
                *self = Self { sight: Sight::Down, ..Self::new(id, role) };
            }
        }
    }
}

/// All backends, each as its last poll found it.
#[derive(Debug, Default)]
pub(super) struct Picture {
    pub(super) rules: Rules,
    pub(super) members: Vec<Member>,
    pub(super) decision: Option<Decision>,
    /// Whose samples the history has: the primary's id and timeline.
    line: Option<(usize, Option<u32>)>,
    history: History,
}

impl Picture {
    /// Other backends or rules; what is known of those that stay is kept.
    pub(super) fn replace(&mut self, rules: Rules, members: &[(usize, Role)]) {
        let mut former = std::mem::take(&mut self.members);
        self.rules = rules;
        self.members = members
            .iter()
            .map(|&(id, role)| match former.iter().position(|member| member.id == id) {
                Some(place) => Member { role, ..former.swap_remove(place) },
                None => Member::new(id, role),
            })
            .collect();
        self.judge();
    }

    /// The primary's index among the members.
    pub(super) fn primary(&self) -> Option<usize> {
        self.decision.as_ref()?.primary()
    }

    /// The timeline that replicas must be on.
    pub(super) fn timeline(&self) -> Option<u32> {
        self.line?.1
    }

    /// Takes in what came of asking the backend `id`; `at` is a time from before it was asked.
    pub(super) fn note(&mut self, id: usize, noted: Noted, at: Moment) {
        let Some(place) = self.members.iter().position(|member| member.id == id) else { return };
        self.members[place].see(noted);
        self.judge();
        if self.primary() == Some(place)
            && let Noted::Up(Facts { position, .. }) = noted
        {
            self.history.push(Sample { at, position });
        }
        self.measure();
    }

    fn judge(&mut self) {
        let system = self.decision.as_ref().and_then(|decision| decision.system);
        let seen = |member: &Member| ObservedBackend { role: member.role, sight: member.sight };
        let seen: Vec<ObservedBackend> = self.members.iter().map(seen).collect();
        let decision = decide(&seen, self.rules.two_primaries, system);
        for (member, standing) in self.members.iter_mut().zip(&decision.standings) {
            member.standing = *standing;
        }
        if let Some(primary) = decision.primary().map(|place| &self.members[place]) {
            let line = Some((primary.id, primary.timeline));
            if self.line != line && !primary.is_unsure {
                // Positions of another timeline say nothing about this one's.
                self.history.clear();
                self.members.iter_mut().for_each(|member| member.caught_up = Moment::NEVER);
                self.line = line;
            }
        }
        self.decision = Some(decision);
        self.measure();
    }

    fn measure(&mut self) {
        let ours = self.timeline();
        for member in &mut self.members {
            let facts = match member.sight {
                Sight::Up(facts) if member.standing == BackendState::Replica => facts,
                _ => {
                    member.lag = None;
                    (member.is_behind, member.is_astray) = (false, false);
                    member.caught_up = Moment::NEVER;
                    continue;
                }
            };
            // Where a server does not tell its timeline, nothing better can be known.
            member.is_astray = ours.zip(member.timeline).is_some_and(|(ours, its)| ours != its);
            if member.is_astray || member.is_unsure {
                member.lag = None;
                member.caught_up = Moment::NEVER;
                continue;
            }
            let caught_up = self.history.caught_up(facts.position).unwrap_or_default();
            member.caught_up = member.caught_up.max(caught_up);
            member.lag = self.history.lag(facts.position, facts.replayed_age);
            let rules = self.rules;
            member.is_behind = member.lag.is_some_and(|lag| rules.is_behind(lag, member.is_behind));
        }
    }
}
