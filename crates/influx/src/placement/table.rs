//! The table of a cluster: its sets, and which of them has which points.

use regex::bytes::Regex;

use super::split::{SplitBy, SplitHash};

/// Nanoseconds from the first of January of the year 1, where Go's clock begins, to 1970.
const NS_TO_1970: i128 = 719_162 * 86_400_000_000_000;

/// The number of a set in its table.
pub type SetNumber = usize;

/// Backends that are copies of each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Set {
    pub name: String,
    pub members: Vec<String>,
}

/// The sets of a cluster and the periods of its points' time, of which each has exactly one set
/// for any point.
#[derive(Debug)]
pub struct Table {
    pub(super) sets: Vec<Set>,
    /// Each ends where the next one begins; the first begins with time itself.
    pub(super) periods: Vec<Period>,
    /// Points at or past this time wait until they have a period, in nanoseconds since 1970.
    pub(super) waits_from_ns: Option<i64>,
    /// Queries that reach this time are refused, since others know a period that begins there.
    pub(super) unknown_from_ns: Option<i64>,
}

/// How points are shared out over a period of their time.
#[derive(Clone, Debug)]
pub struct Period {
    pub from_ns: i64,
    pub sets: Vec<SetNumber>,
    pub span_ns: i64,
    pub future_max_ns: i64,
    /// The last one is for all that the others are not for.
    pub rules: Vec<Rule>,
}

/// How points of some databases and measurements are shared out.
#[derive(Clone, Debug)]
pub struct Rule {
    pub database: Option<Regex>,
    pub measurement: Option<Regex>,
    /// How many sets share the points of a group.
    pub split: usize,
    pub by: SplitBy,
}

impl Rule {
    pub fn is_of(&self, db: &str) -> bool {
        self.database.as_ref().is_none_or(|pattern| pattern.is_match(db.as_bytes()))
    }

    /// Whether it is for a measurement, as its name reads without escapes.
    pub fn has(&self, measurement: &[u8]) -> bool {
        self.measurement.as_ref().is_none_or(|pattern| pattern.is_match(measurement))
    }
}

impl Period {
    /// The number of the group that a time is in, counted from the year 1.
    pub fn group(&self, time_ns: i64) -> u128 {
        // The first time there is lies behind the year 1.
        ((i128::from(time_ns) + NS_TO_1970) / i128::from(self.span_ns)).unsigned_abs()
    }

    /// The set of a group that shares it out over `split` sets and whose points have `hash`.
    pub fn set(&self, group: u128, split: usize, hash: u64) -> SetNumber {
        let within = u128::from(hash) % (split as u128);
        let at = (group * split as u128 + within) % self.sets.len() as u128;
        // Less than the number of sets.
        self.sets.get(at as usize).copied().unwrap_or_default()
    }

    /// The set of a point of this time that has `hash`, where `split` sets share a group.
    pub fn set_at(&self, time_ns: i64, split: usize, hash: u64) -> SetNumber {
        // Where all sets share each group, it does not matter which it is.
        let group = if split == self.sets.len() { 0 } else { self.group(time_ns) };
        self.set(group, split, hash)
    }

    /// The rule for the points of a series, as it is written.
    pub fn rule_of_series(&self, db: &str, series: &[u8]) -> Option<&Rule> {
        self.rule(db, &wire::line::unescape_name(wire::line::measurement(series)))
    }

    /// The rule for a measurement, as its name reads without escapes.
    pub fn rule(&self, db: &str, measurement: &[u8]) -> Option<&Rule> {
        self.rules.iter().find(|rule| rule.is_of(db) && rule.has(measurement))
    }
}

impl Table {
    pub fn sets(&self) -> &[Set] {
        &self.sets
    }

    /// The set that a backend is a member of.
    pub fn set_of(&self, backend: &str) -> Option<SetNumber> {
        self.sets.iter().position(|set| set.members.iter().any(|member| member == backend))
    }

    /// The period that a time is in, with its place among all.
    pub fn period(&self, time_ns: i64) -> Option<(usize, &Period)> {
        let behind = self.periods.partition_point(|period| period.from_ns <= time_ns);
        behind.checked_sub(1).and_then(|at| Some((at, self.periods.get(at)?)))
    }

    /// The set of a point of `db`; `series` is as written.
    pub fn set_of_point(&self, db: &str, series: &[u8], time_ns: i64) -> SetNumber {
        let Some((_, period)) = self.period(time_ns) else { return 0 };
        let Some(rule) = period.rule_of_series(db, series) else { return 0 };
        let hash = SplitHash::default().of_point(&rule.by, series, time_ns);
        period.set_at(time_ns, rule.split, hash)
    }

    /// Whether points of this time wait.
    pub fn holds_back(&self, time_ns: i64) -> bool {
        self.waits_from_ns.is_some_and(|from| time_ns >= from)
    }

    /// Whether it has a period at all.
    pub fn is_empty(&self) -> bool {
        self.periods.is_empty()
    }

    /// How far ahead of the clock a point can lie that was ever taken.
    pub fn future_max_ns(&self) -> i64 {
        self.periods.iter().map(|period| period.future_max_ns).max().unwrap_or(0)
    }
}

impl Table {
    /// Where the point of a line lies, in words; `None` where it is no line with a time.
    pub fn explain(&self, db: &str, line: &[u8]) -> Option<String> {
        let point = wire::line::read(line)?;
        let (_, period) = self.period(point.time_ns)?;
        let rule = period.rule_of_series(db, point.series)?;
        let set = self.sets.get(self.set_of_point(db, point.series, point.time_ns))?;
        let (of, members) = (period.sets.len(), set.members.join(", "));
        let (name, group, split) = (&set.name, period.group(point.time_ns), rule.split);
        Some(format!(
            "set {name}, on {members}: group {group}, shared by {split} of {of} sets, by {}",
            rule.by
        ))
    }
}
