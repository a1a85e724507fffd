//! `WHERE`, taken apart: a span of time, a condition on tags, and what is left for the rows.

mod filter;
mod literal;
mod reduce;
mod rows;

use jiff::tz::TimeZone;
use wire::influxql::ast::{Expr, Op};

use crate::refusal::QueryError;
use crate::scan::TimeRange;

pub use filter::{Filter, RowFilter, TagReading};
pub use literal::{looks_like_time, parse_time};
#[cfg(test)]
pub use reduce::ordered;
pub use reduce::{Constants, reduce};

/// The first time that a point can have (`influxql.MinTime`).
pub const TIME_MIN: i64 = i64::MIN + 2;
/// The last time that a point can have (`influxql.MaxTime`).
pub const TIME_MAX: i64 = i64::MAX - 1;

/// What a condition says of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimeBounds {
    /// The first nanosecond; `None` where nothing is said.
    pub min: Option<i64>,
    /// The last nanosecond; `None` where nothing is said.
    pub max: Option<i64>,
}

impl TimeBounds {
    /// The span, all of time where nothing is said.
    pub fn range(self) -> TimeRange {
        TimeRange { min: self.min.unwrap_or(TIME_MIN), max: self.max.unwrap_or(TIME_MAX) }
    }

    /// The times that both bounds allow.
    pub fn intersect(self, other: Self) -> Self {
        let both = |a: Option<i64>, b: Option<i64>, of: fn(i64, i64) -> i64| match (a, b) {
            (Some(a), Some(b)) => Some(of(a, b)),
            (one, other) => one.or(other),
        };
        Self { min: both(self.min, other.min, i64::max), max: both(self.max, other.max, i64::min) }
    }
}

/// A condition in two parts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Condition {
    /// What it says of time.
    pub time: TimeBounds,
    /// All else, constants folded; `None` where there is nothing else.
    pub rest: Option<Expr>,
}

/// Takes the time out of a condition (`influxql.ConditionExpr`).
///
/// Comparisons of time under `OR` narrow the time of the whole condition, as in InfluxDB.
///
/// # Errors
/// When it is not a condition, or compares time with what is not a time, in InfluxDB's words.
pub fn split(
    condition: Option<&Expr>,
    now_ns: i64,
    zone: Option<&TimeZone>,
) -> Result<Condition, QueryError> {
    let Some(condition) = condition else { return Ok(Condition::default()) };
    let known = Constants { now_ns: Some(now_ns), zone };
    let mut time = TimeBounds::default();
    let rest = part(condition, known, &mut time)?;
    let rest = rest.map(|rest| if let Expr::Paren(inner) = rest { *inner } else { rest });
    let rest = rest.filter(|rest| *rest != Expr::Boolean(true));
    Ok(Condition { time, rest })
}

fn part(
    condition: &Expr,
    known: Constants<'_>,
    time: &mut TimeBounds,
) -> Result<Option<Expr>, QueryError> {
    match condition {
        Expr::Binary { op: op @ (Op::And | Op::Or), left, right } => {
            let left = part(left, known, time)?;
            let right = part(right, known, time)?;
            match (left, right) {
                (Some(left), Some(right)) => Ok(Some(reduce::binary(*op, left, right, known))),
                (one, other) => Ok(one.or(other)),
            }
        }
        Expr::Binary { op, left, right } if is_time(left) => {
            *time = time.intersect(bounds(*op, right, known)?);
            Ok(None)
        }
        Expr::Binary { op, left, right } if is_time(right) => {
            *time = time.intersect(bounds(swapped(*op), left, known)?);
            Ok(None)
        }
        Expr::Binary { .. } => Ok(Some(reduce(condition, known))),
        Expr::Paren(inner) => Ok(part(inner, known, time)?.map(reduce::paren)),
        Expr::Boolean(_) => Ok(Some(condition.clone())),
        other => Err(QueryError(format!("invalid condition expression: {other}"))),
    }
}

/// Whether an expression is the name of the time.
pub fn is_time(expr: &Expr) -> bool {
    matches!(expr, Expr::Reference { name, .. } if name.eq_ignore_ascii_case("time"))
}

/// Whether a condition says anything of time (`influxql.HasTimeExpr`).
pub fn has_time(condition: &Expr) -> bool {
    match condition {
        Expr::Binary { left, right, .. } => {
            is_time(left) || is_time(right) || has_time(left) || has_time(right)
        }
        Expr::Paren(inner) => has_time(inner),
        _ => false,
    }
}

fn swapped(op: Op) -> Op {
    match op {
        Op::Greater => Op::Less,
        Op::Less => Op::Greater,
        Op::GreaterOrEqual => Op::LessOrEqual,
        Op::LessOrEqual => Op::GreaterOrEqual,
        other => other,
    }
}

/// The span of `time op value`.
fn bounds(op: Op, value: &Expr, known: Constants<'_>) -> Result<TimeBounds, QueryError> {
    let value = instant(value, known)?;
    let (min, max) = match op {
        // InfluxDB wraps around past the last nanosecond, too.
        Op::Greater => (Some(value.wrapping_add(1)), None),
        Op::GreaterOrEqual => (Some(value), None),
        Op::Less => (None, Some(value.wrapping_sub(1))),
        Op::LessOrEqual => (None, Some(value)),
        Op::Equal => (Some(value), Some(value)),
        other => {
            let text = format!("invalid time comparison operator: {other}");
            return Err(QueryError(text));
        }
    };
    Ok(TimeBounds { min, max })
}

/// Nanoseconds since 1970 of what time is compared with.
fn instant(value: &Expr, known: Constants<'_>) -> Result<i64, QueryError> {
    let time = match value {
        Expr::String(text) if looks_like_time(text) => parse_time(text, known.zone)
            .ok_or_else(|| QueryError("invalid timestamp string".to_owned()))?,
        value => match unwrapped(reduce(value, known)) {
            Expr::Time(time) => i128::from(time),
            Expr::Duration(ns) | Expr::Integer(ns) => return Ok(ns),
            Expr::Number(ns) => return Ok(ns as i64),
            other => {
                let kind = other.go_type();
                let text = format!("invalid operation: time and {kind} are not compatible");
                return Err(QueryError(text));
            }
        },
    };
    let beyond = |how| {
        let at = literal::rfc3339(time);
        QueryError(format!("time {at} {how} time literal"))
    };
    match i64::try_from(time) {
        Ok(time) if time > TIME_MIN && time <= TIME_MAX => Ok(time),
        _ if time > 0 => Err(beyond("overflows")),
        _ => Err(beyond("underflows")),
    }
}

fn unwrapped(expr: Expr) -> Expr {
    if let Expr::Paren(inner) = expr { *inner } else { expr }
}

#[cfg(test)]
mod tests;
