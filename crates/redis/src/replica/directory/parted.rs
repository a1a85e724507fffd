//! A generation whose base was taken beside the stream: its increments begin within those of the
//! current one.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};

use disk::FileError;

use super::super::lines::{Id, Line};
use super::super::manifest::{BaseSum, CURRENT, GenerationFile, Manifest};
use super::{Directory, DirectoryError};

/// What a file's name ends with until it is whole.
pub const NEW: &str = ".new";
/// What a base is called while it comes.
pub const NEW_BASE: &str = "appendonly.aof.base.rdb.new";

/// Where the increments were parted for a base, and what its generation will consist of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NextGeneration {
    pub base: GenerationFile,
    /// The files that have the stream from the base's offset to where it was parted, and what
    /// takes the place of each in the base's generation: the first one's end, and the others whole.
    pub between: Vec<(PathBuf, GenerationFile)>,
    /// The increments from this number on come behind that.
    pub since: u64,
}

impl Directory {
    /// Sets apart what a generation whose base has this offset needs. The increment that is open
    /// is closed with that, so its end counts with what lies between.
    ///
    /// # Errors
    /// The current generation begins later, or its files can't be read.
    pub fn part(&mut self, offset: u64) -> Result<NextGeneration, DirectoryError> {
        let mut between = Vec::new();
        for part in self.manifest.increments.iter().rev() {
            let path = self.path.join(&part.name);
            let begins = begin_of(&path)?;
            between.push(path);
            if begins.is_some_and(|begins| begins <= offset) {
                break;
            }
            if between.len() == self.manifest.increments.len() {
                return Err(DirectoryError::TooOld);
            }
        }
        between.reverse();
        let base = GenerationFile::base(self.next);
        let numbers = self.next + 1..;
        let between: Vec<_> = between
            .into_iter()
            .zip(numbers)
            .map(|(path, n)| (path, GenerationFile::increment(n)))
            .collect();
        self.next += 1 + between.len() as u64;
        Ok(NextGeneration { base, between, since: self.next })
    }

    /// Has a base that was taken beside the stream take the current one's place. All that it
    /// consists of is synced, and has names that end with [`NEW`].
    ///
    /// # Errors
    /// The file system refuses; the current generation stays.
    pub fn rewrite(&mut self, parted: NextGeneration, sum: BaseSum) -> Result<(), FileError> {
        let NextGeneration { base, between, since } = parted;
        let parts: Vec<GenerationFile> = between.into_iter().map(|(_, part)| part).collect();
        let rename = |from: PathBuf, part: &GenerationFile| {
            let renamed = self.disk.rename(&from, &self.path.join(&part.name));
            renamed.map_err(FileError::of("rename", &from))
        };
        rename(self.path.join(NEW_BASE), &base)?;
        for part in &parts {
            rename(self.path.join(format!("{}{NEW}", part.name)), part)?;
        }
        self.disk.sync_dir(&self.path).map_err(FileError::of("sync", &self.path))?;
        let is_since = |part: &&GenerationFile| part.number >= since;
        let mut former = self.manifest.clone();
        former.increments.retain(|part| !is_since(&part));
        let mut increments = parts;
        increments.extend(self.manifest.increments.iter().filter(is_since).cloned());
        let manifest = Manifest { is_ours: true, base: Some(base), sum: Some(sum), increments };
        self.put(&format!("generation.{}.manifest", former.number()), &former.text())?;
        self.put(CURRENT, &manifest.text())?;
        self.manifest = manifest;
        Ok(())
    }

    /// Removes what was made of a base that does not take the current one's place. Best effort: it
    /// is removed at the next start else.
    pub fn give_up(&self, parted: Option<&NextGeneration>) {
        let between = parted.map_or(&[][..], |parted| &parted.between);
        let names = between.iter().map(|(_, part)| format!("{}{NEW}", part.name));
        for name in names.chain([NEW_BASE.to_owned()]) {
            let _ = fs::remove_file(self.path.join(name));
        }
    }
}

/// The offset that an increment begins at, where its first line says so.
///
/// # Errors
/// It can't be read.
pub fn begin_of(path: &Path) -> Result<Option<u64>, FileError> {
    Ok(history_of(path)?.map(|(_, offset)| offset))
}

/// The same with whose history it is.
///
/// # Errors
/// It can't be read.
pub fn history_of(path: &Path) -> Result<Option<(Id, u64)>, FileError> {
    let file = File::open(path).map_err(FileError::of("open", path))?;
    let mut line = Vec::new();
    let mut head = BufReader::new(std::io::Read::take(file, 256));
    head.read_until(b'\n', &mut line).map_err(FileError::of("read", path))?;
    Ok(match Line::read(line.strip_suffix(b"\r\n").unwrap_or_default()) {
        Some(Line::Begin { id, offset, .. }) => Some((id, offset)),
        _ => None,
    })
}
