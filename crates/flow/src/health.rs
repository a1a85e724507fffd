//! Whether a backend may be asked: a breaker whose state anybody can see.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant, SystemTime};

use parking_lot::Mutex;
use watch::metrics::{Counter, Gauge};

use crate::backoff::Backoff;

/// When a breaker opens, and for how long.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// Failures in a row that open it.
    pub failures: u32,
    /// The first time it stays open is at most this long.
    pub base: Duration,
    /// It never stays open for longer; a trial that never ends is given up after this, too.
    pub max: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self { failures: 3, base: Duration::from_millis(500), max: Duration::from_secs(10) }
    }
}

/// Whether callers may ask a backend; the numbers are those of its metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum State {
    /// The backend answers and is asked by everybody.
    Closed = 0,
    /// The wait is over and one caller tries whether the backend answers.
    HalfOpen = 1,
    /// The backend failed and is left alone for a while.
    Open = 2,
}

impl State {
    /// The state as it is shown.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::HalfOpen => "half-open",
            Self::Open => "open",
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What went wrong last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// Why, in the backend's words or the network's.
    pub reason: Arc<str>,
    /// The wall-clock time at which the backend failed.
    pub at: SystemTime,
}

/// Keeps callers away from a backend that fails. Clones are the same breaker.
///
/// Closed, it opens after so many failures in a row. Open, it waits with full jitter, then lets one
/// caller try: a success closes it, a failure opens it for longer.
#[derive(Clone)]
pub struct Breaker(Arc<BreakerCell>);

struct BreakerCell {
    name: String,
    settings: Settings,
    /// A copy of what `inner` says, to be read without the lock.
    state: AtomicU8,
    inner: Mutex<Inner>,
    shown: BreakerMetrics,
}

/// What a breaker shows of itself, named by whoever has it.
#[derive(Debug, Clone, Default)]
pub struct BreakerMetrics {
    /// 0 closed, 1 half open, 2 open.
    pub state: Gauge,
    /// How often it has opened.
    pub opened: Counter,
}

struct Inner {
    state: State,
    failures: u32,
    backoff: Backoff,
    /// Open: when the trial may begin. Half open: when it is given up.
    until: Instant,
    since: Instant,
    last: Option<Failure>,
}

impl Breaker {
    /// A closed breaker for the backend `name`.
    pub fn new(name: &str, settings: Settings, shown: BreakerMetrics) -> Self {
        let now = Instant::now();
        Self(Arc::new(BreakerCell {
            name: name.to_owned(),
            settings,
            state: AtomicU8::new(State::Closed as u8),
            inner: Mutex::new(Inner {
                state: State::Closed,
                failures: 0,
                backoff: Backoff::new(settings.base, settings.max),
                until: now,
                since: now,
                last: None,
            }),
            shown,
        }))
    }

    /// Whether the backend may be asked at `now`. Once the wait is over this is true for one
    /// caller, who then owes a [`success`](Self::success) or a [`failure`](Self::failure).
    pub fn allows(&self, now: Instant) -> bool {
        if self.state() == State::Closed {
            return true;
        }
        let mut inner = self.0.inner.lock();
        if inner.state == State::Closed {
            return true;
        }
        let allowed = now >= inner.until;
        if allowed {
            inner.until = now + self.0.settings.max;
            self.enter(&mut inner, State::HalfOpen);
        }
        allowed
    }

    /// How long until [`allows`](Self::allows) may be true; zero when it is.
    pub fn wait(&self, now: Instant) -> Duration {
        if self.state() == State::Closed {
            return Duration::ZERO;
        }
        let inner = self.0.inner.lock();
        match inner.state {
            State::Closed => Duration::ZERO,
            State::HalfOpen | State::Open => inner.until.saturating_duration_since(now),
        }
    }

    /// The backend answered: closes the breaker.
    pub fn success(&self) {
        let mut inner = self.0.inner.lock();
        inner.failures = 0;
        inner.backoff.reset();
        if inner.state != State::Closed {
            let down_ms = inner.since.elapsed().as_millis() as u64;
            tracing::info!(backend = self.0.name, down_ms, "backend answers again");
            self.enter(&mut inner, State::Closed);
        }
    }

