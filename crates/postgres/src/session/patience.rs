//! How long things may take, and what a client hears when they take longer.

use std::time::{Duration, Instant};

use wire::postgres::{Refusal, sqlstate};

use crate::settings::Settings;
use crate::worker::after;

/// How long the next thing may take to happen, and what the client hears then; `None` is for ever.
pub(super) type Limit = Option<(Duration, fn() -> Refusal)>;

/// How long a session's statements and pauses may take; `None` is for ever.
#[derive(Debug, Clone, Copy)]
pub(super) struct Patience {
    pub query_wait: Option<Duration>,
    pub query: Option<Duration>,
    pub transaction: Option<Duration>,
    pub idle_in_transaction: Option<Duration>,
    pub idle: Option<Duration>,
    pub read: Option<Duration>,
}

impl Patience {
    /// A user's own comes before a database's, and that before everyone's.
    pub fn new(settings: &Settings, database: &str, user: &str) -> Self {
        let (user, database) = (settings.user(user), settings.database(database));
        let all = &settings.timeouts;
        let some = |own: Option<units::Duration>, all: units::Duration| {
            Some(own.unwrap_or(all).get()).filter(|limit| !limit.is_zero())
        };
        let query_wait = user.and_then(|user| user.query_wait);
        let query_wait = query_wait.or_else(|| database.and_then(|database| database.query_wait));
        Self {
            query_wait: some(query_wait, all.query_wait),
            query: some(user.and_then(|user| user.query), all.query),
            transaction: some(user.and_then(|user| user.transaction), all.transaction),
            idle_in_transaction: some(
                user.and_then(|user| user.idle_in_transaction),
                all.idle_in_transaction,
            ),
            idle: some(user.and_then(|user| user.idle), all.idle),
            read: some(None, all.read),
        }
    }

    /// The same as `next` within a transaction that began at `since`, whose own time may be over
    /// before.
    pub fn in_transaction(&self, since: Instant, next: Limit) -> Limit {
        let Some(whole) = self.transaction else { return next };
        let left = whole.saturating_sub(since.elapsed());
        match next {
            Some((limit, _)) if limit < left => next,
            _ => Some((left, transaction_timeout)),
        }
    }

    /// Until when a statement waits for a server connection that is wanted since `wanted`.
    pub fn deadline(&self, wanted: Instant) -> Instant {
        after(wanted, self.query_wait)
    }
}

/// A message began to come and does not end.
pub(super) fn read_timeout() -> Refusal {
    let what = "the rest of a message did not come within postgres.timeouts.read";
    Refusal::fatal(sqlstate::CONNECTION_FAILURE, what)
}

pub(super) fn idle_timeout() -> Refusal {
    let what = "terminating connection due to idle-session timeout";
    Refusal::fatal(sqlstate::IDLE_SESSION_TIMEOUT, what)
}

pub(super) fn idle_in_transaction_timeout() -> Refusal {
    let what = "terminating connection due to idle-in-transaction timeout";
    Refusal::fatal(sqlstate::IDLE_IN_TRANSACTION_TIMEOUT, what)
}

fn transaction_timeout() -> Refusal {
    let what = "terminating connection due to transaction timeout";
    Refusal::fatal(sqlstate::TRANSACTION_TIMEOUT, what)
}
