//! `weir redis verify`: every file of every generation against its checksums.

use std::fmt;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};

use disk::FileError;

use super::directory::{APPEND_DIR, DirectoryError, manifests, read_manifest};
use super::manifest::{BaseSum, Manifest};
use super::rdb::Check;
use super::scan::{ScannedIncrement, Tail, scan};

/// What was found in a master's directory.
#[derive(Debug, Default)]
pub struct Report {
    /// Each generation: what its manifest is called, and what its files hold.
    pub generations: Vec<Generation>,
}

/// A generation, and what its files hold.
#[derive(Debug)]
pub struct Generation {
    pub manifest: String,
    /// What there is to say of each file.
    pub files: Vec<Finding>,
}

/// What there is to say of a file.
#[derive(Debug)]
pub struct Finding {
    pub name: String,
    /// What it holds, or what is wrong with it.
    pub words: String,
    /// Whether a server could not load it, or would load something else than the master had.
    pub is_damaged: bool,
}

impl Report {
    /// Whether no file is damaged. A torn tail is not a damage.
    pub fn is_intact(&self) -> bool {
        !self.generations.iter().flat_map(|of| &of.files).any(|file| file.is_damaged)
    }
}

/// Reads all files of a master's directory, or of the `appendonlydir` in it. Changes nothing.
///
/// # Errors
/// A file can't be read, or there is no generation.
pub fn verify(dir: &Path) -> Result<Report, DirectoryError> {
    let below = dir.join(APPEND_DIR);
    let dir: PathBuf = if below.is_dir() { below } else { dir.to_owned() };
    let names = manifests(&dir)?;
    if names.is_empty() {
        return Err(DirectoryError::NoFiles(dir));
    }
    let mut report = Report::default();
    for name in names {
        let files = still_there(&dir, &name)?;
        report.generations.extend(files.map(|files| Generation { manifest: name, files }));
    }
    Ok(report)
}

/// What there is to say of a generation; nothing where it was removed meanwhile. Beside a running
/// Weir it may go while it is read, its manifest first, or another one take its manifest's name.
fn still_there(dir: &Path, name: &str) -> Result<Option<Vec<Finding>>, DirectoryError> {
    let path = dir.join(name);
    let read = || match read_manifest(&path) {
        Err(DirectoryError::Manifest { why, .. }) => Ok(Some(Err(why))),
        manifest => Ok::<_, DirectoryError>(manifest?.map(Ok)),
    };
    let mut manifest = read()?;
    while let Some(seen) = manifest {
        let files = match &seen {
            Ok(manifest) => generation(dir, manifest)?,
            Err(why) => vec![of_manifest(&format!("DAMAGED: {why}"))],
        };
        if !files.iter().any(|file| file.is_damaged) {
            return Ok(Some(files));
        }
        manifest = read()?;
        if manifest.as_ref() == Some(&seen) {
            return Ok(Some(files));
        }
    }
    Ok(None)
}

fn of_manifest(words: &str) -> Finding {
    Finding { name: "the manifest".to_owned(), words: words.to_owned(), is_damaged: true }
}

fn generation(dir: &Path, manifest: &Manifest) -> Result<Vec<Finding>, DirectoryError> {
    let mut found = Vec::new();
    match &manifest.base {
        Some(part) => found.push(base(dir, &part.name, manifest.sum)?),
        None => found.push(of_manifest("names no base")),
    }
    let mut before = manifest.sum.map(|sum| sum.offset);
    let last = manifest.increments.len().saturating_sub(1);
    for (number, part) in manifest.increments.iter().enumerate() {
        let (finding, scanned) = increment(dir, &part.name, number == last, before)?;
        found.push(finding);
        before = scanned.map(|scanned| scanned.end.offset);
    }
    Ok(found)
}

fn open(path: &Path) -> Result<Option<File>, FileError> {
    match File::open(path) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(FileError::of("open", path)(error)),
    }
}

fn missing(name: &str) -> Finding {
    Finding { name: name.to_owned(), words: "is missing".to_owned(), is_damaged: true }
}

