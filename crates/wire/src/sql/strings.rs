//! What has an end to be looked for: strings, quoted identifiers, comments.

use memchr::{memchr, memchr2, memmem};

use super::bytes;
use super::token::TokenKind;

/// `'...'` without escapes from its quote at `open`, and its continuations.
pub(super) fn plain(text: &[u8], open: usize, kind: TokenKind) -> (TokenKind, usize) {
    let mut at = open + 1;
    loop {
        let Some(len) = memchr(b'\'', text.get(at..).unwrap_or_default()) else {
            return (TokenKind::Odd, text.len());
        };
        at += len + 1;
        match text.get(at) {
            Some(b'\'') => at += 1,
            _ => match continuation(text, at) {
                Some(inside) => at = inside,
                None => return (kind, at),
            },
        }
    }
}

/// A string whose backslashes escape, from its quote at `open`, and its continuations, in which
/// they escape too.
pub(super) fn escaped(text: &[u8], open: usize, kind: TokenKind) -> (TokenKind, usize) {
    let mut at = open + 1;
    loop {
        let Some(len) = memchr2(b'\'', b'\\', text.get(at..).unwrap_or_default()) else {
            return (TokenKind::Odd, text.len());
        };
        at += len + 1;
        match (text.get(at - 1), text.get(at)) {
            (Some(b'\\'), Some(_)) | (Some(b'\''), Some(b'\'')) => at += 1,
            (Some(b'\\'), None) => return (TokenKind::Odd, text.len()),
            _ => match continuation(text, at) {
                Some(inside) => at = inside,
                None => return (kind, at),
            },
        }
    }
}

/// A string goes on in another one that stands on a later line (`quotecontinue` of `scan.l`):
/// where that one's inside begins.
fn continuation(text: &[u8], end: usize) -> Option<usize> {
    let mut at = end;
    let mut newline = false;
    loop {
        match text.get(at)? {
            b'\n' | b'\r' => {
                newline = true;
                at += 1;
            }
            &byte if bytes::is_space(byte) => at += 1,
            b'-' if text.get(at + 1) == Some(&b'-') => at = line_end(text, at),
            b'\'' if newline => return Some(at + 1),
            _ => return None,
        }
    }
}

/// `"..."` from its quote at `open`.
pub(super) fn identifier(text: &[u8], open: usize, kind: TokenKind) -> (TokenKind, usize) {
    let mut at = open + 1;
    loop {
        let Some(len) = memchr(b'"', text.get(at..).unwrap_or_default()) else {
            return (TokenKind::Odd, text.len());
        };
        at += len + 1;
        match text.get(at) {
            Some(b'"') => at += 1,
            // `""` is not an identifier.
            _ if at == open + 2 => return (TokenKind::Odd, at),
            _ => return (kind, at),
        }
    }
}

/// `$tag$...$tag$` from its first `$`; a `$` that opens nothing is odd.
pub(super) fn dollar(text: &[u8], start: usize) -> (TokenKind, usize) {
    let tag = text.get(start + 1..).unwrap_or_default();
    let len = tag.iter().position(|&b| b == b'$' || !bytes::goes_on(b)).unwrap_or(tag.len());
    if tag.get(len) != Some(&b'$') {
        return (TokenKind::Odd, start + 1);
    }
    let inside = start + len + 2;
    let delimiter = text.get(start..inside).unwrap_or_default();
    match memmem::find(text.get(inside..).unwrap_or_default(), delimiter) {
        Some(at) => (TokenKind::DollarString, inside + at + delimiter.len()),
        None => (TokenKind::Odd, text.len()),
    }
}

/// The end of the line of a `--` comment: at its newline.
pub(super) fn line_end(text: &[u8], start: usize) -> usize {
    let rest = text.get(start..).unwrap_or_default();
    start + memchr2(b'\n', b'\r', rest).unwrap_or(rest.len())
}

/// Past the comment that begins at `start` with `/*`; comments nest.
pub(super) fn comment_end(text: &[u8], start: usize) -> Option<usize> {
    let mut at = start + 2;
    let mut depth = 1usize;
    while depth > 0 {
        at += memchr2(b'*', b'/', text.get(at..)?)?;
        match (text.get(at), text.get(at + 1)) {
            (Some(b'*'), Some(b'/')) => {
                depth -= 1;
                at += 2;
            }
            (Some(b'/'), Some(b'*')) => {
                depth += 1;
                at += 2;
            }
            _ => at += 1,
        }
    }
    Some(at)
}
