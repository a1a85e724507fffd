//! Numbers: decimal, with `_` between digits and in other bases since PostgreSQL 16.

use super::bytes::{self, class};
use super::token::TokenKind;

/// The number that begins at `start` with a digit, or with a dot before a digit.
pub(super) fn scan(text: &[u8], start: usize) -> (TokenKind, usize) {
    let mut at = start;
    if let (Some(b'0'), Some(base)) = (text.get(start), text.get(start + 1)) {
        let based: Option<fn(&u8) -> bool> = match base | 0x20 {
            b'x' => Some(u8::is_ascii_hexdigit),
            b'o' => Some(|byte| matches!(byte, b'0'..=b'7')),
            b'b' => Some(|byte| matches!(byte, b'0' | b'1')),
            _ => None,
        };
        if let Some(digit) = based {
            let end = digits_end(text, start + 2, digit);
            return if end == start + 2 { junk(text, start + 1) } else { finish(text, end) };
        }
    }
    at = digits_end(text, at, u8::is_ascii_digit);
    // `1..2` is the numbers 1 and 2.
    if text.get(at) == Some(&b'.') && text.get(at + 1) != Some(&b'.') {
        at = digits_end(text, at + 1, u8::is_ascii_digit);
    }
    if matches!(text.get(at), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(text.get(at + 1), Some(b'+' | b'-')));
        let end = digits_end(text, at + 1 + sign, u8::is_ascii_digit);
        if end == at + 1 + sign {
            return junk(text, at);
        }
        at = end;
    }
    finish(text, at)
}

/// Where what is neither number nor word ends.
pub(super) fn junk_end(text: &[u8], at: usize) -> usize {
    let rest = text.get(at..).unwrap_or_default();
    at + rest.iter().position(|&byte| !bytes::goes_on(byte)).unwrap_or(rest.len())
}

/// A letter right behind a number is an error since PostgreSQL 15 and another token before.
fn finish(text: &[u8], end: usize) -> (TokenKind, usize) {
    match text.get(end) {
        Some(&byte) if class(byte) == bytes::LETTER => junk(text, end),
        _ => (TokenKind::Number, end),
    }
}

fn junk(text: &[u8], at: usize) -> (TokenKind, usize) {
    (TokenKind::Odd, junk_end(text, at))
}

/// Past digits, and single `_` that have a digit behind them.
fn digits_end(text: &[u8], mut at: usize, digit: fn(&u8) -> bool) -> usize {
    loop {
        match text.get(at) {
            Some(byte) if digit(byte) => at += 1,
            Some(b'_') if text.get(at + 1).is_some_and(digit) => at += 2,
            _ => return at,
        }
    }
}
