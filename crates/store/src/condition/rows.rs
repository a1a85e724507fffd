//! Which rows of a chunk match: conditions on fields (`influxql.ValuerEval`).

use std::sync::Arc;

use ::regex::bytes::Regex;
use arrow_array::{
    Array, ArrayRef, BooleanArray, Float64Array, Int64Array, StringArray, UInt64Array,
};
use arrow_buffer::BooleanBuffer;
use wire::influxql::ast::Op;

use super::reduce::{booleans, ordered};
use crate::math::Math;
use crate::schema::FieldType;
use crate::series::Series;
use crate::value::{Value, cut, cut_unsigned};

/// What is left of a condition for the rows of one series.
#[derive(Clone, Debug)]
pub enum RowFilter {
    /// Every row of the series matches.
    All,
    /// No row of the series matches.
    None,
    /// Those for which [`RowFilter::keep`] says so.
    Some(Arc<Tree>),
}

impl RowFilter {
    /// Which of `len` rows match; the columns are those of [`super::Filter::fields`].
    pub fn keep(&self, len: usize, columns: &[Option<ArrayRef>]) -> BooleanBuffer {
        match self {
            Self::All => BooleanBuffer::new_set(len),
            Self::None => BooleanBuffer::new_unset(len),
            Self::Some(tree) => {
                let columns: Vec<_> = columns.iter().map(|c| Column::of(c.as_ref())).collect();
                tree.keep(len, &columns)
            }
        }
    }
}

/// A condition on rows.
#[derive(Clone, Debug)]
pub enum Tree {
    /// A comparison of two values.
    Row(Row),
    /// Both conditions must hold.
    And(Arc<Tree>, Arc<Tree>),
    /// Either condition must hold.
    Or(Arc<Tree>, Arc<Tree>),
}

/// What null is beside a boolean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nulls {
    /// Equal to nothing and unequal to nothing: so points are looked at.
    Unequal,
    /// False: so rows of sub-queries are looked at.
    FalseBesideTruths,
}

/// What is calculated for each row.
#[derive(Clone, Debug)]
pub enum Row {
    /// Null, as of an absent tag.
    Null,
    /// A constant, a float.
    Float(f64),
    /// A constant, an integer.
    Integer(i64),
    /// A constant, an unsigned integer.
    Unsigned(u64),
    /// A constant, a boolean.
    Boolean(bool),
    /// A constant, or the value of a tag.
    String(Arc<str>),
    /// The right side of `=~`.
    Regex(Arc<Regex>),
    /// A tag, before the series is known.
    Tag(String),
    /// The same, empty where it is absent.
    Dimension(String),
    /// A field, by its place among the columns, and the type that it is cast to.
    Column(usize, Option<FieldType>),
    /// An operation on two values.
    Binary(Op, Box<Row>, Box<Row>, Nulls),
    /// A mathematical function with its arguments.
    Call(Math, Vec<Row>),
}

