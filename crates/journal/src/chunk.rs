//! Records as a consumer gets them.

use crate::position::Position;

/// Some consecutive records. Owns its bytes, or shares them with the journal's memory; cheap to
/// clone and to hold.
#[derive(Debug, Clone, Default)]
pub struct Chunk {
    end: Position,
}

/// One record of a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record<'a> {
    /// Where the record is.
    pub position: Position,
    /// What to commit once this record and everything before it is done.
    pub end: Position,
    /// What the caller said it is.
    pub kind: u8,
    /// How many items it holds.
    pub items: u32,
    /// Whether it is a control record.
    pub control: bool,
    /// When its group was written, in nanoseconds since 1970.
    pub written_at: u64,
    /// What the caller gave.
    pub payload: &'a [u8],
}

impl Chunk {
    /// What to commit once every record of the chunk is done.
    pub fn end(&self) -> Position {
        self.end
    }

    /// Bytes of the records, their headers included.
    pub fn bytes(&self) -> u64 {
        todo!()
    }

    /// The records in order.
    pub fn records(&self) -> impl Iterator<Item = Record<'_>> {
        std::iter::empty()
    }
}
