//! The points a call gives for one group, on their way to the rows.

use std::sync::Arc;

use super::plan::{CallPlan, Step};
use crate::query::context::Context;
use crate::query::fill::{Filling, filled};
use crate::query::window::{MIN_TIME, Windows};
use crate::value::Value;

/// Windows that are filled between two looks at whether the query may go on.
const WINDOWS_PER_CHECK: u32 = 4096;

/// A point of a call.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Point {
    /// In nanoseconds since 1970.
    pub(super) time: i64,
    /// The value; null where there is none.
    pub(super) value: Value,
    /// The values of the columns beside it, of the point that was chosen.
    pub(super) beside: Option<Arc<[Value]>>,
}

/// Points as they are asked for.
pub(super) type Points<'a> = Box<dyn Iterator<Item = Point> + Send + 'a>;

/// A call with the windows of its times.
#[derive(Clone, Debug)]
pub(super) struct Following {
    /// The call that makes the points.
    pub(super) call: CallPlan,
    /// The windows of the call's times.
    pub(super) windows: Windows,
    /// Whether columns are selected beside it.
    pub(super) beside: bool,
    /// Whether the newest comes first.
    pub(super) descending: bool,
}

impl Following {
    /// Does the steps that follow the call's base. Where the query is to end, so do the points.
    pub(super) fn follow<'a>(&'a self, points: Vec<Point>, context: &'a Context) -> Points<'a> {
        let mut sequence: Points<'a> = Box::new(points.into_iter());
        for step in &self.call.steps {
            sequence = match step {
                Step::Interval => Box::new(sequence.map(|mut point| {
                    let start = self.windows.of(point.time).start;
                    point.time = if start == MIN_TIME { 0 } else { start };
                    point
                })),
                Step::Fill(filling) => self.fill(*filling, sequence, context),
                Step::Transform(transform) => {
                    let mut stream = transform.start();
                    Box::new(sequence.filter_map(move |point| {
                        let (time, value) = stream.push(point.time, &point.value)?;
                        Some(Point { time, value, beside: None })
                    }))
                }
            };
        }
        sequence
    }

    fn fill<'a>(
        &'a self,
        filling: Filling,
        sequence: Points<'a>,
        context: &'a Context,
    ) -> Points<'a> {
        let mut kept = Vec::new();
        let sequence: Points<'a> = if self.beside {
            let points: Vec<Point> = sequence.collect();
            kept.extend(points.iter().map(|point| (point.time, point.beside.clone())));
            Box::new(points.into_iter())
        } else {
            sequence
        };
        let mut kept = kept.into_iter().peekable();
        let values = sequence.map(|point| (point.time, point.value));
        let mut made: u32 = 0;
        let all = filled(&self.windows, filling, self.descending, values).map_while(move |row| {
            made = made.wrapping_add(1);
            if made.is_multiple_of(WINDOWS_PER_CHECK) && context.check().is_err() {
                return None;
            }
            Some(row)
        });
        Box::new(all.map(move |(time, value)| {
            // Gaps lie before the next point.
            let own = kept.next_if(|(own, _): &(i64, _)| *own == time);
            Point { time, value, beside: own.and_then(|(_, beside)| beside) }
        }))
    }
}
