//! The points of several series as one sequence in time.

use std::cmp::Ordering;

use super::batch::{Batch, request};
use super::feeds::{Bound, Feed, Origin, Table};
use super::heap::Heap;
use crate::query::context::Context;
use crate::query::results::{QueryError, Value};
use crate::scan::TimeRange;
use crate::view::Scan;

/// More series than this are read slice by slice of time rather than side by side.
const SIDE_BY_SIDE: usize = 512;
/// Slices of time for many series.
const SLICES: usize = 64;

/// A row of the statement's columns with its time.
pub(super) type Row = (i64, Vec<Value>);
/// A sequence of rows.
pub(super) type Rows<'a> = Box<dyn Iterator<Item = Result<Row, QueryError>> + 'a>;

/// What is read: feeds of one group, and how.
#[derive(Clone, Copy)]
pub(super) struct Reading<'a> {
    /// The measurements.
    pub(super) tables: &'a [Table],
    /// The times.
    pub(super) range: TimeRange,
    /// Whether the newest comes first.
    pub(super) descending: bool,
    /// The places of the columns that decide between rows of the same time.
    pub(super) beside: &'a [usize],
    /// The query.
    pub(super) context: &'a Context,
}

/// The rows of some feeds by time; those of measurements have a value in one column at least.
pub(super) fn merged<'a>(feeds: &'a [Feed], reading: Reading<'a>) -> Rows<'a> {
    let mut feeds: Vec<&Feed> = feeds.iter().collect();
    if reading.descending {
        feeds.reverse();
    }
    match feeds.as_slice() {
        [one] => Box::new(Source::open(one, reading)),
        few if few.len() <= SIDE_BY_SIDE => {
            Box::new(SideBySide { heap: None, feeds, reading, failed: None })
        }
        _ => Box::new(Sliced::new(feeds, reading)),
    }
}

/// The rows of one feed.
struct Source<'a> {
    feed: &'a Feed,
    bound: &'a [Bound],
    reading: Reading<'a>,
    scan: Option<Scan>,
    held: usize,
    batch: Option<Batch>,
    at: usize,
}

impl<'a> Source<'a> {
    fn open(feed: &'a Feed, reading: Reading<'a>) -> Self {
        let mut source =
            Self { feed, bound: &[], reading, scan: None, held: 0, batch: None, at: 0 };
        match &feed.origin {
            Origin::Series(table, series) => {
                if let Some(table) = reading.tables.get(*table) {
                    let wanted = request(table, reading.range, reading.descending);
                    source.scan = Some(table.view.scan(&[series.id], &wanted));
                    source.bound = &table.bound;
                }
            }
            Origin::Held(held) => source.bound = &held.bound,
        }
        source
    }

    /// The next batch; `None` is the end.
    fn refill(&mut self) -> Result<Option<Batch>, QueryError> {
        loop {
            self.reading.context.check()?;
            let batch = match &self.feed.origin {
                Origin::Series(table, series) => {
                    let Some(chunk) = self.scan.as_mut().and_then(Iterator::next) else {
                        return Ok(None);
                    };
                    let chunk = chunk.map_err(|error| QueryError(error.to_string()))?;
                    self.reading.context.cancel.points(chunk.times.len())?;
                    let Some(table) = self.reading.tables.get(*table) else { return Ok(None) };
                    let conditions = &table.conditions;
                    Batch::of(&chunk, series, &table.bound, conditions, &self.feed.rows)?
                }
                Origin::Held(held) => {
                    let Some(chunk) = held.chunks.get(self.held) else { return Ok(None) };
                    self.held += 1;
                    let (bound, conditions) = (&held.bound, &held.conditions);
                    Batch::of(chunk, &held.series, bound, conditions, &self.feed.rows)?
                }
            };
            if batch.is_some() {
                return Ok(batch);
            }
        }
    }

    fn step(&mut self) -> Result<Option<Row>, QueryError> {
        loop {
            if let Some(batch) = &self.batch {
                while let Some(time) = batch.times.get(self.at) {
                    let row = self.at;
                    self.at += 1;
                    let held = matches!(self.feed.origin, Origin::Held(_));
                    if held || batch.has_value(row, self.bound) {
                        return Ok(Some((*time, batch.row(row))));
                    }
                }
            }
            self.batch = self.refill()?;
            self.at = 0;
            if self.batch.is_none() {
                return Ok(None);
            }
        }
    }
}

impl Iterator for Source<'_> {
    type Item = Result<Row, QueryError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.step().transpose()
    }
}

