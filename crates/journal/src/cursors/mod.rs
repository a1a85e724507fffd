//! What consumers have received and what became of it.
//!
//! The ends of the journal, the newest records and the accounts of all cursors are one value behind
//! one lock, the [`Ledger`], because they add up only when they are of one moment.
//!
//! Locks, in the order in which they are taken: the membership; the cursor files. The ledger is
//! locked for no longer than a method here takes, with nothing of this module behind it.

// Layers, from the top down; `self` is what this file defines.
//   persist
//   self
//   ledger
//   settled, tail
//   chunk

pub(crate) mod chunk;
pub(crate) mod ledger;
pub(crate) mod persist;
pub(crate) mod settled;
pub(crate) mod tail;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use disk::{Disk, FileError};
use tokio::sync::Notify;
use watch::metrics::Counter;

use self::chunk::{Loss, ReadPosition};
use self::ledger::{Availability, ClaimedCursor, Cursor, Ends, Ledger, LedgerSummary};
use self::settled::{Pin, Step};
use self::tail::TailGroup;
use crate::buffers::BufferPool;
use crate::error::{ConsumeError, CursorError};
use crate::format::cursor::{Account, CURSORS_MAX, CursorFile};
use crate::format::segment::First;
use crate::position::{Counts, Position};
use crate::status::{Backlog, CursorStatus};
use crate::threads::{lock, now_ns};

/// Buffers with less memory are not worth a place in the pool.
const RECYCLED_BYTES_MIN: usize = 4096;

/// Where a new cursor begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// After everything there is: only what comes later is received.
    End,
    /// At the oldest record the journal still keeps.
    Oldest,
}

/// The cursors of one journal, and what they may see of it.
#[derive(Debug)]
pub(crate) struct Cursors {
    ledger: Mutex<Ledger>,
    files: Mutex<Vec<CursorFile>>,
    membership: Mutex<()>,
    /// Woken when a cursor has been persisted.
    persisted: Notify,
    disk: Disk,
    dir: PathBuf,
    buffers: Arc<BufferPool>,
    /// Counts places that turn out to be damaged.
    damaged: Counter,
}

/// What follows from a group that consumers may see, once its clients are told.
#[derive(Debug, Default)]
pub(crate) struct ReleaseEffects {
    /// Consumers that may have waited for it.
    pub wake: Vec<Arc<Notify>>,
    /// Groups that left the memory.
    pub evicted: Vec<TailGroup>,
}

/// What there is under a name that a consumer asks for.
#[derive(Debug)]
pub(crate) enum Claim {
    Known(ClaimedCursor),
    /// No cursor yet; one would have this account.
    New(Account),
}

