//! The few things the store asks of the file system when it changes something. All of it goes
//! through here, so that tests can make it fail or end at any step.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

use crate::faults::Faults;

/// Access to the file system. Clones share the same faults, where there are any.
#[derive(Debug, Clone, Default)]
pub struct Disk {
    faults: Faults,
}

impl Disk {
    /// The file system with faults, for tests.
    #[cfg(any(test, feature = "faults"))]
    pub fn with(faults: Faults) -> Self {
        Self { faults }
    }

    /// Makes a new file, or empties an old one.
    ///
    /// # Errors
    /// As the file system says.
    pub fn create(&self, path: &Path) -> io::Result<Written> {
        self.faults.step("create", path)?;
        let options = OpenOptions::new().read(true).write(true).create(true).truncate(true).clone();
        Ok(Written { file: options.open(path)?, path: path.into(), disk: self.clone(), bytes: 0 })
    }

    /// Opens a file to write at its end, after cutting it to `len` bytes.
    ///
    /// # Errors
    /// As the file system says.
    pub fn append(&self, path: &Path, len: u64) -> io::Result<Written> {
        self.faults.step("append", path)?;
        let mut file = OpenOptions::new().write(true).create(true).truncate(false).open(path)?;
        file.set_len(len)?;
        io::Seek::seek(&mut file, io::SeekFrom::End(0))?;
        Ok(Written { file, path: path.into(), disk: self.clone(), bytes: len })
    }

    /// Gives a file another name, replacing what had it.
    ///
    /// # Errors
    /// As the file system says.
    pub fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.faults.step("rename", to)?;
        std::fs::rename(from, to)?;
        self.faults.renamed(from, to);
        Ok(())
    }

    /// Removes a file.
    ///
    /// # Errors
    /// As the file system says.
    pub fn remove(&self, path: &Path) -> io::Result<()> {
        self.faults.step("remove", path)?;
        std::fs::remove_file(path)
    }

    /// Makes a directory and those above it.
    ///
    /// # Errors
    /// As the file system says.
    pub fn create_dir(&self, path: &Path) -> io::Result<()> {
        if path.is_dir() {
            return Ok(());
        }
        self.faults.step("create directory", path)?;
        std::fs::create_dir_all(path)?;
        path.parent().map_or(Ok(()), |above| File::open(above)?.sync_all())
    }

    /// Makes the names in a directory durable.
    ///
    /// # Errors
    /// As the file system says.
    pub fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.faults.step("sync directory", path)?;
        File::open(path)?.sync_all()
    }
}

/// A file that is being written.
#[derive(Debug)]
pub struct Written {
    /// The file, to read back what was written.
    pub file: File,
    path: std::path::PathBuf,
    disk: Disk,
    bytes: u64,
}

impl Written {
    /// Bytes in the file.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Makes what was written durable. After an error nothing is known of it any more.
    ///
    /// # Errors
    /// As the file system says.
    pub fn sync(&self) -> io::Result<()> {
        self.disk.faults.step("sync", &self.path)?;
        self.file.sync_all()?;
        self.disk.faults.synced(&self.path);
        Ok(())
    }
}

impl Write for Written {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let len = self.disk.faults.write(&self.path, bytes.len())?;
        let part = bytes.get(..len).unwrap_or(bytes);
        let written = self.file.write(part)?;
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
