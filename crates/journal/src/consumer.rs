//! Getting records out, at least once and in order.

use crate::chunk::Chunk;
use crate::error::ConsumeError;
use crate::position::Position;
use crate::status::{Backlog, CursorStatus};

/// Where a new cursor begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// After everything there is: only what comes later is received.
    End,
    /// At the oldest record the journal still keeps.
    Oldest,
}

/// What became of the items up to a commit, since the commit before.
///
/// The three numbers should add up to the items of the records committed. The journal knows that
/// number: what is missing is counted as dropped, what is too much (because `drop-oldest` had
/// given the records up meanwhile) is taken off `delivered` first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Done {
    /// Accepted by the consumer's other side.
    pub delivered: u64,
    /// Put into the dead letters, and synced there.
    pub dead_lettered: u64,
    /// Given up.
    pub dropped: u64,
}

/// One reader with a persisted cursor; used by one task at a time.
#[derive(Debug)]
pub struct Consumer {}

impl Consumer {
    /// The cursor's name.
    pub fn name(&self) -> &str {
        todo!()
    }

    /// The next records after those handed out before, at least one and at most about `bytes_max`
    /// bytes. Waits until the `ack` condition of a record holds. Dropping the future loses nothing.
    pub async fn next(&mut self, bytes_max: usize) -> Result<Chunk, ConsumeError> {
        todo!()
    }

    /// Moves the cursor to `up_to`, the end of a record that was handed out: it and everything
    /// before it is done. Persisted within about a tenth of a second, never before it is synced.
    /// A place before the cursor changes nothing.
    pub fn commit(&mut self, up_to: Position, done: Done) {
        todo!()
    }

    /// As [`commit`](Consumer::commit), and waits until the cursor is persisted.
    pub async fn commit_and_sync(
        &mut self,
        up_to: Position,
        done: Done,
    ) -> Result<(), ConsumeError> {
        todo!()
    }

    /// Hands out again what is not committed.
    pub fn rewind_to_cursor(&mut self) {
        todo!()
    }

    /// The cursor: everything before it is done.
    pub fn position(&self) -> Position {
        todo!()
    }

    /// What was released and not committed.
    pub fn backlog(&self) -> Backlog {
        todo!()
    }

    /// The whole account of the cursor.
    pub fn status(&self) -> CursorStatus {
        todo!()
    }
}
