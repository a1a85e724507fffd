//! Leaving out rows of a chunk, and turning it around.

use arrow_array::{Array, ArrayRef, BooleanArray, UInt32Array};
use arrow_buffer::{BooleanBuffer, ScalarBuffer};
use arrow_schema::ArrowError;
use parquet::errors::ParquetError;

use crate::scan::{Chunk, TimeRange};

/// The rows with times in `range`; the chunk is sorted by time, oldest first.
pub(crate) fn within(chunk: Chunk, range: TimeRange) -> Chunk {
    let from = chunk.times.partition_point(|time| *time < range.min);
    let to = chunk.times.partition_point(|time| *time <= range.max).max(from);
    if from == 0 && to == chunk.times.len() { chunk } else { slice(&chunk, from, to - from) }
}

/// The `len` rows of a chunk that begin at row `from`.
pub(crate) fn slice(chunk: &Chunk, from: usize, len: usize) -> Chunk {
    let columns = chunk.columns.iter();
    Chunk {
        series: chunk.series,
        times: chunk.times.slice(from, len),
        columns: columns.map(|column| Some(column.as_ref()?.slice(from, len))).collect(),
    }
}

/// The rows with a value in any column. `None` where there is none.
pub(crate) fn with_values(chunk: Chunk) -> Option<Chunk> {
    let rows = chunk.times.len();
    let columns = || chunk.columns.iter().flatten();
    if columns().any(|column| column.null_count() == 0) {
        return Some(chunk);
    }
    let mut kept: Option<BooleanBuffer> = None;
    for nulls in columns().filter_map(|column| column.nulls()) {
        kept = Some(kept.map_or_else(|| nulls.inner().clone(), |kept| &kept | nulls.inner()));
    }
    let kept = kept?;
    match kept.count_set_bits() {
        0 => None,
        all if all == rows => Some(chunk),
        _ => filter(&chunk, kept),
    }
}

/// The rows with times outside of all the ranges. `None` where there is none.
pub(crate) fn without(chunk: Chunk, erased: &[TimeRange]) -> Option<Chunk> {
    let (Some(first), Some(last)) = (chunk.times.first(), chunk.times.last()) else {
        return None;
    };
    let span = TimeRange { min: *first.min(last), max: *first.max(last) };
    if erased.iter().all(|range| range.intersect(span).is_empty()) {
        return Some(chunk);
    }
    let is_kept = |time: &i64| !erased.iter().any(|range| range.contains(*time));
    let kept: BooleanBuffer = chunk.times.iter().map(is_kept).collect();
    match kept.count_set_bits() {
        0 => None,
        all if all == chunk.times.len() => Some(chunk),
        _ => filter(&chunk, kept),
    }
}

fn filter(chunk: &Chunk, kept: BooleanBuffer) -> Option<Chunk> {
    let times: Vec<i64> =
        kept.set_indices().filter_map(|at| chunk.times.get(at).copied()).collect();
    let kept = BooleanArray::new(kept, None);
    let columns = chunk.columns.iter().map(|column| match column {
        Some(column) => arrow_select::filter::filter(column, &kept).map(Some),
        None => Ok(None),
    });
    let columns: Result<Vec<Option<ArrayRef>>, ArrowError> = columns.collect();
    Some(Chunk { series: chunk.series, times: times.into(), columns: columns.ok()? })
}

/// The last row first.
pub(crate) fn reversed(chunk: Chunk) -> Option<Chunk> {
    let rows = u32::try_from(chunk.times.len()).ok()?;
    let order = UInt32Array::from_iter_values((0..rows).rev());
    let columns = chunk.columns.iter().map(|column| match column {
        Some(column) => arrow_select::take::take(column, &order, None).map(Some),
        None => Ok(None),
    });
    let columns: Result<Vec<Option<ArrayRef>>, ArrowError> = columns.collect();
    let times: ScalarBuffer<i64> = chunk.times.iter().rev().copied().collect();
    Some(Chunk { series: chunk.series, times, columns: columns.ok()? })
}

/// Makes `None` of columns without values.
pub(crate) fn clear_nulls(chunk: &mut Chunk) {
    for column in &mut chunk.columns {
        if column.as_ref().is_some_and(|column| column.null_count() == column.len()) {
            *column = None;
        }
    }
}

/// The reader's own error out of the one it is wrapped in.
pub(crate) fn parquet_error(error: ArrowError) -> ParquetError {
    match error {
        ArrowError::ExternalError(source) => match source.downcast::<ParquetError>() {
            Ok(error) => *error,
            Err(source) => ParquetError::External(source),
        },
        error => ParquetError::ArrowError(error.to_string()),
    }
}