#[derive(Clone, Copy, Debug)]
enum Column<'a> {
    Absent,
    Float(&'a Float64Array),
    Integer(&'a Int64Array),
    Unsigned(&'a UInt64Array),
    Boolean(&'a BooleanArray),
    String(&'a StringArray),
}

/// One value of a row.
#[derive(Clone, Copy, Debug)]
enum Scalar<'a> {
    Null,
    Float(f64),
    Integer(i64),
    Unsigned(u64),
    Boolean(bool),
    String(&'a str),
    Regex(&'a Regex),
}

impl Scalar<'_> {
    /// As the type that `::` asks for; of another kind it is not a value.
    fn cast(self, to: FieldType) -> Self {
        match (to, self) {
            (FieldType::Float, value) => float(value).map_or(Scalar::Null, Scalar::Float),
            (FieldType::Integer | FieldType::Unsigned, Scalar::Float(value)) if value.is_nan() => {
                Scalar::Null
            }
            (FieldType::Integer, Scalar::Float(value)) => Scalar::Integer(cut(value)),
            (FieldType::Integer, Scalar::Unsigned(value)) => Scalar::Integer(value as i64),
            (FieldType::Unsigned, Scalar::Float(value)) => Scalar::Unsigned(cut_unsigned(value)),
            (FieldType::Unsigned, Scalar::Integer(value)) => Scalar::Unsigned(value as u64),
            (FieldType::Integer, value @ Scalar::Integer(_))
            | (FieldType::Unsigned, value @ Scalar::Unsigned(_))
            | (FieldType::String, value @ Scalar::String(_))
            | (FieldType::Boolean, value @ Scalar::Boolean(_)) => value,
            _ => Scalar::Null,
        }
    }

    /// For a function; strings are no argument of any.
    fn owned(self) -> Value {
        match self {
            Self::Float(value) => Value::Float(value),
            Self::Integer(value) => Value::Integer(value),
            Self::Unsigned(value) => Value::Unsigned(value),
            Self::Boolean(value) => Value::Boolean(value),
            Self::Null | Self::String(_) | Self::Regex(_) => Value::Null,
        }
    }
}

impl<'a> Column<'a> {
    fn of(array: Option<&'a ArrayRef>) -> Self {
        let Some(any) = array.map(|array| array.as_any()) else { return Self::Absent };
        let float = any.downcast_ref().map(Self::Float);
        float
            .or_else(|| any.downcast_ref().map(Self::Integer))
            .or_else(|| any.downcast_ref().map(Self::Unsigned))
            .or_else(|| any.downcast_ref().map(Self::Boolean))
            .or_else(|| any.downcast_ref().map(Self::String))
            .unwrap_or(Self::Absent)
    }

    fn value(self, at: usize) -> Scalar<'a> {
        match self {
            Self::Float(array) if array.is_valid(at) => Scalar::Float(array.value(at)),
            Self::Integer(array) if array.is_valid(at) => Scalar::Integer(array.value(at)),
            Self::Unsigned(array) if array.is_valid(at) => Scalar::Unsigned(array.value(at)),
            Self::Boolean(array) if array.is_valid(at) => Scalar::Boolean(array.value(at)),
            Self::String(array) if array.is_valid(at) => Scalar::String(array.value(at)),
            _ => Scalar::Null,
        }
    }
}

impl Tree {
    fn keep(&self, len: usize, columns: &[Column<'_>]) -> BooleanBuffer {
        match self {
            Self::And(left, right) => &left.keep(len, columns) & &right.keep(len, columns),
            Self::Or(left, right) => &left.keep(len, columns) | &right.keep(len, columns),
            Self::Row(row) => row.quick(len, columns).unwrap_or_else(|| {
                let yes = |at| matches!(row.value(at, columns), Scalar::Boolean(true));
                BooleanBuffer::collect_bool(len, yes)
            }),
        }
    }

    /// The same with the tags of a series as constants.
    pub(super) fn with_tags(&self, series: &Series) -> Self {
        match self {
            Self::Row(row) => Self::Row(row.with_tags(series)),
            Self::And(left, right) => {
                Self::And(Arc::new(left.with_tags(series)), Arc::new(right.with_tags(series)))
            }
            Self::Or(left, right) => {
                Self::Or(Arc::new(left.with_tags(series)), Arc::new(right.with_tags(series)))
            }
        }
    }
}

impl Row {
    fn with_tags(&self, series: &Series) -> Self {
        match self {
            // Unlike in the index, a tag that is absent is not a value here.
            Self::Tag(key) => match series.tag(key) {
                "" => Self::Null,
                value => Self::String(Arc::from(value)),
            },
            Self::Dimension(key) => Self::String(Arc::from(series.tag(key))),
            Self::Binary(op, left, right, nulls) => {
                let left = Box::new(left.with_tags(series));
                Self::Binary(*op, left, Box::new(right.with_tags(series)), *nulls)
            }
            Self::Call(math, inner) => {
                Self::Call(*math, inner.iter().map(|one| one.with_tags(series)).collect())
            }
            other => other.clone(),
        }
    }

    /// The usual case, `field op number`, without looking at each row's types.
    fn quick(&self, len: usize, columns: &[Column<'_>]) -> Option<BooleanBuffer> {
        let Self::Binary(op, left, right, _) = self else { return None };
        let Self::Column(at, None) = **left else { return None };
        ordered(*op, None)?;
        let yes = |order| ordered(*op, order).unwrap_or(false);
        let (nulls, buffer) = match (columns.get(at)?, &**right) {
            (Column::Absent, Row::Float(_) | Row::Integer(_) | Row::String(_)) => {
                return Some(BooleanBuffer::new_unset(len));
            }
            (Column::Float(array), number @ (Row::Float(_) | Row::Integer(_))) => {
                let number = match number {
                    Row::Integer(value) => *value as f64,
                    Row::Float(value) => *value,
                    _ => return None,
                };
                let values = array.values();
                let buffer = BooleanBuffer::collect_bool(len.min(values.len()), |at| {
                    yes(values[at].partial_cmp(&number))
                });
                (array.nulls(), buffer)
            }
            (Column::Integer(array), Row::Integer(number)) => {
                let values = array.values();
                let buffer = BooleanBuffer::collect_bool(len.min(values.len()), |at| {
                    yes(Some(values[at].cmp(number)))
                });
                (array.nulls(), buffer)
            }
            _ => return None,
        };
        Some(nulls.map_or_else(|| buffer.clone(), |nulls| &buffer & nulls.inner()))
    }

    fn value<'a>(&'a self, at: usize, columns: &[Column<'a>]) -> Scalar<'a> {
        match self {
            Self::Null | Self::Tag(_) | Self::Dimension(_) => Scalar::Null,
            Self::Float(value) => Scalar::Float(*value),
            Self::Integer(value) => Scalar::Integer(*value),
            Self::Unsigned(value) => Scalar::Unsigned(*value),
            Self::Boolean(value) => Scalar::Boolean(*value),
            Self::String(value) => Scalar::String(value),
            Self::Regex(regex) => Scalar::Regex(regex),
            Self::Column(place, cast) => {
                let value = columns.get(*place).map_or(Scalar::Null, |c| c.value(at));
                cast.map_or(value, |cast| value.cast(cast))
            }
            Self::Binary(op, left, right, nulls) => {
                let (left, right) = (left.value(at, columns), right.value(at, columns));
                match (nulls, left, right) {
                    (Nulls::FalseBesideTruths, Scalar::Null, Scalar::Boolean(_)) => {
                        operate(*op, Scalar::Boolean(false), right)
                    }
                    (Nulls::FalseBesideTruths, Scalar::Boolean(_), Scalar::Null) => {
                        operate(*op, left, Scalar::Boolean(false))
                    }
                    _ => operate(*op, left, right),
                }
            }
            Self::Call(math, inner) => {
                let of: Vec<Value> =
                    inner.iter().map(|one| one.value(at, columns).owned()).collect();
                match math.call(&of) {
                    Value::Float(value) => Scalar::Float(value),
                    Value::Integer(value) => Scalar::Integer(value),
                    Value::Unsigned(value) => Scalar::Unsigned(value),
                    _ => Scalar::Null,
                }
            }
        }
    }
}

/// An operation on two values (`ValuerEval.evalBinaryExpr`): of values that do not go together,
/// a comparison is false and anything else has no value.
fn operate<'a>(op: Op, left: Scalar<'a>, right: Scalar<'a>) -> Scalar<'a> {
    let value = match (left, right) {
        (Scalar::Boolean(left), Scalar::Boolean(right)) => {
            booleans(op, left, right).map(Scalar::Boolean)
        }
        (Scalar::Boolean(_), _) => booleans(op, false, false).map(|_| Scalar::Boolean(false)),
        (Scalar::Float(left), right) => float(right).and_then(|right| floats(op, left, right)),
        (Scalar::Integer(left), Scalar::Float(right)) => floats(op, left as f64, right),
        (Scalar::Unsigned(left), Scalar::Float(right)) => floats(op, left as f64, right),
        (Scalar::Integer(left), Scalar::Integer(right)) => integers(op, left, right),
        (Scalar::Integer(left), Scalar::Unsigned(right)) => mixed(op, left, right),
        (Scalar::Unsigned(left), Scalar::Integer(right)) => mixed(mirrored(op), right, left)
            .filter(|_| is_comparison(op))
            .or_else(|| unsigneds(op, left, right as u64)),
        (Scalar::Unsigned(left), Scalar::Unsigned(right)) => unsigneds(op, left, right),
        (Scalar::String(left), Scalar::String(right)) => match op {
            Op::Equal => Some(Scalar::Boolean(left == right)),
            Op::NotEqual => Some(Scalar::Boolean(left != right)),
            _ => None,
        },
        (Scalar::String(left), Scalar::Regex(right)) => match op {
            Op::EqualRegex => Some(Scalar::Boolean(right.is_match(left.as_bytes()))),
            Op::NotEqualRegex => Some(Scalar::Boolean(!right.is_match(left.as_bytes()))),
            _ => None,
        },
        _ => None,
    };
    let otherwise = if is_comparison(op) { Scalar::Boolean(false) } else { Scalar::Null };
    value.unwrap_or(otherwise)
}

fn is_comparison(op: Op) -> bool {
    ordered(op, None).is_some()
}

fn mirrored(op: Op) -> Op {
    match op {
        Op::Less => Op::Greater,
        Op::LessOrEqual => Op::GreaterOrEqual,
        Op::Greater => Op::Less,
        Op::GreaterOrEqual => Op::LessOrEqual,
        other => other,
    }
}

fn float(value: Scalar<'_>) -> Option<f64> {
    match value {
        Scalar::Float(value) => Some(value),
        Scalar::Integer(value) => Some(value as f64),
        Scalar::Unsigned(value) => Some(value as f64),
        _ => None,
    }
}

fn floats<'a>(op: Op, left: f64, right: f64) -> Option<Scalar<'a>> {
    let value = match op {
        Op::Add => left + right,
        Op::Subtract => left - right,
        Op::Multiply => left * right,
        Op::Divide if right == 0.0 => 0.0,
        Op::Divide => left / right,
        Op::Modulo => left % right,
        _ => return ordered(op, left.partial_cmp(&right)).map(Scalar::Boolean),
    };
    Some(Scalar::Float(value))
}

fn integers<'a>(op: Op, left: i64, right: i64) -> Option<Scalar<'a>> {
    let value = match op {
        Op::Add => left.wrapping_add(right),
        Op::Subtract => left.wrapping_sub(right),
        Op::Multiply => left.wrapping_mul(right),
        // Conditions divide integers as integers, unlike what is selected.
        Op::Divide if right == 0 => 0,
        Op::Divide => left.wrapping_div(right),
        Op::Modulo => left.checked_rem(right).unwrap_or(0),
        Op::BitwiseAnd => left & right,
        Op::BitwiseOr => left | right,
        Op::BitwiseXor => left ^ right,
        _ => return ordered(op, Some(left.cmp(&right))).map(Scalar::Boolean),
    };
    Some(Scalar::Integer(value))
}

fn unsigneds<'a>(op: Op, left: u64, right: u64) -> Option<Scalar<'a>> {
    let value = match op {
        Op::Add => left.wrapping_add(right),
        Op::Subtract => left.wrapping_sub(right),
        Op::Multiply => left.wrapping_mul(right),
        Op::Divide => left.checked_div(right).unwrap_or(0),
        Op::Modulo => left.checked_rem(right).unwrap_or(0),
        Op::BitwiseAnd => left & right,
        Op::BitwiseOr => left | right,
        Op::BitwiseXor => left ^ right,
        _ => return ordered(op, Some(left.cmp(&right))).map(Scalar::Boolean),
    };
    Some(Scalar::Unsigned(value))
}

/// A negative number is smaller than any unsigned one; only `=` compares their bits.
fn mixed<'a>(op: Op, left: i64, right: u64) -> Option<Scalar<'a>> {
    match op {
        Op::Less | Op::LessOrEqual if left < 0 => Some(Scalar::Boolean(true)),
        Op::Greater | Op::GreaterOrEqual if left < 0 => Some(Scalar::Boolean(false)),
        _ => unsigneds(op, left as u64, right),
    }
}
