//! A generation as a master would send it: the base, and behind it the stream alone, from any
//! offset that the increments have.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read as _};
use std::path::{Path, PathBuf};

use disk::FileError;

use super::directory::{DirectoryError, begin_of, condemned, history_of, read_manifest};
use super::lines::Id;
use super::manifest::{CURRENT, Manifest};
use super::scan::put_select;
use super::stream::{StreamError, Tracker};

/// How much is read at once.
const PIECE_BYTES: usize = 256 << 10;

/// Why nothing more can be sent.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The directory can't be read.
    #[error(transparent)]
    Directory(#[from] DirectoryError),
    /// A file can't be read.
    #[error(transparent)]
    Io(#[from] FileError),
    /// An increment is not a stream.
    #[error(transparent)]
    Stream(#[from] StreamError),
    /// What would be sent is not what was written.
    #[error("{0}")]
    Damaged(String),
    /// The files have changed meanwhile.
    #[error("the files do not have the stream's offset {0} any more")]
    Gone(u64),
}

/// The base of the current generation.
#[derive(Debug)]
pub struct Base {
    file: File,
    path: PathBuf,
    /// Its length in bytes.
    pub len: u64,
    /// The stream's offset of it.
    pub offset: u64,
}

impl Base {
    /// Opens it.
    ///
    /// # Errors
    /// There is none, or it can't be read.
    pub fn open(dir: &Path) -> Result<Self, ReplayError> {
        let manifest = current(dir)?;
        let begin = manifest.increments.first().map(|part| begin_of(&dir.join(&part.name)));
        let offset = begin.transpose()?.flatten();
        let (Some(base), Some(offset)) = (manifest.base, offset) else {
            return Err(ReplayError::Gone(0));
        };
        let path = dir.join(base.name);
        let file = File::open(&path).map_err(FileError::of("open", &path))?;
        let len = file.metadata().map_err(FileError::of("read", &path))?.len();
        Ok(Self { file, path, len, offset })
    }

    /// The next bytes of it; none at its end.
    ///
    /// # Errors
    /// It can't be read.
    pub fn next(&mut self) -> Result<Vec<u8>, ReplayError> {
        let mut piece = Vec::with_capacity(PIECE_BYTES);
        let read = (&mut self.file).take(PIECE_BYTES as u64).read_to_end(&mut piece);
        read.map_err(FileError::of("read", &self.path))?;
        Ok(piece)
    }
}

/// The stream from an offset on. Where a new base has taken the current one's place meanwhile, what
/// lies before its offset is read from the generation before, for as long as that is kept.
#[derive(Debug)]
pub struct Replay {
    dir: PathBuf,
    /// Whose history it is.
    id: Id,
    /// How much of the stream lies before what is read next.
    offset: u64,
    open: Option<OpenIncrement>,
}

#[derive(Debug)]
struct OpenIncrement {
    file: BufReader<File>,
    path: PathBuf,
    tracker: Tracker,
}

fn current(dir: &Path) -> Result<Manifest, ReplayError> {
    if let Some(why) = condemned(dir) {
        return Err(ReplayError::Damaged(why));
    }
    Ok(read_manifest(&dir.join(CURRENT))?.unwrap_or_default())
}

/// Whether the current generation has the stream from this offset on.
pub fn has(dir: &Path, offset: u64) -> bool {
    let manifest = current(dir).unwrap_or_default();
    let begin = manifest.increments.first().map(|part| begin_of(&dir.join(&part.name)));
    matches!(begin, Some(Ok(Some(begin))) if begin <= offset)
}

impl Replay {
    /// From this offset of this history.
    pub fn at(dir: PathBuf, id: Id, offset: u64) -> Self {
        Self { dir, id, offset, open: None }
    }

    /// The next bytes of the stream, none beyond `durable`; none where there are no more.
    ///
    /// # Errors
    /// The files do not have them.
    pub fn next(&mut self, durable: u64) -> Result<Vec<u8>, ReplayError> {
        let mut piece = Vec::new();
        while self.offset < durable && piece.len() < PIECE_BYTES {
            let open = match &mut self.open {
                Some(open) => open,
                None => self.open.insert(open_at(&self.dir, self.id, self.offset)?),
            };
            let left = durable - self.offset;
            let read = open.read(left, &mut piece)?;
            self.offset += read;
            if read == 0 {
                // It was closed; the next one goes on.
                let before = self.open.take();
                let next = open_at(&self.dir, self.id, self.offset)?;
                if before.is_some_and(|before| before.path == next.path) {
                    return Err(ReplayError::Gone(self.offset));
                }
                self.open = Some(next);
            }
        }
        Ok(piece)
    }
}

/// The increment of a generation that goes on at an offset, and where it begins.
fn increment_at(
    dir: &Path,
    manifest: &Manifest,
    offset: u64,
) -> Result<Option<(PathBuf, u64)>, ReplayError> {
    let mut found = None;
    for part in &manifest.increments {
        let path = dir.join(&part.name);
        match begin_of(&path)? {
            Some(begin) if begin <= offset => found = Some((path, begin)),
            _ => break,
        }
    }
    Ok(found)
}

/// The same of an older generation of this history, from the newest on.
fn older_at(dir: &Path, id: Id, offset: u64) -> Option<(PathBuf, u64)> {
    let number = |name: &str| {
        name.strip_prefix("generation.")?.strip_suffix(".manifest")?.parse::<u64>().ok()
    };
    let names = fs::read_dir(dir).into_iter().flatten().flatten();
    let names = names.filter_map(|entry| entry.file_name().into_string().ok());
    let mut all: Vec<(u64, String)> =
        names.filter_map(|name| Some((number(&name)?, name))).collect();
    all.sort_unstable_by(|one, other| other.cmp(one));
    // One that goes meanwhile is none.
    all.into_iter().find_map(|(_, name)| {
        let manifest = read_manifest(&dir.join(name)).ok()??;
        let (path, begin) = increment_at(dir, &manifest, offset).ok()??;
        let (of, _) = history_of(&path).ok()??;
        (of == id).then_some((path, begin))
    })
}

/// Opens the increment that goes on at an offset.
fn open_at(dir: &Path, id: Id, offset: u64) -> Result<OpenIncrement, ReplayError> {
    let found = match increment_at(dir, &current(dir)?, offset)? {
        Some(found) => Some(found),
        None => older_at(dir, id, offset),
    };
    let (path, begin) = found.ok_or(ReplayError::Gone(offset))?;
    let file = File::open(&path).map_err(FileError::of("open", &path))?;
    let mut file = BufReader::with_capacity(PIECE_BYTES, file);
    let read = |error| ReplayError::Io(FileError::of("read", &path)(error));
    let mut line = Vec::new();
    file.read_until(b'\n', &mut line).map_err(read)?;
    // The SELECT behind it is not of the stream.
    let database = line.split(|byte| *byte == b' ').nth(4).unwrap_or_default();
    let database = std::str::from_utf8(database).ok().and_then(|text| text.trim().parse().ok());
    let mut select = Vec::new();
    put_select(&mut select, database.unwrap_or(0));
    file.read_exact(&mut select)
        .map_err(|error| ReplayError::Io(FileError::of("read", &path)(error)))?;
    let mut open = OpenIncrement { file, path, tracker: Tracker::default() };
    let mut skipped = begin;
    while skipped < offset {
        let mut piece = Vec::new();
        match open.read(offset - skipped, &mut piece)? {
            0 => return Err(ReplayError::Gone(offset)),
            read => skipped += read,
        }
    }
    Ok(open)
}

impl OpenIncrement {
    /// Reads up to so many bytes of the stream; 0 at the file's end.
    fn read(&mut self, most: u64, piece: &mut Vec<u8>) -> Result<u64, ReplayError> {
        loop {
            let failed =
                |error: io::Error| ReplayError::Io(FileError::of("read", &self.path)(error));
            let bytes = self.file.fill_buf().map_err(failed)?;
            match bytes.first() {
                None => return Ok(0),
                Some(b'#') if self.tracker.is_between_commands() => {
                    let mut line = Vec::new();
                    self.file.read_until(b'\n', &mut line).map_err(failed)?;
                }
                Some(_) => {
                    let len = bytes.len().min(usize::try_from(most).unwrap_or(usize::MAX));
                    let bytes = bytes.get(..len).unwrap_or_default();
                    let taken = self.tracker.advance(bytes)?.unwrap_or(len);
                    piece.extend_from_slice(bytes.get(..taken).unwrap_or_default());
                    self.file.consume(taken);
                    return Ok(taken as u64);
                }
            }
        }
    }
}
