//! Reading a Parquet file so that no byte of it is used whose checksum is wrong.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use parquet::errors::{ParquetError, Result};
use parquet::file::reader::{ChunkReader, Length};

use crate::file::sidecar::{Page, Sidecar};

/// A Parquet file with the checksums of its pages.
#[derive(Clone, Debug)]
pub(crate) struct Checked {
    pub file: Arc<File>,
    pub sidecar: Arc<Sidecar>,
}

/// A checksum is wrong: what the reader finds at the bottom of the error it gets.
#[derive(Debug, thiserror::Error)]
#[error("checksum of bytes {offset} to {end} is wrong")]
pub(crate) struct WrongChecksum {
    offset: u64,
    end: u64,
}

impl Checked {
    fn page(&self, offset: u64) -> Option<&Page> {
        let pages = &self.sidecar.pages;
        let at = pages.partition_point(|page| page.offset <= offset).checked_sub(1)?;
        pages.get(at)
    }
}

/// Reads a page and looks at its checksum.
pub(crate) fn read_page(file: &File, page: &Page) -> Result<Bytes> {
    let bytes = read_at(file, page.offset, page.len as usize).map_err(external)?;
    if crc32c::crc32c(&bytes) != page.crc {
        let end = page.offset + u64::from(page.len);
        return Err(ParquetError::External(Box::new(WrongChecksum { offset: page.offset, end })));
    }
    Ok(bytes)
}

/// Whether a read failed because of what the file holds, and not because it can't be reached.
pub(crate) fn is_damage(error: &ParquetError) -> bool {
    match error {
        ParquetError::External(source) => {
            source.downcast_ref::<io::Error>().is_none_or(is_unreadable)
        }
        _ => true,
    }
}

/// Whether a file ends too early, or its disk can't read some of it.
pub(crate) fn is_unreadable(error: &io::Error) -> bool {
    let disk_fault = rustix::io::Errno::IO.raw_os_error();
    error.kind() == io::ErrorKind::UnexpectedEof || error.raw_os_error() == Some(disk_fault)
}

fn external(error: io::Error) -> ParquetError {
    ParquetError::External(Box::new(error))
}

/// Reads exactly `len` bytes.
pub(crate) fn read_at(file: &File, offset: u64, len: usize) -> io::Result<Bytes> {
    let mut bytes = vec![0; len];
    file.read_exact_at(&mut bytes, offset)?;
    Ok(bytes.into())
}

/// Reads a whole file.
pub(crate) fn read_all(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The first bytes of a file whose checksum was looked at; what was appended behind them is not
/// seen.
#[derive(Clone, Debug)]
pub(crate) struct Prefix {
    pub file: Arc<File>,
    pub bytes: u64,
}

impl Length for Prefix {
    fn len(&self) -> u64 {
        self.bytes
    }
}

impl ChunkReader for Prefix {
    type T = io::BufReader<FromOffset>;

    fn get_read(&self, start: u64) -> Result<Self::T> {
        Ok(io::BufReader::new(FromOffset { prefix: self.clone(), at: start }))
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes> {
        let end = start.checked_add(length as u64).filter(|end| *end <= self.bytes);
        end.ok_or_else(|| ParquetError::EOF(format!("no {length} bytes at {start}")))?;
        read_at(&self.file, start, length).map_err(external)
    }
}

/// Reads a prefix from somewhere on.
#[derive(Debug)]
pub(crate) struct FromOffset {
    prefix: Prefix,
    at: u64,
}

impl Read for FromOffset {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let left = self.prefix.bytes.saturating_sub(self.at);
        let len = usize::try_from(left).unwrap_or(usize::MAX).min(into.len());
        let read = self.prefix.file.read_at(into.get_mut(..len).unwrap_or_default(), self.at)?;
        self.at += read as u64;
        Ok(read)
    }
}

impl Length for Checked {
    fn len(&self) -> u64 {
        self.sidecar.bytes
    }
}

impl ChunkReader for Checked {
    type T = bytes::buf::Reader<Bytes>;

    fn get_read(&self, start: u64) -> Result<Self::T> {
        // With the offset index every read has a length; this is for the reader's odd cases.
        let page = self.page(start);
        let end = page.map_or(start, |page| page.offset + u64::from(page.len));
        let bytes =
            self.get_bytes(start, usize::try_from(end.saturating_sub(start)).unwrap_or(0))?;
        Ok(bytes::Buf::reader(bytes))
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes> {
        let mut at = start;
        let end = start.saturating_add(length as u64);
        let mut whole = Vec::new();
        while at < end {
            let page = self.page(at).filter(|page| page.offset + u64::from(page.len) > at);
            let page = page.ok_or_else(|| ParquetError::EOF(format!("no bytes at {at}")))?;
            let bytes = read_page(&self.file, page)?;
            if page.offset == start && u64::from(page.len) == length as u64 {
                return Ok(bytes);
            }
            let from = (at - page.offset) as usize;
            let to = bytes.len().min((end - page.offset) as usize);
            whole.extend_from_slice(bytes.get(from..to).unwrap_or_default());
            at = page.offset + to as u64;
        }
        Ok(whole.into())
    }
}
