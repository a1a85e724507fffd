//! One segment file: a page with the header, then groups.
//!
//! The file is named by the position its groups begin at, so that a place in the journal is a
//! file and an offset without an index. The header, twice on its page (at 0 and at 2048):
//!
//! | bytes | field |
//! |---|---|
//! | 8 | magic |
//! | 4 | format version |
//! | 4 | salt of the journal |
//! | 8 | position of the first group |
//! | 8 | bytes of groups the segment holds |
//! | 8 | position the segment before begins at, all ones for the first |
//! | 8 | end of what was synced when this was written |
//! | 4 | CRC-32C over the above |

use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use disk::{Disk, FileError};

use crate::format::group;
use crate::position::{Counts, Position};

/// The length of the header's page; groups begin after it.
pub(crate) const HEADER_LEN: u64 = 4096;
/// The format this version writes, and the only one it reads.
pub(crate) const VERSION: u32 = 1;

const MAGIC: [u8; 8] = *b"WEIR\x9dseg";
const FIELDS_LEN: usize = 52;
const COPY_AT: usize = 2048;
const NONE: u64 = u64::MAX;
const SUFFIX: &str = "segment";

/// What a segment's header says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header {
    pub salt: u32,
    pub base: Position,
    pub capacity: u64,
    pub previous: Option<Position>,
    pub synced_end: Position,
}

/// Why a page is not a header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HeaderError {
    /// Written by a later version.
    Version(u32),
    /// Neither copy is whole.
    Damaged,
}

impl Header {
    /// The page as it is on the disk.
    pub fn encode(&self) -> Vec<u8> {
        let mut fields = Vec::with_capacity(FIELDS_LEN);
        fields.extend_from_slice(&MAGIC);
        fields.extend_from_slice(&VERSION.to_le_bytes());
        fields.extend_from_slice(&self.salt.to_le_bytes());
        let previous = self.previous.map_or(NONE, |base| base.0);
        for long in [self.base.0, self.capacity, previous, self.synced_end.0] {
            fields.extend_from_slice(&long.to_le_bytes());
        }
        let checksum = crc32c::crc32c(&fields);
        fields.extend_from_slice(&checksum.to_le_bytes());
        let mut page = vec![0; HEADER_LEN as usize];
        page[..FIELDS_LEN].copy_from_slice(&fields);
        page[COPY_AT..COPY_AT + FIELDS_LEN].copy_from_slice(&fields);
        page
    }

    /// Reads whichever copy is whole.
    pub fn decode(page: &[u8]) -> Result<Header, HeaderError> {
        let mut worst = HeaderError::Damaged;
        for at in [0, COPY_AT] {
            let Some(fields) = page.get(at..at + FIELDS_LEN) else {
                continue;
            };
            match Header::decode_copy(fields) {
                Ok(header) => return Ok(header),
                Err(HeaderError::Damaged) => {}
                Err(version) => worst = version,
            }
        }
        Err(worst)
    }

    fn decode_copy(fields: &[u8]) -> Result<Header, HeaderError> {
        let word = |at: usize| {
            let bytes = fields.get(at..).and_then(|rest| rest.first_chunk());
            bytes.map_or(0, |bytes| u32::from_le_bytes(*bytes))
        };
        let long = |at: usize| u64::from(word(at)) | u64::from(word(at + 4)) << 32;
        let body = fields.get(..FIELDS_LEN - 4).ok_or(HeaderError::Damaged)?;
        if body[..8] != MAGIC || crc32c::crc32c(body) != word(FIELDS_LEN - 4) {
            return Err(HeaderError::Damaged);
        }
        if word(8) != VERSION {
            return Err(HeaderError::Version(word(8)));
        }
        Ok(Header {
            salt: word(12),
            base: Position(long(16)),
            capacity: long(24),
            previous: (long(32) != NONE).then_some(Position(long(32))),
            synced_end: Position(long(40)),
        })
    }
}

/// Where a segment's groups begin, and where those of the segment before ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct First {
    pub position: Position,
    pub previous_end: Position,
    pub before: Counts,
}

impl From<&group::Header> for First {
    fn from(header: &group::Header) -> First {
        First {
            position: header.position,
            previous_end: header.previous_end,
            before: header.before,
        }
    }
}

