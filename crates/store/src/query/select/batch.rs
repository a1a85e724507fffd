//! Chunks as the statement sees them: its own columns, only the rows that its condition keeps.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, BooleanArray, StringArray};
use arrow_buffer::ScalarBuffer;

use super::feeds::{Bound, Feed, Origin, SubqueryRows, Table};
use crate::condition::RowFilter;
use crate::query::context::Context;
use crate::query::expr::cast_array;
use crate::query::functions::Column;
use crate::refusal::QueryError;
use crate::scan::{Chunk, ScanRequest, TimeRange};
use crate::series::Series;
use crate::value::Value;

/// A column of a batch.
#[derive(Clone, Debug)]
pub(super) enum Cells {
    /// A value for each row.
    Array(ArrayRef),
    /// The same text in each row.
    Text(Arc<str>),
    /// The same tag in each row, which functions do not see.
    Tag(Arc<str>),
    /// No value in any row.
    Null,
}

impl Cells {
    /// The value of a row.
    pub(super) fn value(&self, row: usize) -> Value {
        match self {
            Self::Array(array) => {
                Column::of(array.as_ref()).map_or(Value::Null, |column| column.value(row))
            }
            Self::Text(text) | Self::Tag(text) => Value::String(Arc::clone(text)),
            Self::Null => Value::Null,
        }
    }
}

/// Some rows of one series.
#[derive(Clone, Debug)]
pub(super) struct Batch {
    /// The time of each row.
    pub(super) times: ScalarBuffer<i64>,
    /// The columns of the statement.
    pub(super) columns: Vec<Cells>,
}

impl Batch {
    /// Makes a chunk into a batch; `None` where no row is kept.
    pub(super) fn of(
        chunk: &Chunk,
        series: &Series,
        bound: &[Bound],
        conditions: &[usize],
        rows: &RowFilter,
    ) -> Result<Option<Self>, QueryError> {
        let mask = match rows {
            RowFilter::All => None,
            RowFilter::None => return Ok(None),
            filter => {
                let columns = conditions.iter().map(|at| chunk.columns.get(*at).cloned().flatten());
                let columns: Vec<Option<ArrayRef>> = columns.collect();
                let kept = filter.keep(chunk.times.len(), &columns);
                match kept.count_set_bits() {
                    0 => return Ok(None),
                    all if all == chunk.times.len() => None,
                    _ => Some(BooleanArray::new(kept, None)),
                }
            }
        };
        let array = |array: &ArrayRef| match &mask {
            None => Ok(Arc::clone(array)),
            Some(mask) => arrow_select::filter::filter(array.as_ref(), mask)
                .map_err(|error| QueryError(error.to_string())),
        };
        let times = match &mask {
            None => chunk.times.clone(),
            Some(mask) => {
                let pairs = chunk.times.iter().zip(mask.values());
                pairs.filter_map(|(time, keep)| keep.then_some(*time)).collect()
            }
        };
        let columns = bound.iter().map(|bound| match bound {
            Bound::Field(at, kind) => match chunk.columns.get(*at) {
                Some(Some(column)) => array(column).map(|array| {
                    let cast = kind.and_then(|kind| cast_array(&array, kind));
                    Cells::Array(cast.unwrap_or(array))
                }),
                _ => Ok(Cells::Null),
            },
            Bound::Tag(key) => Ok(match series.tag(key) {
                "" => Cells::Null,
                value => Cells::Tag(Arc::from(value)),
            }),
            Bound::Dimension(key) => Ok(Cells::Text(Arc::from(series.tag(key)))),
            Bound::Null => Ok(Cells::Null),
        });
        let columns = columns.collect::<Result<Vec<_>, _>>()?;
        Ok(Some(Self { times, columns }))
    }

    /// The column as an array; `None` where it is null throughout.
    pub(super) fn array(&self, at: usize) -> Option<ArrayRef> {
        match self.columns.get(at)? {
            Cells::Array(array) => Some(Arc::clone(array)),
            Cells::Text(text) => {
                let text: &str = text;
                let all = std::iter::repeat_n(text, self.times.len());
                Some(Arc::new(StringArray::from_iter_values(all)))
            }
            Cells::Tag(_) | Cells::Null => None,
        }
    }

