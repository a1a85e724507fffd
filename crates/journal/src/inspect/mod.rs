//! Reading a journal's directory without opening it for writing.
//!
//! The journal may be in use meanwhile: what is being written at that moment then looks like a
//! torn tail.

mod put_back;
pub(crate) mod running;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use self::put_back::put_back;
use disk::FileError;
use serde::Serialize;

use crate::cursors::ledger::{Cursor, Ledger};
use crate::error::{CursorError, OpenError};
use crate::format::cursor::LoadedCursor;
use crate::format::scan::{self, Entry};
use crate::format::segment::Segment;
use crate::position::{Counts, Position};
use crate::recovery::directory::{self, Directory, SegmentFile};
use crate::recovery::identity;
use crate::recovery::{self, Evidence, Findings, Recovery, Scanned};
use crate::status::CursorStatus;
use crate::threads::now_ns;

/// What is in a journal's directory; `Display` prints it for an operator.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// The directory of the journal.
    pub dir: PathBuf,
    /// Whether every record was read, or only the headers.
    pub verified: bool,
    /// In the order of their positions.
    pub segments: Vec<SegmentReport>,
    /// In the order of their names.
    pub cursors: Vec<CursorStatus>,
    /// Bytes of files that hold nothing and wait to become a segment.
    pub spare_bytes: u64,
    /// What opening the journal would find: damage, and a tail it would cut off.
    #[serde(skip)]
    pub recovery: Recovery,
}

/// What one segment file holds.
#[derive(Debug, Clone, Serialize)]
pub struct SegmentReport {
    /// The name of the file.
    pub file: String,
    /// The length of the file in bytes.
    pub file_bytes: u64,
    /// Where its first group is.
    pub from: Position,
    /// Where its last group ends.
    pub to: Position,
    /// Groups with an undamaged header.
    pub groups: u64,
    /// Groups that have lost a record; only known after verifying.
    pub damaged_groups: u64,
    /// Records, as the groups' headers say.
    pub records: u64,
    /// Items, controls and bytes of records, as the groups' headers say.
    pub counts: Counts,
    /// When the first and the last group were written, in nanoseconds since 1970.
    pub written: Option<(u64, u64)>,
}

impl Report {
    /// Whether nothing damaged, missing or torn was found.
    pub fn is_intact(&self) -> bool {
        self.recovery.is_clean()
    }
}

/// Lists segments, groups, records and cursors by their headers, without reading the payloads.
pub fn inspect(dir: &Path) -> Result<Report, OpenError> {
    report(dir, false)
}

/// As [`inspect`], and checks every record against its checksum.
pub fn verify(dir: &Path) -> Result<Report, OpenError> {
    report(dir, true)
}

fn report(dir: &Path, records: bool) -> Result<Report, OpenError> {
    let (directory, salt) = read(dir)?;
    directory.find_firsts(salt)?;
    let segments = segments(&directory);
    let mut scanned = Scanned::new();
    for (index, segment) in segments.iter().enumerate() {
        let groups = scan::groups(segment, salt, records);
        scanned.push((index, groups.map_err(FileError::of("read", &segment.path))?));
    }
    let evidence = directory.evidence();
    let headers = scanned.iter().flat_map(|(_, entries)| entries);
    let synced_end =
        headers.map(|entry| entry.header.synced_end).fold(evidence.synced_end, Position::max);
    let findings = recovery::judge(&segments, salt, evidence, &scanned, synced_end)?;
    let spares = directory.spares.iter().filter_map(|p| p.metadata().ok());
    Ok(Report {
        dir: dir.to_owned(),
        verified: records,
        spare_bytes: spares.map(|meta| meta.len()).sum(),
        segments: scanned
            .iter()
            .map(|(index, entries)| segment_report(&segments[*index], entries))
            .collect(),
        recovery: crate::recovery::open::report(&directory, &findings, salt)?,
        cursors: cursors(directory, &findings),
    })
}

fn read(dir: &Path) -> Result<(Directory, u32), OpenError> {
    let directory = directory::read(dir, false)?;
    let path = dir.join(identity::FILE_NAME);
    let salt = match std::fs::File::open(&path) {
        Ok(file) => identity::salt(&file, dir)?,
        Err(_) => None,
    };
    let salt = salt.or_else(|| directory.salt());
    let salt = salt.ok_or_else(|| OpenError::Format {
        path,
        reason: "the directory holds no journal".to_owned(),
    })?;
    Ok((directory, salt))
}

fn segments(directory: &Directory) -> Vec<Arc<Segment>> {
    let segments = directory.segments.iter();
    segments.map(|SegmentFile { segment, .. }| segment.clone()).collect()
}

fn segment_report(segment: &Segment, entries: &[Entry]) -> SegmentReport {
    let headers = || entries.iter().map(|entry| entry.header);
    let counts =
        headers().fold(Counts::default(), |sum, header| sum + (header.after() - header.before));
    let first = headers().next();
    let last = headers().next_back();
    SegmentReport {
        file: segment.path.file_name().unwrap_or_default().to_string_lossy().into_owned(),
        file_bytes: segment.file_len,
        from: first.map_or(segment.base, |header| header.position),
        to: last.map_or(segment.base, |header| header.end()),
        groups: entries.len() as u64,
        damaged_groups: entries.iter().filter(|entry| !entry.whole).count() as u64,
        records: headers().map(|header| u64::from(header.records)).sum(),
        counts,
        written: first.zip(last).map(|(a, b)| (a.written_at, b.written_at)),
    }
}

