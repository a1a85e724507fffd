//! The housekeeping thread: persists cursors, gives segments free, makes the next one ready.
//! Everything that may wait for the file system's own log happens here, never on the journal
//! thread.

pub(crate) mod prepare;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::core::Core;
use crate::cursors::DeferredAccounts;
use crate::threads::lock;

/// How often cursors are persisted at most, and everything else is looked at.
const TICK: Duration = Duration::from_millis(100);
/// How many ticks without a group until memory kept for speed is given back.
const IDLE_TICKS: u32 = 20;
/// The weight of a new rate in the moving average: about ten seconds of memory.
const RATE_WEIGHT: f64 = 0.01;

struct Housekeeper {
    core: Arc<Core>,
    deferred: DeferredAccounts,
    persisted_at: Option<Instant>,
    sampled: Option<(Instant, u64, u64)>,
    groups: u64,
    idle_ticks: u32,
}

/// Works until `stop` is set, and then persists the cursors a last time.
pub(crate) fn run(core: &Arc<Core>, stop: &AtomicBool) {
    core.housekeeping.attach();
    let mut housekeeper = Housekeeper {
        core: core.clone(),
        deferred: DeferredAccounts::new(),
        persisted_at: None,
        sampled: None,
        groups: 0,
        idle_ticks: 0,
    };
    loop {
        let stopping = stop.load(Ordering::Acquire);
        if core.gate.poisoned().is_none() {
            housekeeper.persist(stopping);
            let _membership = core.cursors.membership();
            retire(core);
            if !stopping {
                prepare::next(core);
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
        let urgent = self.core.cursors.is_persisting_urgent();
        let recent = self.persisted_at.is_some_and(|at| at.elapsed() < TICK / 2);
        if recent && !urgent && !now {
            return;
        }
        self.persisted_at = Some(Instant::now());
        let due = self.core.cursors.due(&mut self.deferred);
        if !self.deferred.is_empty() {
            self.core.syncer.wake();
        }
        for account in due {
            if let Err(error) = self.core.cursors.persist(&account) {
                if error.is_failed_sync() || !error.is_full() {
                    self.core.poison(&error.to_string());
                }
                return;
            }
        }
    }

    /// Keeps the moving averages of what comes in and of what cannot be given free.
    fn sample(&mut self) {
        let appended = self.core.metrics.bytes.get();
        let held = self.core.cursors.summary().backlog_bytes;
        let now = Instant::now();
        if let Some((then, appended_then, held_then)) = self.sampled {
            let seconds = now.duration_since(then).as_secs_f64();
            if seconds < TICK.as_secs_f64() / 2.0 {
                return;
            }
            let mut rates = lock(&self.core.rates);
            let appended_now = (appended as f64 - appended_then as f64) / seconds;
            let growth_now = (held as f64 - held_then as f64) / seconds;
            rates.appended += RATE_WEIGHT * (appended_now - rates.appended);
            rates.growth += RATE_WEIGHT * (growth_now - rates.growth);
        }
        self.sampled = Some((now, appended, held));
    }

    /// Gives memory back when nothing has come for a while.
    fn rest(&mut self) {
        let groups = self.core.metrics.groups.get();
        self.idle_ticks = if groups == self.groups { self.idle_ticks.saturating_add(1) } else { 0 };
        self.groups = groups;
        if self.idle_ticks == IDLE_TICKS {
            self.core.acks.shrink();
        }
        self.core.acks.forget_abandoned();
    }
}

/// Gives free the segments that every persisted cursor has passed. The newest with groups always
/// stays: it says how the journal's counts go on.
pub(crate) fn retire(core: &Core) {
    let Some(passed) = core.cursors.persisted_end() else {
        return;
    };
    loop {
        let files = core.segments.files();
        let Some((&base, _)) = files.segments.first_key_value() else {
            return;
        };
        if files.data_end(base).is_none_or(|end| passed < end) {
            return;
        }
        drop(files);
        if let Err(error) = prepare::free(core, base) {
            tracing::warn!(%error, "a segment that is done with could not be given free");
            return;
        }
    }
}
