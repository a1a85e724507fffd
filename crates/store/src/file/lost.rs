//! What of a damaged file is lost, and what can still be read.
//!
//! The sidecar has a checksum for each page of the Parquet file, so that the rows and columns of a
//! wrong page are known. Without its end, where the indexes and the footer are, nothing of a file
//! can be read.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs::File;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use crate::file::checked;
use crate::file::open::OpenFile;
use crate::file::plan::{Group, Piece};
use crate::file::sidecar::{Page, Sidecar};
use crate::file::{FileError, FileInfo};
use crate::scan::TimeRange;

/// Fields whose names are kept of a loss; of more all count as lost.
const FIELDS_NAMED_MAX: usize = 16;

/// What can't be read of a file.
#[derive(Clone, Debug)]
pub(crate) enum Lost {
    /// It was found damaged before the start; what is lost was not looked for yet.
    Unknown,
    /// None of it can be read.
    All,
    /// Some rows of some columns.
    Parts(Arc<Parts>),
}

/// Rows that can't be read, by the number of the column: in order, and with gaps between them.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Parts(BTreeMap<usize, Vec<Range<u32>>>);

/// How much is missing from answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loss {
    /// What is wrong with the file.
    pub what: String,
    /// Points that are missing, or of which a field is.
    pub points: u64,
    /// No lost point is outside of these times.
    pub time: TimeRange,
    /// The fields that are missing; empty where all may be.
    pub fields: Vec<String>,
}

impl Loss {
    /// The loss of a whole file.
    pub fn all(info: &FileInfo, what: String) -> Self {
        Self { what, points: info.rows, time: info.time, fields: Vec::new() }
    }
}

/// What a look at every byte of a file found.
pub(crate) enum Diagnosis {
    /// Every checksum is right, and the file can be opened.
    Intact,
    /// The sidecar is damaged; the file itself was not looked at.
    Sidecar(String),
    /// Something can't be read.
    Damaged(Lost, Loss),
}

/// Looks at every byte of a file.
///
/// # Errors
/// When the file system can't do its work now; damage is not an error.
pub(crate) fn diagnose(dir: &Path, info: &FileInfo) -> Result<Diagnosis, FileError> {
    let path = info.path(dir);
    let all = |what: String| Diagnosis::Damaged(Lost::All, Loss::all(info, what));
    let file = match File::open(&path).map_err(FileError::of("open", &path)) {
        Ok(file) => file,
        Err(error) if error.is_damage() => return Ok(all(error.to_string())),
        Err(error) => return Err(error),
    };
    let sidecar = match Sidecar::of(&path, info) {
        Ok(sidecar) => sidecar,
        Err(error) if error.is_damage() => return Ok(Diagnosis::Sidecar(error.to_string())),
        Err(error) => return Err(error),
    };
    let mut wrong: Vec<(Page, String)> = Vec::new();
    for page in &sidecar.pages {
        match checked::read_page(&file, page) {
            Ok(_) => {}
            Err(error) if checked::is_damage(&error) => wrong.push((*page, error.to_string())),
            Err(error) => return Err(FileError::encode(&path)(error)),
        }
    }
    let opened = match OpenFile::new(file, Arc::new(sidecar), &path) {
        Ok(opened) => opened,
        Err(error) if error.is_damage() => return Ok(all(error.to_string())),
        Err(error) => return Err(error),
    };
    let Some((_, what)) = wrong.first() else {
        return Ok(Diagnosis::Intact);
    };
    let what = match wrong.len() {
        1 => what.clone(),
        several => format!("{what}, and those of {} more parts", several - 1),
    };
    let parts = opened.parts_of(&wrong);
    let loss = opened.loss_of(&parts, what);
    Ok(Diagnosis::Damaged(Lost::Parts(Arc::new(parts)), loss))
}

impl Parts {
    /// Whether any of some rows of a column are lost.
    pub fn hit(&self, column: usize, rows: &Range<u32>) -> bool {
        self.from(column, rows.start).is_some_and(|lost| lost.start < rows.end)
    }

    /// The first lost rows of a column that do not end before a row.
    fn from(&self, column: usize, row: u32) -> Option<&Range<u32>> {
        let lost = self.0.get(&column)?;
        lost.get(lost.partition_point(|lost| lost.end <= row))
    }

    /// Cuts rows so that within each stretch the same of some columns are lost.
    fn stretches(&self, mut rows: Range<u32>, columns: &[usize]) -> Vec<Range<u32>> {
        let mut stretches = Vec::new();
        while !rows.is_empty() {
            let next = columns.iter().filter_map(|column| self.from(*column, rows.start));
            let edges = next.map(|of| if of.start > rows.start { of.start } else { of.end });
            let end = edges.min().unwrap_or(rows.end).min(rows.end);
            stretches.push(rows.start..end);
            rows.start = end;
        }
        stretches
    }

    /// The pieces of a group that can be read, each a group of its own: within each the same of the
    /// columns are lost. Column 0 is the times, which a piece has only where they are not known
    /// without reading.
    pub fn spare(
        &self,
        group: &Group,
        sidecar: &Sidecar,
        columns: &[usize],
        is_descending: bool,
    ) -> VecDeque<Group> {
        let mut groups = VecDeque::new();
        for piece in &group.pieces {
            let Some(run) = sidecar.runs().get(piece.run) else { continue };
            let mut relevant = columns.to_vec();
            if !piece.is_known {
                relevant.push(0);
            }
            let rows = run.start + piece.rows.start..run.start + piece.rows.end;
            let mut stretches = self.stretches(rows, &relevant);
            if is_descending {
                stretches.reverse();
            }
            for rows in stretches {
                let is_gone = !columns.is_empty() && columns.iter().all(|of| self.hit(*of, &rows));
                if is_gone || (!piece.is_known && self.hit(0, &rows)) {
                    continue;
                }
                let count = rows.end - rows.start;
                let rows = rows.start - run.start..rows.end - run.start;
                let pieces = VecDeque::from([Piece { rows, ..piece.clone() }]);
                groups.push_back(Group { pieces, rows: count });
            }
        }
        groups
    }
}

