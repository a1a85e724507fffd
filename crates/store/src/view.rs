//! One retention policy at one moment.

mod scan;
#[cfg(test)]
mod tests;
mod within;
#[cfg(test)]
mod within_tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, PoisonError, RwLockReadGuard};

pub use scan::Scan;

use crate::archive::PolicyVersion;
use crate::data::{MeasurementData, PolicyData};
use crate::file::{FileInfo, StoredFile};
use crate::memtable::Memtable;
use crate::notices::Notices;
use crate::outline::{self, Piece};
use crate::partition::Partitions;
use crate::predicate::TagPredicate;
use crate::scan::{ScanError, ScanRequest, TimeRange};
use crate::schema::FieldType;
use crate::series::{Series, SeriesId, SeriesIndex, SeriesSet};
use crate::tombstone::Active;

/// The data of one retention policy at one moment.
#[derive(Clone, Debug)]
pub struct PolicyView {
    data: Arc<PolicyData>,
    files: Option<Arc<PolicyVersion>>,
    /// What is missing from what was asked of it.
    notices: Notices,
}

impl PolicyView {
    pub(crate) fn new(
        data: Arc<PolicyData>,
        files: Option<Arc<PolicyVersion>>,
        notices: Notices,
    ) -> Self {
        notices.note_all(files.iter().flat_map(|of| &of.missing).filter(|of| of.nameless));
        Self { data, files, notices }
    }

    /// Notes what is missing of a measurement: an answer that has its points would have had that.
    pub(crate) fn note_missing(&self, is_of: impl Fn(&str) -> bool) {
        let missing = self.files.iter().flat_map(|files| &files.missing);
        self.notices.note_all(missing.filter(|missing| is_of(&missing.measurement)));
    }

    fn index(&self) -> RwLockReadGuard<'_, SeriesIndex> {
        self.data.index.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn number(&self, measurement: &str) -> Option<u32> {
        self.index().measurement(measurement)
    }

    fn measurement(&self, measurement: &str) -> Option<&Arc<MeasurementData>> {
        self.data.measurements.get(self.number(measurement)? as usize)
    }

    /// The names of its measurements, sorted.
    pub fn measurements(&self) -> Vec<String> {
        let known = self.data.measurements.len();
        let index = self.index();
        let names = index.names().filter(|(_, number)| (*number as usize) < known);
        names.map(|(name, _)| name.to_string()).collect()
    }

    /// The fields of a measurement and their types.
    pub fn fields(&self, measurement: &str) -> BTreeMap<String, FieldType> {
        let of = self.measurement(measurement);
        let fields = of.iter().flat_map(|measurement| measurement.fields.iter());
        fields.map(|(name, of)| (name.to_owned(), of)).collect()
    }

    /// The type of one field of a measurement, where there is such a field.
    pub fn field(&self, measurement: &str, name: &str) -> Option<FieldType> {
        let fields = &self.measurement(measurement)?.fields;
        fields.find(name).map(|(_, of)| of)
    }

    /// The tag keys of a measurement, sorted.
    pub fn tag_keys(&self, measurement: &str) -> Vec<String> {
        let index = self.index();
        index.measurement(measurement).map(|of| index.tag_keys(of)).unwrap_or_default()
    }

    /// The values of a tag, sorted, over the series that match and are in a set, if one is given.
    pub fn tag_values(
        &self,
        measurement: &str,
        key: &str,
        of: &TagPredicate,
        within: Option<&SeriesSet>,
    ) -> Vec<String> {
        let index = self.index();
        let Some(measurement) = index.measurement(measurement) else { return Vec::new() };
        index.tag_values(measurement, self.data.series_bound, key, of, within)
    }

    /// The series of a measurement that match, sorted by their tags' key=value bytes.
    pub fn series(&self, measurement: &str, matching: &TagPredicate) -> Vec<Series> {
        let index = self.index();
        let Some(measurement) = index.measurement(measurement) else { return Vec::new() };
        index.in_order(measurement, self.data.series_bound, matching)
    }

    /// How many series match.
    pub fn series_count(&self, measurement: &str, matching: &TagPredicate) -> usize {
        let index = self.index();
        let Some(measurement) = index.measurement(measurement) else { return 0 };
        index.count(measurement, self.data.series_bound, matching)
    }

    /// All memtables of a measurement that may have points within `range`, the older ones of a
    /// partition first.
    fn memtables(
        &self,
        measurement: &str,
        range: TimeRange,
    ) -> impl Iterator<Item = (TimeRange, &Arc<Memtable>)> {
        let of = self.measurement(measurement);
        let all = of.into_iter().flat_map(|of| of.frozen.values().chain(of.live.values()));
        all.filter_map(move |memtable| Some((memtable.extent()?, memtable)))
            .filter(move |(extent, _)| !extent.intersect(range).is_empty())
    }

    /// All files of a measurement that may have points within `range`, the older ones first.
    fn files(&self, measurement: &str, range: TimeRange) -> impl Iterator<Item = &Arc<StoredFile>> {
        let missing = self.files.iter().flat_map(|files| &files.missing);
        self.notices.note_all(missing.filter(|missing| missing.is_of(measurement, range)));
        let all = self.files.iter().filter_map(|files| files.files.get(measurement)).flatten();
        all.filter(move |file| !file.info.time.intersect(range).is_empty())
    }

