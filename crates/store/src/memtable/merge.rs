//! Points of one series from several sources as one run.

use arrow_array::{Array, ArrayRef, UInt32Array, new_null_array};
use arrow_select::concat::concat;
use arrow_select::interleave::interleave;
use arrow_select::take::take;

use crate::scan::Chunk;

/// Merges chunks of one series, the oldest first: of each time one point, whose fields have the
/// newest value that is not null. `None` when there are no points.
pub(crate) fn merge(chunks: &[Chunk]) -> Option<Chunk> {
    let first = chunks.first()?;
    let mut rows: Vec<(i64, u32, u32)> = Vec::new();
    for (chunk, at) in chunks.iter().zip(0..) {
        rows.extend(chunk.times.iter().zip(0..).map(|(&time, row)| (time, at, row)));
    }
    rows.sort_unstable();
    // Where the rows of each time begin, and where the last ones end.
    let mut starts: Vec<usize> = vec![0];
    starts.extend((1..rows.len()).filter(|&row| rows[row].0 != rows[row - 1].0));
    starts.push(rows.len());
    let times = starts.windows(2).filter_map(|span| Some(rows.get(span[0])?.0)).collect();
    let columns = (0..first.columns.len()).map(|column| newest(chunks, column, &rows, &starts));
    let chunk = Chunk { series: first.series, times, columns: columns.collect() };
    (!chunk.times.is_empty()).then_some(chunk)
}

/// One column of the merged chunk.
fn newest(
    chunks: &[Chunk],
    column: usize,
    rows: &[(i64, u32, u32)],
    starts: &[usize],
) -> Option<ArrayRef> {
    let sources: Vec<Option<&ArrayRef>> =
        chunks.iter().map(|chunk| chunk.columns.get(column)?.as_ref()).collect();
    let null = new_null_array(sources.iter().flatten().next()?.data_type(), 1);
    let mut arrays: Vec<&dyn Array> =
        sources.iter().map(|of| of.unwrap_or(&null).as_ref()).collect();
    arrays.push(null.as_ref());
    let picks: Vec<(usize, usize)> = starts
        .windows(2)
        .map(|span| {
            let there = |&&(_, at, row): &&(i64, u32, u32)| {
                sources[at as usize].is_some_and(|array| array.is_valid(row as usize))
            };
            match rows[span[0]..span[1]].iter().rev().find(there) {
                Some(&(_, at, row)) => (at as usize, row as usize),
                None => (sources.len(), 0),
            }
        })
        .collect();
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
