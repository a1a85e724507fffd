//! Rows that no longer change.

use std::ops::Range;
use std::sync::OnceLock;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type, UInt64Type};
use arrow_array::{Array, ArrayRef, BooleanArray, UInt32Array};
use arrow_buffer::ScalarBuffer;
use arrow_select::filter::filter;
use arrow_select::take::take;

use crate::file::arrow_type;
use crate::outline::{Bounds, Piece};
use crate::scan::{Chunk, TimeRange};
use crate::schema::FieldType;
use crate::series::SeriesId;

/// Rows in the order in which they came.
#[derive(Debug)]
pub(crate) struct Sealed {
    series: ScalarBuffer<u32>,
    times: ScalarBuffer<i64>,
    /// By the number of the field; `None` when all are null.
    columns: Vec<Option<ArrayRef>>,
    extent: TimeRange,
    order: OnceLock<Order>,
    /// Of each of `columns`.
    bounds: Box<[OnceLock<Option<Bounds>>]>,
    /// The keys of the tags of its series, sorted, once they were asked for.
    tag_keys: OnceLock<Box<[String]>>,
}

/// The rows of one series in a block, in the block's order by series and time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) series: u32,
    start: u32,
    end: u32,
    /// Whether a time is there twice.
    pub(super) repeats: bool,
}

/// Rows by series, time and arrival.
#[derive(Debug)]
struct Order {
    /// The rows in this order; `None` when they came in it.
    rows: Option<Vec<u32>>,
    /// The rows of each series, sorted by series.
    runs: Vec<Run>,
}

impl Sealed {
    pub(super) fn new(
        series: ScalarBuffer<u32>,
        times: ScalarBuffer<i64>,
        columns: Vec<Option<ArrayRef>>,
        extent: TimeRange,
    ) -> Self {
        let bounds = columns.iter().map(|_| OnceLock::new()).collect();
        let (order, tag_keys) = (OnceLock::new(), OnceLock::new());
        Self { series, times, columns, extent, order, bounds, tag_keys }
    }

    pub(crate) fn rows(&self) -> usize {
        self.times.len()
    }

    pub(crate) fn extent(&self) -> TimeRange {
        self.extent
    }

    pub(super) fn has_field(&self, field: u32) -> bool {
        self.columns.get(field as usize).is_some_and(Option::is_some)
    }

    fn order(&self) -> &Order {
        self.order.get_or_init(|| {
            let key = |row: u32| (self.series[row as usize], self.times[row as usize]);
            // A block has few rows.
            let count = self.rows() as u32;
            let sorted = (1..count).all(|row| key(row - 1) <= key(row));
            let rows = (!sorted).then(|| {
                let mut rows: Vec<u32> = (0..count).collect();
                rows.sort_by_key(|&row| key(row));
                rows
            });
            let at = |place: u32| rows.as_ref().map_or(place, |rows| rows[place as usize]);
            let mut runs: Vec<Run> = Vec::new();
            for place in 0..count {
                let (series, time) = key(at(place));
                match runs.last_mut() {
                    Some(run) if run.series == series => {
                        run.repeats |= key(at(place - 1)).1 == time;
                        run.end = place + 1;
                    }
                    _ => runs.push(Run { series, start: place, end: place + 1, repeats: false }),
                }
            }
            Order { rows, runs }
        })
    }

    /// The runs of all series, by series.
    pub(crate) fn runs(&self) -> &[Run] {
        &self.order().runs
    }

    /// The keys of the tags of its series, sorted; `of` gives those of some series and is asked
    /// once.
    pub(crate) fn tag_keys(&self, of: impl FnOnce(&[u32]) -> Vec<String>) -> &[String] {
        self.tag_keys.get_or_init(|| {
            let series: Vec<u32> = self.runs().iter().map(|run| run.series).collect();
            of(&series).into()
        })
    }

    /// The run of a series.
    pub(crate) fn run(&self, series: u32) -> Option<Run> {
        let runs = self.runs();
        let at = runs.binary_search_by_key(&series, |run| run.series).ok()?;
        runs.get(at).copied()
    }

    /// From the first to the last time of a run.
    pub(crate) fn span(&self, run: Run) -> TimeRange {
        let order = self.order();
        let at = |place: u32| match &order.rows {
            None => self.times[place as usize],
            Some(rows) => self.times[rows[place as usize] as usize],
        };
        // A run has at least one row.
        TimeRange { min: at(run.start), max: at(run.end - 1) }
    }

    /// What is known of a field in a run within `time`; `None` where there is nothing of it.
    pub(crate) fn outline(
        &self,
        run: Run,
        field: (u32, FieldType),
        time: TimeRange,
    ) -> Option<Piece> {
        let (field, of) = (field.0 as usize, field.1);
        let column = self.columns.get(field)?.as_ref()?;
        let span = self.span(run);
        let within = span.intersect(time);
        if within.is_empty() {
            return None;
        }
        let is_its = *column.data_type() == arrow_type(of);
        let is_exact = within == span && !run.repeats && column.null_count() == 0;
        let count = (is_its && is_exact).then(|| u64::from(run.end - run.start));
        let bounds = self.bounds.get(field).filter(|_| is_its);
        let bounds = bounds.and_then(|bounds| *bounds.get_or_init(|| bounds_of(column)));
        Some(Piece { time: within, count, bounds })
    }

