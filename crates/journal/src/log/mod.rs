//! The segments on the disk, and whether records are taken.
//!
//! Locks: the segments; the segments to be synced and the rates, each alone.

// Layers, from the top down; `self` is what this file defines.
//   spare
//   self
//   rates, segments, unsynced
//   gate

pub(crate) mod gate;
mod rates;
pub(crate) mod segments;
pub(crate) mod spare;
#[cfg(test)]
mod tests;
mod unsynced;

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};

use disk::{Disk, FileError};

use self::gate::{Gate, Room};
use self::rates::Rates;
use self::segments::{Files, Next, Segments};
use self::unsynced::Unsynced;
use crate::format::record;
use crate::format::segment::{self, First, Segment};
use crate::instruments::Instruments;
use crate::position::{Counts, Position};
use crate::settings::{Ack, Settings};
use crate::threads::{Bell, lock};

/// The files of one journal, written by the journal thread alone.
#[derive(Debug)]
pub(crate) struct Log {
    settings: Settings,
    salt: u32,
    disk: Disk,
    metrics: Instruments,
    gate: Arc<Gate>,
    segments: Segments,
    unsynced: Unsynced,
    /// Wakes the housekeeping thread, which makes segments and persists cursors.
    housekeeping: Bell,
    /// How fast it fills, kept by the housekeeping thread.
    rates: Mutex<Rates>,
}

impl Log {
    pub fn new(
        settings: Settings,
        salt: u32,
        disk: Disk,
        metrics: Instruments,
        files: Files,
    ) -> Log {
        Log {
            settings,
            salt,
            disk,
            metrics,
            gate: Arc::new(Gate::new()),
            segments: Segments::new(files),
            unsynced: Unsynced::default(),
            housekeeping: Bell::default(),
            rates: Mutex::default(),
        }
    }

    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    pub fn dir(&self) -> &Path {
        &self.settings.dir
    }

    /// The journal's random number, which every checksum begins with.
    pub fn salt(&self) -> u32 {
        self.salt
    }

    pub fn metrics(&self) -> &Instruments {
        &self.metrics
    }

    pub fn gate(&self) -> &Arc<Gate> {
        &self.gate
    }

    /// What the housekeeping thread sleeps by.
    pub fn housekeeping(&self) -> &Bell {
        &self.housekeeping
    }

    /// What the thread sleeps by that syncs in the background.
    pub fn syncer(&self) -> &Bell {
        self.unsynced.bell()
    }

    /// How fast it fills, averaged.
    pub fn rates(&self) -> Rates {
        *lock(&self.rates)
    }

    /// Takes note of how fast it fills at this moment, in bytes a second: by what was appended and
    /// by what cannot be given free.
    pub fn note_rates(&self, appended: f64, growth: f64) {
        lock(&self.rates).note(appended, growth);
    }

    pub fn is_durable(&self) -> bool {
        self.settings.ack == Ack::Durable
    }

    /// The length of a whole segment's file.
    pub fn segment_len(&self) -> u64 {
        segment::HEADER_LEN + self.settings.segment_capacity()
    }

    /// The longest payload a record can have, in bytes.
    pub fn payload_max(&self) -> u64 {
        self.settings.group_capacity().saturating_sub(record::HEADER_LEN as u64)
    }

    /// Bytes of all segment files together, and how many there are, prepared ones included.
    pub fn usage(&self) -> (u64, u64) {
        let files = self.segments.files();
        (files.bytes(self.segment_len()), files.count())
    }

    /// The segment a place belongs to.
    pub fn find(&self, position: Position) -> Option<Arc<Segment>> {
        self.segments.find(position)
    }

    /// The first group of the segments that begin after a place.
    pub fn first_after(&self, position: Position) -> Option<First> {
        self.segments.first_after(position)
    }

    /// The oldest group there is.
    pub fn oldest(&self) -> Option<First> {
        self.segments.oldest()
    }

    /// Writes all parts one behind the other, from an offset of the segment's file on.
    pub fn write(&self, segment: &Segment, parts: &[&[u8]], offset: u64) -> io::Result<()> {
        self.disk.write_all(&segment.file, parts, offset)
    }

    pub fn sync(&self, segment: &Segment) -> io::Result<()> {
        self.disk.sync(&segment.file)
    }

    /// Syncs what was written to segments since they were last synced, for modes that do not sync
    /// each group.
    pub fn flush(&self) -> Result<(), FileError> {
        self.unsynced.flush(&self.disk, &self.metrics.sync)
    }

    /// How many flushes have begun, and whether one is under way.
    pub fn flushes(&self) -> (u64, bool) {
        self.unsynced.flushes()
    }

    /// Puts the prepared segment to use and has another one prepared. `previous_end` is where the
    /// last group ends, and `before` what was written up to there.
    ///
    /// Without a prepared one it waits. Before each wait, and with the segments locked, `waiting`
    /// hears why there is none, `None` where one is being made; its error ends the wait.
    pub fn next_segment<E>(
        &self,
        previous_end: Position,
        before: Counts,
        mut waiting: impl FnMut(Option<Room>) -> Result<(), E>,
    ) -> Result<Arc<Segment>, E> {
        let mut files = self.segments.files();
        loop {
            let refused = match std::mem::replace(&mut files.next, Next::Wanted) {
                Next::Ready(segment) => {
                    // Where the segment before ends is known only now, and what gives segments
                    // free needs to know it.
                    let position = segment.base;
                    let _ = segment.first.set(First { position, previous_end, before });
                    let segment = files.insert(segment);
                    drop(files);
                    if !self.is_durable() {
                        self.unsynced.push(segment.clone());
                    }
                    self.housekeeping.wake();
                    return Ok(segment);
                }
                Next::Refused(room) => {
                    files.next = Next::Refused(room);
                    Some(room)
                }
                Next::Wanted => {
                    self.housekeeping.wake();
                    None
                }
            };
            waiting(refused)?;
            files = self.segments.wait(files);
        }
    }

    /// Lets the journal thread look at its state, if it waits for the next segment.
    pub fn announce(&self) {
        self.segments.announce();
    }

    /// Says how much may be appended before the next group is taken: what fits into a group, but
    /// no more than is left of the active segment while no further one can be had. The journal
    /// thread says how much is left.
    pub fn refresh_limit(&self, left: Option<u64>) {
        // Under the segments' lock, so that the journal and the housekeeping thread agree.
        let mut files = self.segments.files();
        if let Some(left) = left {
            files.left = left;
        }
        let room = match files.next {
            Next::Refused(room) => room,
            Next::Wanted | Next::Ready(_) => Room::Yes,
        };
        let mut limit = self.settings.group_capacity();
        if room != Room::Yes {
            limit = limit.min(files.left);
        }
        self.gate.set_room(room);
        self.gate.set_limit(limit);
    }
}
