//! Getting records out, at least once and in order.

pub(crate) mod reader;

use std::collections::VecDeque;
use std::sync::Arc;

use tokio::sync::Notify;

use self::reader::{Item, Limit, ReadPosition};
use crate::core::Core;
use crate::cursors::chunk::{Chunk, Span};
use crate::cursors::ledger::Cursor;
use crate::cursors::settled::{Pin, Settled, Step};
use crate::error::ConsumeError;
use crate::outcome::Outcome;
use crate::position::{Counts, Position};
use crate::status::{Backlog, CursorStatus};
use crate::threads::{lock, now_ns};

/// Where a new cursor begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// After everything there is: only what comes later is received.
    End,
    /// At the oldest record the journal still keeps.
    Oldest,
}

/// One reader with a persisted cursor; used by one task at a time.
///
/// What was handed out and neither committed nor settled stays in memory, so a consumer should not
/// run far ahead of that.
#[derive(Debug)]
pub struct Consumer {
    core: Arc<Core>,
    name: String,
    released: Arc<Notify>,
    /// Where the next chunk begins.
    place: ReadPosition,
    /// What was handed out, or is known to be lost, and is not committed.
    outstanding: VecDeque<Item>,
    /// What comes before that, is done, and is not committed.
    settled: Settled,
}

enum Attempt {
    Ready(Chunk),
    Wait,
    Disk(Limit),
}

impl Consumer {
    /// Takes up a cursor of the ledger, which the caller has marked as in use.
    pub(crate) fn new(core: Arc<Core>, name: &str, cursor: &Cursor) -> Consumer {
        Consumer {
            core,
            name: name.to_owned(),
            released: cursor.released.clone(),
            place: place_of(cursor),
            outstanding: VecDeque::new(),
            settled: Settled::default(),
        }
    }

    /// The name of its cursor.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The next records after those handed out before, at least one and at most about `bytes_max`
    /// bytes. Waits until the `ack` condition of a record holds. Dropping the future loses nothing.
    pub async fn next(&mut self, bytes_max: usize) -> Result<Chunk, ConsumeError> {
        loop {
            let limit = match self.attempt(bytes_max)? {
                Attempt::Ready(chunk) => return Ok(chunk),
                Attempt::Wait => {
                    self.released.notified().await;
                    continue;
                }
                Attempt::Disk(limit) => limit,
            };
            let (core, place) = (self.core.clone(), self.place);
            let read =
                tokio::task::spawn_blocking(move || reader::read(&core, place, limit, bytes_max));
            // A join error means that the runtime is being shut down.
            let (items, next) = read.await.map_err(|_| ConsumeError::Closed)??;
            if self.was_overtaken(place)? {
                continue;
            }
            self.place = next;
            let spans = items.iter().filter_map(|item| match item {
                Item::Span(span) => Some(span.clone()),
                Item::Lost(_) => None,
            });
            let chunk = Chunk { spans: spans.collect() };
            self.outstanding.extend(items);
            self.pass_losses();
            if !chunk.spans.is_empty() {
                return Ok(chunk);
            }
        }
    }

    /// The next chunk if it is in memory.
    fn attempt(&mut self, bytes_max: usize) -> Result<Attempt, ConsumeError> {
        self.was_overtaken(self.place)?;
        let ledger = lock(&self.core.ledger);
        if self.place.position >= ledger.released_end {
            if ledger.finished {
                return Err(ConsumeError::Closed);
            }
            return Ok(Attempt::Wait);
        }
        let limit = Limit { end: ledger.released_end, counts: ledger.counts };
        let spans = ledger.tail.read(self.place.position, bytes_max);
        drop(ledger);
        let Some(last) = spans.as_ref().and_then(|spans| spans.last()) else {
            return Ok(Attempt::Disk(limit));
        };
        self.place =
            ReadPosition { position: last.end(), group: group_at_end(last), counts: last.after };
        let chunk = Chunk { spans: spans.unwrap_or_default() };
        self.outstanding.extend(chunk.spans.iter().cloned().map(Item::Span));
        Ok(Attempt::Ready(chunk))
    }

