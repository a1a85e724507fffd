//! A window of journal records on their way to one backend, partitioned by database and policy.
//! Pure: records in, pieces to send out. Records are copied once and not looked into, so that a
//! point costs its bytes and nothing else as long as the backend takes it.

use std::ops::Range;

use bytes::{Bytes, BytesMut};
use journal::Position;

use crate::placement::OwnLine;
use crate::record::Points;

/// Databases and policies in one window; a window with more is closed early.
const KEYS_MAX: usize = 256;
/// A buffer that has not been filled to an eighth is given back when it is larger than this.
const BUFFER_KEPT_MAX: usize = 1 << 20;

/// How much may go out in one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// How many points at most.
    pub points: u64,
    /// Bytes of lines at most, before compression.
    pub bytes: usize,
}

/// Where a record's lines begin in a batch.
#[derive(Debug, Clone, Copy)]
struct Mark {
    position: Position,
    offset: usize,
    points: u32,
}

/// Points of one database and policy, in the journal's order.
#[derive(Debug, Default)]
pub struct Batch {
    /// The database that the points go to.
    pub db: String,
    /// The retention policy; empty is the backend's default.
    pub rp: String,
    body: BytesMut,
    marks: Vec<Mark>,
    /// The place of each line within its record, where not all lines of records are here.
    indices: Vec<u32>,
    points: u64,
}

/// What a window takes of a record's lines.
#[derive(Clone, Copy, Debug)]
pub enum Share<'a> {
    All,
    /// The lines of a member of a cluster's set.
    Own(&'a [OwnLine]),
}

impl Share<'_> {
    /// How many points of a record it is, and how many bytes.
    fn size(self, record: &journal::Record<'_>, lines: &[u8]) -> (u32, usize) {
        match self {
            Self::All => (record.items, lines.len()),
            // Not more than the record has.
            Self::Own(own) => (
                u32::try_from(own.len()).unwrap_or(u32::MAX),
                own.iter().map(|line| line.range.len()).sum(),
            ),
        }
    }
}

/// Part of a batch that goes out in one request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    /// The points as line protocol.
    pub body: Bytes,
    /// How many points they are.
    pub points: u64,
    /// Where `body` begins in the batch.
    offset: usize,
    /// How many points of its first record lie before it.
    first_index: u32,
}

impl Piece {
    /// A piece of whole records.
    fn whole(body: &Bytes, range: Range<usize>, points: u64) -> Self {
        let offset = range.start;
        Self { body: body.slice(range), points, offset, first_index: 0 }
    }

    /// What follows it in `body`, the lines of its batch.
    pub fn behind(&self, body: &Bytes) -> Bytes {
        body.slice(self.offset + self.body.len()..)
    }
}

/// A point of a piece, found only when the piece was not simply accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Point {
    /// Where the line begins in the piece.
    pub offset: usize,
    /// How long it is, its newline included.
    pub len: usize,
    /// The journal's position of its record.
    pub position: Position,
    /// Its place within the record, from 0.
    pub index: u32,
}

impl Point {
    /// The bytes of the point's line within its piece.
    pub fn range(&self) -> Range<usize> {
        self.offset..self.offset + self.len
    }
}

/// The records taken so far. Buffers are kept from one window to the next.
#[derive(Debug, Default)]
pub struct Window {
    batches: Vec<Batch>,
    used: usize,
    last: usize,
    points: u64,
    elsewhere: u64,
    bytes: usize,
    end: Option<Position>,
    oldest: u64,
}

impl Window {
    /// Whether nothing was taken.
    pub fn is_empty(&self) -> bool {
        self.end.is_none()
    }

    /// How many points were taken.
    pub fn points(&self) -> u64 {
        self.points
    }

    /// How many points of the records it does not have, since they are for other sets.
    pub fn elsewhere(&self) -> u64 {
        self.elsewhere
    }

