//! Files that are written from their beginning to their end.

use std::fs::{File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::Path;

use crate::disk::Disk;

impl Disk {
    /// Makes a new file, or empties an old one, to be written from its beginning.
    ///
    /// # Errors
    /// As the file system says.
    pub fn create(&self, path: &Path) -> io::Result<Stream> {
        self.faults.step("create", path)?;
        let options = OpenOptions::new().read(true).write(true).create(true).truncate(true).clone();
        Ok(Stream { file: options.open(path)?, disk: self.clone(), bytes: 0 })
    }

    /// Opens a file to write at its end, after cutting it to `len` bytes.
    ///
    /// # Errors
    /// As the file system says.
    pub fn append(&self, path: &Path, len: u64) -> io::Result<Stream> {
        self.faults.step("append", path)?;
        let options =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).clone();
        let mut file = options.open(path)?;
        file.set_len(len)?;
        file.seek(SeekFrom::End(0))?;
        Ok(Stream { file, disk: self.clone(), bytes: len })
    }
}

/// A file that is being written at its end.
#[derive(Debug)]
pub struct Stream {
    /// The file itself, to read back what was written.
    pub file: File,
    disk: Disk,
    bytes: u64,
}

impl Stream {
    /// How many bytes the file has.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Makes what was written durable. After an error nothing is known of it any more.
    ///
    /// # Errors
    /// As the file system says.
    pub fn sync(&self) -> io::Result<()> {
        self.disk.sync_all(&self.file)
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let len = self.disk.faults.write(&self.file, self.bytes, bytes.len())?;
        let written = self.file.write(bytes.get(..len).unwrap_or(bytes))?;
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
