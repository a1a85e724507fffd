//! Taking records from the journal: windows of points up to the next statement.

use std::time::Duration;

use journal::{Chunk, ConsumeError, Consumer, Position};
use tokio::time::{Instant, timeout_at};
use watch::metrics::Counter;

use super::batch::{Limits, Window};
use crate::record::{Record, Statement};

/// Bytes asked of the journal at once.
const CHUNK_BYTES: usize = 512 * 1024;

/// What to do next.
#[derive(Debug, PartialEq, Eq)]
pub enum Next {
    /// The window is to be delivered.
    Window,
    /// This statement is to be run; everything before it has been taken.
    Statement(OwnedStatement),
}

/// A statement with its place in the journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnedStatement {
    /// Where its record is.
    pub position: Position,
    /// What to commit once it has run.
    pub end: Position,
    /// When it was accepted, in nanoseconds since 1970.
    pub written_at: u64,
    /// Whom the result is for.
    pub id: u64,
    /// The `db` the client gave.
    pub db: String,
    /// The `rp` the client gave.
    pub rp: String,
    /// The bound parameters the client gave, as JSON.
    pub params: String,
    /// The statement.
    pub text: String,
}

/// A consumer, and what of its last chunk has not been taken yet.
#[derive(Debug)]
pub struct Intake {
    consumer: Consumer,
    chunk: Chunk,
    /// Records of `chunk` that were taken.
    taken: usize,
    left: bool,
    unreadable: Counter,
}

impl Intake {
    /// Takes records from `consumer`; counts those that cannot be read in `unreadable`.
    pub fn new(consumer: Consumer, unreadable: Counter) -> Self {
        Self { consumer, chunk: Chunk::default(), taken: 0, left: false, unreadable }
    }

    /// The journal's side, to commit.
    pub fn consumer(&mut self) -> &mut Consumer {
        &mut self.consumer
    }

    /// Fills the empty `window` until it is full, a statement comes, or nothing has come for
    /// `linger` since its first record. Waits for that record as long as it takes. Dropping the
    /// future loses nothing that is not in `window`.
    ///
    /// # Errors
    /// When the journal cannot be read, or is closed.
    pub async fn fill(
        &mut self,
        window: &mut Window,
        limits: Limits,
        linger: Duration,
    ) -> Result<Next, ConsumeError> {
        let mut end = None;
        loop {
            if self.left
                && let Some(next) = self.take(window, limits)
            {
                return Ok(next);
            }
            if window.is_full(limits) {
                return Ok(Next::Window);
            }
            let chunk = if window.is_empty() {
                self.consumer.next(CHUNK_BYTES).await?
            } else {
                let end = *end.get_or_insert_with(|| Instant::now() + linger);
                match timeout_at(end, self.consumer.next(CHUNK_BYTES)).await {
                    Ok(chunk) => chunk?,
                    Err(_) => return Ok(Next::Window),
                }
            };
            (self.chunk, self.taken, self.left) = (chunk, 0, true);
        }
    }

    /// Takes what is left of the chunk; gives what stops that before its end.
    fn take(&mut self, window: &mut Window, limits: Limits) -> Option<Next> {
        for record in self.chunk.records().skip(self.taken) {
            match Record::read(record.kind, record.payload) {
                Ok(Record::Points(points)) => {
                    if window.is_full(limits) || !window.push(&record, &points, limits) {
                        return Some(Next::Window);
                    }
                }
                Ok(Record::Statement(_)) if !window.is_empty() => return Some(Next::Window),
                Ok(Record::Statement(statement)) => {
                    self.taken += 1;
                    return Some(Next::Statement(owned(&record, &statement)));
                }
                Err(error) => {
                    self.unreadable.inc();
                    let position = record.position.0;
                    tracing::error!(position, %error, "journal record is left out");
                    window.skip(&record);
                }
            }
            self.taken += 1;
        }
        (self.chunk, self.taken, self.left) = (Chunk::default(), 0, false);
        None
    }

    /// Finds a point for `db` and `rp` beyond the window that `wanted` takes, before any statement.
    /// Waits for `patience` when nothing is there yet.
    pub async fn look_ahead(
        &mut self,
        db: &str,
        rp: &str,
        patience: Duration,
        wanted: impl Fn(&[u8]) -> bool,
    ) -> Option<Vec<u8>> {
        if !self.left {
            let next = tokio::time::timeout(patience, self.consumer.next(CHUNK_BYTES)).await;
            let Ok(Ok(chunk)) = next else { return None };
            (self.chunk, self.taken, self.left) = (chunk, 0, true);
        }
        for record in self.chunk.records().skip(self.taken) {
            match Record::read(record.kind, record.payload) {
                Ok(Record::Points(points)) if points.db == db && points.rp == rp => {
                    let found = wire::line::points(points.lines).find(|line| wanted(line));
                    if let Some(line) = found {
                        return Some(line.to_vec());
                    }
                }
                Ok(Record::Statement(_)) => return None,
                _ => {}
            }
        }
        None
    }
}

fn owned(record: &journal::Record<'_>, statement: &Statement<'_>) -> OwnedStatement {
    OwnedStatement {
        position: record.position,
        end: record.end,
        written_at: record.written_at,
        id: statement.id,
        db: statement.db.to_owned(),
        rp: statement.rp.to_owned(),
        params: statement.params.to_owned(),
        text: statement.text.to_owned(),
    }
}
