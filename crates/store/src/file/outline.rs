//! What is known of a field in a file without reading its values: the statistics of its pages.

use std::ops::Range;

use parquet::file::metadata::{ParquetMetaData, RowGroupMetaData};
use parquet::file::page_index::column_index::ColumnIndexMetaData;

use crate::file::open::{OpenFile, Readable, StoredFile};
use crate::file::sidecar::{Run, Sidecar};
use crate::file::times::MARK_ROWS;
use crate::outline::{Bounds, Piece};
use crate::scan::{ScanError, TimeRange};
use crate::schema::FieldType;
use crate::series::SeriesId;
use crate::tombstone::Active;

/// What is known of the values in one page.
struct Page {
    /// Its rows, counted within the file.
    rows: Range<u32>,
    nulls: Option<u64>,
    bounds: Option<Bounds>,
}

impl StoredFile {
    /// What is known of a field of a series within a range, page by page. Times between the pieces
    /// have no points in this file. Nothing is known of what is lost.
    ///
    /// # Errors
    /// When the file can't be read.
    pub(crate) fn outline(
        &self,
        series: SeriesId,
        (field, of): (&str, FieldType),
        range: TimeRange,
        tombstones: &[Active],
        is_said: bool,
    ) -> Result<Vec<Piece>, ScanError> {
        let Some(Readable { opened, lost }) = self.readable(is_said)? else {
            return Ok(Vec::new());
        };
        let sidecar = opened.sidecar();
        let column = opened.columns("field.").find(|(_, name)| *name == field);
        let run = sidecar.find(series, 0).and_then(|at| sidecar.runs().get(at));
        let (Some((column, _)), Some(run)) = (column, run) else { return Ok(Vec::new()) };
        let within = TimeRange { min: run.first, max: run.last }.intersect(range);
        let (rows, is_known) = sidecar.rows_of(run, range);
        if rows.is_empty() || within.is_empty() {
            return Ok(Vec::new());
        }
        let Some(pages) = opened.pages(column, of, run.start + rows.start..run.start + rows.end)
        else {
            return Ok(vec![Piece { time: within, count: None, bounds: None }]);
        };
        let hit = |time: TimeRange| {
            let hits = tombstones.iter().map(|active| &active.tombstone);
            let mut hits = hits.filter(|tombstone| self.info.is_hit_by(tombstone));
            hits.any(|tombstone| !tombstone.time.intersect(time).is_empty())
        };
        let mut pieces = Vec::with_capacity(pages.len());
        for rows in cut(run, &rows, &pages, is_known) {
            let time = times(sidecar, run, &rows, is_known);
            let mut piece = known(&pages, run.start + rows.start..run.start + rows.end);
            piece.time = time.intersect(range);
            if piece.time != time || hit(time) {
                piece.count = None;
            }
            let within = run.start + rows.start..run.start + rows.end;
            if lost.as_ref().is_some_and(|of| of.hit(column, &within) || of.hit(0, &within)) {
                (piece.count, piece.bounds) = (None, None);
            }
            if piece.count != Some(0) && !piece.time.is_empty() {
                pieces.push(piece);
            }
        }
        Ok(pieces)
    }
}

/// Cuts rows of a run where pages begin, or next to that, where a time is known.
fn cut(run: &Run, rows: &Range<u32>, pages: &[Page], is_known: bool) -> Vec<Range<u32>> {
    let starts = pages.iter().map(|page| page.rows.start.saturating_sub(run.start));
    let step = if is_known { 1 } else { MARK_ROWS };
    let mut cuts: Vec<u32> = starts.map(|start| start.next_multiple_of(step)).collect();
    cuts.retain(|cut| rows.start < *cut && *cut < rows.end);
    cuts.dedup();
    let ends = cuts.iter().copied().chain([rows.end]);
    std::iter::once(rows.start).chain(cuts.iter().copied()).zip(ends).map(|(a, b)| a..b).collect()
}

/// From the first to the last time of some rows of a run, or a bit more.
pub(super) fn times(sidecar: &Sidecar, run: &Run, rows: &Range<u32>, is_known: bool) -> TimeRange {
    let min = sidecar.time_at(run, rows.start).unwrap_or(run.first);
    let last = if is_known {
        sidecar.time_at(run, rows.end.saturating_sub(1))
    } else {
        sidecar.time_at(run, rows.end).map(|next| next.saturating_sub(1))
    };
    TimeRange { min, max: last.filter(|_| rows.end < run.rows).unwrap_or(run.last) }
}

