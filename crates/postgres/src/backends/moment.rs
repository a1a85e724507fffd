//! Times that fit into an atomic.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// A time of the monotonic clock in nanoseconds since this process first asked, from 1 on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Moment(u64);

impl Moment {
    /// A moment before any other.
    pub const NEVER: Self = Self(0);

    pub fn now() -> Self {
        Self::of(Instant::now())
    }

    /// Of an instant; what is from before this process first asked is as old as that.
    pub fn of(instant: Instant) -> Self {
        static FIRST: OnceLock<Instant> = OnceLock::new();
        let since = instant.saturating_duration_since(*FIRST.get_or_init(Instant::now));
        Self::from_nanos(u64::try_from(since.as_nanos()).unwrap_or(u64::MAX - 1) + 1)
    }

    /// As kept in an atomic.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// To be kept in an atomic; 0 is never.
    pub const fn nanos(self) -> u64 {
        self.0
    }

    /// How long `earlier` was before; zero where it was not.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

/// When a session's last write ended, as seen here: all that its server has done for it by then is
/// in a primary's position that is asked for afterwards.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct LastWrite(pub(super) Moment);

impl LastWrite {
    /// It has written nothing yet.
    pub const NEVER: Self = Self(Moment::NEVER);

    /// Now: to be called once the answer to the write has been read.
    pub fn now() -> Self {
        Self(Moment::now())
    }

    /// At an instant that is not before the answer to the write was read.
    pub fn at(instant: Instant) -> Self {
        Self(Moment::of(instant))
    }

    /// Whether a replica that is caught up as of `moment` has it.
    pub fn is_seen_as_of(self, moment: Moment) -> bool {
        // A position asked for at the very nanosecond of the write may be from before it.
        self == Self::NEVER || moment > self.0
    }
}
