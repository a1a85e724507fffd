//! What stands in a place.

use super::Join;

/// What has come of the answer to one request.
#[derive(Clone)]
pub(super) enum Seat {
    /// One answer, as it comes.
    Whole { waits: Vec<u8>, is_told: bool, is_done: bool },
    /// Several, of which one is made when all are there.
    Parts { parts: Vec<Part>, join: Join },
}

/// What has come of one of its parts.
#[derive(Clone, Default)]
pub(super) struct Part {
    pub(super) bytes: Vec<u8>,
    pub(super) is_done: bool,
}

impl Seat {
    pub(super) const fn empty() -> Self {
        Self::Whole { waits: Vec::new(), is_told: false, is_done: false }
    }

    pub(super) const fn done(waits: Vec<u8>) -> Self {
        Self::Whole { waits, is_told: false, is_done: true }
    }

    pub(super) fn waits(&self) -> usize {
        match self {
            Self::Whole { waits, .. } => waits.len(),
            Self::Parts { parts, .. } => parts.iter().map(|part| part.bytes.len()).sum(),
        }
    }
}
