//! Positions in the write-ahead log (`pg_lsn`).

use std::fmt;
use std::str::FromStr;

/// Bytes of a page of the log (`XLOG_BLCKSZ`).
const PAGE_BYTES: u64 = 8192;
/// Bytes of the header of a page (`SizeOfXLogShortPHD`).
const PAGE_HEADER_BYTES: u64 = 24;
/// Bytes of the header of a segment's first page (`SizeOfXLogLongPHD`).
const SEGMENT_HEADER_BYTES: u64 = 40;

/// A position in the write-ahead log, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Position(pub u64);

impl Position {
    /// Where the last record before this insert position ends.
    ///
    /// When that is at the end of a page, PostgreSQL gives the insert position behind the next
    /// page's header (`XLogBytePosToRecPtr`), which no replica says that it has replayed before
    /// there is another record. `segment_bytes` is `wal_segment_size`; 0 where it is not known.
    #[must_use]
    pub fn end_of_record(self, segment_bytes: u64) -> Self {
        let Self(at) = self;
        if at % PAGE_BYTES == PAGE_HEADER_BYTES {
            return Self(at - PAGE_HEADER_BYTES);
        }
        let in_segment = at.checked_rem(segment_bytes);
        if in_segment == Some(SEGMENT_HEADER_BYTES) {
            return Self(at - SEGMENT_HEADER_BYTES);
        }
        self
    }

    /// How many bytes `behind` is behind this.
    pub fn ahead_of(self, behind: Self) -> u64 {
        self.0.saturating_sub(behind.0)
    }
}

/// What was read is not a position.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a position in the write-ahead log")]
pub struct PositionError(String);

impl FromStr for Position {
    type Err = PositionError;

    fn from_str(text: &str) -> Result<Self, PositionError> {
        let wrong = || PositionError(text.to_owned());
        let (high, low) = text.split_once('/').ok_or_else(wrong)?;
        let half = |text: &str| u32::from_str_radix(text, 16).map_err(|_| wrong());
        Ok(Self(u64::from(half(high)?) << 32 | u64::from(half(low)?)))
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:X}/{:X}", self.0 >> 32, self.0 & 0xffff_ffff)
    }
}

#[cfg(test)]
mod tests {
    use super::Position;
    use proptest::prelude::*;

    #[test]
    fn a_record_that_fills_its_page_ends_before_the_next_header() {
        let segment = 16 << 20;
        for (insert, end) in [
            (0x3000148, 0x3000148),
            (0x3002018, 0x3002000),
            (0x3000028, 0x3000000),
            // On a page that is not a segment's first, 40 bytes may hold the end of a record.
            (0x3002028, 0x3002028),
        ] {
            assert_eq!(Position(insert).end_of_record(segment), Position(end));
        }
        assert_eq!(Position(0x3000028).end_of_record(0), Position(0x3000028));
    }

    proptest! {
        #[test]
        fn what_is_shown_is_read(at: u64) {
            prop_assert_eq!(Position(at).to_string().parse(), Ok(Position(at)));
        }

        #[test]
        fn no_text_panics(text: String) {
            let _ = text.parse::<Position>();
        }
    }

    #[test]
    fn what_is_no_position_is_refused() {
        for text in ["", "/", "1", "1/", "/1", "1/2/3", "g/1", "123456789/0"] {
            assert!(text.parse::<Position>().is_err(), "{text}");
        }
        assert_eq!("16/B374D848".parse(), Ok(Position(0x16_B374_D848)));
    }
}
