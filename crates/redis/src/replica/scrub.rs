//! The scrub: reads the files of the current generation again, slowly, and says where one is not
//! what was written.
//!
//! A server starts from all files of a generation, and a link goes on with the last alone. So each
//! file that a process finds is read once from the start on, and again every `scrub-every`; what
//! the process writes itself it has the checksums of. Between, the lengths and offsets of all files
//! are looked at once a minute.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufReader, ErrorKind, Read};
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::fs::{Advice, fadvise};

use super::directory::{APPEND_DIR, DirectoryError, begin_of, mismatch, read_manifest};
use super::inbox::{Inbox, Order};
use super::manifest::{BaseSum, CURRENT, Manifest};
use super::scan::{ScanError, scan};
use super::state::{Figure, State};
use super::verify::{read_base, wrong_with_base, wrong_with_closed};

/// How often it is looked whether all files are there, unless they are read more often.
const LOOK_EVERY: Duration = Duration::from_secs(60);
/// The longest sleep before it is looked whether all is to end.
const STEP: Duration = Duration::from_millis(100);
/// How much is read at once.
const PIECE_BYTES: usize = 256 << 10;
/// A disk says that it cannot read: `EIO`.
const EIO: i32 = 5;

/// Reads the files of one master's current generation.
#[derive(Debug)]
pub struct Scrubber {
    dir: PathBuf,
    state: Arc<State>,
    /// Bytes a second; 0 is any number.
    rate: u64,
    every: Duration,
    /// When each file was last known to be what was written: when it was read, or when it came to
    /// be; `None` of one that was there before this process and has not been read yet.
    known: BTreeMap<String, Option<Instant>>,
    /// The number of a generation that is not gone on with: another is to take its place.
    unfit: Option<u64>,
}

/// A file whose content is not what was written.
#[derive(Debug)]
struct Damage {
    name: String,
    why: String,
}

impl Scrubber {
    /// Of the master's directory; nothing is read yet.
    pub fn new(of_master: &Path, state: Arc<State>, rate: u64, every: Duration) -> Self {
        let (dir, known) = (of_master.join(APPEND_DIR), BTreeMap::new());
        Self { dir, state, rate, every, known, unfit: None }
    }

    /// Looks which files there are that this process has not written. `is_whole` says whether the
    /// generation is gone on with.
    pub fn begin(&mut self, is_whole: bool) {
        let manifest = self.manifest().ok().flatten().unwrap_or_default();
        self.unfit = (!is_whole).then(|| manifest.number());
        if is_whole && self.known.is_empty() {
            self.known.extend(manifest.names().map(|name| (name.to_owned(), None)));
            // It was read when the generation was found to be whole.
            if let Some(last) = manifest.increments.last() {
                self.known.insert(last.name.clone(), Some(Instant::now()));
            }
        }
        self.show(&manifest);
    }

    /// Reads until the inbox is closed, or something is damaged.
    pub fn run(&mut self, inbox: &Inbox) {
        while !inbox.is_closed() {
            let damage = self.look(inbox);
            // A generation that another is to take the place of, or none at all yet.
            let is_awaited = self.unfit.is_some() || damage.is_some();
            let left = is_awaited.then(|| self.number());
            if let Some(Damage { name, why }) = damage {
                inbox.push(Order::Damaged(name, why));
            }
            let (looked, wait) = (Instant::now(), self.every.min(LOOK_EVERY));
            let is_there = |this: &Self| left.is_none_or(|number| this.number() == number);
            while looked.elapsed() < wait && !inbox.is_closed() && is_there(self) {
                sleep(STEP);
            }
        }
    }

    /// The number of the generation that is there, if one is.
    fn number(&self) -> Option<u64> {
        self.manifest().ok().flatten().map(|manifest| manifest.number())
    }

    fn manifest(&self) -> Result<Option<Manifest>, DirectoryError> {
        read_manifest(&self.dir.join(CURRENT))
    }

    /// Looks at all files, and reads those that are due.
    fn look(&mut self, inbox: &Inbox) -> Option<Damage> {
        let manifest = match self.manifest() {
            Ok(Some(manifest)) if manifest.base.is_some() => manifest,
            // Where there is a generation, its writer knows it.
            Ok(_) | Err(DirectoryError::Manifest { .. }) => {
                inbox.push(Order::RestoreManifest);
                return None;
            }
            Err(error) => {
                tracing::warn!(dir = %self.dir.display(), "its files cannot be looked at: {error}");
                return None;
            }
        };
        if self.unfit == Some(manifest.number()) {
            return None;
        }
        self.unfit = None;
        if !manifest.is_ours {
            let why = "a server has written its manifest since".to_owned();
            return Some(Damage { name: CURRENT.to_owned(), why });
        }
        match mismatch(&self.dir, &manifest) {
            Ok(None) => {}
            Ok(Some(why)) => return self.confirm(&manifest, CURRENT, why),
            Err(error) => {
                tracing::warn!(dir = %self.dir.display(), "its files cannot be looked at: {error}");
                return None;
            }
        }
        let now = Instant::now();
        self.known.retain(|name, _| manifest.names().any(|of| of == name));
        for name in manifest.names() {
            self.known.entry(name.to_owned()).or_insert(Some(now));
        }
        self.show(&manifest);
        for name in self.due(&manifest) {
            if let Some(why) = self.read(&manifest, &name, inbox)
                && let Some(damage) = self.confirm(&manifest, &name, why)
            {
                return Some(damage);
            }
            if inbox.is_closed() {
                return None;
            }
            self.show(&manifest);
        }
        None
    }

