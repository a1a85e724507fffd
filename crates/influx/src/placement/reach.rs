//! Which sets can have points that a query asks for. To leave a set out takes a proof.

use std::collections::BTreeSet;

use jiff::Timestamp;
use store::condition::{Condition, TIME_MAX, TIME_MIN, TimeBounds};
use store::query::select::{MeasurementRead, Reads};
use store::query::timezone::Zone;
use wire::influxql::ast::{
    Cast, Dimension, Expr, Measurement, MeasurementName, Op, Select, Show, Source, Statement,
};

use super::split::{SplitBy, SplitHash};
use super::table::{Period, Rule, SetNumber, Table};

/// How much later than the last point that was taken a clock may have been.
const CLOCKS_NS: i64 = 60_000_000_000;

/// Which sets a statement that reads is to be asked of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reach {
    /// All have the same answer.
    Any,
    /// Its points can be in these, of which there is at least one.
    Sets(BTreeSet<SetNumber>),
    /// It tells of the schema, of which each has a part.
    Schema,
    /// Its points can be in no set that is known here.
    Unknown,
}

/// A request's database, and its moment in nanoseconds since 1970.
#[derive(Clone, Copy, Debug)]
pub struct QueryScope<'a> {
    pub db: &'a str,
    pub now_ns: i64,
}

impl Table {
    /// The sets to ask a statement of.
    pub fn reach(&self, statement: &Statement, scope: QueryScope<'_>) -> Reach {
        match statement {
            Statement::Select(select) | Statement::Explain { select, .. }
                if self.is_unknown_from(self.last(select, scope)) =>
            {
                Reach::Unknown
            }
            Statement::Select(select) | Statement::Explain { select, .. } => {
                let mut sets = BTreeSet::new();
                self.reach_of(select, scope, &mut sets);
                // Without a source that could have points any set says what is wrong.
                if sets.is_empty() { Reach::Any } else { Reach::Sets(sets) }
            }
            Statement::Show(
                Show::Measurements(_)
                | Show::Series(_)
                | Show::TagKeys(_)
                | Show::TagValues(_)
                | Show::FieldKeys(_)
                | Show::Cardinality { .. },
            ) => match self.is_unknown_from(self.newest(scope.now_ns)) {
                true => Reach::Unknown,
                false => Reach::Schema,
            },
            _ => Reach::Any,
        }
    }

    /// Whether sets can have points of a time that this table does not know.
    fn is_unknown_from(&self, last_ns: i64) -> bool {
        self.is_empty() || self.unknown_from_ns.is_some_and(|from| last_ns >= from)
    }

    /// The last time that points asked for can have.
    fn last(&self, select: &Select, scope: QueryScope<'_>) -> i64 {
        let own = condition_of(select, scope).map(|condition| condition.time);
        let own = self.span(own.unwrap_or_default(), scope.now_ns).1;
        let of_source = |source: &Source| match source {
            Source::Subquery(inner) => self.last(inner, scope),
            Source::Measurement(_) => own,
        };
        select.sources.iter().map(of_source).max().unwrap_or(own)
    }

    fn reach_of(&self, select: &Select, scope: QueryScope<'_>, sets: &mut BTreeSet<SetNumber>) {
        // Whoever runs it says what is wrong.
        let Some(condition) = condition_of(select, scope) else { return };
        for source in &select.sources {
            match source {
                // What the outer one says of time narrows its rows; it is not needed for a proof.
                Source::Subquery(inner) => self.reach_of(inner, scope, sets),
                Source::Measurement(of) => self.reach_of_points(of, &condition, scope, sets),
            }
        }
    }

    fn reach_of_points(
        &self,
        of: &Measurement,
        condition: &Condition,
        scope: QueryScope<'_>,
        sets: &mut BTreeSet<SetNumber>,
    ) {
        let db = of.db.as_deref().unwrap_or(scope.db);
        let (first, last) = self.span(condition.time, scope.now_ns);
        for (at, period) in self.periods.iter().enumerate() {
            let next = self.periods.get(at + 1).map(|next| next.from_ns);
            let first = first.max(period.from_ns);
            let last = next.map_or(last, |next| last.min(next.saturating_sub(1)));
            if first > last {
                continue;
            }
            let groups = period.group(first)..=period.group(last);
            for rule in period.rules_for(db, &of.name) {
                let tag = |key: &[u8]| equal(condition.rest.as_ref(), key);
                let hash = match &of.name {
                    MeasurementName::Name(name) => {
                        SplitHash::default().of_query(&rule.by, name, tag)
                    }
                    MeasurementName::Regex(_) | MeasurementName::Same => None,
                };
                period.add_sets(groups.clone(), rule, hash, sets);
            }
        }
    }

    /// Whether all points of each group that a query asks for lie in one set.
    pub fn has_whole_groups(&self, select: &Select, scope: QueryScope<'_>) -> bool {
        let Some(condition) = condition_of(select, scope) else { return false };
        let (first, last) = self.span(condition.time, scope.now_ns);
        let within = |period: &&Period| period.from_ns <= last;
        let mut periods = self.periods.iter().filter(within).rev();
        // The last one that begins within the time, and none before it.
        let Some(period) = periods.next() else { return false };
        if first < period.from_ns && periods.next().is_some() {
            return false;
        }
        let is_one_group = period.group(first) == period.group(last);
        select.sources.iter().all(|source| {
            let Source::Measurement(of) = source else { return false };
            let db = of.db.as_deref().unwrap_or(scope.db);
            period.rules_for(db, &of.name).into_iter().all(|rule| {
                let keeps_its_set = is_one_group || rule.split == period.sets.len();
                keeps_its_set && has_split(&select.dimensions, &rule.by)
            })
        })
    }

