//! The table that is in force, beside the journal: what a configuration file of later says must
//! follow it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use disk::{Disk, FileError};
use serde::{Deserialize, Serialize};

use super::read::WrittenTable;

const FILE: &str = "placement.json";
const VERSION: u32 = 1;

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

/// The table in force; `None` where there never was one.
///
/// # Errors
/// When there is one that cannot be read.
pub fn read(dir: &Path) -> Result<Option<WrittenTable>, TableError> {
    let path = dir.join(FILE);
    let bytes = match fs::read(&path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(FileError::of("read", &path)(error).into()),
    };
    match serde_json::from_slice::<TableFile>(&bytes) {
        Ok(TableFile { version: VERSION, table }) => Ok(Some(table)),
        _ => Err(TableError::Format(path)),
    }
}

/// Puts a table in force, durably. Blocks on the disk.
///
/// # Errors
/// When the disk does not take it; the former one is in force then.
pub fn write(dir: &Path, table: &WrittenTable) -> Result<(), TableError> {
    let path = dir.join(FILE);
    let kept = TableFile { version: VERSION, table: table.clone() };
    let text = serde_json::to_vec_pretty(&kept).map_err(|_| TableError::Format(path.clone()))?;
    fs::create_dir_all(dir).map_err(FileError::of("make", dir))?;
    Ok(Disk::of(dir).put(&path, &text)?)
}
