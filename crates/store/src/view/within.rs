//! What a measurement has in the partitions that some times touch, as far as it is known without
//! reading points. InfluxDB's index `tsi1`, of which each shard has one, answers the same.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::PolicyView;
use crate::file::StoredFile;
use crate::memtable::Memtable;
use crate::partition::Partitions;
use crate::scan::{ScanError, TimeRange};
use crate::schema::FieldType;
use crate::series::{SeriesId, SeriesIndex, SeriesSet};
use crate::tombstone::Active;

/// What has points of a measurement in some partitions.
#[derive(Default)]
struct Touched<'a> {
    tables: Vec<&'a Arc<Memtable>>,
    files: Vec<&'a Arc<StoredFile>>,
}

/// The columns of a measurement that were not found yet.
struct Absent {
    fields: BTreeSet<String>,
    tag_keys: BTreeSet<String>,
}

impl Absent {
    fn is_empty(&self) -> bool {
        self.fields.is_empty() && self.tag_keys.is_empty()
    }
}

impl PolicyView {
    /// Whether a measurement may have points in the partitions that `range` touches.
    pub fn is_within(&self, measurement: &str, range: TimeRange) -> bool {
        let touched = self.touched(measurement, range);
        touched.is_none_or(|of| !of.tables.is_empty() || !of.files.is_empty())
    }

    /// The fields and the sorted tag keys that a measurement has in the partitions that `range`
    /// touches.
    ///
    /// # Errors
    /// When a file can't be read.
    pub fn columns_within(
        &self,
        measurement: &str,
        range: TimeRange,
    ) -> Result<(BTreeMap<String, FieldType>, Vec<String>), ScanError> {
        let (mut fields, mut tag_keys) = (self.fields(measurement), self.tag_keys(measurement));
        if let Some(touched) = self.touched(measurement, range) {
            self.note_missing_within(measurement, range);
            let absent = Absent {
                fields: fields.keys().cloned().collect(),
                tag_keys: tag_keys.iter().cloned().collect(),
            };
            let absent = self.without_found(absent, measurement, &touched)?;
            fields.retain(|name, _| !absent.fields.contains(name));
            tag_keys.retain(|key| !absent.tag_keys.contains(key));
        }
        Ok((fields, tag_keys))
    }

    /// The tag keys, sorted, that a measurement has in the partitions that `range` touches.
    ///
    /// # Errors
    /// When a file can't be read.
    pub fn tag_keys_within(
        &self,
        measurement: &str,
        range: TimeRange,
    ) -> Result<Vec<String>, ScanError> {
        let mut tag_keys = self.tag_keys(measurement);
        if let Some(touched) = self.touched(measurement, range) {
            self.note_missing_within(measurement, range);
            let fields = BTreeSet::new();
            let absent = Absent { fields, tag_keys: tag_keys.iter().cloned().collect() };
            let absent = self.without_found(absent, measurement, &touched)?;
            tag_keys.retain(|key| !absent.tag_keys.contains(key));
        }
        Ok(tag_keys)
    }

    /// The series that have points in the partitions that `range` touches; `None` where no series
    /// of the measurement has any elsewhere.
    ///
    /// # Errors
    /// When a file can't be read.
    pub fn series_within(
        &self,
        measurement: &str,
        range: TimeRange,
    ) -> Result<Option<SeriesSet>, ScanError> {
        let Some(touched) = self.touched(measurement, range) else { return Ok(None) };
        self.note_missing_within(measurement, range);
        let mut set = SeriesSet::below(self.data.series_bound);
        for block in touched.tables.iter().flat_map(|table| table.blocks()) {
            block.runs().iter().for_each(|run| set.add(run.series));
        }
        let tombstones = self.tombstones(measurement);
        for file in &touched.files {
            let hits = hits(file, &tombstones);
            let series = self.series_of(file, &hits)?;
            let index = self.index();
            left(&index, &series, &hits).for_each(|series| set.add(series));
        }
        Ok(Some(set))
    }