    /// The places of a run with times within `time`.
    pub(super) fn places(&self, run: Run, time: TimeRange) -> Range<u32> {
        let all = run.start..run.end;
        let from = self.place_of(&all, |at| at < time.min);
        from..self.place_of(&all, |at| at <= time.max).max(from)
    }

    /// The first of some places whose time is not one of the early ones.
    pub(super) fn place_of(&self, places: &Range<u32>, is_early: impl Fn(i64) -> bool) -> u32 {
        let count = match &self.order().rows {
            None => {
                let times = self.times.get(places.start as usize..places.end as usize);
                times.unwrap_or_default().partition_point(|time| is_early(*time))
            }
            Some(rows) => {
                let rows = rows.get(places.start as usize..places.end as usize);
                rows.unwrap_or_default().partition_point(|row| is_early(self.times[*row as usize]))
            }
        };
        // A block has few rows.
        places.start + count as u32
    }

    /// The time at a place.
    pub(super) fn time(&self, place: u32) -> i64 {
        self.times[self.row(place)]
    }

    /// The row at a place.
    #[inline]
    pub(super) fn row(&self, place: u32) -> usize {
        match &self.order().rows {
            None => place as usize,
            Some(rows) => rows[place as usize] as usize,
        }
    }

    /// Times and rows at some places, in their order.
    pub(super) fn rows_at(&self, places: Range<u32>, mut take: impl FnMut(i64, u32)) {
        match &self.order().rows {
            None => places.for_each(|row| take(self.times[row as usize], row)),
            Some(rows) => {
                let rows = rows.get(places.start as usize..places.end as usize);
                rows.unwrap_or_default()
                    .iter()
                    .for_each(|&row| take(self.times[row as usize], row));
            }
        }
    }

    /// The values of a field; `None` where all are null.
    pub(super) fn column(&self, field: Option<u32>) -> Option<&ArrayRef> {
        self.columns.get(field? as usize)?.as_ref()
    }

    /// The points at some places of a run whose times are there once.
    pub(super) fn chunk(&self, series: u32, places: Range<u32>, fields: &[Option<u32>]) -> Chunk {
        let series = SeriesId(series);
        let (start, end) = (places.start as usize, places.end as usize);
        match &self.order().rows {
            None => {
                let sliced =
                    |field: &Option<u32>| Some(self.column(*field)?.slice(start, end - start));
                let columns = fields.iter().map(sliced).collect();
                Chunk { series, times: self.times.slice(start, end - start), columns }
            }
            Some(rows) => {
                let rows = &rows[start..end];
                let indices = UInt32Array::from(rows.to_vec());
                let taken = |field: &Option<u32>| take(self.column(*field)?, &indices, None).ok();
                let columns = fields.iter().map(taken).collect();
                let times = rows.iter().map(|row| self.times[*row as usize]).collect();
                Chunk { series, times, columns }
            }
        }
    }

    /// The same without the rows that `deleted` says of; `None` when there is none of them.
    pub(super) fn without(&self, deleted: impl Fn(u32, i64) -> bool) -> Option<Self> {
        let kept: Vec<bool> =
            self.series.iter().zip(self.times.iter()).map(|(&s, &t)| !deleted(s, t)).collect();
        if kept.iter().all(|&kept| kept) {
            return None;
        }
        let rows =
            || kept.iter().zip(0..).filter(|(kept, _)| **kept).map(|(_, row): (_, usize)| row);
        let series: Vec<u32> = rows().map(|row| self.series[row]).collect();
        let times: Vec<i64> = rows().map(|row| self.times[row]).collect();
        let extent = TimeRange {
            min: times.iter().copied().min().unwrap_or(i64::MAX),
            max: times.iter().copied().max().unwrap_or(i64::MIN),
        };
        let kept = BooleanArray::from(kept);
        let of = |column: &Option<ArrayRef>| {
            column.as_ref().and_then(|column| filter(column.as_ref(), &kept).ok())
        };
        let columns = self.columns.iter().map(of).collect();
        Some(Self::new(series.into(), times.into(), columns, extent))
    }
}

/// What no value of a column is outside of; `None` for what is not a number.
fn bounds_of(column: &ArrayRef) -> Option<Bounds> {
    fn least_most<T: Copy>(
        values: impl Iterator<Item = T>,
        less: fn(T, T) -> bool,
    ) -> Option<(T, T)> {
        values.map(|value| (value, value)).reduce(|(least, most), (value, _)| {
            let least = if less(value, least) { value } else { least };
            (least, if less(most, value) { value } else { most })
        })
    }
    // Nulls have some value too, which makes the bounds wider at most.
    if let Some(column) = column.as_primitive_opt::<Int64Type>() {
        let (least, most) = least_most(column.values().iter().copied(), |a, b| a < b)?;
        return Some(Bounds::Integer(least, most));
    }
    if let Some(column) = column.as_primitive_opt::<UInt64Type>() {
        let (least, most) = least_most(column.values().iter().copied(), |a, b| a < b)?;
        return Some(Bounds::Unsigned(least, most));
    }
    let column = column.as_primitive_opt::<Float64Type>()?;
    let (least, most) = least_most(column.values().iter().copied(), |a, b| a < b)?;
    Some(Bounds::Float(least, most))
}
