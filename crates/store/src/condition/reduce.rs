//! Folding of constants, as `influxql.Reduce` does it: `now() - 1h` becomes a time.

use std::cmp::Ordering;

use jiff::tz::TimeZone;
use wire::influxql::ast::{Expr, Op};

use super::literal::{looks_like_time, parse_time};

/// What constants depend on.
#[derive(Clone, Copy, Debug)]
pub struct Constants<'a> {
    /// What `now()` is; `None` leaves it as it is.
    pub now_ns: Option<i64>,
    /// The zone of times written without one.
    pub zone: Option<&'a TimeZone>,
}

/// An expression with everything folded that is known without looking at points.
pub fn reduce(expr: &Expr, known: Constants<'_>) -> Expr {
    match expr {
        Expr::Binary { op, left, right } => {
            binary(*op, reduce(left, known), reduce(right, known), known)
        }
        Expr::Paren(inner) => paren(reduce(inner, known)),
        Expr::Call { name, arguments } => match known.now_ns {
            Some(now) if name == "now" && arguments.is_empty() => Expr::Time(now),
            _ => {
                let arguments = arguments.iter().map(|one| reduce(one, known)).collect();
                Expr::Call { name: name.clone(), arguments }
            }
        },
        other => other.clone(),
    }
}

/// Brackets are kept only where they group something.
pub fn paren(inner: Expr) -> Expr {
    match inner {
        Expr::Binary { .. } => Expr::Paren(Box::new(inner)),
        other => other,
    }
}

/// An operation on operands that are reduced already.
pub fn binary(op: Op, left: Expr, right: Expr, known: Constants<'_>) -> Expr {
    match (op, &left, &right) {
        (Op::And, Expr::Boolean(false), _) | (Op::And, _, Expr::Boolean(false)) => {
            return Expr::Boolean(false);
        }
        (Op::Or, Expr::Boolean(true), _) | (Op::Or, _, Expr::Boolean(true)) => {
            return Expr::Boolean(true);
        }
        (Op::And, Expr::Boolean(true), _) | (Op::Or, Expr::Boolean(false), _) => return right,
        (Op::And, _, Expr::Boolean(true)) | (Op::Or, _, Expr::Boolean(false)) => return left,
        _ => {}
    }
    folded(op, &left, &right, known).unwrap_or_else(|| Expr::Binary {
        op,
        left: Box::new(left),
        right: Box::new(right),
    })
}

fn folded(op: Op, left: &Expr, right: &Expr, known: Constants<'_>) -> Option<Expr> {
    use Expr::{Boolean, Duration, Integer, Number, String, Time, Unsigned};
    let time = |text: &str| time_literal(text, known).map(Time);
    match (left, right) {
        (Boolean(a), Boolean(b)) => booleans(op, *a, *b).map(Boolean),
        (Duration(a), Duration(b)) => match op {
            Op::Add => Some(Duration(a.wrapping_add(*b))),
            Op::Subtract => Some(Duration(a.wrapping_sub(*b))),
            _ => compare(op, a, b),
        },
        (Duration(a), Number(b)) => scaled(op, *a, *b as i64),
        (Duration(a), Integer(b)) => scaled(op, *a, *b),
        (Duration(a), Time(b)) => (op == Op::Add).then(|| Time(b.saturating_add(*a))),
        (Duration(_), String(text)) => folded(op, left, &time(text)?, known),
        (Integer(a), Integer(b)) => integers(op, *a, *b),
        (Integer(a), Unsigned(b)) => match u64::try_from(*a) {
            Err(_) if matches!(op, Op::Less | Op::LessOrEqual) => Some(Boolean(true)),
            Err(_) if matches!(op, Op::Greater | Op::GreaterOrEqual) => Some(Boolean(false)),
            _ => unsigneds(op, *a as u64, *b),
        },
        (Unsigned(a), Integer(b)) => match u64::try_from(*b) {
            Err(_) if matches!(op, Op::Less | Op::LessOrEqual) => Some(Boolean(false)),
            Err(_) if matches!(op, Op::Greater | Op::GreaterOrEqual) => Some(Boolean(true)),
            _ => unsigneds(op, *a, *b as u64),
        },
        (Unsigned(a), Unsigned(b)) => unsigneds(op, *a, *b),
        (Integer(a), Duration(b)) => shifted(op, *a, *b),
        (Integer(a), Time(_) | String(_)) => folded(op, &Duration(*a), right, known),
        (Number(_) | Integer(_) | Unsigned(_), Number(_) | Integer(_) | Unsigned(_)) => {
            numbers(op, float(left)?, float(right)?)
        }
        (String(a), String(b)) => strings(op, a, b, known),
        (String(a), Duration(_) | Time(_) | Integer(_)) => folded(op, &time(a)?, right, known),
        (Time(a), Duration(b) | Integer(b)) => shifted(op, *a, *b),
        (Time(a), Time(b)) => match op {
            Op::Subtract => Some(Duration(a.saturating_sub(*b))),
            _ => compare(op, a, b),
        },
        (Time(_), String(text)) => folded(op, left, &time(text)?, known),
        _ => None,
    }
}

