//! Syncs in the background what `written` and `memory` have acknowledged before, so that no
//! acknowledgement waits for a sync, however slow.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use crate::core::Core;
use crate::cursors::ledger::Ends;
use crate::threads::lock;

/// Works until `stop` is set, and then syncs a last time.
pub(crate) fn run(core: &Arc<Core>, stop: &AtomicBool) {
    core.syncer.attach();
    loop {
        let stopping = stop.load(Ordering::Acquire);
        if core.gate.poisoned().is_none() {
            flush(core);
        }
        if stopping {
            return;
        }
        std::thread::park_timeout(core.settings.flush_interval.get());
    }
}

/// Syncs everything released up to now. A failure poisons the journal.
pub(crate) fn flush(core: &Core) {
    let Ends { released: target, synced, .. } = core.cursors.ends();
    if target <= synced {
        return;
    }
    // Read after the target: everything up to it is in one of these.
    let segments = lock(&core.unsynced).clone();
    for segment in &segments {
        let began = Instant::now();
        if let Err(error) = core.flushes.run(|| core.disk.sync(&segment.file)) {
            core.poison(&format!("could not sync {}: {error}", segment.path.display()));
            return;
        }
        core.metrics.sync.observe(began.elapsed());
    }
    // The last one is still written to; those before it are complete and synced.
    if let Some(last) = segments.last() {
        lock(&core.unsynced).retain(|segment| segment.base >= last.base);
    }
    core.cursors.note_synced(target);
    core.housekeeping.wake();
}