fn base(dir: &Path, name: &str, sum: Option<BaseSum>) -> Result<Finding, DirectoryError> {
    let path = dir.join(name);
    let Some(mut file) = open(&path)? else { return Ok(missing(name)) };
    let check = read_base(&mut file).map_err(FileError::of("read", &path))?;
    let (words, is_damaged) = match wrong_with_base(&check, sum) {
        None => (format!("{} bytes, its checksum is right", check.bytes()), false),
        Some(why) => (format!("{} bytes, DAMAGED: {why}", check.bytes()), true),
    };
    Ok(Finding { name: name.to_owned(), words, is_damaged })
}

/// Reads a base to its end.
///
/// # Errors
/// It can't be read.
pub fn read_base(file: &mut impl Read) -> io::Result<Check> {
    let (mut check, mut piece) = (Check::default(), vec![0; 1 << 20]);
    loop {
        match file.read(&mut piece)? {
            0 => return Ok(check),
            read => check.take(piece.get(..read).unwrap_or_default()),
        }
    }
}

/// What is wrong with a base that was read, if anything.
pub fn wrong_with_base(check: &Check, sum: Option<BaseSum>) -> Option<String> {
    if check.finish().is_err() {
        return Some("its checksum is wrong".to_owned());
    }
    let sum = sum?;
    if check.bytes() != sum.len {
        return Some(format!("it had {} bytes", sum.len));
    }
    (check.sum() != sum.crc).then(|| "it is another base than its manifest says".to_owned())
}

/// What is wrong with an increment that was read and has another behind it, if anything.
pub fn wrong_with_closed(scanned: &ScannedIncrement) -> Option<String> {
    match &scanned.tail {
        Tail::None => None,
        Tail::Torn(len) => Some(format!("{len} bytes behind its last mark")),
        Tail::Servers(len) => Some(format!("{len} bytes that a server wrote")),
        Tail::Damaged(at, why) => Some(format!("at byte {at}: {why}")),
    }
}

fn increment(
    dir: &Path,
    name: &str,
    is_last: bool,
    before: Option<u64>,
) -> Result<(Finding, Option<ScannedIncrement>), DirectoryError> {
    let path = dir.join(name);
    let Some(file) = open(&path)? else { return Ok((missing(name), None)) };
    let scanned = match scan(&mut BufReader::with_capacity(1 << 20, file)) {
        Ok(scanned) => scanned,
        Err(error) => {
            let words = format!("DAMAGED: {error}");
            return Ok((Finding { name: name.to_owned(), words, is_damaged: true }, None));
        }
    };
    let (from, to) = (scanned.begin.offset, scanned.end.offset);
    let held = format!("offsets {from} to {to}");
    let gap = before.is_some_and(|before| before != from);
    let (words, is_damaged) = match &scanned.tail {
        _ if gap => (format!("{held}, DAMAGED: it does not begin where the one before ends"), true),
        Tail::None => (held, false),
        Tail::Torn(len) if is_last => (format!("{held}, and {len} bytes torn off behind"), false),
        Tail::Torn(len) => (format!("{held}, DAMAGED: {len} bytes behind its last mark"), true),
        Tail::Servers(len) => (format!("{held}, and {len} bytes that a server wrote"), false),
        Tail::Damaged(at, why) => (format!("{held}, DAMAGED at byte {at}: {why}"), true),
    };
    Ok((Finding { name: name.to_owned(), words, is_damaged }, Some(scanned)))
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, Generation { manifest, files }) in self.generations.iter().enumerate() {
            if number > 0 {
                writeln!(f)?;
            }
            write!(f, "{manifest}")?;
            for Finding { name, words, .. } in files {
                write!(f, "\n  {name}: {words}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;

    use super::super::directory::{Directory, Pin, RetentionLimits};
    use super::super::manifest::BaseSum;
    use super::verify;

    #[test]
    fn a_generation_that_goes_while_it_is_read_misses_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let mut directory = Directory::open(dir.path(), RetentionLimits::count(1)).unwrap();
        let mut replace = || {
            let (base, first) = (directory.new_base().unwrap(), directory.new_increment().unwrap());
            let base = (base.0, BaseSum::default());
            directory.replace(base, first.0, Pin::No).unwrap();
            directory.prune().unwrap();
        };
        replace();
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                (0..300).for_each(|_| replace());
                is_over.store(true, Ordering::Relaxed);
            });
            while !is_over.load(Ordering::Relaxed) {
                let said = verify(dir.path()).unwrap().to_string();
                assert!(!said.contains("missing") && !said.contains("names no"), "{said}");
            }
        });
    }
}
