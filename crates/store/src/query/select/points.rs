//! The points a call gives for one group, on their way to the rows.

use std::sync::Arc;

use super::plan::Step;
use crate::query::context::Context;
use crate::query::fill::filled;
use crate::query::results::{QueryError, Value};
use crate::query::window::{MIN_TIME, Windows};

/// A point of a call.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Point {
    /// Nanoseconds since 1970.
    pub(super) time: i64,
    /// The value; null where there is none.
    pub(super) value: Value,
    /// The values of the columns beside it, of the point that was chosen.
    pub(super) beside: Option<Arc<[Value]>>,
}

/// Points between two looks at whether the query may go on.
const POINTS_PER_CHECK: usize = 4096;

/// Does the steps that follow a call's base, with the windows of its times; adds to `held` the
/// memory that is reserved for it.
///
/// # Errors
/// When the query is to end, or fills so many windows that they do not fit its memory.
pub(super) fn follow(
    mut points: Vec<Point>,
    steps: &[Step],
    windows: &Windows,
    descending: bool,
    context: &Context,
    held: &mut usize,
) -> Result<Vec<Point>, QueryError> {
    for step in steps {
        points = match step {
            Step::Interval => {
                for point in &mut points {
                    let start = windows.of(point.time).start;
                    point.time = if start == MIN_TIME { 0 } else { start };
                }
                points
            }
            Step::Fill(filling, range) => {
                let windows = windows.over(*range);
                let values = points.iter().map(|point| (point.time, point.value.clone()));
                let all = filled(&windows, *filling, descending, values);
                let mut rest = points.iter().peekable();
                let mut every = Vec::with_capacity(points.len());
                for (time, value) in all {
                    // Gaps lie before the next point.
                    let own = rest.next_if(|point| point.time == time);
                    let beside = own.and_then(|point| point.beside.clone());
                    every.push(Point { time, value, beside });
                    if every.len().is_multiple_of(POINTS_PER_CHECK) {
                        context.check()?;
                        let bytes = POINTS_PER_CHECK * std::mem::size_of::<Point>();
                        context.cancel.reserve(bytes)?;
                        *held += bytes;
                    }
                }
                every
            }
            Step::Transform(transform) => {
                let mut stream = transform.start();
                let push = |point: &Point| stream.push(point.time, &point.value);
                let made = points.iter().filter_map(push);
                made.map(|(time, value)| Point { time, value, beside: None }).collect()
            }
        };
    }
    Ok(points)
}
