//! The threads that write, join and remove files.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::Store;
use super::troubles::Work;
use crate::archive::RewriteError;
use crate::compaction;
use crate::file::Names;
use crate::partition::Partitions;
use crate::predicate::TagPredicate;

/// How often the thread looks whether there is something to do.
const PERIOD: Duration = Duration::from_millis(200);
/// How long it leaves the disk alone after it failed.
const PAUSE_AFTER_ERROR: Duration = Duration::from_secs(5);
/// How long nothing must have been applied before files are joined that are worth it only then.
const IDLE_AFTER: Duration = Duration::from_secs(60);
/// How long nothing must have been applied before what is in memory is written, though there is
/// room for more: queries read files faster.
const RESTED_AFTER: Duration = Duration::from_secs(5);
/// How often retention is looked after.
const RETENTION_PERIOD: Duration = Duration::from_secs(60);

/// The threads, and how they are told.
#[derive(Debug, Default)]
pub(super) struct Background {
    threads: Mutex<Vec<JoinHandle<()>>>,
    wake: Arc<Wake>,
    /// Whether files are to be removed that nothing else would make a flush for.
    flush_wanted: AtomicBool,
    /// Whether what was acknowledged before the start is still being applied.
    replaying: AtomicBool,
}

#[derive(Debug, Default)]
struct Wake {
    over: AtomicBool,
    asked: Mutex<bool>,
    changed: Condvar,
}

/// What a thread does until the store has gone.
type Loop = fn(&Weak<Store>, &Wake);

impl Background {
    /// Starts a thread that writes files and one that joins them: a long join never keeps memory
    /// from being written.
    pub(super) fn start(&self, store: &Arc<Store>) -> std::io::Result<()> {
        let loops: [(&str, Loop); 2] =
            [("store-flush", flush_loop), ("store-compact", compaction_loop)];
        for (name, run) in loops {
            let (store, wake) = (Arc::downgrade(store), Arc::clone(&self.wake));
            let thread = std::thread::Builder::new().name(name.to_owned());
            let thread = thread.spawn(move || run(&store, &wake))?;
            self.threads.lock().unwrap_or_else(PoisonError::into_inner).push(thread);
        }
        Ok(())
    }

    /// Has the thread look at once.
    pub(super) fn wake(&self) {
        *self.wake.asked.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.wake.changed.notify_all();
    }

    /// Asks for a flush though memory is not full.
    pub(super) fn want_flush(&self) {
        self.flush_wanted.store(true, Ordering::Relaxed);
    }

    /// Whether a flush was asked for that has not begun.
    pub(super) fn is_flush_wanted(&self) -> bool {
        self.flush_wanted.load(Ordering::Relaxed)
    }

    /// A flush begins: it does what was asked for.
    pub(super) fn begin_flush(&self) {
        self.flush_wanted.store(false, Ordering::Relaxed);
    }

    /// Says whether what was acknowledged before the start is being applied.
    pub(super) fn set_replaying(&self, replaying: bool) {
        self.replaying.store(replaying, Ordering::Relaxed);
    }

    /// Whether files may be joined: not while a start applies what the journal has.
    pub(super) fn may_join(&self) -> bool {
        !self.replaying.load(Ordering::Relaxed)
    }

    pub(super) fn is_over(&self) -> bool {
        self.wake.is_over()
    }

    pub(super) fn stop(&self) {
        self.wake.over.store(true, Ordering::Release);
        self.wake();
        let threads =
            std::mem::take(&mut *self.threads.lock().unwrap_or_else(PoisonError::into_inner));
        for thread in threads {
            if thread.thread().id() != std::thread::current().id() {
                // It ends by itself after what it is doing; a panic in it has been logged.
                let _ = thread.join();
            }
        }
    }
}

impl Wake {
    fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }

    /// Waits until it is asked, or over, or `most` has passed; whether to go on.
    fn wait(&self, most: Duration, until_asked: bool) -> bool {
        let asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        let goes_on = |asked: &mut bool| !(self.is_over() || until_asked && *asked);
        let waited = self.changed.wait_timeout_while(asked, most, goes_on);
        let mut asked = waited.unwrap_or_else(PoisonError::into_inner).0;
        *asked &= !until_asked;
        !self.is_over()
    }
}

fn flush_loop(store: &Weak<Store>, wake: &Wake) {
    let mut flushed = Instant::now();
    let mut retained: Option<Instant> = None;
    let (mut applied, mut since) = (0, Instant::now());
    while wake.wait(PERIOD, true) {
        let Some(store) = store.upgrade() else { return };
        if store.progress.is_all_filed() {
            flushed = Instant::now();
        }
        if applied != store.applied() {
            (applied, since) = (store.applied(), Instant::now());
        }
        let mut failed = false;
        let is_old = flushed.elapsed() >= store.settings.flush_interval.get();
        let rests = since.elapsed() >= RESTED_AFTER && store.memory.is_worth_a_file();
        if store.flush_due() || is_old || rests {
            failed |= report(Work::Flush, &store.flush());
            flushed = Instant::now();
        }
        if retained.is_none_or(|at| at.elapsed() >= RETENTION_PERIOD) {
            retained = Some(Instant::now());
            let dropped = store.drop_expired(now_ns());
            store.troubles.note(Work::Retention, &dropped);
            failed |= report(Work::Retention, &dropped);
        }
        drop(store);
        if failed && !wake.wait(PAUSE_AFTER_ERROR, false) {
            return;
        }
    }
}

