//! How far the store is in the journal.

use std::sync::atomic::{AtomicU64, Ordering};

/// Two positions of the journal. Both only grow, and what is in files has been applied.
#[derive(Debug)]
pub(super) struct Progress {
    /// The end of the last record applied.
    applied: AtomicU64,
    /// Up to where everything is in files.
    filed: AtomicU64,
}

impl Progress {
    /// A store with files up to a position.
    pub(super) fn from(position: u64) -> Self {
        Self { applied: AtomicU64::new(position), filed: AtomicU64::new(position) }
    }

    /// The end of the last record applied.
    #[inline]
    pub(super) fn applied(&self) -> u64 {
        self.applied.load(Ordering::Acquire)
    }

    /// Up to where everything is in files.
    pub(super) fn filed(&self) -> u64 {
        self.filed.load(Ordering::Acquire)
    }

    /// Whether a record that ends there has been applied, and so changes nothing.
    #[inline]
    pub(super) fn has_applied(&self, end: u64) -> bool {
        end <= self.applied()
    }

    /// Whether all that was applied is in files.
    pub(super) fn is_all_filed(&self) -> bool {
        self.applied() <= self.filed()
    }

    /// Notes that a record has been applied: who sees this sees what it wrote.
    #[inline]
    pub(super) fn note_applied(&self, end: u64) {
        self.applied.store(end, Ordering::Release);
    }

    /// Notes that the manifest is at a position.
    pub(super) fn note_filed(&self, position: u64) {
        self.filed.store(position, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_applied_once_and_is_in_files_later() {
        let progress = Progress::from(7);
        assert!(progress.has_applied(7) && !progress.has_applied(8) && progress.is_all_filed());
        progress.note_applied(9);
        assert!(progress.has_applied(8) && progress.has_applied(9) && !progress.is_all_filed());
        assert_eq!((progress.applied(), progress.filed()), (9, 7));
        progress.note_filed(9);
        assert!(progress.is_all_filed());
    }
}
