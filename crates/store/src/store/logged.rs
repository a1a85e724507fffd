//! Which series are in the logs of their policies, and how many are not yet.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::series_log::SeriesMark;

/// How far a log of series reaches.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Reach {
    /// Series below are in it.
    pub(super) bound: u32,
    /// How much of it counts.
    pub(super) mark: SeriesMark,
}

/// How far the log of series of each policy reaches.
#[derive(Debug, Default)]
pub(super) struct LoggedSeries {
    reaches: Mutex<HashMap<u64, Reach>>,
    /// Series that are in no log yet.
    new: AtomicU64,
}

impl LoggedSeries {
    /// What a start has found.
    pub(super) fn found(reaches: HashMap<u64, Reach>) -> Self {
        Self { reaches: Mutex::new(reaches), new: AtomicU64::new(0) }
    }

    /// How far the log of a policy reaches; nowhere where there is none.
    pub(super) fn reach(&self, policy: u64) -> Reach {
        let reaches = self.reaches.lock().unwrap_or_else(PoisonError::into_inner);
        reaches.get(&policy).copied().unwrap_or_default()
    }

    /// How many series are in no log yet.
    pub(super) fn new_series(&self) -> u64 {
        self.new.load(Ordering::Relaxed)
    }

    /// Notes series that were made.
    pub(super) fn add_new(&self, series: u32) {
        self.new.fetch_add(u64::from(series), Ordering::Relaxed);
    }

    /// Notes logs that have grown, by policy, and counts anew: `bounds` are those of the series
    /// that each policy has.
    pub(super) fn note(
        &self,
        grown: impl Iterator<Item = (u64, Reach)>,
        bounds: impl Iterator<Item = (u64, u32)>,
    ) {
        let mut reaches = self.reaches.lock().unwrap_or_else(PoisonError::into_inner);
        reaches.extend(grown);
        let new = bounds.map(|(policy, bound)| {
            let logged = reaches.get(&policy).map_or(0, |reach| reach.bound);
            u64::from(bound.saturating_sub(logged))
        });
        self.new.store(new.sum(), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn series_that_no_log_has_are_counted() {
        let reach = |bound| Reach { bound, ..Reach::default() };
        let logged = LoggedSeries::found(HashMap::from([(1, reach(10))]));
        assert_eq!((logged.reach(1).bound, logged.reach(2).bound), (10, 0));
        logged.add_new(3);
        logged.add_new(2);
        assert_eq!(logged.new_series(), 5);
        let bounds = [(1, 13), (2, 2)];
        logged.note([(1, reach(12))].into_iter(), bounds.into_iter());
        assert_eq!(logged.new_series(), 3, "one of policy 1, two of policy 2");
        logged.note([(2, reach(2))].into_iter(), bounds.into_iter());
        assert_eq!((logged.new_series(), logged.reach(2).bound), (1, 2));
    }
}
