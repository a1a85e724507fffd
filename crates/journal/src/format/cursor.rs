//! One consumer's cursor: its account, and its file.
//!
//! The file has two slots of one page that are written in turn, so that a torn write spoils only
//! the newer one, and no write touches the file system's own log. A slot:
//!
//! | bytes | field |
//! |---|---|
//! | 8 | magic |
//! | 4 | format version |
//! | 4 | CRC-32C over what follows |
//! | 8 | sequence; the higher slot counts |
//! | 16 | position; position of the header of the group it is in |
//! | 8 | wall clock of the last record before it, nanoseconds since 1970 |
//! | 48 | items, controls, bytes before the position; the same where the cursor was made |
//! | 48 | delivered, dead-lettered, dropped, dropped oldest, dropped damaged, dropped controls |
//! | 1 + n | length of the name, the name |
//! | 8 | version 2: elsewhere |
//!
//! Version 1 is written as long as nothing lies elsewhere, so that an older Weir reads it.

use std::fs::File;
use std::path::{Path, PathBuf};

use disk::{Disk, FileError};

use crate::position::{Counts, Position};

/// The longest name of a cursor in bytes.
pub(crate) const NAME_MAX: usize = 100;
/// How many cursors there may be: each holds segments back, and takes part in every status.
pub(crate) const CURSORS_MAX: usize = 256;

const MAGIC: [u8; 8] = *b"WEIR\x9dcur";
/// The last version without items that lie elsewhere.
const WITHOUT_ELSEWHERE: u32 = 1;
const VERSION: u32 = 2;
const SLOT_LEN: usize = 4096;
const FIXED_LEN: usize = 145;
const SUFFIX: &str = "cursor";

/// Where a cursor is and what became of everything before it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Account {
    pub position: Position,
    /// Where the header of the group is that `position` is in; `position` itself between groups.
    pub group: Position,
    /// When the last record before it was written.
    pub written_at: u64,
    /// What came before `position`.
    pub counts: Counts,
    /// What came before the cursor was made.
    pub start: Counts,
    pub delivered: u64,
    pub dead_lettered: u64,
    pub dropped: u64,
    pub elsewhere: u64,
    pub dropped_oldest: u64,
    pub dropped_damaged: u64,
    pub dropped_controls: u64,
}

impl Account {
    fn longs(&self) -> [u64; 15] {
        [
            self.position.0,
            self.group.0,
            self.written_at,
            self.counts.items,
            self.counts.controls,
            self.counts.bytes,
            self.start.items,
            self.start.controls,
            self.start.bytes,
            self.delivered,
            self.dead_lettered,
            self.dropped,
            self.dropped_oldest,
            self.dropped_damaged,
            self.dropped_controls,
        ]
    }

    /// The slot as it is on the disk.
    pub fn encode(&self, name: &str, sequence: u64) -> Vec<u8> {
        let mut body = sequence.to_le_bytes().to_vec();
        for long in self.longs() {
            body.extend_from_slice(&long.to_le_bytes());
        }
        body.push(u8::try_from(name.len()).unwrap_or(u8::MAX));
        body.extend_from_slice(name.as_bytes());
        let version = if self.elsewhere == 0 { WITHOUT_ELSEWHERE } else { VERSION };
        if version == VERSION {
            body.extend_from_slice(&self.elsewhere.to_le_bytes());
        }
        let mut slot = MAGIC.to_vec();
        slot.extend_from_slice(&version.to_le_bytes());
        slot.extend_from_slice(&crc32c::crc32c(&body).to_le_bytes());
        slot.append(&mut body);
        slot.resize(SLOT_LEN, 0);
        slot
    }

