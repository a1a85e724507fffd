//! The files of a store and the manifest that lists them, changed together by one rename.

mod accept;
mod missing;
mod open;
mod repair;
mod rewrite;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use disk::Disk;

use crate::file::{OpenFiles, StoredFile};
use crate::manifest::{Manifest, ManifestError, PolicyEntry};
use crate::tombstone::Active;

pub use accept::{AcceptError, accept};
pub use missing::Missing;
pub use rewrite::{FindNames, RewriteError};

/// Bytes of memory for metadata and sidecars of open files.
const OPEN_BYTES: usize = 64 << 20;

/// The files of one store.
pub struct Archive {
    dir: PathBuf,
    disk: Disk,
    open: Arc<OpenFiles>,
    version: ArcSwap<Version>,
    /// Held while the manifest is changed.
    changing: Mutex<()>,
    /// Held while damaged files are looked at.
    repairing: Mutex<()>,
    next_file: AtomicU64,
    is_uncertain: AtomicBool,
    /// Locked for as long as the store is open.
    _lock: File,
}

impl std::fmt::Debug for Archive {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Archive").field("dir", &self.dir).finish_non_exhaustive()
    }
}

/// The files at one moment: they stay as long as this does.
#[derive(Debug, Default)]
pub struct Version {
    /// What is on the disk.
    pub manifest: Manifest,
    /// By the ids of the policies.
    pub policies: HashMap<u64, Arc<PolicyVersion>>,
}

/// The files of a policy at one moment.
#[derive(Debug, Default)]
pub struct PolicyVersion {
    /// By measurement; those of a measurement in the order of their positions, the oldest first.
    pub files: BTreeMap<String, Vec<Arc<StoredFile>>>,
    /// What was deleted but may still be in the files.
    pub tombstones: Arc<[Active]>,
    /// What can't be read and is missing from answers, for who asks; not what an operator has
    /// accepted.
    pub missing: Vec<Missing>,
    /// The files that are damaged, also where that was accepted: none is joined with others.
    pub damaged: HashSet<u64>,
}

impl Archive {
    /// The files as they are now.
    pub fn version(&self) -> Arc<Version> {
        self.version.load_full()
    }

    /// How often readers have met damage: an error of one that read meanwhile may be one of damage.
    pub fn damage_met(&self) -> u64 {
        self.open.met()
    }

    /// The file system it is on.
    pub fn disk(&self) -> &Disk {
        &self.disk
    }

    /// The directory of a policy; made when it is missing.
    ///
    /// # Errors
    /// When it can't be made.
    pub fn policy_dir(&self, policy: u64) -> Result<PathBuf, ManifestError> {
        let dir = policy_dir(&self.dir, policy);
        self.disk.create_dir(&dir).map_err(ManifestError::of("make", &dir))?;
        Ok(dir)
    }

    /// The number of a new file, never given before.
    pub fn take_number(&self) -> u64 {
        self.next_file.fetch_add(1, Ordering::Relaxed)
    }

    /// Changes what the store consists of: at once, or not at all. Files that are new must be
    /// durable but for their directories; those that are no longer listed are removed as soon as
    /// no snapshot has them.
    ///
    /// # Errors
    /// When the manifest can't be written: then nothing has changed, but the new files are the
    /// caller's to remove ([`Archive::discard`]). After [`ManifestError::Uncertain`] nothing may be
    /// removed, and every later change fails.
    pub fn change(&self, edit: impl FnOnce(&mut Manifest)) -> Result<Arc<Version>, ManifestError> {
        let _changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        if self.is_uncertain.load(Ordering::Acquire) {
            return Err(ManifestError::Uncertain);
        }
        let old = self.version();
        let mut manifest = old.manifest.clone();
        edit(&mut manifest);
        manifest.next_file = self.next_file.load(Ordering::Relaxed);
        tidy(&mut manifest);
        for (id, entry) in &manifest.policies {
            let is_new = old.manifest.policies.get(id).is_none_or(|old| {
                old.series != entry.series
                    || entry.files.iter().any(|file| !old.files.contains(file))
            });
            let dir = policy_dir(&self.dir, *id);
            if is_new && dir.is_dir() {
                self.disk.sync_dir(&dir).map_err(ManifestError::of("sync", &dir))?;
            }
        }
        if let Err(error) = manifest.write(&self.disk, &self.dir) {
            let is_uncertain = matches!(error, ManifestError::Uncertain);
            self.is_uncertain.fetch_or(is_uncertain, Ordering::AcqRel);
            return Err(error);
        }
        let new = Arc::new(self.versioned(manifest, &old));
        self.version.store(new.clone());
        self.doom_missing(&old, &new);
        Ok(new)
    }

