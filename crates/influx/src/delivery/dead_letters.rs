//! Points that a backend can never store, kept with the backend's words until someone decides.
//!
//! One file a backend, `NAME.jsonl`: a line of JSON each, so that `grep` and `jq` read it. A
//! letter is known by its record's position and the point's index in it, so that a point that
//! comes again after a restart is not kept twice. Whoever touches a file holds a lock on
//! `NAME.lock` meanwhile; the command line may therefore drop letters while Weir runs.

use std::collections::HashSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{MetadataExt, fchown};
use std::path::{Path, PathBuf};

use disk::{Disk, FileError};
use serde::Serialize;

pub use super::letter::{Id, IdError, Letter};

/// The longest line of a file that is read; a letter holds one point of at most 64 MiB.
const LETTER_BYTES_MAX: u64 = 256 << 20;

/// Why a file of dead letters could not be used.
#[derive(Debug, thiserror::Error)]
pub enum LetterError {
    /// There is no file for this backend.
    #[error("there are no dead letters of a backend {backend:?} in {dir}")]
    Unknown {
        /// The backend's name as given.
        backend: String,
        /// Where its file was looked for.
        dir: PathBuf,
    },
    /// Some letters had no room: the file would become larger than `dead-letters-max`.
    #[error("{path} is full: {max} bytes; replay or drop its letters, or raise dead-letters-max")]
    Full {
        /// The backend's file of dead letters.
        path: PathBuf,
        /// The limit in bytes.
        max: u64,
    },
    /// The file system refused.
    #[error(transparent)]
    Io(#[from] FileError),
}

/// Which letters of a backend are meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Selection {
    /// All letters of the backend.
    All,
    /// The letters that have these ids.
    These(HashSet<Id>),
}

impl Selection {
    /// Whether a letter is meant.
    pub fn holds(&self, id: Id) -> bool {
        match self {
            Self::All => true,
            Self::These(ids) => ids.contains(&id),
        }
    }
}

/// One backend's dead letters at a glance.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Summary {
    /// The backend's name in the configuration.
    pub backend: String,
    /// Letters, each one point.
    pub letters: u64,
    /// Lines that could not be read as a letter; they stay in the file.
    pub damaged: u64,
    /// The file's size in bytes.
    pub bytes: u64,
    /// When the oldest letter was found, in nanoseconds since 1970.
    pub oldest_ns: Option<u64>,
    /// When the newest letter was found, in nanoseconds since 1970.
    pub newest_ns: Option<u64>,
}

/// Where the dead letters are within the gateway's directory.
pub fn dir_of(gateway_dir: &Path) -> PathBuf {
    gateway_dir.join("dead-letters")
}

pub(super) fn file_of(dir: &Path, backend: &str) -> PathBuf {
    dir.join(format!("{backend}.jsonl"))
}

/// Keeps others away from a backend's file until this one is closed.
fn lock(dir: &Path, backend: &str) -> Result<File, FileError> {
    disk::wait_and_hold(&dir.join(format!("{backend}.lock")))
}

/// The letters of an open file, in the order in which they were found. Lines that cannot be read
/// as one are given as they are.
struct Lines<R> {
    reader: R,
}

impl<R: BufRead> Iterator for Lines<R> {
    type Item = io::Result<Result<Letter, Vec<u8>>>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut line = Vec::new();
        match self.reader.by_ref().take(LETTER_BYTES_MAX).read_until(b'\n', &mut line) {
            Ok(0) => None,
            Ok(_) => Some(Ok(serde_json::from_slice(&line).map_err(|_| line))),
            Err(error) => Some(Err(error)),
        }
    }
}

fn lines(path: &Path) -> io::Result<Lines<BufReader<File>>> {
    Ok(Lines { reader: BufReader::new(File::open(path)?) })
}

/// Every backend with a file in `dir`, by name.
///
/// # Errors
/// When the directory or a file cannot be read; without a directory there are no letters.
pub fn list(dir: &Path) -> Result<Vec<Summary>, LetterError> {
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(FileError::of("read", dir)(error).into()),
    };
    let mut summaries = Vec::new();
    for entry in entries {
        let name = entry.map_err(FileError::of("read", dir))?.file_name();
        if let Some(backend) = name.to_str().and_then(|name| name.strip_suffix(".jsonl")) {
            summaries.push(summary(dir, backend)?);
        }
    }
    summaries.sort_by(|a, b| a.backend.cmp(&b.backend));
    Ok(summaries)
}

