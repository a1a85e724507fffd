//! The three owners of what the threads and handles of one journal share.
//!
//! Locks, in the order in which they are taken. No owner calls another one with a lock of its own
//! held, but for the two marked cases.
//!
//! 1. `Cursors`: its membership, which the housekeeping holds over whatever it does to segments;
//!    then its cursor files. The ledger is locked within single methods; *a new cursor asks the log
//!    for its oldest group meanwhile*.
//! 2. `Log`: its segments; *the journal thread that waits for one wakes those who wait in queues
//!    meanwhile*. Segments to be synced, and rates, are locked alone.
//! 3. `Acks`: its list of queues, their open buffers in the order of the list. Waiters are locked
//!    alone.
//! 4. The pool of buffers.

use std::sync::Arc;

use crate::acks::Acks;
use crate::cursors::Cursors;
use crate::log::Log;

/// What the journal's own threads work on. Handles have those owners that they need.
#[derive(Debug, Clone)]
pub(crate) struct Owners {
    pub log: Arc<Log>,
    pub acks: Arc<Acks>,
    pub cursors: Arc<Cursors>,
}

impl Owners {
    /// Ends all acknowledgements for ever.
    pub fn poison(&self, reason: &str) {
        if !self.log.gate().poison(reason.to_owned()) {
            return;
        }
        tracing::error!(
            reason,
            dir = %self.log.dir().display(),
            "the journal is poisoned: nothing is acknowledged any more; check the disk and restart"
        );
        self.log.announce();
        self.acks.writer().wake();
        self.acks.wake_all();
        self.cursors.wake_waiting();
    }

    /// Says that the journal thread has ended.
    pub fn finish(&self) {
        self.acks.stop();
        self.cursors.finish();
    }
}
