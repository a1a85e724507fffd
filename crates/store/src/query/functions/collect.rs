//! Functions that need all points of a window: median, mode, percentile, stddev, distinct.

use std::any::Any;
use std::cmp::Ordering;
use std::ops::Range;

use hashbrown::HashMap;

use super::aggregate::Point;
use super::column::Column;
use super::element::{Element, Number};
use super::reduce::State;
use crate::value::Value;

fn push(into: &mut Vec<Point>, value: Value) {
    into.push(Point { time: None, value, token: 0 });
}

/// Orders numbers of a slice; NaN counts as equal, so that no input can upset a sort.
pub(super) fn by_value<T: Number>(a: &T, b: &T) -> Ordering {
    T::compare(a.lend(), b.lend()).unwrap_or(Ordering::Equal)
}

fn extend<T: Number>(into: &mut Vec<T>, column: &Column<'_>, rows: Range<usize>) {
    if let Some(values) = T::slice(column) {
        column.valid_runs(rows, |run| into.extend_from_slice(&values[run]));
    } else {
        T::each(column, rows, |_, value| into.push(T::own(value)));
    }
}

macro_rules! values {
    ($name:ident, $doc:literal, $finish:expr) => {
        #[doc = $doc]
        #[derive(Debug)]
        pub struct $name<T: Number>(Vec<T>);

        impl<T: Number> $name<T> {
            pub fn new() -> Self {
                Self(Vec::new())
            }
        }

        impl<T: Number> State for $name<T> {
            fn update(
                &mut self,
                _: &[i64],
                column: &Column<'_>,
                rows: Range<usize>,
                _: u64,
            ) -> Option<usize> {
                extend(&mut self.0, column, rows);
                None
            }

            fn merge(&mut self, other: &mut dyn Any) -> bool {
                if let Some(other) = other.downcast_mut::<Self>() {
                    self.0.append(&mut other.0);
                }
                false
            }

            fn finish(&mut self, into: &mut Vec<Point>) {
                if !self.0.is_empty() {
                    push(into, Value::Float($finish(&mut self.0)));
                }
            }

            fn bytes(&self) -> usize {
                size_of_val(self) + self.0.capacity() * size_of::<T>()
            }
        }
    };
}

values!(Median, "`median`: of an even number the middle of the two.", median);
values!(Stddev, "`stddev`: of the sample; of one point it is NaN.", stddev);

fn median<T: Number>(values: &mut [T]) -> f64 {
    let middle = values.len() / 2;
    let odd = values.len() % 2 == 1;
    let (lower, high, _) = values.select_nth_unstable_by(middle, by_value);
    let high = *high;
    let low = lower.iter().copied().max_by(by_value);
    match low {
        Some(low) if !odd => low.float() + high.minus(low).float() / 2.0,
        _ => high.float(),
    }
}

fn stddev<T: Number>(values: &mut [T]) -> f64 {
    if values.len() < 2 {
        return f64::NAN;
    }
    let floats = || values.iter().map(|value| value.float()).filter(|value| !value.is_nan());
    let (mut mean, mut count) = (0.0, 0.0);
    for value in floats() {
        count += 1.0;
        mean += (value - mean) / count;
    }
    let variance: f64 = floats().map(|value| (value - mean) * (value - mean)).sum();
    (variance / (count - 1.0)).sqrt()
}

/// A row that is kept with its value.
#[derive(Clone, Debug)]
pub(super) struct Row<T> {
    pub value: T,
    pub time: i64,
    pub token: u64,
}

fn collect<T: Element>(
    into: &mut Vec<Row<T>>,
    times: &[i64],
    column: &Column<'_>,
    rows: Range<usize>,
    token: u64,
) {
    T::each(column, rows, |at, value| {
        let time = times.get(at).copied().unwrap_or_default();
        into.push(Row { value: T::own(value), time, token: token.wrapping_add(at as u64) });
    });
}

/// `percentile`: the point at a rank, nothing made up between two.
#[derive(Debug)]
pub struct Percentile<T: Number> {
    percent: f64,
    rows: Vec<Row<T>>,
}

impl<T: Number> Percentile<T> {
    pub fn new(percent: f64) -> Self {
        Self { percent, rows: Vec::new() }
    }
}

impl<T: Number> State for Percentile<T> {
    fn update(
        &mut self,
        times: &[i64],
        column: &Column<'_>,
        rows: Range<usize>,
        token: u64,
    ) -> Option<usize> {
        collect(&mut self.rows, times, column, rows, token);
        None
    }

    fn merge(&mut self, other: &mut dyn Any) -> bool {
        if let Some(other) = other.downcast_mut::<Self>() {
            self.rows.append(&mut other.rows);
        }
        false
    }