/// A part of the file that holds one column's values of some rows, counted within the file.
struct Stored {
    start: u64,
    column: usize,
    rows: Range<u32>,
}

impl OpenFile {
    /// The rows and columns that are on some pages.
    fn parts_of(&self, wrong: &[(Page, String)]) -> Parts {
        let mut stored = self.stored();
        stored.sort_by_key(|stored| stored.start);
        let mut parts: Vec<(usize, Range<u32>)> = Vec::new();
        for (page, _) in wrong {
            let end = page.offset + u64::from(page.len);
            let from = stored.partition_point(|stored| stored.start <= page.offset);
            let to = stored.partition_point(|stored| stored.start < end);
            let on_page = stored.get(from.saturating_sub(1)..to).unwrap_or_default();
            // The first bytes of a file are of no column.
            let on_page = on_page.iter().filter(|of| of.start < end);
            parts.extend(on_page.map(|of| (of.column, of.rows.clone())));
        }
        parts.sort_by_key(|(column, rows)| (*column, rows.start, rows.end));
        let mut joined = Parts::default();
        for (column, rows) in parts {
            let of = joined.0.entry(column).or_default();
            match of.last_mut() {
                Some(last) if rows.start <= last.end => last.end = last.end.max(rows.end),
                _ => of.push(rows),
            }
        }
        joined
    }

    /// Where the values of each column are: pages by themselves, and what precedes them (a
    /// dictionary), without which none of the column's pages of a row group can be read.
    fn stored(&self) -> Vec<Stored> {
        let metadata = self.metadata();
        let mut stored = Vec::new();
        let groups = metadata.row_groups().iter().zip(self.group_starts.windows(2));
        for (at, (group, bounds)) in groups.enumerate() {
            let &[first, end] = bounds else { continue };
            for (column, chunk) in group.columns().iter().enumerate() {
                let (start, _) = chunk.byte_range();
                stored.push(Stored { start, column, rows: first..end });
                let index = metadata.page_index();
                let pages = index.and_then(|index| index.page_locations(at, column));
                let pages = pages.map(Vec::as_slice).unwrap_or_default();
                for (page, location) in pages.iter().enumerate() {
                    let row = |of: i64| u32::try_from(of).ok().map(|row| first.saturating_add(row));
                    let next = pages.get(page + 1).and_then(|next| row(next.first_row_index));
                    let from = row(location.first_row_index).unwrap_or(first);
                    let rows = from..next.unwrap_or(end);
                    let offset = u64::try_from(location.offset).unwrap_or(start);
                    if offset == start {
                        // It begins without a dictionary.
                        stored.pop();
                    }
                    stored.push(Stored { start: offset, column, rows });
                }
            }
        }
        stored
    }

    /// What is missing from answers where parts are lost. Times that are known without reading, and
    /// tags, which the sidecar stands for, are no loss.
    fn loss_of(&self, parts: &Parts, what: String) -> Loss {
        let fields: Vec<(usize, String)> =
            self.columns("field.").map(|(at, name)| (at, name.to_owned())).collect();
        let mut named: BTreeSet<String> = BTreeSet::new();
        let mut time: Option<TimeRange> = None;
        let mut points = 0;
        let sidecar = self.sidecar();
        let columns: Vec<usize> = fields.iter().map(|(at, _)| *at).chain([0]).collect();
        for run in sidecar.runs() {
            let is_known = sidecar.rows_of(run, TimeRange::ALL).1;
            let rows = run.start..run.start.saturating_add(run.rows);
            for rows in parts.stretches(rows, &columns) {
                let is_late = !is_known && parts.hit(0, &rows);
                let of = fields.iter().filter(|(at, _)| is_late || parts.hit(*at, &rows));
                let of: Vec<&String> = of.map(|(_, name)| name).collect();
                if of.is_empty() {
                    continue;
                }
                named.extend(of.into_iter().cloned());
                points += u64::from(rows.end - rows.start);
                let rows = rows.start - run.start..rows.end - run.start;
                let span = super::outline::times(sidecar, run, &rows, is_known);
                time = Some(time.map_or(span, |time| time.hull(span)));
            }
        }
        let is_all = named.len() == fields.len() || named.len() > FIELDS_NAMED_MAX;
        let fields = if is_all { Vec::new() } else { named.into_iter().collect() };
        let time = time.unwrap_or(TimeRange { min: 0, max: -1 });
        Loss { what, points, time, fields }
    }
}

/// The checksum of a file's first bytes, as many as it had when it was written.
pub(crate) fn checksum(file: &File, bytes: u64) -> Result<u32, std::io::Error> {
    const AT_ONCE: u64 = 1 << 20;
    let mut crc = 0;
    let mut at = 0;
    while at < bytes {
        let len = AT_ONCE.min(bytes - at);
        crc = crc32c::crc32c_append(crc, &checked::read_at(file, at, len as usize)?);
        at += len;
    }
    Ok(crc)
}
