//! The housekeeping thread: persists cursors, gives segments free, makes the next one ready.
//! Everything that may wait for the file system's own log happens here, never on the journal
//! thread.

pub(crate) mod prepare;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::cursors::Cursors;
use crate::cursors::persist::DeferredAccounts;
use crate::log::Log;
use crate::owners::Owners;

/// How often cursors are persisted at most, and everything else is looked at.
const TICK: Duration = Duration::from_millis(100);
/// How many ticks without a group until memory kept for speed is given back.
const IDLE_TICKS: u32 = 20;
struct Housekeeper {
    owners: Owners,
    deferred: DeferredAccounts,
    persisted_at: Option<Instant>,
    sampled: Option<(Instant, u64, u64)>,
    groups: u64,
    idle_ticks: u32,
}

/// Works until `stop` is set, and then persists the cursors a last time.
pub(crate) fn run(owners: &Owners, stop: &AtomicBool) {
    let Owners { log, cursors, .. } = owners;
    log.housekeeping().attach();
    let mut housekeeper = Housekeeper {
        owners: owners.clone(),
        deferred: DeferredAccounts::new(),
        persisted_at: None,
        sampled: None,
        groups: 0,
        idle_ticks: 0,
    };
    loop {
        let stopping = stop.load(Ordering::Acquire);
        if log.gate().poisoned().is_none() {
            housekeeper.persist(stopping);
            let _membership = cursors.membership();
            retire(log, cursors);
            if !stopping {
                prepare::next(owners);
            }
        }
        if stopping {
            return;
        }
        housekeeper.sample();
        housekeeper.rest();
        std::thread::park_timeout(TICK);
    }
}

impl Housekeeper {
    /// Writes the cursors that have changed, unless that was a moment ago and nobody waits.
    fn persist(&mut self, now: bool) {
        let urgent = self.owners.cursors.is_persisting_urgent();
        let recent = self.persisted_at.is_some_and(|at| at.elapsed() < TICK / 2);
        if recent && !urgent && !now {
            return;
        }
        self.persisted_at = Some(Instant::now());
        let due = self.owners.cursors.due(&mut self.deferred);
        if !self.deferred.is_empty() {
            self.owners.log.syncer().wake();
        }
        for account in due {
            if let Err(error) = self.owners.cursors.persist(&account) {
                if error.is_failed_sync() || !error.is_full() {
                    self.owners.poison(&error.to_string());
                }
                return;
            }
        }
    }

    /// Keeps the moving averages of what comes in and of what cannot be given free.
    fn sample(&mut self) {
        let appended = self.owners.log.metrics().bytes.get();
        let held = self.owners.cursors.backlog_bytes();
        let now = Instant::now();
        if let Some((then, appended_then, held_then)) = self.sampled {
            let seconds = now.duration_since(then).as_secs_f64();
            if seconds < TICK.as_secs_f64() / 2.0 {
                return;
            }
            let appended_now = (appended as f64 - appended_then as f64) / seconds;
            let growth_now = (held as f64 - held_then as f64) / seconds;
            self.owners.log.note_rates(appended_now, growth_now);
        }
        self.sampled = Some((now, appended, held));
    }

    /// Gives memory back when nothing has come for a while.
    fn rest(&mut self) {
        let groups = self.owners.log.metrics().groups.get();
        self.idle_ticks = if groups == self.groups { self.idle_ticks.saturating_add(1) } else { 0 };
        self.groups = groups;
        if self.idle_ticks == IDLE_TICKS {
            self.owners.acks.shrink();
        }
        self.owners.acks.forget_abandoned();
    }
}

/// Gives free the segments that every persisted cursor has passed. The newest with groups always
/// stays: it says how the journal's counts go on.
fn retire(log: &Log, cursors: &Cursors) {
    if let Some(passed) = cursors.persisted_end()
        && let Err(error) = log.free_up_to(passed)
    {
        tracing::warn!(%error, "a segment that is done with could not be given free");
    }
}
