//! A file that one process holds at a time.

use std::fs::File;
use std::path::Path;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use crate::error::FileError;

/// Opens or makes a file and holds it for this process until it is closed; `None` where another
/// process holds it.
///
/// # Errors
/// The file can't be opened or locked.
pub fn hold(path: &Path) -> Result<Option<File>, FileError> {
    let file = open(path)?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Some(file)),
        Err(Errno::WOULDBLOCK) => Ok(None),
        Err(error) => Err(FileError::of("lock", path)(error.into())),
    }
}

/// As [`hold`]; waits for as long as another process holds it.
///
/// # Errors
/// The file can't be opened or locked.
pub fn wait_and_hold(path: &Path) -> Result<File, FileError> {
    let file = open(path)?;
    loop {
        match flock(&file, FlockOperation::LockExclusive) {
            Ok(()) => return Ok(file),
            Err(Errno::INTR) => {}
            Err(error) => return Err(FileError::of("lock", path)(error.into())),
        }
    }
}

fn open(path: &Path) -> Result<File, FileError> {
    let mut options = File::options();
    options.read(true).write(true).create(true).truncate(false);
    options.open(path).map_err(FileError::of("open", path))
}

#[cfg(test)]
mod tests {
    use super::{hold, wait_and_hold};

    #[test]
    fn a_file_is_held_by_one_until_it_is_closed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let held = wait_and_hold(&path).unwrap();
        assert!(hold(&path).unwrap().is_none());
        drop(held);
        assert!(hold(&path).unwrap().is_some());
        assert!(hold(dir.path()).is_err(), "a directory can't be held");
    }
}