impl Cursors {
    pub fn new(
        ledger: Ledger,
        files: Vec<CursorFile>,
        disk: Disk,
        dir: &Path,
        buffers: Arc<BufferPool>,
        damaged: Counter,
    ) -> Cursors {
        Cursors {
            ledger: Mutex::new(ledger),
            files: Mutex::new(files),
            membership: Mutex::default(),
            persisted: Notify::new(),
            disk,
            dir: dir.to_owned(),
            buffers,
            damaged,
        }
    }

    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        lock(&self.ledger)
    }

    /// While this is held no cursor comes or goes, and no segment is given free because of one.
    pub fn membership(&self) -> MutexGuard<'_, ()> {
        lock(&self.membership)
    }

    /// Where the journal ends at this moment.
    pub fn ends(&self) -> Ends {
        self.ledger().ends
    }

    /// Makes everything up to the end of a group visible. Its clients are told before those who
    /// are to be woken, and memory is [given back](Cursors::recycle) last.
    pub fn release(&self, group: TailGroup, after: Counts, is_synced: bool) -> ReleaseEffects {
        let mut effects = ReleaseEffects::default();
        let mut ledger = self.ledger();
        if is_synced {
            ledger.ends.synced = group.end;
        }
        ledger.release(group, after, &mut effects.evicted, &mut effects.wake);
        drop(ledger);
        effects
    }

    /// Notes that everything up to a place is synced.
    pub fn note_synced(&self, end: Position) {
        let mut ledger = self.ledger();
        ledger.ends.synced = ledger.ends.synced.max(end);
    }

    /// Says that nothing more will be released.
    pub fn finish(&self) {
        let mut ledger = self.ledger();
        ledger.finished = true;
        for cursor in ledger.cursors.values() {
            cursor.released.notify_one();
        }
    }

    /// Takes back the buffers of groups nobody reads any more.
    pub fn recycle(&self, groups: Vec<TailGroup>) {
        for piece in groups.into_iter().flat_map(|group| group.pieces) {
            if let Some(buffer) = Arc::into_inner(piece.bytes)
                && buffer.capacity() >= RECYCLED_BYTES_MIN
            {
                self.buffers.put_back(buffer);
            }
        }
    }

    /// The bytes that wait for the cursor that is furthest behind.
    pub fn backlog_bytes(&self) -> u64 {
        self.ledger().backlog_bytes()
    }

    /// The state of the ledger, all of one moment.
    pub fn summary(&self) -> LedgerSummary {
        self.ledger().summary()
    }

    /// The account of every cursor, all of one moment.
    pub fn statuses(&self) -> Vec<CursorStatus> {
        let now = now_ns();
        let ledger = self.ledger();
        let cursors = ledger.cursors.iter();
        cursors.map(|(name, cursor)| ledger.status(name, cursor, now)).collect()
    }

    /// Takes up the cursor of this name for a consumer, if there is one. `oldest` tells the first
    /// group that the journal keeps. The caller holds the [membership](Cursors::membership).
    pub fn claim(
        &self,
        name: &str,
        start: Start,
        oldest: impl FnOnce() -> Option<First>,
    ) -> Result<Claim, CursorError> {
        let mut ledger = self.ledger();
        if let Some(cursor) = ledger.cursors.get_mut(name) {
            if cursor.in_use {
                return Err(CursorError::InUse { name: name.to_owned() });
            }
            cursor.in_use = true;
            return Ok(Claim::Known(cursor.claimed()));
        }
        if ledger.cursors.len() >= CURSORS_MAX {
            return Err(CursorError::TooMany);
        }
        Ok(Claim::New(match start {
            Start::End => ledger.account_at_end(),
            Start::Oldest => ledger.account_at_oldest(oldest()),
        }))
    }

    /// Writes the file of a new cursor that a consumer has and takes it into the ledger. The
    /// caller holds the [membership](Cursors::membership).
    pub fn create(&self, name: &str, account: Account) -> Result<ClaimedCursor, FileError> {
        let file = CursorFile::create(&self.disk, &self.dir, name, &account)?;
        lock(&self.files).push(file);
        let mut ledger = self.ledger();
        let mut cursor = Cursor::new(account, true);
        if cursor.account.counts.bytes < ledger.ends.counts.bytes {
            // Not known more exactly without reading the record.
            cursor.oldest = Some(now_ns());
        }
        let claimed = cursor.claimed();
        ledger.cursors.insert(name.to_owned(), cursor);
        Ok(claimed)
    }

    /// Removes a cursor that no consumer has; gives its last account. The caller holds the
    /// [membership](Cursors::membership).
    pub fn forget(&self, name: &str) -> Result<CursorStatus, CursorError> {
        let now = now_ns();
        let mut ledger = self.ledger();
        let Some(cursor) = ledger.cursors.get(name) else {
            return Err(CursorError::Unknown { name: name.to_owned(), known: ledger.names() });
        };
        if cursor.in_use {
            return Err(CursorError::InUse { name: name.to_owned() });
        }
        let status = ledger.status(name, cursor, now);
        ledger.cursors.remove(name);
        drop(ledger);
        let mut files = lock(&self.files);
        if let Some(at) = files.iter().position(|file| file.name() == name) {
            let file = files.swap_remove(at);
            let path = file.path();
            self.disk.remove(path).map_err(FileError::of("remove", path))?;
            self.disk.sync_dir(&self.dir).map_err(FileError::of("sync", &self.dir))?;
        }
        Ok(status)
    }

    /// Remembers a damaged place, and tells the operator where it was not known yet.
    pub fn note_damage(&self, loss: &Loss, place: &str) {
        if self.ledger().note_damage(loss, place) {
            self.damaged.inc();
            tracing::error!(
                place,
                from = loss.from.0,
                to = loss.to.0,
                items = (loss.after - loss.before).items,
                "the journal is damaged: records are lost, the rest is delivered"
            );
        }
    }
}

