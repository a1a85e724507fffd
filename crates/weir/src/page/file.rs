//! Events and history on disk, so that a restart does not lose them: lines at the end of one file,
//! which becomes the former one when it is long enough. Nothing is synced; what can't be read is
//! left out, and where nothing can be written the page goes on without.
//!
//! A line is `e`, an event; `k`, the names of lines of charts; or `m`, a minute with a value for
//! each of the names before it.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, SyncSender, TrySendError, channel, sync_channel};
use std::time::{Duration, Instant};

use disk::Disk;

use super::events::EventList;
use super::history::{History, WholeMinute};
use crate::diagnosis::event::Event;

/// A file of so many bytes becomes the former one, of which there is one.
pub const FILE_BYTES_MAX: u64 = 4 << 20;
/// The longest line that is read.
const LINE_BYTES_MAX: u64 = 1 << 20;
/// Lines that wait for a disk that takes its time; more are given up.
const WAITING_MAX: usize = 64;
/// How long nothing is written after an error.
const REST: Duration = Duration::from_secs(60);
/// Minutes that are of use.
const MINUTES_MAX: u64 = 1440;
/// Events that a new file begins with.
const CARRIED_MAX: usize = 200;

const NAME: &str = "history";
const FORMER: &str = "history.old";

/// What the files had.
#[derive(Debug, Default)]
pub struct Restored {
    /// Minutes that were measured before.
    pub history: History,
    /// Events of former runs.
    pub events: EventList,
    /// Lines that could not be read.
    pub unreadable: u64,
}

/// Reads what is there, of the last day.
pub fn read(dir: &Path, minute: u64) -> Restored {
    let mut restored = Restored::default();
    let mut newest = 0;
    for name in [FORMER, NAME] {
        let Ok(file) = File::open(dir.join(name)) else { continue };
        let mut reader = BufReader::new(file.take(2 * FILE_BYTES_MAX));
        let mut keys: Vec<String> = Vec::new();
        loop {
            let mut line = Vec::new();
            match (&mut reader).take(LINE_BYTES_MAX).read_until(b'\n', &mut line) {
                Ok(0) | Err(_) => break,
                Ok(_) => {}
            }
            if restored.take(&line, &mut keys, minute, &mut newest).is_none() {
                restored.unreadable += 1;
            }
        }
    }
    restored
}

impl Restored {
    /// One line; `None` where it is none.
    fn take(
        &mut self,
        line: &[u8],
        keys: &mut Vec<String>,
        minute: u64,
        newest: &mut u64,
    ) -> Option<()> {
        let text = std::str::from_utf8(line).ok()?.strip_suffix('\n')?;
        let (kind, rest) = text.split_once(' ')?;
        match kind {
            "e" => {
                let event: Event = serde_json::from_str(rest).ok()?;
                // A new file begins with events of the former one.
                if event.number > *newest {
                    *newest = event.number;
                    self.events.restore(event);
                }
            }
            "k" => *keys = serde_json::from_str(rest).ok()?,
            "m" => {
                let (at, values) = rest.split_once(' ')?;
                let at: u64 = at.parse().ok()?;
                let values: Vec<Option<f32>> = serde_json::from_str(values).ok()?;
                if (minute.saturating_sub(MINUTES_MAX - 1)..=minute).contains(&at) {
                    let named = keys.iter().cloned().zip(values);
                    let named = named.filter_map(|(name, value)| Some((name, value?)));
                    self.history.restore(at, named);
                }
            }
            _ => return None,
        }
        Some(())
    }
}

enum Line {
    Event(Box<Event>),
    Minute(WholeMinute),
}

/// The thread that writes. Whoever hands it a line never waits for the disk.
#[derive(Debug)]
pub struct Writer {
    lines: SyncSender<Line>,
    /// Closed once the thread has ended.
    ended: Receiver<()>,
}

impl Writer {
    /// Begins to write in a directory, which is made where it is not there.
    ///
    /// # Errors
    /// There is no thread to be had.
    pub fn start(dir: PathBuf, carried: Vec<Event>) -> io::Result<Self> {
        let (lines, taken) = sync_channel(WAITING_MAX);
        let (ends, ended) = channel();
        let file = Lines::new(dir, carried);
        let thread = std::thread::Builder::new().name("page-file".to_owned());
        thread.spawn(move || file.run(&taken, ends))?;
        Ok(Self { lines, ended })
    }

    /// Has an event written.
    pub fn event(&self, event: Event) {
        self.hand(Line::Event(Box::new(event)));
    }

    /// Has a minute written.
    pub fn minute(&self, minute: WholeMinute) {
        self.hand(Line::Minute(minute));
    }

    fn hand(&self, line: Line) {
        if let Err(TrySendError::Full(_)) = self.lines.try_send(line) {
            tracing::debug!("the disk of the page's history is slow; a line is given up");
        }
    }

