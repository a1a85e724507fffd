//! Evaluation over columns. Where there is no fast way it goes row by row, with the same answer.

use std::sync::Arc;

use arrow_array::builder::StringBuilder;
use arrow_array::{Array, ArrayRef, BooleanArray, Float64Array, Int64Array, UInt64Array};
use arrow_buffer::{ArrowNativeType, BooleanBuffer, NullBuffer, ScalarBuffer};
use wire::influxql::ast::Op;

use super::scalar::{
    binary, cast, compare, float_arithmetic, incomparable, integer_arithmetic, unsigned_arithmetic,
};
use super::{Division, Input, Node};
use crate::query::functions::Column;
use crate::schema::FieldType;
use crate::value::Value;
use crate::value::{cut, cut_unsigned};

pub(super) fn eval(node: &Node, slots: &[Input], len: usize, division: Division) -> Input {
    match node {
        Node::Slot(at) => match slots.get(*at) {
            Some(Input::Array(array)) if array.len() != len => Input::Null,
            Some(Input::Scalar(Value::Null)) | None => Input::Null,
            Some(input) => input.clone(),
        },
        Node::Literal(Value::Null) => Input::Null,
        Node::Literal(value) => Input::Scalar(value.clone()),
        Node::Math(math, arguments) => {
            let arguments: Vec<_> =
                arguments.iter().map(|argument| eval(argument, slots, len, division)).collect();
            by_row(&arguments, len, |values| math.call(values))
        }
        Node::Match(wanted, left, regex) => {
            let found = |text: &[u8]| regex.is_match(text) == *wanted;
            matched(&eval(left, slots, len, division), len, found)
        }
        Node::Binary(op, left, right) => {
            let left = eval(left, slots, len, division);
            // What is false already stays so: the other side need not be looked at.
            if *op == Op::And && never(&left, len) {
                return Input::Scalar(Value::Boolean(false));
            }
            let right = eval(right, slots, len, division);
            fast(*op, &left, &right, len, division).unwrap_or_else(|| {
                by_row(&[left, right], len, |values| match values {
                    [left, right] => binary(*op, left, right, division),
                    _ => Value::Null,
                })
            })
        }
    }
}

fn matched(input: &Input, len: usize, found: impl Fn(&[u8]) -> bool) -> Input {
    if let Some(Column::String(text)) = column(input) {
        let found = |at| text.is_valid(at) && found(text.value(at).as_bytes());
        let mask = BooleanBuffer::collect_bool(len, found);
        return Input::Array(Arc::new(BooleanArray::new(mask, text.nulls().cloned())));
    }
    match input {
        Input::Scalar(Value::String(text)) => Input::Scalar(Value::Boolean(found(text.as_bytes()))),
        _ => Input::Null,
    }
}

/// Whether an input is false in each row.
fn never(input: &Input, len: usize) -> bool {
    match (input, column(input)) {
        (Input::Scalar(Value::Boolean(truth)), _) => !truth,
        (_, Some(Column::Boolean(array))) if array.null_count() == 0 => {
            truth(input, len).count_set_bits() == 0
        }
        _ => false,
    }
}

fn column(input: &Input) -> Option<Column<'_>> {
    if let Input::Array(array) = input { Column::of(array.as_ref()) } else { None }
}

/// The rows where an input is true.
pub(super) fn truth(input: &Input, len: usize) -> BooleanBuffer {
    match (input, column(input)) {
        (Input::Scalar(Value::Boolean(true)), _) => BooleanBuffer::new_set(len),
        (_, Some(Column::Boolean(array))) => match array.nulls() {
            Some(nulls) => array.values() & nulls.inner(),
            None => array.values().clone(),
        },
        _ => BooleanBuffer::new_unset(len),
    }
}

/// Which rows are not null; `None` is all.
fn known(input: &Input) -> Option<BooleanBuffer> {
    let nulls = column(input).and_then(|column| column.nulls());
    nulls.map(|nulls| nulls.inner().clone())
}

fn truths(mask: BooleanBuffer) -> Input {
    Input::Array(Arc::new(BooleanArray::new(mask, None)))
}

