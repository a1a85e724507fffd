//! Evaluation of one row: `ValuerEval` of InfluxQL's `ast.go`.

use wire::influxql::ast::Op;

use super::{Division, Node};
use crate::query::functions::element::Number;
use crate::schema::FieldType;
use crate::value::Value;

/// A value as another type: numbers are cast to one another, anything else is null.
pub fn cast(value: &Value, kind: FieldType) -> Value {
    match kind {
        FieldType::Integer | FieldType::Unsigned if is_nan(value) => Value::Null,
        FieldType::Float => f64::cast(value).map_or(Value::Null, Value::Float),
        FieldType::Integer => i64::cast(value).map_or(Value::Null, Value::Integer),
        FieldType::Unsigned => u64::cast(value).map_or(Value::Null, Value::Unsigned),
        FieldType::String if matches!(value, Value::String(_)) => value.clone(),
        FieldType::Boolean if matches!(value, Value::Boolean(_)) => value.clone(),
        FieldType::String | FieldType::Boolean => Value::Null,
    }
}

fn is_nan(value: &Value) -> bool {
    matches!(value, Value::Float(value) if value.is_nan())
}

pub(super) fn eval(node: &Node, slots: &[Value], division: Division) -> Value {
    match node {
        Node::Slot(at) => slots.get(*at).cloned().unwrap_or(Value::Null),
        Node::Literal(value) => value.clone(),
        Node::Math(math, arguments) => {
            let arguments: Vec<_> =
                arguments.iter().map(|argument| eval(argument, slots, division)).collect();
            math.call(&arguments)
        }
        Node::Binary(op, left, right) => {
            binary(*op, &eval(left, slots, division), &eval(right, slots, division), division)
        }
        Node::Match(wanted, left, regex) => match eval(left, slots, division) {
            Value::String(text) => Value::Boolean(regex.is_match(text.as_bytes()) == *wanted),
            _ => Value::Null,
        },
    }
}

/// An operation on two values, but matching a regular expression.
pub fn operate(op: Op, left: &Value, right: &Value, division: Division) -> Value {
    binary(op, left, right, division)
}

pub(super) fn binary(op: Op, left: &Value, right: &Value, division: Division) -> Value {
    use Value::{Boolean, Float, Integer, Null, String, Unsigned};
    let result = match (left, right) {
        // Beside a boolean, null is false.
        (Null, Boolean(b)) => boolean(op, false, *b),
        (Boolean(a), Null) => boolean(op, *a, false),
        (Boolean(a), Boolean(b)) => boolean(op, *a, *b),
        (Boolean(_), _) => Some(Boolean(false)).filter(|_| boolean(op, false, false).is_some()),
        (Float(a), Float(b)) => float(op, *a, *b),
        (Float(a), Integer(b)) => float(op, *a, *b as f64),
        (Float(a), Unsigned(b)) => float(op, *a, *b as f64),
        (Integer(a), Float(b)) => float(op, *a as f64, *b),
        (Unsigned(a), Float(b)) => float(op, *a as f64, *b),
        (Integer(a), Integer(b)) => integer(op, *a, *b, division),
        (Integer(a), Unsigned(b)) => ordered(op, *a < 0, i128::from(*a), i128::from(*b))
            .or_else(|| unsigned(op, *a as u64, *b)),
        (Unsigned(a), Integer(b)) => ordered(op, *b < 0, i128::from(*a), i128::from(*b))
            .or_else(|| unsigned(op, *a, *b as u64)),
        (Unsigned(a), Unsigned(b)) => unsigned(op, *a, *b),
        (String(a), String(b)) if op == Op::Equal => Some(Boolean(a == b)),
        (String(a), String(b)) if op == Op::NotEqual => Some(Boolean(a != b)),
        _ => None,
    };
    result.unwrap_or_else(|| incomparable(op))
}

/// Which of a negative number and an unsigned one is greater; equality alone is asked of their
/// bits.
fn ordered(op: Op, negative: bool, a: i128, b: i128) -> Option<Value> {
    let bits = matches!(op, Op::Equal | Op::NotEqual);
    (negative && !bits).then(|| compare(op, &a, &b).map(Value::Boolean)).flatten()
}

