//! Whether records are taken at this moment, and why not.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};

use crate::error::{AckError, AppendError};

/// Why there is no room, or that there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Room {
    /// There is a next segment, or one is being made.
    Yes,
    /// The segments have reached `max-size`.
    Full,
    /// The file system has no room.
    DiskFull,
}

impl Room {
    fn from_u8(value: u8) -> Room {
        match value {
            1 => Room::Full,
            2 => Room::DiskFull,
            _ => Room::Yes,
        }
    }
}

/// What every append looks at. All of it is atomics, so that no append takes a shared lock.
#[derive(Debug)]
pub(crate) struct Gate {
    closed: AtomicBool,
    poisoned: OnceLock<String>,
    room: AtomicU8,
    /// Whether a group is being held for want of room: those who wait are told.
    stuck: AtomicU8,
    /// Bytes in open buffers.
    pending: AtomicU64,
    /// How many bytes there may be in open buffers.
    limit: AtomicU64,
}

impl Gate {
    pub fn new() -> Gate {
        Gate {
            closed: AtomicBool::new(false),
            poisoned: OnceLock::new(),
            room: AtomicU8::new(0),
            stuck: AtomicU8::new(0),
            pending: AtomicU64::new(0),
            limit: AtomicU64::new(0),
        }
    }

    /// Whether a record may go into an open buffer; asked with the buffer locked.
    pub fn check(&self) -> Result<(), AppendError> {
        if self.closed.load(Ordering::Acquire) {
            return Err(AppendError::Closed);
        }
        if self.poisoned.get().is_some() {
            return Err(AppendError::Poisoned);
        }
        Ok(())
    }

    /// Reserves `len` bytes of the next group.
    pub fn reserve(&self, len: u64) -> Result<(), AppendError> {
        let pending = self.pending.fetch_add(len, Ordering::Relaxed);
        if pending + len <= self.limit.load(Ordering::Relaxed) {
            return Ok(());
        }
        self.release(len);
        Err(self.no_room())
    }

    fn no_room(&self) -> AppendError {
        match self.room() {
            Room::Yes => AppendError::Busy,
            Room::Full => AppendError::Full,
            Room::DiskFull => AppendError::DiskFull,
        }
    }

    /// Whether `len` bytes could be reserved now.
    pub fn look(&self, len: u64) -> Result<(), AppendError> {
        self.check()?;
        let fits = self.pending() + len <= self.limit.load(Ordering::Relaxed);
        if fits { Ok(()) } else { Err(self.no_room()) }
    }

    /// Gives reserved bytes back, unused or taken as a group.
    pub fn release(&self, len: u64) {
        self.pending.fetch_sub(len, Ordering::Relaxed);
    }

    pub fn pending(&self) -> u64 {
        self.pending.load(Ordering::Relaxed)
    }

    pub fn set_limit(&self, limit: u64) {
        self.limit.store(limit, Ordering::Relaxed);
    }

    pub fn room(&self) -> Room {
        Room::from_u8(self.room.load(Ordering::Relaxed))
    }

    pub fn set_room(&self, room: Room) {
        self.room.store(room as u8, Ordering::Relaxed);
    }

    /// Says that the group taken last cannot be written for now, or that it can again.
    pub fn set_stuck(&self, room: Room) {
        self.stuck.store(room as u8, Ordering::Release);
    }

    pub fn close(&self) {
        self.closed.store(true, Ordering::Release);
    }

    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Poisons the journal for ever; whether this was the first time.
    pub fn poison(&self, reason: String) -> bool {
        self.poisoned.set(reason).is_ok()
    }

    pub fn poisoned(&self) -> Option<&str> {
        self.poisoned.get().map(String::as_str)
    }

    /// Why nobody can be acknowledged at this moment.
    pub fn refusal(&self) -> Option<AckError> {
        if self.poisoned.get().is_some() {
            return Some(AckError::Poisoned);
        }
        match Room::from_u8(self.stuck.load(Ordering::Acquire)) {
            Room::Yes => None,
            Room::Full => Some(AckError::Full),
            Room::DiskFull => Some(AckError::DiskFull),
        }
    }
}
