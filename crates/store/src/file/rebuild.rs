//! Making a sidecar anew out of the Parquet file it lay beside.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::TimestampNanosecondType;
use arrow_array::{Array, RecordBatch};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{ArrowReaderOptions, ParquetRecordBatchReaderBuilder};
use parquet::errors::ParquetError;

use crate::disk::Disk;
use crate::file::open::read_pages;
use crate::file::sidecar::Sidecar;
use crate::file::times::ShapeBuilder;
use crate::file::writer::write_sidecar;
use crate::file::{FileError, FileInfo, Names, StoredFile, Tags, rows};
use crate::scan::{ScanError, TimeRange};
use crate::series::SeriesId;

/// Makes the sidecar of a file anew, and with it the numbers of its series as `names` has them.
///
/// # Errors
/// When the Parquet file is damaged too, or has series that are not known.
pub fn rebuild_sidecar(
    disk: &Disk,
    dir: &Path,
    info: &FileInfo,
    names: &dyn Names,
) -> Result<(), FileError> {
    let path = info.path(dir);
    let file = File::open(&path).map_err(FileError::of("open", &path))?;
    let (pages, crc) = read_pages(&file, &path)?;
    if crc != info.crc {
        return Err(FileError::damaged(&path)("its checksum is wrong"));
    }
    let mut sidecar = Sidecar::default();
    (sidecar.bytes, sidecar.pages) = (info.bytes, pages);
    let mut runs = Runs { sidecar, run: None };
    each_run(file, &path, &mut |tags, times| {
        let id = names.id(&info.measurement, tags);
        let id =
            id.ok_or_else(|| FileError::damaged(&path)("it has a series that is not known"))?;
        runs.push(id, times).ok_or_else(|| FileError::damaged(&path)("it has too many rows"))
    })?;
    runs.end().ok_or_else(|| FileError::damaged(&path)("it has too many rows"))?;
    write_sidecar(disk, &path, &runs.sidecar).map(drop)
}

impl StoredFile {
    /// The series it has points of with their tags, in its order: the numbers as the sidecar has
    /// them, the tags out of the tag columns.
    ///
    /// # Errors
    /// When the file can't be read.
    pub fn named_series(&self) -> Result<Vec<(SeriesId, Tags)>, ScanError> {
        let path = self.path();
        let mut all: Vec<Tags> = Vec::new();
        let file = File::open(&path).map_err(FileError::of("open", &path));
        let read = file.and_then(|file| {
            each_run(file, &path, &mut |tags, _| {
                // A long run comes in pieces.
                if all.last() != Some(tags) {
                    all.push(tags.clone());
                }
                Ok(())
            })
        });
        let failed = |what| ScanError::File { file: self.info.name(), what };
        read.map_err(|error| failed(error.to_string()))?;
        let ids = self.series()?;
        if ids.len() != all.len() {
            return Err(failed("its sidecar has other series".to_owned()));
        }
        Ok(ids.into_iter().map(|(id, _)| id).zip(all).collect())
    }
}

struct Runs {
    sidecar: Sidecar,
    run: Option<(SeriesId, i64, ShapeBuilder)>,
}

impl Runs {
    fn push(&mut self, id: SeriesId, times: &[i64]) -> Option<()> {
        if self.run.as_ref().is_none_or(|(series, ..)| *series != id) {
            self.end()?;
            self.run = Some((id, *times.first()?, ShapeBuilder::default()));
        }
        if let Some((_, _, shape)) = &mut self.run {
            shape.push(times);
        }
        Some(())
    }

    fn end(&mut self) -> Option<()> {
        let Some((id, first, mut shape)) = self.run.take() else {
            return Some(());
        };
        let (rows, last) = (shape.rows(), shape.last());
        self.sidecar.push(id, rows, TimeRange { min: first, max: last }, shape.finish())
    }
}

type TakeRun<'a> = &'a mut dyn FnMut(&Tags, &[i64]) -> Result<(), FileError>;

/// Reads tags and times; rows of the same tags that follow each other come together, or in pieces.
fn each_run(file: File, path: &Path, take: TakeRun<'_>) -> Result<(), FileError> {
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