/// An open segment file.
#[derive(Debug)]
pub(crate) struct Segment {
    pub base: Position,
    /// Bytes of groups it can hold.
    pub capacity: u64,
    pub path: PathBuf,
    pub file: File,
    /// The length of the file in bytes; less than header and capacity once its end was cut off.
    pub file_len: u64,
    /// Its first intact group; of the segment being written, where that goes.
    pub first: OnceLock<First>,
}

impl Segment {
    /// The first position after the segment.
    pub fn end(&self) -> Position {
        self.base.after(self.capacity)
    }

    /// Whether a place belongs to the segment.
    pub fn contains(&self, position: Position) -> bool {
        self.base <= position && position < self.end()
    }

    /// The beginning of the first page that has nothing before a place.
    pub fn next_page(&self, position: Position) -> Position {
        let offset = self.offset(position);
        position.after(offset.next_multiple_of(HEADER_LEN) - offset)
    }

    /// Where a place of the segment is in the file.
    pub fn offset(&self, position: Position) -> u64 {
        HEADER_LEN + position.since(self.base)
    }

    /// Up to `len` bytes from a place on, fewer at the end of the segment.
    pub fn read(&self, from: Position, len: usize) -> io::Result<Vec<u8>> {
        let left = self.file_len.saturating_sub(self.offset(from));
        let len = usize::try_from(left).unwrap_or(usize::MAX).min(len);
        disk::read_at(&self.file, self.offset(from), len)
    }

    /// The file and the offset of a place, for messages.
    pub fn place(&self, position: Position) -> String {
        format!("{} at byte {}", self.path.display(), self.offset(position))
    }
}

/// The file name of the segment that begins at `base`.
pub(crate) fn file_name(base: Position) -> String {
    format!("{:020}.{SUFFIX}", base.0)
}

/// The base in a segment's file name.
pub(crate) fn base_of(path: &Path) -> Option<Position> {
    let stem = path.file_stem()?.to_str()?;
    let named = path.extension()?.to_str()? == SUFFIX && stem.len() == 20;
    stem.parse().ok().filter(|_| named).map(Position)
}

/// Turns a file of the right size into the segment that begins at `header.base`: the header is
/// on the disk before the file has the name, and the name before this returns.
pub(crate) fn establish(
    disk: &Disk,
    dir: &Path,
    spare: &Path,
    file: File,
    header: &Header,
) -> Result<Segment, FileError> {
    disk.write_all(&file, &[&header.encode()], 0).map_err(FileError::of("write", spare))?;
    disk.sync(&file).map_err(FileError::of("sync", spare))?;
    let path = dir.join(file_name(header.base));
    disk.rename(spare, &path).map_err(FileError::of("rename", spare))?;
    disk.sync_dir(dir).map_err(FileError::of("sync", dir))?;
    Ok(Segment {
        base: header.base,
        capacity: header.capacity,
        file_len: HEADER_LEN + header.capacity,
        path,
        file,
        first: OnceLock::new(),
    })
}

/// Opens a segment file and reads its header.
pub(crate) fn open(path: &Path, writable: bool) -> io::Result<(File, u64, Vec<u8>)> {
    let file = OpenOptions::new().read(true).write(writable).open(path)?;
    let len = file.metadata()?.len();
    let page = disk::read_at(&file, 0, HEADER_LEN as usize)?;
    Ok((file, len, page))
}

#[cfg(test)]
mod tests {
    use super::{COPY_AT, FIELDS_LEN, Header, HeaderError, base_of, file_name};
    use crate::position::Position;
    use std::path::Path;

    #[test]
    fn one_damaged_copy_of_the_header_is_no_loss() {
        let header = Header {
            salt: 1,
            base: Position(2),
            capacity: 3,
            previous: Some(Position(4)),
            synced_end: Position(5),
        };
        let page = header.encode();
        for bit in 0..FIELDS_LEN * 8 {
            let mut page = page.clone();
            page[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Header::decode(&page), Ok(header), "bit {bit}");
            page[COPY_AT + bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Header::decode(&page), Err(HeaderError::Damaged), "bit {bit}");
        }
    }

    #[test]
    fn names_say_where_a_segment_begins() {
        let name = file_name(Position(4096));
        assert_eq!(name, "00000000000000004096.segment");
        assert_eq!(base_of(Path::new(&name)), Some(Position(4096)));
        for other in ["1.segment", "00000000000000004096.spare", "journal"] {
            assert_eq!(base_of(Path::new(other)), None);
        }
    }
}
