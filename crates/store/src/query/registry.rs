//! The queries that are running: `SHOW QUERIES` and `KILL QUERY`.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::context::Cancel;
use crate::refusal::QueryError;

/// A query that is running.
#[derive(Clone, Debug)]
pub struct RunningQuery {
    /// Its number; never used again by this process.
    pub id: u64,
    /// The query as the client wrote it.
    pub text: String,
    /// The database of its request.
    pub db: String,
    /// When the query began.
    pub since: Instant,
    /// Ends the query before its time.
    pub cancel: Cancel,
}

/// All running queries of a process.
#[derive(Debug, Default)]
pub struct Registry {
    queries: Mutex<Queries>,
}

#[derive(Debug, Default)]
struct Queries {
    last: u64,
    running: BTreeMap<u64, RunningQuery>,
}

/// Holds a query's place in the registry for as long as it lives.
#[derive(Debug)]
pub struct QueryRegistration {
    id: u64,
    registry: Arc<Registry>,
}

impl QueryRegistration {
    /// The number that `SHOW QUERIES` shows.
    pub fn id(&self) -> u64 {
        self.id
    }
}

impl Drop for QueryRegistration {
    fn drop(&mut self) {
        self.registry.lock().running.remove(&self.id);
    }
}

impl Registry {
    fn lock(&self) -> MutexGuard<'_, Queries> {
        self.queries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Enters a query that begins now; `max` is `max-concurrent-queries`, 0 is without limit.
    ///
    /// # Errors
    /// When as many are running already.
    pub fn enter(
        self: &Arc<Self>,
        text: &str,
        db: &str,
        cancel: &Cancel,
        max: u64,
    ) -> Result<QueryRegistration, QueryError> {
        let mut queries = self.lock();
        let running = queries.running.len() as u64;
        if max > 0 && running >= max {
            let text = format!("max-concurrent-queries limit exceeded({running}, {max})");
            return Err(QueryError(text));
        }
        queries.last += 1;
        let id = queries.last;
        let (text, db) = (text.to_owned(), db.to_owned());
        let query = RunningQuery { id, text, db, since: Instant::now(), cancel: cancel.clone() };
        queries.running.insert(id, query);
        Ok(QueryRegistration { id, registry: Arc::clone(self) })
    }

    /// The running queries, the oldest first.
    pub fn running(&self) -> Vec<RunningQuery> {
        self.lock().running.values().cloned().collect()
    }

    /// Ends a query as soon as it asks.
    ///
    /// # Errors
    /// When there is none of that number, or it has been ended already.
    pub fn kill(&self, id: u64) -> Result<(), QueryError> {
        let cancel = self.lock().running.get(&id).map(|query| query.cancel.clone());
        let Some(cancel) = cancel else {
            return Err(QueryError(format!("no such query id: {id}")));
        };
        if cancel.is_ended() {
            return Err(QueryError("query already killed".to_owned()));
        }
        cancel.end();
        Ok(())
    }
}

/// A duration as Go's `Duration.String` writes it, `1h2m3.5s`, cut to its largest unit as
/// `SHOW QUERIES` does.
pub fn rough(duration: Duration) -> String {
    let ns = i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX);
    let unit = [1_000_000_000, 1_000_000, 1_000].into_iter().find(|unit| ns >= *unit);
    go_duration(ns - ns % unit.unwrap_or(1))
}

/// A duration as Go's `Duration.String` writes it: `168h0m0s`, `1.5s`, `20ms`, `0s`.
pub fn go_duration(ns: i64) -> String {
    let sign = if ns < 0 { "-" } else { "" };
    let size = ns.unsigned_abs();
    let small = [(1_000_000_000, ""), (1_000_000, "ms"), (1_000, "µs"), (1, "ns")];
    if size == 0 {
        return "0s".to_owned();
    }
    if size < 1_000_000_000 {
        let (unit, name) = small.into_iter().find(|(unit, _)| size >= *unit).unwrap_or((1, "ns"));
        return format!("{sign}{}{name}", decimal(size, unit));
    }
    let (minutes, rest) = (size / 60_000_000_000, size % 60_000_000_000);
    let seconds = decimal(rest, 1_000_000_000);
    match (minutes / 60, minutes % 60) {
        (0, 0) => format!("{sign}{seconds}s"),
        (0, minutes) => format!("{sign}{minutes}m{seconds}s"),
        (hours, minutes) => format!("{sign}{hours}h{minutes}m{seconds}s"),
    }
}

/// `size` in units, with as many digits behind the point as it takes.
fn decimal(size: u64, unit: u64) -> String {
    let (whole, rest) = (size / unit, size % unit);
    if rest == 0 {
        return whole.to_string();
    }
    let digits = unit.ilog10() as usize;
    let fraction = format!("{rest:0digits$}");
    format!("{whole}.{}", fraction.trim_end_matches('0'))
}

#[cfg(test)]
mod tests {
    use super::super::context::Limits;
    use super::*;

    #[test]
    fn a_query_is_listed_while_it_runs_and_can_be_killed_once() {
        let registry = Arc::new(Registry::default());
        let cancel = Cancel::new(&Limits::default());
        let place = registry.enter("SELECT 1", "db", &cancel, 1).unwrap();
        let refused = registry.enter("SELECT 2", "db", &cancel, 1).unwrap_err();
        assert_eq!(refused.0, "max-concurrent-queries limit exceeded(1, 1)");
        assert_eq!(registry.running().len(), 1);
        assert_eq!(registry.kill(99).unwrap_err().0, "no such query id: 99");
        assert_eq!(registry.kill(place.id()), Ok(()));
        assert!(cancel.is_ended());
        assert_eq!(registry.kill(place.id()).unwrap_err().0, "query already killed");
        drop(place);
        assert!(registry.running().is_empty());
    }

    #[test]
    fn durations_are_written_as_go_does() {
        let expected = [
            (0, "0s"),
            (1, "1ns"),
            (1_500, "1.5µs"),
            (20_000_000, "20ms"),
            (1_500_000_000, "1.5s"),
            (61_000_000_000, "1m1s"),
            (604_800_000_000_000, "168h0m0s"),
            (90_060_000_000_001, "25h1m0.000000001s"),
            (-1_000_000_000, "-1s"),
        ];
        for (ns, text) in expected {
            assert_eq!(go_duration(ns), text);
        }
        assert_eq!(rough(Duration::from_nanos(1_999_999_999)), "1s");
        assert_eq!(rough(Duration::from_nanos(56_789)), "56µs");
    }
}
