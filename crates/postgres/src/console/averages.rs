//! What happened in the last whole period, from counts that only ever grow.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::database::Totals;

/// How long a period is, as `stats_period` of PgBouncer.
pub const PERIOD: Duration = Duration::from_secs(60);

/// The last two readings of the counts, a period apart.
#[derive(Debug, Clone, Default)]
pub struct Averages {
    before: Option<TotalsSample>,
    last: Option<TotalsSample>,
}

#[derive(Debug, Clone)]
struct TotalsSample {
    at: Instant,
    totals: BTreeMap<String, Totals>,
}

impl Averages {
    /// Takes a reading, if a period has gone by since the last.
    pub fn note(&mut self, at: Instant, totals: &[(String, Totals)]) {
        let due = self.last.as_ref().is_none_or(|last| at.duration_since(last.at) >= PERIOD);
        if due {
            self.before = self.last.take();
            self.last = Some(TotalsSample { at, totals: totals.iter().cloned().collect() });
        }
    }

    /// Whether no reading was taken.
    pub fn is_empty(&self) -> bool {
        self.last.is_none()
    }

    /// Per second, and times for each transaction, statement and assignment; zeros before two
    /// readings.
    pub(super) fn of(&self, database: &str) -> Totals {
        let (Some(before), Some(last)) = (&self.before, &self.last) else {
            return Totals::default();
        };
        let none = Totals::default();
        let old = before.totals.get(database).unwrap_or(&none);
        let Some(new) = last.totals.get(database) else {
            return none;
        };
        between(old, new, last.at.duration_since(before.at))
    }

    /// The same for all databases together.
    pub(super) fn of_all(&self) -> Totals {
        let (Some(before), Some(last)) = (&self.before, &self.last) else {
            return Totals::default();
        };
        let sum = |reading: &TotalsSample| {
            let mut sum = Totals::default();
            reading.totals.values().for_each(|totals| sum.add(totals));
            sum
        };
        between(&sum(before), &sum(last), last.at.duration_since(before.at))
    }
}

fn between(old: &Totals, new: &Totals, span: Duration) -> Totals {
    let span_us = span.as_micros().max(1);
    let rate = |old: u64, new: u64| {
        let grown = u128::from(new.saturating_sub(old));
        u64::try_from(grown * 1_000_000 / span_us).unwrap_or(u64::MAX)
    };
    let each = |time: (Duration, Duration), count: (u64, u64)| {
        let count = u32::try_from(count.1.saturating_sub(count.0)).unwrap_or(u32::MAX);
        time.1.saturating_sub(time.0).checked_div(count).unwrap_or_default()
    };
    Totals {
        assignments: rate(old.assignments, new.assignments),
        transactions: rate(old.transactions, new.transactions),
        queries: rate(old.queries, new.queries),
        received: rate(old.received, new.received),
        sent: rate(old.sent, new.sent),
        transaction_time: each(
            (old.transaction_time, new.transaction_time),
            (old.transactions, new.transactions),
        ),
        query_time: each((old.query_time, new.query_time), (old.queries, new.queries)),
        wait_time: each((old.wait_time, new.wait_time), (old.assignments, new.assignments)),
        client_parses: rate(old.client_parses, new.client_parses),
        server_parses: rate(old.server_parses, new.server_parses),
        binds: rate(old.binds, new.binds),
        logins: rate(old.logins, new.logins),
        lane_queries: rate(old.lane_queries, new.lane_queries),
        replica_queries: rate(old.replica_queries, new.replica_queries),
        shared_queries: rate(old.shared_queries, new.shared_queries),
        errors: rate(old.errors, new.errors),
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::{Averages, PERIOD, Totals};

    #[test]
    fn a_period_is_measured_from_reading_to_reading() {
        let start = Instant::now();
        let mut averages = Averages::default();
        let totals = |queries, micros| {
            let query_time = Duration::from_micros(micros);
            let totals = Totals { queries, query_time, ..Totals::default() };
            vec![("d".to_owned(), totals)]
        };
        averages.note(start, &totals(100, 1000));
        assert_eq!(averages.of("d"), Totals::default());
        averages.note(start + PERIOD / 2, &totals(200, 9000));
        averages.note(start + PERIOD, &totals(700, 7000));
        let of = averages.of("d");
        assert_eq!((of.queries, of.query_time), (10, Duration::from_micros(10)));
        assert_eq!(averages.of_all(), of);
        assert_eq!(averages.of("other"), Totals::default());
    }
}
