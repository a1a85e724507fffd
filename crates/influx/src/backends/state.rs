//! What the delivery to one backend is doing, to be read from anywhere.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use journal::Position;
use serde::Serialize;
use watch::metrics::{Counter, Gauge, Registry};

/// What a delivery is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[repr(u8)]
pub enum Phase {
    /// Nothing has been settled since the start.
    Starting = 0,
    /// Points are delivered as they come.
    Delivering = 1,
    /// The backlog is being delivered.
    CatchingUp = 2,
    /// The backend fails, and is tried again and again.
    Retrying = 3,
    /// Someone has to do something; tried again every half a minute.
    Stopped = 4,
}

impl Phase {
    fn of(code: u8) -> Self {
        match code {
            0 => Self::Starting,
            1 => Self::Delivering,
            2 => Self::CatchingUp,
            3 => Self::Retrying,
            _ => Self::Stopped,
        }
    }
}

#[derive(Debug, Default)]
struct Words {
    reason: Option<String>,
    last_error: Option<(String, SystemTime)>,
    last_refusal: Option<String>,
}

/// Where a delivery stands. Written by its task alone.
#[derive(Debug)]
pub struct DeliveryState {
    backend: String,
    phase: AtomicU8,
    /// When the oldest point was accepted that is on its way, in nanoseconds since 1970; 0 for
    /// none.
    oldest_ns: AtomicU64,
    /// Up to which place of the journal all is settled.
    place: AtomicU64,
    words: Mutex<Words>,
    stopped: Gauge,
    failures: Counter,
}

impl DeliveryState {
    pub(crate) fn new(backend: &str, registry: &Registry) -> Self {
        let labels = [("backend", backend)];
        Self {
            backend: backend.to_owned(),
            phase: AtomicU8::new(Phase::Starting as u8),
            oldest_ns: AtomicU64::new(0),
            place: AtomicU64::new(0),
            words: Mutex::default(),
            stopped: registry.gauge(
                "weir_influx_backend_stopped",
                "1 while delivery needs someone to act: credentials, a missing database, a full \
                 dead-letter file.",
                &labels,
            ),
            failures: registry.counter(
                "weir_influx_delivery_failures_total",
                "Requests to a backend that were not answered with success and are tried again.",
                &labels,
            ),
        }
    }

    /// The phase, and why it is what it is.
    pub fn phase(&self) -> (Phase, Option<String>) {
        let words = self.lock();
        (Phase::of(self.phase.load(Ordering::Relaxed)), words.reason.clone())
    }

    /// Whether someone has to do something.
    pub fn is_stopped(&self) -> bool {
        self.phase.load(Ordering::Relaxed) == Phase::Stopped as u8
    }

    /// What went wrong last, and when.
    pub fn last_error(&self) -> Option<(String, SystemTime)> {
        self.lock().last_error.clone()
    }

    /// Why the backend has refused a point for good last.
    pub fn last_refusal(&self) -> Option<String> {
        self.lock().last_refusal.clone()
    }

    /// A point is a dead letter, for this reason.
    pub fn refused(&self, words: &str) {
        self.lock().last_refusal = Some(words.to_owned());
    }

    /// How old the oldest point is that is on its way; zero when there is none.
    pub fn behind(&self) -> Duration {
        let oldest = self.oldest_ns.load(Ordering::Relaxed);
        if oldest == 0 {
            return Duration::ZERO;
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        now.saturating_sub(Duration::from_nanos(oldest))
    }

    /// Notes when the oldest point on its way was accepted; 0 when there is none.
    pub fn set_oldest(&self, written_at_ns: u64) {
        self.oldest_ns.store(written_at_ns, Ordering::Relaxed);
    }

    /// Up to which place of the journal all is settled.
    pub fn place(&self) -> Position {
        Position(self.place.load(Ordering::Relaxed))
    }

    /// Everything up to a place is settled.
    pub fn set_place(&self, place: Position) {
        self.place.store(place.0, Ordering::Relaxed);
    }

    /// Nothing waits any more.
    pub fn caught_up(&self) {
        self.set_oldest(0);
        if self.phase.load(Ordering::Relaxed) == Phase::CatchingUp as u8 {
            self.enter(Phase::Delivering, None);
        }
    }

    /// Something is off the way: delivered, kept as dead letters, or given up.
    pub fn settled(&self, catching_up: bool) {
        let phase = if catching_up { Phase::CatchingUp } else { Phase::Delivering };
        if self.phase.load(Ordering::Relaxed) == phase as u8 {
            return;
        }
        let former = self.enter(phase, None);
        if matches!(former, Phase::Retrying | Phase::Stopped) {
            tracing::info!(backend = self.backend, "delivery goes on");
        }
    }

    /// Something failed and is tried again.
    pub fn retrying(&self, words: &str) {
        self.failures.inc();
        if self.failed(Phase::Retrying, words) {
            tracing::warn!(backend = self.backend, reason = words, "delivery fails, trying again");
        }
    }

    /// Something failed, and will until someone acts.
    pub fn stopped(&self, words: &str) {
        self.failures.inc();
        if self.failed(Phase::Stopped, words) {
            tracing::error!(
                backend = self.backend,
                reason = words,
                "delivery is stopped and the backlog kept until this is set right"
            );
        }
    }

    /// Begins with the backlog of another delivery to the same backend.
    pub(super) fn take_over(&self, before: &Self) {
        self.set_oldest(before.oldest_ns.load(Ordering::Relaxed));
    }

    /// Nothing is delivered any more.
    pub fn ended(&self) {
        self.enter(Phase::Starting, None);
    }

    /// Whether this is news.
    fn failed(&self, phase: Phase, words: &str) -> bool {
        let known = {
            let mut kept = self.lock();
            kept.last_error = Some((words.to_owned(), SystemTime::now()));
            kept.reason.as_deref() == Some(words)
        };
        let former = self.enter(phase, Some(words));
        former != phase || !known
    }

    fn enter(&self, phase: Phase, reason: Option<&str>) -> Phase {
        self.lock().reason = reason.map(str::to_owned);
        self.stopped.set(i64::from(phase == Phase::Stopped));
        Phase::of(self.phase.swap(phase as u8, Ordering::Relaxed))
    }

    fn lock(&self) -> MutexGuard<'_, Words> {
        // No one panics while holding it, and what it guards is whole at any time.
        self.words.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