fn value(input: &Input, at: usize) -> Value {
    match input {
        Input::Null => Value::Null,
        Input::Scalar(value) => value.clone(),
        Input::Array(_) => column(input).map_or(Value::Null, |column| column.value(at)),
    }
}

/// Computes one row after the other, where no kernel takes whole columns.
fn by_row(inputs: &[Input], len: usize, of: impl Fn(&[Value]) -> Value) -> Input {
    let mut row: Vec<_> = inputs.iter().map(|input| value(input, 0)).collect();
    if !inputs.iter().any(|input| matches!(input, Input::Array(_))) {
        return match of(&row) {
            Value::Null => Input::Null,
            value => Input::Scalar(value),
        };
    }
    let mut values = Vec::with_capacity(len);
    for at in 0..len {
        for (slot, input) in row.iter_mut().zip(inputs) {
            if let Input::Array(_) = input {
                *slot = value(input, at);
            }
        }
        values.push(of(&row));
    }
    array(&values).map_or(Input::Null, Input::Array)
}

/// Values of one type as an array; `None` when all are null.
fn array(values: &[Value]) -> Option<ArrayRef> {
    macro_rules! collected {
        ($variant:ident, $array:ident) => {{
            let of = |value: &Value| if let Value::$variant(v) = value { Some(*v) } else { None };
            Arc::new(values.iter().map(of).collect::<$array>())
        }};
    }
    Some(match values.iter().find(|value| **value != Value::Null)? {
        Value::Float(_) => collected!(Float, Float64Array),
        Value::Integer(_) => collected!(Integer, Int64Array),
        Value::Time(_) => collected!(Time, Int64Array),
        Value::Unsigned(_) => collected!(Unsigned, UInt64Array),
        Value::Boolean(_) => collected!(Boolean, BooleanArray),
        Value::String(_) => {
            let mut builder = StringBuilder::new();
            for value in values {
                match value {
                    Value::String(text) => builder.append_value(text),
                    _ => builder.append_null(),
                }
            }
            Arc::new(builder.finish())
        }
        Value::Null => return None,
    })
}

/// One side of an operation of numbers of one type.
enum Side<'a, T> {
    One(T),
    Many(&'a [T], Option<&'a NullBuffer>),
    Cast(Vec<T>, Option<&'a NullBuffer>),
}

impl<T: Copy> Side<'_, T> {
    fn nulls(&self) -> Option<&NullBuffer> {
        match self {
            Self::One(_) => None,
            Self::Many(_, nulls) | Self::Cast(_, nulls) => *nulls,
        }
    }

    fn values(&self) -> Result<&[T], T> {
        match self {
            Self::One(value) => Err(*value),
            Self::Many(values, _) => Ok(values),
            Self::Cast(values, _) => Ok(values),
        }
    }
}

fn floats(input: &Input) -> Option<Side<'_, f64>> {
    Some(match (input, column(input)) {
        (_, Some(Column::Float(values, nulls))) => Side::Many(values, nulls),
        (_, Some(Column::Integer(values, nulls))) => {
            Side::Cast(values.iter().map(|v| *v as f64).collect(), nulls)
        }
        (_, Some(Column::Unsigned(values, nulls))) => {
            Side::Cast(values.iter().map(|v| *v as f64).collect(), nulls)
        }
        (Input::Scalar(value), _) => match cast(value, FieldType::Float) {
            Value::Float(value) => Side::One(value),
            _ => return None,
        },
        _ => return None,
    })
}

macro_rules! same {
    ($name:ident, $type:ty, $variant:ident) => {
        fn $name(input: &Input) -> Option<Side<'_, $type>> {
            match (input, column(input)) {
                (_, Some(Column::$variant(values, nulls))) => Some(Side::Many(values, nulls)),
                (Input::Scalar(Value::$variant(value)), _) => Some(Side::One(*value)),
                _ => None,
            }
        }
    };
}

same!(integers, i64, Integer);
same!(unsigneds, u64, Unsigned);

