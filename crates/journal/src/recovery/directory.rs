//! What lies in a journal's directory, before anything is done about it.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use disk::FileError;

use crate::error::OpenError;
use crate::format::cursor::{self, LoadedCursor};
use crate::format::scan;
use crate::format::segment::{self, HEADER_LEN, Header, HeaderError, Segment};
use crate::log::spare;
use crate::position::{Counts, Position};
use crate::recovery::Evidence;
use crate::status::Damage;

/// A segment file and what its header says; `None` when both copies of the header are damaged.
#[derive(Debug)]
pub(crate) struct SegmentFile {
    pub segment: Arc<Segment>,
    pub header: Option<Header>,
}

/// The files of a journal.
#[derive(Debug)]
pub(crate) struct Directory {
    /// In the order of their positions.
    pub segments: Vec<SegmentFile>,
    pub cursors: Vec<(PathBuf, LoadedCursor)>,
    pub spares: Vec<PathBuf>,
    /// What was being made when a process was killed.
    pub leavings: Vec<PathBuf>,
}

/// Reads the names, and the headers of segments and cursors.
pub(crate) fn read(dir: &Path, writable: bool) -> Result<Directory, OpenError> {
    let mut directory = Directory {
        segments: Vec::new(),
        cursors: Vec::new(),
        spares: Vec::new(),
        leavings: Vec::new(),
    };
    for entry in std::fs::read_dir(dir).map_err(FileError::of("list", dir))? {
        let path = entry.map_err(FileError::of("list", dir))?.path();
        let suffix = path.extension().and_then(|suffix| suffix.to_str());
        if let Some(base) = segment::base_of(&path) {
            directory.segments.push(segment_file(&path, base, writable)?);
        } else if suffix == Some(spare::SUFFIX) {
            directory.spares.push(path);
        } else if suffix == Some("new") {
            directory.leavings.push(path);
        }
    }
    directory.segments.sort_by_key(|s| s.segment.base);
    for path in cursor::list(dir)? {
        let loaded = cursor::load(&path, writable)?;
        directory.cursors.push((path, loaded));
    }
    Ok(directory)
}

fn segment_file(path: &Path, base: Position, writable: bool) -> Result<SegmentFile, OpenError> {
    let opened = segment::open(path, writable);
    let (file, file_len, page) = opened.map_err(FileError::of("open", path))?;
    let header = match Header::decode(&page) {
        Ok(header) => Some(header),
        Err(HeaderError::Damaged) => None,
        Err(HeaderError::Version(version)) => {
            return Err(OpenError::Format {
                path: path.to_owned(),
                reason: format!("its format is version {version}, not {}", segment::VERSION),
            });
        }
    };
    if header.is_some_and(|header| header.base != base) {
        return Err(OpenError::Format {
            path: path.to_owned(),
            reason: "it has another segment's name; was it copied or renamed?".to_owned(),
        });
    }
    let capacity = header.map_or(file_len.saturating_sub(HEADER_LEN), |header| header.capacity);
    Ok(SegmentFile {
        segment: Arc::new(Segment {
            base,
            capacity,
            path: path.to_owned(),
            file,
            file_len,
            first: OnceLock::new(),
        }),
        header,
    })
}

impl Directory {
    /// The salt as the segments have it.
    pub fn salt(&self) -> Option<u32> {
        self.segments.iter().find_map(|s| Some(s.header?.salt))
    }

    /// What cursors and headers tell without looking at the groups.
    pub fn evidence(&self) -> Evidence {
        let mut evidence = Evidence::default();
        for (_, loaded) in &self.cursors {
            if let LoadedCursor::Whole(_, account) = loaded {
                evidence.synced_end = evidence.synced_end.max(account.position);
                evidence.counts = evidence.counts.max(account.counts);
            }
        }
        for header in self.segments.iter().filter_map(|s| s.header) {
            evidence.synced_end = evidence.synced_end.max(header.synced_end);
        }
        evidence
    }

    /// A position no earlier one can have reached: past every segment there is, or was in a spare.
    pub fn floor(&self) -> Position {
        let ends = self.segments.iter().map(|s| s.segment.end());
        let spares = self.spares.iter().filter_map(|path| {
            let (_, _, page) = segment::open(path, false).ok()?;
            let header = Header::decode(&page).ok()?;
            Some(header.base.after(header.capacity))
        });
        let floor = ends.chain(spares).max().unwrap_or_default();
        floor.max(self.evidence().synced_end)
    }

    /// Finds the first group of every segment.
    pub fn find_firsts(&self, salt: u32) -> Result<(), FileError> {
        for SegmentFile { segment, .. } in &self.segments {
            let first = scan::first(segment, salt).map_err(FileError::of("read", &segment.path))?;
            if let Some(header) = first {
                let _ = segment.first.set((&header).into());
            }
        }
        Ok(())
    }

    /// Segments that others say were before them and that are not there, and headers that cannot
    /// be read, in a journal that ends at `end`.
    pub fn damage(&self, salt: u32, end: Position) -> Result<Vec<Damage>, FileError> {
        let mut damage = Vec::new();
        for SegmentFile { segment, header } in &self.segments {
            if header.is_none() {
                damage.push(Damage {
                    from: segment.base,
                    to: segment.base,
                    place: format!("the header of {}", segment.path.display()),
                    lost: Counts::default(),
                });
            }
        }
        for pair in self.segments.windows(2) {
            let [earlier, later] = pair else { continue };
            let previous = later.header.and_then(|header| header.previous);
            if previous.is_some_and(|previous| previous != earlier.segment.base) {
                damage.push(missing(&earlier.segment, &later.segment, salt)?);
            }
        }
        damage.extend(self.missing_oldest(end));
        Ok(damage)
    }

    /// The segment a cursor still needs that is older than all there are.
    fn missing_oldest(&self, end: Position) -> Option<Damage> {
        let oldest = self.segments.iter().find_map(|s| s.segment.first.get())?;
        let wanted = self.cursors.iter().filter_map(|(_, loaded)| match loaded {
            LoadedCursor::Whole(_, account) => Some((account.position, account.counts)),
            LoadedCursor::Damaged(_) => None,
        });
        let (position, counts) = wanted.min_by_key(|(position, _)| *position)?;
        let base = self.segments.first()?.segment.base;
        let missing = position < base && position != oldest.previous_end;
        // What is cut off at the end was never promised to be there.
        (missing && oldest.position < end).then(|| Damage {
            from: position,
            to: oldest.position,
            place: format!("the segment with position {position} is missing"),
            lost: oldest.before - counts,
        })
    }
}

fn missing(earlier: &Segment, later: &Segment, salt: u32) -> Result<Damage, FileError> {
    let groups = scan::groups(earlier, salt, false);
    let groups = groups.map_err(FileError::of("read", &earlier.path))?;
    let last = groups.last().map(|entry| entry.header);
    let first = later.first.get();
    let before = first.map(|first| first.before);
    let after = last.map(|last| last.after());
    Ok(Damage {
        from: last.map_or(earlier.base, |last| last.end()),
        to: first.map_or(later.base, |first| first.position),
        place: format!(
            "a segment is missing between {} and {}",
            earlier.path.display(),
            later.path.display()
        ),
        lost: before.unwrap_or_default() - after.or(before).unwrap_or_default(),
    })
}
