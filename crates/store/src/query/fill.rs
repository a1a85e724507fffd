//! `fill()`: a row for each window, also where a function found no points.

use std::iter::Peekable;

use wire::influxql::ast::Fill;

use super::expr::cast;
use super::window::{Starts, Windows};
use crate::schema::FieldType;
use crate::value::Value;

/// What a column is filled with.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Filling {
    /// The option of `fill()`, as written.
    pub fill: Fill,
    /// Whether the column is `count()`: nothing is 0 there, not null.
    pub count: bool,
    /// The type of the column.
    pub kind: FieldType,
}

impl Filling {
    /// The value that a number in `fill()` gives in a column of this type, else null.
    pub fn number(&self) -> Value {
        match self.fill {
            Fill::Null if self.count => Value::Integer(0),
            Fill::Integer(number) => number_as(&Value::Integer(number), self.kind),
            Fill::Number(number) => number_as(&Value::Float(number), self.kind),
            Fill::Null | Fill::None | Fill::Previous | Fill::Linear => Value::Null,
        }
    }
}

/// A number as a value of a type: whole numbers are cut, strings empty and booleans false, as
/// InfluxDB's casts have it.
pub fn number_as(number: &Value, kind: FieldType) -> Value {
    match kind {
        FieldType::Float | FieldType::Integer | FieldType::Unsigned => cast(number, kind),
        FieldType::String => Value::String("".into()),
        FieldType::Boolean => Value::Boolean(false),
    }
}

/// The rows of one group and column, filled: see [`filled`].
#[derive(Debug)]
pub struct Filled<'a, I: Iterator<Item = (i64, Value)>> {
    points: Peekable<I>,
    windows: &'a Windows,
    starts: Option<Starts<'a>>,
    filling: Filling,
    descending: bool,
    previous: Option<(i64, Value)>,
}

/// Fills the gaps between the points of one group, which come in the order of the answer with
/// their windows' starts as times. No points at all stay none.
pub fn filled<I: Iterator<Item = (i64, Value)>>(
    windows: &Windows,
    filling: Filling,
    descending: bool,
    points: I,
) -> Filled<'_, I> {
    let mut points = points.peekable();
    let fills = filling.fill != Fill::None && windows.interval_ns() > 0;
    let first = points.peek().map(|(time, _)| *time).filter(|_| fills);
    let starts = first.map(|first| windows.starts(descending, first));
    Filled { points, windows, starts, filling, descending, previous: None }
}

impl<I: Iterator<Item = (i64, Value)>> Filled<'_, I> {
    fn gap(&mut self, time: i64) -> Value {
        match (self.filling.fill, &self.previous) {
            (Fill::Previous, Some((_, value))) => value.clone(),
            (Fill::Linear, Some(previous)) => match self.points.peek() {
                Some(next) => between(self.windows.interval_ns(), time, previous, next),
                None => Value::Null,
            },
            _ => self.filling.number(),
        }
    }
}

impl<I: Iterator<Item = (i64, Value)>> Iterator for Filled<'_, I> {
    type Item = (i64, Value);

    fn next(&mut self) -> Option<Self::Item> {
        let Some(starts) = &mut self.starts else { return self.points.next() };
        let inside = starts.peek();
        let expected = starts.expected();
        let gap = match (self.points.peek(), expected) {
            (None, _) => Some(inside?),
            (Some((time, _)), Some(start)) => {
                let later = if self.descending { *time < start } else { *time > start };
                later.then_some(start)
            }
            (Some(_), None) => None,
        };
        starts.advance();
        match gap {
            Some(time) => Some((time, self.gap(time))),
            None => {
                let point = self.points.next()?;
                self.previous = Some(point.clone());
                Some(point)
            }
        }
    }
}

