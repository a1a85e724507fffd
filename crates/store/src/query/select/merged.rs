//! The points of several series as one sequence in time.

use std::cmp::Ordering;
use std::iter::Peekable;
use std::sync::{Mutex, PoisonError};

use super::batch::{Batch, request};
use super::feeds::{Bound, Feed, Key, Origin, Table};
use super::heap::Heap;
use crate::query::context::Context;
use crate::query::window::Windows;
use crate::refusal::QueryError;
use crate::scan::{Chunk, ScanError, TimeRange};
use crate::series::SeriesId;
use crate::value::Value;
use crate::view::Scan;

/// More series than this are read slice by slice of time rather than side by side.
const SIDE_BY_SIDE: usize = 512;
/// Slices of time for many series.
const SLICES: usize = 64;

/// A row of the statement's columns with its time.
pub(super) type Row = (i64, Vec<Value>);
/// A sequence of rows.
pub(super) type Rows<'a> = Box<dyn Iterator<Item = Result<Row, QueryError>> + Send + 'a>;

/// What is read: feeds of one group, and how.
#[derive(Clone, Copy)]
pub(super) struct MergeOptions<'a> {
    /// The measurements that the feeds are of.
    pub(super) tables: &'a [Table],
    /// The times that are read.
    pub(super) range: TimeRange,
    /// Whether the newest comes first.
    pub(super) descending: bool,
    /// The places of the columns that decide between rows of the same time.
    pub(super) beside: &'a [usize],
    /// The column that must have a value, if it is one.
    pub(super) driver: Option<usize>,
    /// One scan of all series of a table, where each is read after the other.
    pub(super) shared: Option<&'a SharedScan>,
    /// The context of the query that reads.
    pub(super) context: &'a Context,
}

/// A scan of series in the order in which they are read.
pub(super) struct SharedScan(Mutex<Peekable<Scan>>);

impl SharedScan {
    /// Begins a scan of the one series of each group; `None` where that is not what they have.
    pub(super) fn of(groups: &[(&Key, &Vec<Feed>)], reading: &MergeOptions<'_>) -> Option<Self> {
        let mut tables = groups.iter().map(|(_, feeds)| match feeds.as_slice() {
            [Feed { origin: Origin::Series(table, series), .. }] => Some((*table, series.id)),
            _ => None,
        });
        let (table, first) = tables.next()??;
        let mut series = vec![first];
        for other in tables {
            series.push(other.filter(|other| other.0 == table)?.1);
        }
        let table = reading.tables.get(table)?;
        let wanted = request(table, reading.range, reading.descending);
        let scan = table.view.scan(&series, &wanted);
        Some(Self(Mutex::new(scan.peekable())))
    }

    /// The next chunk of a series.
    fn next(&self, of: SeriesId) -> Option<Result<Chunk, ScanError>> {
        let is_its = |next: &Result<Chunk, ScanError>| {
            next.as_ref().map_or(true, |chunk| chunk.series == of)
        };
        self.0.lock().unwrap_or_else(PoisonError::into_inner).next_if(is_its)
    }
}

/// The rows of some feeds by time; those of measurements have a value in one column at least.
pub(super) fn merged<'a>(feeds: &'a [Feed], reading: MergeOptions<'a>) -> Rows<'a> {
    let mut feeds: Vec<&Feed> = feeds.iter().collect();
    if reading.descending {
        feeds.reverse();
    }
    // Each source of the statement is a sequence of its own before they are joined.
    let mut parts: Vec<(Result<usize, usize>, Vec<&Feed>)> = Vec::new();
    for feed in feeds {
        let source = match &feed.origin {
            Origin::Series(table, _) => Ok(*table),
            Origin::Held(held) => Err(held.source),
        };
        match parts.iter_mut().find(|(known, _)| *known == source) {
            Some((_, part)) => part.push(feed),
            None => parts.push((source, vec![feed])),
        }
    }
    let mut parts = parts.into_iter().map(|(_, part)| of_source(part, reading));
    match (parts.next(), parts.len()) {
        (Some(one), 0) => one,
        (first, _) => {
            Box::new(SideBySide::new(first.into_iter().chain(parts).collect(), reading, None))
        }
    }
}

/// The rows of the feeds of one source of the statement.
fn of_source<'a>(feeds: Vec<&'a Feed>, reading: MergeOptions<'a>) -> Rows<'a> {
    if let [one] = feeds.as_slice() {
        return Box::new(Source::open(one, reading));
    }
    match feeds.first().map(|feed| &feed.origin) {
        Some(Origin::Held(held)) => {
            // What stands beside was compared within the sub-query, if at all.
            let reading = MergeOptions { beside: &[], ..reading };
            let windows = held.windows.as_deref();
            Box::new(SideBySide::new(open(&feeds, reading), reading, windows))
        }
        Some(Origin::Series(table, _)) => {
            let Some(table) = reading.tables.get(*table) else {
                return Box::new(std::iter::empty());
            };
            // InfluxDB joins the series of each shard by itself.
            let mut spans = table.view.partitions(&table.name, reading.range);
            if reading.descending {
                spans.reverse();
            }
            Box::new(spans.into_iter().flat_map(move |range| -> Rows<'a> {
                let reading = MergeOptions { range, ..reading };
                if feeds.len() > SIDE_BY_SIDE {
                    return Box::new(Sliced::new(feeds.clone(), reading));
                }
                Box::new(SideBySide::new(open(&feeds, reading), reading, None))
            }))
        }
        None => Box::new(std::iter::empty()),
    }
}

