//! The file that a master's stream goes to.

use std::fs::File;
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use disk::{Disk, FileError};

use super::keys::Keys;
use super::lines::{Id, Line};
use super::scan::{AofPosition, put_select};
use super::stream::{StreamError, Tracker};

/// An increment that is being written.
#[derive(Debug)]
pub struct Increment {
    path: PathBuf,
    file: File,
    /// Bytes that the file has.
    len: u64,
    /// CRC-32C since the last mark.
    crc: u32,
    tracker: Tracker,
    /// Bytes of the stream that were written.
    offset: u64,
    id: Id,
    /// The id has changed, and the file does not say so yet.
    is_renamed: bool,
    /// How many keys the master had, where that is known.
    keys: Option<Keys>,
    /// That has changed, and the file does not say so yet.
    is_recounted: bool,
    /// What its last line with the time says.
    time: u64,
}

/// What came of a group, and where in it a file may end.
#[derive(Debug)]
pub struct Group<'a> {
    before: Vec<&'a [u8]>,
    behind: Vec<&'a [u8]>,
    /// The tracker where `before` ends, if a file may end there.
    at_rest: Option<Tracker>,
}

impl Increment {
    /// Begins an empty file, and syncs it.
    ///
    /// # Errors
    /// The file system refuses.
    pub fn begin(
        disk: &Disk,
        (path, file): (PathBuf, File),
        id: Id,
        offset: u64,
        database: u32,
        keys: Option<Keys>,
    ) -> Result<Self, FileError> {
        let mut head = Vec::new();
        Line::Begin { id, offset, database }.put(&mut head);
        put_select(&mut head, database);
        let mut crc = crc32c::crc32c(&head);
        if let Some(keys) = keys {
            let len = head.len();
            Line::Keys(keys).put(&mut head);
            crc = crc32c::crc32c_append(crc, head.get(len..).unwrap_or_default());
            Line::Mark { offset, crc }.put(&mut head);
            crc = 0;
        }
        disk.write_all(&file, &[&head], 0).map_err(FileError::of("write", &path))?;
        disk.sync(&file).map_err(FileError::of("sync", &path))?;
        let place = AofPosition { at: head.len() as u64, offset, id, database, keys };
        Ok(Self::at(path, file, place, crc))
    }

    /// Goes on with a file that was scanned: what lies behind is cut, and the rest is synced.
    ///
    /// # Errors
    /// The file system refuses.
    pub fn resume(disk: &Disk, path: PathBuf, place: AofPosition) -> Result<Self, FileError> {
        let file = File::options().write(true).open(&path).map_err(FileError::of("open", &path))?;
        disk.truncate(&file, place.at).map_err(FileError::of("cut", &path))?;
        disk.sync(&file).map_err(FileError::of("sync", &path))?;
        // Where there is no mark yet, the file's beginning is what the first one is over.
        let crc = Self::crc_of_head(place);
        Ok(Self::at(path, file, place, crc))
    }

    fn at(path: PathBuf, file: File, place: AofPosition, crc: u32) -> Self {
        let AofPosition { at, offset, id, database, keys } = place;
        let (tracker, len) = (Tracker::new(database), at);
        let (is_renamed, is_recounted, time) = (false, false, 0);
        Self { path, file, len, crc, tracker, offset, id, is_renamed, keys, is_recounted, time }
    }

    fn crc_of_head(place: AofPosition) -> u32 {
        let AofPosition { at, offset, id, database, .. } = place;
        let mut head = Vec::new();
        Line::Begin { id, offset, database }.put(&mut head);
        put_select(&mut head, database);
        if head.len() as u64 == at { crc32c::crc32c(&head) } else { 0 }
    }

    /// Bytes that the file has.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// How much of the stream was written, and whose history it is.
    pub fn position(&self) -> (Id, u64) {
        (self.id, self.offset)
    }

    /// From here on the history has this id.
    pub fn rename(&mut self, id: Id) {
        self.is_renamed |= self.id != id;
        self.id = id;
    }

    /// How many keys the master had, where that is known.
    pub fn keys(&self) -> Option<Keys> {
        self.keys
    }

    /// Whether the number of keys has changed, and the file does not say so yet.
    pub fn is_recounted(&self) -> bool {
        self.is_recounted
    }

    /// Whether the master is not believed.
    pub fn is_doubted(&self) -> bool {
        self.keys.is_some_and(Keys::is_doubted)
    }

    /// The master has so many keys.
    pub fn recount(&mut self, keys: Keys) {
        self.is_recounted |= self.keys != Some(keys);
        self.keys = Some(keys);
    }