/// What comes of two types that do not go together.
pub(super) fn incomparable(op: Op) -> Value {
    match op {
        Op::Equal | Op::NotEqual | Op::Less | Op::LessOrEqual => Value::Boolean(false),
        Op::Greater | Op::GreaterOrEqual => Value::Boolean(false),
        _ => Value::Null,
    }
}

/// A comparison; `None` for other operations.
pub(super) fn compare<T: PartialOrd>(op: Op, a: &T, b: &T) -> Option<bool> {
    Some(match op {
        Op::Equal => a == b,
        Op::NotEqual => a != b,
        Op::Less => a < b,
        Op::LessOrEqual => a <= b,
        Op::Greater => a > b,
        Op::GreaterOrEqual => a >= b,
        _ => return None,
    })
}

fn boolean(op: Op, a: bool, b: bool) -> Option<Value> {
    Some(Value::Boolean(match op {
        Op::And | Op::BitwiseAnd => a && b,
        Op::Or | Op::BitwiseOr => a || b,
        Op::BitwiseXor | Op::NotEqual => a != b,
        Op::Equal => a == b,
        _ => return None,
    }))
}

/// Arithmetic of floats; a division by zero is 0. `None` for other operations.
pub(super) fn float_arithmetic(op: Op) -> Option<fn(f64, f64) -> f64> {
    Some(match op {
        Op::Add => |a, b| a + b,
        Op::Subtract => |a, b| a - b,
        Op::Multiply => |a, b| a * b,
        Op::Divide => |a, b| if b == 0.0 { 0.0 } else { a / b },
        Op::Modulo => |a, b| a % b,
        _ => return None,
    })
}

/// Arithmetic of whole numbers but a division that gives floats.
pub(super) fn integer_arithmetic(op: Op) -> Option<fn(i64, i64) -> i64> {
    Some(match op {
        Op::Add => i64::wrapping_add,
        Op::Subtract => i64::wrapping_sub,
        Op::Multiply => i64::wrapping_mul,
        Op::Divide => |a, b| if b == 0 { 0 } else { a.wrapping_div(b) },
        Op::Modulo => |a, b| if b == 0 { 0 } else { a.wrapping_rem(b) },
        Op::BitwiseAnd => |a, b| a & b,
        Op::BitwiseOr => |a, b| a | b,
        Op::BitwiseXor => |a, b| a ^ b,
        _ => return None,
    })
}

/// Arithmetic of unsigned numbers; their division is always cut.
pub(super) fn unsigned_arithmetic(op: Op) -> Option<fn(u64, u64) -> u64> {
    Some(match op {
        Op::Add => u64::wrapping_add,
        Op::Subtract => u64::wrapping_sub,
        Op::Multiply => u64::wrapping_mul,
        Op::Divide => |a, b| a.checked_div(b).unwrap_or(0),
        Op::Modulo => |a, b| a.checked_rem(b).unwrap_or(0),
        Op::BitwiseAnd => |a, b| a & b,
        Op::BitwiseOr => |a, b| a | b,
        Op::BitwiseXor => |a, b| a ^ b,
        _ => return None,
    })
}

fn float(op: Op, a: f64, b: f64) -> Option<Value> {
    if let Some(truth) = compare(op, &a, &b) {
        return Some(Value::Boolean(truth));
    }
    float_arithmetic(op).map(|result| Value::Float(result(a, b)))
}

fn integer(op: Op, a: i64, b: i64, division: Division) -> Option<Value> {
    if let Some(truth) = compare(op, &a, &b) {
        return Some(Value::Boolean(truth));
    }
    if op == Op::Divide && division == Division::Float {
        return float(op, a as f64, b as f64);
    }
    integer_arithmetic(op).map(|result| Value::Integer(result(a, b)))
}

fn unsigned(op: Op, a: u64, b: u64) -> Option<Value> {
    if let Some(truth) = compare(op, &a, &b) {
        return Some(Value::Boolean(truth));
    }
    unsigned_arithmetic(op).map(|result| Value::Unsigned(result(a, b)))
}
