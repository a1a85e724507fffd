//! How far the journal may run ahead of the store: what is between them has to be read again
//! after a crash, and is held twice until a flush.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::Embedded;

/// Bytes of records that may be in the journal and not yet in the store's files.
const AHEAD_MAX: u64 = 256 << 20;
/// How long a write waits for room before it is refused.
const WAIT: Duration = Duration::from_secs(1);
/// How often it looks.
const LOOK: Duration = Duration::from_millis(10);

/// The store is too far behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the store is too far behind the journal; it takes writes again once it has caught up")]
pub struct Behind;

impl Embedded {
    /// Whether the journal may run on.
    pub fn has_room(&self) -> bool {
        self.pin.ahead() < AHEAD_MAX
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
        Err(Behind)
    }

    /// Whether the store should write files before its memory is full: half of what the journal
    /// may run ahead has come, or a quarter of what it can hold.
    pub(super) fn wants_flush(&self, journal_max: u64) -> bool {
        self.pin.ahead() > (AHEAD_MAX / 2).min(journal_max / 4)
    }
}
