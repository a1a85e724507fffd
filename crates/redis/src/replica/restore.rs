//! `weir redis restore`: a directory that a server starts from, with what a master had at a time.

use std::fs::{self, File};
use std::io::{self, BufReader, Read, Seek as _};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use disk::{Disk, FileError};

use super::directory::{APPEND_DIR, DirectoryError, manifests, read_manifest};
use super::keys::Keys;
use super::lines::Line;
use super::manifest::{BaseSum, CURRENT, GenerationFile, Manifest};
use super::rdb::Check;
use super::scan::{AofCut, ScanError, ScannedIncrement, Tail, Until, scan_until};
use super::verify::wrong_with_base;

/// How much is copied at once.
const PIECE_BYTES: usize = 1 << 20;

/// Why nothing was restored.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// There is something already.
    #[error("{0} is not empty: name a directory that is, or that is not there yet")]
    NotEmpty(PathBuf),
    /// No generation begins before that.
    #[error("no generation begins so early; weir redis verify lists what there is")]
    TooEarly,
    /// None is called so.
    #[error("no generation is called {0}; weir redis verify lists what there is")]
    NoGeneration(String),
    /// A file is not what Weir wrote.
    #[error(
        "{name} is DAMAGED: {why}. What lies before can be had with --generation {generation} \
         --at offset:{sound}"
    )]
    Damaged {
        /// The file's name in the directory.
        name: String,
        /// What is wrong with it.
        why: String,
        /// The manifest that names it.
        generation: String,
        /// Up to where the stream is sound.
        sound: u64,
    },
    /// The base is not what the master wrote, or there is none.
    #[error("{0}: its base is missing or DAMAGED; try an older one with --generation")]
    Base(String),
    /// The directory can't be read.
    #[error(transparent)]
    Directory(#[from] DirectoryError),
    /// The file system refused.
    #[error(transparent)]
    Io(#[from] FileError),
}

/// What a restored directory has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RestoreSummary {
    /// The manifest of the generation that it was taken from.
    pub generation: String,
    /// The stream's offset of its base, and where it ends.
    pub offsets: (u64, u64),
    /// When the last of it was written, in seconds since 1970, where the files say so.
    pub time: Option<u64>,
    /// Bytes of a torn end, or of a server that has run with the files, which were left out.
    pub left_out: u64,
    /// Whether its master had come back and was not believed: what it had before is pinned.
    pub is_doubted: bool,
}

/// An increment, open, and how much of it is wanted.
struct Source {
    part: GenerationFile,
    path: PathBuf,
    file: File,
    scanned: ScannedIncrement,
}

/// Copies what a master had, from its directory or the `appendonlydir` in it, to a directory that
/// is empty or not there. Changes nothing else, and may run beside Weir.
///
/// # Errors
/// Nothing begins so early, what is wanted is damaged, or the file system refuses.
pub fn restore(
    dir: &Path,
    to: &Path,
    until: Until,
    generation: Option<&str>,
) -> Result<RestoreSummary, RestoreError> {
    let below = dir.join(APPEND_DIR);
    let dir = if below.is_dir() { below } else { dir.to_owned() };
    empty(to)?;
    let all = match generation {
        Some(name) => vec![name.to_owned()],
        None => manifests(&dir)?,
    };
    if all.is_empty() {
        return Err(DirectoryError::NoFiles(dir).into());
    }
    for name in &all {
        let manifest = read_manifest(&dir.join(name))?.unwrap_or_default();
        let found = sources(&dir, name, &manifest, until)?;
        // One that was named is taken from its beginning, whatever time that is.
        let Some(sources) = found.filter(|(_, begins)| *begins || generation.is_some()) else {
            continue;
        };
        let made = to.join(APPEND_DIR);
        fs::create_dir_all(&made).map_err(FileError::of("make", &made))?;
        let restored = copy(&dir, &made, name, &manifest, sources.0);
        return restored.inspect_err(|_| {
            // Best effort: what is half there is of no use.
            let _ = fs::remove_dir_all(&made);
        });
    }
    Err(generation.map_or(RestoreError::TooEarly, |name| RestoreError::NoGeneration(name.into())))
}

