//! The thread that writes, joins and removes files.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::Store;
use crate::compaction;
use crate::file::Names;
use crate::partition::Partitions;

/// How often the thread looks whether there is something to do.
const PERIOD: Duration = Duration::from_millis(200);
/// How long it leaves the disk alone after it failed.
const PAUSE_AFTER_ERROR: Duration = Duration::from_secs(5);
/// How often retention is looked after.
const RETENTION_PERIOD: Duration = Duration::from_secs(60);

/// The thread, and how it is told.
#[derive(Debug, Default)]
pub(super) struct Background {
    thread: Mutex<Option<JoinHandle<()>>>,
    wake: Arc<Wake>,
}

#[derive(Debug, Default)]
struct Wake {
    over: AtomicBool,
    asked: Mutex<bool>,
    changed: Condvar,
}

impl Background {
    pub(super) fn start(&self, store: &Arc<Store>) -> std::io::Result<()> {
        let (store, wake) = (Arc::downgrade(store), Arc::clone(&self.wake));
        let name = "store-files".to_owned();
        let thread = std::thread::Builder::new().name(name).spawn(move || run(&store, &wake))?;
        *self.thread.lock().unwrap_or_else(PoisonError::into_inner) = Some(thread);
        Ok(())
    }

    /// Has the thread look at once.
    pub(super) fn wake(&self) {
        *self.wake.asked.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.wake.changed.notify_all();
    }

    pub(super) fn is_over(&self) -> bool {
        self.wake.over.load(Ordering::Acquire)
    }

    pub(super) fn stop(&self) {
        self.wake.over.store(true, Ordering::Release);
        self.wake();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread.filter(|of| of.thread().id() != std::thread::current().id()) {
            // It ends by itself after what it is doing; a panic in it has been logged.
            let _ = thread.join();
        }
    }
}

fn run(store: &Weak<Store>, wake: &Wake) {
    let mut flushed = Instant::now();
    let mut retained: Option<Instant> = None;
    loop {
        let asked = wake.asked.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = wake.changed.wait_timeout_while(asked, PERIOD, |asked| !*asked);
        *waited.unwrap_or_else(PoisonError::into_inner).0 = false;
        let Some(store) = store.upgrade().filter(|_| !wake.over.load(Ordering::Acquire)) else {
            return;
        };
        if store.applied() == store.position() {
            flushed = Instant::now();
        }
        let mut failed = false;
        if store.flush_due() || flushed.elapsed() >= store.settings.flush_interval.get() {
            failed |= report("flush", store.flush().map(drop));
            flushed = Instant::now();
        }
        if retained.is_none_or(|at| at.elapsed() >= RETENTION_PERIOD) {
            retained = Some(Instant::now());
            failed |= report("retention", store.drop_expired(now_ns()).map(drop));
        }
        failed |= store.compact_once();
        drop(store);
        if failed {
            let asked = wake.asked.lock().unwrap_or_else(PoisonError::into_inner);
            let over = |_: &mut bool| !wake.over.load(Ordering::Acquire);
            drop(wake.changed.wait_timeout_while(asked, PAUSE_AFTER_ERROR, over));
        }
    }
}

fn report<E: std::fmt::Display>(what: &'static str, result: Result<(), E>) -> bool {
    if let Err(error) = &result {
        tracing::error!(what, %error, "the store's files could not be changed; will try again");
    }
    result.is_err()
}

fn now_ns() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}

impl Store {
    /// Joins files, if there are some worth it, and looks after those that were found damaged.
    /// Whether something failed.
    fn compact_once(&self) -> bool {
        let names = |policy: u64| -> Option<Arc<dyn Names>> {
            Some(self.lock().policies.get(&policy)?.names())
        };
        let mut failed = report("repair", self.archive.repair(&names).map(drop));
        if let Some(job) = compaction::next(&self.archive, &names, false) {
            failed |= report("compaction", job.run().map(drop));
        }
        self.take_version();
        failed
    }

    /// Joins files until none is worth it: also two are joined, and what was deleted is taken out.
    ///
    /// # Errors
    /// When a file can't be read or written; the store is as it was then.
    pub fn compact(&self) -> Result<(), compaction::CompactionError> {
        let names = |policy: u64| -> Option<Arc<dyn Names>> {
            Some(self.lock().policies.get(&policy)?.names())
        };
        while let Some(job) = compaction::next(&self.archive, &names, true) {
            job.run()?;
            self.take_version();
        }
        Ok(())
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
            self.archive.change(|manifest| {
                for (policy, number) in &expired {
                    if let Some(entry) = manifest.policies.get_mut(policy) {
                        entry.files.retain(|file| file.number != *number);
                    }
                }
            })?;
            self.take_version();
        }
        Ok(expired.len())
    }
}
