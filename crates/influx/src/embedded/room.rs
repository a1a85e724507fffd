//! How far the journal may run ahead of the store: what is between them has to be read again
//! after a crash, and is held twice until a flush.

use std::fmt;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::Embedded;

/// How long a write waits for room before it is refused.
const WAIT: Duration = Duration::from_secs(1);
/// How often it looks.
const LOOK: Duration = Duration::from_millis(10);

/// Bytes that a series which is in no file yet counts as: to apply it again takes as long as the
/// points of so many bytes.
const SERIES_BYTES: u64 = 128;

/// The store is too far behind, or has no more room in memory while its files can't be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Behind {
    /// What stands in the way, where something fails.
    trouble: Option<String>,
}

impl fmt::Display for Behind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.trouble {
            None => f.write_str(
                "the store is too far behind the journal; it takes writes again once it has \
                 caught up",
            ),
            Some(why) => {
                write!(f, "the store takes no writes until this is set right: {why}")
            }
        }
    }
}

impl std::error::Error for Behind {}

impl Embedded {
    /// Whether the journal may run on.
    pub fn has_room(&self) -> bool {
        self.ahead() < self.ahead_max && !self.store.is_stuck()
    }

    /// How much is to be applied again after a kill.
    fn ahead(&self) -> u64 {
        self.pin.ahead().saturating_add(self.store.new_series().saturating_mul(SERIES_BYTES))
    }

    /// Why the journal may not run on.
    pub fn behind(&self) -> Option<Behind> {
        (!self.has_room()).then(|| Behind { trouble: self.store.trouble() })
    }

    /// Waits a moment until the journal may run on.
    ///
    /// # Errors
    /// When it still may not.
    pub async fn room(&self) -> Result<(), Behind> {
        if self.has_room() {
            return Ok(());
        }
        let end = Instant::now() + WAIT;
        while Instant::now() < end {
            sleep(LOOK).await;
            if self.has_room() {
                return Ok(());
            }
        }
        Err(Behind { trouble: self.store.trouble() })
    }

    /// Whether the store should write files before its memory is full: half of what the journal
    /// may run ahead has come, or a quarter of what it can hold.
    pub(super) fn wants_flush(&self, journal_max: u64) -> bool {
        self.ahead() > (self.ahead_max / 2).min(journal_max / 4)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use journal::{Journal, Outcome, Position, Start};
    use watch::metrics::Registry;

    use super::{Behind, Embedded};
    use crate::settings::BackendTable;

    #[tokio::test]
    async fn the_journal_runs_ahead_of_the_store_so_far_and_no_further() {
        let dir = tempfile::tempdir().unwrap();
        let registry = Registry::new();
        let settings =
            journal::Settings { dir: dir.path().join("journal"), ..journal::Settings::default() };
        let (journal, _) = Journal::open(settings, &registry).unwrap();
        let settings =
            store::Settings { dir: dir.path().join("store"), ..store::Settings::default() };
        let store = store::Store::open(settings, &registry).unwrap();
        let mut consumer = journal.consumer("store", Start::End).unwrap();
        let backend = BackendTable::embedded("store").settings().unwrap();
        let embedded =
            Embedded::new(backend.delivery(), &store, &mut consumer, &journal, &registry);
        let mut embedded = Arc::into_inner(embedded).unwrap();
        embedded.ahead_max = 1000;
        assert_eq!(embedded.room().await, Ok(()));
        for _ in 0..3 {
            journal.append_from_anywhere(1, 1, false, &[&[0; 400]]).await.unwrap();
        }
        assert_eq!(embedded.room().await, Err(Behind { trouble: None }), "after a second");
        assert!(embedded.wants_flush(u64::MAX));
        let mut end = Position::ZERO;
        while end < journal.acknowledged_end().await.unwrap() {
            end = consumer.next(1 << 20).await.unwrap().end();
        }
        consumer.settle(end, Outcome { delivered: 3, ..Outcome::default() });
        assert!(!embedded.has_room(), "applied is not yet in files");
        consumer.commit_settled(end);
        assert_eq!(embedded.room().await, Ok(()));
        assert!(!embedded.wants_flush(u64::MAX));
    }
}
