//! What was found when the journal was opened.

use std::fmt;

use crate::position::Position;
use crate::status::Damage;

/// What opening the journal found. `Display` is one or more lines for the log.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Recovery {
    /// Segment files found.
    pub segments: u64,
    /// The end of the intact records.
    pub end: Position,
    /// Where the torn tail was cut, and how many bytes after it were given up.
    pub cut: Option<Cut>,
    /// Damaged or missing places before the last synced end.
    pub damage: Vec<Damage>,
}

/// A torn tail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cut {
    /// Everything from here on was given up; nothing of it had been acknowledged as synced.
    pub at: Position,
    /// The file and the offset.
    pub place: String,
    /// Bytes of records given up, as far as can be told.
    pub bytes: u64,
}

impl Recovery {
    /// Whether everything was as it was left.
    pub fn is_clean(&self) -> bool {
        self.cut.is_none() && self.damage.is_empty()
    }
}

impl fmt::Display for Recovery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} segments, intact up to {}", self.segments, self.end)
    }
}
