//! How full the journal is.

use super::status::Journal;

/// A journal that is full in less than this is near full, and one that is so full.
const NEAR_FULL_SECONDS: f64 = 3600.0;
const NEAR_FULL_SHARE: f64 = 0.8;
/// It is no longer near full once it would last for longer than this, and is emptier than that.
const FAR_FROM_FULL_SECONDS: f64 = 2.0 * NEAR_FULL_SECONDS;
const FAR_FROM_FULL_SHARE: f64 = 0.7;
/// How full the journal is, of concern to an operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fill {
    /// There is room for long.
    Low,
    /// Neither low nor high.
    Between,
    /// It is full soon.
    High,
}

impl Fill {
    /// Of a journal at one moment.
    pub fn of(journal: &Journal) -> Self {
        let share = journal.bytes_used as f64 / journal.bytes_max.max(1) as f64;
        let lasts = journal.until_full_seconds.unwrap_or(f64::INFINITY);
        if share >= NEAR_FULL_SHARE || lasts < NEAR_FULL_SECONDS {
            Self::High
        } else if share < FAR_FROM_FULL_SHARE && lasts > FAR_FROM_FULL_SECONDS {
            Self::Low
        } else {
            Self::Between
        }
    }
}