    /// Looks where in what came a file may end.
    ///
    /// # Errors
    /// It is not a stream of commands; none of it is written.
    pub fn group<'a>(&mut self, pieces: &'a [Vec<u8>]) -> Result<Group<'a>, StreamError> {
        let (mut at, mut rest) = (0, None);
        for piece in pieces {
            let mut bytes = piece.as_slice();
            while let Some(len) = self.tracker.advance(bytes)? {
                at += len;
                bytes = bytes.get(len..).unwrap_or_default();
                if self.tracker.is_at_rest() {
                    rest = Some((at, self.tracker.clone()));
                }
            }
            at += bytes.len();
        }
        let mut group = Group { before: Vec::new(), behind: Vec::new(), at_rest: None };
        let mut left = rest.as_ref().map_or(usize::MAX, |(at, _)| *at);
        for piece in pieces {
            let (before, behind) = piece.split_at(left.min(piece.len()));
            left = left.saturating_sub(before.len());
            group.before.push(before);
            group.behind.push(behind);
        }
        group.at_rest = rest.map(|(_, tracker)| tracker);
        Ok(group)
    }

    /// Writes a group up to where the file may end, with a mark there; if it may nowhere, all.
    ///
    /// # Errors
    /// The disk refuses.
    pub fn write_before(
        &mut self,
        disk: &Disk,
        group: &Group<'_>,
        was_at_rest: bool,
    ) -> Result<(), FileError> {
        let mut head = Vec::new();
        if was_at_rest {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
            if self.time != now {
                Line::Time(now).put(&mut head);
                self.time = now;
            }
            if std::mem::take(&mut self.is_renamed) {
                Line::Renamed(self.id).put(&mut head);
            }
            if let Some(keys) = self.keys
                && std::mem::take(&mut self.is_recounted)
            {
                Line::Keys(keys).put(&mut head);
            }
        }
        let mut parts = vec![head.as_slice()];
        parts.extend(&group.before);
        self.crc = parts.iter().fold(self.crc, |crc, part| crc32c::crc32c_append(crc, part));
        self.offset += group.before.iter().map(|part| part.len() as u64).sum::<u64>();
        let mut mark = Vec::new();
        if group.at_rest.is_some() {
            Line::Mark { offset: self.offset, crc: self.crc }.put(&mut mark);
            self.crc = 0;
        }
        parts.push(&mark);
        self.write(disk, &parts)
    }

    /// Writes the rest of a group.
    ///
    /// # Errors
    /// The disk refuses.
    pub fn write_behind(&mut self, disk: &Disk, group: &Group<'_>) -> Result<(), FileError> {
        self.crc = group.behind.iter().fold(self.crc, |crc, part| crc32c::crc32c_append(crc, part));
        self.offset += group.behind.iter().map(|part| part.len() as u64).sum::<u64>();
        self.write(disk, &group.behind)
    }

    fn write(&mut self, disk: &Disk, parts: &[&[u8]]) -> Result<(), FileError> {
        let written = disk.write_all(&self.file, parts, self.len);
        written.map_err(FileError::of("write", &self.path))?;
        self.len += parts.iter().map(|part| part.len() as u64).sum::<u64>();
        Ok(())
    }

    /// Has the stream go on in another file, from where a group has it at rest.
    ///
    /// # Errors
    /// The disk refuses.
    pub fn go_on_in(
        &self,
        disk: &Disk,
        made: (PathBuf, File),
        at_rest: &Tracker,
    ) -> Result<Self, FileError> {
        let (id, offset, database) = (self.id, self.offset, at_rest.database());
        let mut next = Self::begin(disk, made, id, offset, database, self.keys)?;
        next.tracker = self.tracker.clone();
        Ok(next)
    }

    /// Makes what was written durable.
    ///
    /// # Errors
    /// The sync failed, and nothing that was written since the last can be trusted.
    pub fn sync(&self, disk: &Disk) -> Result<(), FileError> {
        disk.sync(&self.file).map_err(FileError::of("sync", &self.path))
    }

    /// Whether neither a command nor a transaction is under way.
    pub fn is_at_rest(&self) -> bool {
        self.tracker.is_at_rest()
    }

    /// The stream's state, if neither a command nor a transaction is under way.
    pub fn at_rest(&self) -> Option<&Tracker> {
        self.is_at_rest().then_some(&self.tracker)
    }
}

impl Group<'_> {
    /// The stream's state where a file may end, if it may.
    pub fn at_rest(&self) -> Option<&Tracker> {
        self.at_rest.as_ref()
    }
}
