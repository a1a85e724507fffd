//! Deletions that InfluxDB carries further than their condition says. They are refused.
//!
//! InfluxDB deletes by its index of series, which goes by the presence of tags: for `h = r` it
//! deletes every series that has both tags, for `h > 'a'` every one but those of `h = 'a'`
//! (`tsdb/index.go`, `seriesByBinaryExprVarRefIterator`, `seriesByBinaryExprStringIterator`). Its
//! times wrap around: `time > 9223372036854775807` is all of time. What is said of other
//! comparisons holds of every series that they delete.

use wire::influxql::ast::{Expr, Op, Selection, Statement};

use crate::condition::{Constants, is_time, looks_like_time, parse_time, reduce};
use crate::refusal::QueryError;

/// The first float past every time.
const TIMES_END: f64 = 9_223_372_036_854_775_808.0;

/// Refuses a `DELETE` or `DROP SERIES` that could delete what its condition does not say, whatever
/// is in the store. Any other statement is fine. `now_ns` is what `now()` is.
///
/// # Errors
/// Names the comparison, what InfluxDB would make of it, and what to write.
pub fn refuse(statement: &Statement, now_ns: i64) -> Result<(), QueryError> {
    let known = Constants { now_ns: Some(now_ns), zone: None };
    let (name, condition) = match statement {
        Statement::Delete(Selection { condition, .. }) => ("DELETE", condition),
        Statement::DropSeries(Selection { condition, .. }) => ("DROP SERIES", condition),
        _ => return Ok(()),
    };
    let found = condition.as_ref().map_or(Ok(()), |condition| {
        times(condition, known)?;
        tags(&reduce(condition, known))
    });
    found.map_err(|why| QueryError(format!("{name} refused: {why}")))
}

/// Whether no comparison of tags holds for more series in InfluxDB than it says.
fn tags(condition: &Expr) -> Result<(), String> {
    let (op, left, right) = match condition {
        Expr::Binary { op: Op::And | Op::Or, left, right } => {
            return tags(left).and_then(|()| tags(right));
        }
        Expr::Paren(inner) => return tags(inner),
        Expr::Binary { op, left, right } => (*op, &**left, &**right),
        _ => return Ok(()),
    };
    match (left, right) {
        _ if is_time(left) || is_time(right) => Ok(()),
        (Expr::Reference { name: a, .. }, Expr::Reference { name: b, .. }) => match op {
            _ if a == b => Ok(()),
            Op::NotEqual if b != "_name" => Ok(()),
            Op::Equal => Err(format!(
                "of {condition} InfluxDB would delete every series that has both tags, whatever \
                 their values; a text stands in single quotes"
            )),
            _ => Err(format!(
                "of {condition} InfluxDB would delete every series that has the tag {left} and \
                 not {right}; tags are compared with texts by =, !=, =~ and !~"
            )),
        },
        (Expr::Reference { name, .. }, Expr::String(_))
        | (Expr::String(_), Expr::Reference { name, .. }) => match op {
            Op::Equal | Op::NotEqual => Ok(()),
            _ if name == "_name" => Ok(()),
            _ => Err(format!(
                "InfluxDB would read {condition} as !=; tags are compared with texts by =, !=, =~ \
                 and !~"
            )),
        },
        _ => Ok(()),
    }
}

/// Whether every time is compared with the one that is written.
fn times(condition: &Expr, known: Constants<'_>) -> Result<(), String> {
    let (op, left, right) = match condition {
        Expr::Binary { op: Op::And | Op::Or, left, right } => {
            return times(left, known).and_then(|()| times(right, known));
        }
        Expr::Paren(inner) => return times(inner, known),
        Expr::Binary { op, left, right } => (*op, unwrapped(left), unwrapped(right)),
        _ => return Ok(()),
    };
    let said = match (is_time(left), is_time(right), op) {
        (true, _, op) => is_said(op, right, known),
        (false, true, Op::Greater) => is_said(Op::Less, left, known),
        (false, true, Op::Less) => is_said(Op::Greater, left, known),
        (false, true, op) => is_said(op, left, known),
        (false, false, _) => true,
    };
    if said {
        return Ok(());
    }
    Err(format!("the time of {condition} is not a whole number of nanoseconds within 64 bits"))
}

/// Whether `time op value` is read as it is written, or is an error anyway.
fn is_said(op: Op, value: &Expr, known: Constants<'_>) -> bool {
    let ns = match unwrapped(&reduce(value, known)) {
        Expr::Integer(ns) | Expr::Duration(ns) | Expr::Time(ns) => *ns,
        Expr::Number(ns) if ns.fract() == 0.0 && ns.abs() < TIMES_END => *ns as i64,
        Expr::Number(_) => return false,
        _ => return true,
    };
    let wraps = matches!((op, ns), (Op::Greater, i64::MAX) | (Op::Less, i64::MIN));
    !wraps && exact(value, known).is_ok_and(|exact| exact.is_none_or(|exact| exact == ns.into()))
}

