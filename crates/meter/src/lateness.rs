//! Why a request was behind schedule. *Blocked*: no connection was open and idle, which is the
//! server's doing and part of the latency. *Late*: one was, and the send still came late, which is
//! the injector's. A wait is cut where the connection became free: what is before is blocked, what
//! is behind is late; nothing is counted twice.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::hlog;
use crate::recorder::{Times, nanoseconds};

/// Sends that are late by more are counted.
pub const LATE: Duration = Duration::from_millis(1);

/// How a send was behind schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Behind {
    /// How long no connection was free.
    pub blocked: Duration,
    /// How long it took to send although one was.
    pub late: Duration,
}

/// Cuts the wait from when a request was due until it was sent at the moment at which its
/// connection became free, or the one that has been free for longest where it stands in for that:
/// so there was no other one before.
pub fn behind(due: Instant, free: Instant, sent: Instant) -> Behind {
    let could = due.max(free.min(sent));
    Behind {
        blocked: could.saturating_duration_since(due),
        late: sent.saturating_duration_since(could),
    }
}

/// What is known of all sends of a run.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Lateness {
    /// Requests that were sent.
    pub sends: u64,
    /// Those that were late by more than [`LATE`].
    pub late: u64,
    /// Those that waited for a connection.
    pub blocked: u64,
    /// How late all sends were.
    #[serde(with = "hlog::within")]
    pub times: Times,
    /// How long those that waited for a connection did.
    #[serde(with = "hlog::within")]
    pub waits: Times,
}

impl Lateness {
    /// Counts a send by how it was behind schedule.
    pub fn note(&mut self, behind: Behind) {
        self.sends += 1;
        self.times.note(nanoseconds(behind.late));
        if behind.late > LATE {
            self.late += 1;
        }
        if !behind.blocked.is_zero() {
            self.note_blocked(behind.blocked);
        }
    }

    /// Counts a request that waited for a connection, sent in the end or not.
    pub fn note_blocked(&mut self, wait: Duration) {
        self.blocked += 1;
        self.waits.note(nanoseconds(wait));
    }

    /// Adds what another thread saw.
    pub fn add(&mut self, other: &Self) {
        self.sends += other.sends;
        self.late += other.late;
        self.blocked += other.blocked;
        self.times.add(&other.times);
        self.waits.add(&other.waits);
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use proptest::prelude::{prop_assert_eq, proptest};

    use super::{Lateness, behind};

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn a_wait_is_cut_where_the_connection_became_free() {
        let due = Instant::now() + 10 * MS;
        let cut = |free, sent| {
            let behind = behind(due, free, sent);
            (behind.blocked, behind.late)
        };
        assert_eq!(cut(due - 5 * MS, due), (Duration::ZERO, Duration::ZERO));
        assert_eq!(cut(due - 5 * MS, due + 3 * MS), (Duration::ZERO, 3 * MS));
        assert_eq!(cut(due + 5 * MS, due + 5 * MS), (5 * MS, Duration::ZERO));
        assert_eq!(cut(due + 5 * MS, due + 7 * MS), (5 * MS, 2 * MS));
    }

    #[test]
    fn a_saturated_server_makes_nothing_late() {
        let (due, mut all) = (Instant::now(), Lateness::default());
        for number in 1..=100 {
            all.note(behind(due, due + number * MS, due + number * MS));
        }
        assert_eq!((all.sends, all.blocked, all.late), (100, 100, 0));
    }

    proptest! {
        #[test]
        fn both_together_are_the_whole_wait(free in 0..100_u32, wait in 0..100_u32) {
            let due = Instant::now() + 50 * MS;
            let sent = due + wait * MS;
            let cut = behind(due, due - 50 * MS + free * MS, sent);
            prop_assert_eq!(cut.blocked + cut.late, wait * MS);
        }
    }
}
