//! What can be wrong with bytes that should be a value.

/// Why bytes cannot be read as a value, and where.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("hessian2: {kind} at byte {offset}")]
pub struct DecodeError {
    /// Counted from the first byte that the decoder was given.
    pub offset: usize,
    /// What was wrong there.
    pub kind: DecodeErrorKind,
}

/// What is wrong with the bytes of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DecodeErrorKind {
    /// The bytes end within a value.
    #[error("the bytes end within a value")]
    UnexpectedEnd,
    /// A byte with which no value begins.
    #[error("no value begins with {0:#04x}")]
    UnknownTag(u8),
    /// A value of another kind than the one that must stand there.
    #[error("{expected} was expected, and {tag:#04x} came")]
    UnexpectedTag {
        /// The kind of value, as `an int`.
        expected: &'static str,
        /// The byte with which the other value begins.
        tag: u8,
    },
    /// A length or a number of fields below zero.
    #[error("a length of {0}")]
    NegativeLength(i32),
    /// The number of a type that has not been written before.
    #[error("type {0} is not defined")]
    UndefinedType(i32),
    /// The number of a class that has not been defined before.
    #[error("class {0} is not defined")]
    UndefinedClass(i32),
    /// A reference to a list, map or object that has not begun before.
    #[error("reference {0} is not defined")]
    UndefinedReference(i32),
    /// Bytes that are no character of one to three bytes.
    #[error("invalid character encoding")]
    InvalidCharacter,
    /// Half of a surrogate pair, alone.
    #[error("unpaired surrogate {0:#06x}")]
    UnpairedSurrogate(u16),
    /// More than the [`Limits`](super::Limits) of the decoder allow.
    #[error("more than {max} {what}")]
    LimitExceeded {
        /// What there is too much of, in the plural.
        what: &'static str,
        /// As many are allowed.
        max: usize,
    },
}
