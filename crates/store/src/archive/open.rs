//! Opening a store: the manifest decides what belongs to it, and everything else goes.

use std::collections::HashSet;
use std::fs::{DirEntry, File};
use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};

use arc_swap::ArcSwap;
use disk::{Disk, FileError};

use crate::archive::{Archive, OPEN_BYTES, Version, policy_dir};
use crate::file::lost::Lost;
use crate::file::{FileInfo, OpenFiles};
use crate::manifest::{self, Manifest, ManifestError, PolicyEntry};
use crate::series_log;

const LOCK_NAME: &str = "lock";
const DAMAGED: &str = "damaged";

impl Archive {
    /// Opens the store in a directory, which is made when it is missing. Files that are not in the
    /// manifest are removed; of those of it that are missing or cut nothing can be read.
    ///
    /// # Errors
    /// When the directory can't be read or written, another process has it, or the manifest is
    /// damaged or missing where there are files.
    pub fn open(dir: &Path, disk: Disk) -> Result<Self, ManifestError> {
        disk.create_dir(dir).map_err(ManifestError::of("make", dir))?;
        let lock = lock(dir)?;
        let data = dir.join("data");
        let manifest = match Manifest::read(dir)? {
            Some(manifest) => manifest,
            None if data.exists() => return Err(ManifestError::Missing { dir: dir.to_owned() }),
            None => {
                let manifest = Manifest { next_file: 1, ..Manifest::default() };
                manifest.write(&disk, dir)?;
                manifest
            }
        };
        disk.create_dir(&data).map_err(ManifestError::of("make", &data))?;
        manifest::remove_unfinished(&disk, dir)?;
        remove_leftovers(&disk, dir, &manifest)?;
        let archive = Self {
            dir: dir.to_owned(),
            open: Arc::new(OpenFiles::new(OPEN_BYTES)),
            version: ArcSwap::default(),
            changing: Mutex::default(),
            repairing: Mutex::default(),
            next_file: AtomicU64::new(manifest.next_file),
            is_uncertain: false.into(),
            _lock: lock,
            disk,
        };
        let faults = faults(dir, &manifest);
        for damaged in manifest.policies.values().flat_map(|entry| &entry.damaged) {
            if damaged.in_place {
                archive.open.set_lost(damaged.info.number, Some(Lost::Unknown));
                archive.open.note_damage(damaged.info.number, &damaged.what);
            }
        }
        let version = archive.versioned(manifest, &Version::default());
        archive.version.store(Arc::new(version));
        if !faults.is_empty() {
            archive.give_up(faults)?;
        }
        Ok(archive)
    }
}

fn lock(dir: &Path) -> Result<File, ManifestError> {
    let held = disk::hold(&dir.join(LOCK_NAME)).map_err(|FileError { doing, path, source }| {
        ManifestError::Io { what: doing, path, source }
    })?;
    held.ok_or_else(|| ManifestError::InUse { dir: dir.to_owned() })
}

/// Files of the manifest that are missing or shorter than they were, and what is wrong. What was
/// appended to a file is not read.
fn faults(dir: &Path, manifest: &Manifest) -> Vec<(FileInfo, String)> {
    let mut faults = Vec::new();
    for (policy, entry) in &manifest.policies {
        let dir = policy_dir(dir, *policy);
        for info in &entry.files {
            let what = match std::fs::metadata(info.path(&dir)) {
                Ok(metadata) if metadata.len() == info.bytes => continue,
                Ok(metadata) if metadata.len() > info.bytes => {
                    let more = metadata.len() - info.bytes;
                    tracing::warn!(file = %info.name(), more, "bytes were appended to a file");
                    continue;
                }
                Ok(metadata) => {
                    format!("it has {} bytes instead of {}", metadata.len(), info.bytes)
                }
                Err(error) => error.to_string(),
            };
            faults.push((info.clone(), what));
        }
    }
    faults
}

/// Removes what no manifest lists: the rests of flushes, compactions and policies that ended in
/// the middle.
fn remove_leftovers(disk: &Disk, dir: &Path, manifest: &Manifest) -> Result<(), ManifestError> {
    for entry in entries(&dir.join("data"))? {
        let name = entry.file_name();
        let id = name.to_str().and_then(|name| name.parse::<u64>().ok());
        let policy = id.and_then(|id| manifest.policies.get(&id));
        let Some(id) = id.filter(|_| entry.path().is_dir()) else {
            continue;
        };
        let kept = policy.map(names).unwrap_or_default();
        let dir = policy_dir(dir, id);
        for file in entries(&dir)? {
            let path = file.path();
            let name = file.file_name().to_string_lossy().into_owned();
            let is_damaged = path.extension().is_some_and(|extension| extension == DAMAGED);
            let stays = kept.contains(&name) || (is_damaged && policy.is_some());
            if !stays {
                tracing::info!(file = %path.display(), "removing what an unfinished write left");
                disk.remove(&path).map_err(ManifestError::of("remove", &path))?;
            }
        }
        if policy.is_none() {
            // What is not ours may be in it; then it stays.
            let _ = std::fs::remove_dir(&dir);
        }
    }
    Ok(())
}

/// The names of all files of a policy.
fn names(policy: &PolicyEntry) -> HashSet<String> {
    let nowhere = Path::new("");
    let files =
        policy.files.iter().flat_map(|file| [file.path(nowhere), file.sidecar_path(nowhere)]);
    let names = files.map(|path| path.display().to_string());
    names.chain([series_log::NAME.to_owned()]).collect()
}

fn entries(dir: &Path) -> Result<Vec<DirEntry>, ManifestError> {
    let entries = match std::fs::read_dir(dir) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries,
    };
    let entries = entries.and_then(Iterator::collect);
    entries.map_err(ManifestError::of("read", dir))
}
