//! The segments there are, and the one that comes next.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use super::gate::Room;
use crate::format::segment::{First, Segment};
use crate::position::Position;
use crate::threads::lock;

/// The segment after the one that is written.
#[derive(Debug)]
pub(super) enum Next {
    /// Being made by the housekeeping thread, or soon.
    Wanted,
    /// Ready to be written.
    Ready(Segment),
    /// Cannot be made for now.
    Refused(Room),
}

/// Every segment file of the journal.
#[derive(Debug)]
pub(super) struct Segments {
    files: Mutex<Files>,
    changed: Condvar,
}

/// What is behind the segments' lock.
#[derive(Debug)]
pub(crate) struct Files {
    /// By base; the last is the one that is written, once there was a group to write.
    pub(super) segments: BTreeMap<Position, Arc<Segment>>,
    pub(super) next: Next,
    /// Files of a whole segment that hold nothing any more.
    pub(super) spares: Vec<PathBuf>,
    /// No segment may begin before: positions up to here may have been handed out.
    pub(super) floor: Position,
    /// The last number a spare's name had.
    pub(super) spare_number: u64,
    /// Bytes of records the active segment has room for.
    pub(super) left: u64,
}

impl Files {
    /// No files yet, where no segment may begin before `floor`.
    pub fn new(floor: Position) -> Files {
        Files {
            segments: BTreeMap::new(),
            next: Next::Wanted,
            spares: Vec::new(),
            floor,
            spare_number: 0,
            left: 0,
        }
    }

    /// Adds a segment, behind all others or where it was found.
    pub fn insert(&mut self, segment: Segment) -> Arc<Segment> {
        let segment = Arc::new(segment);
        self.segments.insert(segment.base, segment.clone());
        segment
    }

    /// Adds a file of a whole segment that holds nothing any more.
    pub fn add_spare(&mut self, path: PathBuf) {
        self.spares.push(path);
    }

    pub fn spares(&self) -> &[PathBuf] {
        &self.spares
    }

    /// Bytes of all files together; `spare_len` is the length of one spare.
    pub fn bytes(&self, spare_len: u64) -> u64 {
        let segments: u64 = self.segments.values().map(|s| s.file_len).sum();
        let next = match &self.next {
            Next::Ready(segment) => segment.file_len,
            Next::Wanted | Next::Refused(_) => 0,
        };
        segments + next + self.spares.len() as u64 * spare_len
    }

    pub fn count(&self) -> u64 {
        let next = u64::from(matches!(self.next, Next::Ready(_)));
        self.segments.len() as u64 + next
    }

    /// Where the data of the segment with this base ends, which is known from the group after it.
    pub fn data_end(&self, base: Position) -> Option<Position> {
        let mut later = self.segments.range(base.after(1)..);
        later.find_map(|(_, segment)| Some(segment.first.get()?.previous_end))
    }
}

impl Segments {
    pub fn new(files: Files) -> Segments {
        Segments { files: Mutex::new(files), changed: Condvar::new() }
    }

    pub fn files(&self) -> MutexGuard<'_, Files> {
        lock(&self.files)
    }

    /// Wakes the journal thread if it waits for the next segment.
    pub fn announce(&self) {
        self.changed.notify_all();
    }

    pub fn wait<'a>(&self, files: MutexGuard<'a, Files>) -> MutexGuard<'a, Files> {
        self.changed.wait(files).unwrap_or_else(PoisonError::into_inner)
    }

    /// The segment a place belongs to.
    pub fn find(&self, position: Position) -> Option<Arc<Segment>> {
        let files = self.files();
        let (_, segment) = files.segments.range(..=position).next_back()?;
        segment.contains(position).then(|| segment.clone())
    }

    /// The first group of the segments that begin after a place.
    pub fn first_after(&self, position: Position) -> Option<First> {
        let files = self.files();
        let mut later = files.segments.range(position.after(1)..);
        later.find_map(|(_, segment)| segment.first.get().copied())
    }

    /// The oldest group there is.
    pub fn oldest(&self) -> Option<First> {
        let files = self.files();
        files.segments.values().find_map(|s| s.first.get().copied())
    }
}
