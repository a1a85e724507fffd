//! What a `SELECT` reads of each measurement, for points that have to be brought from elsewhere
//! before it can be executed.

use std::collections::BTreeMap;

use wire::influxql::ast::{Cast, Expr, Field, Measurement, Op, Select, Source, WildcardKind};

use super::compile::{self, Compiled};
use super::expressions::{is_math, walk};
use super::prepare::{is_wild, is_wild_dimension};
use crate::query::window::{MAX_TIME, MIN_TIME};
use crate::refusal::QueryError;
use crate::scan::TimeRange;

/// The fields that are read of a measurement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FieldNames {
    /// All that there are.
    All,
    /// These, as far as they are fields, each as a type. Another one than [`Cast::AnyField`] leaves
    /// out the values that are not of it.
    Some(BTreeMap<String, Cast>),
}

/// The points that are read of a measurement, or of all that match a pattern.
#[derive(Clone, Debug, PartialEq)]
pub struct MeasurementRead {
    /// The measurement, as the statement names it.
    pub measurement: Measurement,
    /// Points that have none of these fields are not read.
    pub fields: FieldNames,
    /// Whether tag keys that no point has matter: the statement has columns or groups for all of
    /// them, or computes with what may be one.
    pub has_all_tags: bool,
    /// The times of the points.
    pub range: TimeRange,
    /// What the points have to be besides; nothing is said of time.
    pub condition: Option<Expr>,
    /// How many points of each series are enough, the newest where `descending`; 0 is all of them.
    pub limit: u64,
    /// Whether the newest come first.
    pub descending: bool,
}

/// What a statement reads.
#[derive(Clone, Debug, PartialEq)]
pub struct Reads {
    /// One for each measurement of `FROM`, those of sub-queries with them.
    pub measurements: Vec<MeasurementRead>,
    /// What remains to be executed on points that were read so: conditions that all of them fulfil
    /// are left out.
    pub select: Select,
    /// Whether each row is made of one point of one measurement of `FROM`, and all groups are told.
    pub is_raw: bool,
}

impl Reads {
    /// Of a statement whose `now()` is `now_ns`.
    ///
    /// # Errors
    /// What InfluxDB finds wrong with the statement before it looks for points.
    pub fn of(select: &Select, now_ns: i64) -> Result<Self, QueryError> {
        let compiled = compile::compile(select, now_ns)?;
        let is_raw = is_raw(&compiled);
        let mut reads = Self { measurements: Vec::new(), select: select.clone(), is_raw };
        let limit = match edge(&compiled) {
            Some(descending) => ReadLimit { rows: 1, descending },
            None => {
                ReadLimit { rows: rows_enough(&compiled), descending: compiled.select.descending }
            }
        };
        add(&compiled, limit, &mut reads.measurements);
        relieve(&mut reads.select, &compiled);
        Ok(reads)
    }
}

/// How many points of each series are read; 0 is all of them.
#[derive(Clone, Copy)]
struct ReadLimit {
    rows: u64,
    descending: bool,
}

/// Adds what a statement reads, its sub-queries with it.
fn add(compiled: &Compiled, limit: ReadLimit, into: &mut Vec<MeasurementRead>) {
    let select = &compiled.select;
    let fields = field_names(compiled);
    let needs_tags = |field: &Field| is_wild(&field.expr) || is_computed(&field.expr);
    let has_all_tags =
        select.fields.iter().any(needs_tags) || select.dimensions.iter().any(is_wild_dimension);
    for (source, inner) in select.sources.iter().zip(&compiled.subqueries) {
        match (source, inner) {
            (Source::Measurement(measurement), _) => into.push(MeasurementRead {
                measurement: measurement.clone(),
                fields: fields.clone(),
                has_all_tags,
                range: times(compiled),
                condition: select.condition.clone(),
                limit: limit.rows,
                descending: limit.descending,
            }),
            (Source::Subquery(_), Some(inner)) => {
                let descending = inner.select.descending;
                add(inner, ReadLimit { rows: 0, descending }, into);
            }
            (Source::Subquery(_), None) => {}
        }
    }
}

