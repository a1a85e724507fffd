//! The last listings on disk, so that names are known after a restart while the backends are down.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::Listing;

/// The catalogue's file cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("could not {doing} {path}: {source}")]
pub struct CatalogueError {
    doing: &'static str,
    path: PathBuf,
    source: io::Error,
}

#[derive(Serialize, Deserialize)]
struct CatalogueFile {
    version: u32,
    backends: BTreeMap<String, Listing>,
}

const VERSION: u32 = 1;

/// The listings kept at `path`; none when the file is absent, damaged or of another version.
pub(super) fn read(path: &Path) -> Result<BTreeMap<String, Listing>, CatalogueError> {
    let bytes = match fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(BTreeMap::new()),
        Err(source) => return Err(CatalogueError { doing: "read", path: path.into(), source }),
    };
    match serde_json::from_slice::<CatalogueFile>(&bytes) {
        Ok(kept) if kept.version == VERSION => Ok(kept.backends),
        _ => {
            tracing::warn!(path = %path.display(), "catalogue cannot be read; asking the backends");
            Ok(BTreeMap::new())
        }
    }
}

/// The file's text for these listings.
pub(super) fn text(backends: BTreeMap<String, Listing>) -> String {
    serde_json::to_string(&CatalogueFile { version: VERSION, backends }).unwrap_or_default()
}

/// Replaces the file as a whole, so that a crash leaves the former one. Blocks on the disk.
pub(super) fn write(path: &Path, text: &str) -> Result<(), CatalogueError> {
    let new = path.with_extension("json.new");
    let fail = |doing| move |source| CatalogueError { doing, path: path.to_owned(), source };
    if let Some(dir) = path.parent() {
        fs::create_dir_all(dir).map_err(fail("make the directory of"))?;
    }
    let mut file = File::create(&new).map_err(fail("create"))?;
    file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).map_err(fail("write"))?;
    fs::rename(&new, path).map_err(fail("replace"))
}
