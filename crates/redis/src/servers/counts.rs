//! What a worker counts of each server, from when it was asked first.

use std::cell::RefCell;
use std::fmt;

use flow::service::Unanswered;

use crate::fleet::View;
use crate::metrics::errors::Kind;
use crate::metrics::times::{ServerTimes, Times};
use crate::named;

/// What a worker counts of the servers of a pool.
pub(super) struct Counts {
    times: Times,
    /// By the servers' numbers, each with which of those it is that have had this number.
    servers: RefCell<Vec<Option<(u64, ServerTimes)>>>,
}

impl Counts {
    pub(super) fn new(times: Times) -> Self {
        Self { times, servers: RefCell::default() }
    }

    /// Counts something of a server.
    #[inline]
    pub(super) fn of(&self, server: usize, view: &View, what: impl FnOnce(&ServerTimes)) {
        if let Some(Some((_, times))) = self.servers.borrow().get(server) {
            return what(times);
        }
        self.begin(server, view);
        if let Some(Some((_, times))) = self.servers.borrow().get(server) {
            what(times);
        }
    }

    #[cold]
    fn begin(&self, server: usize, view: &View) {
        let Some(node) = view.nodes.get(server) else { return };
        let times = self.times.of_one_thread(&node.server.name, named::numbers());
        let mut servers = self.servers.borrow_mut();
        if servers.len() <= server {
            servers.resize_with(server + 1, || None);
        }
        servers[server] = Some((node.incarnation, times));
    }

    /// The servers are others now.
    pub(super) fn are_others(&self, view: &View) {
        for (server, times) in self.servers.borrow_mut().iter_mut().enumerate() {
            times.take_if(|(of, _)| view.incarnation(server) != Some(*of));
        }
    }
}

impl fmt::Debug for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Counts").finish_non_exhaustive()
    }
}

/// What is counted of a request that a server has not answered.
pub(super) fn kind_of<E>(why: &Unanswered<E>) -> Option<(usize, Kind)> {
    match why {
        Unanswered::Unreachable { server, .. } => Some((*server, Kind::UNREACHABLE)),
        Unanswered::NotSent { server }
        | Unanswered::Overtaken { server }
        | Unanswered::NoLease { server }
        | Unanswered::LeaseLost { server } => Some((*server, Kind::NOT_SENT)),
        Unanswered::MayHaveRun { server } => Some((*server, Kind::MAY_HAVE_RUN)),
        Unanswered::Late { server, .. } => Some((*server, Kind::LATE)),
        Unanswered::Cancelled
        | Unanswered::Killed
        | Unanswered::Draining
        | Unanswered::TooMuchWaits
        | Unanswered::TooLarge
        | Unanswered::PartsTooLarge
        | Unanswered::OutOfMemory => None,
    }
}