/// Takes the conditions of the points out of statements that read nothing but these, and says
/// their times.
pub(super) fn relieve(select: &mut Select, compiled: &Compiled) {
    for (source, inner) in select.sources.iter_mut().zip(&compiled.subqueries) {
        if let (Source::Subquery(select), Some(inner)) = (source, inner) {
            relieve(select, inner);
        }
    }
    if has_only_measurements(compiled) {
        let TimeRange { min, max } = compiled.time;
        let (min, max) = ((min > MIN_TIME).then_some(min), (max < MAX_TIME).then_some(max));
        let bound = |op: Op, time: i64| Expr::Binary {
            op,
            left: Box::new(Expr::Reference { name: "time".to_owned(), cast: None }),
            right: Box::new(Expr::Time(time)),
        };
        let (min, max) = (
            min.map(|min| bound(Op::GreaterOrEqual, min)),
            max.map(|max| bound(Op::LessOrEqual, max)),
        );
        select.condition = match (min, max) {
            (Some(left), Some(right)) => {
                let (left, right) = (Box::new(left), Box::new(right));
                Some(Expr::Binary { op: Op::And, left, right })
            }
            (one, other) => one.or(other),
        };
    }
}

fn has_only_measurements(compiled: &Compiled) -> bool {
    compiled.subqueries.iter().all(Option::is_none)
}

/// The names that are fields, if there are such fields.
fn field_names(compiled: &Compiled) -> FieldNames {
    let select = &compiled.select;
    let (mut names, mut has_all) = (BTreeMap::new(), false);
    for field in &select.fields {
        walk(&field.expr, &mut |expr| {
            has_all |=
                matches!(expr, Expr::Wildcard(None | Some(WildcardKind::Field)) | Expr::Regex(_));
            add_name(expr, &mut names);
            true
        });
    }
    // The points that are read fulfil it already, unless rows of a sub-query stand beside them.
    let condition = select.condition.iter().filter(|_| !has_only_measurements(compiled));
    for condition in condition {
        walk(condition, &mut |expr| {
            add_name(expr, &mut names);
            true
        });
    }
    if has_all { FieldNames::All } else { FieldNames::Some(names) }
}

/// Adds a name. Of several types that are said of it none is taken; nor is a number's, which the
/// executor makes of any other.
fn add_name(expr: &Expr, names: &mut BTreeMap<String, Cast>) {
    let (name, cast) = match expr {
        Expr::Reference { cast: Some(Cast::Tag), .. } => return,
        Expr::Reference { name, .. } if name == "time" => return,
        Expr::Reference { name, cast: Some(cast @ (Cast::String | Cast::Boolean)) } => {
            (name, *cast)
        }
        Expr::Reference { name, .. } | Expr::Distinct(name) => (name, Cast::AnyField),
        _ => return,
    };
    let known = names.entry(name.clone()).or_insert(cast);
    if *known != cast {
        *known = Cast::AnyField;
    }
}

fn is_computed(expr: &Expr) -> bool {
    let mut found = false;
    walk(expr, &mut |inner| {
        found |= matches!(inner, Expr::Binary { .. });
        true
    });
    found
}

/// The times that a statement reads: those asked for, and what is needed before them for the first
/// values of some functions.
fn times(compiled: &Compiled) -> TimeRange {
    let mut windows: i64 = 0;
    for field in &compiled.select.fields {
        let mut of_field: i64 = 0;
        walk(&field.expr, &mut |expr| {
            of_field = of_field.saturating_add(compile::windows_before(expr));
            true
        });
        windows = windows.max(of_field);
    }
    let by = windows.saturating_mul(compiled.interval.duration);
    let TimeRange { min, max } = compiled.time;
    match compiled.select.descending {
        true => TimeRange { min, max: max.saturating_add(by).min(MAX_TIME) },
        false => TimeRange { min: min.saturating_sub(by).max(MIN_TIME), max },
    }
}

