//! A file of the store, and what is read of it when it is opened.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use disk::Disk;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader,
    ParquetRecordBatchReaderBuilder, RowSelection,
};
use parquet::errors::ParquetError;
use parquet::file::metadata::{PageIndexPolicy, ParquetMetaData, ParquetMetaDataReader};

use crate::file::cache::OpenFiles;
use crate::file::checked::{self, Checked, Prefix};
use crate::file::lost::{Lost, Parts};
use crate::file::sidecar::{Page, Sidecar};
use crate::file::{FileError, FileInfo, field_type};
use crate::scan::{ScanError, TimeRange};
use crate::schema::FieldType;
use crate::series::SeriesId;

/// A file of the store. While there is one of these the file stays, even when the manifest no
/// longer lists it.
pub struct StoredFile {
    /// What the manifest knows of it.
    pub info: FileInfo,
    dir: PathBuf,
    disk: Disk,
    open: Arc<OpenFiles>,
    is_doomed: AtomicBool,
}

impl std::fmt::Debug for StoredFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StoredFile").field("info", &self.info).finish_non_exhaustive()
    }
}

/// A file as a scan reads it.
#[derive(Clone, Debug)]
pub(crate) struct Readable {
    pub opened: Arc<OpenFile>,
    /// What of it can't be read.
    pub lost: Option<Arc<Parts>>,
}

/// What a look at every page of a file found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verified {
    /// Every checksum is right.
    Whole,
    /// The first fault that was found.
    Damaged(String),
}

impl StoredFile {
    /// A file in the directory of its policy; nothing is read of it yet.
    pub fn new(dir: &Path, info: FileInfo, disk: &Disk, open: &Arc<OpenFiles>) -> Self {
        Self {
            info,
            dir: dir.to_owned(),
            disk: disk.clone(),
            open: open.clone(),
            is_doomed: AtomicBool::new(false),
        }
    }

    /// Where the Parquet file is.
    pub fn path(&self) -> PathBuf {
        self.info.path(&self.dir)
    }

    /// The manifest no longer lists it: it is removed once nobody reads it any more.
    pub fn doom(&self) {
        self.is_doomed.store(true, Ordering::Release);
    }

    /// The fields it has and their types.
    ///
    /// # Errors
    /// When the file can't be read.
    pub fn fields(&self) -> Result<Vec<(String, FieldType)>, ScanError> {
        Ok(self.opened()?.fields())
    }

    /// The keys of its series' tags, sorted.
    ///
    /// # Errors
    /// When the file can't be read.
    pub fn tag_keys(&self) -> Result<Vec<String>, ScanError> {
        let opened = self.opened()?;
        Ok(opened.columns("tag.").map(|(_, key)| key.to_owned()).collect())
    }

    /// The series it has points of, in its order, with the times of the first and last one.
    ///
    /// # Errors
    /// When the file can't be read.
    pub fn series(&self) -> Result<Vec<(SeriesId, TimeRange)>, ScanError> {
        let opened = self.opened()?;
        let runs = opened.sidecar().runs().iter();
        Ok(runs.map(|run| (run.series, TimeRange { min: run.first, max: run.last })).collect())
    }

    /// Reads every byte and looks at the checksums.
    pub fn verify(&self) -> Verified {
        let verified = self.opened().and_then(|opened| {
            let pages = &opened.sidecar().pages;
            let read = |page| checked::read_page(&opened.input.file, page).map(drop);
            pages.iter().try_for_each(read).map_err(|error| self.failed(&error))
        });
        verified.map_or_else(|error| Verified::Damaged(error.to_string()), |()| Verified::Whole)
    }

    /// The file as a scan reads it; `None` where nothing of it can be read. What is lost is left
    /// out only where the answer says so.
    ///
    /// # Errors
    /// When the file can't be read, or something of it is lost and `is_said` is not set.
    pub(crate) fn readable(&self, is_said: bool) -> Result<Option<Readable>, ScanError> {
        let lost = match self.open.lost(self.info.number) {
            None => None,
            Some(Lost::Unknown) => {
                let what = "it was damaged before; what of it can be read is being looked for";
                return Err(self.broken(what.to_owned()));
            }
            Some(_) if !is_said => {
                self.open.count_met();
                let what = "something of it can't be read".to_owned();
                return Err(ScanError::File { file: self.info.name(), what });
            }
            Some(Lost::All) => return Ok(None),
            Some(Lost::Parts(parts)) => Some(parts),
        };
        Ok(Some(Readable { opened: self.opened()?, lost }))
    }