fn cursors(directory: Directory, findings: &Findings) -> Vec<CursorStatus> {
    let ledger = Ledger::new(findings.end, findings.counts, 0, &[]);
    let now = now_ns();
    let cursors = directory.cursors.into_iter();
    let known = cursors.filter_map(|(_, loaded)| match loaded {
        LoadedCursor::Whole(file, account) => Some((file, account)),
        LoadedCursor::Damaged(_) => None,
    });
    known
        .map(|(file, account)| ledger.status(file.name(), &Cursor::new(account, false), now))
        .collect()
}

/// Removes a cursor from a journal that no process has open; gives its last account.
pub(crate) fn forget(dir: &Path, name: &str) -> Result<CursorStatus, CursorError> {
    let (directory, salt) = read(dir).map_err(|error| failed(dir, error))?;
    // To the end of this function, no other process opens the journal.
    let _held = identity::take(dir).map_err(|error| failed(dir, error))?;
    let evidence: Evidence = directory.evidence();
    let findings = recovery::recover(&segments(&directory), salt, evidence)?;
    let paths: Vec<PathBuf> = directory.cursors.iter().map(|(path, _)| path.clone()).collect();
    let names: Vec<String> = directory.cursors.iter().map(|(_, l)| l.name().to_owned()).collect();
    let Some(at) = names.iter().position(|known| known == name) else {
        return Err(CursorError::Unknown {
            name: name.to_owned(),
            known: if names.is_empty() { "none".to_owned() } else { names.join(", ") },
        });
    };
    let statuses = cursors(directory, &findings);
    let status = statuses.into_iter().find(|status| status.name == name);
    std::fs::remove_file(&paths[at]).map_err(FileError::of("remove", &paths[at]))?;
    let synced = std::fs::File::open(dir).and_then(|dir| dir.sync_all());
    synced.map_err(FileError::of("sync", dir))?;
    // A cursor whose file was damaged has no account any more.
    Ok(status.unwrap_or_else(|| CursorStatus { name: name.to_owned(), ..CursorStatus::default() }))
}

/// What stands in the way of changing a cursor of a journal that cannot be had.
fn failed(dir: &Path, error: OpenError) -> CursorError {
    match error {
        OpenError::InUse { dir } => CursorError::Running { dir },
        OpenError::Io(error) => CursorError::Io(error),
        other => CursorError::Io(FileError::of("read", dir)(std::io::Error::other(other))),
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "journal {}", self.dir.display())?;
        for segment in &self.segments {
            writeln!(f, "{segment}")?;
        }
        if self.spare_bytes > 0 {
            writeln!(f, "spare files: {} bytes", self.spare_bytes)?;
        }
        for cursor in &self.cursors {
            writeln!(
                f,
                "cursor {}: at {}, waiting {} items and {} controls in {} bytes; of {} accepted: \
                 {} delivered, {} dead-lettered, {} dropped, {} elsewhere",
                cursor.name,
                cursor.position,
                cursor.waiting.items,
                cursor.waiting.controls,
                cursor.waiting.bytes,
                cursor.accepted,
                cursor.delivered,
                cursor.dead_lettered,
                cursor.dropped_total(),
                cursor.elsewhere,
            )?;
        }
        let how = if self.verified {
            "every record was read"
        } else {
            "only headers were read; verify reads every record"
        };
        write!(f, "{}\n{how}", self.recovery)
    }
}

impl fmt::Display for SegmentReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "segment {} ({} KiB): ", self.file, self.file_bytes / 1024)?;
        if self.groups == 0 {
            return write!(f, "empty");
        }
        write!(
            f,
            "{} to {}, {} groups, {} records, {} items, {} controls, {} bytes",
            self.from,
            self.to,
            self.groups,
            self.records,
            self.counts.items,
            self.counts.controls,
            self.counts.bytes
        )?;
        if let Some((first, last)) = self.written {
            write!(f, ", written {} to {}", Utc(first), Utc(last))?;
        }
        if self.damaged_groups > 0 {
            write!(f, ", {} GROUPS DAMAGED", self.damaged_groups)?;
        }
        Ok(())
    }
}

/// A wall clock time as `2024-01-31T23:59:59Z`.
struct Utc(u64);

impl fmt::Display for Utc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0 / 1_000_000_000;
        let (mut days, seconds) = (seconds / 86_400, seconds % 86_400);
        let is_leap =
            |y: u64| y.is_multiple_of(4) && (!y.is_multiple_of(100) || y.is_multiple_of(400));
        let mut year = 1970;
        while days >= 365 + u64::from(is_leap(year)) {
            days -= 365 + u64::from(is_leap(year));
            year += 1;
        }
        let february = 28 + u64::from(is_leap(year));
        let mut month = 1;
        for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30] {
            if days < length {
                break;
            }
            days -= length;
            month += 1;
        }
        let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
        let day = days + 1;
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
    }
}

#[cfg(test)]
mod tests {
    use super::Utc;

    #[test]
    fn times_are_civil() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_709_251_199, "2024-02-29T23:59:59Z"),
            (4_102_444_799, "2099-12-31T23:59:59Z"),
        ] {
            assert_eq!(Utc(seconds * 1_000_000_000).to_string(), text);
        }
    }
}
