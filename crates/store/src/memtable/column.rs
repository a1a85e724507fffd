//! The values of one field, growing.

use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray, Float64Array, Int64Array, StringArray, UInt64Array};
use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use wire::line::{Value, unescape_string};

use crate::schema::FieldType;

/// Values of one type, with a place for each null.
#[derive(Clone, Debug)]
enum Values {
    Float(Vec<f64>),
    Integer(Vec<i64>),
    Unsigned(Vec<u64>),
    Boolean(Vec<bool>),
    /// Where each string ends, and all of them.
    String(Vec<i32>, Vec<u8>),
}

/// The values of one field.
#[derive(Clone, Debug)]
pub(super) struct Column {
    values: Values,
    /// Which values are there, once one is not.
    valid: Option<Vec<bool>>,
}

/// Bytes of strings past which a block takes no more rows.
pub(super) const STRING_BYTES_MAX: usize = 1 << 29;

impl Column {
    pub(super) fn new(of: FieldType) -> Self {
        let values = match of {
            FieldType::Float => Values::Float(Vec::new()),
            FieldType::Integer => Values::Integer(Vec::new()),
            FieldType::Unsigned => Values::Unsigned(Vec::new()),
            FieldType::Boolean => Values::Boolean(Vec::new()),
            FieldType::String => Values::String(Vec::new(), Vec::new()),
        };
        Self { values, valid: None }
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        match &self.values {
            Values::Float(values) => values.len(),
            Values::Integer(values) => values.len(),
            Values::Unsigned(values) => values.len(),
            Values::Boolean(values) => values.len(),
            Values::String(ends, _) => ends.len(),
        }
    }

    /// Adds nulls up to `len` values.
    #[inline]
    pub(super) fn pad(&mut self, len: usize) {
        let known = self.len();
        if known >= len {
            return;
        }
        self.valid.get_or_insert_with(|| vec![true; known]).resize(len, false);
        match &mut self.values {
            Values::Float(values) => values.resize(len, 0.0),
            Values::Integer(values) => values.resize(len, 0),
            Values::Unsigned(values) => values.resize(len, 0),
            Values::Boolean(values) => values.resize(len, false),
            Values::String(ends, _) => ends.resize(len, ends.last().copied().unwrap_or(0)),
        }
    }

    /// Takes the last value away: a field that is written twice in a line has the later one.
    pub(super) fn pop(&mut self) {
        if let Some(valid) = &mut self.valid {
            valid.pop();
        }
        match &mut self.values {
            Values::Float(values) => drop(values.pop()),
            Values::Integer(values) => drop(values.pop()),
            Values::Unsigned(values) => drop(values.pop()),
            Values::Boolean(values) => drop(values.pop()),
            Values::String(ends, bytes) => {
                ends.pop();
                // Ends are never negative.
                bytes.truncate(ends.last().map_or(0, |&end| end as usize));
            }
        }
    }

    /// Adds a value of this column's type; one of another type is a null, which callers rule out.
    /// Returns the bytes it takes.
    #[inline]
    pub(super) fn push(&mut self, value: Value<'_>) -> usize {
        let bytes = match (&mut self.values, value) {
            (Values::Float(values), Value::Float(value)) => {
                values.push(value);
                8
            }
            (Values::Integer(values), Value::Integer(value)) => {
                values.push(value);
                8
            }
            (Values::Unsigned(values), Value::Unsigned(value)) => {
                values.push(value);
                8
            }
            (Values::Boolean(values), Value::Boolean(value)) => {
                values.push(value);
                1
            }
            (Values::String(ends, bytes), Value::String(text)) => {
                push_string(bytes, text);
                // Blocks end long before strings take 31 bits.
                ends.push(i32::try_from(bytes.len()).unwrap_or(i32::MAX));
                4 + text.len()
            }
            _ => {
                self.pad(self.len() + 1);
                return 8;
            }
        };
        if let Some(valid) = &mut self.valid {
            valid.push(true);
        }
        bytes
    }

    /// The column as an array of `len` values.
    pub(super) fn finish(mut self, len: usize) -> ArrayRef {
        self.pad(len);
        let nulls = self.valid.map(NullBuffer::from);
        match self.values {
            Values::Float(values) => Arc::new(Float64Array::new(values.into(), nulls)),
            Values::Integer(values) => Arc::new(Int64Array::new(values.into(), nulls)),
            Values::Unsigned(values) => Arc::new(UInt64Array::new(values.into(), nulls)),
            Values::Boolean(values) => {
                Arc::new(BooleanArray::new(BooleanBuffer::from(values), nulls))
            }
            Values::String(ends, mut bytes) => {
                bytes.shrink_to_fit();
                strings(&ends, bytes, nulls)
            }
        }
    }
}

fn strings(ends: &[i32], bytes: Vec<u8>, nulls: Option<NullBuffer>) -> ArrayRef {
    let offsets: Vec<i32> = [0].into_iter().chain(ends.iter().copied()).collect();
    let len = ends.len();
    let offsets = OffsetBuffer::new(ScalarBuffer::from(offsets));
    // `push_string` has let nothing but UTF-8 in.
    match StringArray::try_new(offsets, Buffer::from_vec(bytes), nulls) {
        Ok(array) => Arc::new(array),
        Err(_) => Arc::new(StringArray::new_null(len)),
    }
}

/// Adds a string as it is between its quotes. Bytes that are no UTF-8 become U+FFFD, as they would
/// in any answer.
#[inline]
fn push_string(bytes: &mut Vec<u8>, text: &[u8]) {
    if text.is_ascii() && memchr::memchr(b'\\', text).is_none() {
        bytes.extend_from_slice(text);
        return;
    }
    let text = unescape_string(text);
    bytes.extend_from_slice(String::from_utf8_lossy(&text).as_bytes());
}