    /// Whether `drop-oldest` has moved the cursor past a place: what was read there may be the
    /// leavings of a recycled segment. Reading then goes on at the cursor.
    fn was_overtaken(&mut self, place: ReadPosition) -> Result<bool, ConsumeError> {
        let ledger = lock(&self.core.ledger);
        let Some(cursor) = ledger.cursors.get(&self.name) else {
            return Err(ConsumeError::Forgotten { name: self.name.clone() });
        };
        if cursor.account.position <= place.position {
            return Ok(false);
        }
        self.place = place_of(cursor);
        self.outstanding.clear();
        self.settled.clear();
        Ok(true)
    }

    /// Moves the cursor to `up_to`, the end of a record that was handed out: it and everything
    /// before it is done. Persisted within about a tenth of a second, never before it is synced.
    /// A place before the cursor changes nothing.
    pub fn commit(&mut self, up_to: Position, done: Outcome) {
        let settled = self.settled.take(up_to);
        let passed = self.pass(up_to, done);
        if let Some(step) = join(settled, passed) {
            self.advance(&step);
        }
    }

    /// Remembers what became of everything up to `up_to`, the end of a record that was handed
    /// out, and lets go of its bytes. It counts as done in the account from now on, but the cursor
    /// stays until [`commit_settled`](Consumer::commit_settled), and after a restart all of it
    /// comes again.
    pub fn settle(&mut self, up_to: Position, done: Outcome) {
        let Some(step) = self.pass(up_to, done) else {
            return;
        };
        let mut evicted = Vec::new();
        let mut ledger = lock(&self.core.ledger);
        if let Some(cursor) = ledger.cursors.get_mut(&self.name) {
            cursor.settle(&step);
        }
        ledger.trim_tail(&mut evicted);
        drop(ledger);
        self.core.recycle_groups(evicted);
        self.settled.push(step);
    }

    /// Moves the cursor to `up_to`, or to somewhat before it: of what is settled only a place
    /// every 64 KiB or so is remembered.
    pub fn commit_settled(&mut self, up_to: Position) {
        if let Some(step) = self.settled.take(up_to) {
            self.advance(&step);
        }
    }

    /// From now on nothing but this consumer moves the cursor: at `max-size` a journal that drops
    /// the oldest refuses records instead, and asks for the cursor to be moved.
    pub fn pin(&mut self) -> Arc<Pin> {
        let mut ledger = lock(&self.core.ledger);
        let counts = ledger.counts;
        let Some(cursor) = ledger.cursors.get_mut(&self.name) else {
            return Arc::default();
        };
        let pin = cursor.pin.get_or_insert_default().clone();
        pin.set_ahead((counts - cursor.account.counts).bytes);
        pin
    }

    /// Where the next record is: everything before it was handed out, or is lost by damage.
    pub fn place(&self) -> Position {
        self.place.position
    }

    /// Takes what is handed out up to a place off the outstanding, as one step.
    fn pass(&mut self, up_to: Position, done: Outcome) -> Option<Step> {
        let mut step: Option<Step> = None;
        let mut lost = Counts::default();
        while let Some(item) = self.outstanding.pop_front() {
            match item {
                // Losses are passed with what is before them.
                Item::Lost(loss) => {
                    lost = lost + (loss.after - loss.before);
                    let written_at = step.as_ref().map_or(0, |step| step.written_at);
                    step = Some(step_to(loss.to, loss.group, written_at, loss.after));
                }
                Item::Span(span) if span.end() <= up_to => {
                    let (end, group) = (span.end(), group_at_end(&span));
                    step = Some(step_to(end, group, span.written_at, span.after));
                }
                Item::Span(span) => {
                    let mut rest = span.clone();
                    if rest.skip_to(up_to) && rest.position > span.position {
                        let at = rest.position;
                        step = Some(step_to(at, rest.group, rest.written_at, rest.before));
                    }
                    self.outstanding.push_front(Item::Span(rest));
                    break;
                }
            }
        }
        let mut step = step?;
        (step.done, step.lost) = (done, lost);
        if let Some(Item::Span(next)) = self.outstanding.front() {
            step.oldest = next.written_at;
        }
        Some(step)
    }

    /// Moves the cursor over losses that nothing handed out is before.
    fn pass_losses(&mut self) {
        if matches!(self.outstanding.front(), Some(Item::Lost(_))) {
            let cursor = self.position();
            if self.settled.is_empty() && !self.is_pinned() {
                self.commit(cursor, Outcome::default());
            } else {
                self.settle(cursor, Outcome::default());
            }
        }
    }

