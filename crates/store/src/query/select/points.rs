//! The points a call gives for one group, on their way to the rows.

use std::sync::Arc;

use super::plan::Step;
use crate::query::fill::filled;
use crate::query::results::Value;
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

/// Does the steps that follow a call's base, with the windows of its times.
pub(super) fn follow(
    mut points: Vec<Point>,
    steps: &[Step],
    windows: &Windows,
    descending: bool,
) -> Vec<Point> {
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
                all.map(|(time, value)| {
                    // Gaps lie before the next point.
                    let own = rest.next_if(|point| point.time == time);
                    Point { time, value, beside: own.and_then(|point| point.beside.clone()) }
                })
                .collect()
            }
            Step::Transform(transform) => {
                let mut stream = transform.start();
                let push = |point: &Point| stream.push(point.time, &point.value);
                let made = points.iter().filter_map(push);
                made.map(|(time, value)| Point { time, value, beside: None }).collect()
            }
        };
    }
    points
}
