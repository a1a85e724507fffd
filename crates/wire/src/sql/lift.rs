//! A statement with its constants lifted out: a text with parameters, and their values.
//!
//! A constant and a parameter of the type that the server's parser gives such a constant
//! (`parse_node.c`, `make_const`) mean the same wherever an expression may stand.

use super::lexer::Lexer;
use super::token::{Strings, Token, TokenKind};

/// Constants that are lifted out of one text at most.
const VALUES_MAX: u16 = 64;
/// Longest text with parameters, in bytes.
const TEXT_MAX: usize = 2048;

/// OIDs of types (`pg_type.dat`); a string's is left to the server, as that of the constant is.
const INT4: u32 = 23;
const INT8: u32 = 20;
const NUMERIC: u32 = 1700;
const UNKNOWN: u32 = 0;

/// The first numbers that do not fit.
const INT4_END: u64 = 1 << 31;
const INT8_END: u64 = 1 << 63;

/// A text and its constants. It is reused, so that lifting allocates nothing.
#[derive(Clone, Debug, Default)]
pub struct Lifted {
    /// The tokens with a blank between them, `$1` and so on for constants.
    pub text: Vec<u8>,
    /// Number and types of the parameters, as Parse has them behind the text.
    pub types: Vec<u8>,
    /// The values as text, as Bind has them: each its length in four bytes, then its bytes.
    pub values: Vec<u8>,
    /// How many constants were lifted.
    pub count: u16,
}

impl Lifted {
    /// Lifts the constants out of `text`; false, and undefined contents, where that is not for
    /// certain: there are comments, which may be for somebody, or constants in other forms than
    /// `'...'` and decimal numbers, or too many of them.
    pub fn lift(&mut self, text: &[u8], strings: Strings) -> bool {
        self.text.clear();
        self.types.clear();
        self.types.extend_from_slice(&[0; 2]);
        self.values.clear();
        self.count = 0;
        let mut end = 0;
        let is_blank = |gap: &[u8]| gap.iter().all(u8::is_ascii_whitespace);
        for token in Lexer::new(text, strings) {
            let is_apart = text.get(end..token.start).is_some_and(is_blank);
            if !is_apart || self.text.len() > TEXT_MAX || !self.token(token, strings) {
                return false;
            }
            end = token.start + token.text.len();
        }
        self.types[..2].copy_from_slice(&self.count.to_be_bytes());
        text.get(end..).is_some_and(is_blank)
    }

    fn token(&mut self, token: Token<'_>, strings: Strings) -> bool {
        match token.kind {
            TokenKind::Number => {
                let Some(number_type) = type_of(token.text) else { return false };
                self.value(number_type, |out| {
                    out.extend_from_slice(token.text);
                    true
                })
            }
            // The server reads a text up to its first zero byte.
            TokenKind::String if strings == Strings::Standard && !token.text.contains(&0) => {
                self.value(UNKNOWN, |out| unquote(token.text, out))
            }
            TokenKind::Odd | TokenKind::UnicodeQuoted => false,
            kind if kind.is_literal() => false,
            _ => {
                self.text.extend_from_slice(token.text);
                self.text.push(b' ');
                true
            }
        }
    }

    fn value(&mut self, type_oid: u32, write: impl FnOnce(&mut Vec<u8>) -> bool) -> bool {
        if self.count == VALUES_MAX {
            return false;
        }
        self.count += 1;
        self.text.push(b'$');
        if self.count >= 10 {
            self.text.push(b'0' + (self.count / 10) as u8);
        }
        self.text.extend_from_slice(&[b'0' + (self.count % 10) as u8, b' ']);
        self.types.extend_from_slice(&type_oid.to_be_bytes());
        let at = self.values.len();
        self.values.extend_from_slice(&[0; 4]);
        let is_written = write(&mut self.values);
        let Ok(len) = u32::try_from(self.values.len() - at - 4) else { return false };
        self.values[at..at + 4].copy_from_slice(&len.to_be_bytes());
        is_written
    }
}

/// The type of a constant: the first of `int4`, `int8` and `numeric` that it fits into. `None` for
/// forms that not all servers have (`0x1f`, `1_000`), and for the numbers whose negation fits into
/// a smaller type: the server's parser takes a sign and a number for one constant.
fn type_of(number: &[u8]) -> Option<u32> {
    let decimal = |byte: &u8| matches!(byte, b'0'..=b'9' | b'.' | b'e' | b'E' | b'+' | b'-');
    if !number.iter().all(u8::is_ascii_digit) {
        return number.iter().all(decimal).then_some(NUMERIC);
    }
    match std::str::from_utf8(number).ok()?.parse() {
        Ok(INT4_END | INT8_END) => None,
        Ok(0..INT4_END) => Some(INT4),
        Ok(0..INT8_END) => Some(INT8),
        _ => Some(NUMERIC),
    }
}

/// Appends what a string says; false for `N'...'` and for strings that go on on another line.
fn unquote(quoted: &[u8], out: &mut Vec<u8>) -> bool {
    let inside = quoted.strip_prefix(b"'").and_then(|rest| rest.strip_suffix(b"'"));
    let Some(mut rest) = inside else { return false };
    while let Some(at) = rest.iter().position(|byte| *byte == b'\'') {
        if rest.get(at + 1) != Some(&b'\'') {
            return false;
        }
        out.extend_from_slice(&rest[..=at]);
        rest = &rest[at + 2..];
    }
    out.extend_from_slice(rest);
    true
}
