//! Making a sidecar anew out of the Parquet file it lay beside.
//!
//! The numbers of the series are the live index's. What only the file still has, a series that was
//! dropped, gets [`NO_SERIES`]: its rows stay where they are, and nobody asks for them.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::TimestampNanosecondType;
use arrow_array::{Array, RecordBatch};
use disk::Disk;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{ArrowReaderOptions, ParquetRecordBatchReaderBuilder};
use parquet::errors::ParquetError;
use parquet::file::reader::ChunkReader;

use crate::file::checked::Prefix;
use crate::file::lost::checksum;
use crate::file::open::read_pages;
use crate::file::sidecar::Sidecar;
use crate::file::times::ShapeBuilder;
use crate::file::writer::write_sidecar;
use crate::file::{FileError, FileInfo, Loss, Names, StoredFile, Tags, rows};
use crate::scan::{ScanError, TimeRange};
use crate::series::SeriesId;

/// The number of a run whose series the index does not know; no series has it.
pub const NO_SERIES: SeriesId = SeriesId(u32::MAX);

/// A run of a series that the index does not know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nameless {
    /// The tags of the series.
    pub tags: Tags,
    /// The times of its first and last point.
    pub time: TimeRange,
    /// How many points it has.
    pub rows: u32,
}

impl Nameless {
    /// What is missing where these runs were not deleted; `None` where there are none.
    pub fn loss(all: &[Self]) -> Option<Loss> {
        let time = all.iter().map(|run| run.time).reduce(TimeRange::hull)?;
        let points = all.iter().map(|run| u64::from(run.rows)).sum();
        let what = "it has series whose names are lost".to_owned();
        Some(Loss { what, points, time, fields: Vec::new() })
    }
}

/// Makes the sidecar of a file anew, and with it the numbers of its series as `names` has them.
/// Gives its length and the runs of series that are not known.
///
/// # Errors
/// When the Parquet file is damaged too.
pub fn rebuild_sidecar(
    disk: &Disk,
    dir: &Path,
    info: &FileInfo,
    names: &dyn Names,
) -> Result<(u64, Vec<Nameless>), FileError> {
    let path = info.path(dir);
    let file = File::open(&path).map_err(FileError::of("open", &path))?;
    // Nothing is made of bytes that may be wrong: there are no checksums of parts now.
    let crc = checksum(&file, info.bytes).map_err(FileError::of("read", &path))?;
    if crc != info.crc {
        return Err(FileError::damaged(&path)("its checksum is wrong, and so is its sidecar's"));
    }
    let (pages, _) = read_pages(&file, info.bytes, &path)?;
    let mut sidecar = Sidecar::default();
    (sidecar.bytes, sidecar.pages) = (info.bytes, pages);
    let mut runs = Runs { sidecar, run: None, nameless: Vec::new() };
    let too_many = || FileError::damaged(&path)("it has too many rows");
    let prefix = Prefix { file: Arc::new(file), bytes: info.bytes };
    each_run(prefix, &path, &mut |tags, times| {
        if runs.is_next(tags) {
            runs.end().ok_or_else(too_many)?;
            let id = names.id(&info.measurement, tags).unwrap_or(NO_SERIES);
            runs.begin(id, tags, times);
        }
        runs.push(times);
        Ok(())
    })?;
    runs.end().ok_or_else(too_many)?;
    let bytes = write_sidecar(disk, &path, &runs.sidecar)?;
    Ok((bytes, runs.nameless))
}

impl StoredFile {
    /// The series it has points of with their tags and the times of the first and last one, in its
    /// order: the numbers as the sidecar has them, the tags out of the tag columns.
    ///
    /// # Errors
    /// When the file can't be read.
    pub fn named_series(&self) -> Result<Vec<(SeriesId, TimeRange, Tags)>, ScanError> {
        let path = self.path();
        let mut all: Vec<Tags> = Vec::new();
        let input = self.opened()?.input().clone();
        let read = each_run(input, &path, &mut |tags, _| {
            // A long run comes in pieces.
            if all.last() != Some(tags) {
                all.push(tags.clone());
            }
            Ok(())
        });
        let failed = |what| ScanError::File { file: self.info.name(), what };
        read.map_err(|error| failed(error.to_string()))?;
        let ids = self.series()?;
        if ids.len() != all.len() {
            return Err(failed("its sidecar has other series".to_owned()));
        }
        let named = ids.into_iter().zip(all).filter(|((id, _), _)| *id != NO_SERIES);
        Ok(named.map(|((id, time), tags)| (id, time, tags)).collect())
    }
}

impl StoredFile {
    /// As [`named_series`](Self::named_series) without the sidecar, and so without numbers.
    ///
    /// # Errors
    /// When the Parquet file is damaged.
    pub(crate) fn tags_alone(&self) -> Result<Vec<(TimeRange, Tags)>, FileError> {
        let path = self.path();
        let file = File::open(&path).map_err(FileError::of("open", &path))?;
        let bytes = self.info.bytes;
        let crc = checksum(&file, bytes).map_err(FileError::of("read", &path))?;
        if crc != self.info.crc {
            return Err(FileError::damaged(&path)("its checksum is wrong"));
        }
        let mut all: Vec<(TimeRange, Tags)> = Vec::new();
        each_run(Prefix { file: Arc::new(file), bytes }, &path, &mut |tags, times| {
            let (Some(&min), Some(&max)) = (times.first(), times.last()) else { return Ok(()) };
            match all.last_mut() {
                Some((time, last)) if last == tags => time.max = max,
                _ => all.push((TimeRange { min, max }, tags.clone())),
            }
            Ok(())
        })?;
        Ok(all)
    }