fn summary(dir: &Path, backend: &str) -> Result<Summary, LetterError> {
    let path = file_of(dir, backend);
    let mut summary = Summary { backend: backend.to_owned(), ..Summary::default() };
    summary.bytes = fs::metadata(&path).map_err(FileError::of("read", &path))?.len();
    for line in lines(&path).map_err(FileError::of("open", &path))? {
        match line.map_err(FileError::of("read", &path))? {
            Ok(letter) => {
                summary.letters += 1;
                summary.oldest_ns.get_or_insert(letter.time_ns);
                summary.newest_ns = Some(letter.time_ns);
            }
            Err(_) => summary.damaged += 1,
        }
    }
    Ok(summary)
}

/// The letters of one backend, in the order in which they were found; lines that cannot be read as
/// one are left out.
///
/// # Errors
/// When the backend has no file, or it cannot be read.
pub fn read(
    dir: &Path,
    backend: &str,
) -> Result<impl Iterator<Item = Result<Letter, LetterError>> + use<>, LetterError> {
    let path = file_of(dir, backend);
    if !path.exists() {
        return Err(LetterError::Unknown { backend: backend.to_owned(), dir: dir.to_owned() });
    }
    let lines = lines(&path).map_err(FileError::of("open", &path))?;
    Ok(lines.filter_map(move |line| match line {
        Ok(letter) => letter.ok().map(Ok),
        Err(error) => Some(Err(FileError::of("read", &path)(error).into())),
    }))
}

/// Removes the letters meant by `selection`; gives how many there were.
///
/// # Errors
/// When the backend has no file, or it cannot be rewritten; it is then as it was.
pub fn drop(dir: &Path, backend: &str, selection: &Selection) -> Result<u64, LetterError> {
    drop_on(&Disk::of(dir), dir, backend, selection)
}

fn drop_on(
    disk: &Disk,
    dir: &Path,
    backend: &str,
    selection: &Selection,
) -> Result<u64, LetterError> {
    let path = file_of(dir, backend);
    if !path.exists() {
        return Err(LetterError::Unknown { backend: backend.to_owned(), dir: dir.to_owned() });
    }
    let _lock = lock(dir, backend)?;
    let kept = path.with_extension("jsonl.new");
    let dropped = copy_kept(disk, &path, &kept, selection);
    let dropped = dropped.map_err(FileError::of("rewrite", &path))?;
    disk.rename(&kept, &path).map_err(FileError::of("replace", &path))?;
    disk.sync_dir(dir).map_err(FileError::of("sync", dir))?;
    Ok(dropped)
}

fn copy_kept(disk: &Disk, from: &Path, to: &Path, selection: &Selection) -> io::Result<u64> {
    let (stream, owner) = (disk.create(to)?, fs::metadata(from)?);
    // Whoever calls the command, the file stays that of Weir's user, which has to write to it.
    if stream.file.metadata()?.uid() != owner.uid() {
        fchown(&stream.file, Some(owner.uid()), Some(owner.gid()))?;
    }
    let mut out = BufWriter::new(stream);
    let mut dropped = 0;
    for line in lines(from)? {
        match line? {
            Ok(letter) if selection.holds(letter.id) => dropped += 1,
            Ok(letter) => write_letter(&mut out, &letter)?,
            Err(damaged) if *selection == Selection::All => std::mem::drop(damaged),
            Err(damaged) => out.write_all(&damaged)?,
        }
    }
    out.into_inner().map_err(io::IntoInnerError::into_error)?.sync()?;
    Ok(dropped)
}

fn write_letter(out: &mut impl Write, letter: &Letter) -> io::Result<()> {
    serde_json::to_writer(&mut *out, letter)?;
    out.write_all(b"\n")
}

/// The file of a running backend.
#[derive(Debug)]
pub struct DeadLetters {
    disk: Disk,
    dir: PathBuf,
    backend: String,
    bytes_max: u64,
    /// Letters that may come again: those at or after the cursor.
    recent: HashSet<Id>,
    /// Why the newest of those was refused that the file had when it was opened.
    last_reason: Option<String>,
}

impl DeadLetters {
    /// Opens the file of `backend` in `dir`, or prepares to make it. `cursor` is the position from
    /// which points may come again. An end torn by a crash is cut off: it was not synced, so the
    /// cursor has not passed it. Blocks on the disk.
    ///
    /// # Errors
    /// When the directory cannot be made or the file cannot be read.
    pub fn open(
        dir: &Path,
        backend: &str,
        bytes_max: u64,
        cursor: u64,
    ) -> Result<Self, LetterError> {
        Self::open_on(Disk::of(dir), dir, backend, bytes_max, cursor)
    }

