//! What takes long is told.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

/// How long something has to take to be told; nothing is where it is zero. Clones are the same
/// limit, of one worker.
#[derive(Debug, Clone, Default)]
pub struct SlowLimit(Rc<Cell<Duration>>);

impl SlowLimit {
    /// Changes it, as by a reload.
    pub fn set(&self, limit: Duration) {
        self.0.set(limit);
    }

    /// Whether so long is long.
    #[inline]
    pub fn is_slow(&self, took: Duration) -> bool {
        took >= self.0.get() && !self.0.get().is_zero()
    }
}
