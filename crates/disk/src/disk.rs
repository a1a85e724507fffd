//! Access to the file system, for files that are written wherever is wanted.

use std::fs::{File, OpenOptions};
use std::io::{self, IoSlice};
use std::os::unix::fs::FileExt;
use std::path::Path;

use rustix::fs::FallocateFlags;
use rustix::io::Errno;

use crate::error::FileError;
use crate::faults::Faults;

/// Zeros for the end of a page and for new files.
pub static ZEROS: [u8; 1 << 16] = [0; 1 << 16];

/// How much of a new file is zeroed between two syncs: enough to be quick, and little enough
/// that a group's sync never waits long behind it.
const ZERO_STEP: u64 = 4 << 20;

/// Access to the file system. Clones have the same faults, where there are any.
#[derive(Debug, Clone, Default)]
pub struct Disk {
    pub(crate) faults: Faults,
}

impl Disk {
    /// The file system with faults, for tests.
    #[cfg(any(test, feature = "faults"))]
    pub fn with(faults: Faults) -> Disk {
        Disk { faults }
    }

    /// The file system for a directory; where a program is built with faults, a file beside the
    /// directory, of its name and `.faults`, orders them.
    pub fn of(dir: &Path) -> Disk {
        Disk { faults: Faults::beside(dir) }
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
            let len = batch.iter().map(|slice| slice.len()).sum();
            let allowed = self.faults.write(file, offset, len)?;
            let written = if allowed < len {
                let cut: Vec<u8> = batch.iter().flat_map(|slice| slice.iter().copied()).collect();
                file.write_at(&cut[..allowed], offset)?
            } else {
                match rustix::io::pwritev(file, batch, offset) {
                    Err(Errno::INTR) => continue,
                    answer => answer?,
                }
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
        self.faults.step_on("sync", file)?;
        file.sync_data()?;
        self.faults.synced(file);
        Ok(())
    }

    /// `fsync`: what the file's inode says of it is durable, too.
    ///
    /// # Errors
    /// As [`sync`](Self::sync).
    pub fn sync_all(&self, file: &File) -> io::Result<()> {
        self.faults.step_on("sync", file)?;
        file.sync_all()?;
        self.faults.synced(file);
        Ok(())
    }

    /// Makes the names in a directory durable.
    ///
    /// # Errors
    /// As the system says it.
    pub fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.faults.step("directory sync", dir)?;
        File::open(dir)?.sync_all()
    }

    /// Makes a directory and those above it; its own name is durable then.
    ///
    /// # Errors
    /// As the system says it.
    pub fn create_dir(&self, path: &Path) -> io::Result<()> {
        if path.is_dir() {
            return Ok(());
        }
        self.faults.step("create directory", path)?;
        std::fs::create_dir_all(path)?;
        path.parent().map_or(Ok(()), |above| File::open(above)?.sync_all())
    }

    /// Makes a file of `len` bytes, all of them on the disk. The blocks are reserved first, so that
    /// a full disk shows at once, and then written, because a sync of blocks that are only
    /// reserved has to commit the file system's own log each time.
    ///
    /// The kernel keeps in one piece what was written at once, and locks it as one while it goes
    /// to the disk: `piece` is how much that is at most.
    ///
    /// # Errors
    /// As the system says it; no file is left then.
    pub fn allocate(&self, path: &Path, len: u64, piece: u64) -> Result<File, FileError> {
        self.faults.step("create", path).map_err(FileError::of("make", path))?;
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
        let allowed = self.faults.step("create", path);
        let options = OpenOptions::new().read(true).write(true).create_new(true).clone();
        allowed.and_then(|()| options.open(path)).map_err(FileError::of("make", path))
    }

    /// Puts a small file into place whole, or not at all: there is the old one or the new one at
    /// any moment, and the new one is durable behind this.
    ///
    /// # Errors
    /// As the system says it. Where its directory can't be synced, either may be there later.
    pub fn put(&self, path: &Path, bytes: &[u8]) -> Result<(), FileError> {
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(".new");
        let new = path.with_file_name(name);
        // Left by a process that died.
        let _ = std::fs::remove_file(&new);
        let file = self.make(&new)?;
        self.write_all(&file, &[bytes], 0).map_err(FileError::of("write", &new))?;
        self.sync(&file).map_err(FileError::of("sync", &new))?;
        self.rename(&new, path).map_err(FileError::of("rename", &new))?;
        let dir = path.parent().unwrap_or(path);
        self.sync_dir(dir).map_err(FileError::of("sync", dir))
    }

    /// Renames a file, in place of what has the name.
    ///
    /// # Errors
    /// As the system says it.
    pub fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.faults.step("rename", to)?;
        std::fs::rename(from, to)
    }

    /// Removes a file.
    ///
    /// # Errors
    /// As the system says it.
    pub fn remove(&self, path: &Path) -> io::Result<()> {
        self.faults.step("remove", path)?;
        std::fs::remove_file(path)
    }

    /// Cuts a file's end off.
    ///
    /// # Errors
    /// As the system says it.
    pub fn truncate(&self, file: &File, len: u64) -> io::Result<()> {
        self.faults.step_on("cut", file)?;
        file.set_len(len)
    }
}
