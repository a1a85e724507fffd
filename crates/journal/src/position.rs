//! Where a record is in the journal, and how much came before it.

use std::fmt;
use std::ops::{Add, Sub};

use serde::{Deserialize, Serialize};

/// A place in the journal: the number of bytes that could have been written before it.
///
/// Positions only grow and are never reused, over restarts, recoveries and recycled segments. They
/// are not contiguous: the unused end of a segment is jumped over.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Position(pub u64);

impl Position {
    /// The first place of an empty journal.
    pub const ZERO: Position = Position(0);

    /// The place `bytes` further on; the last place there is where that would overflow.
    pub const fn after(self, bytes: u64) -> Position {
        Position(self.0.saturating_add(bytes))
    }

    /// How many bytes lie between `earlier` and this place; zero when `earlier` is later.
    pub const fn since(self, earlier: Position) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// How much has gone through the journal up to a place, since the journal was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Counts {
    /// Items: what the caller counts, for InfluxDB the points.
    pub items: u64,
    /// Control records, such as statements; they are counted apart from items.
    pub controls: u64,
    /// Bytes of records, their headers included.
    pub bytes: u64,
}

impl Counts {
    /// The larger of each number.
    pub(crate) fn max(self, other: Counts) -> Counts {
        Counts {
            items: self.items.max(other.items),
            controls: self.controls.max(other.controls),
            bytes: self.bytes.max(other.bytes),
        }
    }
}

impl Add for Counts {
    type Output = Counts;

    fn add(self, other: Counts) -> Counts {
        Counts {
            items: self.items.saturating_add(other.items),
            controls: self.controls.saturating_add(other.controls),
            bytes: self.bytes.saturating_add(other.bytes),
        }
    }
}

/// The difference, zero where `other` is larger: counts read from a damaged disk may disagree.
impl Sub for Counts {
    type Output = Counts;

    fn sub(self, other: Counts) -> Counts {
        Counts {
            items: self.items.saturating_sub(other.items),
            controls: self.controls.saturating_sub(other.controls),
            bytes: self.bytes.saturating_sub(other.bytes),
        }
    }
}