    /// What has points in the partitions that `range` touches, by the rule by which InfluxDB finds
    /// shards; `None` where nothing else has points of the measurement.
    fn touched(&self, measurement: &str, range: TimeRange) -> Option<Touched<'_>> {
        let touches = |span: TimeRange| span.min <= range.max && range.min <= span.max;
        let (mut touched, mut is_all) = (Touched::default(), true);
        let cut = Partitions::new(self.data.partition_ns);
        let of = self.measurement(measurement);
        for (&start, table) in of.iter().flat_map(|of| of.frozen.iter().chain(&of.live)) {
            let Some(extent) = table.extent() else { continue };
            // The length of partitions may have been altered since this one began.
            match touches(TimeRange { min: start, max: cut.last(start) }.hull(extent)) {
                true => touched.tables.push(table),
                false => is_all = false,
            }
        }
        let files = self.files.iter().filter_map(|files| files.files.get(measurement));
        for file in files.flatten() {
            match touches(file.info.partition.hull(file.info.time)) {
                true => touched.files.push(file),
                false => is_all = false,
            }
        }
        (!is_all).then_some(touched)
    }

    /// Takes away from columns what is found. It looks no further once nothing is left, so that it
    /// usually ends with the first block or file.
    fn without_found(
        &self,
        mut absent: Absent,
        measurement: &str,
        touched: &Touched<'_>,
    ) -> Result<Absent, ScanError> {
        for table in &touched.tables {
            let of = self.measurement(measurement);
            let number = |name: &String| Some(of?.fields.find(name)?.0);
            absent.fields.retain(|name| !number(name).is_some_and(|field| table.has_field(field)));
            for block in table.blocks() {
                if absent.tag_keys.is_empty() {
                    break;
                }
                let keys = block.tag_keys(|series| self.index().keys_of(series));
                absent.tag_keys.retain(|key| keys.binary_search(key).is_err());
            }
        }
        let tombstones = self.tombstones(measurement);
        for file in &touched.files {
            if absent.is_empty() {
                break;
            }
            self.strike(&mut absent, file, &hits(file, &tombstones))?;
        }
        Ok(absent)
    }

    /// Takes away the columns that a file has. Of tags there may be columns whose series were all
    /// deleted, so that its series are asked.
    fn strike(
        &self,
        absent: &mut Absent,
        file: &StoredFile,
        hits: &[&Active],
    ) -> Result<(), ScanError> {
        let (fields, tag_keys) = match (file.fields(), file.tag_keys()) {
            (Err(_), _) | (_, Err(_)) if self.is_said(file) => return Ok(()),
            (fields, tag_keys) => (fields?, tag_keys?),
        };
        for (name, _) in fields {
            absent.fields.remove(&name);
        }
        if tag_keys.iter().any(|key| absent.tag_keys.contains(key)) {
            let series = self.series_of(file, hits)?;
            let index = self.index();
            index.strike_keys(left(&index, &series, hits), &mut absent.tag_keys);
        }
        Ok(())
    }

    /// The series of a file with their times; none of one that is wholly deleted, or of which
    /// nothing can be read and the answer says so.
    fn series_of(
        &self,
        file: &StoredFile,
        hits: &[&Active],
    ) -> Result<Vec<(SeriesId, TimeRange)>, ScanError> {
        if hits.iter().any(|hit| file.info.is_covered_by(&hit.tombstone)) {
            return Ok(Vec::new());
        }
        match file.series() {
            Err(_) if self.is_said(file) => Ok(Vec::new()),
            series => series,
        }
    }

    /// Notes what is missing of the partitions that `range` touches.
    fn note_missing_within(&self, measurement: &str, range: TimeRange) {
        let cut = Partitions::new(self.data.partition_ns);
        let span = TimeRange { min: cut.start(range.min), max: cut.last(cut.start(range.max)) };
        let missing = self.files.iter().flat_map(|files| &files.missing);
        self.notices.note_all(missing.filter(|missing| missing.is_of(measurement, span)));
    }
}

/// The tombstones that may have deleted points of a file.
fn hits<'a>(file: &StoredFile, tombstones: &'a [Active]) -> Vec<&'a Active> {
    tombstones.iter().filter(|of| file.info.is_hit_by(&of.tombstone)).collect()
}

/// Those of the series of a file that tombstones have left something of.
fn left<'a>(
    index: &'a SeriesIndex,
    series: &'a [(SeriesId, TimeRange)],
    hits: &'a [&Active],
) -> impl Iterator<Item = u32> + 'a {
    let is_left = |(id, time): &(SeriesId, TimeRange)| {
        if hits.is_empty() {
            return true;
        }
        index.series(id.0).is_some_and(|of| {
            let spans = hits.iter().filter(|hit| hit.matches(&of.tags));
            !time.is_covered_by(spans.map(|hit| hit.tombstone.time).collect())
        })
    };
    series.iter().filter(move |one| is_left(one)).map(|(id, _)| id.0)
}
