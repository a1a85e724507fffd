//! Single values, and how InfluxDB casts numbers of one type to another.

use std::sync::Arc;

/// One value of a row.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// There is no value.
    Null,
    /// A 64-bit floating-point number.
    Float(f64),
    /// A signed 64-bit integer.
    Integer(i64),
    /// An unsigned 64-bit integer.
    Unsigned(u64),
    /// A string or a tag's value.
    String(Arc<str>),
    /// A boolean, `true` or `false`.
    Boolean(bool),
    /// A time, nanoseconds since 1970; shown as RFC 3339 or in the epoch asked for.
    Time(i64),
}

impl Value {
    /// A number as a float; `None` of anything else.
    pub fn float(&self) -> Option<f64> {
        match self {
            Self::Float(value) => Some(*value),
            Self::Integer(value) => Some(*value as f64),
            Self::Unsigned(value) => Some(*value as f64),
            _ => None,
        }
    }
}

/// A float as a whole number as Go has it on amd64: what is out of range becomes the least.
pub fn cut(value: f64) -> i64 {
    const EDGE: f64 = 9_223_372_036_854_775_808.0;
    if (-EDGE..EDGE).contains(&value) { value as i64 } else { i64::MIN }
}

/// A float as an unsigned number as Go has it on amd64: below 2^63 by way of an integer.
pub fn cut_unsigned(value: f64) -> u64 {
    const EDGE: f64 = 9_223_372_036_854_775_808.0;
    if value < EDGE { cut(value) as u64 } else { cut(value - EDGE) as u64 ^ (1 << 63) }
}