fn kind(input: &Input) -> Option<FieldType> {
    match input {
        Input::Scalar(Value::Float(_)) => Some(FieldType::Float),
        Input::Scalar(Value::Integer(_)) => Some(FieldType::Integer),
        Input::Scalar(Value::Unsigned(_)) => Some(FieldType::Unsigned),
        Input::Scalar(Value::String(_)) => Some(FieldType::String),
        Input::Scalar(Value::Boolean(_)) => Some(FieldType::Boolean),
        Input::Array(_) => column(input).map(|column| column.kind()),
        _ => None,
    }
}

/// The fast ways, of which at least one side is an array.
fn fast(op: Op, left: &Input, right: &Input, len: usize, division: Division) -> Option<Input> {
    use FieldType::{Boolean, Float, Integer, String, Unsigned};
    if !matches!(left, Input::Array(_)) && !matches!(right, Input::Array(_)) {
        return None;
    }
    let (Some(a), Some(b)) = (kind(left), kind(right)) else {
        // Null beside a number or a string: never true, and no number.
        let other = kind(left).or(kind(right))?;
        return (other != Boolean).then(|| match incomparable(op) {
            Value::Null => Input::Null,
            value => Input::Scalar(value),
        });
    };
    let comparison = compare(op, &0, &0).is_some();
    match (a, b) {
        (Boolean, Boolean) if matches!(op, Op::And | Op::Or) => {
            let (a, b) = (truth(left, len), truth(right, len));
            let mask = if op == Op::And { &a & &b } else { &a | &b };
            // Beside a boolean null is false; two of them are null.
            let nulls = known(left).zip(known(right)).map(|(a, b)| NullBuffer::new(&a | &b));
            Some(Input::Array(Arc::new(BooleanArray::new(mask, nulls))))
        }
        (String, String) => texts(op, left, right, len),
        (Integer, Integer) if comparison => {
            Some(compared(op, &integers(left)?, &integers(right)?, len))
        }
        (Integer, Integer) if op != Op::Divide || division == Division::Integer => {
            let result = integer_arithmetic(op)?;
            let (values, nulls) = zip(&integers(left)?, &integers(right)?, len, result);
            Some(Input::Array(Arc::new(Int64Array::new(values, nulls))))
        }
        (Unsigned, Unsigned) if comparison => {
            Some(compared(op, &unsigneds(left)?, &unsigneds(right)?, len))
        }
        (Unsigned, Unsigned) => {
            let result = unsigned_arithmetic(op)?;
            let (values, nulls) = zip(&unsigneds(left)?, &unsigneds(right)?, len, result);
            Some(Input::Array(Arc::new(UInt64Array::new(values, nulls))))
        }
        (Float, Float | Integer | Unsigned) | (Integer | Unsigned, Float) if comparison => {
            Some(compared(op, &floats(left)?, &floats(right)?, len))
        }
        (Float, Float | Integer | Unsigned) | (Integer | Unsigned, Float) | (Integer, Integer) => {
            let result = float_arithmetic(op)?;
            let (values, nulls) = zip(&floats(left)?, &floats(right)?, len, result);
            Some(Input::Array(Arc::new(Float64Array::new(values, nulls))))
        }
        _ => None,
    }
}

fn compared<T: PartialOrd + Copy>(op: Op, a: &Side<'_, T>, b: &Side<'_, T>, len: usize) -> Input {
    // The operation is chosen outside the loops, so that each of these is vectorised.
    let mask = match op {
        Op::Equal => test(a, b, len, |a, b| a == b),
        Op::NotEqual => test(a, b, len, |a, b| a != b),
        Op::Less => test(a, b, len, |a, b| a < b),
        Op::LessOrEqual => test(a, b, len, |a, b| a <= b),
        Op::Greater => test(a, b, len, |a, b| a > b),
        _ => test(a, b, len, |a, b| a >= b),
    };
    // Null is less, greater, equal and unequal to nothing.
    truths(match NullBuffer::union(a.nulls(), b.nulls()) {
        Some(nulls) => &mask & nulls.inner(),
        None => mask,
    })
}

