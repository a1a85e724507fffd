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

/// The sooner one of two limits.
pub(super) fn sooner(one: Option<Duration>, other: Option<Duration>) -> Option<Duration> {
    one.into_iter().chain(other).min()
}

/// How long a server takes a value of a setting in milliseconds to be (`guc.c`); `None` is for
/// ever, as is what is not understood.
pub(super) fn setting_duration(value: &str) -> Option<Duration> {
    let value = value.trim();
    let end = value.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(value.len());
    let (number, unit) = value.split_at(end);
    let ms = match unit.trim() {
        "us" => 0.001,
        "" | "ms" => 1.0,
        "s" => 1000.0,
        "min" => 60_000.0,
        "h" => 3_600_000.0,
        "d" => 86_400_000.0,
        _ => return None,
    };
    let number: f64 = number.parse().ok()?;
    let limit = Duration::try_from_secs_f64((number * ms).round() / 1000.0).ok()?;
    Some(limit).filter(|limit| !limit.is_zero())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_of_time_is_read_as_the_server_reads_it() {
        let ms = |value| setting_duration(value).map(|limit| limit.as_millis());
        for (value, wanted) in
            [("1500", 1500), ("1.5s", 1500), ("2 min", 120_000), ("1d", 86_400_000)]
        {
            assert_eq!(ms(value), Some(wanted), "{value}");
        }
        assert_eq!((ms("0"), ms("1us"), ms("soon"), ms("1 week")), (None, None, None, None));
    }

    #[test]
    fn of_two_limits_the_sooner_one_holds() {
        let (one, two) = (Duration::from_secs(1), Duration::from_secs(2));
        assert_eq!(sooner(Some(two), Some(one)), Some(one));
        assert_eq!((sooner(None, Some(two)), sooner(None, None)), (Some(two), None));
    }
}
