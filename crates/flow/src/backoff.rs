//! How long to wait before trying again.

use std::time::Duration;

use rand::Rng as _;

/// Waits that grow with each failure and are spread at random, so that many clients of one server
/// do not return to it at once: "full jitter" of
/// <https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/>.
#[derive(Debug, Clone)]
pub struct Backoff {
    base: Duration,
    max: Duration,
    failures: u32,
}

/// A wait of nothing would make a loop spin.
const LEAST: Duration = Duration::from_millis(1);

impl Backoff {
    /// The first wait is at most `base`, each further one at most double, none over `max`.
    pub fn new(base: Duration, max: Duration) -> Self {
        Self { base, max: max.max(LEAST), failures: 0 }
    }

    /// The wait after one more failure: anything from a millisecond to the ceiling.
    pub fn delay(&mut self) -> Duration {
        let ceiling = self.ceiling();
        self.failures = self.failures.saturating_add(1);
        rand::rng().random_range(LEAST..=ceiling)
    }

    /// Waits for [`delay`](Self::delay). Needs a tokio runtime.
    pub async fn wait(&mut self) {
        tokio::time::sleep(self.delay()).await;
    }

    /// Begins anew after a success.
    pub fn reset(&mut self) {
        self.failures = 0;
    }

    /// How often it failed since the last success.
    pub fn failures(&self) -> u32 {
        self.failures
    }

    fn ceiling(&self) -> Duration {
        let factor = 1_u32.checked_shl(self.failures).unwrap_or(u32::MAX);
        self.base.saturating_mul(factor).clamp(LEAST, self.max)
    }
}

#[cfg(test)]
mod tests {
    use super::Backoff;
    use std::time::Duration;

    #[test]
    fn waits_grow_to_the_limit_and_begin_anew() {
        let base = Duration::from_millis(100);
        let max = Duration::from_secs(5);
        let mut backoff = Backoff::new(base, max);
        for ceiling in [100, 200, 400, 800, 1600, 3200, 5000, 5000] {
            assert_eq!(backoff.ceiling(), Duration::from_millis(ceiling));
            let delay = backoff.delay();
            assert!(delay >= Duration::from_millis(1) && delay <= backoff.ceiling().max(max));
        }
        for _ in 0..100 {
            assert!(backoff.delay() <= max);
        }
        backoff.reset();
        assert!(backoff.delay() <= base);
    }

    #[test]
    fn odd_limits_neither_panic_nor_spin() {
        for (base, max) in [(0, 0), (10, 1), (0, 10)] {
            let mut backoff = Backoff::new(Duration::from_millis(base), Duration::from_millis(max));
            assert!((0..50).all(|_| backoff.delay() >= Duration::from_millis(1)));
        }
    }

    #[test]
    fn waits_are_spread() {
        let long = Duration::from_secs(1000);
        let mut delays: Vec<_> = (0..50).map(|_| Backoff::new(long, long).delay()).collect();
        delays.sort_unstable();
        delays.dedup();
        assert!(delays.len() > 40);
    }
}
