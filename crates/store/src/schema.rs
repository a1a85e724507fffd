//! The types of fields.

/// The type of a field, fixed by the first point that has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
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
}
