//! The file that says whose directory this is, and that holds it for one process.
//!
//! | bytes | field |
//! |---|---|
//! | 8 | magic |
//! | 4 | format version |
//! | 4 | salt: the journal's own random number, which all checksums begin with |
//! | 4 | CRC-32C over the above |

use std::fs::File;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use disk::FileError;

use crate::error::OpenError;

/// The file's name in the journal's directory.
pub(crate) const FILE_NAME: &str = "journal.id";

const MAGIC: [u8; 8] = *b"WEIR\x9djnl";
const VERSION: u32 = 1;
const LEN: usize = 20;

/// Opens or makes the file and takes the directory for this process, until the file is closed.
pub(crate) fn take(dir: &Path) -> Result<File, OpenError> {
    disk::hold(&dir.join(FILE_NAME))?.ok_or_else(|| OpenError::InUse { dir: dir.to_owned() })
}

/// The salt in the file; `None` when it is empty or damaged.
pub(crate) fn salt(file: &File, dir: &Path) -> Result<Option<u32>, OpenError> {
    let path = dir.join(FILE_NAME);
    let bytes = disk::read_at(file, 0, LEN).map_err(FileError::of("read", &path))?;
    let Some(bytes) = bytes.first_chunk::<LEN>() else {
        return Ok(None);
    };
    let word = |at: usize| {
        let bytes = bytes.get(at..).and_then(|rest| rest.first_chunk());
        bytes.map_or(0, |bytes| u32::from_le_bytes(*bytes))
    };
    if bytes[..8] != MAGIC || word(16) != crc32c::crc32c(&bytes[..16]) {
        return Ok(None);
    }
    if word(8) != VERSION {
        return Err(OpenError::Format {
            path,
            reason: format!("its format is version {}, not {VERSION}", word(8)),
        });
    }
    Ok(Some(word(12)))
}

/// Writes the file anew.
pub(crate) fn write(file: &File, dir: &Path, salt: u32) -> Result<(), FileError> {
    let path = dir.join(FILE_NAME);
    let mut bytes = MAGIC.to_vec();
    bytes.extend_from_slice(&VERSION.to_le_bytes());
    bytes.extend_from_slice(&salt.to_le_bytes());
    bytes.extend_from_slice(&crc32c::crc32c(&bytes).to_le_bytes());
    let written: io::Result<()> = file.write_all_at(&bytes, 0).and_then(|()| file.sync_all());
    written.map_err(FileError::of("write", &path))?;
    let synced = File::open(dir).and_then(|dir| dir.sync_all());
    synced.map_err(FileError::of("sync", dir))
}

/// A number nobody can guess: the standard library seeds its hashes from the system's randomness.
pub(crate) fn new_salt() -> u32 {
    let hash = RandomState::new().build_hasher().finish();
    (hash ^ (hash >> 32)) as u32
}
