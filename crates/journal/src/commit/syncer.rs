//! Syncs in the background what `written` and `memory` have acknowledged before, so that no
//! acknowledgement waits for a sync, however slow.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::cursors::ledger::Ends;
use crate::owners::Owners;

/// Works until `stop` is set, and then syncs a last time.
pub(crate) fn run(owners: &Owners, stop: &AtomicBool) {
    let log = &owners.log;
    log.syncer().attach();
    loop {
        let stopping = stop.load(Ordering::Acquire);
        if log.gate().poisoned().is_none() {
            flush(owners);
        }
        if stopping {
            return;
        }
        std::thread::park_timeout(log.settings().flush_interval.get());
    }
}

/// Syncs everything released up to now. A failure poisons the journal.
pub(crate) fn flush(owners: &Owners) {
    let Ends { released: target, synced, .. } = owners.cursors.ends();
    if target <= synced {
        return;
    }
    // Called after the target was read: everything up to it is in one of its segments.
    if let Err(error) = owners.log.flush() {
        owners.poison(&error.to_string());
        return;
    }
    owners.cursors.note_synced(target);
    owners.log.housekeeping().wake();
}