    fn finish(&mut self, into: &mut Vec<Point>) {
        let rank = (self.rows.len() as f64 * self.percent / 100.0 + 0.5).floor() - 1.0;
        if !(rank >= 0.0 && rank < self.rows.len() as f64) {
            return;
        }
        // Ordered by time among equals, so that the answer does not depend on chance.
        let order = |a: &Row<T>, b: &Row<T>| by_value(&a.value, &b.value).then(a.time.cmp(&b.time));
        let (_, row, _) = self.rows.select_nth_unstable_by(rank as usize, order);
        into.push(Point { time: Some(row.time), value: row.value.value(), token: row.token });
    }

    fn bytes(&self) -> usize {
        size_of_val(self) + self.rows.capacity() * size_of::<Row<T>>()
    }
}

/// `mode`: the most frequent value; ties as InfluxDB settles them.
#[derive(Debug)]
pub struct Mode<T: Element>(Vec<(T, i64)>);

impl<T: Element> Mode<T> {
    pub fn new() -> Self {
        Self(Vec::new())
    }
}

impl<T: Element> State for Mode<T> {
    fn update(
        &mut self,
        times: &[i64],
        column: &Column<'_>,
        rows: Range<usize>,
        _: u64,
    ) -> Option<usize> {
        T::each(column, rows, |at, value| {
            self.0.push((T::own(value), times.get(at).copied().unwrap_or_default()));
        });
        None
    }

    fn merge(&mut self, other: &mut dyn Any) -> bool {
        if let Some(other) = other.downcast_mut::<Self>() {
            self.0.append(&mut other.0);
        }
        false
    }

    fn finish(&mut self, into: &mut Vec<Point>) {
        let equal = |a: &T, b: &T| T::compare(a.lend(), b.lend()) == Some(Ordering::Equal);
        self.0.sort_by(|a, b| T::compare(a.0.lend(), b.0.lend()).unwrap_or(Ordering::Equal));
        let Some(first) = self.0.first() else { return };
        if let Value::Boolean(_) = first.0.value() {
            let trues = self.0.iter().filter(|(v, _)| v.value() == Value::Boolean(true)).count();
            return push(into, Value::Boolean(trues >= self.0.len() - trues));
        }
        // `IntegerModeReduceSlice` of InfluxDB's `query/call_iterator.go`, its quirks included: a
        // value's first occurrence does not count as a new best.
        let (mut most, mut most_time, mut best) = (0, first.1, &first.0);
        let (mut current, mut current_time, mut run) = (0, first.1, &first.0);
        for (value, time) in &self.0 {
            if !equal(value, run) {
                (current, current_time, run) = (1, *time, value);
                continue;
            }
            current += 1;
            if most > current || (most == current && current_time > most_time) {
                continue;
            }
            (most, most_time, best) = (current, *time, value);
        }
        push(into, best.value());
    }

    fn bytes(&self) -> usize {
        let heap = self.0.first().map_or(0, |(value, _)| value.heap());
        size_of_val(self) + self.0.capacity() * (size_of::<(T, i64)>() + heap)
    }
}

/// `distinct`: each value once, in the order in which they first occur.
#[derive(Debug)]
pub struct Distinct<T: Element> {
    descending: bool,
    first: HashMap<T::Key, (T, i64)>,
}

impl<T: Element> Distinct<T> {
    pub fn new(descending: bool) -> Self {
        Self { descending, first: HashMap::new() }
    }

    fn earlier(&self, a: i64, b: i64) -> bool {
        if self.descending { a > b } else { a < b }
    }
}

impl<T: Element> State for Distinct<T> {
    fn update(
        &mut self,
        times: &[i64],
        column: &Column<'_>,
        rows: Range<usize>,
        _: u64,
    ) -> Option<usize> {
        let descending = self.descending;
        T::each(column, rows, |at, value| {
            let time = times.get(at).copied().unwrap_or_default();
            let known = self.first.entry(T::key(value)).or_insert_with(|| (T::own(value), time));
            if if descending { time > known.1 } else { time < known.1 } {
                known.1 = time;
            }
        });
        None
    }

    fn merge(&mut self, other: &mut dyn Any) -> bool {
        let Some(other) = other.downcast_mut::<Self>() else { return false };
        for (key, (value, time)) in other.first.drain() {
            match self.first.get(&key) {
                Some((_, known)) if !self.earlier(time, *known) => {}
                _ => {
                    self.first.insert(key, (value, time));
                }
            }
        }
        false
    }

    fn finish(&mut self, into: &mut Vec<Point>) {
        let mut values: Vec<_> = self.first.drain().map(|(_, found)| found).collect();
        values.sort_by(|(a, a_time), (b, b_time)| {
            let order = if self.descending { b_time.cmp(a_time) } else { a_time.cmp(b_time) };
            order.then_with(|| T::compare(a.lend(), b.lend()).unwrap_or(Ordering::Equal))
        });
        values.iter().for_each(|(value, _)| push(into, value.value()));
    }

    fn bytes(&self) -> usize {
        let heap = self.first.values().next().map_or(0, |(value, _)| value.heap());
        let entry = size_of::<(T::Key, (T, i64))>() + heap + 8;
        size_of_val(self) + self.first.capacity() * entry
    }
}