    fn decode(slot: &[u8]) -> Option<(String, u64, Account)> {
        let fixed: &[u8; FIXED_LEN] = slot.first_chunk()?;
        let word = |at: usize| {
            let bytes = fixed.get(at..).and_then(|rest| rest.first_chunk());
            bytes.map_or(0, |bytes| u32::from_le_bytes(*bytes))
        };
        let long = |at: usize| u64::from(word(at)) | u64::from(word(at + 4)) << 32;
        let has_elsewhere = match word(8) {
            WITHOUT_ELSEWHERE => false,
            VERSION => true,
            _ => return None,
        };
        if fixed[..8] != MAGIC {
            return None;
        }
        let name_end = FIXED_LEN + usize::from(fixed[FIXED_LEN - 1]);
        let body = slot.get(16..name_end + if has_elsewhere { 8 } else { 0 })?;
        if crc32c::crc32c(body) != word(12) {
            return None;
        }
        let name = std::str::from_utf8(slot.get(FIXED_LEN..name_end)?).ok()?;
        let elsewhere = match has_elsewhere {
            true => u64::from_le_bytes(*slot.get(name_end..)?.first_chunk()?),
            false => 0,
        };
        let counts =
            |at: usize| Counts { items: long(at), controls: long(at + 8), bytes: long(at + 16) };
        let account = Account {
            position: Position(long(24)),
            group: Position(long(32)),
            written_at: long(40),
            counts: counts(48),
            start: counts(72),
            delivered: long(96),
            dead_lettered: long(104),
            dropped: long(112),
            elsewhere,
            dropped_oldest: long(120),
            dropped_damaged: long(128),
            dropped_controls: long(136),
        };
        Some((name.to_owned(), long(16), account))
    }
}

/// An open cursor file.
#[derive(Debug)]
pub(crate) struct CursorFile {
    file: File,
    path: PathBuf,
    name: String,
    sequence: u64,
}

impl CursorFile {
    /// Makes the file of a new cursor, durable when this returns.
    pub fn create(
        disk: &Disk,
        dir: &Path,
        name: &str,
        account: &Account,
    ) -> Result<CursorFile, FileError> {
        let path = dir.join(file_name(name));
        let new = path.with_extension("new");
        let file = disk.allocate(&new, 2 * SLOT_LEN as u64, SLOT_LEN as u64)?;
        let mut cursor = CursorFile { file, path: new.clone(), name: name.to_owned(), sequence: 0 };
        cursor.write(disk, account)?;
        disk.rename(&new, &path).map_err(FileError::of("rename", &new))?;
        disk.sync_dir(dir).map_err(FileError::of("sync", dir))?;
        cursor.path = path;
        Ok(cursor)
    }

    /// Writes the account to the older slot and syncs it.
    pub fn write(&mut self, disk: &Disk, account: &Account) -> Result<(), FileError> {
        self.sequence += 1;
        let slot = account.encode(&self.name, self.sequence);
        let offset = (self.sequence % 2) * SLOT_LEN as u64;
        disk.write_all(&self.file, &[&slot], offset).map_err(FileError::of("write", &self.path))?;
        disk.sync(&self.file).map_err(FileError::of("sync", &self.path))
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// What a cursor file holds.
#[derive(Debug)]
pub(crate) enum LoadedCursor {
    /// A cursor and its account.
    Whole(Box<CursorFile>, Account),
    /// Neither slot can be read; the name is as the file's name tells it.
    Damaged(String),
}

/// Opens a cursor file.
pub(crate) fn load(path: &Path, writable: bool) -> Result<LoadedCursor, FileError> {
    let file = File::options()
        .read(true)
        .write(writable)
        .open(path)
        .map_err(FileError::of("open", path))?;
    let bytes = disk::read_at(&file, 0, 2 * SLOT_LEN).map_err(FileError::of("read", path))?;
    let slots = bytes.chunks(SLOT_LEN).filter_map(Account::decode);
    let Some((name, sequence, account)) = slots.max_by_key(|(_, sequence, _)| *sequence) else {
        return Ok(LoadedCursor::Damaged(name_of(path).unwrap_or_default()));
    };
    let cursor = CursorFile { file, path: path.to_owned(), name, sequence };
    Ok(LoadedCursor::Whole(Box::new(cursor), account))
}

impl LoadedCursor {
    /// The name of the cursor.
    pub fn name(&self) -> &str {
        match self {
            LoadedCursor::Whole(file, _) => &file.name,
            LoadedCursor::Damaged(name) => name,
        }
    }
}

/// The paths of all cursor files in a directory, in the order of their names.
pub(crate) fn list(dir: &Path) -> Result<Vec<PathBuf>, FileError> {
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(FileError::of("list", dir))? {
        let path = entry.map_err(FileError::of("list", dir))?.path();
        if path.extension().is_some_and(|suffix| suffix == SUFFIX) {
            paths.push(path);
        }
    }
    paths.sort();
    Ok(paths)
}

/// The file of a name: every byte that could mean something in a path is written in hexadecimal.
pub(crate) fn file_name(name: &str) -> String {
    let mut out = String::with_capacity(name.len() + 8);
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_' {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02x}"));
        }
    }
    out + "." + SUFFIX
}

