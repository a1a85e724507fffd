//! How long a command takes, in buckets that double, as `LATENCY HISTOGRAM` has them.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// From a microsecond to a minute.
pub const COUNT: usize = 27;

/// Upper bounds in nanoseconds, inclusive. They are those of a server, whose histogram of two
/// digits ends each bucket a little behind the power of two.
const BOUNDS: [u64; COUNT] = bounds();

const fn bounds() -> [u64; COUNT] {
    let mut bounds = [0; COUNT];
    let mut at = 0;
    while at < COUNT {
        bounds[at] = (1024 << at) + (8 << at) - 1;
        at += 1;
    }
    bounds
}

/// What one worker counts of one command at one server. Most commands come to few servers, so the
/// buckets are made with the first.
#[derive(Debug, Default)]
pub(super) struct Buckets(OnceLock<Box<[AtomicU64; COUNT]>>);

impl Buckets {
    /// Counts one duration. What is longer than all bounds is in the last bucket.
    #[inline]
    pub(super) fn observe(&self, took: Duration) {
        let took = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        let at = BOUNDS.partition_point(|bound| *bound < took).min(COUNT - 1);
        let buckets = self.0.get_or_init(|| Box::new([const { AtomicU64::new(0) }; COUNT]));
        super::times::add(&buckets[at], 1);
    }

    /// Adds what was counted.
    pub(super) fn add_to(&self, sum: &mut Histogram) {
        let Some(buckets) = self.0.get() else { return };
        for (sum, bucket) in sum.0.iter_mut().zip(buckets.iter()) {
            *sum += bucket.load(Ordering::Relaxed);
        }
    }
}

/// What a command has taken, of all workers and servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Histogram([u64; COUNT]);

impl Histogram {
    /// How many were counted.
    pub fn count(&self) -> u64 {
        self.0.iter().sum()
    }

    /// From the first bucket that has some to the last: its bound in microseconds, and how many
    /// took no longer.
    pub fn up_to(&self) -> Vec<(u64, u64)> {
        let count = self.count();
        let mut sum = 0;
        let all = BOUNDS.iter().zip(&self.0).map(|(bound, some)| {
            sum += some;
            (bound / 1000, sum)
        });
        let mut shown: Vec<(u64, u64)> = all.filter(|(_, sum)| *sum > 0).collect();
        let end = shown.iter().position(|(_, sum)| *sum == count).map_or(0, |at| at + 1);
        shown.truncate(end);
        shown
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_those_of_a_server_and_count_up() {
        let shown: Vec<u64> = BOUNDS.iter().map(|bound| bound / 1000).collect();
        assert_eq!(shown[..9], [1, 2, 4, 8, 16, 33, 66, 132, 264]);
        let (buckets, mut sum) = (Buckets::default(), Histogram::default());
        buckets.add_to(&mut sum);
        assert_eq!((sum.count(), sum.up_to()), (0, vec![]));
        for micros in [7, 8, 30, 200, 200] {
            buckets.observe(Duration::from_micros(micros));
        }
        buckets.add_to(&mut sum);
        let wanted = vec![(8, 2), (16, 2), (33, 3), (66, 3), (132, 3), (264, 5)];
        assert_eq!((sum.count(), sum.up_to()), (5, wanted));
        buckets.observe(Duration::from_secs(600));
        let mut all = Histogram::default();
        buckets.add_to(&mut all);
        assert_eq!(all.up_to().last().map(|of| of.1), Some(6));
    }
}
