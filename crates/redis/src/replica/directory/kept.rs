//! Which older generations are kept, and for how long.

use std::collections::HashSet;
use std::fs;
use std::time::{Duration, SystemTime};

use disk::FileError;

use super::super::manifest::{self, CURRENT, GenerationFile, Manifest, is_manifest};
use super::parted::NEW;
use super::{Directory, DirectoryError, names, read_manifest};

/// What is kept of older generations, beside the current one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetentionLimits {
    /// So many that are not pinned.
    pub count: usize,
    /// For so long; zero is for ever.
    pub age: Duration,
    /// So many bytes of files that only they need; 0 is any number.
    pub bytes: u64,
    /// So many are pinned at most.
    pub pinned: usize,
}

impl RetentionLimits {
    /// So many, of any age and size.
    pub fn count(count: usize) -> Self {
        Self { count, age: Duration::ZERO, bytes: 0, pinned: usize::MAX }
    }

    /// How many of these are kept, from the newest on.
    fn of(&self, older: &[OlderGeneration]) -> usize {
        let mut bytes = 0_u64;
        let mut is_kept = |(number, of): (usize, &OlderGeneration)| {
            bytes = bytes.saturating_add(of.bytes);
            number < self.count
                && (self.age.is_zero() || of.age <= self.age)
                && (self.bytes == 0 || bytes <= self.bytes)
        };
        older.iter().enumerate().take_while(|of| is_kept(*of)).count()
    }
}

/// An older generation that is not pinned.
#[derive(Debug)]
struct OlderGeneration {
    /// The name of its manifest's file.
    name: String,
    /// For how long it has not been the current one.
    age: Duration,
    /// Bytes of the files that the current one does not name.
    bytes: u64,
}

impl Directory {
    /// The generations that no manifest names, where the current one is gone: each base that an
    /// increment came after. One without was never whole.
    pub(super) fn unnamed(&self) -> Result<Vec<Manifest>, DirectoryError> {
        if self.manifest.base.is_some() {
            return Ok(Vec::new());
        }
        let (all, (named, _)) = (names(&self.path)?, self.named()?);
        let left = all.into_iter().filter(|name| !named.contains(name));
        let parts = left.filter_map(|name| Some((manifest::number_of(&name)?, name)));
        let mut parts: Vec<(u64, String)> = parts.collect();
        parts.sort_unstable();
        let mut found: Vec<Manifest> = Vec::new();
        for (number, name) in parts {
            let is_base = manifest::number_of_base(&name).is_some();
            let part = GenerationFile { name, number };
            match found.last_mut() {
                _ if is_base => {
                    let (base, increments) = (Some(part), Vec::new());
                    found.push(Manifest { is_ours: true, base, sum: None, increments });
                }
                Some(generation) => generation.increments.push(part),
                None => {}
            }
        }
        found.retain(|generation| !generation.increments.is_empty());
        Ok(found)
    }

    /// Pins the generations that no manifest names, where the current one is gone.
    ///
    /// # Errors
    /// The file system refuses.
    pub fn pin_unnamed(&self) -> Result<(), DirectoryError> {
        for generation in self.unnamed()? {
            self.put(&format!("pinned.{}.manifest", generation.number()), &generation.text())?;
        }
        Ok(())
    }

    /// Whether one more may be pinned. Those that are pinned already are the older ones, so what
    /// was there before a master began to fail again and again is kept.
    pub(super) fn has_room_to_pin(&self) -> Result<bool, FileError> {
        let is_pinned = |name: &&String| is_manifest(name) && name.starts_with("pinned.");
        let pinned = names(&self.path)?.iter().filter(is_pinned).count();
        let has_room = pinned < self.keep.pinned;
        if !has_room {
            tracing::error!(
                dir = %self.path.display(),
                pinned,
                "as many generations are pinned as may be, so this one is kept as any other: \
                 remove the manifests of those that are not needed"
            );
        }
        Ok(has_room)
    }

    /// What the manifests of older and pinned generations name, and the first of them that is
    /// damaged, so that what it named is not known.
    fn named(&self) -> Result<(HashSet<String>, Option<String>), DirectoryError> {
        let (mut named, mut damaged) = (HashSet::new(), None);
        let is_older = |name: &&String| is_manifest(name) && *name != CURRENT;
        for name in names(&self.path)?.iter().filter(is_older) {
            match read_manifest(&self.path.join(name)) {
                Err(error @ DirectoryError::Manifest { .. }) => {
                    damaged.get_or_insert(error.to_string());
                }
                manifest => {
                    let manifest = manifest?.unwrap_or_default();
                    named.extend(manifest.names().map(str::to_owned));
                }
            }
        }
        Ok((named, damaged))
    }

