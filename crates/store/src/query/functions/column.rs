//! Columns of a chunk, with their types found out once.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type, UInt64Type};
use arrow_array::{Array, BooleanArray, StringArray};
use arrow_buffer::NullBuffer;
use arrow_schema::DataType;

use crate::schema::FieldType;
use crate::value::Value;

/// A column of a chunk, borrowed.
#[derive(Clone, Copy, Debug)]
pub enum Column<'a> {
    /// Floats, and which are valid.
    Float(&'a [f64], Option<&'a NullBuffer>),
    /// Integers, and which are valid.
    Integer(&'a [i64], Option<&'a NullBuffer>),
    /// Unsigned integers, and which are valid.
    Unsigned(&'a [u64], Option<&'a NullBuffer>),
    /// Strings; the array knows which are valid.
    String(&'a StringArray),
    /// Booleans; the array knows which are valid.
    Boolean(&'a BooleanArray),
}

impl<'a> Column<'a> {
    /// A column of a chunk; `None` for an array that is not a field's.
    pub fn of(array: &'a dyn Array) -> Option<Self> {
        let nulls = array.nulls().filter(|nulls| nulls.null_count() > 0);
        match array.data_type() {
            DataType::Float64 => {
                let array = array.as_primitive_opt::<Float64Type>()?;
                Some(Self::Float(array.values(), nulls))
            }
            DataType::Int64 => {
                let array = array.as_primitive_opt::<Int64Type>()?;
                Some(Self::Integer(array.values(), nulls))
            }
            DataType::UInt64 => {
                let array = array.as_primitive_opt::<UInt64Type>()?;
                Some(Self::Unsigned(array.values(), nulls))
            }
            DataType::Utf8 => array.as_string_opt::<i32>().map(Self::String),
            DataType::Boolean => array.as_boolean_opt().map(Self::Boolean),
            _ => None,
        }
    }

    /// How many rows it has.
    pub fn len(&self) -> usize {
        match self {
            Self::Float(values, _) => values.len(),
            Self::Integer(values, _) => values.len(),
            Self::Unsigned(values, _) => values.len(),
            Self::String(array) => array.len(),
            Self::Boolean(array) => array.len(),
        }
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The type of its values.
    pub fn kind(&self) -> FieldType {
        match self {
            Self::Float(..) => FieldType::Float,
            Self::Integer(..) => FieldType::Integer,
            Self::Unsigned(..) => FieldType::Unsigned,
            Self::String(_) => FieldType::String,
            Self::Boolean(_) => FieldType::Boolean,
        }
    }

    /// Which rows are valid; `None` is all.
    pub fn nulls(&self) -> Option<&'a NullBuffer> {
        match *self {
            Self::Float(_, nulls) | Self::Integer(_, nulls) | Self::Unsigned(_, nulls) => nulls,
            Self::String(array) => array.nulls().filter(|nulls| nulls.null_count() > 0),
            Self::Boolean(array) => array.nulls().filter(|nulls| nulls.null_count() > 0),
        }
    }

    /// Whether a row holds a value.
    pub fn is_valid(&self, at: usize) -> bool {
        at < self.len() && self.nulls().is_none_or(|nulls| nulls.is_valid(at))
    }

    /// The value of a row; null past the end.
    pub fn value(&self, at: usize) -> Value {
        if !self.is_valid(at) {
            return Value::Null;
        }
        match self {
            Self::Float(values, _) => values.get(at).map_or(Value::Null, |v| Value::Float(*v)),
            Self::Integer(values, _) => values.get(at).map_or(Value::Null, |v| Value::Integer(*v)),
            Self::Unsigned(values, _) => {
                values.get(at).map_or(Value::Null, |v| Value::Unsigned(*v))
            }
            Self::String(array) => Value::String(Arc::from(array.value(at))),
            Self::Boolean(array) => Value::Boolean(array.value(at)),
        }
    }

    /// Calls `take` with each run of neighbouring valid rows within `rows`.
    pub(crate) fn valid_runs(&self, rows: Range<usize>, mut take: impl FnMut(Range<usize>)) {
        let rows = rows.start.min(self.len())..rows.end.min(self.len());
        if rows.is_empty() {
            return;
        }
        let Some(nulls) = self.nulls() else { return take(rows) };
        for (start, end) in nulls.slice(rows.start, rows.len()).valid_slices() {
            take(rows.start + start..rows.start + end);
        }
    }

    /// How many rows within `rows` hold a value.
    pub fn count(&self, rows: Range<usize>) -> usize {
        let rows = rows.start.min(self.len())..rows.end.min(self.len());
        match self.nulls() {
            _ if rows.is_empty() => 0,
            None => rows.len(),
            Some(nulls) => rows.len() - nulls.slice(rows.start, rows.len()).null_count(),
        }
    }
}