fn float(expr: &Expr) -> Option<f64> {
    match expr {
        Expr::Number(value) => Some(*value),
        Expr::Integer(value) => Some(*value as f64),
        Expr::Unsigned(value) => Some(*value as f64),
        _ => None,
    }
}

/// A time in nanoseconds; what lies beyond is cut to the last one, which no query may ask for.
fn time_literal(text: &str, known: Constants<'_>) -> Option<i64> {
    let time = looks_like_time(text).then(|| parse_time(text, known.zone)).flatten()?;
    Some(i64::try_from(time).unwrap_or(if time < 0 { i64::MIN } else { i64::MAX }))
}

fn shifted(op: Op, time: i64, by: i64) -> Option<Expr> {
    match op {
        Op::Add => Some(Expr::Time(time.saturating_add(by))),
        Op::Subtract => Some(Expr::Time(time.saturating_sub(by))),
        _ => None,
    }
}

fn scaled(op: Op, duration: i64, by: i64) -> Option<Expr> {
    match op {
        Op::Multiply => Some(Expr::Duration(duration.wrapping_mul(by))),
        Op::Divide if by == 0 => Some(Expr::Duration(0)),
        Op::Divide => Some(Expr::Duration(duration.wrapping_div(by))),
        _ => None,
    }
}

/// A comparison; `None` where `op` is none.
fn compare<T: PartialOrd>(op: Op, left: &T, right: &T) -> Option<Expr> {
    ordered(op, left.partial_cmp(right)).map(Expr::Boolean)
}

/// What a comparison says of an order; of no order (NaN) only `!=` is true.
pub fn ordered(op: Op, order: Option<Ordering>) -> Option<bool> {
    let is = |wanted: &[Ordering]| Some(order.is_some_and(|order| wanted.contains(&order)));
    match op {
        Op::Equal => is(&[Ordering::Equal]),
        Op::NotEqual => Some(order != Some(Ordering::Equal)),
        Op::Less => is(&[Ordering::Less]),
        Op::LessOrEqual => is(&[Ordering::Less, Ordering::Equal]),
        Op::Greater => is(&[Ordering::Greater]),
        Op::GreaterOrEqual => is(&[Ordering::Greater, Ordering::Equal]),
        _ => None,
    }
}

/// What an operator makes of two booleans; `None` where it is none for them.
pub(super) fn booleans(op: Op, left: bool, right: bool) -> Option<bool> {
    match op {
        Op::Equal => Some(left == right),
        Op::NotEqual | Op::BitwiseXor => Some(left != right),
        Op::And | Op::BitwiseAnd => Some(left && right),
        Op::Or | Op::BitwiseOr => Some(left || right),
        _ => None,
    }
}

fn integers(op: Op, left: i64, right: i64) -> Option<Expr> {
    let value = match op {
        Op::Add => left.wrapping_add(right),
        Op::Subtract => left.wrapping_sub(right),
        Op::Multiply => left.wrapping_mul(right),
        Op::Divide if right == 0 => return Some(Expr::Number(0.0)),
        Op::Divide => return Some(Expr::Number(left as f64 / right as f64)),
        Op::Modulo => left.checked_rem(right).unwrap_or(0),
        Op::BitwiseAnd => left & right,
        Op::BitwiseOr => left | right,
        Op::BitwiseXor => left ^ right,
        _ => return compare(op, &left, &right),
    };
    Some(Expr::Integer(value))
}

