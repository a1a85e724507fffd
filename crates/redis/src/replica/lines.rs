//! Weir's own lines in an append-only file: they begin with `#`, and a server passes over them.
//!
//! A server reads such a line by 127 bytes at most (`aof.c`, `loadSingleAppendOnlyFile`), so none
//! is longer.

use std::fmt;

use super::keys::Keys;
use super::stream::decimal;

/// The longest line, its CRLF included.
pub const LINE_BYTES_MAX: usize = 127;

/// A replication id: which history of a data set it is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Id([u8; 40]);

impl Id {
    /// Reads forty hexadecimal digits.
    pub fn read(text: &[u8]) -> Option<Self> {
        let id: [u8; 40] = text.try_into().ok()?;
        id.iter().all(u8::is_ascii_hexdigit).then_some(Self(id))
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{}", char::from(*byte)))
    }
}

impl fmt::Debug for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// What a line says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Line {
    /// The first of a file: what follows, behind a `SELECT` that is not of the stream, is of this
    /// history and from this offset on.
    Begin {
        id: Id,
        /// How many bytes of the stream lie before.
        offset: u64,
        /// The database that the `SELECT` behind it selects.
        database: u32,
    },
    /// Everything up to here is of the stream.
    Mark {
        /// How many bytes of the stream lie before.
        offset: u64,
        /// CRC-32C over what lies between the mark before and this line.
        crc: u32,
    },
    /// From here on the history has this id.
    Renamed(Id),
    /// How many keys the master has, or had.
    Keys(Keys),
    /// When what follows was written, in seconds since 1970: Redis's own annotation.
    Time(u64),
}

impl Line {
    /// Reads a line without its CRLF; `None` where it is not one of these.
    pub fn read(line: &[u8]) -> Option<Self> {
        if let Some(seconds) = line.strip_prefix(b"#TS:") {
            return Some(Self::Time(decimal(seconds)?));
        }
        let mut words = line.strip_prefix(b"#WEIR ")?.split(|byte| *byte == b' ');
        let mut word = || words.next().unwrap_or_default();
        let read = match word() {
            b"begin" => {
                let (id, offset, database) = (word(), word(), word());
                let database = u32::try_from(decimal(database)?).ok()?;
                Self::Begin { id: Id::read(id)?, offset: decimal(offset)?, database }
            }
            b"mark" => {
                let (offset, crc) = (word(), word());
                let crc = u32::from_str_radix(std::str::from_utf8(crc).ok()?, 16).ok()?;
                Self::Mark { offset: decimal(offset)?, crc }
            }
            b"keys" => Self::Keys(Keys::Accepted(decimal(word())?)),
            b"awaited" => Self::Keys(Keys::Awaited(decimal(word())?)),
            b"lost" => Self::Keys(Keys::Lost(decimal(word())?)),
            b"id" => Self::Renamed(Id::read(word())?),
            _ => return None,
        };
        word().is_empty().then_some(read)
    }

    /// Writes it, with its CRLF.
    pub fn put(&self, out: &mut Vec<u8>) {
        let text = match self {
            Self::Begin { id, offset, database } => format!("WEIR begin {id} {offset} {database}"),
            Self::Mark { offset, crc } => format!("WEIR mark {offset} {crc:08x}"),
            Self::Keys(Keys::Accepted(keys)) => format!("WEIR keys {keys}"),
            Self::Keys(Keys::Awaited(keys)) => format!("WEIR awaited {keys}"),
            Self::Keys(Keys::Lost(keys)) => format!("WEIR lost {keys}"),
            Self::Renamed(id) => format!("WEIR id {id}"),
            Self::Time(seconds) => format!("TS:{seconds}"),
        };
        out.push(b'#');
        out.extend_from_slice(text.as_bytes());
        out.extend_from_slice(b"\r\n");
    }
}

#[cfg(test)]
mod tests {
    use super::super::keys::Keys;
    use super::{Id, LINE_BYTES_MAX, Line};

    #[test]
    fn lines_are_read_as_they_were_written_and_fit() {
        let id = Id::read(&[b'a'; 40]).unwrap();
        let begin = Line::Begin { id, offset: u64::MAX, database: u32::MAX };
        let mark = Line::Mark { offset: u64::MAX, crc: u32::MAX };
        let keys = [Keys::Accepted, Keys::Awaited, Keys::Lost].map(|of| Line::Keys(of(u64::MAX)));
        let others = [begin, mark, Line::Renamed(id), Line::Time(u64::MAX)];
        for line in others.into_iter().chain(keys) {
            let mut out = Vec::new();
            line.put(&mut out);
            assert!(out.len() <= LINE_BYTES_MAX);
            assert_eq!(Line::read(out.strip_suffix(b"\r\n").unwrap()), Some(line));
        }
        for text in ["#WEIR mark 1", "#WEIR mark 1 0 2", "#WEIR", "#TS:", "#TS:-1", "#WEIR id a"] {
            assert_eq!(Line::read(text.as_bytes()), None, "{text}");
        }
    }
}
