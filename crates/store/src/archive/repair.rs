//! What becomes of damaged files: a sidecar is made anew; a Parquet file stays where it is, and
//! what of it can't be read is written down in the manifest, from where answers say it.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::PoisonError;

use crate::archive::{Archive, FindNames, RewriteError, policy_dir};
use crate::file::lost::{Diagnosis, Lost, diagnose};
use crate::file::{FileError, FileInfo, Loss, Nameless, rebuild_sidecar};
use crate::manifest::{DamagedFile, Manifest, ManifestError};
use crate::tombstone::Active;

/// What was found of a file.
struct Finding {
    lost: Option<Lost>,
    loss: Option<Loss>,
    nameless: bool,
    /// The length of a sidecar that was made anew.
    sidecar_bytes: Option<u64>,
}

impl Finding {
    fn lost(lost: Lost, loss: Loss) -> Self {
        Self { lost: Some(lost), loss: Some(loss), nameless: false, sidecar_bytes: None }
    }
}

impl Archive {
    /// Looks at every byte of the files that scans found damaged since this was last called: makes
    /// damaged sidecars anew and writes down what is lost. Gives the number of files of which
    /// something is.
    ///
    /// # Errors
    /// When the manifest or a sidecar can't be written; what is left to do is remembered.
    pub fn repair(&self, names: FindNames<'_>) -> Result<usize, RewriteError> {
        // Who waits here finds the work done.
        let _repairing = self.repairing.lock().unwrap_or_else(PoisonError::into_inner);
        let damage = self.open.take_damage();
        if damage.is_empty() {
            return Ok(0);
        }
        let (mut found, mut later) = (BTreeMap::new(), None);
        let version = self.version();
        for (policy, entry) in &version.manifest.policies {
            let damaged = entry.files.iter().filter(|file| damage.contains_key(&file.number));
            for info in damaged {
                match self.examine(*policy, info, names) {
                    Ok(finding) => {
                        found.insert(info.number, finding);
                    }
                    // The disk is full, or there are too many open files.
                    Err(error) => {
                        let what = damage.get(&info.number).map_or("", String::as_str);
                        self.open.note_damage(info.number, what);
                        later = Some(error);
                    }
                }
            }
        }
        let written = match found.is_empty() {
            true => Ok(()),
            false => self.change(|manifest| write_down(manifest, &found)).map(drop),
        };
        if let Err(error) = written {
            for (number, what) in &damage {
                self.open.note_damage(*number, what);
            }
            return Err(error.into());
        }
        // Only now: who leaves out what is lost finds it said in the manifest.
        for (number, finding) in &found {
            self.open.forget(*number);
            self.open.set_lost(*number, finding.lost.clone());
        }
        let lost = found.values().filter(|finding| finding.lost.is_some()).count();
        later.map_or(Ok(lost), |error| Err(error.into()))
    }

    fn examine(
        &self,
        policy: u64,
        info: &FileInfo,
        names: FindNames<'_>,
    ) -> Result<Finding, FileError> {
        let dir = policy_dir(&self.dir, policy);
        match diagnose(&dir, info)? {
            Diagnosis::Intact => {
                tracing::warn!(file = %info.name(), "a file of the store can be read after all");
                Ok(Finding { lost: None, loss: None, nameless: false, sidecar_bytes: None })
            }
            Diagnosis::Damaged(lost, loss) => Ok(Finding::lost(lost, loss)),
            Diagnosis::Sidecar(what) => self.with_new_sidecar((policy, &dir), info, names, &what),
        }
    }

