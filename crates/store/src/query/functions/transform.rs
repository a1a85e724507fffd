//! Transformations: from each point of a group and those before it to a new one.

use std::collections::VecDeque;

use super::element::Number;
use super::unsupported;
use crate::refusal::QueryError;
use crate::schema::FieldType;
use crate::value::Value;

/// A transformation with its arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransformKind {
    /// `derivative()`, or `non_negative_derivative()` where `non_negative`.
    Derivative {
        /// Nanoseconds of the unit, where said.
        unit_ns: Option<i64>,
        /// Whether negative results are left out.
        non_negative: bool,
    },
    /// `difference()`, or `non_negative_difference()` where `non_negative`.
    Difference {
        /// Whether negative results are left out.
        non_negative: bool,
    },
    /// `moving_average`.
    MovingAverage {
        /// Over so many points.
        size: u64,
    },
    /// `cumulative_sum`.
    CumulativeSum,
    /// `elapsed`.
    Elapsed {
        /// Nanoseconds of the unit.
        unit_ns: i64,
    },
}

impl TransformKind {
    /// The type of its values over those of another type.
    pub fn output(self, input: FieldType) -> FieldType {
        match self {
            Self::Derivative { .. } | Self::MovingAverage { .. } => FieldType::Float,
            Self::Difference { .. } | Self::CumulativeSum => input,
            Self::Elapsed { .. } => FieldType::Integer,
        }
    }

    /// How many windows before the first of the query its nested call must also have read, since
    /// the first value comes of two.
    pub fn extra_windows(self) -> i64 {
        if self == Self::CumulativeSum { 0 } else { 1 }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Derivative { .. } => "derivative",
            Self::Difference { .. } => "difference",
            Self::MovingAverage { .. } => "moving average",
            Self::CumulativeSum => "cumulative sum",
            Self::Elapsed { .. } => "elapsed",
        }
    }
}

/// A call of a transformation with the type of its argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transform {
    kind: TransformKind,
    input: FieldType,
    unit_ns: i64,
    descending: bool,
}

impl Transform {
    /// A call under `GROUP BY time` of an interval or not, over points newest first or not.
    ///
    /// # Errors
    /// When the function takes no such type.
    pub fn new(
        kind: TransformKind,
        input: FieldType,
        interval_ns: Option<i64>,
        descending: bool,
    ) -> Result<Self, QueryError> {
        let number = !matches!(input, FieldType::String | FieldType::Boolean);
        if !number && !matches!(kind, TransformKind::Elapsed { .. }) {
            return Err(unsupported(kind.name(), input));
        }
        let unit_ns = match kind {
            TransformKind::Derivative { unit_ns: Some(unit), .. } => unit,
            TransformKind::Elapsed { unit_ns } => unit_ns,
            _ => interval_ns.filter(|interval| *interval > 0).unwrap_or(1_000_000_000),
        };
        Ok(Self { kind, input, unit_ns: unit_ns.max(1), descending })
    }

    /// Which transformation it computes.
    pub fn kind(&self) -> TransformKind {
        self.kind
    }

    /// The type of its values.
    pub fn output(&self) -> FieldType {
        self.kind.output(self.input)
    }

    /// For the points of one group.
    pub fn start(&self) -> Stream {
        Stream {
            call: *self,
            previous: None,
            current: None,
            window: VecDeque::new(),
            sum: Value::Null,
        }
    }
}

/// A transformation under way.
#[derive(Debug)]
pub struct Stream {
    call: Transform,
    /// The point before the current one; `None` once it has been used.
    previous: Option<(i64, Value)>,
    current: Option<(i64, Value)>,
    window: VecDeque<Value>,
    sum: Value,
}