    /// The backend failed because of `reason`. A failure while it is open changes nothing but the
    /// reason, so that answers that were under way do not lengthen the wait.
    pub fn failure(&self, reason: &str) {
        let now = Instant::now();
        let mut inner = self.0.inner.lock();
        inner.failures = inner.failures.saturating_add(1);
        let same = inner.last.as_ref().filter(|last| *last.reason == *reason);
        let reason: Arc<str> = same.map_or_else(|| reason.into(), |last| Arc::clone(&last.reason));
        let opens = match inner.state {
            State::Closed => inner.failures >= self.0.settings.failures,
            State::HalfOpen => true,
            State::Open => false,
        };
        if opens {
            let wait = inner.backoff.delay();
            inner.until = now + wait;
            if inner.state == State::Closed {
                inner.since = now;
                self.0.shown.opened.inc();
                tracing::warn!(backend = self.0.name, %reason, "backend fails, left alone");
            }
            self.enter(&mut inner, State::Open);
        }
        let at = SystemTime::now();
        inner.last = Some(Failure { reason, at });
    }

    /// Its state; a load.
    pub fn state(&self) -> State {
        match self.0.state.load(Ordering::Acquire) {
            0 => State::Closed,
            1 => State::HalfOpen,
            _ => State::Open,
        }
    }

    /// What went wrong last, also when the backend answers again.
    pub fn last_failure(&self) -> Option<Failure> {
        self.0.inner.lock().last.clone()
    }

    /// The backend's name in the settings.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    fn enter(&self, inner: &mut Inner, state: State) {
        inner.state = state;
        self.0.state.store(state as u8, Ordering::Release);
        self.0.shown.state.set(i64::from(state as u8));
    }
}

impl fmt::Debug for Breaker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Breaker")
            .field("name", &self.0.name)
            .field("state", &self.state())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::{Breaker, BreakerMetrics, Settings, State};
    use std::time::{Duration, Instant};

    fn breaker() -> Breaker {
        Breaker::new("one", Settings::default(), BreakerMetrics::default())
    }

    #[test]
    fn it_opens_lets_one_try_and_closes() {
        let shown = BreakerMetrics::default();
        let breaker = Breaker::new("one", Settings::default(), shown.clone());
        breaker.failure("refused");
        breaker.failure("refused");
        assert!(breaker.allows(Instant::now()));
        breaker.failure("timed out");
        assert_eq!(breaker.state(), State::Open);
        assert!(!breaker.allows(Instant::now()));
        assert_eq!((shown.state.get(), shown.opened.get()), (2, 1));

        let later = Instant::now() + Duration::from_secs(1);
        assert_eq!(breaker.wait(later), Duration::ZERO);
        assert!(breaker.allows(later));
        assert_eq!(breaker.state(), State::HalfOpen);
        assert!(!breaker.allows(later), "one trial at a time");
        breaker.success();
        assert_eq!(breaker.state(), State::Closed);
        assert_eq!(&*breaker.last_failure().unwrap().reason, "timed out");
    }

    #[test]
    fn a_failed_trial_opens_it_and_a_lost_one_is_given_up() {
        let breaker = breaker();
        (0..3).for_each(|_| breaker.failure("refused"));
        let later = Instant::now() + Duration::from_secs(1);
        assert!(breaker.allows(later));
        breaker.failure("refused");
        assert_eq!(breaker.state(), State::Open);
        let later = later + Duration::from_secs(60);
        assert!(breaker.allows(later));
        assert!(!breaker.allows(later + Duration::from_secs(9)));
        assert!(breaker.allows(later + Duration::from_secs(10)));
    }

    #[test]
    fn a_success_between_failures_keeps_it_closed() {
        let breaker = breaker();
        for _ in 0..10 {
            breaker.failure("refused");
            breaker.failure("refused");
            breaker.success();
        }
        assert_eq!(breaker.state(), State::Closed);
    }
}
