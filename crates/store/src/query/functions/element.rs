//! The types of values, for code that is the same for several.

use std::cmp::Ordering;
use std::fmt::Debug;
use std::ops::{Add, Range};
use std::sync::Arc;

use super::column::Column;
use crate::value::{Value, cut, cut_unsigned};

/// A string that an accumulator keeps.
pub type Text = Arc<str>;

/// A type of values.
pub trait Element: Clone + Debug + Send + Sync + 'static {
    /// How a column gives it.
    type Ref<'a>: Copy + Debug;
    /// What equal values have in common, to be hashed.
    type Key: std::hash::Hash + Eq + Clone + Debug + Send + Sync;

    /// How a value compares with another of its time to be the first: booleans differ.
    const FIRST_OF_TIES: Ordering = Ordering::Greater;

    /// Calls `take` with each valid row's number and value.
    fn each<'a>(column: &Column<'a>, rows: Range<usize>, take: impl FnMut(usize, Self::Ref<'a>));
    /// The value, to be kept by an accumulator.
    fn own(value: Self::Ref<'_>) -> Self;
    /// As a column gives it.
    fn lend(&self) -> Self::Ref<'_>;
    /// Which of two is less; NaN is neither.
    fn compare(a: Self::Ref<'_>, b: Self::Ref<'_>) -> Option<Ordering>;
    /// The value as a result.
    fn value(&self) -> Value;
    /// For a set of values.
    fn key(value: Self::Ref<'_>) -> Self::Key;
    /// Bytes behind a pointer.
    fn heap(&self) -> usize {
        0
    }
    /// The least or greatest value of a run of valid rows, where that is faster than looking at
    /// each.
    fn extreme(_column: &Column<'_>, _run: Range<usize>, _least: bool) -> Option<Self> {
        None
    }
    /// The first row of a run with a value, likewise.
    fn find(_column: &Column<'_>, _run: Range<usize>, _value: &Self) -> Option<usize> {
        None
    }
}

/// A type of numbers.
pub trait Number: Element + Copy + PartialOrd {
    /// The values of a column of this type.
    fn slice<'a>(column: &Column<'a>) -> Option<&'a [Self]>;
    /// A number of another type, cast to this one.
    fn cast(value: &Value) -> Option<Self>;
    /// The number as a float.
    fn float(self) -> f64;
    /// Zero, where sums begin.
    fn zero() -> Self;
    /// The sum; whole numbers wrap.
    fn plus(self, other: Self) -> Self;
    /// The difference; whole numbers wrap.
    fn minus(self, other: Self) -> Self;
    /// The sum of many.
    fn total(values: &[Self]) -> Self;
    /// What holds the sum of all values that there can be.
    type Wide: Copy + Debug + Default + Add<Output = Self::Wide> + Send + Sync + 'static;
    /// The sum of many, which does not wrap.
    fn wide_total(values: &[Self]) -> Self::Wide;
    /// Such a sum as a float.
    fn wide_float(sum: Self::Wide) -> f64;
}

macro_rules! number {
    ($type:ty, $value:ident, $column:ident, $key:ty, $tokey:expr) => {
        impl Element for $type {
            type Ref<'a> = $type;
            type Key = $key;

            fn each<'a>(
                column: &Column<'a>,
                rows: Range<usize>,
                mut take: impl FnMut(usize, Self::Ref<'a>),
            ) {
                if let Column::$column(values, _) = column {
                    column.valid_runs(rows, |run| {
                        let start = run.start;
                        for (at, value) in values[run].iter().enumerate() {
                            take(start + at, *value);
                        }
                    });
                } else {
                    column.valid_runs(rows, |run| {
                        for at in run {
                            if let Some(value) = <$type>::cast(&column.value(at)) {
                                take(at, value);
                            }
                        }
                    });
                }
            }
            fn own(value: $type) -> Self {
                value
            }
            fn lend(&self) -> $type {
                *self
            }
            fn compare(a: $type, b: $type) -> Option<Ordering> {
                a.partial_cmp(&b)
            }
            fn value(&self) -> Value {
                Value::$value(*self)
            }
            fn key(value: $type) -> $key {
                $tokey(value)
            }
            fn extreme(column: &Column<'_>, run: Range<usize>, least: bool) -> Option<$type> {
                let values = <$type>::slice(column)?.get(run)?;
                if least { extreme(values, |a, b| a < b) } else { extreme(values, |a, b| a > b) }
            }
            fn find(column: &Column<'_>, run: Range<usize>, value: &$type) -> Option<usize> {
                let at = find(<$type>::slice(column)?.get(run.clone())?, *value)?;
                Some(run.start + at)
            }
        }
    };
}

number!(f64, Float, Float, u64, |value: f64| if value == 0.0 { 0 } else { value.to_bits() });
number!(i64, Integer, Integer, i64, |value| value);
number!(u64, Unsigned, Unsigned, u64, |value| value);

/// The best of a slice, in lanes so that it is vectorised.
fn extreme<T: Copy>(values: &[T], better: impl Fn(T, T) -> bool + Copy) -> Option<T> {
    const LANES: usize = 16;
    let first = *values.first()?;
    let mut lanes = [first; LANES];
    let (chunks, rest) = values.as_chunks::<LANES>();
    for chunk in chunks {
        for (lane, value) in lanes.iter_mut().zip(chunk) {
            *lane = if better(*value, *lane) { *value } else { *lane };
        }
    }
    let all = lanes.iter().chain(rest);
    Some(all.fold(first, |best, value| if better(*value, best) { *value } else { best }))
}

/// The first place of a value, a few at a time.
fn find<T: Copy + PartialEq>(values: &[T], value: T) -> Option<usize> {
    const LANES: usize = 32;
    let (chunks, _) = values.as_chunks::<LANES>();
    let within = |chunk: &[T; LANES]| chunk.iter().fold(false, |any, v| any | (*v == value));
    let from = chunks.iter().position(within).unwrap_or(chunks.len()) * LANES;
    let rest = values.get(from..)?;
    rest.iter().position(|v| *v == value).map(|at| from + at)
}

macro_rules! total {
    ($type:ty, $plus:expr) => {
        fn total(values: &[$type]) -> $type {
            // Eight sums at once: float additions are not reordered otherwise.
            let mut lanes = [<$type>::zero(); 8];
            let (chunks, rest) = values.as_chunks::<8>();
            for chunk in chunks {
                for (lane, value) in lanes.iter_mut().zip(chunk) {
                    *lane = $plus(*lane, *value);
                }
            }
            let plus = |sum: $type, value: &$type| $plus(sum, *value);
            let sum = lanes.iter().chain(rest).fold(<$type>::zero(), plus);
            // Past the greatest float it matters in which order it is passed.
            if sum.float().is_finite() { sum } else { values.iter().fold(<$type>::zero(), plus) }
        }
    };
}

/// The sum of fewer than 2^32 numbers, as a slice has: of each half, which a vector unit does.
fn halves(values: impl Iterator<Item = u64>) -> i128 {
    let (mut low, mut high) = (0_u64, 0_u64);
    for value in values {
        low = low.wrapping_add(value & 0xffff_ffff);
        high = high.wrapping_add(value >> 32);
    }
    (i128::from(high) << 32) + i128::from(low)
}

impl Number for f64 {
    fn slice<'a>(column: &Column<'a>) -> Option<&'a [Self]> {
        if let Column::Float(values, _) = column { Some(values) } else { None }
    }
    fn cast(value: &Value) -> Option<Self> {
        value.float()
    }
    fn float(self) -> f64 {
        self
    }
    fn zero() -> Self {
        0.0
    }
    fn plus(self, other: Self) -> Self {
        self + other
    }
    fn minus(self, other: Self) -> Self {
        self - other
    }
    total!(f64, |a: f64, b: f64| a + b);

    type Wide = f64;
    fn wide_total(values: &[f64]) -> f64 {
        Self::total(values)
    }
    fn wide_float(sum: f64) -> f64 {
        sum
    }
}

