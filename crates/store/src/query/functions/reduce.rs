//! Aggregates that keep a few numbers: count, sum, mean, spread.

use std::any::Any;
use std::ops::Range;

use hashbrown::HashSet;

use super::aggregate::Point;
use super::column::Column;
use super::element::{Element, Number};
use crate::value::Value;

/// What one accumulator keeps.
pub trait State: Any + Send + Sync {
    /// See `Accumulator::update`; `rows` is within both slices.
    fn update(
        &mut self,
        times: &[i64],
        column: &Column<'_>,
        rows: Range<usize>,
        token: u64,
    ) -> Option<usize>;
    /// Takes what another state of the same type has seen, and leaves that one empty.
    fn merge(&mut self, other: &mut dyn Any) -> bool;
    /// Counts points that it does not see; for `count` only.
    fn add_count(&mut self, _count: u64) {}
    /// The point that it holds, where it is of one point.
    fn held(&self) -> Option<(Value, i64)> {
        None
    }
    /// Appends what comes of it.
    fn finish(&mut self, into: &mut Vec<Point>);
    /// Bytes it holds, itself included.
    fn bytes(&self) -> usize {
        std::mem::size_of_val(self)
    }
}

fn push(into: &mut Vec<Point>, value: Value) {
    into.push(Point { time: None, value, token: 0 });
}

/// `count`.
#[derive(Debug, Default)]
pub struct Count(i64);

impl State for Count {
    fn update(
        &mut self,
        _: &[i64],
        column: &Column<'_>,
        rows: Range<usize>,
        _: u64,
    ) -> Option<usize> {
        self.0 += column.count(rows) as i64;
        None
    }

    fn merge(&mut self, other: &mut dyn Any) -> bool {
        if let Some(other) = other.downcast_mut::<Self>() {
            self.0 += other.0;
        }
        false
    }

    fn add_count(&mut self, count: u64) {
        self.0 = self.0.saturating_add_unsigned(count);
    }

    fn finish(&mut self, into: &mut Vec<Point>) {
        if self.0 > 0 {
            push(into, Value::Integer(self.0));
        }
    }
}

/// `count(distinct)`.
#[derive(Debug)]
pub struct CountDistinct<T: Element>(HashSet<T::Key>);

impl<T: Element> CountDistinct<T> {
    pub fn new() -> Self {
        Self(HashSet::new())
    }
}

impl<T: Element> State for CountDistinct<T> {
    fn update(
        &mut self,
        _: &[i64],
        column: &Column<'_>,
        rows: Range<usize>,
        _: u64,
    ) -> Option<usize> {
        T::each(column, rows, |_, value| {
            self.0.insert(T::key(value));
        });
        None
    }

    fn merge(&mut self, other: &mut dyn Any) -> bool {
        if let Some(other) = other.downcast_mut::<Self>() {
            self.0.extend(other.0.drain());
        }
        false
    }

    fn finish(&mut self, into: &mut Vec<Point>) {
        if !self.0.is_empty() {
            push(into, Value::Integer(self.0.len() as i64));
        }
    }

    fn bytes(&self) -> usize {
        size_of_val(self) + self.0.capacity() * (size_of::<T::Key>() + 8)
    }
}

/// Adds up the valid rows; how many there were.
fn add<T: Number>(total: &mut T, column: &Column<'_>, rows: Range<usize>) -> u64 {
    let mut count = 0;
    if let Some(values) = T::slice(column) {
        column.valid_runs(rows, |run| {
            count += run.len() as u64;
            *total = total.plus(T::total(&values[run]));
        });
    } else {
        T::each(column, rows, |_, value| {
            count += 1;
            *total = total.plus(T::own(value));
        });
    }
    count
}

/// `sum`.
#[derive(Debug)]
pub struct Sum<T: Number> {
    total: T,
    count: u64,
}

impl<T: Number> Sum<T> {
    pub fn new() -> Self {
        Self { total: T::zero(), count: 0 }
    }
}

impl<T: Number> State for Sum<T> {
    fn update(
        &mut self,
        _: &[i64],
        column: &Column<'_>,
        rows: Range<usize>,
        _: u64,
    ) -> Option<usize> {
        self.count += add(&mut self.total, column, rows);
        None
    }

    fn merge(&mut self, other: &mut dyn Any) -> bool {
        if let Some(other) = other.downcast_mut::<Self>() {
            self.total = self.total.plus(other.total);
            self.count += other.count;
        }
        false
    }

    fn finish(&mut self, into: &mut Vec<Point>) {
        if self.count > 0 {
            push(into, self.total.value());
        }
    }
}

/// `mean`. Whole numbers are added up as such, however large their sum.
#[derive(Debug)]
pub struct Mean<T: Number> {
    total: T::Wide,
    count: u64,
}

impl<T: Number> Mean<T> {
    pub fn new() -> Self {
        Self { total: T::Wide::default(), count: 0 }
    }
}

impl<T: Number> State for Mean<T> {
    fn update(
        &mut self,
        _: &[i64],
        column: &Column<'_>,
        rows: Range<usize>,
        _: u64,
    ) -> Option<usize> {
        if let Some(values) = T::slice(column) {
            column.valid_runs(rows, |run| {
                self.count += run.len() as u64;
                self.total = self.total + T::wide_total(&values[run]);
            });
        } else {
            T::each(column, rows, |_, value| {
                self.count += 1;
                self.total = self.total + T::wide_total(&[T::own(value)]);
            });
        }
        None
    }

    fn merge(&mut self, other: &mut dyn Any) -> bool {
        if let Some(other) = other.downcast_mut::<Self>() {
            self.total = self.total + other.total;
            self.count += other.count;
        }
        false
    }

    fn finish(&mut self, into: &mut Vec<Point>) {
        if self.count > 0 {
            push(into, Value::Float(T::wide_float(self.total) / self.count as f64));
        }
    }
}

/// `spread`. Whole numbers wrap.
#[derive(Debug)]
pub struct Spread<T: Number>(Option<(T, T)>);

impl<T: Number> Spread<T> {
    pub fn new() -> Self {
        Self(None)
    }

    fn take(&mut self, value: T) {
        let (least, most) = self.0.get_or_insert((value, value));
        if value < *least {
            *least = value;
        }
        if value > *most {
            *most = value;
        }
    }
}

impl<T: Number> State for Spread<T> {
    fn update(
        &mut self,
        _: &[i64],
        column: &Column<'_>,
        rows: Range<usize>,
        _: u64,
    ) -> Option<usize> {
        if T::slice(column).is_none() {
            T::each(column, rows, |_, value| self.take(T::own(value)));
            return None;
        }
        column.valid_runs(rows, |run| {
            for least in [true, false] {
                if let Some(value) = T::extreme(column, run.clone(), least) {
                    self.take(value);
                }
            }
        });
        None
    }

    fn merge(&mut self, other: &mut dyn Any) -> bool {
        if let Some((least, most)) = other.downcast_mut::<Self>().and_then(|other| other.0) {
            self.take(least);
            self.take(most);
        }
        false
    }

    fn finish(&mut self, into: &mut Vec<Point>) {
        if let Some((least, most)) = self.0 {
            push(into, most.minus(least).value());
        }
    }
}
