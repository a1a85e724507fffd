//! What tombstones take of a file.

use super::FileInfo;
use crate::tombstone::{Condition, Tombstone};

impl FileInfo {
    /// Whether points of the file may be deleted by a tombstone: the file is older, and was not
    /// written by a compaction that has applied it.
    pub fn is_hit_by(&self, tombstone: &Tombstone) -> bool {
        self.positions.1 <= tombstone.position
            && self.cleaned < tombstone.position
            && tombstone.measurement.as_ref().is_none_or(|of| *of == self.measurement)
            && !tombstone.time.intersect(self.time).is_empty()
    }

    /// Whether nothing of the file is left by a tombstone that hits it.
    pub fn is_covered_by(&self, tombstone: &Tombstone) -> bool {
        self.is_hit_by(tombstone)
            && tombstone.matching == Condition::All
            && tombstone.time.min <= self.time.min
            && self.time.max <= tombstone.time.max
    }
}
