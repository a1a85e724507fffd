//! Points of one series from several sources as one run.

use std::ops::Range;

use arrow_array::{Array, ArrayRef, UInt32Array, new_null_array};
use arrow_select::concat::concat;
use arrow_select::interleave::interleave;
use arrow_select::take::take;

use super::sealed::Sealed;
use crate::scan::Chunk;
use crate::series::SeriesId;

/// Rows of one series in a block: of their times some may be there twice.
pub(super) struct BlockRows<'a> {
    pub(super) block: &'a Sealed,
    pub(super) places: Range<u32>,
    pub(super) repeats: bool,
}

/// A row: its time, its part and its place in the part's block.
type Row = (i64, u32, u32);

/// Merges parts of one series, the oldest first: of each time one point, whose fields have the
/// newest value that is not null. `None` when there are no points.
pub(super) fn merge(series: u32, parts: &[BlockRows<'_>], fields: &[Option<u32>]) -> Option<Chunk> {
    match parts {
        [] => return None,
        [BlockRows { block, places, repeats: false }] => {
            return (!places.is_empty()).then(|| block.chunk(series, places.clone(), fields));
        }
        _ => {}
    }
    let count = parts.iter().map(|part| part.places.len()).sum();
    let mut rows: Vec<Row> = Vec::with_capacity(count);
    for (part, at) in parts.iter().zip(0..) {
        part.block.rows_at(part.places.clone(), |time, row| rows.push((time, at, row)));
    }
    // Those of each part are sorted already, which a stable sort makes use of.
    rows.sort_by_key(|row| row.0);
    let is_once = rows.windows(2).all(|two| two[0].0 != two[1].0);
    let mut starts: Vec<usize> = Vec::new();
    if !is_once {
        // Where the rows of each time begin, and where the last ones end.
        starts.push(0);
        starts.extend((1..rows.len()).filter(|&row| rows[row].0 != rows[row - 1].0));
        starts.push(rows.len());
    }
    let times = if is_once {
        rows.iter().map(|row| row.0).collect()
    } else {
        starts.windows(2).filter_map(|span| Some(rows.get(span[0])?.0)).collect()
    };
    let columns = fields.iter().map(|field| newest(parts, *field, &rows, &starts));
    let chunk = Chunk { series: SeriesId(series), times, columns: columns.collect() };
    (!chunk.times.is_empty()).then_some(chunk)
}

/// One column of the merged chunk; without `starts` each time is there once.
fn newest(
    parts: &[BlockRows<'_>],
    field: Option<u32>,
    rows: &[Row],
    starts: &[usize],
) -> Option<ArrayRef> {
    let sources: Vec<Option<&ArrayRef>> =
        parts.iter().map(|part| part.block.column(field)).collect();
    let null = new_null_array(sources.iter().flatten().next()?.data_type(), 1);
    let mut arrays: Vec<&dyn Array> =
        sources.iter().map(|of| of.unwrap_or(&null).as_ref()).collect();
    arrays.push(null.as_ref());
    let nowhere = (sources.len(), 0);
    let pick = |&(_, at, row): &Row| (at as usize, row as usize);
    let picks: Vec<(usize, usize)> = if !starts.is_empty() {
        let there = |&&(_, at, row): &&Row| {
            sources[at as usize].is_some_and(|array| array.is_valid(row as usize))
        };
        let newest = |span: &[usize]| rows[span[0]..span[1]].iter().rev().find(there);
        starts.windows(2).map(|span| newest(span).map_or(nowhere, pick)).collect()
    } else if sources.iter().all(Option::is_some) {
        rows.iter().map(pick).collect()
    } else {
        let known = |row: &Row| sources[row.1 as usize].is_some();
        rows.iter().map(|row| if known(row) { pick(row) } else { nowhere }).collect()
    };
    interleave(&arrays, &picks).ok()
}

/// The same chunk, the last point first.
pub(crate) fn reversed(chunk: &Chunk) -> Chunk {
    // A chunk has few rows.
    let rows = UInt32Array::from_iter_values((0..chunk.times.len() as u32).rev());
    let taken =
        |column: &Option<ArrayRef>| column.as_ref().and_then(|of| take(of, &rows, None).ok());
    Chunk {
        series: chunk.series,
        times: chunk.times.iter().rev().copied().collect(),
        columns: chunk.columns.iter().map(taken).collect(),
    }
}

/// Rows up to which chunks are put together: what works on arrays wants them long.
pub(crate) const JOINED_ROWS: usize = 4096;

/// Puts small chunks of one series, which follow each other in time, together.
pub(crate) fn joined(chunks: Vec<Chunk>) -> Vec<Chunk> {
    let mut groups: Vec<Vec<Chunk>> = Vec::new();
    let mut rows = usize::MAX;
    for chunk in chunks {
        match groups.last_mut() {
            Some(group) if rows + chunk.times.len() <= JOINED_ROWS => {
                rows += chunk.times.len();
                group.push(chunk);
            }
            _ => {
                rows = chunk.times.len();
                groups.push(vec![chunk]);
            }
        }
    }
    groups.into_iter().filter_map(|group| join(&group)).collect()
}

fn join(chunks: &[Chunk]) -> Option<Chunk> {
    let first = chunks.first()?;
    if chunks.len() == 1 {
        return Some(first.clone());
    }
    let columns = (0..first.columns.len()).map(|at| {
        let columns = || chunks.iter().map(|chunk| chunk.columns.get(at)?.as_ref());
        let of = columns().flatten().next()?.data_type().clone();
        let pieces: Vec<ArrayRef> = columns()
            .zip(chunks)
            .map(|(column, chunk)| match column {
                Some(column) => ArrayRef::clone(column),
                None => new_null_array(&of, chunk.times.len()),
            })
            .collect();
        let pieces: Vec<&dyn Array> = pieces.iter().map(AsRef::as_ref).collect();
        concat(&pieces).ok()
    });
    let times = chunks.iter().flat_map(|chunk| chunk.times.iter().copied()).collect();
    Some(Chunk { series: first.series, times, columns: columns.collect() })
}
