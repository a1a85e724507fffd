//! Getting records out, at least once and in order.

pub(crate) mod reader;

use std::collections::VecDeque;
use std::sync::Arc;

use tokio::sync::Notify;

use self::reader::Item;
use crate::cursors::Cursors;
use crate::cursors::chunk::{Chunk, Limit, ReadPosition, Span};
use crate::cursors::ledger::{Availability, ClaimedCursor};
use crate::cursors::settled::{Pin, Settled, Step};
use crate::error::ConsumeError;
use crate::log::Log;
use crate::outcome::Outcome;
use crate::owners::Owners;
use crate::position::{Counts, Position};
use crate::status::{Backlog, CursorStatus};

/// One reader with a persisted cursor; used by one task at a time.
///
/// What was handed out and neither committed, settled nor [let go of](Consumer::let_go) stays in
/// memory, so a consumer should not run far ahead of that.
#[derive(Debug)]
pub struct Consumer {
    log: Arc<Log>,
    cursors: Arc<Cursors>,
    name: String,
    released: Arc<Notify>,
    /// Where the next chunk begins.
    place: ReadPosition,
    /// What was handed out, or is known to be lost, and is not committed.
    outstanding: VecDeque<Item>,
    /// What comes before that, is done, and is not committed.
    settled: Settled,
    /// In the place of bytes that were let go of.
    nothing: Arc<Vec<u8>>,
}

enum Attempt {
    Ready(Chunk),
    Wait,
    Disk(Limit),
}

impl Consumer {
    /// Takes up a cursor.
    pub(crate) fn new(owners: &Owners, name: &str, claimed: ClaimedCursor) -> Consumer {
        Consumer {
            log: owners.log.clone(),
            cursors: owners.cursors.clone(),
            name: name.to_owned(),
            released: claimed.released,
            place: claimed.place,
            outstanding: VecDeque::new(),
            settled: Settled::default(),
            nothing: Arc::default(),
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
            let (log, cursors) = (self.log.clone(), self.cursors.clone());
            let place = self.place;
            let read = tokio::task::spawn_blocking(move || {
                reader::read(&log, &cursors, place, limit, bytes_max)
            });
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
        let spans = match self.cursors.read(self.place.position, bytes_max) {
            Availability::InMemory(spans) => spans,
            Availability::OnDisk(limit) => return Ok(Attempt::Disk(limit)),
            Availability::NotYet => return Ok(Attempt::Wait),
            Availability::Never => return Err(ConsumeError::Closed),
        };
        if let Some(last) = spans.last() {
            self.place = ReadPosition {
                position: last.end(),
                group: group_at_end(last),
                counts: last.after,
            };
        }
        self.outstanding.extend(spans.iter().cloned().map(Item::Span));
        Ok(Attempt::Ready(Chunk { spans }))
    }

    /// Whether `drop-oldest` has moved the cursor past a place: what was read there may be the
    /// leavings of a recycled segment. Reading then goes on at the cursor.
    fn was_overtaken(&mut self, place: ReadPosition) -> Result<bool, ConsumeError> {
        let Some(further) = self.cursors.overtaken(&self.name, place.position)? else {
            return Ok(false);
        };
        self.place = further;
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
        self.cursors.settle(&self.name, &step);
        self.settled.push(step);
    }

    /// Lets go of the bytes of what was handed out up to `up_to`, where a chunk ended: the caller
    /// has taken from them what it needs, and will commit nothing that ends within.
    pub fn let_go(&mut self, up_to: Position) {
        for item in self.outstanding.iter_mut().rev() {
            let Item::Span(span) = item else { continue };
            if Arc::ptr_eq(&span.bytes, &self.nothing) {
                return;
            }
            if span.end() <= up_to {
                span.bytes = Arc::clone(&self.nothing);
            }
        }
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
        self.cursors.pin(&self.name)
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
            if self.settled.is_empty() && !self.cursors.is_pinned(&self.name) {
                self.commit(cursor, Outcome::default());
            } else {
                self.settle(cursor, Outcome::default());
            }
        }
    }

    fn advance(&self, step: &Step) {
        self.cursors.advance(&self.name, step);
    }

    /// As [`commit`](Consumer::commit), and waits until the cursor is persisted.
    pub async fn commit_and_sync(
        &mut self,
        up_to: Position,
        done: Outcome,
    ) -> Result<(), ConsumeError> {
        self.commit(up_to, done);
        let change = self.cursors.hurry(&self.name);
        self.log.housekeeping().wake();
        self.cursors.wait_persisted(&self.name, change, self.log.gate()).await
    }

    /// Hands out again what is not committed.
    pub fn rewind_to_cursor(&mut self) {
        self.outstanding.clear();
        self.settled.clear();
        if let Some(place) = self.cursors.rewind(&self.name) {
            self.place = place;
        }
    }

    /// The cursor: everything before it is done.
    pub fn position(&self) -> Position {
        self.cursors.position(&self.name).unwrap_or(self.place.position)
    }

    /// What was released and not committed.
    pub fn backlog(&self) -> Backlog {
        self.cursors.backlog(&self.name).unwrap_or_default()
    }

    /// The whole account of the cursor.
    pub fn status(&self) -> CursorStatus {
        let status = self.cursors.status(&self.name);
        status
            .unwrap_or_else(|| CursorStatus { name: self.name.clone(), ..CursorStatus::default() })
    }
}

impl Drop for Consumer {
    fn drop(&mut self) {
        self.cursors.leave(&self.name);
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
