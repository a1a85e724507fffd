//! How much of something there may be in a second.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// A token bucket: `per_second` tokens flow in, up to `burst` are kept.
///
/// Taking more than there is makes a debt, and the taker waits until it is paid; so one taking may
/// exceed the burst, and the rate holds over time.
#[derive(Debug)]
pub struct RateLimit {
    per_second: u64,
    burst: u64,
    bucket: Mutex<Bucket>,
}

#[derive(Debug)]
struct Bucket {
    /// Below zero: a debt.
    tokens: f64,
    filled: Instant,
}

impl RateLimit {
    /// A full bucket. A rate of 0 is not a limit.
    pub fn new(per_second: u64, burst: u64) -> Self {
        Self {
            per_second,
            burst,
            bucket: Mutex::new(Bucket { tokens: burst as f64, filled: Instant::now() }),
        }
    }

    /// Takes `n` tokens and waits until they are there. Needs a tokio runtime. A taker that goes
    /// away while it waits has taken them.
    pub async fn take(&self, n: u64) {
        let wait = self.reserve(n, Instant::now());
        if !wait.is_zero() {
            tokio::time::sleep(wait).await;
        }
    }

    /// Takes `n` tokens at `now` and says how long to wait before using them.
    pub fn reserve(&self, n: u64, now: Instant) -> Duration {
        if self.per_second == 0 {
            return Duration::ZERO;
        }
        let rate = self.per_second as f64;
        let mut bucket = self.bucket.lock();
        let flown = now.saturating_duration_since(bucket.filled).as_secs_f64() * rate;
        bucket.filled = bucket.filled.max(now);
        bucket.tokens = (bucket.tokens + flown).min(self.burst as f64) - n as f64;
        let debt = (-bucket.tokens).max(0.0);
        Duration::try_from_secs_f64(debt / rate).unwrap_or(Duration::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::RateLimit;
    use std::time::{Duration, Instant};

    #[test]
    fn the_burst_is_free_and_then_the_rate_holds() {
        let limit = RateLimit::new(100, 50);
        let start = Instant::now();
        assert_eq!(limit.reserve(50, start), Duration::ZERO);
        assert_eq!(limit.reserve(10, start), Duration::from_millis(100));
        let later = start + Duration::from_millis(100);
        assert_eq!(limit.reserve(200, later), Duration::from_secs(2));
        let much_later = start + Duration::from_secs(60);
        assert_eq!(limit.reserve(50, much_later), Duration::ZERO);
        assert!(limit.reserve(1, much_later) > Duration::ZERO);
    }

    #[test]
    fn no_rate_is_no_limit_and_no_size_panics() {
        let now = Instant::now();
        assert_eq!(RateLimit::new(0, 0).reserve(u64::MAX, now), Duration::ZERO);
        assert!(RateLimit::new(1, 0).reserve(u64::MAX, now) > Duration::from_secs(1));
        assert!(RateLimit::new(1, 1).reserve(5, now - Duration::from_secs(1)) > Duration::ZERO);
    }

    #[tokio::test]
    async fn a_taker_waits() {
        let limit = RateLimit::new(1000, 1);
        let start = Instant::now();
        limit.take(51).await;
        assert!(start.elapsed() >= Duration::from_millis(49));
    }
}