impl Stream {
    /// Takes the next point in the order of the answer, and gives what comes of it. Null is
    /// passed over.
    pub fn push(&mut self, time: i64, value: &Value) -> Option<(i64, Value)> {
        let value = match self.call.kind {
            TransformKind::Elapsed { .. } => value.clone(),
            _ => crate::query::expr::cast(value, self.call.input),
        };
        if value == Value::Null {
            return None;
        }
        let result = match self.call.kind {
            TransformKind::Derivative { non_negative, .. } => {
                self.advance(time, value, true);
                self.derivative(non_negative)
            }
            TransformKind::Difference { non_negative } => {
                self.advance(time, value, true);
                self.difference(non_negative)
            }
            TransformKind::Elapsed { .. } => {
                self.advance(time, value, false);
                let (before, _) = self.previous.as_ref()?;
                Some(Value::Integer(time.wrapping_sub(*before) / self.call.unit_ns))
            }
            TransformKind::MovingAverage { size } => self.moving_average(value, size),
            TransformKind::CumulativeSum => {
                self.sum = add(&self.sum, &value);
                Some(self.sum.clone())
            }
        };
        result.map(|value| (time, value))
    }

    /// Of several points of one time, which several series may have, only the first counts where
    /// `once`: nothing comes of the others.
    fn advance(&mut self, time: i64, value: Value, once: bool) {
        if once && self.current.as_ref().is_some_and(|(current, _)| *current == time) {
            return;
        }
        self.previous = self.current.replace((time, value));
    }

    fn derivative(&mut self, non_negative: bool) -> Option<Value> {
        let (before, old) = self.previous.take()?;
        let (now, new) = self.current.as_ref()?;
        let difference = match (&old, new) {
            (Value::Float(old), Value::Float(new)) => new - old,
            (Value::Integer(old), Value::Integer(new)) => new.wrapping_sub(*old) as f64,
            (Value::Unsigned(old), Value::Unsigned(new)) if new > old => (new - old) as f64,
            (Value::Unsigned(old), Value::Unsigned(new)) => -((old - new) as f64),
            _ => return None,
        };
        let elapsed = now.wrapping_sub(before);
        let elapsed = if self.call.descending { elapsed.wrapping_neg() } else { elapsed };
        let value = difference / (elapsed as f64 / self.call.unit_ns as f64);
        (!non_negative || difference >= 0.0 || difference.is_nan()).then_some(Value::Float(value))
    }

    fn difference(&mut self, non_negative: bool) -> Option<Value> {
        let (_, old) = self.previous.as_ref()?;
        let (_, new) = self.current.as_ref()?;
        let (value, negative) = match (old, new) {
            (Value::Float(old), Value::Float(new)) => (Value::Float(new - old), new - old < 0.0),
            (Value::Integer(old), Value::Integer(new)) => {
                let value = new.wrapping_sub(*old);
                (Value::Integer(value), value < 0)
            }
            (Value::Unsigned(old), Value::Unsigned(new)) => {
                (Value::Unsigned(new.wrapping_sub(*old)), new < old)
            }
            _ => return None,
        };
        if non_negative && negative {
            return None;
        }
        self.previous = None;
        Some(value)
    }

    fn moving_average(&mut self, value: Value, size: u64) -> Option<Value> {
        // The sum is carried on, as InfluxDB does: what rounding leaves behind is the same.
        if self.window.len() as u64 >= size {
            let oldest = self.window.pop_front().unwrap_or(Value::Null);
            self.sum = subtract(&self.sum, &oldest);
        }
        self.sum = add(&self.sum, &value);
        self.window.push_back(value);
        let full = self.window.len() as u64 >= size;
        full.then(|| Value::Float(f64::cast(&self.sum).unwrap_or(f64::NAN) / size as f64))
    }
}

fn add(sum: &Value, value: &Value) -> Value {
    match (sum, value) {
        (Value::Float(a), Value::Float(b)) => Value::Float(a + b),
        (Value::Integer(a), Value::Integer(b)) => Value::Integer(a.wrapping_add(*b)),
        (Value::Unsigned(a), Value::Unsigned(b)) => Value::Unsigned(a.wrapping_add(*b)),
        // A sum begins with 0, which takes the sign from a zero.
        (_, Value::Float(first)) => Value::Float(0.0 + first),
        _ => value.clone(),
    }
}

fn subtract(sum: &Value, value: &Value) -> Value {
    match (sum, value) {
        (Value::Float(a), Value::Float(b)) => Value::Float(a - b),
        (Value::Integer(a), Value::Integer(b)) => Value::Integer(a.wrapping_sub(*b)),
        (Value::Unsigned(a), Value::Unsigned(b)) => Value::Unsigned(a.wrapping_sub(*b)),
        _ => sum.clone(),
    }
}
