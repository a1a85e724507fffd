//! The journal as one thing: opening, its parts, closing.

use std::path::Path;
use std::sync::Arc;

use watch::metrics::Registry;

use crate::appender::Appender;
use crate::consumer::{Consumer, Start};
use crate::error::{AppendAndWaitError, CursorError, OpenError};
use crate::position::Position;
use crate::recovery::Recovery;
use crate::settings::Settings;
use crate::status::{CursorStatus, Status};

/// An open journal. Clones are the same journal; it is closed by [`close`](Journal::close) or with
/// the last clone.
#[derive(Debug, Clone)]
pub struct Journal {}

impl Journal {
    /// Opens the journal in `settings.dir`, or makes it. Takes the directory for this process,
    /// recovers what is there and says what it found.
    pub fn open(settings: Settings, registry: &Registry) -> Result<(Journal, Recovery), OpenError> {
        todo!()
    }

    /// A way into the journal for one worker.
    pub fn appender(&self) -> Appender {
        todo!()
    }

    /// Takes one record from any task and waits until it is acknowledged; gives its position.
    /// For the few records that do not come from a worker: it crosses threads.
    pub async fn append_from_anywhere(
        &self,
        kind: u8,
        items: u32,
        control: bool,
        payload: &[&[u8]],
    ) -> Result<Position, AppendAndWaitError> {
        todo!()
    }

    /// Opens the cursor of this name where it was left, or makes one at `start`. The cursor is
    /// on disk when this returns. Blocks on the disk for a moment.
    pub fn consumer(&self, name: &str, start: Start) -> Result<Consumer, CursorError> {
        todo!()
    }

    /// The account of every cursor, all of the same moment.
    pub fn cursors(&self) -> Vec<CursorStatus> {
        todo!()
    }

    /// Cursors with a backlog that are not in `names`: their records would never be delivered.
    pub fn unclaimed(&self, names: &[&str]) -> Vec<CursorStatus> {
        todo!()
    }

    /// Removes cursors that have no backlog and are not in `names`; gives the names removed.
    pub fn forget_finished(&self, names: &[&str]) -> Result<Vec<String>, CursorError> {
        todo!()
    }

    /// Removes a cursor that no consumer has, with its backlog; gives its last account.
    pub fn forget(&self, name: &str) -> Result<CursorStatus, CursorError> {
        todo!()
    }

    /// The state of the whole journal.
    pub fn status(&self) -> Status {
        todo!()
    }

    /// Refuses new records, writes and syncs what was taken, persists the cursors and stops the
    /// threads. A second call waits for the first.
    pub async fn close(&self) {
        todo!()
    }
}

/// Removes a cursor from a journal that no process has open; gives its last account.
pub fn forget(dir: &Path, name: &str) -> Result<CursorStatus, CursorError> {
    todo!()
}
