//! Finding the end of a journal that may have been torn or damaged.
//!
//! What is before the last end that is known to have been synced and cannot be read is damage: it
//! is reported, and what is intact after it is kept. What is after that end and is not whole is
//! the torn tail of the last writes: nobody was promised it, so it is cut off with all behind it.

// Layers, from the top down; `self` is what this file defines.
//   open
//   directory, identity
//   self

pub(crate) mod directory;
pub(crate) mod identity;
pub(crate) mod open;

use std::fmt;
use std::sync::Arc;

use disk::FileError;

use crate::format::scan::{self, Entry};
use crate::format::segment::Segment;
use crate::position::{Counts, Position};
use crate::status::Damage;

/// What opening the journal found. `Display` is one line, or several, for the log.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Recovery {
    /// How many segment files there are.
    pub segments: u64,
    /// The end of the intact records.
    pub end: Position,
    /// Where the torn tail was cut.
    pub cut: Option<TornTail>,
    /// Damaged or missing places before the last synced end, as far as they were looked at: the
    /// segments before the newest are checked while they are delivered, or by `verify`.
    pub damage: Vec<Damage>,
    /// Cursors whose file could not be read; each begins again at the oldest record.
    pub lost_cursors: Vec<String>,
}

/// An end that a crash has torn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TornTail {
    /// Everything from here on was given up; nothing of it had been acknowledged as synced.
    pub at: Position,
    /// The file and the offset.
    pub place: String,
    /// Bytes of groups given up whose headers could be read.
    pub bytes: u64,
}

impl Recovery {
    /// Whether everything was as it was left.
    pub fn is_clean(&self) -> bool {
        self.cut.is_none() && self.damage.is_empty() && self.lost_cursors.is_empty()
    }
}

impl fmt::Display for Recovery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} segments, intact up to position {}", self.segments, self.end)?;
        if let Some(cut) = &self.cut {
            write!(
                f,
                "\ntorn tail cut off at position {} ({}), {} bytes of groups given up",
                cut.at, cut.place, cut.bytes
            )?;
        }
        for damage in &self.damage {
            write!(f, "\n{damage}")?;
        }
        for cursor in &self.lost_cursors {
            write!(f, "\ncursor {cursor} cannot be read: it begins again at the oldest record")?;
        }
        Ok(())
    }
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "damaged from position {} to {} ({}), {} items lost",
            self.from, self.to, self.place, self.lost.items
        )
    }
}

/// Where the journal ends.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    pub end: Position,
    pub counts: Counts,
    pub cut: Option<TornTail>,
    pub damage: Vec<Damage>,
}

/// What is known of the journal without its groups, from the cursors and the segments' headers.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Evidence {
    /// Everything up to here has been synced once.
    pub synced_end: Position,
    /// At least so much came before the end.
    pub counts: Counts,
}

struct Search<'a> {
    segments: &'a [Arc<Segment>],
    salt: u32,
    synced_end: Position,
    findings: Findings,
    /// The end of the group looked at last, once there was one.
    end: Option<(Position, Counts)>,
}

/// Looks at the newest segments, back to where the synced end is, and finds the end of what is
/// kept.
pub(crate) fn recover(
    segments: &[Arc<Segment>],
    salt: u32,
    evidence: Evidence,
) -> Result<Findings, FileError> {
    let (scanned, synced_end) = newest(segments, salt, evidence.synced_end)?;
    judge(segments, salt, evidence, &scanned, synced_end)
}

/// Tells damage from a torn tail among groups that were found; `synced_end` is the highest that
/// any of them, or `evidence`, tells of.
pub(crate) fn judge(
    segments: &[Arc<Segment>],
    salt: u32,
    evidence: Evidence,
    scanned: &Scanned,
    synced_end: Position,
) -> Result<Findings, FileError> {
    let mut search =
        Search { segments, salt, synced_end, findings: Findings::default(), end: None };
    'all: for (index, entries) in scanned {
        for (at, entry) in entries.iter().enumerate() {
            if !search.keeps(*index, entry)? {
                search.count_cut(scanned, *index, at);
                break 'all;
            }
        }
    }
    search.finish(evidence)
}

/// Groups by the index of their segment, in order.
pub(crate) type Scanned = Vec<(usize, Vec<Entry>)>;