    /// The file, open; from the cache where it is there.
    pub(crate) fn opened(&self) -> Result<Arc<OpenFile>, ScanError> {
        self.open.get(self.info.number, || {
            OpenFile::open(&self.path(), &self.info).map_err(|error| match error.is_damage() {
                true => self.broken(error.to_string()),
                // As where there are too many open files: the next one may open it.
                false => ScanError::File { file: self.info.name(), what: error.to_string() },
            })
        })
    }

    /// The error of a scan for one of the reader; notes damage.
    pub(crate) fn failed(&self, error: &ParquetError) -> ScanError {
        if checked::is_damage(error) {
            return self.broken(error.to_string());
        }
        ScanError::File { file: self.info.name(), what: error.to_string() }
    }

    /// The error of a scan that finds fewer rows than the sidecar promises.
    pub(crate) fn short(&self) -> ScanError {
        self.broken("it has fewer rows than its sidecar says".to_owned())
    }

    fn broken(&self, what: String) -> ScanError {
        self.open.note_damage(self.info.number, &what);
        ScanError::File { file: self.info.name(), what }
    }
}

impl Drop for StoredFile {
    fn drop(&mut self) {
        if !self.is_doomed.load(Ordering::Acquire) {
            return;
        }
        self.open.forget(self.info.number);
        // What can't be removed now is removed by the next start: no manifest lists it.
        let _ = self.disk.remove(&self.path());
        let _ = self.disk.remove(&self.info.sidecar_path(&self.dir));
    }
}

/// A file that is open: its metadata and sidecar.
#[derive(Debug)]
pub(crate) struct OpenFile {
    input: Checked,
    metadata: ArrowReaderMetadata,
    /// The first row of each row group, and at the end the number of rows.
    pub group_starts: Vec<u32>,
}

impl OpenFile {
    fn open(path: &Path, info: &FileInfo) -> Result<Self, FileError> {
        let file = File::open(path).map_err(FileError::of("open", path))?;
        let sidecar = Sidecar::of(path, info)?;
        Self::new(file, Arc::new(sidecar), path)
    }

    pub fn new(file: File, sidecar: Arc<Sidecar>, path: &Path) -> Result<Self, FileError> {
        let failed = |error: ParquetError| match checked::is_damage(&error) {
            true => FileError::damaged(path)(&error.to_string()),
            false => FileError::encode(path)(error),
        };
        let input = Checked { file: Arc::new(file), sidecar };
        let options = ArrowReaderOptions::new()
            .with_skip_arrow_metadata(true)
            .with_column_index_policy(PageIndexPolicy::Optional)
            .with_offset_index_policy(PageIndexPolicy::Required);
        let metadata = ArrowReaderMetadata::load(&input, options).map_err(failed)?;
        let mut group_starts = vec![0_u32];
        let mut end = 0;
        for group in metadata.metadata().row_groups() {
            end = u32::try_from(group.num_rows())
                .ok()
                .and_then(|rows| rows.checked_add(end))
                .ok_or_else(|| FileError::damaged(path)("it has too many rows"))?;
            group_starts.push(end);
        }
        if end != input.sidecar.rows {
            return Err(FileError::damaged(path)("it has not as many rows as its sidecar says"));
        }
        Ok(Self { input, metadata, group_starts })
    }

    pub fn input(&self) -> &Checked {
        &self.input
    }

    pub fn sidecar(&self) -> &Sidecar {
        &self.input.sidecar
    }

    pub fn metadata(&self) -> &ParquetMetaData {
        self.metadata.metadata()
    }

    /// The type of a column's values, where it is one of a field.
    pub fn field_type(&self, column: usize) -> Option<FieldType> {
        field_type(self.metadata.schema().fields().get(column)?.data_type())
    }

    /// Bytes of memory it takes.
    pub fn memory(&self) -> usize {
        self.sidecar().memory() + self.metadata.metadata().memory_size()
    }