/// Which of two rows comes first. Of rows of one time, InfluxDB compares what is selected as long
/// as it is text.
fn precedes(a: &Row, b: &Row, reading: &Reading<'_>) -> bool {
    if a.0 != b.0 {
        return (a.0 < b.0) != reading.descending;
    }
    for at in reading.beside {
        match (a.1.get(*at), b.1.get(*at)) {
            (Some(Value::String(a)), Some(Value::String(b))) => match a.cmp(b) {
                Ordering::Equal => {}
                order => return (order == Ordering::Less) != reading.descending,
            },
            _ => return false,
        }
    }
    false
}

/// Sources that are all open.
struct SideBySide<'a> {
    heap: Option<Heap<(Row, Source<'a>)>>,
    feeds: Vec<&'a Feed>,
    reading: Reading<'a>,
    failed: Option<QueryError>,
}

impl SideBySide<'_> {
    fn step(&mut self) -> Result<Option<Row>, QueryError> {
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        let reading = self.reading;
        let before = |a: &(Row, Source<'_>), b: &(Row, Source<'_>)| precedes(&a.0, &b.0, &reading);
        if self.heap.is_none() {
            let mut items = Vec::with_capacity(self.feeds.len());
            for feed in self.feeds.drain(..) {
                let mut source = Source::open(feed, reading);
                if let Some(row) = source.step()? {
                    items.push((row, source));
                }
            }
            self.heap = Some(Heap::new(items, before));
        }
        let Some(heap) = &mut self.heap else { return Ok(None) };
        let Some((row, mut source)) = heap.pop(before) else { return Ok(None) };
        match source.step() {
            Ok(Some(next)) => heap.push((next, source), before),
            Ok(None) => {}
            Err(error) => self.failed = Some(error),
        }
        Ok(Some(row))
    }
}

impl Iterator for SideBySide<'_> {
    type Item = Result<Row, QueryError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.step().transpose()
    }
}

/// Many sources, of which one span of time after the other is read and sorted.
struct Sliced<'a> {
    feeds: Vec<(usize, &'a Feed)>,
    spans: std::vec::IntoIter<TimeRange>,
    rows: std::vec::IntoIter<Row>,
    held: usize,
    reading: Reading<'a>,
}

impl<'a> Sliced<'a> {
    fn new(mut feeds: Vec<&'a Feed>, reading: Reading<'a>) -> Self {
        feeds.sort_by_key(|feed| feed.order);
        let table = feeds.iter().find_map(|feed| match feed.origin {
            Origin::Series(table, _) => reading.tables.get(table),
            Origin::Held(_) => None,
        });
        let held = feeds.iter().any(|feed| matches!(feed.origin, Origin::Held(_)));
        let mut spans = match table {
            Some(table) if !held => table.view.split(&table.name, reading.range, SLICES),
            _ => vec![reading.range],
        };
        if reading.descending {
            spans.reverse();
        }
        Self {
            feeds: feeds.into_iter().map(|feed| (0, feed)).collect(),
            spans: spans.into_iter(),
            rows: Vec::new().into_iter(),
            held: 0,
            reading,
        }
    }

    fn refill(&mut self, span: TimeRange) -> Result<(), QueryError> {
        let Reading { tables, context, .. } = self.reading;
        context.cancel.release(std::mem::take(&mut self.held));
        let (mut rows, mut bytes) = (Vec::new(), 0);
        super::batch::read(tables, &self.feeds, span, context, &mut |_, feed, batch| {
            let bound: &[Bound] = match &feed.origin {
                Origin::Series(table, _) => tables.get(*table).map_or(&[], |table| &table.bound),
                Origin::Held(held) => &held.bound,
            };
            let more = batch.times.len() * (32 + 32 * batch.columns.len());
            context.cancel.reserve(more)?;
            bytes += more;
            for (row, time) in batch.times.iter().enumerate() {
                if matches!(feed.origin, Origin::Held(_)) || batch.has_value(row, bound) {
                    rows.push((*time, batch.row(row)));
                }
            }
            Ok(())
        })?;
        self.held = bytes;
        rows.sort_by(|a, b| {
            if precedes(a, b, &self.reading) {
                Ordering::Less
            } else if precedes(b, a, &self.reading) {
                Ordering::Greater
            } else {
                Ordering::Equal
            }
        });
        self.rows = rows.into_iter();
        Ok(())
    }
}

impl Drop for Sliced<'_> {
    fn drop(&mut self) {
        self.reading.context.cancel.release(self.held);
    }
}

impl Iterator for Sliced<'_> {
    type Item = Result<Row, QueryError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(row) = self.rows.next() {
                return Some(Ok(row));
            }
            let span = self.spans.next()?;
            if let Err(error) = self.refill(span) {
                self.spans = Vec::new().into_iter();
                return Some(Err(error));
            }
        }
    }
}
