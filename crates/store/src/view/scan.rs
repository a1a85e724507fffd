//! A scan under way: files and memtables as one.

use std::iter::Peekable;
use std::sync::Arc;

use super::PolicyView;
use crate::file::merge::{Merge, Ranked, Source};
use crate::file::{Names, StoredFile};
use crate::memtable::{MemorySource, Memtable, MemtableRequest, Ranks};
use crate::scan::{Chunk, ScanError, ScanRequest, TimeRange};
use crate::series::SeriesId;
use crate::tombstone::Active;

/// A scan under way.
///
/// What has points is cut into spans that share no time. Each span is opened when the scan comes
/// to it; it merges its files, the oldest first, and its memtables.
pub struct Scan {
    spans: Vec<Span>,
    /// The place of the series at hand.
    rank: u32,
    /// The span it is at.
    at: usize,
    of: Arc<ScanContext>,
}

/// What all spans of a scan have in common.
struct ScanContext {
    series: Arc<[SeriesId]>,
    ranks: Ranks,
    request: Arc<ScanRequest>,
    wanted: MemtableRequest,
    tombstones: Vec<Active>,
    names: Arc<dyn Names>,
}

/// Sources that share times with each other and with no other span.
#[derive(Default)]
struct Span {
    /// Each with whether what is lost of it is said.
    files: Vec<(Arc<StoredFile>, bool)>,
    tables: Vec<Arc<Memtable>>,
    open: Option<Peekable<Source>>,
}

impl std::fmt::Debug for Scan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scan").field("rank", &self.rank).finish_non_exhaustive()
    }
}

enum SpanSource<'a> {
    File(&'a Arc<StoredFile>),
    Table(&'a Arc<Memtable>),
}

impl Scan {
    pub(super) fn new(view: &PolicyView, series: &[SeriesId], request: &ScanRequest) -> Self {
        let measurement = view.measurement(&request.measurement);
        let number = |name: &String| measurement.and_then(|of| of.fields.find(name)).map(|f| f.0);
        let wanted = MemtableRequest {
            time: request.time,
            fields: request.fields.iter().map(number).collect(),
            descending: request.descending,
        };
        let tombstones = view.tombstones(&request.measurement);
        let of = ScanContext {
            series: series.into(),
            ranks: Ranks::new(series),
            request: Arc::new(request.clone()),
            wanted,
            tombstones,
            names: view.data.names(),
        };
        let mut spans = spans(view, &request.measurement, request.time);
        if request.descending {
            spans.reverse();
        }
        Self { spans, rank: 0, at: 0, of: Arc::new(of) }
    }
}

/// Cuts what has points within a range into spans, in the order of time.
fn spans(view: &PolicyView, measurement: &str, time: TimeRange) -> Vec<Span> {
    let files = view.files(measurement, time).map(|file| (file.info.time, SpanSource::File(file)));
    let tables =
        view.memtables(measurement, time).map(|(extent, of)| (extent, SpanSource::Table(of)));
    // The order of age, which the sort by time must not lose.
    let mut parts: Vec<(TimeRange, usize, SpanSource<'_>)> = files
        .chain(tables)
        .enumerate()
        .map(|(age, (extent, part))| (extent.intersect(time), age, part))
        .collect();
    parts.sort_by_key(|(extent, age, _)| (extent.min, *age));
    let mut groups: Vec<(i64, Vec<(usize, SpanSource<'_>)>)> = Vec::new();
    for (extent, age, part) in parts {
        match groups.last_mut() {
            Some((end, group)) if extent.min <= *end => {
                *end = extent.max.max(*end);
                group.push((age, part));
            }
            _ => groups.push((extent.max, vec![(age, part)])),
        }
    }
    let spans = groups.into_iter().map(|(_, mut group)| {
        group.sort_by_key(|(age, _)| *age);
        let mut span = Span::default();
        for (_, part) in group {
            match part {
                SpanSource::File(file) => span.files.push((Arc::clone(file), view.is_said(file))),
                SpanSource::Table(table) => span.tables.push(Arc::clone(table)),
            }
        }
        span
    });
    spans.collect()
}

impl Span {
    fn source(&mut self, of: &Arc<ScanContext>) -> &mut Peekable<Source> {
        let Self { files, tables, open } = self;
        open.get_or_insert_with(|| {
            let mut sources: Vec<(TimeRange, Source)> = Vec::new();
            for (file, is_said) in files.iter() {
                let (series, request) = (Arc::clone(&of.series), Arc::clone(&of.request));
                let names = Arc::clone(&of.names);
                let scan = file.scan(series, request, &of.tombstones, names);
                let scan = scan.leaving_out_lost(*is_said);
                sources.push((file.info.time, Box::new(scan)));
            }
            let within = tables.iter().filter_map(|table| table.extent());
            if let Some(within) = within.reduce(TimeRange::hull) {
                let (tables, of) = (std::mem::take(tables), Arc::clone(of));
                let memory = move || MemorySource::new(&tables, &of.ranks, of.wanted.clone());
                sources.push((within, Box::new(std::iter::once_with(memory).flatten())));
            }
            let source: Source = match sources.pop() {
                Some((_, only)) if sources.is_empty() => only,
                last => {
                    sources.extend(last);
                    Box::new(Merge::of_spans(sources, of.wanted.descending))
                }
            };
            source.peekable()
        })
    }
}

impl Iterator for Scan {
    type Item = Result<Chunk, ScanError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(span) = self.spans.get_mut(self.at) {
                let rank = self.rank;
                let next = span
                    .source(&self.of)
                    .next_if(|next| next.as_ref().map_or(true, |ranked| ranked.rank == rank));
                match next {
                    Some(next) => return Some(next.map(|ranked| ranked.chunk)),
                    None => self.at += 1,
                }
                continue;
            }
            // The next series that any span has; spans without more are at their ends.
            let heads = self.spans.iter_mut().filter_map(|span| {
                let head = span.source(&self.of).peek()?;
                Some(head.as_ref().map_or(0, |Ranked { rank, .. }| *rank))
            });
            self.rank = heads.min()?;
            self.at = 0;
        }
    }
}
