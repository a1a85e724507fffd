//! Durations counted into buckets.

use std::marker::PhantomData;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use super::{stripe, stripes};

/// Upper bounds within a decade, in tenths. Decimal, so that a limit such as 5 ms is a bound.
const STEPS: [u64; 10] = [10, 12, 15, 20, 25, 30, 40, 50, 60, 80];
/// Seven decades from 1 us to 10 s, and 10 s to 60 s.
const COUNT: usize = 79;

/// Upper bounds in nanoseconds, inclusive, ascending.
pub(super) const BOUNDS: [u64; COUNT] = bounds();

const fn bounds() -> [u64; COUNT] {
    let mut bounds = [0; COUNT];
    let mut decade = 100;
    let mut i = 0;
    while i < COUNT {
        bounds[i] = STEPS[i % STEPS.len()] * decade;
        i += 1;
        if i.is_multiple_of(STEPS.len()) {
            decade *= 10;
        }
    }
    bounds
}

/// How long something took, counted into buckets from 1 microsecond to 60 seconds whose bounds are
/// at most half apart. Clones count the same thing.
#[derive(Clone, Debug)]
pub struct Histogram(Arc<Parts>);

#[derive(Debug)]
struct Parts {
    stripes: Box<[Stripe]>,
    /// Those that one thread alone counts into.
    shares: Mutex<Vec<Arc<Stripe>>>,
}

/// A part of a histogram that one thread alone counts into, so that counting takes no locked
/// instruction: for what happens with each of very many requests.
#[derive(Debug)]
pub struct Share {
    stripe: Arc<Stripe>,
    /// Two threads at once would lose counts.
    _of_one_thread: PhantomData<Rc<()>>,
}

impl Share {
    /// Counts what took so long.
    #[inline]
    pub fn observe(&self, took: Duration) {
        let took = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        let bucket = BOUNDS.partition_point(|bound| *bound < took);
        let add = |to: &AtomicU64, more: u64| {
            to.store(to.load(Ordering::Relaxed).wrapping_add(more), Ordering::Relaxed);
        };
        add(&self.stripe.buckets[bucket], 1);
        add(&self.stripe.sum_ns, took);
    }
}

#[derive(Debug)]
#[repr(align(64))]
struct Stripe {
    /// One more than bounds: what is longer than all of them.
    buckets: [AtomicU64; COUNT + 1],
    sum_ns: AtomicU64,
}

/// All stripes of a histogram added up.
pub(super) struct Snapshot {
    pub(super) buckets: [u64; COUNT + 1],
    pub(super) sum_ns: u64,
}

impl Histogram {
    /// A histogram that no registry shows.
    pub fn new() -> Self {
        let stripes = (0..stripes()).map(|_| Stripe::new()).collect();
        Self(Arc::new(Parts { stripes, shares: Mutex::default() }))
    }

    /// A part of its own for the calling thread. One that nobody has any more is given again.
    pub fn share(&self) -> Share {
        let mut shares = self.0.shares.lock();
        let free = shares.iter().find(|share| Arc::strong_count(share) == 1).cloned();
        let stripe = free.unwrap_or_else(|| {
            let new = Arc::new(Stripe::new());
            shares.push(Arc::clone(&new));
            new
        });
        Share { stripe, _of_one_thread: PhantomData }
    }