fn empty(to: &Path) -> Result<(), RestoreError> {
    match fs::read_dir(to) {
        Ok(entries) => match entries.count() {
            0 => Ok(()),
            _ => Err(RestoreError::NotEmpty(to.to_owned())),
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(FileError::of("read", to)(error).into()),
    }
}

/// The increments of a generation up to the one in which what is wanted ends, and whether it
/// begins early enough; `None` where it is not a generation.
fn sources(
    dir: &Path,
    generation: &str,
    manifest: &Manifest,
    until: Until,
) -> Result<Option<(Vec<Source>, bool)>, RestoreError> {
    let (mut found, mut begins) = (Vec::<Source>::new(), true);
    let last = manifest.increments.len().saturating_sub(1);
    for (number, part) in manifest.increments.iter().enumerate() {
        let path = dir.join(&part.name);
        let before = found.last().map(|before| before.scanned.end.offset);
        let damaged = |why: String, sound: Option<u64>| RestoreError::Damaged {
            name: part.name.clone(),
            why,
            generation: generation.to_owned(),
            sound: sound.or(before).unwrap_or(0),
        };
        let mut file = match File::open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(damaged("it is missing".to_owned(), None));
            }
            file => file.map_err(FileError::of("open", &path))?,
        };
        let scanned = match scan_until(&mut BufReader::with_capacity(PIECE_BYTES, &file), until) {
            Err(ScanError::Io(error)) => return Err(FileError::of("read", &path)(error).into()),
            scanned => scanned.map_err(|error| damaged(error.to_string(), None))?,
        };
        file.rewind().map_err(FileError::of("read", &path))?;
        if before.is_some_and(|before| before != scanned.begin.offset) {
            return Err(damaged("it does not begin where the one before ends".to_owned(), None));
        }
        if number == 0 {
            begins = begins_early(dir, manifest, &scanned, until);
        }
        let is_cut = scanned.cut.is_some();
        let sound = Some(scanned.end.offset);
        match &scanned.tail {
            _ if is_cut => {}
            Tail::Damaged(at, why) => return Err(damaged(format!("byte {at}: {why}"), sound)),
            Tail::Torn(len) | Tail::Servers(len) if number != last => {
                return Err(damaged(format!("{len} bytes behind its last mark"), sound));
            }
            _ => {}
        }
        found.push(Source { part: part.clone(), path, file, scanned });
        if is_cut {
            break;
        }
    }
    Ok((!found.is_empty()).then_some((found, begins)))
}

/// Whether a generation has all that is wanted and began no later.
fn begins_early(dir: &Path, manifest: &Manifest, first: &ScannedIncrement, until: Until) -> bool {
    match (until, first.times) {
        (Until::End, _) => true,
        (Until::Offset(offset), _) => first.begin.offset <= offset,
        (Until::Time(_), Some(_)) => true,
        // Nothing was written behind the base by then. It may have been whole.
        (Until::Time(time), None) => {
            let base =
                manifest.base.as_ref().and_then(|part| fs::metadata(dir.join(&part.name)).ok());
            let whole = base.and_then(|of| of.modified().ok()?.duration_since(UNIX_EPOCH).ok());
            whole.is_some_and(|whole| whole.as_secs() <= time)
        }
    }
}

