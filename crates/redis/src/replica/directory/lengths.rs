//! Whether all files of a generation are there, with their lengths and offsets: what can be known
//! of them without reading what lies between their first and their last line.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read as _, Seek as _, SeekFrom};
use std::path::Path;

use disk::FileError;

use super::super::lines::{LINE_BYTES_MAX, Line};
use super::super::manifest::Manifest;
use super::super::scan::put_select;

/// What a mark's line begins with.
const MARK: &[u8] = b"#WEIR mark ";

/// Why a generation's files are not those that its manifest names; `None` where they are, as far as
/// their lengths and offsets tell.
///
/// # Errors
/// The file system refuses for a reason that is not the files'.
pub fn mismatch(dir: &Path, manifest: &Manifest) -> Result<Option<String>, FileError> {
    if let Some(base) = &manifest.base {
        let path = dir.join(&base.name);
        let len = match fs::metadata(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return Ok(Some(format!("{} is missing", base.name)));
            }
            of => of.map_err(FileError::of("look at", &path))?.len(),
        };
        if let Some(sum) = manifest.sum.filter(|sum| sum.len != len) {
            return Ok(Some(format!("{} has {len} bytes, and had {}", base.name, sum.len)));
        }
        if len == 0 {
            return Ok(Some(format!("{} is empty", base.name)));
        }
    }
    let mut before = manifest.sum.map(|sum| sum.offset);
    let last = manifest.increments.len().saturating_sub(1);
    for (number, part) in manifest.increments.iter().enumerate() {
        let path = dir.join(&part.name);
        let mut file = match File::open(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return Ok(Some(format!("{} is missing", part.name)));
            }
            file => file.map_err(FileError::of("open", &path))?,
        };
        let (begin, end) = match offsets(&mut file) {
            Ok(Some(offsets)) => offsets,
            Ok(None) => {
                return Ok(Some(format!("{} does not begin as Weir's files do", part.name)));
            }
            Err(error) => return Ok(Some(format!("{} cannot be read: {error}", part.name))),
        };
        if let Some(before) = before.filter(|before| *before != begin) {
            return Ok(Some(format!(
                "{} begins at offset {begin}, and what comes before it ends at {before}",
                part.name
            )));
        }
        if number < last && end.is_none() {
            return Ok(Some(format!("{} does not end with a mark", part.name)));
        }
        before = end;
    }
    Ok(None)
}

/// The offset that an increment begins at, if it is one, and that of the mark at its end, if it
/// ends with one.
fn offsets(file: &mut File) -> io::Result<Option<(u64, Option<u64>)>> {
    let mut head = Vec::new();
    let most = 2 * LINE_BYTES_MAX as u64;
    io::Read::take(&mut *file, most).read_to_end(&mut head)?;
    let line = head.split_inclusive(|byte| *byte == b'\n').next().unwrap_or_default();
    let Some(content) = line.strip_suffix(b"\r\n") else { return Ok(None) };
    let Some(Line::Begin { offset, database, .. }) = Line::read(content) else { return Ok(None) };
    let len = file.seek(SeekFrom::End(0))?;
    let mut select = Vec::new();
    put_select(&mut select, database);
    if head.len() as u64 == len && head.strip_prefix(line) == Some(&select) {
        // Nothing was written behind its beginning.
        return Ok(Some((offset, Some(offset))));
    }
    file.seek(SeekFrom::Start(len.saturating_sub(LINE_BYTES_MAX as u64)))?;
    let mut tail = Vec::new();
    file.read_to_end(&mut tail)?;
    let mark = memchr::memmem::rfind(&tail, MARK);
    let is_line = mark.and_then(|at| tail.get(at.checked_sub(1)?)) == Some(&b'\n');
    let line = mark.filter(|_| is_line).and_then(|at| tail.get(at..)?.strip_suffix(b"\r\n"));
    Ok(Some(match line.and_then(Line::read) {
        Some(Line::Mark { offset: end, .. }) => (offset, Some(end)),
        _ => (offset, None),
    }))
}
