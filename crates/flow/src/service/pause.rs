//! Holding back what clients ask, as while a server is started again.

use std::time::Instant;

use super::asking::Pending;
use super::{Client, Fabric, Service};

/// What is held back. What is under way already goes on to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pause {
    /// Only what may change something.
    pub writes_only: bool,
    /// Until when; `None`: until it is ended.
    pub until: Option<Instant>,
}

impl Pause {
    /// Both at once, as a server has it: neither lets by what the other holds back, nor ends it.
    fn and(self, other: Self) -> Self {
        Self {
            writes_only: self.writes_only && other.writes_only,
            until: self.until.zip(other.until).map(|(one, other)| one.max(other)),
        }
    }
}

impl<S: Service> Fabric<S> {
    /// Holds back what clients ask from now on; `None` ends that. What waits is not late: its time
    /// begins when the pause ends.
    pub fn pause(&self, pause: Option<Pause>) {
        let now = Instant::now();
        let holds = |of: &Pause| of.until.is_none_or(|until| until > now);
        let before = self.paused.get();
        let pause = match (before.filter(holds), pause) {
            (Some(before), Some(pause)) => Some(before.and(pause)),
            (_, pause) => pause,
        };
        self.paused.set(pause);
        if before.is_some() && pause.is_none() {
            self.resumed.set(Some(now));
        }
        if before != pause {
            self.all_clients().iter().for_each(|client| client.wake());
        }
    }

    /// What is held back now.
    pub fn paused(&self) -> Option<Pause> {
        self.paused.get()
    }

    /// Ends a pause that is over.
    pub(super) fn look_at_pause(&self, now: Instant) {
        let until = self.paused.get().and_then(|pause| pause.until);
        if until.is_some_and(|until| until <= now) {
            self.pause(None);
        }
    }

    /// When the clock of a request begins that came at this moment.
    pub(super) fn waits_since(&self, came: Instant) -> Instant {
        self.resumed.get().map_or(came, |resumed| resumed.max(came))
    }
}

impl<S: Service> Client<S> {
    /// Whether a request is held back by a pause.
    pub(super) fn is_paused_for(&self, what: &Pending) -> bool {
        let Some(pause) = self.fabric.paused() else { return false };
        match what {
            Pending::Ask { request, .. } => !pause.writes_only || request.effect.changes(),
            Pending::Begin { .. } => true,
            Pending::Hold { .. } => !pause.writes_only,
            Pending::Free { .. } | Pending::Apart { .. } => false,
        }
    }
}