    /// Whether what is lost of a file is said with the answer, or accepted.
    fn is_said(&self, file: &StoredFile) -> bool {
        self.files.as_ref().is_some_and(|files| files.damaged.contains(&file.info.number))
    }

    /// What was deleted of a measurement and may be in files.
    fn tombstones(&self, measurement: &str) -> Vec<Active> {
        let in_files = self.files.iter().flat_map(|files| files.tombstones.iter());
        let all = in_files.chain(self.data.tombstones.iter());
        let of = |active: &&Active| {
            active.tombstone.measurement.as_deref().is_none_or(|of| of == measurement)
        };
        all.filter(of).cloned().collect()
    }

    /// The time from the first to the last point of a measurement there may be within `range`;
    /// wider than the truth rather than narrower. `None` where there is none.
    pub fn extent(&self, measurement: &str, range: TimeRange) -> Option<TimeRange> {
        let files = self.files(measurement, range).map(|file| file.info.time);
        let tables = self.memtables(measurement, range).map(|(extent, _)| extent);
        let extents = files.chain(tables).map(|extent| extent.intersect(range));
        extents.reduce(TimeRange::hull)
    }

    /// The partitions of a measurement in which there may be points within `range`, cut to it, the
    /// oldest first.
    pub fn partitions(&self, measurement: &str, range: TimeRange) -> Vec<TimeRange> {
        let cut = Partitions::new(self.data.partition_ns);
        let files = self.files(measurement, range).map(|file| file.info.time);
        let tables = self.memtables(measurement, range).map(|(extent, _)| extent);
        let starts: BTreeSet<i64> = files.chain(tables).map(|time| cut.start(time.min)).collect();
        let spans = starts.into_iter().map(|min| TimeRange { min, max: cut.last(min) });
        spans.map(|span| span.intersect(range)).filter(|span| !span.is_empty()).collect()
    }

    /// Cuts a range into at most `parts` neighbouring ones that cost about the same to scan; for
    /// the use of several cores on few series.
    pub fn split(&self, measurement: &str, range: TimeRange, parts: usize) -> Vec<TimeRange> {
        let mut weights: Vec<(i64, usize)> = Vec::new();
        for file in self.files(measurement, range) {
            pieces_of_file(&file.info, range, &mut weights);
        }
        for (_, memtable) in self.memtables(measurement, range) {
            let within = memtable.blocks().filter(|b| !b.extent().intersect(range).is_empty());
            weights.extend(within.map(|block| (block.extent().min.max(range.min), block.rows())));
        }
        cut(range, weights, parts)
    }

    /// What is known of a field of a series within `range` without reading points: pieces that
    /// share no times, in order, of all points that have the field.
    ///
    /// # Errors
    /// When a file can't be read.
    pub fn outline(
        &self,
        measurement: &str,
        series: SeriesId,
        (field, of): (&str, FieldType),
        range: TimeRange,
    ) -> Result<Vec<Piece>, ScanError> {
        let tombstones = self.tombstones(measurement);
        let mut pieces = Vec::new();
        for file in self.files(measurement, range) {
            let is_said = self.is_said(file);
            pieces.extend(file.outline(series, (field, of), range, &tombstones, is_said)?);
        }
        let number = self.measurement(measurement).and_then(|data| data.fields.find(field));
        if let Some((number, _)) = number {
            let blocks = self.memtables(measurement, range).flat_map(|(_, table)| table.blocks());
            for block in blocks.filter(|block| !block.extent().intersect(range).is_empty()) {
                let run = block.run(series.0);
                pieces.extend(run.and_then(|run| block.outline(run, (number, of), range)));
            }
        }
        Ok(outline::combined(pieces))
    }

    /// The points of some series, in the order in which they are given (which should be that of
    /// [`PolicyView::series`]), each by time. Lazy: nothing is read that is not asked for.
    pub fn scan(&self, series: &[SeriesId], request: &ScanRequest) -> Scan {
        Scan::new(self, series, request)
    }
}

/// Pieces that a file is taken to consist of, since where in time its rows lie is not known.
const FILE_PIECES: i64 = 32;

fn pieces_of_file(file: &FileInfo, range: TimeRange, pieces: &mut Vec<(i64, usize)>) {
    let span = file.time.max.saturating_sub(file.time.min);
    // Rows of a file fit its memory.
    let rows = (file.rows / FILE_PIECES.unsigned_abs()) as usize;
    for piece in 0..FILE_PIECES {
        let start = file.time.min.saturating_add(span / FILE_PIECES * piece);
        if range.contains(start) {
            pieces.push((start, rows));
        }
    }
}

/// Cuts `range` where pieces begin (time, weight), so that the parts weigh about the same.
fn cut(range: TimeRange, mut pieces: Vec<(i64, usize)>, parts: usize) -> Vec<TimeRange> {
    pieces.sort_unstable();
    let total: usize = pieces.iter().map(|piece| piece.1).sum();
    let parts = parts.max(1);
    let mut cuts = vec![range.min];
    let mut sum = 0;
    for (start, weight) in pieces {
        let wanted = cuts.len() * total / parts;
        let last = cuts.last().copied().unwrap_or(range.min);
        if cuts.len() < parts && sum >= wanted && wanted > 0 && start > last {
            cuts.push(start);
        }
        sum += weight;
    }
    let ends = cuts.iter().skip(1).map(|cut| cut - 1).chain([range.max]);
    cuts.iter().zip(ends).map(|(&min, max)| TimeRange { min, max }).collect()
}
