//! The newest groups, kept in memory so that a consumer that keeps up never reads the disk.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::cursors::chunk::Span;
use crate::position::{Counts, Position};

/// What of a group came from one worker.
#[derive(Debug)]
pub(crate) struct Piece {
    pub position: Position,
    pub before: Counts,
    pub after: Counts,
    pub bytes: Arc<Vec<u8>>,
}

/// A group that consumers may have.
#[derive(Debug)]
pub(crate) struct TailGroup {
    pub position: Position,
    pub previous_end: Position,
    pub end: Position,
    pub written_at: u64,
    pub pieces: Vec<Piece>,
}

impl TailGroup {
    /// The memory it takes, which is what the limit is about.
    fn footprint(&self) -> usize {
        let pieces: usize = self.pieces.iter().map(|p| p.bytes.capacity() + 80).sum();
        pieces + size_of::<TailGroup>()
    }
}

/// The tail: consecutive groups, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Tail {
    groups: VecDeque<TailGroup>,
    bytes: usize,
    bytes_max: usize,
}

impl Tail {
    pub fn new(bytes_max: usize) -> Tail {
        Tail { bytes_max, ..Tail::default() }
    }

    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Adds the newest group and gives back the oldest ones there is no room for.
    pub fn push(&mut self, group: TailGroup, evicted: &mut Vec<TailGroup>) {
        self.bytes += group.footprint();
        self.groups.push_back(group);
        while self.bytes > self.bytes_max {
            self.evict(evicted);
        }
    }

    /// Gives back the groups that end at or before a place: nobody wants them any more.
    pub fn release(&mut self, before: Position, evicted: &mut Vec<TailGroup>) {
        while self.groups.front().is_some_and(|group| group.end <= before) {
            self.evict(evicted);
        }
    }

    fn evict(&mut self, evicted: &mut Vec<TailGroup>) {
        if let Some(group) = self.groups.pop_front() {
            self.bytes -= group.footprint();
            evicted.push(group);
        } else {
            self.bytes = 0;
        }
    }

    /// The records from a place on, about `bytes_max` bytes of them; `None` when the place is no
    /// longer, or not yet, in memory.
    pub fn read(&self, from: Position, bytes_max: usize) -> Option<Vec<Span>> {
        let first = self.groups.partition_point(|group| group.end <= from);
        let group = self.groups.get(first)?;
        // Either within the group, or at the end of the one before it, which may have been in an
        // earlier segment.
        if group.position > from && group.previous_end != from {
            return None;
        }
        let (mut spans, mut left) = (Vec::new(), bytes_max.max(1));
        for group in self.groups.range(first..) {
            for piece in &group.pieces {
                let mut span = Span {
                    position: piece.position,
                    before: piece.before,
                    after: piece.after,
                    group: group.position,
                    group_end: group.end,
                    written_at: group.written_at,
                    bytes: piece.bytes.clone(),
                    from: 0,
                    to: piece.bytes.len(),
                };
                if !span.skip_to(from) {
                    continue;
                }
                if span.len() > left {
                    if spans.is_empty() {
                        span.split_off(left);
                        spans.push(span);
                    } else if span.split_off(left).is_some() && span.len() <= left {
                        spans.push(span);
                    }
                    return Some(spans);
                }
                left -= span.len();
                spans.push(span);
            }
        }
        Some(spans)
    }
}

#[cfg(test)]
mod tests {
    use super::{Piece, Tail, TailGroup};
    use crate::format::record::{self, Label};
    use crate::position::{Counts, Position};
    use std::sync::Arc;

    fn group(position: u64, previous_end: u64) -> TailGroup {
        let mut bytes = Vec::new();
        for _ in 0..2 {
            let label = Label { kind: 0, items: 1, control: false };
            record::put(&mut bytes, 0, label, 4, &[b"abcd"]);
        }
        bytes.shrink_to_fit();
        TailGroup {
            position: Position(position),
            previous_end: Position(previous_end),
            end: Position(position + 88 + 40),
            written_at: 0,
            pieces: vec![Piece {
                position: Position(position + 88),
                before: Counts::default(),
                after: Counts::default(),
                bytes: Arc::new(bytes),
            }],
        }
    }

    fn lens(tail: &Tail, from: u64, max: usize) -> Option<Vec<usize>> {
        let spans = tail.read(Position(from), max)?;
        Some(spans.iter().map(super::Span::len).collect())
    }

    #[test]
    fn reads_on_from_any_record_and_over_the_end_of_a_segment() {
        let mut tail = Tail::new(1 << 20);
        let mut evicted = Vec::new();
        tail.push(group(1000, 1000), &mut evicted);
        tail.push(group(5000, 1128), &mut evicted);
        assert_eq!(lens(&tail, 1000, 1000), Some(vec![40, 40]));
        assert_eq!(lens(&tail, 1108, 1000), Some(vec![20, 40]));
        assert_eq!(lens(&tail, 1128, 1000), Some(vec![40]));
        assert_eq!(lens(&tail, 5108, 1000), Some(vec![20]));
        assert_eq!(lens(&tail, 1000, 60), Some(vec![40, 20]));
        assert_eq!(lens(&tail, 1000, 50), Some(vec![40]));
        assert_eq!(lens(&tail, 1000, 1), Some(vec![20]));
        for elsewhere in [0, 999, 5128, 9000] {
            assert_eq!(lens(&tail, elsewhere, 1000), None, "{elsewhere}");
        }
    }

    #[test]
    fn is_bounded_and_lets_go_of_what_nobody_wants() {
        let mut tail = Tail::new(3 * group(0, 0).footprint());
        let mut evicted = Vec::new();
        for i in 0..5 {
            tail.push(group(i * 128, i * 128), &mut evicted);
        }
        assert_eq!(evicted.len(), 2);
        assert_eq!(lens(&tail, 128, 1000), None);
        tail.release(Position(5 * 128), &mut evicted);
        assert_eq!(evicted.len(), 5);
        assert_eq!(tail.bytes(), 0);
    }
}
