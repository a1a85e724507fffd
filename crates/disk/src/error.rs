//! What the file system refused, with the file that it was about.

use std::io;
use std::path::{Path, PathBuf};

/// The file system refused something.
#[derive(Debug, thiserror::Error)]
#[error("could not {doing} {path}: {source}")]
pub struct FileError {
    /// What was being done, as `open` or `sync`.
    pub doing: &'static str,
    /// The file or directory.
    pub path: PathBuf,
    /// What the operating system answered.
    pub source: io::Error,
}

impl FileError {
    /// For `map_err`: what was being done to which file.
    pub fn of(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> FileError {
        let path = path.to_owned();
        move |source| FileError { doing, path, source }
    }

    /// Whether there was no room, which may go away by itself.
    pub fn is_full(&self) -> bool {
        is_full(&self.source)
    }

    /// Whether a sync failed, which must never be tried again.
    pub fn is_failed_sync(&self) -> bool {
        self.doing == "sync"
    }
}

/// Whether the error means that there is no room: it may go away by itself.
pub fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}