    /// What to commit once everything is settled.
    pub fn end(&self) -> Option<Position> {
        self.end
    }

    /// When the oldest record was written, in nanoseconds since 1970.
    pub fn oldest(&self) -> u64 {
        self.oldest
    }

    /// Whether waiting for more makes no sense.
    pub fn is_full(&self, limits: Limits) -> bool {
        self.bytes >= limits.bytes
            || self.used >= KEYS_MAX
            || self.batches[..self.used].iter().any(|batch| batch.points >= limits.points)
    }

    /// Takes a share of a record, unless it belongs into the next window. The first record is
    /// always taken, however large it is.
    #[must_use]
    pub fn push(
        &mut self,
        record: &journal::Record<'_>,
        points: &Points<'_>,
        share: Share<'_>,
        limits: Limits,
    ) -> bool {
        let (count, bytes) = share.size(record, points.lines);
        if count == 0 {
            self.skip(record);
            self.elsewhere += u64::from(record.items);
            return true;
        }
        let found = self.find(points.db, points.rp);
        if !self.is_empty() {
            let there = found.map_or(0, |at| self.batches[at].points);
            let too_many = there + u64::from(count) > limits.points;
            let too_large = self.bytes + bytes > limits.bytes;
            if too_many || too_large || (found.is_none() && self.used >= KEYS_MAX) {
                return false;
            }
        } else {
            self.oldest = record.written_at;
        }
        let at = found.unwrap_or_else(|| self.begin(points.db, points.rp));
        self.last = at;
        self.batches[at].push(record, points.lines, share, count);
        self.points += u64::from(count);
        self.elsewhere += u64::from(record.items.saturating_sub(count));
        self.bytes += bytes;
        self.end = Some(record.end);
        true
    }

    /// Marks a record as done that has nothing to deliver.
    pub fn skip(&mut self, record: &journal::Record<'_>) {
        if self.is_empty() {
            self.oldest = record.written_at;
        }
        self.end = Some(record.end);
    }

    /// The batches in the order in which their first records came.
    pub fn batches(&mut self) -> &mut [Batch] {
        &mut self.batches[..self.used]
    }

    /// Empties the window for the next records.
    pub fn clear(&mut self) {
        for batch in &mut self.batches[..self.used] {
            batch.clear();
        }
        self.batches.truncate(16);
        (self.used, self.last, self.bytes, self.end) = (0, 0, 0, None);
        (self.points, self.elsewhere) = (0, 0);
    }

    /// The batch of this key: nearly always the one used last.
    fn find(&self, db: &str, rp: &str) -> Option<usize> {
        let used = &self.batches[..self.used];
        if used.get(self.last).is_some_and(|batch| batch.is_for(db, rp)) {
            return Some(self.last);
        }
        used.iter().position(|batch| batch.is_for(db, rp))
    }

    fn begin(&mut self, db: &str, rp: &str) -> usize {
        if self.used == self.batches.len() {
            self.batches.push(Batch::default());
        }
        let at = self.used;
        self.used += 1;
        let batch = &mut self.batches[at];
        batch.db.push_str(db);
        batch.rp.push_str(rp);
        at
    }
}

impl Batch {
    fn is_for(&self, db: &str, rp: &str) -> bool {
        self.db == db && self.rp == rp
    }

    fn push(&mut self, record: &journal::Record<'_>, lines: &[u8], share: Share<'_>, points: u32) {
        let mark = Mark { position: record.position, offset: self.body.len(), points };
        self.marks.push(mark);
        self.points += u64::from(points);
        match share {
            Share::All => self.body.extend_from_slice(lines),
            Share::Own(own) => {
                for OwnLine { index, range } in own {
                    self.body.extend_from_slice(lines.get(range.clone()).unwrap_or_default());
                    self.indices.push(*index);
                }
            }
        }
    }