fn compaction_loop(store: &Weak<Store>, wake: &Wake) {
    let mut pause = PERIOD;
    let (mut applied, mut since) = (0, Instant::now());
    while wake.wait(pause, false) {
        let Some(store) = store.upgrade() else { return };
        if applied != store.applied() {
            (applied, since) = (store.applied(), Instant::now());
        }
        let idle = since.elapsed() >= IDLE_AFTER;
        pause = if store.compact_once(idle) { PAUSE_AFTER_ERROR } else { PERIOD };
    }
}

fn report<T, E: std::fmt::Display>(work: Work, result: &Result<T, E>) -> bool {
    if let Err(error) = result {
        let what = work.name();
        tracing::error!(what, %error, "the store's files could not be changed; will try again");
    }
    result.is_err()
}

fn now_ns() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}

impl Store {
    /// Looks after files that were found damaged, and joins some, if that is worth it and nothing
    /// is being replayed. Whether something failed.
    fn compact_once(&self, thorough: bool) -> bool {
        let mut outcome = self.look_after_damage();
        outcome = outcome.and(self.archive.take_acceptance().map(drop).map_err(Into::into));
        let names = |policy: u64| self.names_of(policy);
        let next = || compaction::next(&self.archive, &names, thorough);
        if let Some(job) = self.background.may_join().then(next).flatten() {
            outcome = outcome.and(job.run().map(drop));
        }
        self.take_version();
        self.troubles.note(Work::Compaction, &outcome);
        report(Work::Compaction, &outcome)
    }

    /// Joins files until none is worth it: also two are joined, and what was deleted is taken out.
    ///
    /// # Errors
    /// When a file can't be read or written; the store is as it was then.
    pub fn compact(&self) -> Result<(), RewriteError> {
        let names = |policy: u64| self.names_of(policy);
        while let Some(job) = compaction::next(&self.archive, &names, true) {
            job.run()?;
            self.take_version();
        }
        Ok(())
    }

    fn names_of(&self, policy: u64) -> Option<Arc<dyn Names>> {
        Some(self.lock().policies.get(&policy)?.names())
    }

    /// Finds out what is lost of files that were found damaged, so that answers say it: snapshots
    /// taken behind it read around that.
    ///
    /// # Errors
    /// When what was found can't be written down.
    pub fn look_after_damage(&self) -> Result<(), RewriteError> {
        let outcome = self.archive.repair(&|policy| self.names_of(policy)).map(drop);
        self.take_version();
        outcome
    }

    /// Lets snapshots see the files as they are now.
    fn take_version(&self) {
        let mut state = self.lock();
        state.version = self.archive.version();
    }

    /// Drops the partitions whose points are all older than their policy keeps them.
    ///
    /// # Errors
    /// When the manifest can't be written; nothing is dropped then.
    pub fn drop_expired(&self, now_ns: i64) -> Result<usize, crate::manifest::ManifestError> {
        let mut state = self.lock();
        let catalogue = Arc::clone(&state.catalogue);
        let mut expired = Vec::new();
        for (ids, policy) in catalogue.policies().filter(|(_, policy)| policy.duration_ns > 0) {
            let oldest = now_ns.saturating_sub(policy.duration_ns);
            let partitions = Partitions::new(policy.partition_ns);
            if let Some(files) = state.version.manifest.policies.get(&ids.policy) {
                let old = files.files.iter().filter(|file| file.partition.max < oldest);
                expired.extend(old.map(|file| (ids.policy, file.number)));
            }
            let Some(data) = state.policy_mut(ids) else { continue };
            for of in &mut data.measurements {
                let is_old = |start: &i64| partitions.last(*start) < oldest;
                if of.live.keys().chain(of.frozen.keys()).any(is_old) {
                    let of = Arc::make_mut(of);
                    of.live.retain(|start, _| !is_old(start));
                    of.frozen.retain(|start, _| !is_old(start));
                }
            }
        }
        drop(state);
        if !expired.is_empty() {
            let touched: HashSet<u64> = expired.iter().map(|(policy, _)| *policy).collect();
            self.archive.change(|manifest| {
                for (policy, number) in &expired {
                    if let Some(entry) = manifest.policies.get_mut(policy) {
                        entry.drop_file(*number);
                    }
                }
            })?;
            self.take_version();
            for policy in touched {
                self.forget_series_without_points(policy);
            }
        }
        Ok(expired.len())
    }

    /// Takes series out of the index that have no point left.
    fn forget_series_without_points(&self, policy: u64) {
        let state = self.lock().clone();
        let Some(data) = state.policies.get(&policy) else { return };
        let index = data.index.read().unwrap_or_else(PoisonError::into_inner);
        let all: Vec<(Arc<str>, u32)> =
            index.names().map(|(name, number)| (Arc::clone(name), number)).collect();
        drop(index);
        for (name, number) in all {
            let index = data.index.read().unwrap_or_else(PoisonError::into_inner);
            let ids = index.matching(number, data.series_bound, &TagPredicate::All);
            drop(index);
            let gone = data.without_points(&state.version, number, &name, ids);
            if gone.is_empty() {
                continue;
            }
            // What was written since is in memtables. The applier comes first, as it does when it
            // applies.
            let mut applier = self.applier.lock().unwrap_or_else(PoisonError::into_inner);
            let mut now = self.lock();
            let Some(data) = now.policy_mut(data.ids) else { return };
            let gone = data.without_rows(number, gone);
            let mut index = data.index.write().unwrap_or_else(PoisonError::into_inner);
            if index.remove(number, &gone).is_some() {
                drop(index);
                data.forget_measurement(number);
                self.claims.drop_stored(policy, &name);
            }
            applier.forget();
        }
    }
}
