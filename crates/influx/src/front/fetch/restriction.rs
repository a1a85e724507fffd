//! What points have to be that are read, as a condition.

use store::condition::{TIME_MAX, TIME_MIN};
use store::query::select::MeasurementRead;
use store::scan::TimeRange;
use wire::influxql::ast::{Expr, Op};

/// That points are of some times, and what else they have to be.
pub(super) fn condition(read: &MeasurementRead, range: TimeRange) -> Option<Expr> {
    match (within(range), read.condition.clone()) {
        (Some(time), Some(rest)) => Some(and(time, Expr::Paren(Box::new(rest)))),
        (time, rest) => time.or(rest),
    }
}

/// That points are of some times; `None` where all are.
pub(super) fn within(range: TimeRange) -> Option<Expr> {
    let bound = |op: Op, time: i64| Expr::Binary {
        op,
        left: Box::new(Expr::Reference { name: "time".to_owned(), cast: None }),
        right: Box::new(Expr::Integer(time)),
    };
    let min = (range.min > TIME_MIN).then(|| bound(Op::GreaterOrEqual, range.min));
    let max = (range.max < TIME_MAX).then(|| bound(Op::LessOrEqual, range.max));
    match (min, max) {
        (Some(min), Some(max)) => Some(and(min, max)),
        (one, other) => one.or(other),
    }
}

fn and(left: Expr, right: Expr) -> Expr {
    Expr::Binary { op: Op::And, left: Box::new(left), right: Box::new(right) }
}
