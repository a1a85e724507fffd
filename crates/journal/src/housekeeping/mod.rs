//! The housekeeping thread: persists cursors, gives segments free, makes the next one ready.
//! Everything that may wait for the file system's own log happens here, never on the journal
//! thread.

pub(crate) mod prepare;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::core::Core;
use crate::format::cursor::Account;
use crate::threads::lock;

/// How often cursors are persisted at most, and everything else is looked at.
const TICK: Duration = Duration::from_millis(100);
/// How many ticks without a group until memory kept for speed is given back.
const IDLE_TICKS: u32 = 20;
/// The weight of a new rate in the moving average: about ten seconds of memory.
const RATE_WEIGHT: f64 = 0.01;

/// An account that waits for the records before it to be synced.
struct Deferred {
    account: Account,
    change: u64,
}

struct Housekeeper {
    core: Arc<Core>,
    deferred: HashMap<String, Deferred>,
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
        deferred: HashMap::new(),
        persisted_at: None,
        sampled: None,
        groups: 0,
        idle_ticks: 0,
    };
    loop {
        let stopping = stop.load(Ordering::Acquire);
        if core.gate.poisoned().is_none() {
            housekeeper.persist(stopping);
            let _chores = lock(&core.chores);
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
        let urgent = lock(&self.core.ledger).cursors.values().any(|c| c.urgent);
        let recent = self.persisted_at.is_some_and(|at| at.elapsed() < TICK / 2);
        if recent && !urgent && !now {
            return;
        }
        self.persisted_at = Some(Instant::now());
        for (name, account, change) in self.due() {
            if !self.write(&name, &account, change) {
                return;
            }
        }
    }

    /// The accounts that may be written: changed, and not past the synced end. One that is past
    /// it is kept as it was, since under load a newer one would be past it for ever.
    fn due(&mut self) -> Vec<(String, Account, u64)> {
        let mut due = Vec::new();
        let mut ledger = lock(&self.core.ledger);
        let synced_end = ledger.synced_end;
        for (name, cursor) in &mut ledger.cursors {
            if cursor.changes == cursor.persisted {
                continue;
            }
            let deferred = self.deferred.remove(name);
            // One from before `drop-oldest` moved the cursor would move it back.
            let deferred = deferred.filter(|deferred| deferred.change > cursor.persisted);
            let deferred = deferred.unwrap_or_else(|| Deferred {
                account: cursor.account.clone(),
                change: cursor.changes,
            });
            if deferred.account.position <= synced_end {
                due.push((name.clone(), deferred.account, deferred.change));
            } else {
                self.deferred.insert(name.clone(), deferred);
            }
        }
        let known = |name: &String, _: &mut Deferred| ledger.cursors.contains_key(name);
        self.deferred.retain(known);
        if !self.deferred.is_empty() {
            self.core.syncer.wake();
        }
        due
    }

    fn write(&self, name: &str, account: &Account, change: u64) -> bool {
        let mut files = lock(&self.core.cursor_files);
        let Some((_, file)) = files.iter_mut().find(|(known, _)| known == name) else {
            return true;
        };
        if let Err(error) = file.write(&self.core.disk, account) {
            if error.is_failed_sync() || !error.is_full() {
                self.core.poison(&error.to_string());
            }
            return false;
        }
        drop(files);
        let mut ledger = lock(&self.core.ledger);
        if let Some(cursor) = ledger.cursors.get_mut(name) {
            cursor.persisted = change;
            cursor.persisted_position = account.position;
            cursor.urgent &= cursor.changes != change;
        }
        drop(ledger);
        self.core.persisted.notify_waiters();
        true
    }

    /// Keeps the moving averages of what comes in and of what cannot be given free.
    fn sample(&mut self) {
        let appended = self.core.metrics.bytes.get();
        let ledger = lock(&self.core.ledger);
        let waiting = ledger.cursors.values().map(|c| ledger.counts - c.account.counts);
        let held = waiting.map(|counts| counts.bytes).max().unwrap_or(0);
        drop(ledger);
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
    let ledger = lock(&core.ledger);
    let passed = ledger.cursors.values().map(|c| c.persisted_position).min();
    drop(ledger);
    let Some(passed) = passed else {
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
