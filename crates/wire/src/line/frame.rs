//! Where a line ends. Not simply at a newline: InfluxDB steps over a newline after a backslash,
//! and over those between the quotes of a field.

use memchr::{memchr, memchr2};

/// Where the line of `text` that starts at `start` ends: at its newline, or at the end of `text`.
///
/// `models/points.go`, `scanLine`, which knows less than the parser and may disagree with it.
pub(super) fn line_end(text: &[u8], start: usize) -> usize {
    let mut i = start;
    let (mut in_fields, mut quoted) = (false, false);
    let (mut equals, mut commas) = (0usize, 0usize);
    while let Some(&byte) = text.get(i) {
        match byte {
            b'\\' if i + 2 < text.len() => i += 1,
            b' ' => in_fields = true,
            b'=' if in_fields && !quoted => equals += 1,
            b',' if in_fields && !quoted => commas += 1,
            b'"' if in_fields && equals > commas => quoted = !quoted,
            b'\n' if !quoted => break,
            _ => {}
        }
        i += 1;
    }
    i
}

/// `models/points.go`, `skipWhitespace`: the first byte from `i` on that is not a blank.
pub(super) fn skip_blanks(text: &[u8], mut i: usize) -> usize {
    while text.get(i).is_some_and(|&byte| is_blank(byte)) {
        i += 1;
    }
    i
}

/// Spaces, tabs and NULs may stand before a line and between its parts.
pub(super) const fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | 0)
}

pub(super) struct Points<'a>(pub(super) &'a [u8]);

impl<'a> Iterator for Points<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        if self.0.is_empty() {
            return None;
        }
        let newline = memchr(b'\n', self.0).unwrap_or(self.0.len());
        // Nearly every line: nothing in it that could hide its newline.
        let end = match memchr2(b'"', b'\\', &self.0[..newline]) {
            None => newline,
            Some(_) => line_end(self.0, 0),
        };
        let (point, rest) = self.0.split_at((end + 1).min(self.0.len()));
        self.0 = rest;
        Some(point)
    }
}

/// See [`series`](super::series): up to the first space without a backslash before it.
pub(super) fn series(point: &[u8]) -> &[u8] {
    let mut from = 0;
    while let Some(found) = memchr(b' ', &point[from..]) {
        let space = from + found;
        if space > 0 && point[space - 1] != b'\\' {
            return &point[..space];
        }
        from = space + 1;
    }
    point
}