    /// What is missing where series can't be asked for; `None` where no point is.
    ///
    /// # Errors
    /// When the file can't be read.
    pub(crate) fn loss_of(
        &self,
        is_lost: &dyn Fn(SeriesId) -> bool,
        what: &str,
    ) -> Result<Option<Loss>, ScanError> {
        let opened = self.opened()?;
        let lost = || opened.sidecar().runs().iter().filter(|run| is_lost(run.series));
        let spans = lost().map(|run| TimeRange { min: run.first, max: run.last });
        let loss = spans.reduce(TimeRange::hull).map(|time| Loss {
            what: what.to_owned(),
            points: lost().map(|run| u64::from(run.rows)).sum(),
            time,
            fields: Vec::new(),
        });
        Ok(loss)
    }
}

struct Runs {
    sidecar: Sidecar,
    run: Option<OpenRun>,
    nameless: Vec<Nameless>,
}

/// The run whose rows are coming.
struct OpenRun {
    id: SeriesId,
    tags: Tags,
    first: i64,
    shape: ShapeBuilder,
}

impl Runs {
    /// Whether rows of such tags are of another run; a long run comes in pieces.
    fn is_next(&self, tags: &Tags) -> bool {
        self.run.as_ref().is_none_or(|run| run.tags != *tags)
    }

    fn begin(&mut self, id: SeriesId, tags: &Tags, times: &[i64]) {
        let first = times.first().copied().unwrap_or_default();
        self.run = Some(OpenRun { id, tags: tags.clone(), first, shape: ShapeBuilder::default() });
    }

    fn push(&mut self, times: &[i64]) {
        if let Some(run) = &mut self.run {
            run.shape.push(times);
        }
    }

    fn end(&mut self) -> Option<()> {
        let Some(OpenRun { id, tags, first, mut shape }) = self.run.take() else {
            return Some(());
        };
        let (rows, last) = (shape.rows(), shape.last());
        let time = TimeRange { min: first, max: last };
        if id == NO_SERIES {
            self.nameless.push(Nameless { tags, time, rows });
        }
        self.sidecar.push(id, rows, time, shape.finish())
    }
}

type TakeRun<'a> = &'a mut dyn FnMut(&Tags, &[i64]) -> Result<(), FileError>;

/// Reads tags and times; rows of the same tags that follow each other come together, or in pieces.
fn each_run<R: ChunkReader + 'static>(
    file: R,
    path: &Path,
    take: TakeRun<'_>,
) -> Result<(), FileError> {
    let failed = |error: ParquetError| FileError::damaged(path)(&error.to_string());
    let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
    let builder = ParquetRecordBatchReaderBuilder::try_new_with_options(file, options);
    let builder = builder.map_err(failed)?;
    let columns = builder.schema().fields().iter().enumerate();
    let wanted = columns
        .filter(|(_, field)| field.name() == "time" || field.name().starts_with("tag."))
        .map(|(at, _)| at);
    let mask = ProjectionMask::leaves(builder.parquet_schema(), wanted);
    let reader = builder.with_projection(mask).with_batch_size(8192).build().map_err(failed)?;
    for batch in reader {
        let batch = batch.map_err(|error| failed(rows::parquet_error(error)))?;
        let odd = || FileError::damaged(path)("its columns are not of the types they should be");
        let times = batch.column(0).as_primitive_opt::<TimestampNanosecondType>();
        let times = times.ok_or_else(odd)?.values();
        let mut start = 0;
        while start < batch.num_rows() {
            let tags = tags_at(&batch, start).ok_or_else(odd)?;
            let mut end = start + 1;
            while end < batch.num_rows() && is_same(&batch, start, end) {
                end += 1;
            }
            take(&tags, times.get(start..end).unwrap_or_default())?;
            start = end;
        }
    }
    Ok(())
}

fn tags_at(batch: &RecordBatch, row: usize) -> Option<Tags> {
    let schema = batch.schema();
    let mut tags: Vec<(Arc<str>, Arc<str>)> = Vec::new();
    for (field, column) in schema.fields().iter().zip(batch.columns()).skip(1) {
        let column = column.as_string_opt::<i32>()?;
        if column.is_valid(row) {
            let key = field.name().strip_prefix("tag.")?;
            tags.push((key.into(), column.value(row).into()));
        }
    }
    tags.sort();
    Some(tags.into())
}

fn is_same(batch: &RecordBatch, a: usize, b: usize) -> bool {
    batch.columns().iter().skip(1).all(|column| {
        column.as_string_opt::<i32>().is_some_and(|column| {
            column.is_valid(a) == column.is_valid(b)
                && (!column.is_valid(a) || column.value(a) == column.value(b))
        })
    })
}
