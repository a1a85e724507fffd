//! How far the clock of one machine is from that of another, by questions that are answered with
//! the time: the answer of the shortest round trip is the least wrong, by half of that trip at most
//! (Cristian's algorithm).

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Beyond what error of its offset windows of two injectors are not those of one second.
pub const OFFSET_ERROR_MAX: Duration = Duration::from_millis(5);

/// A question for the time, and its answer; each clock counts from a moment of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockSample {
    /// When the question was sent, by the clock of who asks.
    pub sent: Duration,
    /// What the other clock showed.
    pub theirs: Duration,
    /// When the answer was there, by the clock of who asks.
    pub received: Duration,
}

/// How far another clock is ahead.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockOffset {
    /// By how much it is ahead, in nanoseconds; behind is less than 0.
    pub ahead_ns: i64,
    /// By how much that may be wrong, either way.
    pub error: Duration,
}

impl ClockSample {
    /// The offset that it says; nothing where the answer was there before the question.
    pub fn offset(&self) -> Option<ClockOffset> {
        let trip = self.received.checked_sub(self.sent)?;
        let ours = nanoseconds(self.sent) + i128::from(trip.as_nanos() as u64 / 2);
        let ahead = i64::try_from(nanoseconds(self.theirs) - ours).ok()?;
        Some(ClockOffset { ahead_ns: ahead, error: trip / 2 })
    }
}

impl ClockOffset {
    /// The same, less sure by as much as it has moved from this one to `later`.
    #[must_use]
    pub fn until(self, later: Self) -> Self {
        let moved = Duration::from_nanos(later.ahead_ns.abs_diff(self.ahead_ns));
        Self { error: self.error.max(moved), ..self }
    }

    /// What the other clock shows when ours shows `ours`; nothing before its begin.
    pub fn theirs(&self, ours: Duration) -> Option<Duration> {
        let nanos = nanoseconds(ours) + i128::from(self.ahead_ns);
        u64::try_from(nanos).ok().map(Duration::from_nanos)
    }
}

fn nanoseconds(span: Duration) -> i128 {
    i128::try_from(span.as_nanos()).unwrap_or(i128::MAX)
}

impl fmt::Display for ClockOffset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.ahead_ns < 0 { '-' } else { '+' };
        let ahead = Duration::from_nanos(self.ahead_ns.unsigned_abs());
        write!(f, "{sign}{ahead:.1?} \u{b1}{:.1?}", self.error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: Duration = Duration::from_micros(1);

    #[test]
    fn the_shortest_round_trip_says_the_offset() {
        let sample = |sent, theirs, received| ClockSample {
            sent: sent * US,
            theirs: theirs * US,
            received: received * US,
        };
        let long = sample(100, 5_900, 1_100).offset().unwrap();
        let short = sample(2_000, 7_060, 2_100).offset().unwrap();
        assert_eq!((long.ahead_ns, long.error), (5_300_000, 500 * US));
        assert_eq!((short.ahead_ns, short.error), (5_010_000, 50 * US));
        assert_eq!(short.theirs(3_000 * US), Some(8_010 * US));
        assert_eq!((long.until(short).error, short.until(long).error), (500 * US, 290 * US));
        let behind = sample(9_000, 10, 9_020).offset().unwrap();
        assert_eq!((behind.ahead_ns, behind.theirs(9_100 * US)), (-9_000_000, Some(100 * US)));
        assert_eq!(behind.theirs(Duration::ZERO), None);
        assert_eq!(behind.to_string(), "-9.0ms \u{b1}10.0\u{b5}s");
        assert_eq!(sample(5, 5, 4).offset(), None);
    }
}