/// A value on the line between two points; whole numbers are cut (`query/linear.go`).
fn between(interval: i64, time: i64, previous: &(i64, Value), next: &(i64, Value)) -> Value {
    let interval = interval.max(1);
    let from = previous.0 / interval;
    let span = (next.0 / interval).wrapping_sub(from) as f64;
    let into = (time / interval).wrapping_sub(from) as f64;
    match (&previous.1, &next.1) {
        (Value::Float(a), Value::Float(b)) => Value::Float((b - a) / span * into + a),
        (Value::Integer(a), Value::Integer(b)) => {
            let slope = b.wrapping_sub(*a) as f64 / span;
            Value::Integer((slope * into + *a as f64) as i64)
        }
        (Value::Unsigned(a), Value::Unsigned(b)) => {
            let slope = b.wrapping_sub(*a) as f64 / span;
            Value::Unsigned((slope * into + *a as f64) as u64)
        }
        _ => Value::Null,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scan::TimeRange;

    fn fill(fill: Fill, kind: FieldType, min: i64, points: &[(i64, Value)]) -> Vec<Value> {
        let windows = Windows::new(10, 0, None, TimeRange { min, max: 59 });
        let filling = Filling { fill, count: false, kind };
        filled(&windows, filling, false, points.iter().cloned()).map(|(_, value)| value).collect()
    }

    fn integers() -> Vec<(i64, Value)> {
        vec![(10, Value::Integer(1)), (40, Value::Integer(6))]
    }

    #[test]
    fn gaps_are_filled_from_the_first_window_to_the_last() {
        use Value::{Integer, Null};
        let of = |how, kind| fill(how, kind, 5, &integers());
        let kind = FieldType::Integer;
        assert_eq!(of(Fill::None, kind), [Integer(1), Integer(6)]);
        assert_eq!(of(Fill::Null, kind), [Null, Integer(1), Null, Null, Integer(6), Null]);
        let previous = [Null, Integer(1), Integer(1), Integer(1), Integer(6), Integer(6)];
        assert_eq!(of(Fill::Previous, kind), previous);
        // 1 + 5/3 and 1 + 10/3, cut.
        let linear = [Null, Integer(1), Integer(2), Integer(4), Integer(6), Null];
        assert_eq!(of(Fill::Linear, kind), linear);
        assert_eq!(of(Fill::Number(7.9), kind)[0], Integer(7));
        assert_eq!(of(Fill::Integer(7), FieldType::Float)[0], Value::Float(7.0));
        assert_eq!(of(Fill::Integer(7), FieldType::String)[0], Value::String("".into()));
        assert_eq!(of(Fill::Integer(7), FieldType::Boolean)[0], Value::Boolean(false));
    }

    #[test]
    fn without_a_lower_bound_the_first_point_is_the_first_row() {
        let rows = fill(Fill::Integer(0), FieldType::Integer, i64::MIN, &integers());
        assert_eq!(rows.len(), 5);
        assert!(fill(Fill::Integer(0), FieldType::Integer, 0, &[]).is_empty());
    }

    #[test]
    fn count_of_nothing_is_zero() {
        let windows = Windows::new(10, 0, None, TimeRange { min: 0, max: 29 });
        let filling = Filling { fill: Fill::Null, count: true, kind: FieldType::Integer };
        let points = [(10, Value::Integer(4))].into_iter();
        let rows: Vec<_> = filled(&windows, filling, true, points).collect();
        let zero = Value::Integer(0);
        assert_eq!(rows, [(20, zero.clone()), (10, Value::Integer(4)), (0, zero)]);
    }

    #[test]
    fn the_last_windows_of_all_time_end() {
        let windows = Windows::new(10, 0, None, TimeRange { min: i64::MAX - 35, max: i64::MAX });
        let filling = Filling { fill: Fill::Null, count: false, kind: FieldType::Float };
        let points = [(windows.of(i64::MAX - 35).start, Value::Float(1.0))].into_iter();
        assert!(filled(&windows, filling, false, points).count() < 10);
    }
}