/// What the pages say of some rows; their times are left open.
fn known(pages: &[Page], rows: Range<u32>) -> Piece {
    let from = pages.partition_point(|page| page.rows.end <= rows.start);
    let to = pages.partition_point(|page| page.rows.start < rows.end);
    let pages = pages.get(from..to).unwrap_or_default();
    let (first, last) = (pages.first(), pages.last());
    let is_whole = first.is_some_and(|page| page.rows.start == rows.start)
        && last.is_some_and(|page| page.rows.end == rows.end);
    let nulls: Option<u64> = pages.iter().map(|page| page.nulls).sum();
    let count = match nulls {
        Some(0) => Some(u64::from(rows.end - rows.start)),
        Some(nulls) if is_whole => u64::from(rows.end - rows.start).checked_sub(nulls),
        _ => None,
    };
    // Pages of nulls only have no bounds and need none.
    let with_values =
        pages.iter().filter(|page| page.nulls != Some(u64::from(page.rows.end - page.rows.start)));
    let bounds = with_values.map(|page| page.bounds);
    let bounds = bounds.reduce(|a, b| a?.hull(b?)).flatten();
    Piece { time: TimeRange::ALL, count, bounds }
}

impl OpenFile {
    /// What is known of the pages of a column that have some of the rows. `None` where the column
    /// is of another type, or nothing is known.
    fn pages(&self, column: usize, of: FieldType, rows: Range<u32>) -> Option<Vec<Page>> {
        if self.field_type(column) != Some(of) {
            return None;
        }
        let metadata = self.metadata();
        let starts = &self.group_starts;
        let first = starts.partition_point(|start| *start <= rows.start).saturating_sub(1);
        let mut pages = Vec::new();
        for (at, group) in metadata.row_groups().iter().enumerate().skip(first) {
            let (Some(start), Some(end)) = (starts.get(at), starts.get(at + 1)) else { break };
            if *start >= rows.end {
                break;
            }
            pages_of_group(metadata, (at, group), column, of, *start..*end, &mut pages)?;
        }
        pages.retain(|page| page.rows.start < rows.end && rows.start < page.rows.end);
        Some(pages)
    }
}

fn pages_of_group(
    metadata: &ParquetMetaData,
    (at, group): (usize, &RowGroupMetaData),
    column: usize,
    of: FieldType,
    rows: Range<u32>,
    pages: &mut Vec<Page>,
) -> Option<()> {
    let locations = metadata.page_index()?.page_locations(at, column)?;
    let index = metadata.page_index()?.column_index(at, column);
    let index = index.filter(|index| index.num_pages() == locations.len() as u64);
    let nulls = group.columns().get(column)?.statistics().and_then(|of| of.null_count_opt());
    for (page, location) in locations.iter().enumerate() {
        let start = rows.start + u32::try_from(location.first_row_index).ok()?;
        let next = locations.get(page + 1).map(|next| u32::try_from(next.first_row_index));
        let end = next.transpose().ok()?.map_or(rows.end, |next| rows.start + next);
        let nulls = match index.and_then(|index| index.null_count(page)) {
            Some(nulls) => u64::try_from(nulls).ok(),
            None => nulls.filter(|nulls| *nulls == 0),
        };
        let bounds = index.and_then(|index| bounds(index, page, of));
        pages.push(Page { rows: start..end, nulls, bounds });
    }
    Some(())
}

fn bounds(index: &ColumnIndexMetaData, page: usize, of: FieldType) -> Option<Bounds> {
    match (index, of) {
        (ColumnIndexMetaData::DOUBLE(index), FieldType::Float) => {
            Some(Bounds::Float(*index.min_value(page)?, *index.max_value(page)?))
        }
        (ColumnIndexMetaData::INT64(index), FieldType::Integer) => {
            Some(Bounds::Integer(*index.min_value(page)?, *index.max_value(page)?))
        }
        (ColumnIndexMetaData::INT64(index), FieldType::Unsigned) => {
            let (least, most) = (*index.min_value(page)?, *index.max_value(page)?);
            Some(Bounds::Unsigned(least.cast_unsigned(), most.cast_unsigned()))
        }
        _ => None,
    }
}
