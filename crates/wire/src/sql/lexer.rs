//! From text to tokens, as `src/backend/parser/scan.l` of PostgreSQL cuts it.

use super::bytes::{self, class};
use super::number;
use super::strings;
use super::token::{Strings, Token, TokenKind};

/// Yields the tokens of a text; white space and comments between them are dropped.
#[derive(Clone, Debug)]
pub struct Lexer<'a> {
    text: &'a [u8],
    at: usize,
    strings: Strings,
}

impl<'a> Lexer<'a> {
    /// At the beginning of `text`.
    #[must_use]
    pub fn new(text: &'a [u8], strings: Strings) -> Self {
        Self { text, at: 0, strings }
    }

    /// Where the next token is looked for, in bytes.
    #[must_use]
    pub fn position(&self) -> usize {
        self.at
    }

    #[inline]
    fn byte(&self, ahead: usize) -> Option<u8> {
        self.text.get(self.at + ahead).copied()
    }

    /// Past white space and comments; false if a comment has no end.
    #[inline]
    fn skip(&mut self) -> bool {
        loop {
            match self.byte(0) {
                Some(byte) if bytes::is_space(byte) => self.at += 1,
                Some(b'-') if self.byte(1) == Some(b'-') => {
                    self.at = strings::line_end(self.text, self.at);
                }
                Some(b'/') if self.byte(1) == Some(b'*') => {
                    match strings::comment_end(self.text, self.at) {
                        Some(end) => self.at = end,
                        None => return false,
                    }
                }
                _ => return true,
            }
        }
    }

    /// The kind of the token that begins here with `first`, and where it ends.
    #[inline]
    fn token_at(&self, first: u8) -> (TokenKind, usize) {
        let (text, at) = (self.text, self.at);
        match class(first) {
            bytes::LETTER => self.word(first),
            bytes::DIGIT => number::scan(text, at),
            bytes::OPERATOR => (TokenKind::Operator, operator_end(text, at)),
            bytes::SINGLE => (single(first), at + 1),
            bytes::QUOTE => match self.strings {
                Strings::Standard => strings::plain(text, at, TokenKind::String),
                Strings::Backslash => strings::escaped(text, at, TokenKind::String),
            },
            bytes::DOUBLE_QUOTE => strings::identifier(text, at, TokenKind::Quoted),
            bytes::DOLLAR => dollar(text, at),
            bytes::DOT => match self.byte(1) {
                Some(b'0'..=b'9') => number::scan(text, at),
                Some(b'.') => (TokenKind::Mark, at + 2),
                _ => (TokenKind::Dot, at + 1),
            },
            bytes::COLON => match self.byte(1) {
                Some(b':') => (TokenKind::Cast, at + 2),
                Some(b'=') => (TokenKind::Operator, at + 2),
                _ => (TokenKind::Mark, at + 1),
            },
            _ => (TokenKind::Odd, at + 1),
        }
    }

    /// An identifier, or a string with a letter in front of it.
    #[inline]
    fn word(&self, first: u8) -> (TokenKind, usize) {
        let (text, at) = (self.text, self.at);
        if matches!(self.byte(1), Some(b'\'' | b'&')) {
            match (first | 0x20, self.byte(1), self.byte(2)) {
                (b'e', Some(b'\''), _) => {
                    return strings::escaped(text, at + 1, TokenKind::EscapeString);
                }
                // As `scan.l` has it, `n` is then a keyword of its own and the string plain.
                (b'n', Some(b'\''), _) if self.strings == Strings::Backslash => {
                    return strings::escaped(text, at + 1, TokenKind::String);
                }
                (b'n', Some(b'\''), _) => return strings::plain(text, at + 1, TokenKind::String),
                (b'b' | b'x', Some(b'\''), _) => {
                    return strings::plain(text, at + 1, TokenKind::BitString);
                }
                (b'u', Some(b'&'), Some(b'\'')) => {
                    return strings::plain(text, at + 2, TokenKind::UnicodeString);
                }
                (b'u', Some(b'&'), Some(b'"')) => {
                    return strings::identifier(text, at + 2, TokenKind::UnicodeQuoted);
                }
                _ => {}
            }
        }
        let rest = text.get(at + 1..).unwrap_or_default();
        let len = rest.iter().position(|&byte| !bytes::goes_on(byte)).unwrap_or(rest.len());
        (TokenKind::Word, at + 1 + len)
    }
}

impl<'a> Iterator for Lexer<'a> {
    type Item = Token<'a>;

    #[inline]
    fn next(&mut self) -> Option<Token<'a>> {
        let ended = self.skip();
        let start = self.at;
        let first = self.byte(0)?;
        let (kind, end) =
            if ended { self.token_at(first) } else { (TokenKind::Odd, self.text.len()) };
        self.at = end;
        Some(Token { kind, text: self.text.get(start..end).unwrap_or_default(), start })
    }
}

fn single(byte: u8) -> TokenKind {
    match byte {
        b'(' => TokenKind::Open,
        b')' => TokenKind::Close,
        b',' => TokenKind::Comma,
        b';' => TokenKind::Semicolon,
        _ => TokenKind::Mark,
    }
}

/// An operator ends before a comment; and one of several characters ends in `+` or `-` only if it
/// has one of those in it that no operator of the SQL standard has.
fn operator_end(text: &[u8], start: usize) -> usize {
    let mut end = start + 1;
    while let Some(&byte) = text.get(end) {
        let comment = matches!((byte, text.get(end + 1)), (b'-', Some(b'-')) | (b'/', Some(b'*')));
        if class(byte) != bytes::OPERATOR || comment {
            break;
        }
        end += 1;
    }
    let ends_in_sign = |end: usize| end > start + 1 && matches!(text[end - 1], b'+' | b'-');
    if ends_in_sign(end) {
        let free = |byte: &u8| b"~!@#^&|`?%".contains(byte);
        if !text[start..end].iter().any(free) {
            while ends_in_sign(end) {
                end -= 1;
            }
        }
    }
    end
}

/// `$1`, `$tag$...$tag$`, or a stray `$`.
fn dollar(text: &[u8], start: usize) -> (TokenKind, usize) {
    let digits = text[start + 1..]
        .iter()
        .position(|b| !b.is_ascii_digit())
        .unwrap_or(text.len() - start - 1);
    if digits == 0 {
        return strings::dollar(text, start);
    }
    let end = start + 1 + digits;
    match text.get(end) {
        // An error since PostgreSQL 15, two tokens before.
        Some(&byte) if class(byte) == bytes::LETTER => {
            (TokenKind::Odd, number::junk_end(text, end))
        }
        _ => (TokenKind::Parameter, end),
    }
}
