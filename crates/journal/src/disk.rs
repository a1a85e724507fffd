//! The few things that are asked of the file system. Everything that writes or syncs goes through
//! here, so that tests can make it fail; what else keeps files of its own uses it, too.

use std::fs::{File, OpenOptions};
use std::io::{self, IoSlice};
use std::os::unix::fs::FileExt;
use std::path::Path;

use rustix::fs::FallocateFlags;
use rustix::io::Errno;

use crate::error::FileError;
use crate::faults::Faults;

/// Zeros for the end of a page and for new segments.
pub(crate) static ZEROS: [u8; 1 << 16] = [0; 1 << 16];

/// How much of a new segment is zeroed between two syncs: enough to be quick, and little enough
/// that a group's sync never waits long behind it.
const ZERO_STEP: u64 = 4 << 20;

/// Access to the file system.
#[derive(Debug, Clone, Default)]
pub struct Disk {
    faults: Faults,
}

impl Disk {
    /// The file system with faults.
    #[cfg(any(test, feature = "faults"))]
    pub fn new(faults: Faults) -> Disk {
        Disk { faults }
    }

    /// The switches.
    #[cfg(feature = "faults")]
    pub fn faults(&self) -> &Faults {
        &self.faults
    }

    /// The file system; where a program is built with faults, files in `dir` switch them.
    pub fn of(dir: &Path) -> Disk {
        let disk = Disk::default();
        #[cfg(feature = "faults")]
        disk.faults.watch(dir.to_owned());
        let _ = dir;
        disk
    }

    /// How many bytes files in a directory may grow by until its file system is full.
    ///
    /// # Errors
    /// As the system says it.
    pub fn room(dir: &Path) -> io::Result<u64> {
        let of = rustix::fs::statvfs(dir)?;
        Ok(of.f_bavail.saturating_mul(of.f_frsize))
    }

    /// Writes all parts one after the other, beginning at `offset`.
    ///
    /// # Errors
    /// As the system says it; a part may be written.
    pub fn write_all(&self, file: &File, parts: &[&[u8]], mut offset: u64) -> io::Result<()> {
        let mut slices: Vec<IoSlice<'_>> =
            parts.iter().filter(|part| !part.is_empty()).map(|part| IoSlice::new(part)).collect();
        let mut left = slices.as_mut_slice();
        while !left.is_empty() {
            // The kernel takes at most 1024 slices at once.
            let batch = &left[..left.len().min(64)];
            let written = match self.faults.write(file, batch, offset)? {
                Some(cut) => file.write_at(&cut, offset)?,
                None => match rustix::io::pwritev(file, batch, offset) {
                    Err(Errno::INTR) => continue,
                    answer => answer?,
                },
            };
            if written == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            offset += written as u64;
            IoSlice::advance_slices(&mut left, written);
        }
        Ok(())
    }

    /// `fdatasync`. An error is never retried: the kernel may have thrown the pages away.
    ///
    /// # Errors
    /// Nothing that was written since the last sync can be trusted to be on the disk.
    pub fn sync(&self, file: &File) -> io::Result<()> {
        self.faults.sync(file)?;
        file.sync_data()?;
        self.faults.synced(file);
        Ok(())
    }

    /// Makes the names in a directory durable.
    ///
    /// # Errors
    /// As the system says it.
    pub fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.faults.change()?;
        File::open(dir)?.sync_all()
    }

    /// Makes a file of `len` bytes, all of them on the disk. The blocks are reserved first, so that
    /// a full disk shows at once, and then written, because a sync of blocks that are only
    /// reserved has to commit the file system's own log each time.
    ///
    /// The kernel keeps in one piece what was written at once, and locks it as one while it goes
    /// to the disk: `piece` is how much that is at most.
    pub(crate) fn create(&self, path: &Path, len: u64, piece: u64) -> Result<File, FileError> {
        self.faults.allocate().map_err(FileError::of("make", path))?;
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .open(path)
            .map_err(FileError::of("make", path))?;
        self.reserve(&file, path, len, piece).inspect_err(|_| {
            // Best effort: a file half made would keep the room that is missing.
            let _ = std::fs::remove_file(path);
        })?;
        Ok(file)
    }

    fn reserve(&self, file: &File, path: &Path, len: u64, piece: u64) -> Result<(), FileError> {
        let zeros = &ZEROS[..ZEROS.len().min(piece as usize)];
        match rustix::fs::fallocate(file, FallocateFlags::empty(), 0, len) {
            Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS) => {}
            Err(error) => return Err(FileError::of("make", path)(error.into())),
        }
        let mut at = 0;
        while at < len {
            let step_end = len.min(at + ZERO_STEP);
            while at < step_end {
                let n = (step_end - at).min(zeros.len() as u64) as usize;
                file.write_all_at(&zeros[..n], at).map_err(FileError::of("make", path))?;
                at += n as u64;
            }
            self.sync(file).map_err(FileError::of("sync", path))?;
        }
        file.sync_all().map_err(FileError::of("sync", path))
    }

    /// Makes an empty file, which must not be there yet. Its name is durable after a sync of its
    /// directory.
    ///
    /// # Errors
    /// As the system says it.
    pub fn make(&self, path: &Path) -> Result<File, FileError> {
        let allowed = self.faults.allocate();
        let made =
            allowed.and_then(|()| OpenOptions::new().write(true).create_new(true).open(path));
        made.map_err(FileError::of("make", path))
    }

    /// Renames a file.
    ///
    /// # Errors
    /// As the system says it.
    pub fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.faults.change()?;
        std::fs::rename(from, to)
    }

    /// Removes a file.
    ///
    /// # Errors
    /// As the system says it.
    pub fn remove(&self, path: &Path) -> io::Result<()> {
        self.faults.change()?;
        std::fs::remove_file(path)
    }

    /// Cuts a file's end off.
    ///
    /// # Errors
    /// As the system says it.
    pub fn truncate(&self, file: &File, len: u64) -> io::Result<()> {
        self.faults.change()?;
        file.set_len(len)
    }
}

/// Reads up to `len` bytes at `offset`; fewer only at the end of the file.
pub(crate) fn read_at(file: &File, offset: u64, len: usize) -> io::Result<Vec<u8>> {
    let mut out = vec![0; len];
    let mut filled = 0;
    while filled < len {
        match file.read_at(&mut out[filled..], offset + filled as u64) {
            Ok(0) => break,
            Ok(n) => filled += n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    out.truncate(filled);
    Ok(out)
}

/// Whether the error means that there is no room: it may go away by itself.
pub(crate) fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}
