//! How much memory there may be for something.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

/// How often it is looked whether memory can be given back to the system.
const GIVE_BACK_LOOK: Duration = Duration::from_secs(5);
/// After how many bytes that is worth it.
const GIVE_BACK_MIN: u64 = 64 << 20;

/// Memory for one purpose, shared by all workers. Clones share the same memory.
#[derive(Clone, Debug)]
pub struct Memory(Arc<Count>);

#[derive(Debug)]
struct Count {
    used: AtomicUsize,
    max: AtomicUsize,
    passed: AtomicU64,
}

impl Count {
    fn pass(&self, bytes: usize) {
        self.passed.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}

impl Memory {
    /// At most `max` bytes at a time.
    pub fn new(max: usize) -> Self {
        let (used, max, passed) = (AtomicUsize::new(0), AtomicUsize::new(max), AtomicU64::new(0));
        Self(Arc::new(Count { used, max, passed }))
    }

    /// A share of so many bytes, or `None` where there are not as many left.
    pub fn take(&self, bytes: usize) -> Option<MemoryShare> {
        let mut share = self.none();
        share.grow(bytes).then_some(share)
    }

    /// A share of so many bytes, whether there are as many left or not: for what is to be finished
    /// because nothing would be freed otherwise.
    pub fn take_at_all_events(&self, bytes: usize) -> MemoryShare {
        self.0.used.fetch_add(bytes, Ordering::Relaxed);
        self.0.pass(bytes);
        MemoryShare { of: self.clone(), bytes }
    }

    /// A share of nothing yet.
    pub fn none(&self) -> MemoryShare {
        MemoryShare { of: self.clone(), bytes: 0 }
    }

    /// Bytes that are taken.
    pub fn used(&self) -> usize {
        self.0.used.load(Ordering::Relaxed)
    }

    /// Bytes that were ever taken.
    pub fn passed(&self) -> u64 {
        self.0.passed.load(Ordering::Relaxed)
    }

    /// Changes how many bytes there may be; shares that are out stay out.
    pub fn set_max(&self, max: usize) {
        self.0.max.store(max, Ordering::Relaxed);
    }
}

/// Gives memory back to the system that these have used, whenever they are not used; else the C
/// library keeps it. Never ends.
pub async fn give_back(memories: Vec<Memory>) {
    let mut given_back = 0;
    loop {
        tokio::time::sleep(GIVE_BACK_LOOK).await;
        let passed = memories.iter().map(Memory::passed).sum::<u64>();
        let is_quiet = memories.iter().all(|memory| memory.used() == 0);
        if is_quiet && passed - given_back >= GIVE_BACK_MIN {
            given_back = passed;
            let _ = tokio::task::spawn_blocking(sched::heap::give_back).await;
        }
    }
}

/// A share of [`Memory`], given back when this goes.
#[derive(Debug)]
#[must_use = "the share is given back when this goes"]
pub struct MemoryShare {
    of: Memory,
    bytes: usize,
}

impl MemoryShare {
    /// Another share of the same memory, of so many bytes, or `None` where there are not as many.
    pub fn other(&self, bytes: usize) -> Option<Self> {
        self.of.take(bytes)
    }

    /// Bytes of this share.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Takes so many bytes more; whether there were as many left.
    pub fn grow(&mut self, bytes: usize) -> bool {
        let count = &self.of.0;
        let max = count.max.load(Ordering::Relaxed);
        let more = |used: usize| used.checked_add(bytes).filter(|used| *used <= max);
        let grown = count.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok();
        if grown {
            self.bytes += bytes;
            count.pass(bytes);
        }
        grown
    }

    /// Gives back all but so many bytes.
    pub fn shrink_to(&mut self, bytes: usize) {
        let back = self.bytes.saturating_sub(bytes);
        self.bytes -= back;
        self.of.0.used.fetch_sub(back, Ordering::Relaxed);
    }
}

impl Drop for MemoryShare {
    fn drop(&mut self) {
        self.shrink_to(0);
    }
}

#[cfg(test)]
mod tests {
    use super::Memory;

    #[test]
    fn no_more_than_there_is_and_all_of_it_comes_back() {
        let memory = Memory::new(100);
        let mut first = memory.take(60).unwrap();
        assert!(memory.take(41).is_none());
        assert!(!first.grow(41) && first.grow(40));
        first.shrink_to(10);
        let over = memory.take_at_all_events(200);
        assert!(memory.take(1).is_none());
        assert_eq!(memory.used(), 210);
        drop(over);
        memory.set_max(10);
        assert!(!first.grow(1) && !first.grow(usize::MAX));
        drop(first);
        assert_eq!((memory.used(), memory.passed()), (0, 300));
        assert!(memory.take(10).is_some());
    }

    #[test]
    fn threads_never_take_more_than_there_is() {
        let memory = Memory::new(300);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..10_000 {
                        let _share = memory.take(100);
                        assert!(memory.used() <= 300);
                    }
                });
            }
        });
        assert_eq!(memory.used(), 0);
    }
}
