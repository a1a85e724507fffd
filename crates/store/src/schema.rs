//! The types of fields.

use std::collections::HashMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use wire::line::Value;

/// The type of a field, fixed by the first point that has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FieldType {
    /// `1.5`.
    Float,
    /// `1i`.
    Integer,
    /// `1u`.
    Unsigned,
    /// `"text"`.
    String,
    /// `true`.
    Boolean,
}

impl FieldType {
    /// InfluxDB's word for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Float => "float",
            Self::Integer => "integer",
            Self::Unsigned => "unsigned",
            Self::String => "string",
            Self::Boolean => "boolean",
        }
    }

    /// The type of a value.
    #[inline]
    pub fn of(value: Value<'_>) -> Self {
        match value {
            Value::Float(_) => Self::Float,
            Value::Integer(_) => Self::Integer,
            Value::Unsigned(_) => Self::Unsigned,
            Value::String(_) => Self::String,
            Value::Boolean(_) => Self::Boolean,
        }
    }
}

/// The fields of one measurement, numbered as they came.
#[derive(Clone, Debug, Default)]
pub(crate) struct FieldSet {
    list: Vec<(Arc<str>, FieldType)>,
    numbers: HashMap<Arc<str>, u32>,
}

impl FieldSet {
    /// Number and type of a field.
    pub(crate) fn find(&self, name: &str) -> Option<(u32, FieldType)> {
        let number = *self.numbers.get(name)?;
        Some((number, self.list.get(number as usize)?.1))
    }

    /// Adds a field that is not there yet; returns its number.
    pub(crate) fn add(&mut self, name: &str, of: FieldType) -> u32 {
        // Each field takes a name in a line; 2^32 of them would not fit any memory.
        let number = u32::try_from(self.list.len()).unwrap_or(u32::MAX);
        let name: Arc<str> = name.into();
        self.list.push((Arc::clone(&name), of));
        self.numbers.insert(name, number);
        number
    }

    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// All fields by number.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, FieldType)> {
        self.list.iter().map(|(name, of)| (&**name, *of))
    }
}

/// The first field that has another type than what is `known` of it, which is told each field in
/// turn and its type: the field's place, and the type that is known.
pub(crate) fn first_conflict<'a, N: AsRef<str>>(
    fields: &'a [(N, FieldType)],
    mut known: impl FnMut(&'a str, FieldType) -> Option<FieldType>,
) -> Option<(usize, FieldType)> {
    fields.iter().enumerate().find_map(|(at, (name, of))| {
        known(name.as_ref(), *of).filter(|known| known != of).map(|known| (at, known))
    })
}

/// InfluxDB's words for a value of another type than its field has.
pub(crate) fn conflict(field: &str, measurement: &str, is: FieldType, known: FieldType) -> String {
    format!(
        "field type conflict: input field \"{field}\" on measurement \"{measurement}\" is type \
         {}, already exists as type {}",
        is.name(),
        known.name()
    )
}