    /// Whether a row has a value in any column that is read from points.
    pub(super) fn has_value(&self, row: usize, bound: &[Bound]) -> bool {
        self.columns.iter().zip(bound).any(|(cells, bound)| match (cells, bound) {
            (Cells::Array(array), Bound::Field(..)) => array.is_valid(row),
            _ => false,
        })
    }

    /// Whether a row has a value in one column, in which tags do not count.
    pub(super) fn has_value_in(&self, row: usize, column: usize) -> bool {
        match self.columns.get(column) {
            Some(Cells::Array(array)) => array.is_valid(row),
            Some(Cells::Text(_)) => true,
            _ => false,
        }
    }

    /// The values of one row.
    pub(super) fn row(&self, row: usize) -> Vec<Value> {
        self.columns.iter().map(|cells| cells.value(row)).collect()
    }
}

impl SubqueryRows {
    /// The batches of what is held, in the order asked for.
    pub(super) fn batches<'a>(
        &'a self,
        rows: &'a RowFilter,
    ) -> impl Iterator<Item = Result<Batch, QueryError>> + 'a {
        self.chunks.iter().filter_map(move |chunk| {
            Batch::of(chunk, &self.series, &self.bound, &self.conditions, rows).transpose()
        })
    }
}

/// What a scan of a table asks for.
pub(super) fn request(table: &Table, range: TimeRange, descending: bool) -> ScanRequest {
    ScanRequest {
        measurement: table.name.to_string(),
        time: range,
        fields: table.fields.clone(),
        descending,
    }
}

/// Calls `take` with each batch of some feeds of one table or of none, in their order.
///
/// # Errors
/// When the query is to end, a limit is reached, a file cannot be read, or `take` fails.
pub(super) fn read<'a>(
    tables: &[Table],
    feeds: &[(usize, &'a Feed)],
    range: TimeRange,
    context: &Context,
    take: &mut dyn FnMut(usize, &'a Feed, Batch) -> Result<(), QueryError>,
) -> Result<(), QueryError> {
    let mut rest = feeds;
    while let Some((first, _)) = rest.split_first() {
        let Origin::Series(table, _) = &first.1.origin else {
            if let Origin::Held(held) = &first.1.origin {
                for batch in held.batches(&first.1.rows) {
                    context.check()?;
                    take(first.0, first.1, batch?)?;
                }
            }
            rest = rest.get(1..).unwrap_or_default();
            continue;
        };
        let of_table =
            |feed: &Feed| matches!(&feed.origin, Origin::Series(other, _) if other == table);
        let same = |(_, feed): &&(usize, &Feed)| of_table(feed);
        let count = rest.iter().take_while(same).count();
        let (now, later) = rest.split_at(count);
        let Some(table) = tables.get(*table) else { return Ok(()) };
        read_table(table, now, range, context, take)?;
        rest = later;
    }
    Ok(())
}

fn read_table<'a>(
    table: &Table,
    feeds: &[(usize, &'a Feed)],
    range: TimeRange,
    context: &Context,
    take: &mut dyn FnMut(usize, &'a Feed, Batch) -> Result<(), QueryError>,
) -> Result<(), QueryError> {
    let ids: Vec<_> =
        feeds.iter().filter_map(|(_, feed)| feed.series().map(|one| one.id)).collect();
    let mut at = 0;
    for chunk in table.view.scan(&ids, &request(table, range, false)) {
        context.check()?;
        let chunk = chunk.map_err(|error| QueryError(error.to_string()))?;
        context.cancel.points(chunk.times.len())?;
        // Chunks come in the order of the series asked for.
        while ids.get(at).is_some_and(|id| *id != chunk.series) {
            at += 1;
        }
        let Some((group, feed)) = feeds.get(at) else {
            return Err(QueryError("a scan gave a series that was not asked for".to_owned()));
        };
        let Some(series) = feed.series() else { continue };
        let batch = Batch::of(&chunk, series, &table.bound, &table.conditions, &feed.rows)?;
        if let Some(batch) = batch {
            take(*group, feed, batch)?;
        }
    }
    Ok(())
}

impl Feed {
    /// The series, where it is one of a measurement.
    pub(super) fn series(&self) -> Option<&Series> {
        match &self.origin {
            Origin::Series(_, series) => Some(series),
            Origin::Held(_) => None,
        }
    }

    /// The tags, of a series or of a group of a sub-query.
    pub(super) fn tags(&self) -> &Series {
        match &self.origin {
            Origin::Series(_, series) => series,
            Origin::Held(held) => &held.series,
        }
    }
}