    /// Removes a new file that no manifest lists and none will.
    pub fn discard(&self, policy: u64, file: &crate::file::FileInfo) {
        let dir = policy_dir(&self.dir, policy);
        // What can't be removed now is removed by the next start.
        let _ = self.disk.remove(&file.path(&dir));
        let _ = self.disk.remove(&file.sidecar_path(&dir));
    }

    /// What `manifest` lists, with the files that `old` already has.
    fn versioned(&self, manifest: Manifest, old: &Version) -> Version {
        let policies = manifest.policies.iter().map(|(id, entry)| {
            let before = old.policies.get(id).zip(old.manifest.policies.get(id));
            let policy = match before {
                Some((policy, before)) if before == entry => policy.clone(),
                before => {
                    Arc::new(self.policy_version(*id, entry, before.map(|(policy, _)| policy)))
                }
            };
            (*id, policy)
        });
        let policies = policies.collect();
        Version { manifest, policies }
    }

    fn policy_version(
        &self,
        id: u64,
        entry: &PolicyEntry,
        old: Option<&Arc<PolicyVersion>>,
    ) -> PolicyVersion {
        let dir = policy_dir(&self.dir, id);
        let old = old.into_iter().flat_map(|old| old.files.values().flatten());
        let known: HashMap<u64, &Arc<StoredFile>> =
            old.map(|file| (file.info.number, file)).collect();
        let mut policy = PolicyVersion::default();
        for info in &entry.files {
            let file = known.get(&info.number).map_or_else(
                || Arc::new(StoredFile::new(&dir, info.clone(), &self.disk, &self.open)),
                |file| Arc::clone(file),
            );
            policy.files.entry(info.measurement.clone()).or_default().push(file);
        }
        for files in policy.files.values_mut() {
            files.sort_by_key(|file| (file.info.positions, file.info.number));
        }
        // A pattern that is none can't have been written by this program; the deletion it stands
        // for is then not seen, rather than all others with it.
        let active = entry.tombstones.iter().filter_map(|t| Active::new(t.clone()).ok());
        policy.tombstones = active.collect();
        policy.missing = entry.damaged.iter().filter(|of| of.is_told()).map(Missing::of).collect();
        let in_place = entry.damaged.iter().filter(|damaged| damaged.in_place);
        policy.damaged = in_place.map(|damaged| damaged.info.number).collect();
        policy
    }

    fn doom_missing(&self, old: &Version, new: &Version) {
        for (id, policy) in &old.policies {
            let entry = new.manifest.policies.get(id);
            let kept: Vec<u64> = entry
                .into_iter()
                .flat_map(|entry| entry.files.iter().map(|file| file.number))
                .collect();
            let kept: HashSet<u64> = kept.into_iter().collect();
            for file in policy.files.values().flatten() {
                if !kept.contains(&file.info.number) {
                    file.doom();
                }
            }
            if entry.is_none() {
                let log = policy_dir(&self.dir, *id).join(crate::series_log::NAME);
                let _ = self.disk.remove(&log);
            }
        }
    }
}

/// Removes what has no effect any more: files wholly deleted, what was missing of them, and
/// tombstones that hit none.
fn tidy(manifest: &mut Manifest) {
    for entry in manifest.policies.values_mut() {
        let tombstones = &entry.tombstones;
        entry
            .files
            .retain(|file| !tombstones.iter().any(|tombstone| file.is_covered_by(tombstone)));
        let files = &entry.files;
        let is_left = |number: u64| files.iter().any(|file| file.number == number);
        entry.damaged.retain(|damaged| !damaged.in_place || is_left(damaged.info.number));
        entry.tombstones.retain(|tombstone| files.iter().any(|file| file.is_hit_by(tombstone)));
    }
}

/// The directory of a policy's files.
pub(crate) fn policy_dir(dir: &Path, policy: u64) -> PathBuf {
    dir.join("data").join(policy.to_string())
}
