//! Records as a consumer gets them.

use std::sync::Arc;

use crate::format::record::{IntactRecord, Walk};
use crate::position::{Counts, Position};

/// Consecutive intact records of one group.
#[derive(Debug, Clone)]
pub(crate) struct Span {
    /// Where the first record is.
    pub position: Position,
    /// What came before the first record.
    pub before: Counts,
    /// What came up to the end of the last record.
    pub after: Counts,
    /// Where the group's header is, and where the group ends.
    pub group: Position,
    pub group_end: Position,
    pub written_at: u64,
    /// The records are these bytes of the buffer.
    pub bytes: Arc<Vec<u8>>,
    pub from: usize,
    pub to: usize,
}

impl Span {
    pub fn records(&self) -> &[u8] {
        self.bytes.get(self.from..self.to).unwrap_or_default()
    }

    /// The end of the last record.
    pub fn end(&self) -> Position {
        self.position.after(self.len() as u64)
    }

    pub fn len(&self) -> usize {
        self.to - self.from
    }

    /// Cuts the span behind the last record that ends within `len` bytes, or behind the first
    /// record if that alone is longer. Gives the rest.
    pub fn split_off(&mut self, len: usize) -> Option<Span> {
        if self.len() <= len {
            return None;
        }
        let (mut at, mut counts) = (0, self.before);
        for found in Walk::new(self.records()) {
            let end = found.at + found.head.record_len();
            if end > len && at > 0 {
                break;
            }
            (at, counts) = (end, counts + counts_of(&found));
        }
        if at == 0 || at == self.len() {
            return None;
        }
        let mut rest = self.clone();
        rest.position = self.position.after(at as u64);
        rest.before = counts;
        rest.from = self.from + at;
        self.after = counts;
        self.to = rest.from;
        Some(rest)
    }

    /// Cuts off the records that end at or before a place; gives whether any record is left.
    pub fn skip_to(&mut self, position: Position) -> bool {
        if position <= self.position {
            return true;
        }
        if position >= self.end() {
            return false;
        }
        let len = usize::try_from(position.since(self.position)).unwrap_or(usize::MAX);
        let (mut at, mut counts) = (0, self.before);
        for found in Walk::new(self.records()) {
            let end = found.at + found.head.record_len();
            if end > len {
                break;
            }
            (at, counts) = (end, counts + counts_of(&found));
        }
        self.position = self.position.after(at as u64);
        self.before = counts;
        self.from += at;
        true
    }
}

/// What one record adds to the counts.
pub(crate) fn counts_of(found: &IntactRecord<'_>) -> Counts {
    Counts {
        items: u64::from(found.head.items),
        controls: u64::from(found.head.control),
        bytes: found.head.record_len() as u64,
    }
}

/// Records that are lost: damaged, or in a segment that is missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Loss {
    pub from: Position,
    pub to: Position,
    /// Where the header of the group is that `to` is in; `to` itself between groups.
    pub group: Position,
    /// What came before the loss, and what after it.
    pub before: Counts,
    pub after: Counts,
}

/// Some consecutive records. Owns its bytes, or shares them with the journal's memory; cheap to
/// clone and to hold.
#[derive(Debug, Clone, Default)]
pub struct Chunk {
    pub(crate) spans: Vec<Span>,
}

/// One record of a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record<'a> {
    /// Where the record is.
    pub position: Position,
    /// What to commit once this record and everything before it is done.
    pub end: Position,
    /// What the caller said it is.
    pub kind: u8,
    /// How many items it holds.
    pub items: u32,
    /// Whether it is a control record.
    pub control: bool,
    /// When its group was written, in nanoseconds since 1970.
    pub written_at: u64,
    /// What the caller gave.
    pub payload: &'a [u8],
}

impl Chunk {
    /// What to commit once every record of the chunk is done.
    pub fn end(&self) -> Position {
        self.spans.last().map_or(Position::ZERO, Span::end)
    }

    /// Bytes of the records, their headers included.
    pub fn bytes(&self) -> u64 {
        self.spans.iter().map(|span| span.len() as u64).sum()
    }

    /// The items of all records.
    pub fn items(&self) -> u64 {
        let items = |span: &Span| span.after.items.saturating_sub(span.before.items);
        self.spans.iter().map(items).sum()
    }

    /// The records in order.
    pub fn records(&self) -> impl Iterator<Item = Record<'_>> {
        self.spans.iter().flat_map(|span| {
            Walk::new(span.records()).map(move |found| Record {
                position: span.position.after(found.at as u64),
                end: span.position.after((found.at + found.head.record_len()) as u64),
                kind: found.head.kind,
                items: found.head.items,
                control: found.head.control,
                written_at: span.written_at,
                payload: found.payload,
            })
        })
    }
}

/// Where reading goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ReadPosition {
    pub position: Position,
    /// Where the header of the group is that `position` is in; `position` itself between groups.
    pub group: Position,
    /// Of all records before it.
    pub counts: Counts,
}

/// The end of what may be read, and what came before that.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limit {
    pub end: Position,
    pub counts: Counts,
}

#[cfg(test)]
mod tests {
    use super::{Chunk, Span};
    use crate::format::record::{self, Label};
    use crate::position::{Counts, Position};
    use std::sync::Arc;

    fn span(payloads: &[&[u8]]) -> Span {
        let mut bytes = Vec::new();
        for payload in payloads {
            let label = Label { kind: 0, items: 1, control: false };
            record::put(&mut bytes, 0, label, payload.len() as u32, &[payload]);
        }
        let len = bytes.len();
        Span {
            position: Position(1000),
            before: Counts::default(),
            after: Counts { items: payloads.len() as u64, controls: 0, bytes: len as u64 },
            group: Position(912),
            group_end: Position(1000).after(len as u64),
            written_at: 7,
            bytes: Arc::new(bytes),
            from: 0,
            to: len,
        }
    }

    fn payloads(span: &Span) -> Vec<Vec<u8>> {
        let chunk = Chunk { spans: vec![span.clone()] };
        chunk.records().map(|r| r.payload.to_vec()).collect()
    }

    #[test]
    fn a_span_is_cut_between_records_and_gives_at_least_one() {
        for len in [0, 1, 20, 30, 35] {
            let mut first = span(&[b"aaaa", b"bbbb", b"cc"]);
            let rest = first.split_off(len).unwrap();
            assert_eq!(payloads(&first), [b"aaaa"], "{len}");
            assert_eq!(payloads(&rest), [b"bbbb".to_vec(), b"cc".to_vec()]);
            assert_eq!(first.end(), rest.position);
            assert_eq!(first.after, rest.before);
            assert_eq!(rest.before.items, 1);
        }
        assert!(span(&[b"aaaa"]).split_off(1).is_none());
    }

    #[test]
    fn what_was_committed_is_skipped() {
        let whole = span(&[b"aaaa", b"bbbb", b"cc"]);
        let mut rest = whole.clone();
        assert!(rest.skip_to(Position(1020)));
        assert_eq!(payloads(&rest), [b"bbbb".to_vec(), b"cc".to_vec()]);
        assert_eq!(rest.before.items, 1);
        assert!(!rest.skip_to(whole.end()));
    }
}
