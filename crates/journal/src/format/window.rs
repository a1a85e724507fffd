//! Reading through a segment with few system calls, and finding groups in it.

use std::io;

use crate::format::group::{self, Header, MAGIC};
use crate::format::segment::Segment;
use crate::position::Position;

/// How much is read at once.
const WINDOW: usize = 1 << 20;

/// A part of a segment in memory that follows what is asked for.
#[derive(Debug)]
pub(crate) struct Window<'a> {
    segment: &'a Segment,
    salt: u32,
    start: Position,
    bytes: Vec<u8>,
}

impl<'a> Window<'a> {
    pub fn new(segment: &'a Segment, salt: u32) -> Self {
        Window { segment, salt, start: segment.base, bytes: Vec::new() }
    }

    /// The bytes at a place; fewer than `len` only at the end of the segment.
    pub fn get(&mut self, at: Position, len: usize) -> io::Result<&[u8]> {
        let end = self.start.after(self.bytes.len() as u64);
        if at < self.start || at.after(len as u64) > end {
            self.bytes = self.segment.read(at, len.max(WINDOW))?;
            self.start = at;
        }
        let from = usize::try_from(at.since(self.start)).unwrap_or(usize::MAX);
        let rest = self.bytes.get(from..).unwrap_or_default();
        Ok(&rest[..len.min(rest.len())])
    }

    /// The header of a group at a place, if one is there that ends within the segment.
    pub fn header(&mut self, at: Position) -> io::Result<Option<Header>> {
        let (salt, end) = (self.salt, self.segment.end());
        let header = Header::decode(salt, self.get(at, group::HEADER_LEN)?, at);
        Ok(header.filter(|header| header.end() <= end))
    }

    /// Whether every record of a group is whole.
    pub fn is_whole(&mut self, header: &Header) -> io::Result<bool> {
        let salt = self.salt;
        let body = self.get(header.body(), header.len as usize)?;
        Ok(header.holds(salt, body))
    }

    /// The next header of a group at or after a place.
    pub fn search(&mut self, mut from: Position) -> io::Result<Option<Header>> {
        while from < self.segment.end() {
            let bytes = self.get(from, WINDOW)?;
            let len = bytes.len();
            if len < group::HEADER_LEN {
                break;
            }
            match find(bytes) {
                Some(at) => {
                    let at = from.after(at as u64);
                    if let Some(header) = self.header(at)? {
                        return Ok(Some(header));
                    }
                    from = at.after(1);
                }
                // The magic may lie across the window's end.
                None => from = from.after((len - MAGIC.len() + 1) as u64),
            }
        }
        Ok(None)
    }
}

fn find(bytes: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        at += bytes.get(at..)?.iter().position(|byte| *byte == MAGIC[0])?;
        if bytes[at..].starts_with(&MAGIC) {
            return Some(at);
        }
        at += 1;
    }
}