/// The groups of the newest segments: back to one that has any, and to the synced end.
fn newest(
    segments: &[Arc<Segment>],
    salt: u32,
    mut synced_end: Position,
) -> Result<(Scanned, Position), FileError> {
    let mut scanned: Scanned = Vec::new();
    let mut any = false;
    for (index, segment) in segments.iter().enumerate().rev() {
        let entries =
            scan::groups(segment, salt, true).map_err(FileError::of("read", &segment.path))?;
        let headers = entries.iter().map(|entry| entry.header.synced_end);
        synced_end = headers.fold(synced_end, Position::max);
        any |= !entries.is_empty();
        scanned.push((index, entries));
        if any && segment.base < synced_end {
            break;
        }
    }
    scanned.reverse();
    Ok((scanned, synced_end))
}

impl Search<'_> {
    /// Looks at the next group; whether it is kept, or the tail is cut before it.
    fn keeps(&mut self, index: usize, entry: &Entry) -> Result<bool, FileError> {
        let header = &entry.header;
        let base = self.segments[index].base;
        let known = self.end.is_some();
        let (end, counts) = match self.end {
            Some(end) => end,
            // The segments before are not looked at: their end is as the first group says.
            None if header.position == base => (header.previous_end, header.before),
            // Nothing before it is looked at, so nothing is known of what was lost there.
            None if base < self.synced_end => (base, header.before),
            None => (self.synced_end, Counts::default()),
        };
        self.end = Some((end, counts));
        if header.previous_end != end {
            if end >= self.synced_end {
                self.cut(if known { end } else { end.max(base) });
                return Ok(false);
            }
            self.report(end, header.position, header.before - counts);
        }
        if !entry.whole {
            if header.position >= self.synced_end {
                self.cut(header.position);
                return Ok(false);
            }
            let lost = self.lost_within(index, entry)?;
            self.report(header.position, header.end(), lost);
        }
        self.end = Some((header.end(), header.after()));
        Ok(true)
    }

    /// What a group has lost: what its header says without what is still there.
    fn lost_within(&self, index: usize, entry: &Entry) -> Result<Counts, FileError> {
        let header = &entry.header;
        let segment = &self.segments[index];
        let body = segment
            .read(header.body(), header.len as usize)
            .map_err(FileError::of("read", &segment.path))?;
        let intact = crate::format::record::Salvage::new(self.salt, &body)
            .map(|found| crate::cursors::chunk::counts_of(&found))
            .fold(Counts::default(), |sum, counts| sum + counts);
        Ok(header.after() - header.before - intact)
    }

    fn place(&self, position: Position) -> String {
        let segment = self.segments.iter().rfind(|s| s.contains(position));
        segment.map_or_else(
            || format!("the segment with position {position} is missing"),
            |segment| segment.place(position),
        )
    }

    fn report(&mut self, from: Position, to: Position, lost: Counts) {
        let place = self.place(from);
        self.findings.damage.push(Damage { from, to, place, lost });
    }

    fn cut(&mut self, at: Position) {
        self.findings.cut = Some(TornTail { at, place: self.place(at), bytes: 0 });
        if self.end.is_none() {
            self.end = Some((at, Counts::default()));
        }
    }

    /// Adds up the groups from the first that is cut off.
    fn count_cut(&mut self, scanned: &Scanned, index: usize, at: usize) {
        let later = scanned.iter().filter(|(other, _)| *other >= index);
        let groups = later.flat_map(|(other, entries)| {
            let from = if *other == index { at } else { 0 };
            entries.get(from..).unwrap_or_default()
        });
        let bytes = groups.map(|entry| u64::from(entry.header.len)).sum();
        if let Some(cut) = &mut self.findings.cut {
            cut.bytes = bytes;
        }
    }

    fn finish(mut self, evidence: Evidence) -> Result<Findings, FileError> {
        match self.end {
            Some((end, counts)) if end < self.synced_end => {
                self.report(end, self.synced_end, evidence.counts - counts);
            }
            Some((end, _)) if self.findings.cut.is_none() => self.find_leavings(end)?,
            _ => {}
        }
        let (end, counts) = self.end.unwrap_or_default();
        self.findings.end = end.max(self.synced_end);
        self.findings.counts = counts.max(evidence.counts);
        Ok(self.findings)
    }

    fn find_leavings(&mut self, end: Position) -> Result<(), FileError> {
        let Some(segment) = self.segments.iter().rfind(|s| s.contains(end)) else {
            return Ok(());
        };
        let torn =
            scan::has_leavings(segment, end).map_err(FileError::of("read", &segment.path))?;
        if torn {
            self.cut(end);
        }
        Ok(())
    }
}