impl Number for i64 {
    fn slice<'a>(column: &Column<'a>) -> Option<&'a [Self]> {
        if let Column::Integer(values, _) = column { Some(values) } else { None }
    }
    fn cast(value: &Value) -> Option<Self> {
        match value {
            Value::Float(v) => Some(cut(*v)),
            Value::Integer(v) => Some(*v),
            Value::Unsigned(v) => Some(*v as Self),
            _ => None,
        }
    }
    fn float(self) -> f64 {
        self as f64
    }
    fn zero() -> Self {
        0
    }
    fn plus(self, other: Self) -> Self {
        self.wrapping_add(other)
    }
    fn minus(self, other: Self) -> Self {
        self.wrapping_sub(other)
    }
    total!(i64, i64::wrapping_add);

    type Wide = i128;
    fn wide_total(values: &[i64]) -> i128 {
        // 2^63 more each, so that none is negative.
        let above = values.len() as i128 * (1 << 63);
        halves(values.iter().map(|value| *value as u64 ^ (1 << 63))) - above
    }
    fn wide_float(sum: i128) -> f64 {
        sum as f64
    }
}

impl Number for u64 {
    fn slice<'a>(column: &Column<'a>) -> Option<&'a [Self]> {
        if let Column::Unsigned(values, _) = column { Some(values) } else { None }
    }
    fn cast(value: &Value) -> Option<Self> {
        match value {
            Value::Float(v) => Some(cut_unsigned(*v)),
            Value::Integer(v) => Some(*v as Self),
            Value::Unsigned(v) => Some(*v),
            _ => None,
        }
    }
    fn float(self) -> f64 {
        self as f64
    }
    fn zero() -> Self {
        0
    }
    fn plus(self, other: Self) -> Self {
        self.wrapping_add(other)
    }
    fn minus(self, other: Self) -> Self {
        self.wrapping_sub(other)
    }
    total!(u64, u64::wrapping_add);

    type Wide = i128;
    fn wide_total(values: &[u64]) -> i128 {
        halves(values.iter().copied())
    }
    fn wide_float(sum: i128) -> f64 {
        sum as f64
    }
}

