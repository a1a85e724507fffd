//! How much is in memory only, and what waits until there is room again.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use crate::settings::MEMORY_BOUND_FACTOR;

/// How often a writer that waits for room looks by itself.
const ROOM_PERIOD: Duration = Duration::from_millis(50);
/// The share of the bound that is worth a file once nothing is being applied.
const WORTH_A_FILE: u64 = 8;

/// The account of the bytes of memtables, about.
#[derive(Debug)]
pub(super) struct MemoryAccount {
    /// Bytes of filling memtables at which they are written as files.
    bound: u64,
    filling: AtomicU64,
    /// Of memtables that are being written.
    frozen: AtomicU64,
    /// Told when memory has been written, or can't be.
    room: Condvar,
    waiting: Mutex<()>,
}

impl MemoryAccount {
    /// Nothing is in memory; a flush is due at `bound` bytes.
    pub(super) fn new(bound: u64) -> Self {
        Self {
            bound,
            filling: AtomicU64::new(0),
            frozen: AtomicU64::new(0),
            room: Condvar::new(),
            waiting: Mutex::default(),
        }
    }

    /// Notes that memtables have grown.
    #[inline]
    pub(super) fn add(&self, bytes: u64) {
        self.filling.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Makes what is filling what is being written; returns its bytes.
    pub(super) fn freeze(&self) -> u64 {
        let bytes = self.filling.swap(0, Ordering::Relaxed);
        self.frozen.store(bytes, Ordering::Relaxed);
        bytes
    }

    /// What was frozen is in files: whoever waits has room.
    pub(super) fn free_frozen(&self) {
        self.frozen.store(0, Ordering::Relaxed);
        self.wake_waiting();
    }

    /// Has those look who wait for room.
    pub(super) fn wake_waiting(&self) {
        self.room.notify_all();
    }

    /// Bytes of memtables, those that fill and those that are being written.
    pub(super) fn bytes(&self) -> u64 {
        self.filling.load(Ordering::Relaxed) + self.frozen.load(Ordering::Relaxed)
    }

    /// Whether so much is filling that it is to be written.
    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.filling.load(Ordering::Relaxed) >= self.bound
    }

    /// Whether so much is filling that it is written while there is nothing else to do.
    pub(super) fn is_worth_a_file(&self) -> bool {
        self.filling.load(Ordering::Relaxed) >= self.bound / WORTH_A_FILE
    }

    /// Whether nothing more should come before something is written.
    pub(super) fn is_over_full(&self) -> bool {
        self.bytes() >= self.bound * MEMORY_BOUND_FACTOR
    }

    /// Waits while there is no room and `has_hope` says that there will be.
    pub(super) fn wait_for_room(&self, has_hope: impl Fn() -> bool) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        while has_hope() && self.is_over_full() {
            let waited = self.room.wait_timeout(waiting, ROOM_PERIOD);
            waiting = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;

    #[test]
    fn what_is_frozen_counts_until_it_is_in_files() {
        let memory = MemoryAccount::new(80);
        memory.add(9);
        assert!(!memory.is_worth_a_file() && !memory.is_full());
        memory.add(1);
        assert!(memory.is_worth_a_file() && !memory.is_full());
        memory.add(70);
        assert!(memory.is_full() && !memory.is_over_full());
        assert_eq!(memory.freeze(), 80);
        assert!(!memory.is_full() && !memory.is_worth_a_file(), "what fills now is new");
        assert_eq!(memory.bytes(), 80);
        memory.add(80 * (MEMORY_BOUND_FACTOR - 1));
        assert!(memory.is_over_full());
        memory.free_frozen();
        assert!(!memory.is_over_full());
        assert_eq!(memory.bytes(), 80 * (MEMORY_BOUND_FACTOR - 1));
    }

    #[test]
    fn a_writer_waits_for_room_and_no_longer_than_there_is_hope() {
        let memory = MemoryAccount::new(80);
        memory.add(80 * MEMORY_BOUND_FACTOR);
        memory.wait_for_room(|| false);
        memory.freeze();
        let (asked, hopeless) = (AtomicBool::new(false), AtomicBool::new(false));
        let wait = || {
            memory.wait_for_room(|| {
                asked.store(true, Ordering::Release);
                !hopeless.load(Ordering::Acquire)
            });
        };
        let until_asked = || {
            while !asked.load(Ordering::Acquire) {
                std::thread::yield_now();
            }
        };
        std::thread::scope(|scope| {
            let waiting = scope.spawn(wait);
            until_asked();
            assert!(!waiting.is_finished(), "there is no room yet");
            memory.free_frozen();
            assert!(waiting.join().is_ok());
        });
        memory.add(80 * MEMORY_BOUND_FACTOR);
        asked.store(false, Ordering::Release);
        std::thread::scope(|scope| {
            let waiting = scope.spawn(wait);
            until_asked();
            hopeless.store(true, Ordering::Release);
            memory.wake_waiting();
            assert!(waiting.join().is_ok());
        });
    }
}