    fn clear(&mut self) {
        let filled = self.body.len();
        if self.body.capacity() > BUFFER_KEPT_MAX && filled < self.body.capacity() / 8 {
            self.body = BytesMut::new();
        }
        self.db.clear();
        self.rp.clear();
        self.body.clear();
        self.marks.clear();
        self.indices.clear();
        self.points = 0;
    }

    /// Points in the batch.
    pub fn points(&self) -> u64 {
        self.points
    }

    /// The lines, to be cut into pieces. Give them back with [`Batch::restore`].
    pub fn take_body(&mut self) -> Bytes {
        std::mem::take(&mut self.body).freeze()
    }

    /// Gives the lines back once the last request with them is over, so that their memory is used
    /// again. Does nothing while someone still holds a part.
    pub fn restore(&mut self, body: Bytes) {
        if let Ok(body) = body.try_into_mut() {
            self.body = body;
        }
    }

    /// Cuts `body`, the lines of this batch, into pieces within `limits`: one, unless a limit has
    /// shrunk meanwhile or a single record is larger than a request may be.
    pub fn pieces(&self, body: &Bytes, limits: Limits) -> Vec<Piece> {
        let mut pieces = Vec::new();
        let (mut start, mut points) = (0, 0_u64);
        let ends = self.marks.iter().skip(1).map(|mark| mark.offset).chain([body.len()]);
        for (mark, end) in self.marks.iter().zip(ends) {
            let more = u64::from(mark.points);
            let over = points + more > limits.points || end - start > limits.bytes;
            if over && mark.offset > start {
                pieces.push(Piece::whole(body, start..mark.offset, points));
                (start, points) = (mark.offset, 0);
            }
            points += more;
            if points > limits.points || end - start > limits.bytes {
                cut_record(body, start..end, limits, &mut pieces);
                (start, points) = (end, 0);
            }
        }
        if start < body.len() {
            pieces.push(Piece::whole(body, start..body.len(), points));
        }
        pieces
    }

    /// Finds the points of a piece.
    pub fn points_of(&self, piece: &Piece) -> Vec<Point> {
        let mut found = Vec::with_capacity(usize::try_from(piece.points).unwrap_or(0));
        let after = self.marks.partition_point(|mark| mark.offset <= piece.offset);
        let mut mark = after.saturating_sub(1);
        let mut index = piece.first_index;
        let before: u32 = self.marks[..mark].iter().map(|mark| mark.points).sum();
        let mut own = self.indices.iter().skip((before + piece.first_index) as usize);
        let mut offset = 0;
        for line in wire::line::points(&piece.body) {
            while self.marks.get(mark + 1).is_some_and(|next| next.offset <= piece.offset + offset)
            {
                (mark, index) = (mark + 1, 0);
            }
            let position = self.marks.get(mark).map_or(Position::ZERO, |mark| mark.position);
            let index_there = own.next().copied().unwrap_or(index);
            found.push(Point { offset, len: line.len(), position, index: index_there });
            offset += line.len();
            index += 1;
        }
        found
    }
}

/// Cuts one record that is larger than a request may be, between its points.
fn cut_record(body: &Bytes, record: Range<usize>, limits: Limits, pieces: &mut Vec<Piece>) {
    let (mut start, mut end, mut points, mut first_index) = (record.start, record.start, 0, 0);
    let mut cut = |start: usize, end: usize, points: u64, first_index: u32| {
        let body = body.slice(start..end);
        pieces.push(Piece { body, points, offset: start, first_index });
    };
    for line in wire::line::points(&body[record]) {
        if points > 0 && (points >= limits.points || end - start + line.len() > limits.bytes) {
            cut(start, end, points, first_index);
            first_index += u32::try_from(points).unwrap_or(u32::MAX);
            (start, points) = (end, 0);
        }
        end += line.len();
        points += 1;
    }
    if end > start {
        cut(start, end, points, first_index);
    }
}

#[cfg(test)]
#[path = "batch_tests.rs"]
mod tests;
