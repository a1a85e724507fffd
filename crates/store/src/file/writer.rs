//! Writing one Parquet file with its sidecar.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::types::Int32Type;
use arrow_array::{
    Array, ArrayRef, DictionaryArray, Int32Array, RecordBatch, StringArray,
    TimestampNanosecondArray,
};
use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};
use disk::{Disk, Stream};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_writer::ArrowWriterOptions;

use crate::file::open::read_pages;
use crate::file::sidecar::Sidecar;
use crate::file::times::ShapeBuilder;
use crate::file::{FileError, FileInfo, Tags, arrow_type, encoding, nulls};
use crate::scan::TimeRange;
use crate::schema::FieldType;
use crate::series::{Series, SeriesId};

/// Rows handed to the encoder at once.
const BATCH_ROWS: usize = 1 << 16;
/// Bytes handed to the encoder at once, about.
const BATCH_BYTES: usize = 8 << 20;

/// What a new file is to be.
#[derive(Clone, Debug)]
pub struct FileSpec {
    /// The file's number, as [`FileInfo::number`] has it.
    pub number: u64,
    /// The measurement that its points are of.
    pub measurement: String,
    /// The times of the partition.
    pub partition: TimeRange,
    /// Where its points are in the journal: [`FileInfo::positions`].
    pub positions: (u64, u64),
    /// Which tombstones are applied in it: [`FileInfo::cleaned`].
    pub cleaned: u64,
    /// All keys of the series' tags, sorted.
    pub tag_keys: Vec<String>,
    /// The fields and their types.
    pub fields: Vec<(String, FieldType)>,
}

/// Points of one measurement and partition, sorted by series (their tags, compared as slices) and
/// time, one for each series and time.
#[derive(Clone, Debug, Default)]
pub struct SortedColumns {
    /// The series and how many points each has.
    pub runs: Vec<(Series, u32)>,
    /// The times of all points.
    pub times: Vec<i64>,
    /// The fields, each as long as `times`.
    pub fields: Vec<(String, FieldType, ArrayRef)>,
}

impl SortedColumns {
    /// All keys of the series' tags, sorted.
    pub fn tag_keys(&self) -> Vec<String> {
        let mut keys: BTreeSet<&str> = BTreeSet::new();
        let mut before: Option<&Tags> = None;
        for (series, _) in &self.runs {
            // Neighbours mostly have the same keys; a set is slow for a million of them.
            let same = before.is_some_and(|before| {
                before.len() == series.tags.len()
                    && before.iter().zip(&*series.tags).all(|(a, b)| a.0 == b.0)
            });
            if !same {
                keys.extend(series.tags.iter().map(|(key, _)| &**key));
            }
            before = Some(&series.tags);
        }
        keys.into_iter().map(str::to_owned).collect()
    }
}

/// Writes points as a new file, durable under its name when this returns, but for the directory,
/// which the switch of the manifest syncs. `None` where there are no points.
///
/// # Errors
/// When it can't be written; nothing is left of it then.
pub fn write(
    disk: &Disk,
    dir: &Path,
    spec: FileSpec,
    points: &SortedColumns,
) -> Result<Option<FileInfo>, FileError> {
    let mut writer = FileWriter::create(disk, dir, spec)?;
    let mut start = 0;
    for (series, rows) in &points.runs {
        let end = start + *rows as usize;
        let Some(times) = points.times.get(start..end) else {
            return Err(writer.inconsistent());
        };
        writer.note(series.id, times)?;
        start = end;
    }
    let mut runs = points.runs.iter().map(|(series, rows)| (series.tags.clone(), *rows as usize));
    let mut rest: Option<(Tags, usize)> = None;
    for start in (0..points.times.len()).step_by(BATCH_ROWS) {
        let len = BATCH_ROWS.min(points.times.len() - start);
        let mut batch_runs = Vec::new();
        let mut missing = len;
        while missing > 0 {
            let Some((tags, rows)) = rest.take().or_else(|| runs.next()) else {
                return Err(writer.inconsistent());
            };
            let taken = rows.min(missing);
            if rows > taken {
                rest = Some((tags.clone(), rows - taken));
            }
            missing -= taken;
            batch_runs.push((tags, taken));
        }
        let times = points.times.get(start..start + len).unwrap_or_default().to_vec();
        let columns = points
            .fields
            .iter()
            .map(|(_, _, column)| (column.len() >= start + len).then(|| column.slice(start, len)));
        let columns: Option<Vec<ArrayRef>> = columns.collect();
        let columns = columns.ok_or_else(|| writer.inconsistent())?;
        writer.encode(times, &batch_runs, columns)?;
    }
    writer.finish()
}

/// A file that is being written, from chunks that come in the order of the file. Dropped before
/// [`FileWriter::finish`], it leaves nothing behind.
pub struct FileWriter {
    disk: Disk,
    spec: FileSpec,
    path: PathBuf,
    schema: SchemaRef,
    /// Before there is an encoder, which begins when the first rows are known.
    file: Option<Stream>,
    encoder: Option<ArrowWriter<Stream>>,
    sidecar: Sidecar,
    run: Option<(SeriesId, i64, ShapeBuilder)>,
    time: TimeRange,
    waiting: BufferedRows,
}

