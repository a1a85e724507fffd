//! `integral`: the area under the points of a group, by the trapezium rule.

use super::element::Number;
use super::unsupported;
use crate::query::window::{MIN_TIME, Windows};
use crate::refusal::QueryError;
use crate::schema::FieldType;
use crate::value::Value;

/// The area under way. Where a window ends between two points, the value there is taken from the
/// line between them.
#[derive(Debug)]
pub struct Integral {
    unit_ns: f64,
    float: bool,
    windows: Windows,
    descending: bool,
    sum: f64,
    previous: Option<(i64, f64)>,
    start: i64,
    end: i64,
}

impl Integral {
    /// For the points of one group, over all times or windows.
    ///
    /// # Errors
    /// When the argument is not a number.
    pub fn new(
        unit_ns: i64,
        input: FieldType,
        windows: Windows,
        descending: bool,
    ) -> Result<Self, QueryError> {
        if matches!(input, FieldType::String | FieldType::Boolean) {
            return Err(unsupported("integral", input));
        }
        Ok(Self {
            unit_ns: unit_ns.max(1) as f64,
            float: input == FieldType::Float,
            windows,
            descending,
            sum: 0.0,
            previous: None,
            start: 0,
            end: 0,
        })
    }

    fn enter(&mut self, time: i64) {
        let window = self.windows.of(time);
        (self.start, self.end) = match self.descending {
            false => (window.start, window.end),
            true => (window.end, window.start),
        };
    }

    /// Takes the next point in the order of the answer, and gives that of a window it leaves.
    pub fn push(&mut self, time: i64, value: &Value) -> Option<(i64, Value)> {
        let value = f64::cast(value)?;
        let whole = self.windows.interval_ns() == 0;
        let Some((before, mut old)) = self.previous else {
            self.previous = Some((time, value));
            // Without windows, floats are told as of 1970; other numbers as of the lower bound
            // of the time, where there is one.
            if !whole || !self.float {
                self.enter(time);
                if whole && self.start == MIN_TIME {
                    self.start = 0;
                }
            }
            return None;
        };
        if before == time {
            self.previous = Some((time, value));
            return None;
        }
        let past = if self.descending { time <= self.end } else { time >= self.end };
        let (mut left, mut new, mut before) = (None, value, before);
        if past && !(whole && self.float) {
            if before != self.end {
                let slope = (value - old) / time.wrapping_sub(before) as f64;
                let edge = slope * self.end.wrapping_sub(before) as f64 + old;
                self.add(before, self.end, old, edge);
                before = self.end;
                // InfluxDB goes on from the edge with the value there for floats; for other
                // numbers it takes the edge for the new value and keeps the old one.
                if self.float { old = edge } else { new = edge }
            }
            left = Some((self.start, Value::Float(self.sum)));
            self.enter(time);
            self.sum = 0.0;
        }
        self.add(before, time, old, new);
        self.previous = Some((time, value));
        left
    }

    fn add(&mut self, from: i64, to: i64, old: f64, new: f64) {
        let elapsed = to.wrapping_sub(from) as f64 / self.unit_ns;
        self.sum += 0.5 * (new + old) * elapsed;
    }

    /// The point of the last window.
    pub fn finish(self) -> Option<(i64, Value)> {
        let (time, _) = self.previous?;
        (time != self.start).then_some((self.start, Value::Float(self.sum)))
    }
}