    /// The columns whose names begin with `prefix`: their numbers, and the rest of their names.
    pub fn columns<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = (usize, &'a str)> {
        let fields = self.metadata.schema().fields().iter().enumerate();
        fields.filter_map(move |(at, field)| Some((at, field.name().strip_prefix(prefix)?)))
    }

    pub fn fields(&self) -> Vec<(String, FieldType)> {
        let named = self
            .columns("field.")
            .filter_map(|(at, name)| Some((name.to_owned(), self.field_type(at)?)));
        named.collect()
    }

    /// About how many bytes of memory a row of some columns takes.
    pub fn row_bytes(&self, columns: &[usize]) -> usize {
        let mut bytes = 0_i64;
        for group in self.metadata.metadata().row_groups() {
            for chunk in columns.iter().filter_map(|at| group.columns().get(*at)) {
                // Values of a dictionary are few in the file and many in memory.
                let texts = chunk.unencoded_byte_array_data_bytes().unwrap_or(0);
                let numbers = group.num_rows().saturating_mul(8);
                bytes = bytes.saturating_add(texts.saturating_add(numbers));
            }
        }
        usize::try_from(bytes).unwrap_or(usize::MAX) / (self.sidecar().rows as usize).max(1)
    }

    /// A reader of some columns and some rows of some row groups.
    pub fn reader(
        &self,
        columns: &[usize],
        groups: Vec<usize>,
        rows: RowSelection,
        batch_rows: usize,
    ) -> Result<ParquetRecordBatchReader, ParquetError> {
        let mask = ProjectionMask::leaves(self.metadata.parquet_schema(), columns.iter().copied());
        ParquetRecordBatchReaderBuilder::new_with_metadata(
            self.input.clone(),
            self.metadata.clone(),
        )
        .with_projection(mask)
        .with_row_groups(groups)
        .with_row_selection(rows)
        .with_batch_size(batch_rows)
        .build()
    }
}

/// The parts a Parquet file of so many bytes is read in and their checksums, and that of the whole
/// file.
pub(crate) fn read_pages(file: &File, of: u64, path: &Path) -> Result<(Vec<Page>, u32), FileError> {
    let failed = |error: ParquetError| FileError::damaged(path)(&error.to_string());
    let again = file.try_clone().map_err(FileError::of("open", path))?;
    let prefix = Prefix { file: Arc::new(again), bytes: of };
    let mut reader = ParquetMetaDataReader::new()
        .with_column_index_policy(PageIndexPolicy::Skip)
        .with_offset_index_policy(PageIndexPolicy::Required);
    reader.try_parse_sized(&prefix, of).map_err(failed)?;
    let metadata = reader.finish().map_err(failed)?;
    let mut starts = page_starts(&metadata);
    starts.insert(0, 0);
    starts.dedup();
    let mut pages = Vec::with_capacity(starts.len());
    let mut crc = 0;
    for (at, start) in starts.iter().enumerate() {
        let end = starts.get(at + 1).copied().unwrap_or(of);
        let too_long = || FileError::damaged(path)("it has a page that is too long");
        let len = u32::try_from(end.saturating_sub(*start)).map_err(|_| too_long())?;
        let bytes = checked::read_at(file, *start, len as usize);
        let bytes = bytes.map_err(FileError::of("read", path))?;
        pages.push(Page { offset: *start, len, crc: crc32c::crc32c(&bytes) });
        crc = crc32c::crc32c_append(crc, &bytes);
    }
    Ok((pages, crc))
}

/// Where the pages begin, and last where they all end.
fn page_starts(metadata: &ParquetMetaData) -> Vec<u64> {
    let mut starts = Vec::new();
    let mut end = 0;
    for (at, group) in metadata.row_groups().iter().enumerate() {
        for (column, chunk) in group.columns().iter().enumerate() {
            let (start, len) = chunk.byte_range();
            starts.push(start);
            end = end.max(start.saturating_add(len));
            let index = metadata.page_index().and_then(|index| index.page_locations(at, column));
            let locations = index.map(Vec::as_slice).unwrap_or_default();
            starts.extend(locations.iter().filter_map(|page| u64::try_from(page.offset).ok()));
        }
    }
    starts.push(end);
    starts.sort_unstable();
    starts.dedup();
    starts
}
