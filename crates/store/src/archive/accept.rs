//! An operator accepts what damaged files have lost: a command beside a running store leaves a
//! request in its directory, which the store takes, now or when it starts.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use disk::Disk;
use serde::{Deserialize, Serialize};

use super::Archive;
use crate::manifest::{DamagedFile, Manifest, ManifestError};

/// There from `weir store accept` until the store has taken it.
const NAME: &str = "accepted";
/// Bytes of a request at most; each file takes some twenty.
const BYTES_MAX: u64 = 64 << 20;

/// Why a loss can't be accepted.
#[derive(Debug, thiserror::Error)]
pub enum AcceptError {
    /// The manifest can't be read, or the request not be written.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    /// The store has nothing missing.
    #[error("nothing is missing from {}, or all of it is accepted already", dir.display())]
    Nothing {
        /// The directory of the store.
        dir: PathBuf,
    },
}

/// How many points each file has lost as the operator saw it: what is found later is not accepted
/// with it.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Request {
    files: BTreeMap<u64, u64>,
}

/// Asks the store in a directory to take what is missing from it as accepted. Gives what that is.
///
/// # Errors
/// When nothing is missing, or the directory can't be read or written.
pub fn accept(dir: &Path) -> Result<Vec<DamagedFile>, AcceptError> {
    let none = || ManifestError::None { dir: dir.to_owned() };
    let manifest = Manifest::read(dir)?.ok_or_else(none)?;
    let all = manifest.policies.into_values().flat_map(|entry| entry.damaged);
    let damaged: Vec<DamagedFile> = all.filter(|damaged| !damaged.accepted).collect();
    if damaged.is_empty() {
        return Err(AcceptError::Nothing { dir: dir.to_owned() });
    }
    let files = damaged.iter().map(|damaged| (damaged.info.number, damaged.points())).collect();
    let path = dir.join(NAME);
    let put = |bytes: Vec<u8>| Disk::default().put(&path, &bytes).map_err(|error| error.source);
    let written = serde_json::to_vec(&Request { files }).map_err(Into::into).and_then(put);
    written.map_err(ManifestError::of("write", &path))?;
    Ok(damaged)
}

impl Archive {
    /// Takes what an operator has accepted; whether there was anything.
    ///
    /// # Errors
    /// When the manifest can't be written: it is taken later then.
    pub fn take_acceptance(&self) -> Result<bool, ManifestError> {
        let path = self.dir.join(NAME);
        let Ok(metadata) = std::fs::metadata(&path) else {
            return Ok(false);
        };
        let bytes = (metadata.len() <= BYTES_MAX).then(|| std::fs::read(&path)).transpose();
        let bytes = bytes.map_err(ManifestError::of("read", &path))?.unwrap_or_default();
        // What is not a request accepts nothing.
        let Request { files } = serde_json::from_slice(&bytes).unwrap_or_default();
        let mut points = 0;
        self.change(|manifest| {
            for damaged in manifest.policies.values_mut().flat_map(|entry| &mut entry.damaged) {
                let seen = files.get(&damaged.info.number);
                if !damaged.accepted && seen.is_some_and(|seen| damaged.points() <= *seen) {
                    damaged.accepted = true;
                    points += damaged.points();
                }
            }
        })?;
        tracing::warn!(points, "that points are missing from the store was accepted");
        self.disk.remove(&path).map_err(ManifestError::of("remove", &path))?;
        Ok(true)
    }
}