/// What the consumer of a cursor asks and says.
impl Cursors {
    /// What there is to read at a place.
    pub fn read(&self, from: Position, bytes_max: usize) -> Availability {
        self.ledger().read(from, bytes_max)
    }

    /// Where reading goes on if `drop-oldest` has moved the cursor past a place.
    pub fn overtaken(
        &self,
        name: &str,
        place: Position,
    ) -> Result<Option<ReadPosition>, ConsumeError> {
        let ledger = self.ledger();
        let Some(cursor) = ledger.cursors.get(name) else {
            return Err(ConsumeError::Forgotten { name: name.to_owned() });
        };
        Ok((cursor.account.position > place).then(|| cursor.place()))
    }

    /// Takes a step that is committed later.
    pub fn settle(&self, name: &str, step: &Step) {
        self.change(name, |cursor, _| cursor.settle(step));
    }

    /// Moves a cursor forward.
    pub fn advance(&self, name: &str, step: &Step) {
        self.change(name, |cursor, counts| {
            cursor.advance(step);
            if let Some(pin) = &cursor.pin {
                pin.set_ahead((counts - cursor.account.counts).bytes);
            }
        });
    }

    fn change(&self, name: &str, change: impl FnOnce(&mut Cursor, Counts)) {
        let mut evicted = Vec::new();
        let mut ledger = self.ledger();
        let counts = ledger.ends.counts;
        if let Some(cursor) = ledger.cursors.get_mut(name) {
            change(cursor, counts);
        }
        ledger.trim_tail(&mut evicted);
        drop(ledger);
        self.recycle(evicted);
    }

    /// Lets nothing but its consumer move a cursor.
    pub fn pin(&self, name: &str) -> Arc<Pin> {
        let mut ledger = self.ledger();
        let counts = ledger.ends.counts;
        let Some(cursor) = ledger.cursors.get_mut(name) else {
            return Arc::default();
        };
        let pin = cursor.pin.get_or_insert_default().clone();
        pin.set_ahead((counts - cursor.account.counts).bytes);
        pin
    }

    pub fn is_pinned(&self, name: &str) -> bool {
        self.ledger().cursors.get(name).is_some_and(|cursor| cursor.pin.is_some())
    }

    /// Forgets what is settled and not committed; gives where reading begins again.
    pub fn rewind(&self, name: &str) -> Option<ReadPosition> {
        let mut ledger = self.ledger();
        let cursor = ledger.cursors.get_mut(name)?;
        cursor.ahead = None;
        Some(cursor.place())
    }

    /// Up to where everything is done.
    pub fn position(&self, name: &str) -> Option<Position> {
        self.ledger().cursors.get(name).map(|cursor| cursor.account.position)
    }

    /// What was released and not committed.
    pub fn backlog(&self, name: &str) -> Option<Backlog> {
        let now = now_ns();
        let ledger = self.ledger();
        ledger.cursors.get(name).map(|cursor| ledger.waiting(cursor, now))
    }

    /// The whole account of a cursor.
    pub fn status(&self, name: &str) -> Option<CursorStatus> {
        let now = now_ns();
        let ledger = self.ledger();
        ledger.cursors.get(name).map(|cursor| ledger.status(name, cursor, now))
    }

    /// Lets another consumer have the cursor.
    pub fn leave(&self, name: &str) {
        if let Some(cursor) = self.ledger().cursors.get_mut(name) {
            cursor.in_use = false;
            (cursor.ahead, cursor.pin) = (None, None);
        }
    }
}
