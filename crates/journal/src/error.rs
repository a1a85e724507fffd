//! What can go wrong, said so that an operator knows what to do.

use std::path::PathBuf;

use disk::FileError;

use crate::format::cursor::{CURSORS_MAX, NAME_MAX};
use crate::settings::SettingsError;

/// Why the journal could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The settings cannot work.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// Another process has the directory.
    #[error(
        "the journal in {dir} is in use by another process; stop it or give this one its own \
         journal.dir"
    )]
    InUse {
        /// The directory of the journal.
        dir: PathBuf,
    },
    /// A file is not this program's, or of a later format.
    #[error("{path} is not a journal file this version can read: {reason}")]
    Format {
        /// The file that it is in.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The file system refused.
    #[error(transparent)]
    Io(#[from] FileError),
}

/// Why a record was not taken. Nothing of it will be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AppendError {
    /// The open group has reached `group-max`: the disk does not keep up. Come again in a second.
    #[error("the journal is busy: the next group is full; try again")]
    Busy,
    /// The journal has reached `max-size` and `when-full` is `reject`.
    #[error("the journal is full: its segments have reached max-size; a backend must catch up")]
    Full,
    /// The file system has no room for another segment.
    #[error("the disk with the journal is full; make room and writes are taken again by itself")]
    DiskFull,
    /// A sync failed earlier, so no acknowledgement can be trusted any more.
    #[error("the journal is poisoned by a failed sync; check the disk and start again")]
    Poisoned,
    /// The record can never fit into a group.
    #[error("a record of {len} bytes is larger than a group of the journal, {max} bytes")]
    TooLarge {
        /// The length of the record's payload in bytes.
        len: u64,
        /// The longest payload there can be.
        max: u64,
    },
    /// The journal has been closed.
    #[error("the journal is closed")]
    Closed,
}

/// Why a record that was taken has not been acknowledged. It may still be written and delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AckError {
    /// No acknowledgement within `ack-timeout`.
    #[error("the journal did not acknowledge in time; the write may still be delivered")]
    Timeout,
    /// The journal has reached `max-size` before the record's group could be written.
    #[error("the journal is full; the write may still be delivered")]
    Full,
    /// The disk has become full before the record's group could be written.
    #[error("the disk with the journal is full; the write may still be delivered")]
    DiskFull,
    /// The sync of the record's group, or an earlier one, failed.
    #[error("the journal is poisoned by a failed sync; the write may or may not be kept")]
    Poisoned,
    /// The journal was closed before the record's group was written.
    #[error("the journal is closed")]
    Closed,
}

/// Why a record given to [`Journal::append_from_anywhere`](crate::Journal::append_from_anywhere)
/// has no position.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AppendAndWaitError {
    /// It was not taken.
    #[error(transparent)]
    Append(#[from] AppendError),
    /// It was taken but not acknowledged.
    #[error(transparent)]
    Ack(#[from] AckError),
}

/// Why a consumer cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum ConsumeError {
    /// A segment could not be read; trying again later is sensible.
    #[error(transparent)]
    Io(#[from] FileError),
    /// The journal is closed, and everything released has been handed out.
    #[error("the journal is closed")]
    Closed,
    /// The cursor was forgotten while it was in use.
    #[error("the journal has forgotten the cursor {name}")]
    Forgotten {
        /// The name of the cursor.
        name: String,
    },
    /// The journal is poisoned, so the cursor is not persisted any more.
    #[error("the journal is poisoned by a failed sync; the cursor {name} is not persisted")]
    Poisoned {
        /// The name of the cursor.
        name: String,
    },
}

/// Why a cursor could not be made, opened or forgotten.
#[derive(Debug, thiserror::Error)]
pub enum CursorError {
    /// A cursor is used by one consumer at a time.
    #[error("the journal's cursor {name} is in use")]
    InUse {
        /// The name of the cursor.
        name: String,
    },
    /// There is none of this name.
    #[error("the journal has no cursor {name}; it has: {known}")]
    Unknown {
        /// The name asked for.
        name: String,
        /// The names there are.
        known: String,
    },
    /// The name cannot be a cursor's.
    #[error("{name:?} cannot name a cursor: write 1 to {max} bytes", max = NAME_MAX)]
    Name {
        /// The name asked for.
        name: String,
    },
    /// There are too many cursors.
    #[error("the journal has {max} cursors already; forget one", max = CURSORS_MAX)]
    TooMany,
    /// The journal is poisoned by a failed sync.
    #[error("the journal is poisoned by a failed sync; check the disk and start again")]
    Poisoned,
    /// The directory is in use by a running process.
    #[error("the journal in {dir} is in use; stop that process first")]
    Running {
        /// The directory of the journal.
        dir: PathBuf,
    },
    /// The file system refused.
    #[error(transparent)]
    Io(#[from] FileError),
}
