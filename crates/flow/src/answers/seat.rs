//! What stands in a place.

use super::Join;

/// What has come of the answer to one request.
#[derive(Clone)]
pub(super) enum Seat {
    /// One answer, as it comes.
    Whole { waits: Vec<u8>, is_told: bool, is_done: bool, is_unheard: bool },
    /// Several, of which one is made when all are there.
    Parts { parts: Vec<AnswerPart>, join: Join, is_unheard: bool },
}

/// What has come of one of its parts.
#[derive(Clone, Default)]
pub(super) struct AnswerPart {
    pub(super) bytes: Vec<u8>,
    pub(super) is_done: bool,
}

impl Seat {
    /// Nothing has come yet. `is_unheard`: what comes reaches nobody.
    pub(super) const fn empty(is_unheard: bool) -> Self {
        Self::Whole { waits: Vec::new(), is_told: false, is_done: false, is_unheard }
    }

    pub(super) const fn done(waits: Vec<u8>) -> Self {
        Self::Whole { waits, is_told: false, is_done: true, is_unheard: false }
    }

    /// Whether what comes reaches nobody.
    pub(super) const fn is_unheard(&self) -> bool {
        match self {
            Self::Whole { is_unheard, .. } | Self::Parts { is_unheard, .. } => *is_unheard,
        }
    }

    pub(super) fn waits(&self) -> usize {
        match self {
            Self::Whole { waits, .. } => waits.len(),
            Self::Parts { parts, .. } => parts.iter().map(|part| part.bytes.len()).sum(),
        }
    }
}
