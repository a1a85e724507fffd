//! What becomes of damaged files: a sidecar is made anew, a Parquet file is set aside.

use std::path::Path;
use std::sync::Arc;

use crate::archive::{Archive, policy_dir};
use crate::compaction::CompactionError;
use crate::file::{FileError, FileInfo, Names, rebuild_sidecar};
use crate::manifest::{DamagedFile, ManifestError};

impl Archive {
    /// Deals with the files that scans found damaged since this was last called: makes damaged
    /// sidecars anew, sets damaged files aside. Gives the number of files set aside.
    ///
    /// # Errors
    /// When the manifest or a sidecar can't be written; what is left to do is remembered.
    pub fn repair(
        &self,
        names: &dyn Fn(u64) -> Option<Arc<dyn Names>>,
    ) -> Result<usize, CompactionError> {
        let damage = self.open.take_damage();
        let (mut aside, mut later) = (Vec::new(), None);
        let version = self.version();
        for (policy, entry) in &version.manifest.policies {
            let damaged = entry.files.iter().filter(|file| damage.contains_key(&file.number));
            for info in damaged {
                let dir = policy_dir(&self.dir, *policy);
                let what = damage.get(&info.number).cloned().unwrap_or_default();
                match names(*policy).map(|known| self.rebuild(&dir, info, &*known)) {
                    Some(Ok(())) => continue,
                    // The disk is full, or there are too many open files.
                    Some(Err(error)) if !error.is_damage() => {
                        self.open.note_damage(info.number, &what);
                        later = Some(error);
                        continue;
                    }
                    Some(Err(_)) | None => {}
                }
                aside.push((*policy, DamagedFile { info: info.clone(), what }));
            }
        }
        if !aside.is_empty() {
            self.put_aside(&aside)?;
        }
        later.map_or(Ok(aside.len()), |error| Err(error.into()))
    }

    fn rebuild(&self, dir: &Path, info: &FileInfo, names: &dyn Names) -> Result<(), FileError> {
        let rebuilt = rebuild_sidecar(&self.disk, dir, info, names);
        match &rebuilt {
            Ok(()) => {
                self.open.forget(info.number);
                tracing::warn!(file = %info.name(), "its damaged sidecar was made anew");
            }
            Err(error) => {
                tracing::error!(file = %info.name(), %error, "its sidecar can't be made anew");
            }
        }
        rebuilt
    }

    /// Takes files off the manifest and gives them another name.
    pub(super) fn put_aside(&self, files: &[(u64, DamagedFile)]) -> Result<(), ManifestError> {
        for (policy, damaged) in files {
            tracing::error!(
                file = %damaged.info.name(),
                measurement = %damaged.info.measurement,
                points = damaged.info.rows,
                policy,
                what = %damaged.what,
                "a damaged file of the store is set aside: its points are missing from answers"
            );
            // Renamed first, so that it is not removed when the manifest no longer lists it.
            let dir = policy_dir(&self.dir, *policy);
            for path in [damaged.info.path(&dir), damaged.info.sidecar_path(&dir)] {
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                let aside = path.with_file_name(format!("{name}.damaged"));
                if let Err(error) = self.disk.rename(&path, &aside)
                    && error.kind() != std::io::ErrorKind::NotFound
                {
                    return Err(ManifestError::of("rename", &path)(error));
                }
            }
        }
        self.change(|manifest| {
            for (policy, damaged) in files {
                if let Some(entry) = manifest.policies.get_mut(policy) {
                    entry.files.retain(|file| file.number != damaged.info.number);
                    entry.damaged.push(damaged.clone());
                }
            }
        })?;
        Ok(())
    }
}
