//! Rows that no longer change.

use std::sync::OnceLock;

use arrow_array::{ArrayRef, BooleanArray, UInt32Array};
use arrow_buffer::ScalarBuffer;
use arrow_select::filter::filter;
use arrow_select::take::take;

use super::merge::merge;
use crate::scan::{Chunk, TimeRange};
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
}

/// The rows of one series in a block, in the block's order by series and time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) series: u32,
    start: u32,
    end: u32,
    /// Whether a time is there twice.
    repeats: bool,
}

/// Rows by series, time and arrival.
#[derive(Debug)]
struct Order {
    /// The rows in this order; `None` when they came in it.
    rows: Option<Vec<u32>>,
    /// By series.
    runs: Vec<Run>,
}

impl Sealed {
    pub(super) fn new(
        series: ScalarBuffer<u32>,
        times: ScalarBuffer<i64>,
        columns: Vec<Option<ArrayRef>>,
        extent: TimeRange,
    ) -> Self {
        Self { series, times, columns, extent, order: OnceLock::new() }
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

    /// The points of a run within `time`, each time once, with the fields of these numbers.
    pub(crate) fn chunk(&self, run: Run, time: TimeRange, fields: &[Option<u32>]) -> Option<Chunk> {
        let order = self.order();
        let series = SeriesId(run.series);
        let column = |field: &Option<u32>| {
            field.and_then(|field| self.columns.get(field as usize)).and_then(Option::as_ref)
        };
        let (start, end) = (run.start as usize, run.end as usize);
        let chunk = match &order.rows {
            None => {
                let times = &self.times[start..end];
                let from = start + times.partition_point(|&t| t < time.min);
                let len = (start + times.partition_point(|&t| t <= time.max)).checked_sub(from)?;
                let sliced = |field| column(field).map(|column| column.slice(from, len));
                let columns = fields.iter().map(sliced).collect();
                Chunk { series, times: self.times.slice(from, len), columns }
            }
            Some(rows) => {
                let rows = rows.get(start..end)?;
                let at = |row: &u32| self.times[*row as usize];
                let from = rows.partition_point(|row| at(row) < time.min);
                let rows = rows.get(from..rows.partition_point(|row| at(row) <= time.max))?;
                let indices = UInt32Array::from(rows.to_vec());
                let taken =
                    |field| column(field).and_then(|column| take(column, &indices, None).ok());
                let columns = fields.iter().map(taken).collect();
                Chunk { series, times: rows.iter().map(at).collect(), columns }
            }
        };
        match (chunk.times.is_empty(), run.repeats) {
            (true, _) => None,
            (false, false) => Some(chunk),
            (false, true) => merge(&[chunk]),
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
