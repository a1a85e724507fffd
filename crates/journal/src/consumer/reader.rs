//! Reading released records from the segment files, with every checksum looked at, and around
//! what is damaged or missing.

use std::sync::Arc;

use disk::FileError;

use crate::cursors::Cursors;
use crate::cursors::chunk::{Limit, Loss, ReadPosition, Span, counts_of};
use crate::format::group::{self, Header};
use crate::format::record::{self, Salvage};
use crate::format::segment::Segment;
use crate::format::window::Window;
use crate::log::Log;
use crate::position::{Counts, Position};

/// The least and the most that is read from a file at once, large records apart.
const READ_MIN: usize = 64 << 10;
const READ_MAX: usize = 8 << 20;

/// Records that were read, or what was lost in their place.
#[derive(Debug, Clone)]
pub(crate) enum Item {
    Span(Span),
    Lost(Loss),
}

/// Reads about `bytes_max` bytes of records from `place` on, which is before `limit`. Gives at
/// least one item, and where to go on.
pub(crate) fn read(
    log: &Log,
    cursors: &Cursors,
    place: ReadPosition,
    limit: Limit,
    bytes_max: usize,
) -> Result<(Vec<Item>, ReadPosition), FileError> {
    let mut reader =
        Reader { log, cursors, place, limit, left: bytes_max.max(1), items: Vec::new() };
    // A step that only passes over the end of a segment gives no item.
    while reader.items.is_empty() && reader.place.position < limit.end {
        match log.find(reader.place.position) {
            Some(segment) => reader.step(&segment)?,
            None => reader.jump(None)?,
        }
    }
    Ok((reader.items, reader.place))
}

struct Reader<'a> {
    log: &'a Log,
    cursors: &'a Cursors,
    place: ReadPosition,
    limit: Limit,
    left: usize,
    items: Vec<Item>,
}

/// Why the records of a buffer ended.
enum Stop {
    /// The group is complete.
    GroupEnd,
    /// As much was read as was wanted.
    Enough,
    /// The next record is not whole in the buffer; it needs so many bytes.
    Cut(usize),
    /// The next record is damaged.
    Damaged,
}

