//! Which of Weir's connections a master counts among its replicas: the link, and one that a base
//! is taken by.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// How many there are of one master.
#[derive(Debug, Default)]
pub struct Joins(Arc<AtomicU64>);

/// One of them, for as long as this is there.
#[derive(Debug)]
pub struct ReplicaConnection(Arc<AtomicU64>);

impl Joins {
    /// One more is about to ask the master for its stream, which makes it a replica.
    pub fn one(&self) -> ReplicaConnection {
        self.0.fetch_add(1, Ordering::Relaxed);
        ReplicaConnection(Arc::clone(&self.0))
    }

    /// How many there are now.
    pub fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Drop for ReplicaConnection {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::Joins;

    #[test]
    fn each_is_counted_for_as_long_as_it_is_there() {
        let joins = Joins::default();
        let (link, base) = (joins.one(), joins.one());
        assert_eq!(joins.count(), 2);
        drop(base);
        assert_eq!(joins.count(), 1);
        drop(link);
        assert_eq!(joins.count(), 0);
    }
}
