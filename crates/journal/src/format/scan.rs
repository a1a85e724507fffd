//! Finding every group of a segment, whatever state it is in.

use std::io;

use crate::format::group::{self, Header};
use crate::format::segment::Segment;
use crate::format::window::Window;
use crate::position::Position;

/// A group whose header is undamaged.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Entry {
    pub header: Header,
    /// Whether every record of it is undamaged too.
    pub whole: bool,
}

/// All groups of a segment with an undamaged header, in order. With `records`, their records are
/// checked as well; otherwise they count as whole.
pub(crate) fn groups(segment: &Segment, salt: u32, records: bool) -> io::Result<Vec<Entry>> {
    let mut window = Window::new(segment, salt);
    let mut entries = Vec::new();
    let mut at = segment.base;
    while at < segment.end() {
        let header = match window.header(at)? {
            Some(header) => header,
            None => match window.search(at.after(1))? {
                Some(header) => header,
                None => break,
            },
        };
        let whole = !records || window.is_whole(&header)?;
        entries.push(Entry { header, whole });
        at = header.end();
    }
    Ok(entries)
}

/// The first group of a segment with an undamaged header.
pub(crate) fn first(segment: &Segment, salt: u32) -> io::Result<Option<Header>> {
    // Almost always it is at the beginning, and a window would read much more.
    let head = segment.read(segment.base, group::HEADER_LEN)?;
    match Header::decode(salt, &head, segment.base) {
        Some(header) if header.end() <= segment.end() => Ok(Some(header)),
        _ => Window::new(segment, salt).search(segment.base.after(1)),
    }
}

/// Whether there is something behind the end of the groups that a group must have left: the last
/// write filled its page up with zeros.
pub(crate) fn has_leavings(segment: &Segment, end: Position) -> io::Result<bool> {
    let page_left = segment.next_page(end).since(end);
    let bytes = segment.read(end, page_left as usize)?;
    Ok(bytes.iter().any(|byte| *byte != 0))
}