    /// Removes the oldest generations beyond those that are kept, and, where there is a current
    /// one, what no manifest names.
    ///
    /// # Errors
    /// The file system refuses.
    pub fn prune(&self) -> Result<(), DirectoryError> {
        let older = self.older()?;
        for of in older.get(self.keep.of(&older)..).unwrap_or_default().iter().rev() {
            self.remove(&of.name)?;
        }
        self.sweep()
    }

    /// Removes the oldest generation, whatever is to be kept: the disk is full. Gives its
    /// manifest's name; `None` where there is none but the current one and those that are pinned.
    ///
    /// # Errors
    /// The file system refuses.
    pub fn make_room(&self) -> Result<Option<String>, DirectoryError> {
        let Some(oldest) = self.older()?.pop() else { return Ok(None) };
        self.remove(&oldest.name)?;
        self.sweep()?;
        Ok(Some(oldest.name))
    }

    /// Removes what a process that died was making.
    pub fn sweep_new(&self) -> Result<(), DirectoryError> {
        let is_new = |name: &&String| name.starts_with(manifest::PREFIX) && name.ends_with(NEW);
        for name in names(&self.path)?.iter().filter(is_new) {
            self.remove(name)?;
        }
        Ok(())
    }

    /// Removes what no manifest names, where there is a current generation.
    fn sweep(&self) -> Result<(), DirectoryError> {
        if self.manifest.base.is_none() {
            return Ok(());
        }
        let (mut named, damaged) = self.named()?;
        if let Some(why) = damaged {
            tracing::error!(
                "{why}: no file is removed before that manifest is, because it may name any"
            );
            return Ok(());
        }
        named.extend(self.manifest.names().map(str::to_owned));
        for name in names(&self.path)? {
            if manifest::number_of(&name).is_some() && !named.contains(&name) {
                self.remove(&name)?;
            }
        }
        Ok(())
    }

    /// The older generations that are not pinned, from the newest. One of the current base's
    /// number is none: a process died before another base took that one's place.
    fn older(&self) -> Result<Vec<OlderGeneration>, DirectoryError> {
        let number = |name: &str| {
            name.strip_prefix("generation.")?.strip_suffix(".manifest")?.parse::<u64>().ok()
        };
        let all = names(&self.path)?.into_iter();
        let mut all: Vec<_> = all.filter_map(|name| Some((number(&name)?, name))).collect();
        all.sort_unstable_by(|one, other| other.cmp(one));
        let current: HashSet<&str> = self.manifest.names().collect();
        let now = SystemTime::now();
        let mut found = Vec::new();
        for (number, name) in all {
            if self.manifest.base.is_some() && number == self.manifest.number() {
                self.remove(&name)?;
                continue;
            }
            let path = self.path.join(&name);
            let since = fs::metadata(&path).and_then(|of| of.modified()).unwrap_or(now);
            let age = now.duration_since(since).unwrap_or_default();
            // One that is damaged goes in its turn as any other.
            let manifest = match read_manifest(&path) {
                Err(DirectoryError::Manifest { .. }) => Manifest::default(),
                manifest => manifest?.unwrap_or_default(),
            };
            let own = manifest.names().filter(|name| !current.contains(name));
            let len = |name: &str| fs::metadata(self.path.join(name)).map_or(0, |of| of.len());
            found.push(OlderGeneration { bytes: own.map(len).sum(), name, age });
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{OlderGeneration, RetentionLimits};

    #[test]
    fn older_generations_are_kept_by_count_age_and_bytes() {
        let of = |hours: u64, bytes| {
            let age = Duration::from_secs(hours * 3600);
            OlderGeneration { name: String::new(), age, bytes }
        };
        let older = [of(1, 10), of(25, 10), of(49, 10)];
        let keep = |count, hours: u64, bytes| {
            let age = Duration::from_secs(hours * 3600);
            RetentionLimits { count, age, bytes, pinned: 8 }.of(&older)
        };
        assert_eq!([keep(9, 0, 0), keep(2, 0, 0), keep(0, 0, 0)], [3, 2, 0]);
        assert_eq!([keep(9, 30, 0), keep(9, 1, 0)], [2, 1]);
        assert_eq!([keep(9, 0, 25), keep(9, 0, 9), keep(9, 0, 30)], [2, 0, 3]);
        assert_eq!(keep(9, 30, 15), 1, "the first limit that is reached");
    }
}