    /// Whether a query says when the first of its points is.
    pub fn has_lower_bound(&self, select: &Select, scope: QueryScope<'_>) -> bool {
        condition_of(select, scope).is_some_and(|condition| condition.time.min.is_some())
    }

    /// Whether the clocks of a query's time zone are changed within its time, or a day around it.
    pub fn has_clock_change(&self, select: &Select, scope: QueryScope<'_>) -> bool {
        const DAY_NS: i64 = 24 * 3_600_000_000_000;
        let zone = select.timezone.as_deref().and_then(|name| Zone::named(name).ok());
        let Some(zone) = zone else { return false };
        let time = condition_of(select, scope).map(|condition| condition.time);
        let (first, last) = self.span(time.unwrap_or_default(), scope.now_ns);
        let at = |ns: i64| Timestamp::from_nanosecond(i128::from(ns)).unwrap_or_default();
        let mut changes = zone.zone().following(at(first.saturating_sub(DAY_NS)));
        let last = at(last.saturating_add(DAY_NS));
        changes.next().is_some_and(|change| change.timestamp() <= last)
    }

    /// The last time that any point can have.
    fn newest(&self, now_ns: i64) -> i64 {
        now_ns.saturating_add(self.future_max_ns()).saturating_add(CLOCKS_NS)
    }

    /// The first and the last time that points asked for can have.
    fn span(&self, time: TimeBounds, now_ns: i64) -> (i64, i64) {
        let last = time.max.unwrap_or(TIME_MAX).min(self.newest(now_ns));
        (time.min.unwrap_or(TIME_MIN), last)
    }
}

impl Period {
    /// The rules that measurements of this name or pattern can fall under.
    fn rules_for(&self, db: &str, name: &MeasurementName) -> Vec<&Rule> {
        match name {
            MeasurementName::Name(name) => self.rule(db, name.as_bytes()).into_iter().collect(),
            MeasurementName::Regex(_) | MeasurementName::Same => {
                self.rules.iter().filter(|rule| rule.is_of(db)).collect()
            }
        }
    }

    /// Adds the sets that points of these groups can be in; with `hash` where all have that one.
    fn add_sets(
        &self,
        groups: std::ops::RangeInclusive<u128>,
        rule: &Rule,
        hash: Option<u64>,
        sets: &mut BTreeSet<SetNumber>,
    ) {
        // Behind as many groups as there are sets it begins again.
        for group in groups.take(self.sets.len()) {
            match hash {
                Some(hash) => sets.extend([self.set(group, rule.split, hash)]),
                None => sets.extend((0..rule.split as u64).map(|n| self.set(group, rule.split, n))),
            }
        }
    }
}

/// What a query says in `WHERE`; `None` where that can't be.
fn condition_of(select: &Select, scope: QueryScope<'_>) -> Option<Condition> {
    let zone = select.timezone.as_deref().map(Zone::named).transpose().ok()?;
    let zone = zone.as_ref().map(Zone::zone);
    let said = store::condition::split(select.condition.as_ref(), scope.now_ns, zone).ok()?;
    Some(Condition { time: needed(select, said.time, scope), ..said })
}

/// The times of the points that a query needs: `derivative(mean(v))` and its like need windows
/// before the first that is said, or behind the last in descending order.
fn needed(select: &Select, said: TimeBounds, scope: QueryScope<'_>) -> TimeBounds {
    // Whoever runs it says what is wrong.
    let Ok(reads) = Reads::of(select, scope.now_ns) else { return said };
    let is_own = |read: &&MeasurementRead| {
        let mut own = select.sources.iter().filter_map(|source| match source {
            Source::Measurement(of) => Some(of),
            Source::Subquery(_) => None,
        });
        own.any(|of| *of == read.measurement)
    };
    reads.measurements.iter().filter(is_own).fold(said, |time, read| TimeBounds {
        min: time.min.map(|min| min.min(read.range.min)),
        max: time.max.map(|max| max.max(read.range.max)),
    })
}

/// Whether points of different hashes are in different groups.
fn has_split(dimensions: &[Dimension], by: &SplitBy) -> bool {
    let has_all = dimensions.iter().any(|of| matches!(of, Dimension::Wildcard(_)));
    match by {
        SplitBy::Measurement => true,
        SplitBy::Series => has_all,
        SplitBy::Point => false,
        SplitBy::Tags(keys) => {
            let has = |key: &[u8]| {
                dimensions
                    .iter()
                    .any(|of| matches!(of, Dimension::Tag(tag) if tag.as_bytes() == key))
            };
            has_all || keys.iter().all(|key| has(key))
        }
    }
}

/// The value that a condition demands of a tag.
fn equal<'a>(condition: Option<&'a Expr>, key: &[u8]) -> Option<&'a str> {
    match condition? {
        Expr::Paren(inner) => equal(Some(inner), key),
        Expr::Binary { op: Op::And, left, right } => {
            equal(Some(left), key).or_else(|| equal(Some(right), key))
        }
        Expr::Binary { op: Op::Equal, left, right } => match (&**left, &**right) {
            (Expr::Reference { name, cast: None | Some(Cast::Tag) }, Expr::String(value))
            | (Expr::String(value), Expr::Reference { name, cast: None | Some(Cast::Tag) })
                if name.as_bytes() == key =>
            {
                Some(value)
            }
            _ => None,
        },
        _ => None,
    }
}
