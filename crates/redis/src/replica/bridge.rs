//! The end of an increment as a file of its own: what a generation begins with whose base is of an
//! offset within it.

use std::fs::File;
use std::io::{BufReader, Read as _, Seek as _, SeekFrom};
use std::path::Path;

use disk::{Disk, FileError};

use super::lines::{LINE_BYTES_MAX, Line};
use super::scan::{AofCut, AofPosition, ScanError, Tail, Until, put_select, scan_until};

/// How much is copied at once.
const PIECE_BYTES: usize = 1 << 20;

/// Why there is no such file.
#[derive(Debug, thiserror::Error)]
pub enum BridgeError {
    /// It can't be read.
    #[error(transparent)]
    Scan(#[from] ScanError),
    /// The increment that is to be copied is damaged.
    #[error("{0} is damaged; weir redis verify says where")]
    Damaged(String),
    /// A server never sends its data set within a transaction.
    #[error("the base's offset {0} is not between two transactions of the stream")]
    Within(u64),
    /// The file system refuses.
    #[error(transparent)]
    Io(#[from] FileError),
}

/// Writes what an increment that is closed has from an offset on to a file that is made here, and
/// syncs it.
///
/// # Errors
/// The increment is damaged, the offset lies within a transaction, or the file system refuses.
pub fn bridge(disk: &Disk, from: &Path, offset: u64, to: &Path) -> Result<(), BridgeError> {
    let open = || File::open(from).map_err(FileError::of("open", from));
    let mut source = BufReader::with_capacity(PIECE_BYTES, open()?);
    let scanned = scan_until(&mut source, Until::Offset(offset))?;
    let damaged = || BridgeError::Damaged(from.display().to_string());
    if scanned.tail != Tail::None {
        return Err(damaged());
    }
    let whole = AofCut { place: scanned.end, crc: 0, mark: None };
    let AofCut { place, mark, .. } = scanned.cut.unwrap_or(whole);
    if place.offset != offset {
        return Err(BridgeError::Within(offset));
    }
    let file = disk.make(to)?;
    let (mut out, mut source) = (Out { disk, file: &file, path: to, at: 0, crc: 0 }, source);
    out.head(place)?;
    match mark {
        // What the head says of the keys is sound only where a mark is behind it.
        None => out.mark(offset)?,
        Some((mark, behind)) => {
            let read = FileError::of("read", from);
            source.seek(SeekFrom::Start(place.at)).map_err(read)?;
            out.copy(&mut source, from, mark - place.at)?;
            // The mark is over what lies before the offset, too; the next ones are as they were.
            let mut line = vec![0; LINE_BYTES_MAX.min((behind - mark) as usize)];
            source.read_exact(&mut line).map_err(FileError::of("read", from))?;
            let line = Line::read(line.strip_suffix(b"\r\n").unwrap_or_default());
            let Some(Line::Mark { offset, .. }) = line else { return Err(damaged()) };
            out.mark(offset)?;
            out.copy(&mut source, from, scanned.end.at - behind)?;
        }
    }
    disk.sync(&file).map_err(FileError::of("sync", to))?;
    Ok(())
}

/// The file that is written.
struct Out<'a> {
    disk: &'a Disk,
    file: &'a File,
    path: &'a Path,
    at: u64,
    crc: u32,
}

impl Out<'_> {
    fn write(&mut self, bytes: &[u8]) -> Result<(), FileError> {
        let written = self.disk.write_all(self.file, &[bytes], self.at);
        written.map_err(FileError::of("write", self.path))?;
        self.at += bytes.len() as u64;
        self.crc = crc32c::crc32c_append(self.crc, bytes);
        Ok(())
    }

    fn head(&mut self, place: AofPosition) -> Result<(), FileError> {
        let AofPosition { offset, id, database, keys, .. } = place;
        let mut head = Vec::new();
        Line::Begin { id, offset, database }.put(&mut head);
        put_select(&mut head, database);
        if let Some(keys) = keys {
            Line::Keys(keys).put(&mut head);
        }
        self.write(&head)
    }

    fn mark(&mut self, offset: u64) -> Result<(), FileError> {
        let mut line = Vec::new();
        Line::Mark { offset, crc: self.crc }.put(&mut line);
        self.write(&line)
    }

    fn copy(
        &mut self,
        source: &mut BufReader<File>,
        from: &Path,
        mut left: u64,
    ) -> Result<(), FileError> {
        let mut piece = vec![0; PIECE_BYTES];
        while left > 0 {
            let len = piece.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            let piece = piece.get_mut(..len).unwrap_or_default();
            source.read_exact(piece).map_err(FileError::of("read", from))?;
            self.write(piece)?;
            left -= len as u64;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::BufReader;

    use disk::Disk;
    use wire::resp::put_command;

    use super::super::keys::Keys;
    use super::super::lines::{Id, Line};
    use super::super::scan::{Tail, put_select, scan};
    use super::{BridgeError, bridge};

    #[test]
    fn what_lies_behind_any_offset_between_transactions_is_a_whole_file() {
        let (mut out, id) = (Vec::new(), Id::read(&[b'1'; 40]).unwrap());
        Line::Begin { id, offset: 50, database: 2 }.put(&mut out);
        put_select(&mut out, 2);
        let (mut from, mut offset, mut rests) = (0, 50, vec![(50, 2)]);
        for (group, time) in (0..3_u32).zip(5..) {
            Line::Time(time).put(&mut out);
            Line::Keys(Keys::Accepted(time)).put(&mut out);
            let select = group.to_string();
            for words in [&["MULTI"][..], &["SELECT", &select], &["EXEC"], &["PING"], &["PING"]] {
                let begun = out.len();
                put_command(&mut out, words.iter());
                offset += (out.len() - begun) as u64;
                if matches!(words[0], "EXEC" | "PING") {
                    rests.push((offset, group));
                }
            }
            Line::Mark { offset, crc: crc32c::crc32c(&out[from..]) }.put(&mut out);
            from = out.len();
        }
        let dir = tempfile::tempdir().unwrap();
        let source = dir.path().join("source");
        fs::write(&source, &out).unwrap();
        for wanted in 50..=offset {
            let to = dir.path().join(format!("to{wanted}"));
            let made = bridge(&Disk::default(), &source, wanted, &to);
            let Some((_, database)) = rests.iter().find(|(rest, _)| *rest == wanted) else {
                assert!(matches!(made, Err(BridgeError::Within(_))), "{wanted}: {made:?}");
                continue;
            };
            made.unwrap();
            let file = fs::File::open(&to).unwrap();
            let found = scan(&mut BufReader::new(file)).unwrap();
            let (begin, end) = (found.begin, found.end);
            assert_eq!((begin.offset, begin.database, begin.id), (wanted, *database, id));
            assert_eq!((end.offset, end.database, found.tail), (offset, 2, Tail::None), "{wanted}");
        }
        fs::write(&source, &out[..out.len() - 3]).unwrap();
        let torn = bridge(&Disk::default(), &source, 50, &dir.path().join("torn"));
        assert!(matches!(torn, Err(BridgeError::Damaged(_))));
    }
}