    /// Writes what waits and ends, unless that takes too long.
    pub fn finish(self, within: Duration) {
        let Self { lines, ended } = self;
        drop(lines);
        // It says nothing, and is closed at the end.
        let _ = ended.recv_timeout(within);
    }
}

/// The file, as the thread has it.
struct Lines {
    dir: PathBuf,
    disk: Disk,
    file: Option<disk::Stream>,
    /// The names that were written last.
    keys: Vec<String>,
    /// Nothing is written before then.
    rests_until: Option<Instant>,
    /// The newest events, for the beginning of a new file.
    carried: std::collections::VecDeque<Event>,
}

impl Lines {
    fn new(dir: PathBuf, carried: Vec<Event>) -> Self {
        let disk = Disk::of(&dir);
        let (keys, file, rests_until) = (Vec::new(), None, None);
        Self { dir, disk, file, keys, rests_until, carried: carried.into() }
    }

    fn run(mut self, taken: &Receiver<Line>, ends: Sender<()>) {
        taken.iter().for_each(|line| self.write(&line));
        drop(ends);
    }

    fn write(&mut self, line: &Line) {
        if let Line::Event(event) = line {
            self.carried.push_back(Event::clone(event));
            if self.carried.len() > CARRIED_MAX {
                self.carried.pop_front();
            }
        }
        if self.rests_until.is_some_and(|until| Instant::now() < until) {
            return;
        }
        let had_failed = self.rests_until.take().is_some();
        if let Err(error) = self.try_write(line) {
            if !had_failed {
                let dir = self.dir.display();
                tracing::warn!(%dir, %error, "the page's history can't be kept");
            }
            (self.file, self.rests_until) = (None, Some(Instant::now() + REST));
        }
    }

    fn try_write(&mut self, line: &Line) -> io::Result<()> {
        let mut text = String::new();
        match line {
            Line::Event(event) => put(&mut text, "e", &serde_json::to_string(event)?),
            Line::Minute((minute, values)) => {
                let is_same = self.keys.len() == values.len()
                    && self.keys.iter().zip(values.keys()).all(|(was, is)| was == is);
                if !is_same || self.file.is_none() {
                    self.keys = values.keys().cloned().collect();
                    put(&mut text, "k", &serde_json::to_string(&self.keys)?);
                }
                put(&mut text, "m", &format!("{minute} {}", numbers(values)));
            }
        }
        let is_full = |file: &disk::Stream| file.bytes() + text.len() as u64 > FILE_BYTES_MAX;
        if self.file.as_ref().is_some_and(is_full) {
            self.turn()?;
            if let Line::Minute(_) = line {
                let keys = std::mem::take(&mut self.keys);
                let mut with_keys = String::new();
                put(&mut with_keys, "k", &serde_json::to_string(&keys)?);
                self.keys = keys;
                text.insert_str(0, &with_keys);
            }
        }
        self.opened()?.write_all(text.as_bytes())
    }

    /// The file, opened behind its last whole line.
    fn opened(&mut self) -> io::Result<&mut disk::Stream> {
        if self.file.is_none() {
            self.disk.create_dir(&self.dir)?;
            let path = self.dir.join(NAME);
            let len = whole_lines(&path)?;
            self.file = Some(self.disk.append(&path, len)?);
        }
        self.file.as_mut().ok_or_else(|| io::Error::other("the file is not open"))
    }

    /// Begins a new file, with the newest events of the former ones.
    fn turn(&mut self) -> io::Result<()> {
        self.file = None;
        self.disk.rename(&self.dir.join(NAME), &self.dir.join(FORMER))?;
        let mut text = String::new();
        for event in &self.carried {
            put(&mut text, "e", &serde_json::to_string(event)?);
        }
        self.opened()?.write_all(text.as_bytes())
    }
}

/// How long the file is up to the end of its last whole line. One that is too long is begun anew.
fn whole_lines(path: &Path) -> io::Result<u64> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
        Err(error) => return Err(error),
    };
    let mut reader = BufReader::new(file.take(2 * FILE_BYTES_MAX));
    let (mut read, mut whole) = (0, 0);
    loop {
        let piece = reader.fill_buf()?;
        let len = piece.len();
        if let Some(at) = piece.iter().rposition(|byte| *byte == b'\n') {
            whole = read + at as u64 + 1;
        }
        if len == 0 {
            break;
        }
        reader.consume(len);
        read += len as u64;
    }
    Ok(if read >= 2 * FILE_BYTES_MAX { 0 } else { whole })
}

fn put(text: &mut String, kind: &str, rest: &str) {
    text.push_str(kind);
    text.push(' ');
    text.push_str(rest);
    text.push('\n');
}

fn numbers(values: &BTreeMap<String, f32>) -> String {
    let shown: Vec<String> = values.values().map(|value| value.to_string()).collect();
    format!("[{}]", shown.join(","))
}

#[cfg(test)]
mod tests;