impl Element for Text {
    type Ref<'a> = &'a str;
    type Key = Text;

    fn each<'a>(
        column: &Column<'a>,
        rows: Range<usize>,
        mut take: impl FnMut(usize, Self::Ref<'a>),
    ) {
        if let Column::String(array) = column {
            column.valid_runs(rows, |run| run.for_each(|at| take(at, array.value(at))));
        }
    }
    fn own(value: &str) -> Self {
        Arc::from(value)
    }
    fn lend(&self) -> &str {
        self
    }
    fn compare(a: &str, b: &str) -> Option<Ordering> {
        Some(a.cmp(b))
    }
    fn value(&self) -> Value {
        Value::String(Arc::clone(self))
    }
    fn key(value: &str) -> Text {
        Arc::from(value)
    }
    fn heap(&self) -> usize {
        self.len() + 16
    }
}

impl Element for bool {
    type Ref<'a> = bool;
    type Key = bool;

    const FIRST_OF_TIES: Ordering = Ordering::Less;

    fn each<'a>(
        column: &Column<'a>,
        rows: Range<usize>,
        mut take: impl FnMut(usize, Self::Ref<'a>),
    ) {
        if let Column::Boolean(array) = column {
            column.valid_runs(rows, |run| run.for_each(|at| take(at, array.value(at))));
        }
    }
    fn own(value: bool) -> Self {
        value
    }
    fn lend(&self) -> bool {
        *self
    }
    fn compare(a: bool, b: bool) -> Option<Ordering> {
        Some(a.cmp(&b))
    }
    fn value(&self) -> Value {
        Value::Boolean(*self)
    }
    fn key(value: bool) -> bool {
        value
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_wide_sum_never_wraps(
            signed in prop::collection::vec(any::<i64>(), 0..70),
            unsigned in prop::collection::vec(any::<u64>(), 0..70),
        ) {
            let sum = signed.iter().map(|value| i128::from(*value)).sum::<i128>();
            prop_assert_eq!(i64::wide_total(&signed), sum);
            let sum = unsigned.iter().map(|value| i128::from(*value)).sum::<i128>();
            prop_assert_eq!(u64::wide_total(&unsigned), sum);
        }
    }

    #[test]
    fn the_ends_of_64_bits_are_added_up() {
        assert_eq!(i64::wide_total(&[i64::MIN; 3]), 3 * i128::from(i64::MIN));
        assert_eq!(i64::wide_total(&[i64::MAX, i64::MIN, 0, -1]), -2);
        assert_eq!(u64::wide_total(&[u64::MAX; 3]), 3 * i128::from(u64::MAX));
        assert_eq!(i64::wide_total(&[]), 0);
    }
}