    fn with_new_sidecar(
        &self,
        (policy, dir): (u64, &Path),
        info: &FileInfo,
        names: FindNames<'_>,
        what: &str,
    ) -> Result<Finding, FileError> {
        let all = |what: String| Finding::lost(Lost::All, Loss::all(info, what));
        let Some(known) = names(policy) else {
            return Ok(all(what.to_owned()));
        };
        let (bytes, mut nameless) = match rebuild_sidecar(&self.disk, dir, info, &*known) {
            Ok(rebuilt) => rebuilt,
            Err(error) if error.is_damage() => return Ok(all(error.to_string())),
            Err(error) => return Err(error),
        };
        tracing::warn!(file = %info.name(), "its damaged sidecar was made anew");
        // Those of series that were dropped are missing rightly. What was dropped while the names
        // were looked up is among what was deleted by now.
        let deleted = names(policy).map(|names| names.deleted()).unwrap_or_default();
        let version = self.version();
        let in_files = version.policies.get(&policy);
        let in_files = in_files.into_iter().flat_map(|policy| policy.tombstones.iter());
        let tombstones: Vec<&Active> = in_files.chain(deleted.iter()).collect();
        nameless.retain(|run| !is_deleted(info, run, &tombstones));
        let loss = Nameless::loss(&nameless);
        Ok(Finding { lost: None, nameless: loss.is_some(), loss, sidecar_bytes: Some(bytes) })
    }

    /// Writes down that the names of series are lost.
    ///
    /// # Errors
    /// When the manifest can't be written.
    pub(crate) fn note_nameless(&self, losses: &[(FileInfo, Loss)]) -> Result<(), ManifestError> {
        if losses.is_empty() {
            return Ok(());
        }
        let finding = |(info, loss): &(FileInfo, Loss)| {
            let loss = Some(loss.clone());
            (info.number, Finding { lost: None, loss, nameless: true, sidecar_bytes: None })
        };
        let found: BTreeMap<u64, Finding> = losses.iter().map(finding).collect();
        self.change(|manifest| write_down(manifest, &found)).map(drop)
    }

    /// Writes down that all of some files is lost.
    pub(super) fn give_up(&self, files: Vec<(FileInfo, String)>) -> Result<(), ManifestError> {
        let finding = |(info, what): (FileInfo, String)| {
            (info.number, Finding::lost(Lost::All, Loss::all(&info, what)))
        };
        let found: BTreeMap<u64, Finding> = files.into_iter().map(finding).collect();
        self.change(|manifest| write_down(manifest, &found))?;
        for number in found.keys() {
            self.open.set_lost(*number, Some(Lost::All));
        }
        Ok(())
    }
}

fn is_deleted(info: &FileInfo, run: &Nameless, tombstones: &[&Active]) -> bool {
    let hits =
        tombstones.iter().filter(|of| info.is_hit_by(&of.tombstone) && of.matches(&run.tags));
    run.time.is_covered_by(hits.map(|hit| hit.tombstone.time).collect())
}

fn write_down(manifest: &mut Manifest, found: &BTreeMap<u64, Finding>) {
    for entry in manifest.policies.values_mut() {
        for file in &mut entry.files {
            let Some(finding) = found.get(&file.number) else { continue };
            let at = entry.damaged.iter().position(|known| known.info.number == file.number);
            if let Some(bytes) = finding.sidecar_bytes {
                file.sidecar_bytes = bytes;
            }
            let known = at.map(|at| entry.damaged.swap_remove(at));
            let new = finding.loss.clone().map(|loss| DamagedFile {
                nameless: finding.nameless,
                ..DamagedFile::in_place(file, loss)
            });
            entry.damaged.extend(told(known, new));
        }
    }
}

/// What is said of a file, by what was known and what was found: names do not come back by
/// themselves, and what was accepted stays so unless more is lost now.
fn told(known: Option<DamagedFile>, new: Option<DamagedFile>) -> Option<DamagedFile> {
    let mut new = match (new, &known) {
        (None, _) => return known.filter(|known| known.nameless),
        (Some(new), Some(known)) if known.nameless && known.points() >= new.points() => {
            return Some(known.clone());
        }
        (Some(new), _) => new,
    };
    if let Some(known) = &known {
        new.nameless |= known.nameless;
        new.accepted = known.accepted && new.points() <= known.points();
    }
    if !new.accepted {
        tell(&new);
    }
    Some(new)
}

fn tell(damaged: &DamagedFile) {
    tracing::error!(
        file = %damaged.info.name(),
        measurement = %damaged.info.measurement,
        points = damaged.points(),
        what = %damaged.what,
        "a file of the store is damaged: points are missing from answers"
    );
}