    fn is_pinned(&self) -> bool {
        let ledger = lock(&self.core.ledger);
        ledger.cursors.get(&self.name).is_some_and(|cursor| cursor.pin.is_some())
    }

    fn advance(&self, step: &Step) {
        let mut evicted = Vec::new();
        let mut ledger = lock(&self.core.ledger);
        let counts = ledger.counts;
        if let Some(cursor) = ledger.cursors.get_mut(&self.name) {
            cursor.advance(step);
            if let Some(pin) = &cursor.pin {
                pin.set_ahead((counts - cursor.account.counts).bytes);
            }
        }
        ledger.trim_tail(&mut evicted);
        drop(ledger);
        self.core.recycle_groups(evicted);
    }

    /// As [`commit`](Consumer::commit), and waits until the cursor is persisted.
    pub async fn commit_and_sync(
        &mut self,
        up_to: Position,
        done: Outcome,
    ) -> Result<(), ConsumeError> {
        self.commit(up_to, done);
        let core = self.core.clone();
        let target = match lock(&core.ledger).cursors.get_mut(&self.name) {
            Some(cursor) => {
                cursor.urgent = true;
                cursor.changes
            }
            None => 0,
        };
        core.housekeeping.wake();
        loop {
            let persisted = core.persisted.notified();
            tokio::pin!(persisted);
            // Registered before looking, so that no persisting in between is missed.
            persisted.as_mut().enable();
            match lock(&core.ledger).cursors.get(&self.name) {
                Some(cursor) if cursor.persisted >= target => return Ok(()),
                Some(_) => {}
                None => {
                    return Err(ConsumeError::Forgotten { name: self.name.clone() });
                }
            }
            if core.gate.poisoned().is_some() {
                return Err(ConsumeError::Poisoned { name: self.name.clone() });
            }
            persisted.await;
        }
    }

    /// Hands out again what is not committed.
    pub fn rewind_to_cursor(&mut self) {
        self.outstanding.clear();
        self.settled.clear();
        if let Some(cursor) = lock(&self.core.ledger).cursors.get_mut(&self.name) {
            cursor.ahead = None;
            self.place = place_of(cursor);
        }
    }

    /// The cursor: everything before it is done.
    pub fn position(&self) -> Position {
        let ledger = lock(&self.core.ledger);
        let cursor = ledger.cursors.get(&self.name);
        cursor.map_or(self.place.position, |cursor| cursor.account.position)
    }

    /// What was released and not committed.
    pub fn backlog(&self) -> Backlog {
        let now = now_ns();
        let ledger = lock(&self.core.ledger);
        let cursor = ledger.cursors.get(&self.name);
        cursor.map_or_else(Backlog::default, |cursor| ledger.waiting(cursor, now))
    }

    /// The whole account of the cursor.
    pub fn status(&self) -> CursorStatus {
        let now = now_ns();
        let ledger = lock(&self.core.ledger);
        let cursor = ledger.cursors.get(&self.name);
        let status = cursor.map(|cursor| ledger.status(&self.name, cursor, now));
        status
            .unwrap_or_else(|| CursorStatus { name: self.name.clone(), ..CursorStatus::default() })
    }
}

impl Drop for Consumer {
    fn drop(&mut self) {
        if let Some(cursor) = lock(&self.core.ledger).cursors.get_mut(&self.name) {
            cursor.in_use = false;
            (cursor.ahead, cursor.pin) = (None, None);
        }
    }
}

/// Two steps as one, where there are two.
fn join(first: Option<Step>, next: Option<Step>) -> Option<Step> {
    match (first, next) {
        (Some(mut first), Some(next)) => {
            first.join(next);
            Some(first)
        }
        (first, next) => first.or(next),
    }
}

fn place_of(cursor: &Cursor) -> ReadPosition {
    ReadPosition {
        position: cursor.account.position,
        group: cursor.account.group,
        counts: cursor.account.counts,
    }
}

/// Where the header is of the group that the end of a span is in.
fn group_at_end(span: &Span) -> Position {
    if span.end() == span.group_end { span.group_end } else { span.group }
}

fn step_to(position: Position, group: Position, written_at: u64, counts: Counts) -> Step {
    Step {
        position,
        group,
        written_at,
        oldest: written_at,
        counts,
        done: Outcome::default(),
        lost: Counts::default(),
    }
}