fn unwrapped(mut expr: &Expr) -> &Expr {
    while let Expr::Paren(inner) = expr {
        expr = inner;
    }
    expr
}

/// What is not a whole number, or too large.
struct Inexact;

/// The value of numbers, durations and times without wrapping around or cutting off; `None` where
/// there is anything else in it.
fn exact(value: &Expr, known: Constants<'_>) -> Result<Option<i128>, Inexact> {
    let (op, left, right) = match value {
        Expr::Integer(value) | Expr::Duration(value) | Expr::Time(value) => {
            return Ok(Some((*value).into()));
        }
        Expr::Unsigned(value) => return Ok(Some((*value).into())),
        Expr::Number(value) if value.fract() != 0.0 || value.abs() >= TIMES_END => {
            return Err(Inexact);
        }
        Expr::Number(value) => return Ok(Some(*value as i128)),
        Expr::String(text) if looks_like_time(text) => return Ok(parse_time(text, known.zone)),
        Expr::Call { name, arguments } if name == "now" && arguments.is_empty() => {
            return Ok(known.now_ns.map(i128::from));
        }
        Expr::Paren(inner) => return exact(inner, known),
        Expr::Binary { op, left, right } => (*op, exact(left, known)?, exact(right, known)?),
        _ => return Ok(None),
    };
    let Some((left, right)) = left.zip(right) else { return Ok(None) };
    let result = match op {
        Op::Add => left.checked_add(right),
        Op::Subtract => left.checked_sub(right),
        Op::Multiply => left.checked_mul(right),
        Op::Divide => left.checked_div(right).filter(|of| of.checked_mul(right) == Some(left)),
        _ => return Ok(None),
    };
    result.map(Some).ok_or(Inexact)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Why it is refused; empty where it is not.
    fn refusal(text: &str) -> String {
        let parsed = wire::influxql::parse(text, &wire::influxql::Params::default()).unwrap();
        refuse(&parsed[0], 1_700_000_000_000_000_000)
            .err()
            .map_or_else(String::new, |error| error.0)
    }

    #[test]
    fn what_may_delete_more_than_it_says() {
        for condition in [
            "h = r",
            "h = a",
            "h::tag = r",
            "h > 'a'",
            "h <= 'a'",
            "'a' < h",
            "h + 'a'",
            "h > r",
            "h <= r",
            "h != _name",
            "host = 'a' AND (time > 0 OR (h) = (r))",
            "time > 9223372036854775807",
            "9223372036854775807 < time",
            "time < -9223372036854775808",
            "time > 9223372036854775807ns",
            "time > 106751d + 24h",
            "time > 9223372036854775807 + 1",
            "time > 3000000000 * 4000000000",
            "time < 9300000000000000000.0",
            "time >= 5.5",
            "time > 1d * 0.5",
            "time >= 3ns / 2",
            "time >= 1 / 2",
            "(time) > 9223372036854775807",
            "time < '9999-12-31' - 100000d",
            "time > '2262-01-01' + 1000d - 1000d",
            "time > now() + 100000d - 100000d",
        ] {
            for statement in ["DELETE FROM m", "DROP SERIES FROM m"] {
                let text = format!("{statement} WHERE {condition}");
                assert_ne!(refusal(&text), "", "{text}");
            }
        }
        let quotes = refusal("DELETE FROM m WHERE h = a");
        let expected = "DELETE refused: of h = a InfluxDB would delete every series that has both \
                        tags, whatever their values; a text stands in single quotes";
        assert_eq!(quotes, expected);
    }

    #[test]
    fn what_deletes_what_it_says_or_less() {
        for condition in [
            "h = 'a'",
            "h != 'a' OR 'b' = h",
            "h =~ /a/ AND r !~ /b/",
            "h != r",
            "p != q",
            "h = h",
            "h != h",
            "_name > 'a'",
            "f > 5",
            "f + 1 > 5",
            "h > 'a' AND false",
            "time > 9223372036854775806",
            "time >= 9223372036854775807",
            "time <= -9223372036854775808",
            "time > 5.0",
            "time > '2020-01-01' + 1d",
            "time > now() - 10d",
            "time > '9999-12-31'",
            "time > 3ns * 2 + 1 AND time < 7d / 7",
            "5 < time",
        ] {
            assert_eq!(refusal(&format!("DELETE FROM m WHERE {condition}")), "");
        }
        assert_eq!(refusal("DELETE FROM m"), "");
        assert_eq!(refusal("SELECT v FROM m WHERE h > 'a'"), "");
    }
}