    fn open_on(
        disk: Disk,
        dir: &Path,
        backend: &str,
        bytes_max: u64,
        cursor: u64,
    ) -> Result<Self, LetterError> {
        disk.create_dir(dir).map_err(FileError::of("make", dir))?;
        let (dir, backend) = (dir.to_owned(), backend.to_owned());
        let (recent, last_reason) = (HashSet::new(), None);
        let mut letters = Self { disk, dir, backend, bytes_max, recent, last_reason };
        let path = letters.path();
        let _lock = lock(&letters.dir, &letters.backend)?;
        if !path.exists() {
            return Ok(letters);
        }
        cut_torn_end(&letters.disk, &path).map_err(FileError::of("repair", &path))?;
        for line in lines(&path).map_err(FileError::of("open", &path))? {
            let Ok(letter) = line.map_err(FileError::of("read", &path))? else { continue };
            if letter.id.position >= cursor {
                letters.recent.insert(letter.id);
            }
            letters.last_reason = Some(letter.reason);
        }
        Ok(letters)
    }

    /// Why the newest letter was refused that a former run has left.
    pub fn last_reason(&self) -> Option<&str> {
        self.last_reason.as_deref()
    }

    fn path(&self) -> PathBuf {
        file_of(&self.dir, &self.backend)
    }

    /// Appends the letters that are not there yet and syncs them. Blocks on the disk. What has
    /// room is kept, so that more letters than the file may ever hold get through it in parts; an
    /// empty file takes one letter of any size.
    ///
    /// # Errors
    /// [`LetterError::Full`] when there was no room for all of them, or what the file system said;
    /// nothing is then kept of them. Called again with the same letters it goes on.
    pub fn append(&mut self, letters: &[Letter]) -> Result<(), LetterError> {
        let path = self.path();
        let new: Vec<&Letter> =
            letters.iter().filter(|letter| !self.recent.contains(&letter.id)).collect();
        if new.is_empty() {
            return Ok(());
        }
        let _lock = lock(&self.dir, &self.backend)?;
        let is_new = !path.exists();
        let before = match fs::metadata(&path) {
            Ok(of) => of.len(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => 0,
            Err(error) => return Err(FileError::of("read", &path)(error).into()),
        };
        let file = self.disk.append(&path, before);
        let mut file = file.map_err(FileError::of("open", &path))?;
        let room = self.bytes_max.saturating_sub(before);
        let (mut bytes, mut kept) = (Vec::new(), 0);
        for letter in &new {
            let end = bytes.len();
            write_letter(&mut bytes, letter).map_err(FileError::of("write", &path))?;
            if bytes.len() as u64 > room && before + end as u64 > 0 {
                bytes.truncate(end);
                break;
            }
            kept += 1;
        }
        if kept > 0
            && let Err(error) = file.write_all(&bytes).and_then(|()| file.sync())
        {
            // Best effort: an end that stays torn is cut off when the file is opened again.
            let _ = self.disk.truncate(&file.file, before);
            return Err(FileError::of("write", &path)(error).into());
        }
        if is_new {
            self.disk.sync_dir(&self.dir).map_err(FileError::of("sync", &self.dir))?;
        }
        self.recent.extend(new[..kept].iter().map(|letter| letter.id));
        if kept < new.len() {
            return Err(LetterError::Full { path, max: self.bytes_max });
        }
        Ok(())
    }

    /// How many letters there are of the record at `position`, which is not before the cursor.
    pub fn of(&self, position: u64) -> u64 {
        self.recent.iter().filter(|id| id.position == position).count() as u64
    }

    /// Forgets the letters before `cursor`: they cannot come again.
    pub fn committed(&mut self, cursor: u64) {
        if !self.recent.is_empty() {
            self.recent.retain(|id| id.position >= cursor);
        }
    }
}

/// Cuts the file after its last newline.
fn cut_torn_end(disk: &Disk, path: &Path) -> io::Result<()> {
    let mut file = OpenOptions::new().read(true).write(true).open(path)?;
    let len = file.metadata()?.len();
    let mut end = len;
    let mut block = [0; 4096];
    while end > 0 {
        let start = end.saturating_sub(block.len() as u64);
        let part = &mut block[..usize::try_from(end - start).unwrap_or(0)];
        file.seek(SeekFrom::Start(start))?;
        file.read_exact(part)?;
        if let Some(newline) = memchr::memrchr(b'\n', part) {
            end = start + newline as u64 + 1;
            break;
        }
        end = start;
    }
    if end < len {
        disk.truncate(&file, end)?;
        disk.sync_all(&file)?;
    }
    Ok(())
}

#[cfg(test)]
#[path = "dead_letters_tests.rs"]
mod tests;