/// The rows of sequences that are each in order.
pub(super) fn side_by_side<'a>(sequences: Vec<Rows<'a>>, reading: MergeOptions<'a>) -> Rows<'a> {
    Box::new(SideBySide::new(sequences, reading, None))
}

fn open<'a>(feeds: &[&'a Feed], reading: MergeOptions<'a>) -> Vec<Rows<'a>> {
    let open = |feed: &&'a Feed| -> Rows<'a> { Box::new(Source::open(feed, reading)) };
    feeds.iter().map(open).collect()
}

/// The rows of one feed.
struct Source<'a> {
    feed: &'a Feed,
    bound: &'a [Bound],
    reading: MergeOptions<'a>,
    scan: Option<Scan>,
    held: usize,
    batch: Option<Batch>,
    /// Bytes of the batch, about.
    bytes: usize,
    at: usize,
}

impl<'a> Source<'a> {
    fn open(feed: &'a Feed, reading: MergeOptions<'a>) -> Self {
        let mut source =
            Self { feed, bound: &[], reading, scan: None, held: 0, batch: None, bytes: 0, at: 0 };
        match &feed.origin {
            Origin::Series(table, series) => {
                if let Some(table) = reading.tables.get(*table) {
                    source.bound = &table.bound;
                    if reading.shared.is_none() {
                        let wanted = request(table, reading.range, reading.descending);
                        source.scan = Some(table.view.scan(&[series.id], &wanted));
                    }
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
                    let chunk = match self.reading.shared {
                        Some(shared) => shared.next(series.id),
                        None => self.scan.as_mut().and_then(Iterator::next),
                    };
                    let Some(chunk) = chunk else { return Ok(None) };
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
                    if wanted(batch, row, self.feed, self.bound, self.reading.driver) {
                        return Ok(Some((*time, batch.row(row))));
                    }
                }
            }
            self.batch = self.refill()?;
            self.at = 0;
            self.count();
            if self.batch.is_none() {
                return Ok(None);
            }
        }
    }

    /// Counts what the batch takes. No limit refuses it: it is as long as the file has it.
    fn count(&mut self) {
        let cancel = &self.reading.context.cancel;
        cancel.release(self.bytes);
        let of = |batch: &Batch| batch.times.len() * 8 * (1 + batch.columns.len());
        self.bytes = self.batch.as_ref().map_or(0, of);
        cancel.count(self.bytes);
    }
}

impl Drop for Source<'_> {
    fn drop(&mut self) {
        self.reading.context.cancel.release(self.bytes);
    }
}

/// Whether a row counts: of series those with any value do, of sub-queries all.
fn wanted(batch: &Batch, row: usize, feed: &Feed, bound: &[Bound], driver: Option<usize>) -> bool {
    match driver {
        Some(column) => batch.has_value_in(row, column),
        None => matches!(feed.origin, Origin::Held(_)) || batch.has_value(row, bound),
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
fn precedes(a: &Row, b: &Row, reading: &MergeOptions<'_>) -> bool {
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

/// A source with its next row, and its place.
type HeapEntry<'a> = (Row, usize, Rows<'a>);

/// Sources that are all open.
struct SideBySide<'a> {
    heap: Option<Heap<HeapEntry<'a>>>,
    sources: Vec<Rows<'a>>,
    reading: MergeOptions<'a>,
    windows: Option<&'a Windows>,
    failed: Option<QueryError>,
}

impl<'a> SideBySide<'a> {
    /// Rows that were made in windows come window by window, in each those of the first source
    /// first.
    fn new(
        sources: Vec<Rows<'a>>,
        reading: MergeOptions<'a>,
        windows: Option<&'a Windows>,
    ) -> Self {
        Self { heap: None, sources, reading, windows, failed: None }
    }

    fn step(&mut self) -> Result<Option<Row>, QueryError> {
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        let (reading, windows) = (self.reading, self.windows);
        let before = |a: &HeapEntry<'_>, b: &HeapEntry<'_>| match windows {
            None => precedes(&a.0, &b.0, &reading),
            Some(windows) => {
                let (x, y) = (windows.of(a.0.0).start, windows.of(b.0.0).start);
                if x == y { a.1 < b.1 } else { (x < y) != reading.descending }
            }
        };
        if self.heap.is_none() {
            let mut items = Vec::with_capacity(self.sources.len());
            for (place, mut source) in self.sources.drain(..).enumerate() {
                if let Some(row) = source.next().transpose()? {
                    items.push((row, place, source));
                }
            }
            self.heap = Some(Heap::new(items, before));
        }
        let Some(heap) = &mut self.heap else { return Ok(None) };
        let Some((row, place, mut source)) = heap.pop(before) else { return Ok(None) };
        match source.next().transpose() {
            Ok(Some(next)) => heap.push((next, place, source), before),
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
    reading: MergeOptions<'a>,
}

impl<'a> Sliced<'a> {
    fn new(mut feeds: Vec<&'a Feed>, reading: MergeOptions<'a>) -> Self {
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
        let MergeOptions { tables, context, driver, .. } = self.reading;
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
                if wanted(&batch, row, feed, bound, driver) {
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
