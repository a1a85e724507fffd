//! The series of a policy on the disk: a log to which each flush appends the new ones. How much of
//! it counts says the manifest, so that what an unfinished flush appended is cut off.
//!
//! One block a flush: length of the body (4 bytes), CRC-32C of the body (4), body: for each series
//! its number (as the difference to the one before), the measurement, the number of tags, keys and
//! values; each text is a length and UTF-8.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use disk::Disk;
use serde::{Deserialize, Serialize};

use crate::file::bytes::{Decoder, Encoder};
use crate::file::{FileError, Tags};
use crate::series::SeriesId;

/// Bytes of a block's body after which another one begins.
const BLOCK_BYTES: usize = 1 << 20;
const HEADER_LEN: usize = 8;
/// The file's name in the directory of its policy.
pub const NAME: &str = "series.log";

/// How much of a series log counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeriesMark {
    /// Its length in bytes.
    pub bytes: u64,
    /// How many series are in it.
    pub series: u64,
}

/// A series as the log has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoggedSeries {
    /// Its number in its policy.
    pub id: SeriesId,
    /// The measurement that it is of.
    pub measurement: Arc<str>,
    /// Its tags, sorted by key.
    pub tags: Tags,
}

/// Appends series to the log of a policy, durable when this returns but for the directory, which
/// the switch of the manifest syncs. What is behind `mark` is cut off first.
///
/// # Errors
/// When it can't be written; the log up to `mark` is as it was.
pub fn append<'a>(
    disk: &Disk,
    dir: &Path,
    mark: SeriesMark,
    series: impl Iterator<Item = (SeriesId, &'a str, &'a Tags)>,
) -> Result<SeriesMark, FileError> {
    let mut series = series.peekable();
    if series.peek().is_none() {
        return Ok(mark);
    }
    let path = dir.join(NAME);
    let mut count = mark.series;
    let failed = FileError::of("write", &path);
    let mut file = disk.append(&path, mark.bytes).map_err(&failed)?;
    while series.peek().is_some() {
        let mut body = Encoder::default();
        let mut before = 0;
        while let Some((id, measurement, tags)) = series.next_if(|_| body.len() < BLOCK_BYTES) {
            body.difference(before, i64::from(id.0));
            before = i64::from(id.0);
            body.text(measurement);
            body.number(tags.len() as u64);
            for (key, value) in tags.iter() {
                body.text(key);
                body.text(value);
            }
            count += 1;
        }
        let body = body.finish();
        let mut block = u32::try_from(body.len()).unwrap_or(u32::MAX).to_le_bytes().to_vec();
        block.extend_from_slice(&crc32c::crc32c(&body).to_le_bytes());
        block.extend_from_slice(&body);
        file.write_all(&block).map_err(&failed)?;
    }
    file.sync().map_err(&failed)?;
    Ok(SeriesMark { bytes: file.bytes(), series: count })
}

/// Reads the log of a policy as far as it counts.
///
/// # Errors
/// When it can't be read or is damaged: then the series are to be had from the files.
pub fn read(
    dir: &Path,
    mark: SeriesMark,
    mut take: impl FnMut(LoggedSeries),
) -> Result<(), FileError> {
    if mark.bytes == 0 {
        return Ok(());
    }
    let path: PathBuf = dir.join(NAME);
    let damaged = FileError::damaged(&path);
    let bytes = std::fs::read(&path).map_err(FileError::of("read", &path))?;
    let counted = usize::try_from(mark.bytes).ok().and_then(|len| bytes.get(..len));
    let mut rest = counted.ok_or_else(|| damaged("it is shorter than it was"))?;
    let mut count = 0_u64;
    while !rest.is_empty() {
        let word = |at: usize| {
            rest.get(at..).and_then(|rest| rest.first_chunk()).map(|word| u32::from_le_bytes(*word))
        };
        let (len, crc) = word(0).zip(word(4)).ok_or_else(|| damaged("it ends within a block"))?;
        let end = HEADER_LEN + len as usize;
        let (block, others) =
            rest.split_at_checked(end).ok_or_else(|| damaged("it ends within a block"))?;
        let body = block.get(HEADER_LEN..).unwrap_or_default();
        if crc32c::crc32c(body) != crc {
            return Err(damaged("a checksum is wrong"));
        }
        let mut body = Decoder::new(body);
        let mut before = 0;
        let mut measurement: Arc<str> = Arc::from("");
        while !body.is_empty() {
            let series = one(&mut body, before, &measurement);
            let series = series.ok_or_else(|| damaged("a block is not a list of series"))?;
            before = i64::from(series.id.0);
            measurement = series.measurement.clone();
            take(series);
            count += 1;
        }
        rest = others;
    }
    if count == mark.series { Ok(()) } else { Err(damaged("it has not as many series as it had")) }
}

fn one(body: &mut Decoder<'_>, before: i64, same: &Arc<str>) -> Option<LoggedSeries> {
    let id = SeriesId(u32::try_from(body.difference(before)?).ok()?);
    let measurement = body.text()?;
    let measurement = if **same == *measurement { same.clone() } else { Arc::from(measurement) };
    let count = body.number()?;
    let mut tags = Vec::new();
    for _ in 0..count {
        let key = Arc::from(body.text()?);
        tags.push((key, Arc::from(body.text()?)));
    }
    Some(LoggedSeries { id, measurement, tags: tags.into() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tags(n: u32) -> Tags {
        Arc::from([(Arc::from("host"), Arc::from(format!("h {n}=").as_str()))])
    }

    fn append_some(
        dir: &Path,
        mark: SeriesMark,
        ids: std::ops::Range<u32>,
    ) -> Result<SeriesMark, FileError> {
        let all: Vec<(SeriesId, Tags)> = ids.map(|n| (SeriesId(n), tags(n))).collect();
        let all = all.iter().map(|(id, tags)| (*id, "cpu", tags));
        append(&Disk::default(), dir, mark, all)
    }

    fn ids(dir: &Path, mark: SeriesMark) -> Result<Vec<u32>, FileError> {
        let mut ids = Vec::new();
        read(dir, mark, |series| {
            assert_eq!((&*series.measurement, &series.tags), ("cpu", &tags(series.id.0)));
            ids.push(series.id.0);
        })?;
        Ok(ids)
    }

    #[test]
    fn what_no_manifest_counts_is_cut_off() {
        let dir = tempfile::tempdir().unwrap();
        let one = append_some(dir.path(), SeriesMark::default(), 0..100_000).unwrap();
        append_some(dir.path(), one, 100_000..100_010).unwrap();
        let two = append_some(dir.path(), one, 200_000..200_005).unwrap();
        assert_eq!(append_some(dir.path(), two, 0..0).unwrap(), two);
        assert_eq!(two.series, 100_005);
        let all: Vec<u32> = (0..100_000).chain(200_000..200_005).collect();
        assert_eq!(ids(dir.path(), two).unwrap(), all);
        assert_eq!(ids(dir.path(), one).unwrap().len(), 100_000);
    }

    #[test]
    fn damage_anywhere_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let mark = append_some(dir.path(), SeriesMark::default(), 0..20).unwrap();
        let path = dir.path().join(NAME);
        let whole = std::fs::read(&path).unwrap();
        for at in 0..whole.len() {
            let mut bytes = whole.clone();
            bytes[at] ^= 4;
            std::fs::write(&path, &bytes).unwrap();
            assert!(ids(dir.path(), mark).is_err());
            std::fs::write(&path, &whole[..at]).unwrap();
            assert!(ids(dir.path(), mark).is_err());
        }
    }
}