impl Reader<'_> {
    /// Takes what one read of the segment gives.
    fn step(&mut self, segment: &Segment) -> Result<(), FileError> {
        let mut want = self.left.clamp(READ_MIN, READ_MAX);
        loop {
            let from = self.place.position;
            let available = self.limit.end.since(from);
            let len = usize::try_from(available).unwrap_or(usize::MAX).min(want);
            let bytes = segment.read(from, len).map_err(FileError::of("read", &segment.path))?;
            // A file that ends early was cut off: waiting for more of it would be for ever.
            let short = bytes.len() < len;
            match self.take(segment, from, &Arc::new(bytes), short)? {
                Some(larger) => want = larger.max(want + 1),
                None => return Ok(()),
            }
        }
    }

    /// Takes the records in `bytes`, which are those at `from`. Gives how many bytes are needed
    /// to get any further, if nothing could be taken for want of them.
    fn take(
        &mut self,
        segment: &Segment,
        from: Position,
        bytes: &Arc<Vec<u8>>,
        short: bool,
    ) -> Result<Option<usize>, FileError> {
        let mut taken = false;
        loop {
            let at = usize::try_from(self.place.position.since(from)).unwrap_or(usize::MAX);
            if self.place.position >= self.limit.end || (taken && self.left == 0) {
                return Ok(None);
            }
            let between = self.place.position == self.place.group;
            if between && bytes.len().saturating_sub(at) < group::HEADER_LEN && taken {
                return Ok(None);
            }
            let header = self.header(segment, from, bytes, self.place.group)?;
            if header.is_none() && between && self.turn_page(segment, from, bytes)? {
                continue;
            }
            let Some(header) = header.filter(|header| header.end() <= self.limit.end) else {
                self.jump(Some(segment))?;
                return Ok(None);
            };
            if between {
                self.place.position = header.body();
            }
            let before = self.place.position;
            let stop = self.records(&header, from, bytes);
            taken |= self.place.position > before;
            match stop {
                Stop::GroupEnd => {
                    self.place = ReadPosition {
                        position: header.end(),
                        group: header.end(),
                        counts: header.after(),
                    };
                }
                Stop::Enough => return Ok(None),
                Stop::Cut(_) if taken => return Ok(None),
                Stop::Cut(needed) if !short => return Ok(Some(needed)),
                Stop::Cut(_) | Stop::Damaged => {
                    self.damaged(segment, &header)?;
                    return Ok(None);
                }
            }
        }
    }

    /// Goes on at the next page, if a group begins there that follows the one before.
    fn turn_page(
        &mut self,
        segment: &Segment,
        from: Position,
        bytes: &[u8],
    ) -> Result<bool, FileError> {
        let end = self.place.position;
        let page = segment.next_page(end);
        let follows = page > end
            && self
                .header(segment, from, bytes, page)?
                .is_some_and(|header| header.previous_end == end);
        if follows {
            self.place = ReadPosition { position: page, group: page, ..self.place };
        }
        Ok(follows)
    }

    /// The header of the group at a place, unless the group is passed.
    fn header(
        &self,
        segment: &Segment,
        from: Position,
        bytes: &[u8],
        group: Position,
    ) -> Result<Option<Header>, FileError> {
        let within = usize::try_from(group.since(from)).ok();
        let within = within.filter(|_| group >= from);
        if let Some(head) = within.and_then(|at| bytes.get(at..at + group::HEADER_LEN)) {
            return Ok(Header::decode(self.log.salt(), head, group));
        }
        if !segment.contains(group) {
            return Ok(None);
        }
        let head =
            segment.read(group, group::HEADER_LEN).map_err(FileError::of("read", &segment.path))?;
        let header = Header::decode(self.log.salt(), &head, group);
        Ok(header.filter(|header| self.place.position < header.end()))
    }

    /// Takes the records of one group, as far as they are in `bytes` and wanted.
    fn records(&mut self, header: &Header, from: Position, bytes: &Arc<Vec<u8>>) -> Stop {
        let start = self.place;
        let begin = usize::try_from(start.position.since(from)).unwrap_or(usize::MAX);
        let group_left = usize::try_from(header.end().since(start.position)).unwrap_or(usize::MAX);
        let rest = bytes.get(begin..).unwrap_or_default();
        let rest = &rest[..rest.len().min(group_left)];
        let (mut at, mut counts) = (0, start.counts);
        let stop = loop {
            if at == group_left {
                break Stop::GroupEnd;
            }
            if at > 0 && self.left == 0 {
                break Stop::Enough;
            }
            let Some(found) = record::intact(self.log.salt(), rest, at) else {
                break self.why(rest, at, group_left);
            };
            at += found.head.record_len();
            counts = counts + counts_of(&found);
            self.left = self.left.saturating_sub(found.head.record_len());
        };
        if at > 0 {
            self.place.position = start.position.after(at as u64);
            self.place.counts = counts;
            self.items.push(Item::Span(Span {
                position: start.position,
                before: start.counts,
                after: counts,
                group: header.position,
                group_end: header.end(),
                written_at: header.written_at,
                bytes: bytes.clone(),
                from: begin,
                to: begin + at,
            }));
        }
        stop
    }

    /// Why there is no intact record at a place: the buffer ends, or it is damaged.
    fn why(&self, rest: &[u8], at: usize, group_left: usize) -> Stop {
        let cut = rest.len() < group_left;
        let tail = rest.get(at..).unwrap_or_default();
        if tail.len() < record::HEADER_LEN {
            return if cut { Stop::Cut(READ_MIN) } else { Stop::Damaged };
        }
        match record::head(self.log.salt(), tail) {
            Some(head) if head.record_len() > group_left - at => Stop::Damaged,
            // The buffer may begin with the group's header.
            Some(head) if cut && head.record_len() > tail.len() => {
                Stop::Cut(head.record_len() + at + group::HEADER_LEN)
            }
            _ => Stop::Damaged,
        }
    }

    /// Passes over a damaged record to the next intact one of its group.
    fn damaged(&mut self, segment: &Segment, header: &Header) -> Result<(), FileError> {
        let start = self.place;
        let len = usize::try_from(header.end().since(start.position)).unwrap_or(usize::MAX);
        let rest =
            segment.read(start.position, len).map_err(FileError::of("read", &segment.path))?;
        let mut resume = None;
        let mut intact = Counts::default();
        for found in Salvage::new(self.log.salt(), &rest) {
            resume.get_or_insert(found.at);
            intact = intact + counts_of(&found);
        }
        let (to, group) = match resume {
            Some(at) => (start.position.after(at as u64), header.position),
            None => (header.end(), header.end()),
        };
        // What is lost is what the group's header says it had, without what is still there.
        let after = match resume {
            Some(_) => start.counts + (header.after() - start.counts - intact),
            None => header.after(),
        };
        self.lose(to, group, after, segment.place(start.position));
        Ok(())
    }

    /// Goes on at the next intact group: behind the end of the segment, or behind damage.
    fn jump(&mut self, segment: Option<&Segment>) -> Result<(), FileError> {
        let from = self.place.position;
        let next = self.log.first_after(segment.map_or(from, |s| s.base));
        let next = next.filter(|first| first.position < self.limit.end);
        if let Some(first) = next.filter(|first| first.previous_end == from) {
            self.place = ReadPosition {
                position: first.position,
                group: first.position,
                counts: first.before,
            };
            return Ok(());
        }
        if let Some(segment) = segment {
            let mut window = Window::new(segment, self.log.salt());
            let found =
                window.search(from.after(1)).map_err(FileError::of("read", &segment.path))?;
            if let Some(header) = found.filter(|header| header.end() <= self.limit.end) {
                let place = segment.place(from);
                self.lose(header.position, header.position, header.before, place);
                return Ok(());
            }
        }
        let place = match segment {
            Some(segment) => segment.place(from),
            None => format!("the segment with position {from} is missing"),
        };
        match next {
            Some(first) => self.lose(first.position, first.position, first.before, place),
            None => self.lose(self.limit.end, self.limit.end, self.limit.counts, place),
        }
        Ok(())
    }

    fn lose(&mut self, to: Position, group: Position, after: Counts, place: String) {
        let loss = Loss {
            from: self.place.position,
            to,
            group,
            before: self.place.counts,
            after: after.max(self.place.counts),
        };
        self.place = ReadPosition { position: to, group, counts: loss.after };
        self.items.push(Item::Lost(loss));
        self.cursors.note_damage(&loss, &place);
    }
}