    /// Damage, unless another generation has taken this one's place meanwhile.
    fn confirm(&self, seen: &Manifest, name: &str, why: String) -> Option<Damage> {
        let now = self.manifest().ok().flatten()?;
        let is_there = match name {
            CURRENT => now == *seen,
            name => now.names().any(|of| of == name),
        };
        is_there.then(|| Damage { name: name.to_owned(), why })
    }

    /// The files that are to be read now: those that were never read before the others. The last
    /// increment is being written.
    fn due(&self, manifest: &Manifest) -> Vec<String> {
        let last = manifest.increments.last().map(|part| part.name.as_str());
        let is_due = |name: &&str| match self.known.get(*name) {
            Some(Some(at)) => at.elapsed() >= self.every,
            _ => true,
        };
        let due = manifest.names().filter(|name| Some(*name) != last).filter(is_due);
        let mut due: Vec<String> = due.map(str::to_owned).collect();
        due.sort_by_key(|name| self.known.get(name).copied().flatten());
        due
    }

    /// Shows how much has not been read since the start.
    fn show(&self, manifest: &Manifest) {
        let is_unread = |name: &&str| matches!(self.known.get(*name), Some(None));
        let len = |name: &str| fs::metadata(self.dir.join(name)).map_or(0, |of| of.len());
        let unread = manifest.names().filter(is_unread).map(len).sum();
        self.state.set(Figure::Unverified, unread);
    }

    /// Reads a file; gives what is wrong with it, if anything.
    fn read(&mut self, manifest: &Manifest, name: &str, inbox: &Inbox) -> Option<String> {
        let is_base = manifest.base.as_ref().is_some_and(|base| base.name == name);
        let wrong = match is_base {
            true => self.read_base(manifest, name, inbox),
            false => self.read_increment(name, inbox),
        };
        if inbox.is_closed() {
            return None;
        }
        match wrong {
            Ok(Some(why)) => Some(format!("{name} is damaged: {why}")),
            Ok(None) => {
                self.known.insert(name.to_owned(), Some(Instant::now()));
                None
            }
            Err(error) if error.kind() == ErrorKind::NotFound => Some(format!("{name} is missing")),
            Err(error) if error.raw_os_error() == Some(EIO) => {
                Some(format!("{name} cannot be read: {error}"))
            }
            Err(error) => {
                tracing::warn!(name, "a file cannot be read, and is tried again: {error}");
                None
            }
        }
    }

    fn read_base(
        &self,
        manifest: &Manifest,
        name: &str,
        inbox: &Inbox,
    ) -> io::Result<Option<String>> {
        let mut file = self.open(name, inbox)?;
        let check = read_base(&mut file)?;
        let wrong = wrong_with_base(&check, manifest.sum);
        let first = manifest.increments.first().map(|part| begin_of(&self.dir.join(&part.name)));
        if let (None, None, Some(Ok(Some(offset)))) = (&wrong, manifest.sum, first) {
            let sum = BaseSum { len: check.bytes(), crc: check.sum(), offset };
            inbox.push(Order::Summed(name.to_owned(), sum));
        }
        Ok(wrong)
    }

    fn read_increment(&self, name: &str, inbox: &Inbox) -> io::Result<Option<String>> {
        let file = self.open(name, inbox)?;
        match scan(&mut BufReader::with_capacity(PIECE_BYTES, file)) {
            Ok(scanned) => Ok(wrong_with_closed(&scanned)),
            Err(ScanError::Io(error)) => Err(error),
            Err(error @ ScanError::NotWeirs) => Ok(Some(error.to_string())),
        }
    }

    fn open<'a>(&self, name: &str, inbox: &'a Inbox) -> io::Result<PacedReader<'a>> {
        let file = File::open(self.dir.join(name))?;
        // What was written lately is in memory, whatever the disk has. Best effort.
        let _ = fadvise(&file, 0, None, Advice::DontNeed);
        Ok(PacedReader { file, at: 0, rate: self.rate, ahead: Duration::ZERO, inbox })
    }
}

/// A file that is read at a rate, and not kept in memory.
#[derive(Debug)]
struct PacedReader<'a> {
    file: File,
    at: u64,
    rate: u64,
    /// For how long nothing is to be read.
    ahead: Duration,
    inbox: &'a Inbox,
}

impl Read for PacedReader<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        while self.ahead >= STEP {
            sleep(STEP);
            self.ahead -= STEP;
            if self.inbox.is_closed() {
                return Err(io::Error::other("the follower ends"));
            }
        }
        let most = out.len().min(PIECE_BYTES);
        let read = self.file.read(out.get_mut(..most).unwrap_or_default())?;
        let _ = fadvise(&self.file, self.at, NonZeroU64::new(read as u64), Advice::DontNeed);
        self.at += read as u64;
        if self.rate > 0 {
            self.ahead += Duration::from_secs_f64(read as f64 / self.rate as f64);
        }
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use std::thread;
    use std::time::Duration;

    use watch::metrics::Registry;

    use super::super::inbox::{Inbox, Order};
    use super::super::state::State;
    use super::Scrubber;

    #[test]
    fn before_the_first_generation_the_disks_thread_is_asked_once_and_not_without_end() {
        let dir = tempfile::tempdir().unwrap();
        let state = State::new("m", &Registry::new());
        let mut scrubber = Scrubber::new(dir.path(), state, 0, Duration::from_secs(60));
        scrubber.begin(false);
        let inbox = Inbox::new(1024);
        thread::scope(|scope| {
            scope.spawn(|| scrubber.run(&inbox));
            thread::sleep(Duration::from_millis(300));
            inbox.close();
        });
        let (orders, _) = inbox.take().unwrap();
        assert!(matches!(orders.as_slices(), ([Order::RestoreManifest], [])), "{}", orders.len());
    }
}