fn copy(
    dir: &Path,
    to: &Path,
    generation: &str,
    manifest: &Manifest,
    sources: Vec<Source>,
) -> Result<RestoreSummary, RestoreError> {
    let disk = Disk::default();
    let base = manifest.base.clone();
    let base = base.ok_or_else(|| RestoreError::Base(generation.to_owned()))?;
    let sum = manifest.sum;
    copy_base(&disk, &dir.join(&base.name), &to.join(&base.name), (generation, sum))?;
    let begin = sources.first().map_or(0, |first| first.scanned.begin.offset);
    let (mut end, mut time, mut left_out, mut is_doubted) = (begin, None, 0, false);
    let mut increments = Vec::new();
    for source in sources {
        copy_increment(&disk, &source, &to.join(&source.part.name))?;
        let ScannedIncrement { cut, times, tail, .. } = &source.scanned;
        let place = cut.map_or(source.scanned.end, |cut| cut.place);
        (end, is_doubted) = (place.offset, place.keys.is_some_and(Keys::is_doubted));
        time = times.map(|(_, last)| last).or(time);
        if let (None, Tail::Torn(len) | Tail::Servers(len)) = (cut, tail) {
            left_out = *len;
        }
        increments.push(source.part);
    }
    let manifest = Manifest { is_ours: false, base: Some(base), sum: None, increments };
    let path = to.join(CURRENT);
    let file = disk.make(&path)?;
    let text = manifest.text_of_server();
    write(&disk, &file, &path, text.as_bytes(), 0)?;
    disk.sync(&file).map_err(FileError::of("sync", &path))?;
    disk.sync_dir(to).map_err(FileError::of("sync", to))?;
    let generation = generation.to_owned();
    Ok(RestoreSummary { generation, offsets: (begin, end), time, left_out, is_doubted })
}

fn copy_base(
    disk: &Disk,
    from: &Path,
    to: &Path,
    (generation, sum): (&str, Option<BaseSum>),
) -> Result<(), RestoreError> {
    let bad = || RestoreError::Base(generation.to_owned());
    let mut source = match File::open(from) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(bad()),
        source => source.map_err(FileError::of("open", from))?,
    };
    let file = disk.make(to)?;
    let (mut check, mut piece) = (Check::default(), vec![0; PIECE_BYTES]);
    loop {
        let read = source.read(&mut piece).map_err(FileError::of("read", from))?;
        let read = piece.get(..read).unwrap_or_default();
        if read.is_empty() {
            break;
        }
        write(disk, &file, to, read, check.bytes())?;
        check.take(read);
    }
    if wrong_with_base(&check, sum).is_some() {
        return Err(bad());
    }
    Ok(disk.sync(&file).map_err(FileError::of("sync", to))?)
}

/// Copies an increment as far as it is wanted, which ends with a mark as any other.
fn copy_increment(disk: &Disk, source: &Source, to: &Path) -> Result<(), FileError> {
    let (wanted, mut mark) = (source.scanned.end.at, Vec::new());
    let wanted = match source.scanned.cut {
        Some(AofCut { place, crc, .. }) => {
            Line::Mark { offset: place.offset, crc }.put(&mut mark);
            place.at
        }
        None => wanted,
    };
    let file = disk.make(to)?;
    let at = copy_range(disk, (&source.file, &source.path), (&file, to), wanted, 0)?;
    write(disk, &file, to, &mark, at)?;
    disk.sync(&file).map_err(FileError::of("sync", to))
}

/// Copies so many bytes from where a file is read to a place in another; gives where they end.
pub fn copy_range(
    disk: &Disk,
    (source, from): (&File, &Path),
    (file, to): (&File, &Path),
    mut left: u64,
    mut at: u64,
) -> Result<u64, FileError> {
    let (mut source, mut piece) = (source, vec![0; PIECE_BYTES]);
    while left > 0 {
        let len = piece.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        let read = source.read(piece.get_mut(..len).unwrap_or_default());
        let read = read.map_err(FileError::of("read", from))?;
        if read == 0 {
            return Err(FileError::of("read", from)(io::ErrorKind::UnexpectedEof.into()));
        }
        write(disk, file, to, piece.get(..read).unwrap_or_default(), at)?;
        at += read as u64;
        left = left.saturating_sub(read as u64);
    }
    Ok(at)
}

fn write(disk: &Disk, file: &File, path: &Path, bytes: &[u8], at: u64) -> Result<(), FileError> {
    disk.write_all(file, &[bytes], at).map_err(FileError::of("write", path))
}
