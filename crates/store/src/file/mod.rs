//! Parquet files: writing, reading, and what is known of them.
//!
//! One file holds points of one measurement, one partition and one span of the journal, sorted by
//! series and time: columns `time`, `tag.<key>` and `field.<key>`, so that any other reader can
//! make sense of it. Beside it lies a [`sidecar`] with what a scan wants to know first: which rows
//! are whose, and when.

pub(crate) mod bytes;
mod cache;
mod checked;
mod deleted;
mod encoding;
pub(crate) mod lost;
pub mod merge;
mod open;
mod outline;
mod plan;
mod rebuild;
pub(crate) mod rows;
mod scan;
mod sidecar;
#[cfg(test)]
pub(crate) mod tests;
mod times;
mod writer;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::ArrayRef;
use arrow_schema::DataType;
use parquet::errors::ParquetError;
use serde::{Deserialize, Serialize};

pub use self::cache::OpenFiles;
pub use self::lost::Loss;
pub use self::open::{StoredFile, Verified};
pub use self::rebuild::{NO_SERIES, Nameless, rebuild_sidecar};
pub use self::scan::FileScan;
pub use self::writer::{FileSpec, FileWriter, SortedColumns, write};
use crate::scan::TimeRange;
use crate::schema::FieldType;
use crate::series::SeriesId;
use crate::tombstone::Active;

/// The tags of a series, sorted by key.
pub type Tags = Arc<[(Arc<str>, Arc<str>)]>;

/// Knows the tags of series.
pub trait Names: Send + Sync {
    /// The tags of a series; `None` where it is not known.
    fn tags(&self, series: SeriesId) -> Option<Tags>;

    /// The number of a series; `None` where it is not known.
    fn id(&self, measurement: &str, tags: &Tags) -> Option<SeriesId>;

    /// What was deleted since the manifest was written.
    fn deleted(&self) -> Arc<Vec<Active>> {
        Arc::default()
    }
}

/// What the manifest knows of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileInfo {
    /// Its number, never used again in this store; its name on the disk is made of it.
    pub number: u64,
    /// The measurement that its points are of.
    pub measurement: String,
    /// The times of the partition it belongs to.
    pub partition: TimeRange,
    /// It holds what the journal brought after the first position, up to the second.
    pub positions: (u64, u64),
    /// Tombstones at positions up to this one have been applied in it.
    pub cleaned: u64,
    /// How many points it has.
    pub rows: u64,
    /// The times of its first and last point.
    pub time: TimeRange,
    /// Bytes of the Parquet file.
    pub bytes: u64,
    /// CRC-32C of the whole Parquet file.
    pub crc: u32,
    /// Bytes of the sidecar.
    pub sidecar_bytes: u64,
}

impl FileInfo {
    /// The name of the Parquet file.
    pub fn name(&self) -> String {
        format!("{:012}.parquet", self.number)
    }

    /// The Parquet file in the directory of its policy.
    pub fn path(&self, dir: &Path) -> PathBuf {
        dir.join(self.name())
    }

    /// The sidecar in the directory of its policy.
    pub fn sidecar_path(&self, dir: &Path) -> PathBuf {
        self.path(dir).with_extension("runs")
    }
}

/// Why a file can't be written or read.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The file system says no.
    #[error("can't {what} {}: {source}", path.display())]
    Io {
        /// What was being done.
        what: &'static str,
        /// The file it was done to.
        path: PathBuf,
        /// What the file system says.
        source: std::io::Error,
    },
    /// The columns can't be written as Parquet.
    #[error("can't write {}: {source}", path.display())]
    Encode {
        /// The file that was being written.
        path: PathBuf,
        /// What the encoder says.
        source: ParquetError,
    },
    /// The file is not what was written.
    #[error("{} is damaged: {what}", path.display())]
    Damaged {
        /// The file that is damaged.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
}

impl FileError {
    pub(crate) fn of<'a>(
        what: &'static str,
        path: &'a Path,
    ) -> impl Fn(std::io::Error) -> Self + 'a {
        move |source| Self::Io { what, path: path.to_owned(), source }
    }

    pub(crate) fn encode(path: &Path) -> impl Fn(ParquetError) -> Self + '_ {
        move |source| match source {
            ParquetError::External(source) => match source.downcast::<std::io::Error>() {
                Ok(source) => Self::Io { what: "write", path: path.to_owned(), source: *source },
                Err(source) => {
                    Self::Encode { path: path.to_owned(), source: ParquetError::External(source) }
                }
            },
            source => Self::Encode { path: path.to_owned(), source },
        }
    }

    pub(crate) fn damaged(path: &Path) -> impl Fn(&str) -> Self + '_ {
        move |what| Self::Damaged { path: path.to_owned(), what: what.to_owned() }
    }

    /// Whether it is about what the file holds, and not about a file system that can't do its work
    /// now.
    pub fn is_damage(&self) -> bool {
        use std::io::ErrorKind;
        match self {
            Self::Io { source, .. } => {
                source.kind() == ErrorKind::NotFound || checked::is_unreadable(source)
            }
            Self::Encode { .. } | Self::Damaged { .. } => true,
        }
    }

    /// Whether there is no room on the disk; that may go away by itself.
    pub fn is_full(&self) -> bool {
        use std::io::ErrorKind;
        matches!(self, Self::Io { source, .. }
            if matches!(source.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded))
    }
}

/// How values of a type are held in memory.
pub fn arrow_type(of: FieldType) -> DataType {
    match of {
        FieldType::Float => DataType::Float64,
        FieldType::Integer => DataType::Int64,
        FieldType::Unsigned => DataType::UInt64,
        FieldType::String => DataType::Utf8,
        FieldType::Boolean => DataType::Boolean,
    }
}

fn field_type(of: &DataType) -> Option<FieldType> {
    match of {
        DataType::Float64 => Some(FieldType::Float),
        DataType::Int64 => Some(FieldType::Integer),
        DataType::UInt64 => Some(FieldType::Unsigned),
        DataType::Utf8 => Some(FieldType::String),
        DataType::Boolean => Some(FieldType::Boolean),
        _ => None,
    }
}

/// Nulls for a column without values.
fn nulls(of: FieldType, rows: usize) -> ArrayRef {
    arrow_array::new_null_array(&arrow_type(of), rows)
}
