//! Taking records from the journal: windows of points up to the next statement.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use journal::{Chunk, ConsumeError, Consumer, Position};
use tokio::time::{Instant, sleep_until, timeout_at};
use watch::metrics::Counter;

use super::batch::{Limits, Share, Window};
use crate::backends::PauseLine;
use crate::placement::{BatchTable, Membership};
use crate::record::{Points, Record, Statement};

/// Bytes asked of the journal at once.
const CHUNK_BYTES: usize = 512 * 1024;
/// Bytes of records that are held in the search for a canary.
const AHEAD_BYTES_MAX: u64 = 4 << 20;
/// Chunks held in the search; they may hold one record each.
const AHEAD_CHUNKS_MAX: usize = 4096;

/// What to do next.
#[derive(Debug, PartialEq, Eq)]
pub enum Next {
    /// The window is to be delivered.
    Window,
    /// This statement is to be run; everything before it has been taken.
    Statement(OwnedStatement),
    /// The next record has points that no period is in force for; everything before it has been
    /// taken.
    HeldBack,
    /// The next record is behind a statement that runs on all members; everything before it has
    /// been taken.
    Paused,
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
    /// The statement's text in InfluxQL.
    pub text: String,
}

/// A consumer, and what it has handed out and was not taken yet.
#[derive(Debug)]
pub struct Intake {
    consumer: Consumer,
    /// What is taken of records.
    membership: Membership,
    /// More than one only after a search for a canary.
    chunks: VecDeque<Chunk>,
    /// Records of the first chunk that were taken.
    taken: usize,
    /// No record behind its place is taken, while there is one.
    pause: PauseLine,
    unreadable: Counter,
}

/// The wait for company is spent in naps of this length. The journal has a group ready several
/// times in each millisecond; to wake for every one of them costs more than what it brings. What
/// ends the wait early, a full window or a statement, is seen after one.
const NAP: Duration = Duration::from_millis(5);

impl Intake {
    /// Takes of the records of `consumer` what `membership` says; counts those that cannot be read
    /// in `unreadable`.
    pub fn new(
        consumer: Consumer,
        membership: Membership,
        pause: PauseLine,
        unreadable: Counter,
    ) -> Self {
        Self { consumer, membership, chunks: VecDeque::new(), taken: 0, pause, unreadable }
    }

    /// Waits until another place, or none, is not to be passed.
    pub async fn resumed(&mut self) {
        self.pause.changed().await;
    }

    /// The table that what was filled last was chosen by.
    pub fn chosen_by(&self) -> BatchTable {
        self.membership.table().clone()
    }

    /// The journal's side, to commit.
    pub fn consumer(&mut self) -> &mut Consumer {
        &mut self.consumer
    }

    /// Fills the empty `window` until it is full, a statement comes, or `linger` has passed since
    /// its first record. Waits for that record as long as it takes. Dropping the future loses
    /// nothing that is not in `window`.
    ///
    /// # Errors
    /// When the journal cannot be read, or is closed.
    pub async fn fill(
        &mut self,
        window: &mut Window,
        limits: Limits,
        linger: Duration,
    ) -> Result<Next, ConsumeError> {
        self.membership.renew();
        let mut end = None;
        loop {
            while let Some(chunk) = self.chunks.front().cloned() {
                if let Some(next) = self.take(&chunk, window, limits) {
                    return Ok(next);
                }
                self.chunks.pop_front();
                self.taken = 0;
                // What the window has of it was copied.
                self.consumer.let_go(chunk.end());
            }
            if window.is_full(limits) {
                return Ok(Next::Window);
            }
            let chunk = if window.is_empty() {
                self.consumer.next(CHUNK_BYTES).await?
            } else {
                let end = *end.get_or_insert_with(|| Instant::now() + linger);
                if self.consumer.backlog().items <= window.points() {
                    sleep_until(end.min(Instant::now() + NAP)).await;
                }
                match timeout_at(end, self.consumer.next(CHUNK_BYTES)).await {
                    Ok(Ok(chunk)) => chunk,
                    // What went wrong comes again once the window is delivered.
                    Ok(Err(_)) | Err(_) => return Ok(Next::Window),
                }
            };
            self.chunks.push_back(chunk);
        }
    }

    /// Takes what is left of the first chunk; gives what stops that before its end.
    fn take(&mut self, chunk: &Chunk, window: &mut Window, limits: Limits) -> Option<Next> {
        let pause = self.pause.place();
        for record in chunk.records().skip(self.taken) {
            if pause.is_some_and(|at| record.position >= at) {
                return Some(if window.is_empty() { Next::Paused } else { Next::Window });
            }
            match Record::read(record.kind, record.payload) {
                Ok(Record::Points(points)) => {
                    if window.is_full(limits) {
                        return Some(Next::Window);
                    }
                    let share = match self.membership.own() {
                        None => Share::All,
                        Some(own) => match own.among(record.position.0, points.db, points.lines) {
                            Some(lines) => Share::Own(lines),
                            None if window.is_empty() => return Some(Next::HeldBack),
                            None => return Some(Next::Window),
                        },
                    };
                    if !window.push(&record, &points, share, limits) {
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
        None
    }

    /// Finds a point beyond the window that `wanted` takes: one in the same place, which `same`
    /// tells by a record's database and policy, or elsewhere once enough has been searched. It may
    /// lie beyond a statement: it is sent again in its turn. Waits for `patience` for new records.
    pub async fn look_ahead(
        &mut self,
        same: impl Fn(&str, &str) -> bool,
        patience: Duration,
        wanted: impl Fn(&[u8]) -> bool,
    ) -> Option<CanaryPoint> {
        let same = |points: &Points<'_>| same(points.db, points.rp);
        if let Some(found) = self.search(same, &wanted) {
            return Some(found);
        }
        let held: u64 = self.chunks.iter().map(Chunk::bytes).sum();
        if held >= AHEAD_BYTES_MAX || self.chunks.len() >= AHEAD_CHUNKS_MAX {
            return self.search(|_| true, &wanted);
        }
        let next = tokio::time::timeout(patience, self.consumer.next(CHUNK_BYTES)).await;
        let Ok(Ok(chunk)) = next else { return None };
        self.chunks.push_back(chunk);
        self.search(same, &wanted)
    }

    fn search(
        &mut self,
        of: impl Fn(&Points<'_>) -> bool,
        wanted: impl Fn(&[u8]) -> bool,
    ) -> Option<CanaryPoint> {
        let mut taken = self.taken;
        for chunk in &self.chunks {
            for record in chunk.records().skip(std::mem::take(&mut taken)) {
                let Ok(Record::Points(points)) = Record::read(record.kind, record.payload) else {
                    continue;
                };
                let membership = &mut self.membership;
                let mut fits = |line: &&[u8]| wanted(line) && membership.has(points.db, line);
                if of(&points)
                    && let Some(line) = wire::line::points(points.lines).find(|line| fits(line))
                {
                    let (db, rp) = (points.db.to_owned(), points.rp.to_owned());
                    return Some(CanaryPoint { db, rp, line: Bytes::copy_from_slice(line) });
                }
            }
        }
        None
    }
}

/// A point found ahead of its turn, to be sent as a canary.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CanaryPoint {
    /// The database that the point goes to.
    pub db: String,
    /// The retention policy; empty is the backend's default.
    pub rp: String,
    /// The point as line protocol.
    pub line: Bytes,
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
