//! The header of a group: what was written and synced at once.
//!
//! | bytes | field |
//! |---|---|
//! | 4 | magic |
//! | 4 | CRC-32C over salt and the rest of the header |
//! | 4 | length of the records in bytes |
//! | 4 | number of records |
//! | 4 | control records among them |
//! | 4 | CRC-32C over the checksums of the records, in order |
//! | 8 | position of this header |
//! | 8 | end of the group before |
//! | 8 | end of what was synced when this was written |
//! | 8 | wall clock, nanoseconds since 1970 |
//! | 8 | items in the group |
//! | 24 | items, controls and bytes of records before the group, since the journal was made |
//!
//! The group's own position tells it from what an earlier life of a recycled segment left; the
//! checksum of checksums does the same for the records of a group that was torn; the end of the
//! group before tells the end of a segment from damage; the counts tell how much damage cost.
//!
//! A group begins where the one before ended, at the beginning of the page after that, or in the
//! next segment.

use crate::position::{Counts, Position};

/// The length of a group's header in bytes.
pub(crate) const HEADER_LEN: usize = 88;

/// The first four bytes of every group.
pub(crate) const MAGIC: [u8; 4] = *b"\x9dWGr";

/// What stands before a group's records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header {
    pub len: u32,
    pub records: u32,
    pub controls: u32,
    pub chain: u32,
    pub position: Position,
    pub previous_end: Position,
    pub synced_end: Position,
    pub written_at: u64,
    pub items: u64,
    pub before: Counts,
}

impl Header {
    /// Where the first record begins.
    pub fn body(&self) -> Position {
        self.position.after(HEADER_LEN as u64)
    }

    /// Where the group ends and the next may begin.
    pub fn end(&self) -> Position {
        self.body().after(u64::from(self.len))
    }

    /// The counts after the group.
    pub fn after(&self) -> Counts {
        self.before
            + Counts {
                items: self.items,
                controls: u64::from(self.controls),
                bytes: u64::from(self.len),
            }
    }

    /// The header as bytes.
    pub fn encode(&self, salt: u32) -> [u8; HEADER_LEN] {
        let mut out = [0; HEADER_LEN];
        out[..4].copy_from_slice(&MAGIC);
        for (i, word) in [self.len, self.records, self.controls, self.chain].into_iter().enumerate()
        {
            out[8 + 4 * i..12 + 4 * i].copy_from_slice(&word.to_le_bytes());
        }
        let longs = [
            self.position.0,
            self.previous_end.0,
            self.synced_end.0,
            self.written_at,
            self.items,
            self.before.items,
            self.before.controls,
            self.before.bytes,
        ];
        for (i, long) in longs.into_iter().enumerate() {
            out[24 + 8 * i..32 + 8 * i].copy_from_slice(&long.to_le_bytes());
        }
        let checksum = crc32c::crc32c_append(salt, &out[8..]);
        out[4..8].copy_from_slice(&checksum.to_le_bytes());
        out
    }

    /// The header at the beginning of `bytes`, if it is undamaged and says that it is at
    /// `position`.
    pub fn decode(salt: u32, bytes: &[u8], position: Position) -> Option<Header> {
        let bytes: &[u8; HEADER_LEN] = bytes.first_chunk()?;
        let word = |at: usize| -> u32 {
            let mut word = [0; 4];
            word.copy_from_slice(&bytes[at..at + 4]);
            u32::from_le_bytes(word)
        };
        let long = |at: usize| u64::from(word(at)) | u64::from(word(at + 4)) << 32;
        if bytes[..4] != MAGIC || long(24) != position.0 {
            return None;
        }
        if word(4) != crc32c::crc32c_append(salt, &bytes[8..]) {
            return None;
        }
        Some(Header {
            len: word(8),
            records: word(12),
            controls: word(16),
            chain: word(20),
            position,
            previous_end: Position(long(32)),
            synced_end: Position(long(40)),
            written_at: long(48),
            items: long(56),
            before: Counts { items: long(64), controls: long(72), bytes: long(80) },
        })
    }

    /// Whether `body` is every record of the group, whole and in order.
    pub fn holds(&self, salt: u32, body: &[u8]) -> bool {
        if body.len() != self.len as usize {
            return false;
        }
        let (mut at, mut records, mut chain) = (0, 0_u32, 0);
        while at < body.len() {
            let Some(found) = crate::format::record::intact(salt, body, at) else {
                return false;
            };
            at += found.head.record_len();
            records = records.wrapping_add(1);
            chain = link(chain, found.head.checksum);
        }
        records == self.records && chain == self.chain
    }
}

/// Continues a checksum of checksums.
pub(crate) fn link(chain: u32, checksum: u32) -> u32 {
    crc32c::crc32c_append(chain, &checksum.to_le_bytes())
}

/// The checksum of checksums of two stretches, the second of `records` records.
pub(crate) fn join(first: u32, second: u32, records: u32) -> u32 {
    // Nothing, or what leaves nothing behind: with one worker there is nothing to join.
    if first == 0 {
        return second;
    }
    crc32c::crc32c_combine(first, second, records as usize * 4)
}

#[cfg(test)]
mod tests {
    use super::{HEADER_LEN, Header, join, link};
    use crate::position::{Counts, Position};

    fn header() -> Header {
        Header {
            len: 1,
            records: 2,
            controls: 3,
            chain: 4,
            position: Position(5),
            previous_end: Position(6),
            synced_end: Position(7),
            written_at: 8,
            items: 9,
            before: Counts { items: 10, controls: 11, bytes: 12 },
        }
    }

    #[test]
    fn reads_back_only_at_its_own_place_and_undamaged() {
        let bytes = header().encode(1);
        assert_eq!(Header::decode(1, &bytes, Position(5)), Some(header()));
        assert_eq!(Header::decode(1, &bytes, Position(4)), None);
        assert_eq!(Header::decode(2, &bytes, Position(5)), None);
        for bit in 0..HEADER_LEN * 8 {
            let mut bytes = bytes;
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Header::decode(1, &bytes, Position(5)), None, "bit {bit}");
        }
    }

    #[test]
    fn joined_stretches_are_as_one() {
        let one = [3, 4, 5, 6].into_iter().fold(0, link);
        let (a, b) = (link(0, 3), [4, 5, 6].into_iter().fold(0, link));
        assert_eq!(join(a, b, 3), one);
        assert_eq!(join(0, one, 4), one);
    }
}