/// Of `first()` or `last()` of one field over all of time as one window: whether the newest point
/// of each series is enough, or the oldest.
fn edge(compiled: &Compiled) -> Option<bool> {
    let [field] = &compiled.select.fields[..] else { return None };
    let Expr::Call { name, arguments } = &field.expr else { return None };
    let is_one_field = matches!(&arguments[..], [Expr::Reference { .. }]);
    let is_one_window = compiled.interval.duration == 0 && has_only_measurements(compiled);
    match name.as_str() {
        "first" if is_one_field && is_one_window => Some(false),
        "last" if is_one_field && is_one_window => Some(true),
        _ => None,
    }
}

/// Whether the rows of a statement are points as they are, of one source and of all groups.
fn is_raw(compiled: &Compiled) -> bool {
    let select = &compiled.select;
    let mut is_raw = has_only_measurements(compiled)
        && select.sources.len() == 1
        && (select.series_limit, select.series_offset) == (0, 0)
        && select.target.is_none();
    for field in &select.fields {
        walk(&field.expr, &mut |inner| {
            is_raw &= match inner {
                Expr::Call { name, .. } => is_math(name),
                Expr::Distinct(_) => false,
                _ => true,
            };
            true
        });
    }
    is_raw
}

/// How many points of each series are enough for the outermost statement; 0 is all of them.
fn rows_enough(compiled: &Compiled) -> u64 {
    let select = &compiled.select;
    let is_point = |expr: &Expr| {
        let mut is_point = true;
        walk(expr, &mut |inner| {
            is_point &= match inner {
                Expr::Call { name, .. } => is_math(name),
                // A point counts that has any of the fields that are read.
                Expr::Distinct(_) | Expr::Regex(_) | Expr::Wildcard(Some(WildcardKind::Tag)) => {
                    false
                }
                _ => true,
            };
            true
        });
        is_point
    };
    let is_raw = has_only_measurements(compiled)
        && select.fields.iter().all(|field| is_point(&field.expr))
        && !(select.fields.iter().any(|field| matches!(field.expr, Expr::Wildcard(_)))
            && select.fields.len() > 1);
    match select.limit {
        limit if limit > 0 && is_raw => limit.saturating_add(select.offset),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use wire::influxql::ast::Statement;

    use super::*;

    fn reads(sql: &str) -> Reads {
        let parsed = wire::influxql::parse(sql, &wire::influxql::Params::default()).unwrap();
        let Some(Statement::Select(select)) = parsed.first() else { panic!("{sql}") };
        Reads::of(select, 1_000).unwrap()
    }

    fn one(sql: &str) -> MeasurementRead {
        let mut all = reads(sql).measurements;
        assert_eq!(all.len(), 1, "{sql}");
        all.remove(0)
    }

    fn names(of: &[&str]) -> FieldNames {
        FieldNames::Some(of.iter().map(|&name| (name.to_owned(), Cast::AnyField)).collect())
    }

    #[test]
    fn the_fields_are_those_that_are_selected() {
        for (sql, wanted) in [
            ("SELECT v FROM m WHERE host = 'a' AND w > 1", names(&["v"])),
            ("SELECT a + b, host::tag FROM m", names(&["a", "b"])),
            ("SELECT percentile(v, 99), max(w) FROM m", names(&["v", "w"])),
            ("SELECT DISTINCT v FROM m", names(&["v"])),
            ("SELECT * FROM m", FieldNames::All),
            ("SELECT mean(/v/) FROM m", FieldNames::All),
            ("SELECT host::tag, time + 1 FROM m", names(&[])),
        ] {
            assert_eq!(one(sql).fields, wanted, "{sql}");
        }
        let texts = FieldNames::Some([("v".to_owned(), Cast::String)].into());
        assert_eq!(one("SELECT v::string FROM m").fields, texts);
        assert_eq!(one("SELECT v::string, v::float FROM m").fields, names(&["v"]));
        let two = reads("SELECT v FROM m, (SELECT w FROM n WHERE x > 1) WHERE y > 2");
        let fields: Vec<_> = two.measurements.into_iter().map(|read| read.fields).collect();
        assert_eq!(fields, [names(&["v", "y"]), names(&["w"])]);
    }

    #[test]
    fn rows_are_raw_that_are_made_of_one_point_each() {
        for (sql, is_raw) in [
            ("SELECT v FROM m LIMIT 10", true),
            ("SELECT *, abs(v) * 2 FROM /m/ GROUP BY host", true),
            ("SELECT v FROM m, n", false),
            ("SELECT v FROM m GROUP BY * SLIMIT 1", false),
            ("SELECT DISTINCT v FROM m", false),
            ("SELECT difference(v) FROM m", false),
            ("SELECT v FROM (SELECT v FROM m)", false),
        ] {
            assert_eq!(reads(sql).is_raw, is_raw, "{sql}");
        }
    }

    #[test]
    fn times_reach_back_for_what_functions_need() {
        let range = |sql: &str| {
            let TimeRange { min, max } = one(sql).range;
            (min, max)
        };
        assert_eq!(range("SELECT v FROM m WHERE time >= 100 AND time < 200"), (100, 199));
        let windows = "FROM m WHERE time >= 100 AND time < 200 GROUP BY time(10ns)";
        assert_eq!(range(&format!("SELECT derivative(mean(v)) {windows}")), (90, 199));
        let nested = format!("SELECT difference(moving_average(mean(v), 3)) {windows}");
        assert_eq!(range(&nested), (60, 199));
        let newest = format!("SELECT difference(mean(v)) {windows} ORDER BY time DESC");
        assert_eq!(range(&newest), (100, 209));
        let inner = "SELECT max(x) FROM (SELECT mean(v) AS x FROM m) WHERE time > 9 AND time < 20";
        assert_eq!(range(inner), (10, 19));
    }

    #[test]
    fn so_many_points_are_read_as_the_limit_lets_through() {
        for (sql, limit) in [
            ("SELECT v FROM m LIMIT 10", 10),
            ("SELECT v * 2, abs(w) FROM m WHERE x > 1 LIMIT 10 OFFSET 5", 15),
            ("SELECT * FROM m LIMIT 1", 1),
            ("SELECT v FROM m", 0),
            ("SELECT median(v) FROM m LIMIT 10", 0),
            ("SELECT /v/ FROM m LIMIT 10", 0),
            ("SELECT v FROM (SELECT v FROM m) LIMIT 10", 0),
            ("SELECT x FROM (SELECT v AS x FROM m LIMIT 3)", 0),
        ] {
            assert_eq!(one(sql).limit, limit, "{sql}");
        }
        assert!(one("SELECT v FROM m ORDER BY time DESC LIMIT 1").descending);
        for (sql, wanted) in [
            ("SELECT last(v) FROM m", (1, true)),
            ("SELECT first(v) FROM m ORDER BY time DESC", (1, false)),
            ("SELECT last(v) FROM m GROUP BY time(1h)", (0, false)),
            ("SELECT last(v), w FROM m", (0, false)),
        ] {
            let read = one(sql);
            assert_eq!((read.limit, read.descending), wanted, "{sql}");
        }
    }

    #[test]
    fn what_remains_to_be_executed_has_no_condition_that_members_have_seen_to() {
        let sql = "SELECT v FROM m WHERE time > 5 AND host = 'a'";
        let reads = reads(sql);
        assert_eq!(reads.measurements[0].condition.as_ref().unwrap().to_string(), "host = 'a'");
        let rest = reads.select.condition.unwrap().to_string();
        assert!(!rest.contains("host") && rest.contains("time >="), "{rest}");
        let outer = self::reads("SELECT x FROM (SELECT v AS x FROM m WHERE w = 1) WHERE x > 3");
        assert!(outer.select.to_string().contains("x > 3"));
        assert!(!outer.select.to_string().contains("w = 1"));
    }
}
