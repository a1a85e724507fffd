//! How many there may be of something.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A number of permits shared by all workers. Clones share the same permits.
#[derive(Clone, Debug)]
pub struct Limit(Arc<Count>);

#[derive(Debug)]
struct Count {
    used: AtomicUsize,
    max: AtomicUsize,
}

impl Limit {
    /// At most `max` permits at a time.
    pub fn new(max: usize) -> Self {
        Self(Arc::new(Count { used: AtomicUsize::new(0), max: AtomicUsize::new(max) }))
    }

    /// A permit, or `None` at the limit.
    pub fn take(&self) -> Option<Permit> {
        let max = self.max();
        let more = |used| (used < max).then_some(used + 1);
        let taken = self.0.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        taken.is_ok().then(|| Permit(Arc::clone(&self.0)))
    }

    /// How many permits are out.
    pub fn used(&self) -> usize {
        self.0.used.load(Ordering::Relaxed)
    }

    /// How many there may be.
    pub fn max(&self) -> usize {
        self.0.max.load(Ordering::Relaxed)
    }

    /// Changes how many there may be; permits that are out stay out.
    pub fn set_max(&self, max: usize) {
        self.0.max.store(max, Ordering::Relaxed);
    }
}

/// One of a [`Limit`]'s permits, given back when this goes.
#[derive(Debug)]
pub struct Permit(Arc<Count>);

impl Drop for Permit {
    fn drop(&mut self) {
        self.0.used.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::Limit;

    #[test]
    fn no_more_than_the_limit_and_each_comes_back() {
        let limit = Limit::new(2);
        let first = limit.take().unwrap();
        let second = limit.clone().take().unwrap();
        assert!(limit.take().is_none());
        limit.set_max(1);
        drop(first);
        assert!(limit.take().is_none());
        drop(second);
        assert_eq!(limit.used(), 0);
        assert!(limit.take().is_some());
    }

    #[test]
    fn threads_never_take_more_than_there_are() {
        let limit = Limit::new(3);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..10_000 {
                        let _permit = limit.take();
                        assert!(limit.used() <= 3);
                    }
                });
            }
        });
        assert_eq!(limit.used(), 0);
    }
}