fn unsigneds(op: Op, left: u64, right: u64) -> Option<Expr> {
    let value = match op {
        Op::Add => left.wrapping_add(right),
        Op::Subtract => left.wrapping_sub(right),
        Op::Multiply => left.wrapping_mul(right),
        Op::Divide => left.checked_div(right).unwrap_or(0),
        Op::Modulo => left.checked_rem(right).unwrap_or(0),
        _ => return compare(op, &left, &right),
    };
    Some(Expr::Unsigned(value))
}

fn numbers(op: Op, left: f64, right: f64) -> Option<Expr> {
    let value = match op {
        Op::Add => left + right,
        Op::Subtract => left - right,
        Op::Multiply => left * right,
        Op::Divide if right == 0.0 => 0.0,
        Op::Divide => left / right,
        Op::Modulo => left % right,
        _ => return compare(op, &left, &right),
    };
    Some(Expr::Number(value))
}

fn strings(op: Op, left: &str, right: &str, known: Constants<'_>) -> Option<Expr> {
    // The same time may be written in two ways.
    let times = || {
        let (left, right) = (time_literal(left, known)?, time_literal(right, known)?);
        folded(op, &Expr::Time(left), &Expr::Time(right), known)
    };
    match op {
        Op::Equal => times().or(Some(Expr::Boolean(left == right))),
        Op::NotEqual => times().or(Some(Expr::Boolean(left != right))),
        Op::Add => Some(Expr::String(format!("{left}{right}"))),
        _ => times(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: Constants<'_> = Constants { now_ns: Some(1_000), zone: None };

    fn op(op: Op, left: Expr, right: Expr) -> Expr {
        reduce(&Expr::Binary { op, left: Box::new(left), right: Box::new(right) }, KNOWN)
    }

    fn now() -> Expr {
        Expr::Call { name: "now".to_owned(), arguments: Vec::new() }
    }

    #[test]
    fn times_and_durations_add_up() {
        assert_eq!(op(Op::Subtract, now(), Expr::Duration(10)), Expr::Time(990));
        assert_eq!(op(Op::Add, Expr::Duration(10), now()), Expr::Time(1_010));
        let day = Expr::String("1970-01-01".to_owned());
        assert_eq!(op(Op::Add, day.clone(), Expr::Duration(5)), Expr::Time(5));
        assert_eq!(op(Op::Add, Expr::Integer(7), Expr::Duration(5)), Expr::Time(12));
        assert_eq!(op(Op::Subtract, now(), now()), Expr::Duration(0));
        assert_eq!(op(Op::Multiply, Expr::Duration(5), Expr::Integer(3)), Expr::Duration(15));
    }

    #[test]
    fn nothing_overflows() {
        assert_eq!(op(Op::Add, Expr::Integer(i64::MAX), Expr::Integer(1)), Expr::Integer(i64::MIN));
        let least = Expr::Integer(i64::MIN);
        assert_eq!(op(Op::Modulo, least, Expr::Integer(-1)), Expr::Integer(0));
        assert_eq!(
            op(Op::Divide, Expr::Duration(i64::MIN), Expr::Integer(-1)),
            Expr::Duration(i64::MIN)
        );
        assert_eq!(op(Op::Divide, Expr::Integer(1), Expr::Integer(0)), Expr::Number(0.0));
    }

    #[test]
    fn truths_are_left_out() {
        let name = Expr::Reference { name: "a".to_owned(), cast: None };
        let compared = op(Op::Equal, name, Expr::Integer(1));
        assert_eq!(op(Op::And, Expr::Boolean(true), compared.clone()), compared);
        assert_eq!(op(Op::Or, compared.clone(), Expr::Boolean(false)), compared);
        assert_eq!(op(Op::Or, compared, Expr::Boolean(true)), Expr::Boolean(true));
        assert_eq!(op(Op::Equal, Expr::Integer(1), Expr::Integer(1)), Expr::Boolean(true));
    }
}
