//! When a server is taken for gone: it has acknowledged nothing of what it was sent, and nothing
//! has come from it, for `tcp-user-timeout`.
//!
//! The socket option `TCP_USER_TIMEOUT` (tcp(7)) ends a connection whose peer acknowledges all and
//! has closed its window, too, as a server does that holds a COPY up behind a lock. So the kernel
//! is asked what is owed, and this decides.

use std::time::{Duration, Instant};

use sched::tcp::Owed;

/// Since when one server has been silent.
#[derive(Debug, Default)]
pub(super) struct Silence {
    since: Option<Instant>,
}

impl Silence {
    /// How long the server has owed an acknowledgement without a sign of life, by the looks that
    /// were taken: less than in truth by up to the time between two.
    pub(super) fn look(&mut self, owed: Owed, now: Instant) -> Duration {
        if !owed.is_unacknowledged {
            self.since = None;
            return Duration::ZERO;
        }
        let heard = now.checked_sub(owed.heard_ago);
        // A connection that was idle for an hour owes nothing from before its next request.
        let since = self.since.unwrap_or(now).max(heard.unwrap_or(now));
        self.since = Some(since);
        now.saturating_duration_since(since)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Looks each second: whether something is unacknowledged, when the server was heard last, and
    /// how long it is silent by that.
    fn looks(steps: &[(bool, u64, u64)]) {
        let (mut silence, mut now) = (Silence::default(), Instant::now());
        for (at, (is_unacknowledged, heard_ago, silent)) in steps.iter().copied().enumerate() {
            now += Duration::from_secs(1);
            let heard_ago = Duration::from_secs(heard_ago);
            let found = silence.look(Owed { is_unacknowledged, heard_ago }, now);
            assert_eq!(found, Duration::from_secs(silent), "look {at}");
        }
    }

    #[test]
    fn a_request_after_an_hour_of_nothing_has_its_whole_time() {
        looks(&[(false, 3599, 0), (true, 3600, 0), (true, 3601, 1), (true, 3602, 2)]);
    }

    #[test]
    fn what_is_acknowledged_piece_by_piece_is_never_late() {
        looks(&[(true, 0, 0), (true, 0, 0), (true, 0, 0), (true, 1, 1), (true, 0, 0)]);
    }

    #[test]
    fn a_window_that_stays_closed_is_no_silence_while_questions_are_answered() {
        // The kernel asks ever more seldom; in between nothing is owed, and nothing comes.
        looks(&[(true, 50, 0), (false, 0, 0), (false, 1, 0), (true, 52, 0), (false, 0, 0)]);
    }

    #[test]
    fn silence_begins_with_what_was_heard_last() {
        looks(&[(true, 0, 0), (true, 1, 1), (true, 2, 2), (true, 0, 0), (true, 1, 1)]);
    }
}
