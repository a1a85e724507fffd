//! A clock that costs a load to read, for deadlines that need no better.

use std::cell::Cell;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// How often a worker sets its [`CoarseClock`]: how far behind it may be on a worker that does not
/// stand still.
pub const TICK: Duration = Duration::from_millis(50);

/// The time of the worker's last tick. Clones are the same clock.
#[derive(Clone, Debug)]
pub struct CoarseClock(Rc<Cell<Instant>>);

impl CoarseClock {
    /// A clock that shows the present and stands until it is set.
    pub fn new() -> Self {
        Self(Rc::new(Cell::new(Instant::now())))
    }

    /// The time when the clock was last set, at most a tick and the worker's delay ago.
    #[inline]
    pub fn now(&self) -> Instant {
        self.0.get()
    }

    /// Sets the clock; only its worker's tick, and tests, do that.
    pub fn set(&self, now: Instant) {
        self.0.set(now);
    }
}

impl Default for CoarseClock {
    fn default() -> Self {
        Self::new()
    }
}
