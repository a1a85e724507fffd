//! Getting the next segment ready: from a file that holds nothing any more, or a new one while
//! `max-size` allows it.

use std::fs::File;
use std::path::{Path, PathBuf};

use disk::FileError;

use super::Log;
use super::gate::Room;
use super::segments::{Files, Next};
use crate::format::segment::{self, First, Header};
use crate::position::Position;

/// How many files of given up segments are kept to be used again.
const SPARES_MAX: usize = 1;

/// The suffix of files that hold nothing and wait to become a segment.
pub(crate) const SUFFIX: &str = "spare";

impl Files {
    /// Another name for a spare.
    pub fn spare_path(&mut self, dir: &Path) -> PathBuf {
        self.spare_number += 1;
        dir.join(format!("{}.{SUFFIX}", self.spare_number))
    }
}

impl Log {
    /// Whether the next segment is ready to be written.
    pub fn is_next_ready(&self) -> bool {
        matches!(self.segments.files().next, Next::Ready(_))
    }

    /// An empty file of a segment's length; `None` when `max-size` does not allow one.
    pub fn spare(&self) -> Result<Option<(PathBuf, File)>, FileError> {
        let mut files = self.segments.files();
        if let Some(path) = files.spares.pop() {
            drop(files);
            let open = File::options().read(true).write(true).open(&path);
            return open
                .map(|file| Some((path.clone(), file)))
                .map_err(FileError::of("open", &path));
        }
        let len = self.segment_len();
        if files.bytes(len) + len > self.settings.max_size.bytes() {
            return Ok(None);
        }
        let path = files.spare_path(self.dir());
        drop(files);
        // Whoever syncs what it has written waits for itself alone.
        let piece = if self.is_durable() { len } else { segment::HEADER_LEN };
        let file = self.disk.allocate(&path, len, piece)?;
        Ok(Some((path, file)))
    }

    /// Makes the next segment of a spare and gives it to the journal thread; everything up to
    /// `synced_end` is synced.
    pub fn establish(
        &self,
        (path, file): (PathBuf, File),
        synced_end: Position,
    ) -> Result<(), FileError> {
        let files = self.segments.files();
        let last = files.segments.last_key_value();
        let base = last.map_or(files.floor, |(_, last)| last.end().max(files.floor));
        let previous = last.map(|(base, _)| *base);
        drop(files);
        let capacity = self.settings.segment_capacity();
        let header = Header { salt: self.salt, base, capacity, previous, synced_end };
        let next = segment::establish(&self.disk, self.dir(), &path, file, &header)?;
        if self.gate.room() != Room::Yes {
            tracing::info!("the journal has room for another segment again");
        }
        self.set_next(Next::Ready(next));
        Ok(())
    }

    /// Remembers that there can be no next segment for now. Logs the reason once for each time
    /// that begins.
    pub fn refuse(&self, room: Room, reason: &str) {
        let known = matches!(self.segments.files().next, Next::Refused(known) if known == room);
        if !known {
            tracing::error!(
                reason,
                dir = %self.dir().display(),
                "no further segment for the journal: writes are refused once this one is full"
            );
        }
        self.set_next(Next::Refused(room));
    }

    fn set_next(&self, next: Next) {
        self.segments.files().next = next;
        self.refresh_limit(None);
        self.announce();
    }

    /// Where the data of the oldest segment ends, if there is a group behind it.
    pub fn oldest_end(&self) -> Option<Position> {
        let files = self.segments.files();
        files.segments.keys().next().and_then(|base| files.data_end(*base))
    }

    /// The oldest segment and the first group behind it. The segment being written is none that
    /// can be given up.
    pub fn oldest_to_give_up(&self) -> Option<(Position, First)> {
        let files = self.segments.files();
        let (&base, _) = files.segments.first_key_value()?;
        let mut later = files.segments.range(base.after(1)..);
        let first = later.find_map(|(_, segment)| segment.first.get().copied())?;
        Some((base, first))
    }

    /// Gives free the segments whose data ends at or before a place.
    pub fn free_up_to(&self, passed: Position) -> Result<(), FileError> {
        loop {
            let files = self.segments.files();
            let Some((&base, _)) = files.segments.first_key_value() else {
                return Ok(());
            };
            if files.data_end(base).is_none_or(|end| passed < end) {
                return Ok(());
            }
            drop(files);
            self.free(base)?;
        }
    }

    /// Takes a segment out of the journal. Its file is kept to be used again, or removed.
    pub fn free(&self, base: Position) -> Result<(), FileError> {
        let mut files = self.segments.files();
        let Some(segment) = files.segments.remove(&base) else {
            return Ok(());
        };
        let reusable = segment.file_len == self.segment_len() && files.spares.len() < SPARES_MAX;
        let spare = reusable.then(|| files.spare_path(self.dir()));
        drop(files);
        let Some(spare) = spare else {
            let removed = self.disk.remove(&segment.path);
            return removed.map_err(FileError::of("remove", &segment.path));
        };
        let renamed = self.disk.rename(&segment.path, &spare);
        renamed.map_err(FileError::of("rename", &segment.path))?;
        self.segments.files().spares.push(spare);
        Ok(())
    }
}
