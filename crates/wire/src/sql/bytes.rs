//! What each byte can be in SQL, after the character classes of `scan.l`.

/// Nothing begins with it.
pub(super) const ODD: u8 = 0;
/// Between tokens. `\v` is one since PostgreSQL 16 and an error before.
pub(super) const SPACE: u8 = 1;
/// Begins an identifier: a letter, `_`, any byte from 0x80.
pub(super) const LETTER: u8 = 2;
pub(super) const DIGIT: u8 = 3;
/// Part of an operator.
pub(super) const OPERATOR: u8 = 4;
/// A token by itself.
pub(super) const SINGLE: u8 = 5;
pub(super) const QUOTE: u8 = 6;
pub(super) const DOUBLE_QUOTE: u8 = 7;
pub(super) const DOLLAR: u8 = 8;
pub(super) const DOT: u8 = 9;
pub(super) const COLON: u8 = 10;

const fn class_of(byte: u8) -> u8 {
    match byte {
        b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c => SPACE,
        b'a'..=b'z' | b'A'..=b'Z' | b'_' | 0x80..=0xff => LETTER,
        b'0'..=b'9' => DIGIT,
        b'~' | b'!' | b'@' | b'#' | b'^' | b'&' | b'|' | b'`' | b'?' | b'+' | b'-' | b'*'
        | b'/' | b'%' | b'<' | b'>' | b'=' => OPERATOR,
        b'(' | b')' | b',' | b';' | b'[' | b']' => SINGLE,
        b'\'' => QUOTE,
        b'"' => DOUBLE_QUOTE,
        b'$' => DOLLAR,
        b'.' => DOT,
        b':' => COLON,
        _ => ODD,
    }
}

static CLASSES: [u8; 256] = {
    let mut classes = [ODD; 256];
    let mut byte = 0;
    while byte < 256 {
        classes[byte] = class_of(byte as u8);
        byte += 1;
    }
    classes
};

/// The class of a byte.
#[inline]
pub(super) fn class(byte: u8) -> u8 {
    CLASSES[usize::from(byte)]
}

/// Whether an identifier goes on with it.
#[inline]
pub(super) fn goes_on(byte: u8) -> bool {
    matches!(class(byte), LETTER | DIGIT | DOLLAR)
}

/// Whether it is white space.
#[inline]
pub(super) fn is_space(byte: u8) -> bool {
    class(byte) == SPACE
}