/// Rows not yet handed to the encoder.
#[derive(Default)]
struct BufferedRows {
    times: Vec<i64>,
    runs: Vec<(Tags, usize)>,
    /// Pieces of each field.
    fields: Vec<Vec<ArrayRef>>,
    bytes: usize,
}

impl std::fmt::Debug for FileWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FileWriter").field("path", &self.path).finish_non_exhaustive()
    }
}

impl FileWriter {
    /// Begins a file in the directory of its policy.
    ///
    /// # Errors
    /// When it can't be made.
    pub fn create(disk: &Disk, dir: &Path, spec: FileSpec) -> Result<Self, FileError> {
        let path = dir.join(format!("{:012}.parquet", spec.number));
        let new = new_path(&path);
        let file = disk.create(&new).map_err(FileError::of("make", &new))?;
        let schema = schema(&spec);
        let waiting =
            BufferedRows { fields: vec![Vec::new(); spec.fields.len()], ..BufferedRows::default() };
        Ok(Self {
            disk: disk.clone(),
            spec,
            path,
            schema,
            file: Some(file),
            encoder: None,
            sidecar: Sidecar::default(),
            run: None,
            time: TimeRange { min: i64::MAX, max: i64::MIN },
            waiting,
        })
    }

    /// Takes points of one series, later than those it took of it before, with a column for each
    /// field of the spec.
    ///
    /// # Errors
    /// When they can't be written.
    pub fn push(
        &mut self,
        series: &Series,
        times: &[i64],
        columns: &[Option<ArrayRef>],
    ) -> Result<(), FileError> {
        self.note(series.id, times)?;
        for (at, (_, of)) in self.spec.fields.iter().enumerate() {
            let column = columns.get(at).and_then(Option::as_ref);
            let column =
                column.filter(|c| c.len() == times.len() && c.data_type() == &arrow_type(*of));
            let column = column.map_or_else(|| nulls(*of, times.len()), Arc::clone);
            self.waiting.bytes += column.to_data().get_slice_memory_size().unwrap_or(0);
            if let Some(pieces) = self.waiting.fields.get_mut(at) {
                pieces.push(column);
            }
        }
        self.waiting.times.extend_from_slice(times);
        self.waiting.runs.push((series.tags.clone(), times.len()));
        if self.waiting.times.len() >= BATCH_ROWS || self.waiting.bytes >= BATCH_BYTES {
            self.encode_waiting()?;
        }
        Ok(())
    }

    /// Bytes encoded so far, of which only a row group is still in memory.
    pub fn bytes(&self) -> u64 {
        let encoder = self.encoder.as_ref();
        encoder.map_or(0, |encoder| (encoder.bytes_written() + encoder.in_progress_size()) as u64)
    }

    fn encode_waiting(&mut self) -> Result<(), FileError> {
        let fresh = BufferedRows {
            fields: vec![Vec::new(); self.spec.fields.len()],
            ..BufferedRows::default()
        };
        let waiting = std::mem::replace(&mut self.waiting, fresh);
        let columns = waiting.fields.into_iter().map(|pieces| {
            let pieces: Vec<&dyn Array> = pieces.iter().map(|piece| &**piece).collect();
            arrow_select::concat::concat(&pieces)
        });
        let columns: Result<Vec<ArrayRef>, _> = columns.collect();
        let columns = columns.map_err(|error| FileError::encode(&self.path)(error.into()))?;
        self.encode(waiting.times, &waiting.runs, columns)
    }

    /// Keeps account of the runs.
    fn note(&mut self, series: SeriesId, times: &[i64]) -> Result<(), FileError> {
        let (Some(first), Some(last)) = (times.first(), times.last()) else {
            return Ok(());
        };
        self.time.min = self.time.min.min(*first);
        self.time.max = self.time.max.max(*last);
        match &mut self.run {
            Some((same, _, shape)) if *same == series => shape.push(times),
            _ => {
                self.end_run()?;
                let mut shape = ShapeBuilder::default();
                shape.push(times);
                self.run = Some((series, *first, shape));
            }
        }
        Ok(())
    }

    fn end_run(&mut self) -> Result<(), FileError> {
        let Some((series, first, mut shape)) = self.run.take() else {
            return Ok(());
        };
        let (rows, last) = (shape.rows(), shape.last());
        let span = TimeRange { min: first, max: last };
        let pushed = self.sidecar.push(series, rows, span, shape.finish());
        pushed.ok_or_else(|| self.inconsistent())
    }