fn name_of(path: &Path) -> Option<String> {
    let mut bytes = path.file_stem()?.to_str()?.bytes();
    let mut name = Vec::new();
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            name.push(byte);
            continue;
        }
        let digits = [bytes.next()?, bytes.next()?];
        name.push(u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?);
    }
    String::from_utf8(name).ok()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;
    use std::path::Path;

    use disk::Disk;

    use super::{Account, CursorFile, LoadedCursor, SLOT_LEN, file_name, load, name_of};
    use crate::position::Position;

    fn account(position: u64) -> Account {
        Account {
            position: Position(position),
            delivered: position + 1,
            dropped_controls: 9,
            ..Account::default()
        }
    }

    #[test]
    fn any_name_makes_a_file_name_and_comes_back() {
        for name in ["influx-a", "../x", "ü 1.cursor", "%41"] {
            let file = file_name(name);
            assert!(!file.contains('/'), "{file}");
            assert_eq!(name_of(Path::new(&file)).as_deref(), Some(name));
        }
    }

    #[test]
    fn a_torn_write_leaves_the_account_before_it() {
        let dir = tempfile::tempdir().unwrap();
        let disk = Disk::default();
        let mut file = CursorFile::create(&disk, dir.path(), "a", &account(1)).unwrap();
        file.write(&disk, &account(2)).unwrap();
        let path = file.path().to_owned();
        // Sequence 2 is in the first slot.
        file.file.write_all_at(b"torn", 100).unwrap();
        match load(&path, true).unwrap() {
            LoadedCursor::Whole(mut file, found) => {
                assert_eq!(found, account(1));
                file.write(&disk, &account(3)).unwrap();
            }
            LoadedCursor::Damaged(_) => panic!("the other slot is whole"),
        }
        assert!(
            matches!(load(&path, false).unwrap(), LoadedCursor::Whole(_, a) if a == account(3))
        );
        file.file.write_all_at(&[0; 2 * SLOT_LEN], 0).unwrap();
        assert_eq!(load(&path, false).unwrap().name(), "a");
    }

    /// Whoever goes back to a Weir that knows no clusters finds cursors that it reads.
    #[test]
    fn a_slot_is_of_version_1_until_something_lies_elsewhere() {
        for (elsewhere, version) in [(0, 1), (7, 2)] {
            let account = Account { elsewhere, ..account(3) };
            let mut slot = account.encode("a name", 9);
            assert_eq!(slot[8], version);
            assert_eq!(Account::decode(&slot), Some(("a name".to_owned(), 9, account)));
            // Its last byte is under the checksum, too.
            let last = slot.iter().rposition(|byte| *byte != 0).unwrap();
            slot[last] ^= 1;
            assert_eq!(Account::decode(&slot), None);
        }
    }
}
