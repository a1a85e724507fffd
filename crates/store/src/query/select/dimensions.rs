//! `GROUP BY time()`: its forms, and where its windows begin.

use wire::influxql::ast::{Dimension, Expr, TimeOffset};

use super::compile::error;
use crate::condition::{Constants, looks_like_time, reduce};
use crate::refusal::QueryError;

/// Days from the year 1, from which Go counts, to 1970.
const DAYS_TO_1970: i128 = 719_162;
const DAY_NS: i128 = 86_400_000_000_000;

/// `GROUP BY time`.
pub(in crate::query) fn without_arguments() -> QueryError {
    error("time() is a function and expects at least one argument")
}

/// What the parser could not make a dimension of.
///
/// # Errors
/// When it is none, in InfluxDB's words.
pub(in crate::query) fn other(expr: &Expr) -> Result<Dimension, QueryError> {
    let expr = reduce(expr, Constants { now_ns: None, zone: None });
    let (name, arguments) = match expr {
        Expr::Call { name, arguments } => (name, arguments),
        Expr::Reference { name, .. } if name.eq_ignore_ascii_case("time") => {
            return Err(without_arguments());
        }
        Expr::Reference { name, .. } => return Ok(Dimension::Tag(name)),
        Expr::Wildcard(kind) => return Ok(Dimension::Wildcard(kind)),
        Expr::Regex(pattern) => return Ok(Dimension::Regex(pattern)),
        _ => return Err(error("only time and tag dimensions allowed")),
    };
    if name != "time" {
        return Err(error("only time() calls allowed in dimensions"));
    }
    let (interval, offset) = match arguments.as_slice() {
        [interval] => (interval, None),
        [interval, offset] => (interval, Some(offset)),
        _ => return Err(error("time dimension expected 1 or 2 arguments")),
    };
    let Expr::Duration(interval_ns) = *interval else {
        return Err(error("time dimension must have duration argument"));
    };
    let offset = match offset {
        None => TimeOffset::Duration(0),
        Some(Expr::Duration(offset)) => TimeOffset::Duration(*offset),
        Some(Expr::Time(time)) => TimeOffset::Time(*time),
        // It is understood, and then refused by whoever counts the windows.
        Some(text @ Expr::String(time)) if looks_like_time(time) => {
            return Err(QueryError(format!("invalid time dimension offset: {text}")));
        }
        Some(Expr::Call { name, .. }) if name != "now" => {
            return Err(error("time dimension offset function must be now()"));
        }
        Some(Expr::Call { arguments, .. }) if !arguments.is_empty() => {
            return Err(error("time dimension offset now() function requires no arguments"));
        }
        Some(Expr::Call { .. }) => TimeOffset::Now,
        Some(_) => return Err(error("time dimension offset must be duration or now()")),
    };
    Ok(Dimension::Time { interval_ns, offset })
}

/// By how much windows begin later than at multiples of their duration.
pub(super) fn shift(offset: TimeOffset, duration: i64, now_ns: i64) -> i64 {
    if duration == 0 {
        return 0;
    }
    // Go cuts times to multiples since the year 1, which was a Monday.
    let within = |time: i64| {
        let since_year_1 = i128::from(time) + DAYS_TO_1970 * DAY_NS;
        i64::try_from(since_year_1.rem_euclid(i128::from(duration))).unwrap_or(0)
    };
    match offset {
        TimeOffset::Duration(offset) => offset.checked_rem(duration).unwrap_or(0),
        TimeOffset::Time(time) => within(time),
        TimeOffset::Now => within(now_ns),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weeks_that_begin_at_a_time_count_from_the_year_1() {
        let week = 7 * 86_400_000_000_000;
        // 1970-01-01 is three days after a Monday.
        assert_eq!(shift(TimeOffset::Time(0), week, 0), 3 * 86_400_000_000_000);
        assert_eq!(shift(TimeOffset::Duration(-5), 10, 0), -5);
    }
}
