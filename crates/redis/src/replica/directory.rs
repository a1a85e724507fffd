//! The directory of one master: which files are a generation, and how one takes another's place.
//!
//! `appendonlydir` is what a server loads, with `dir` one level up. The files of the current
//! generation are named in its `appendonly.aof.manifest`, those of an older one in
//! `generation.N.manifest`, or in `pinned.N.manifest` where nothing of it is ever removed.

mod distrust;
mod kept;
mod lengths;
mod parted;

use std::fs::{self, File};
use std::io::{BufReader, ErrorKind, Read as _};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use disk::{Disk, FileError};

pub use distrust::condemned;
use distrust::{SYNC_FAILED, clear, spare};
pub use kept::RetentionLimits;
pub use lengths::mismatch;
pub use parted::{NEW, NEW_BASE, NextGeneration, begin_of, history_of};

use super::manifest::{self, BaseSum, CURRENT, GenerationFile, Manifest, is_manifest};
use super::rdb::{HEAD_LEN, is_of_nothing};
use super::scan::{AofPosition, ScannedIncrement, Tail, scan};

/// Where a server looks for its files by default, below its own directory.
pub const APPEND_DIR: &str = "appendonlydir";
/// What holds the directory for one process.
const LOCK: &str = "weir.lock";
/// Why a directory can't be used.
#[derive(Debug, thiserror::Error)]
pub enum DirectoryError {
    /// Another process has it.
    #[error("{0} is in use by another Weir: give each its own redis.aof.dir")]
    InUse(PathBuf),
    /// There is no base that came with too few keys.
    #[error("{0}: nothing waits to be accepted")]
    NothingAwaited(PathBuf),
    /// There are no files of a master, nor below.
    #[error("{0} has no append-only file: name a master's directory, below redis.aof.dir")]
    NoFiles(PathBuf),
    /// A base is of no use.
    #[error("it is of an offset before the current base's")]
    TooOld,
    /// The file system refused.
    #[error(transparent)]
    Io(#[from] FileError),
    /// A manifest is none, or is damaged.
    #[error("{path}: {why}")]
    Manifest {
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
}

/// A master's directory, held for this process.
#[derive(Debug)]
pub struct Directory {
    path: PathBuf,
    pub disk: Disk,
    manifest: Manifest,
    /// Why the current manifest could not be read, where it is damaged.
    damage: Option<String>,
    /// The number of the next file.
    next: u64,
    /// Which older generations are kept.
    keep: RetentionLimits,
    _lock: File,
}

/// Whether the current generation can be continued, and where.
#[derive(Debug)]
pub enum CurrentGeneration {
    /// The directory has no generation yet.
    Nothing,
    /// The current generation can be continued here, in its last file.
    Whole(PathBuf, AofPosition, Tail),
    /// It can't be, for this reason: the next base goes beside it, and it is pinned.
    Unfit(String),
}

impl Directory {
    /// Makes or opens a master's directory and holds it.
    ///
    /// # Errors
    /// Another process has it, or the file system refuses.
    pub fn open(of_master: &Path, keep: RetentionLimits) -> Result<Self, DirectoryError> {
        let path = of_master.join(APPEND_DIR);
        let made: Vec<&Path> = of_master.ancestors().skip(1).filter(|dir| !is_there(dir)).collect();
        fs::create_dir_all(&path).map_err(FileError::of("make", &path))?;
        let lock = disk::hold(&of_master.join(LOCK))?;
        let lock = lock.ok_or_else(|| DirectoryError::InUse(of_master.to_owned()))?;
        let disk = Disk::of(of_master);
        // The master's directory, the one of all masters, and those above what was made for it.
        let above = of_master.ancestors().take(2).chain(made.iter().filter_map(|dir| dir.parent()));
        for dir in above.map(or_here) {
            disk.sync_dir(dir).map_err(FileError::of("sync", dir))?;
        }
        spare(&path);
        let (manifest, damage) = match read_manifest(&path.join(CURRENT)) {
            Ok(found) => (found.unwrap_or_default(), None),
            Err(DirectoryError::Manifest { why, .. }) => (Manifest::default(), Some(why)),
            Err(error) => return Err(error),
        };
        let numbers = names(&path)?.into_iter().filter_map(|name| manifest::number_of(&name));
        let named = manifest.base.iter().chain(&manifest.increments).map(|part| part.number);
        let last = numbers.chain(named).max().unwrap_or(0);
        let next = last.saturating_add(1);
        Ok(Self { path, disk, manifest, damage, next, keep, _lock: lock })
    }

    /// Looks at the current generation: at the lengths and the offsets of all files, and at the
    /// last one from its beginning to its end.
    ///
    /// # Errors
    /// The file system refuses.
    pub fn find(&self) -> Result<CurrentGeneration, DirectoryError> {
        if let Some(why) = &self.damage {
            return Ok(CurrentGeneration::Unfit(format!("its manifest is damaged: {why}")));
        }
        if self.manifest.base.is_none() && self.manifest.increments.is_empty() {
            return Ok(match self.unnamed()?.is_empty() {
                true => CurrentGeneration::Nothing,
                false => CurrentGeneration::Unfit("its manifest is gone".to_owned()),
            });
        }
        if !self.manifest.is_ours {
            return Ok(CurrentGeneration::Unfit(
                "a server has written its manifest since".to_owned(),
            ));
        }
        if self.path.join(SYNC_FAILED).exists() {
            return Ok(CurrentGeneration::Unfit("a sync of it has failed".to_owned()));
        }
        if let Some(why) = condemned(&self.path) {
            return Ok(CurrentGeneration::Unfit(why));
        }
        let (Some(_), Some(part)) = (&self.manifest.base, self.manifest.increments.last()) else {
            return Ok(CurrentGeneration::Unfit(
                "its manifest names no base or no increment".to_owned(),
            ));
        };
        if let Some(why) = mismatch(&self.path, &self.manifest)? {
            return Ok(CurrentGeneration::Unfit(why));
        }
        let path = self.path.join(&part.name);
        let file = File::open(&path).map_err(FileError::of("open", &path))?;
        let scanned = scan(&mut BufReader::with_capacity(1 << 20, file));
        Ok(match scanned {
            Ok(ScannedIncrement { end, tail: tail @ (Tail::None | Tail::Torn(_)), .. }) => {
                CurrentGeneration::Whole(path, end, tail)
            }
            Ok(ScannedIncrement { tail: Tail::Servers(len), .. }) => CurrentGeneration::Unfit(
                format!("a server has run with it since and written {len} bytes to {}", part.name),
            ),
            Ok(ScannedIncrement { tail: Tail::Damaged(at, why), .. }) => {
                CurrentGeneration::Unfit(format!("{} is damaged at byte {at}: {why}", part.name))
            }
            Err(error) => CurrentGeneration::Unfit(format!("{}: {error}", part.name)),
        })
    }

    /// Makes the file that a new base goes to.
    ///
    /// # Errors
    /// The file system refuses.
    pub fn new_base(&mut self) -> Result<(GenerationFile, PathBuf, File), FileError> {
        self.new_part(GenerationFile::base)
    }

    /// Makes a new increment's file.
    ///
    /// # Errors
    /// The file system refuses.
    pub fn new_increment(&mut self) -> Result<(GenerationFile, PathBuf, File), FileError> {
        self.new_part(GenerationFile::increment)
    }

    fn new_part(
        &mut self,
        of: fn(u64) -> GenerationFile,
    ) -> Result<(GenerationFile, PathBuf, File), FileError> {
        let part = of(self.next);
        let path = self.path.join(&part.name);
        let file = self.disk.make(&path)?;
        self.next = self.next.saturating_add(1);
        Ok((part, path, file))
    }

    /// Has an increment follow those that there are. It is synced already.
    ///
    /// # Errors
    /// The file system refuses.
    pub fn append(&mut self, part: GenerationFile) -> Result<(), FileError> {
        let mut manifest = self.manifest.clone();
        manifest.increments.push(part);
        self.put(CURRENT, &manifest.text())?;
        self.manifest = manifest;
        Ok(())
    }

    /// Has a base and its first increment, which are synced, take the current generation's place.
    /// What becomes of that one is `pin`'s.
    ///
    /// # Errors
    /// The file system refuses.
    pub fn replace(
        &mut self,
        (base, sum): (GenerationFile, BaseSum),
        first: GenerationFile,
        pin: Pin,
    ) -> Result<(), FileError> {
        let pinned = match pin {
            Pin::No => false,
            Pin::WithinLimit => self.has_room_to_pin()?,
            Pin::Always => true,
        };
        let current = self.path.join(CURRENT);
        let former = match fs::read_to_string(&current) {
            Ok(text) if Manifest::read(&text).is_ok_and(|of| of.base.is_some()) => text,
            Err(error)
                if ![ErrorKind::NotFound, ErrorKind::InvalidData].contains(&error.kind()) =>
            {
                return Err(FileError::of("read", &current)(error));
            }
            // Removed or damaged while it was in use.
            _ => self.manifest.text(),
        };
        if self.manifest.names().next().is_some() {
            let number = self.manifest.number();
            let kind = if pinned { "pinned" } else { "generation" };
            self.put(&format!("{kind}.{number}.manifest"), &former)?;
        }
        let (base, sum, increments) = (Some(base), Some(sum), vec![first]);
        let manifest = Manifest { is_ours: true, base, sum, increments };
        self.put(CURRENT, &manifest.text())?;
        (self.manifest, self.damage) = (manifest, None);
        // Of the former generation.
        clear(&self.disk, &self.path);
        Ok(())
    }

    /// Writes the current manifest as it was, where somebody has removed or damaged it.
    ///
    /// # Errors
    /// The file system refuses.
    pub fn restore_manifest(&self) -> Result<(), FileError> {
        match self.manifest.base {
            Some(_) => self.put(CURRENT, &self.manifest.text()),
            None => Ok(()),
        }
    }

    /// Has the manifest say what its base must be, which one of an older version does not.
    ///
    /// # Errors
    /// The file system refuses.
    pub fn note_sum(&mut self, base: &str, sum: BaseSum) -> Result<(), FileError> {
        if self.manifest.sum.is_none()
            && self.manifest.base.as_ref().is_some_and(|of| of.name == base)
        {
            let manifest = Manifest { sum: Some(sum), ..self.manifest.clone() };
            self.put(CURRENT, &manifest.text())?;
            self.manifest = manifest;
        }
        Ok(())
    }

    /// Whether the current generation has a file of this name.
    pub fn is_of_current(&self, name: &str) -> bool {
        name == CURRENT || self.manifest.names().any(|of| of == name)
    }

    /// Writes a small file whole, or not at all.
    fn put(&self, name: &str, text: &str) -> Result<(), FileError> {
        self.disk.put(&self.path.join(name), text.as_bytes())
    }

    fn remove(&self, name: &str) -> Result<(), FileError> {
        let path = self.path.join(name);
        self.disk.remove(&path).map_err(FileError::of("remove", &path))
    }

    /// How many generations there are, the current one included, and how many are pinned.
    pub fn generations(&self) -> (u64, u64) {
        let mut names = names(&self.path).unwrap_or_default();
        names.retain(|name| is_manifest(name));
        let pinned = names.iter().filter(|name| name.starts_with("pinned.")).count();
        (names.len() as u64, pinned as u64)
    }

    /// Whether the current generation's base has any keys, as far as can be told.
    pub fn has_keys(&self) -> bool {
        let Some(base) = &self.manifest.base else { return false };
        let mut head = Vec::new();
        let read = File::open(self.path.join(&base.name))
            .and_then(|file| file.take(HEAD_LEN as u64).read_to_end(&mut head));
        read.is_err() || !is_of_nothing(&head)
    }

    /// When the current base was whole, in seconds since 1970; 0 where there is none.
    pub fn base_time(&self) -> u64 {
        let base = self.manifest.base.as_ref();
        let of = base.and_then(|part| fs::metadata(self.path.join(&part.name)).ok());
        let whole = of.and_then(|of| of.modified().ok()?.duration_since(UNIX_EPOCH).ok());
        whole.map_or(0, |whole| whole.as_secs())
    }

    /// Bytes of the current generation: its base, and its increments.
    pub fn sizes(&self) -> (u64, u64) {
        let len = |part: &GenerationFile| {
            fs::metadata(self.path.join(&part.name)).map_or(0, |of| of.len())
        };
        let base = self.manifest.base.as_ref().map_or(0, len);
        (base, self.manifest.increments.iter().map(len).sum())
    }

    /// The master's directory, which a server is started with.
    pub fn of_master(&self) -> &Path {
        self.path.parent().unwrap_or(&self.path)
    }

    /// Where the files are.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// What becomes of a generation whose place is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Pin {
    /// It is kept as any older one.
    No,
    /// Nothing of it is ever removed, unless as many are pinned as may be.
    WithinLimit,
    /// Nothing of it is ever removed: it has what was confirmed and the master lacks, and no other
    /// is pinned so before an operator has decided.
    Always,
}

/// Where the current generation of an `appendonlydir` ends, if it is one that can be gone on with.
///
/// # Errors
/// The file system refuses.
pub fn last_of(dir: &Path) -> Result<Option<AofPosition>, DirectoryError> {
    let manifest = read_manifest(&dir.join(CURRENT))?.unwrap_or_default();
    let Some(part) = manifest.increments.last() else { return Ok(None) };
    let path = dir.join(&part.name);
    let file = match File::open(&path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        file => file.map_err(FileError::of("open", &path))?,
    };
    let scanned = scan(&mut BufReader::with_capacity(1 << 20, file));
    Ok(scanned.ok().map(|scanned| scanned.end))
}

/// Reads a manifest; `None` where there is none.
///
/// # Errors
/// It can't be read, or is none.
pub fn read_manifest(path: &Path) -> Result<Option<Manifest>, DirectoryError> {
    let bytes = match fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(FileError::of("read", path)(error).into()),
    };
    let wrong = |why: String| DirectoryError::Manifest { path: path.to_owned(), why };
    let text = String::from_utf8(bytes).map_err(|error| wrong(error.to_string()))?;
    Manifest::read(&text).map(Some).map_err(|error| wrong(error.to_string()))
}

/// Whether a Weir that runs has a master's directory.
///
/// # Errors
/// The file system refuses.
pub fn is_held(of_master: &Path) -> Result<bool, DirectoryError> {
    Ok(disk::hold(&of_master.join(LOCK))?.is_none())
}

/// The manifests in an `appendonlydir`: the current one first, then the others from the newest
/// base to the oldest.
///
/// # Errors
/// The directory can't be read.
pub fn manifests(dir: &Path) -> Result<Vec<String>, FileError> {
    let mut found: Vec<String> = names(dir)?.into_iter().filter(|name| is_manifest(name)).collect();
    let number = |name: &str| name.split('.').nth(1).and_then(|number| number.parse::<u64>().ok());
    found.sort_by_key(|name| (name != CURRENT, std::cmp::Reverse(number(name)), name.clone()));
    Ok(found)
}

fn is_there(dir: &Path) -> bool {
    or_here(dir).exists()
}

/// A relative path's first directory is in the working directory.
fn or_here(dir: &Path) -> &Path {
    if dir.as_os_str().is_empty() { Path::new(".") } else { dir }
}

fn names(dir: &Path) -> Result<Vec<String>, FileError> {
    let entries = fs::read_dir(dir).map_err(FileError::of("read", dir))?;
    Ok(entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::{
        APPEND_DIR, BaseSum, CURRENT, CurrentGeneration, Directory, Pin, RetentionLimits,
        SYNC_FAILED,
    };

    #[test]
    fn no_more_generations_are_pinned_than_may_be_and_the_first_ones_stay() {
        let dir = tempfile::tempdir().unwrap();
        let keep = RetentionLimits { pinned: 2, ..RetentionLimits::count(1) };
        let mut directory = Directory::open(&dir.path().join("m"), keep).unwrap();
        for _ in 0..5 {
            let (base, first) = (directory.new_base().unwrap(), directory.new_increment().unwrap());
            let base = (base.0, BaseSum::default());
            directory.replace(base, first.0, Pin::WithinLimit).unwrap();
            directory.prune().unwrap();
        }
        let there = |name: &str| directory.path().join(name).exists();
        assert!(there("pinned.1.manifest") && there("pinned.3.manifest"));
        assert!(!there("pinned.5.manifest") && !there("generation.5.manifest"));
        assert!(there("generation.7.manifest"));
        assert!(there("appendonly.aof.1.base.rdb") && !there("appendonly.aof.5.base.rdb"));
        // Where the disk is full, the oldest goes, and nothing that is pinned or in force.
        let removed = directory.make_room().unwrap();
        assert_eq!(removed.as_deref(), Some("generation.7.manifest"));
        assert!(!there("appendonly.aof.7.base.rdb") && there("appendonly.aof.9.base.rdb"));
        assert_eq!(directory.make_room().unwrap(), None);
    }

    #[test]
    fn a_generation_without_its_manifest_is_pinned_and_one_never_whole_is_not() {
        for is_emptied in [false, true] {
            let dir = tempfile::tempdir().unwrap();
            let of_master = dir.path().join("files/m");
            let path = of_master.join(APPEND_DIR);
            fs::create_dir_all(&path).unwrap();
            let parts = [1, 3].map(|number| format!("appendonly.aof.{number}.base.rdb"));
            let increment = "appendonly.aof.2.incr.aof".to_owned();
            parts
                .iter()
                .chain([&increment])
                .for_each(|name| fs::write(path.join(name), "").unwrap());
            if is_emptied {
                fs::write(path.join(CURRENT), "").unwrap();
            }
            let directory = Directory::open(&of_master, RetentionLimits::count(1)).unwrap();
            let found = directory.find().unwrap();
            assert!(
                matches!(found, CurrentGeneration::Unfit(why) if why == "its manifest is gone")
            );
            directory.pin_unnamed().unwrap();
            directory.prune().unwrap();
            let pinned = fs::read_to_string(path.join("pinned.1.manifest")).unwrap();
            assert!(pinned.contains(&parts[0]) && pinned.contains(&increment));
            assert!(path.join(&parts[0]).exists() && path.join(&increment).exists());
            assert!(!path.join("pinned.3.manifest").exists());
            directory.distrust();
            assert!(path.join(SYNC_FAILED).exists());
        }
    }
}
