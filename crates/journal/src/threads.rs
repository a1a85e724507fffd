//! What the journal's threads wait for and are woken by.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::Thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Locks a mutex. A panic of another thread is no reason to stop: nothing behind these locks is
/// left half changed, because nothing between locking and unlocking can panic.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The wall clock, in nanoseconds since 1970.
pub(crate) fn now_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
}

/// Wakes one thread, and costs nothing while that thread is at work.
#[derive(Debug, Default)]
pub(crate) struct Bell {
    asleep: AtomicBool,
    thread: OnceLock<Thread>,
}

impl Bell {
    /// Called by the thread that is to be woken, before it sleeps for the first time.
    pub fn attach(&self) {
        let _ = self.thread.set(std::thread::current());
    }

    /// Wakes the thread if it sleeps, or keeps it from falling asleep.
    pub fn ring(&self) {
        if self.asleep.load(Ordering::SeqCst) && self.asleep.swap(false, Ordering::SeqCst) {
            self.wake();
        }
    }

    /// Wakes the thread, or makes its next sleep end at once; for what is rare.
    pub fn wake(&self) {
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
    }

    /// Sleeps until rung or for `at_most`, unless there is something to do: what `awake` looks
    /// at is behind a lock that those who ring hold before ringing.
    pub fn sleep(&self, at_most: Option<Duration>, awake: impl FnOnce() -> bool) {
        self.asleep.store(true, Ordering::SeqCst);
        if !awake() {
            match at_most {
                Some(at_most) => std::thread::park_timeout(at_most),
                None => std::thread::park(),
            }
        }
        self.asleep.store(false, Ordering::SeqCst);
    }
}

/// How often the background has begun to sync the segments, and how often it was done.
#[derive(Debug, Default)]
pub(crate) struct Flushes {
    begun: AtomicU64,
    done: AtomicU64,
}

impl Flushes {
    /// Counts a flush as begun, runs it, and counts it as done.
    pub fn run<R>(&self, flush: impl FnOnce() -> R) -> R {
        self.begun.fetch_add(1, Ordering::SeqCst);
        let result = flush();
        self.done.fetch_add(1, Ordering::SeqCst);
        result
    }

    /// How many have begun, and whether one is under way.
    pub fn look(&self) -> (u64, bool) {
        let done = self.done.load(Ordering::SeqCst);
        let begun = self.begun.load(Ordering::SeqCst);
        (begun, begun != done)
    }
}