    /// Counts what took so long.
    #[inline]
    pub fn observe(&self, took: Duration) {
        self.observe_ns(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX));
    }

    /// Counts one duration given in nanoseconds.
    #[inline]
    pub fn observe_ns(&self, took: u64) {
        self.observe_many(took, 1);
    }

    /// Counts `times` durations of `took` nanoseconds each, as when a group shares one wait.
    #[inline]
    pub fn observe_many(&self, took: u64, times: u64) {
        let bucket = BOUNDS.partition_point(|bound| *bound < took);
        let stripe = &self.0.stripes[stripe(self.0.stripes.len())];
        stripe.buckets[bucket].fetch_add(times, Ordering::Relaxed);
        let sum = took.saturating_mul(times);
        stripe.sum_ns.fetch_add(sum, Ordering::Relaxed);
    }

    /// How many durations were counted.
    pub fn count(&self) -> u64 {
        self.snapshot().buckets.iter().sum()
    }

    /// The upper bound of the bucket that holds the quantile `q` (0.99 for p99), `None` when
    /// nothing was counted. What is longer than 60 s counts as 60 s.
    pub fn quantile(&self, q: f64) -> Option<Duration> {
        quantile(&self.snapshot().buckets, q).map(|at| Duration::from_nanos(BOUNDS[at]))
    }

    pub(super) fn snapshot(&self) -> Snapshot {
        let mut all = Snapshot { buckets: [0; COUNT + 1], sum_ns: 0 };
        let shares = self.0.shares.lock();
        for stripe in self.0.stripes.iter().chain(shares.iter().map(|share| &**share)) {
            for (sum, bucket) in all.buckets.iter_mut().zip(&stripe.buckets) {
                *sum += bucket.load(Ordering::Relaxed);
            }
            let sum = stripe.sum_ns.load(Ordering::Relaxed);
            all.sum_ns = all.sum_ns.wrapping_add(sum);
        }
        all
    }
}

/// The bound of the bucket that holds the quantile `q`, by its place among [`BOUNDS`].
pub(super) fn quantile(buckets: &[u64], q: f64) -> Option<usize> {
    let total: u64 = buckets.iter().sum();
    let rank = ((total as f64 * q).ceil() as u64).clamp(1, total.max(1));
    let mut seen = 0;
    let at = buckets.iter().position(|count| {
        seen += count;
        seen >= rank
    })?;
    Some(at.min(COUNT - 1))
}

impl Stripe {
    fn new() -> Self {
        Self { buckets: [const { AtomicU64::new(0) }; COUNT + 1], sum_ns: AtomicU64::new(0) }
    }
}

impl Default for Histogram {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::{BOUNDS, Histogram};
    use std::time::Duration;

    #[test]
    fn bounds_ascend_from_a_microsecond_to_a_minute() {
        assert_eq!(BOUNDS[0], 1_000);
        assert_eq!(BOUNDS[BOUNDS.len() - 1], 60_000_000_000);
        assert!(BOUNDS.windows(2).all(|w| w[0] < w[1] && w[1] <= w[0] * 3 / 2));
        assert!(BOUNDS.contains(&5_000_000));
    }

    #[test]
    fn a_bound_is_inclusive_and_the_longest_is_kept() {
        let histogram = Histogram::new();
        histogram.observe_ns(1_000);
        assert_eq!(histogram.snapshot().buckets[0], 1);
        histogram.observe_ns(1_001);
        assert_eq!(histogram.snapshot().buckets[1], 1);
        histogram.observe(Duration::from_secs(100));
        assert_eq!(histogram.snapshot().buckets[BOUNDS.len()], 1);
        assert_eq!(histogram.count(), 3);
    }

    #[test]
    fn what_one_thread_counts_by_itself_is_there_when_it_has_ended() {
        let histogram = Histogram::new();
        for _ in 0..3 {
            std::thread::scope(|scope| {
                scope.spawn(|| histogram.share().observe(Duration::from_micros(7)));
            });
        }
        histogram.observe_ns(7_000);
        assert_eq!(histogram.count(), 4);
        assert_eq!(histogram.quantile(1.0), Some(Duration::from_micros(8)));
        assert_eq!(histogram.0.shares.lock().len(), 1, "one after the other share one");
    }

    #[test]
    fn quantiles_are_upper_bounds() {
        let histogram = Histogram::new();
        assert_eq!(histogram.quantile(0.5), None);
        histogram.observe_many(900_000, 99);
        histogram.observe_ns(4_500_000);
        assert_eq!(histogram.quantile(0.5), Some(Duration::from_millis(1)));
        assert_eq!(histogram.quantile(0.99), Some(Duration::from_millis(1)));
        assert_eq!(histogram.quantile(1.0), Some(Duration::from_millis(5)));
    }
}
