//! How long others wait behind a reply that is not taken as fast as it comes.

use std::time::{Duration, Instant};

/// A lane's patience with the reply at its head. What counts is for how long nothing was read in
/// all, since a client that takes a little again and again keeps the others waiting as well.
pub(super) struct Patience {
    limit: Duration,
    /// That with a reply which is too large to be kept for its client.
    limit_with_large: Duration,
    /// The request that it is about.
    head: u64,
    /// How much of it is used up.
    used: Duration,
    /// Nobody hears the reply any more, and others wait for its end.
    is_over: bool,
    /// Since when it is being used up.
    since: Option<Instant>,
    /// The moment at which it will be used up, while it is being used.
    due: Option<Instant>,
}

/// The reply at the head, as of now.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reply {
    /// Which request it answers: another value for each.
    pub(super) head: u64,
    /// What was read has been taken.
    pub(super) is_taken: bool,
    /// It is too large to be kept until it is taken.
    pub(super) is_too_large: bool,
    /// It is large, and reaches nobody.
    pub(super) is_lost: bool,
    /// Others than its client wait behind it.
    pub(super) is_waited_for: bool,
}

/// What is to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    /// Read the server's next bytes.
    Read,
    /// Read nothing: the task is woken when that changes.
    Wait,
    /// Others have waited long enough: read on, and keep the reply for its client.
    Kept,
    /// Others have waited long enough: read on, and let nobody hear the reply.
    Over,
    /// Even what reaches nobody has taken too long.
    End,
}

impl Patience {
    pub(super) fn new(limit: Duration, limit_with_large: Duration) -> Self {
        let limit_with_large = limit_with_large.max(limit);
        let (head, used, is_over, since, due) = (0, Duration::ZERO, false, None, None);
        Self { limit, limit_with_large, head, used, is_over, since, due }
    }

    #[inline]
    pub(super) fn is_none(&self) -> bool {
        self.limit.is_zero()
    }

    /// When it is to be looked at again, whatever comes until then.
    #[inline]
    pub(super) fn until(&self) -> Option<Instant> {
        self.due
    }

    /// What is to be done about a reply.
    #[inline]
    pub(super) fn look(&mut self, reply: Reply, now: impl Fn() -> Instant) -> Outcome {
        if self.head != reply.head {
            *self = Self { head: reply.head, ..Self::new(self.limit, self.limit_with_large) };
        }
        if !reply.is_waited_for {
            self.pause(now);
            let is_read = reply.is_taken || self.is_over;
            return if is_read { Outcome::Read } else { Outcome::Wait };
        }
        if reply.is_lost && !self.is_over {
            self.give_up(now());
        }
        if self.is_over {
            return if self.is_used_up(self.limit, now()) { Outcome::End } else { Outcome::Read };
        }
        if reply.is_taken {
            self.pause(now);
            return Outcome::Read;
        }
        let limit = if reply.is_too_large { self.limit_with_large } else { self.limit };
        let now = now();
        match (self.is_used_up(limit, now), reply.is_too_large) {
            (false, _) => Outcome::Wait,
            (true, false) => {
                self.pause(|| now);
                Outcome::Kept
            }
            (true, true) => {
                self.give_up(now);
                Outcome::Over
            }
        }
    }

    /// From now on the reply is to come to its end, within the same time again.
    fn give_up(&mut self, now: Instant) {
        (self.is_over, self.used) = (true, Duration::ZERO);
        (self.since, self.due) = (Some(now), Some(now + self.limit));
    }

    fn pause(&mut self, now: impl Fn() -> Instant) {
        self.due = None;
        if let Some(since) = self.since.take() {
            self.used += now().saturating_duration_since(since);
        }
    }

    fn is_used_up(&mut self, limit: Duration, now: Instant) -> bool {
        let since = *self.since.get_or_insert(now);
        let due = since + limit.saturating_sub(self.used);
        self.due = Some(due);
        now >= due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(10);
    const WITH_LARGE: Duration = Duration::from_secs(60);
    const SLOW: Reply = Reply {
        head: 1,
        is_taken: false,
        is_too_large: false,
        is_lost: false,
        is_waited_for: true,
    };
    const LARGE: Reply = Reply { is_too_large: true, ..SLOW };
    const TAKEN: Reply = Reply { is_taken: true, ..SLOW };

    /// Looks at a reply after so many seconds more each time.
    fn looks(steps: &[(u64, Reply, Outcome)]) {
        let (mut patience, mut now) = (Patience::new(LIMIT, WITH_LARGE), Instant::now());
        for (at, (seconds, reply, outcome)) in steps.iter().enumerate() {
            now += Duration::from_secs(*seconds);
            assert_eq!(patience.look(*reply, || now), *outcome, "step {at}");
            let is_due = patience.until().is_some_and(|until| until <= now);
            assert!(!is_due || *outcome == Outcome::End, "step {at} would be looked at for ever");
            let is_awaited = reply.is_waited_for && *outcome == Outcome::Wait;
            assert!(!is_awaited || patience.until().is_some(), "step {at} would wait for ever");
        }
    }

    #[test]
    fn who_takes_a_little_again_and_again_has_no_more_time() {
        looks(&[
            (0, SLOW, Outcome::Wait),
            (6, TAKEN, Outcome::Read),
            (100, SLOW, Outcome::Wait),
            (3, TAKEN, Outcome::Read),
            (0, SLOW, Outcome::Wait),
            (2, SLOW, Outcome::Kept),
            (100, SLOW, Outcome::Kept),
        ]);
    }

    #[test]
    fn what_cannot_be_kept_has_longer_and_is_given_up_then() {
        looks(&[
            (0, LARGE, Outcome::Wait),
            (50, Reply { is_taken: true, ..LARGE }, Outcome::Read),
            (100, LARGE, Outcome::Wait),
            (9, LARGE, Outcome::Wait),
            (2, LARGE, Outcome::Over),
        ]);
        // It was kept until it was seen to be too large.
        looks(&[
            (0, SLOW, Outcome::Wait),
            (11, SLOW, Outcome::Kept),
            (1, LARGE, Outcome::Wait),
            (48, LARGE, Outcome::Wait),
            (2, LARGE, Outcome::Over),
        ]);
    }

    #[test]
    fn each_reply_has_its_own_time() {
        let next = Reply { head: 2, ..SLOW };
        looks(&[
            (0, SLOW, Outcome::Wait),
            (9, SLOW, Outcome::Wait),
            (0, next, Outcome::Wait),
            (9, next, Outcome::Wait),
            (2, next, Outcome::Kept),
        ]);
    }

    #[test]
    fn where_nobody_waits_there_is_no_limit() {
        let alone = Reply { is_waited_for: false, ..SLOW };
        looks(&[(0, alone, Outcome::Wait), (100, alone, Outcome::Wait), (0, SLOW, Outcome::Wait)]);
    }

    #[test]
    fn what_reaches_nobody_has_as_long_again_to_end() {
        let lost = Reply { is_lost: true, ..TAKEN };
        looks(&[
            (0, LARGE, Outcome::Wait),
            (61, LARGE, Outcome::Over),
            (0, LARGE, Outcome::Read),
            (9, TAKEN, Outcome::Read),
            (2, TAKEN, Outcome::End),
        ]);
        looks(&[(0, TAKEN, Outcome::Read), (0, lost, Outcome::Read), (11, lost, Outcome::End)]);
        let next = Reply { head: 2, ..TAKEN };
        looks(&[(0, lost, Outcome::Read), (9, next, Outcome::Read), (9, next, Outcome::Read)]);
    }
}
