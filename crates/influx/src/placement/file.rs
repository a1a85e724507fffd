//! The table that is in force, beside the journal: what a configuration file of later says must
//! follow it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use disk::{Disk, FileError};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::read::WrittenTable;

/// The table that is in force cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum TableError {
    /// The disk does not do it.
    #[error(transparent)]
    Disk(#[from] FileError),
    /// It is damaged, or of a later version.
    #[error("{0} cannot be read; was it written by a later version?")]
    Format(PathBuf),
    /// There is one, and the configuration has none.
    #[error(
        "this journal is of the cluster {cluster:?}, whose points are shared out, and the \
         configuration has no [influx.cluster]: put its tables back"
    )]
    Gone { cluster: String },
}

#[derive(Serialize, Deserialize)]
struct TableFile {
    version: u32,
    #[serde(flatten)]
    table: WrittenTable,
}

/// A file that says of which version it is.
pub trait Versioned: DeserializeOwned + Serialize {
    /// Its name in the directory.
    const NAME: &str;
    /// The version that is read and written.
    const VERSION: u32;

    /// The version of this one.
    fn version(&self) -> u32;
}

impl Versioned for TableFile {
    const NAME: &str = "placement.json";
    const VERSION: u32 = 1;

    fn version(&self) -> u32 {
        self.version
    }
}

/// What such a file holds; `None` where there is none.
///
/// # Errors
/// When there is one that cannot be read.
pub fn read_versioned<T: Versioned>(dir: &Path) -> Result<Option<T>, TableError> {
    let path = dir.join(T::NAME);
    let bytes = match fs::read(&path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(FileError::of("read", &path)(error).into()),
    };
    match serde_json::from_slice::<T>(&bytes) {
        Ok(kept) if kept.version() == T::VERSION => Ok(Some(kept)),
        _ => Err(TableError::Format(path)),
    }
}

/// Writes such a file, durably. Blocks on the disk.
///
/// # Errors
/// When the disk does not take it; the former one stays then.
pub fn write_versioned<T: Versioned>(dir: &Path, kept: &T) -> Result<(), TableError> {
    let path = dir.join(T::NAME);
    let text = serde_json::to_vec_pretty(kept).map_err(|_| TableError::Format(path.clone()))?;
    fs::create_dir_all(dir).map_err(FileError::of("make", dir))?;
    Ok(Disk::of(dir).put(&path, &text)?)
}

/// The table in force; `None` where there never was one.
///
/// # Errors
/// When there is one that cannot be read.
pub fn read(dir: &Path) -> Result<Option<WrittenTable>, TableError> {
    Ok(read_versioned::<TableFile>(dir)?.map(|kept| kept.table))
}

/// Puts a table in force, durably. Blocks on the disk.
///
/// # Errors
/// When the disk does not take it; the former one is in force then.
pub fn write(dir: &Path, table: &WrittenTable) -> Result<(), TableError> {
    write_versioned(dir, &TableFile { version: TableFile::VERSION, table: table.clone() })
}