fn test<T: Copy>(
    a: &Side<'_, T>,
    b: &Side<'_, T>,
    len: usize,
    holds: impl Fn(T, T) -> bool,
) -> BooleanBuffer {
    match (a.values(), b.values()) {
        (Ok(a), Ok(b)) => {
            let len = len.min(a.len()).min(b.len());
            BooleanBuffer::collect_bool(len, |at| holds(a[at], b[at]))
        }
        (Ok(a), Err(b)) => BooleanBuffer::collect_bool(a.len(), |at| holds(a[at], b)),
        (Err(a), Ok(b)) => BooleanBuffer::collect_bool(b.len(), |at| holds(a, b[at])),
        (Err(a), Err(b)) => BooleanBuffer::collect_bool(len, |_| holds(a, b)),
    }
}

fn zip<T: ArrowNativeType>(
    a: &Side<'_, T>,
    b: &Side<'_, T>,
    len: usize,
    of: impl Fn(T, T) -> T,
) -> (ScalarBuffer<T>, Option<NullBuffer>) {
    let values: Vec<T> = match (a.values(), b.values()) {
        (Ok(a), Ok(b)) => a.iter().zip(b).map(|(a, b)| of(*a, *b)).collect(),
        (Ok(a), Err(b)) => a.iter().map(|a| of(*a, b)).collect(),
        (Err(a), Ok(b)) => b.iter().map(|b| of(a, *b)).collect(),
        (Err(a), Err(b)) => vec![of(a, b); len],
    };
    (values.into(), NullBuffer::union(a.nulls(), b.nulls()))
}

fn texts(op: Op, left: &Input, right: &Input, len: usize) -> Option<Input> {
    let wanted = match op {
        Op::Equal => true,
        Op::NotEqual => false,
        _ => return None,
    };
    let (array, other) = match left {
        Input::Array(_) => (column(left)?, right),
        _ => (column(right)?, left),
    };
    let Column::String(array) = array else { return None };
    let mask = match (other, column(other)) {
        (Input::Scalar(Value::String(text)), _) => BooleanBuffer::collect_bool(len, |at| {
            array.is_valid(at) && (array.value(at) == &**text) == wanted
        }),
        (_, Some(Column::String(other))) => BooleanBuffer::collect_bool(len, |at| {
            let valid = array.is_valid(at) && other.is_valid(at);
            valid && (array.value(at) == other.value(at)) == wanted
        }),
        _ => return None,
    };
    Some(truths(mask))
}

/// A column as another type: numbers are cast to one another; `None` for what cannot be.
pub fn cast_array(array: &ArrayRef, to: FieldType) -> Option<ArrayRef> {
    let from = Column::of(array.as_ref())?;
    if from.kind() == to {
        return Some(Arc::clone(array));
    }
    let mut nulls = from.nulls().cloned();
    if let (Column::Float(values, _), FieldType::Integer | FieldType::Unsigned) = (&from, to)
        && values.iter().any(|value| value.is_nan())
    {
        // NaN is no whole number, and no row of a file has it: a calculation made it.
        let numbers: NullBuffer = values.iter().map(|value| !value.is_nan()).collect();
        nulls = NullBuffer::union(nulls.as_ref(), Some(&numbers));
    }
    macro_rules! cast {
        ($values:expr, $type:ty, $array:ident, $of:expr) => {
            Arc::new($array::new($values.iter().map($of).collect::<Vec<$type>>().into(), nulls))
        };
    }
    Some(match (from, to) {
        (Column::Float(v, _), FieldType::Integer) => cast!(v, i64, Int64Array, |v| cut(*v)),
        (Column::Float(v, _), FieldType::Unsigned) => {
            cast!(v, u64, UInt64Array, |v| cut_unsigned(*v))
        }
        (Column::Integer(v, _), FieldType::Float) => cast!(v, f64, Float64Array, |v| *v as f64),
        (Column::Integer(v, _), FieldType::Unsigned) => cast!(v, u64, UInt64Array, |v| *v as u64),
        (Column::Unsigned(v, _), FieldType::Float) => cast!(v, f64, Float64Array, |v| *v as f64),
        (Column::Unsigned(v, _), FieldType::Integer) => cast!(v, i64, Int64Array, |v| *v as i64),
        _ => return None,
    })
}
