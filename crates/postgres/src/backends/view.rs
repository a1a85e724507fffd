//! The backends as statements are sent to them: what a worker looks at for each.

use std::cell::Cell;
use std::sync::Arc;

use super::choose::{Candidate, choose};
use super::{Backend, LastWrite, NoPrimary};
use crate::settings::{Consistency, Route, Spread};

/// Who takes what at the moment. It never changes: there is another one instead.
#[derive(Debug, Clone)]
pub struct View {
    pub(super) backends: Vec<Arc<Backend>>,
    pub(super) primary: Result<Arc<Backend>, NoPrimary>,
    /// Replicas that take reads.
    pub(super) readers: Vec<Arc<Backend>>,
    pub(super) reads_on_primary: bool,
    pub(super) spread: Spread,
}

/// What a read asks of the backend that takes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ask {
    /// When the session's last write ended.
    pub after: LastWrite,
    /// How new it must be.
    pub consistency: Consistency,
    /// Where the session wants it.
    pub route: Route,
}

impl View {
    /// All backends, as in the file.
    pub fn backends(&self) -> &[Arc<Backend>] {
        &self.backends
    }

    /// The one that takes writes.
    ///
    /// # Errors
    /// There is none, or more than one says so.
    pub fn primary(&self) -> Result<&Arc<Backend>, NoPrimary> {
        self.primary.as_ref().map_err(NoPrimary::clone)
    }

    /// Among how many servers the reads are spread that this backend takes.
    pub fn readers_beside(&self, backend: &Backend) -> usize {
        let is_it = |one: &Arc<Backend>| one.number() == backend.number();
        let also = self.primary.as_ref().ok().filter(|_| self.reads_on_primary);
        match self.readers.iter().chain(also).any(is_it) {
            true => self.readers.len() + usize::from(also.is_some()),
            false => 1,
        }
    }

    /// The one that takes a read. `in_flight` is how many statements this worker has in flight at
    /// a backend.
    ///
    /// The primary takes it where it must be asked, or may be and no replica can; with
    /// `Route::Replica` it never does, and a replica that is not new enough is better than none.
    pub fn reader(&self, ask: Ask, in_flight: impl Fn(&Backend) -> usize) -> Option<&Arc<Backend>> {
        let primary = self.primary.as_ref().ok();
        let Ask { after, consistency, route } = ask;
        let by_replica = match (route, consistency) {
            (Route::Primary, _) | (Route::Auto, Consistency::Primary) => return primary,
            (Route::Replica, _) => true,
            (Route::Auto, _) => false,
        };
        let is_new = |backend: &Backend| {
            consistency != Consistency::Session || after.is_seen_as_of(backend.caught_up())
        };
        // One for both looks: by twos, every other candidate would be passed over.
        let turn = turn();
        let also = primary.filter(|_| self.reads_on_primary && !by_replica);
        match (self.choose(turn, also, is_new, &in_flight), by_replica) {
            (Some(found), _) => Some(found),
            (None, false) => primary,
            (None, true) => self.choose(turn, None, |_| true, &in_flight),
        }
    }

    /// Among the replicas that are new enough and `also`.
    fn choose<'a>(
        &'a self,
        turn: u32,
        also: Option<&'a Arc<Backend>>,
        is_new: impl Fn(&Backend) -> bool,
        in_flight: &impl Fn(&Backend) -> usize,
    ) -> Option<&'a Arc<Backend>> {
        let at = |place: usize| self.readers.get(place).or(also);
        let candidate = |place: usize| {
            let backend = at(place)?;
            let is_primary = place >= self.readers.len();
            let able = is_primary || (is_new(backend) && backend.takes_connections());
            able.then(|| Candidate {
                in_flight: in_flight(backend),
                weight: backend.weight(),
                round_trip_us: backend.round_trip_us(),
            })
        };
        let count = self.readers.len() + usize::from(also.is_some());
        choose(self.spread, turn, count, candidate).and_then(at)
    }
}

/// Another number each time, counted by each thread for itself.
fn turn() -> u32 {
    thread_local!(static TURN: Cell<u32> = const { Cell::new(0) });
    TURN.with(|turn| {
        turn.set(turn.get().wrapping_add(1));
        turn.get()
    })
}