    fn encode(
        &mut self,
        times: Vec<i64>,
        runs: &[(Tags, usize)],
        fields: Vec<ArrayRef>,
    ) -> Result<(), FileError> {
        let times = TimestampNanosecondArray::from(times).with_timezone("UTC");
        let mut columns: Vec<ArrayRef> = vec![Arc::new(times)];
        for key in &self.spec.tag_keys {
            columns.push(tag_column(key, runs)?);
        }
        columns.extend(fields);
        let failed = FileError::encode(&self.path);
        let batch = RecordBatch::try_new(self.schema.clone(), columns);
        let batch = batch.map_err(|error| failed(error.into()))?;
        if let Some(file) = self.file.take() {
            let options = ArrowWriterOptions::new()
                .with_properties(encoding::properties(&batch))
                .with_skip_arrow_metadata(true);
            let encoder = ArrowWriter::try_new_with_options(file, self.schema.clone(), options);
            self.encoder = Some(encoder.map_err(&failed)?);
        }
        self.encoder.as_mut().map_or(Ok(()), |encoder| encoder.write(&batch)).map_err(failed)
    }

    /// Ends the file: durable under its name when this returns, but for the directory. `None` where
    /// it had no points.
    ///
    /// # Errors
    /// When it can't be written; nothing is left of it then.
    pub fn finish(mut self) -> Result<Option<FileInfo>, FileError> {
        if !self.waiting.times.is_empty() {
            self.encode_waiting()?;
        }
        self.end_run()?;
        let Some(encoder) = self.encoder.take() else {
            return Ok(None);
        };
        let file = encoder.into_inner().map_err(FileError::encode(&self.path))?;
        file.sync().map_err(FileError::of("sync", &self.path))?;
        self.sidecar.bytes = file.bytes();
        let (pages, crc) = read_pages(&file.file, file.bytes(), &self.path)?;
        self.sidecar.pages = pages;
        let info = FileInfo {
            number: self.spec.number,
            measurement: self.spec.measurement.clone(),
            partition: self.spec.partition,
            positions: self.spec.positions,
            cleaned: self.spec.cleaned,
            rows: u64::from(self.sidecar.rows),
            time: self.time,
            bytes: file.bytes(),
            crc,
            sidecar_bytes: write_sidecar(&self.disk, &self.path, &self.sidecar)?,
        };
        let new = new_path(&self.path);
        self.disk.rename(&new, &self.path).map_err(FileError::of("rename", &new))?;
        Ok(Some(info))
    }

    fn inconsistent(&self) -> FileError {
        let what = "columns and runs are not of one length, or there are too many".to_owned();
        FileError::encode(&self.path)(parquet::errors::ParquetError::General(what))
    }
}

impl Drop for FileWriter {
    fn drop(&mut self) {
        // After `finish` there is none by this name, and the next start removes what stays.
        let new = new_path(&self.path);
        if new.exists() {
            let _ = self.disk.remove(&new);
            let _ = self.disk.remove(&self.path.with_extension("runs"));
        }
    }
}

/// The name of a file that is not complete.
fn new_path(path: &Path) -> PathBuf {
    path.with_extension("new")
}

/// Writes the sidecar of the file at `path`; gives its length in bytes.
pub(crate) fn write_sidecar(disk: &Disk, path: &Path, sidecar: &Sidecar) -> Result<u64, FileError> {
    use std::io::Write;
    let path = path.with_extension("runs");
    let bytes = sidecar.encode();
    let written = disk.create(&path).and_then(|mut file| {
        file.write_all(&bytes)?;
        file.sync()
    });
    written.map_err(FileError::of("write", &path))?;
    Ok(bytes.len() as u64)
}

fn schema(spec: &FileSpec) -> SchemaRef {
    let time = DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into()));
    let mut fields = vec![Field::new("time", time, false)];
    for key in &spec.tag_keys {
        let tag = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
        fields.push(Field::new(format!("tag.{key}"), tag, true));
    }
    for (name, of) in &spec.fields {
        fields.push(Field::new(format!("field.{name}"), arrow_type(*of), true));
    }
    Arc::new(Schema::new(fields))
}

/// A tag of all rows; null where a series doesn't have it.
fn tag_column(key: &str, runs: &[(Tags, usize)]) -> Result<ArrayRef, FileError> {
    let mut values: Vec<&str> = Vec::new();
    let mut keys: Vec<Option<i32>> = Vec::new();
    for (tags, rows) in runs {
        let at = tags.binary_search_by(|(known, _)| (**known).cmp(key)).ok();
        let value = at.and_then(|at| tags.get(at)).map(|(_, value)| &**value);
        if let Some(value) = value
            && values.last() != Some(&value)
        {
            values.push(value);
        }
        let index = value.and_then(|_| i32::try_from(values.len() - 1).ok());
        keys.resize(keys.len() + rows, index);
    }
    let values = Arc::new(StringArray::from(values));
    let column = DictionaryArray::<Int32Type>::try_new(Int32Array::from(keys), values);
    let column = column.map_err(|error| FileError::encode(Path::new(key))(error.into()))?;
    Ok(Arc::new(column))
}
