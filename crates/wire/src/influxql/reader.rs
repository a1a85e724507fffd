//! Tokens one by one, and what to say when one is not what it should be.

use super::ParseError;
use super::lexer::Lexer;
use super::token::{Token, TokenKind};

/// Bytes of what was found that a message repeats.
const FOUND_BYTES_MAX: usize = 256;

pub(super) type Result<T> = std::result::Result<T, ParseError>;

/// Reads the tokens of a text with one token of foresight.
pub(super) struct Reader<'a> {
    text: &'a str,
    lexer: Lexer<'a>,
    peeked: Option<Token<'a>>,
    /// Where the token last taken ends.
    pub(super) end: usize,
    /// Whether that token is a bare word.
    after_word: bool,
}

impl<'a> Reader<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { text, lexer: Lexer::new(text), peeked: None, end: 0, after_word: false }
    }

    pub(super) fn peek(&mut self) -> Token<'a> {
        *self.peeked.get_or_insert_with(|| self.lexer.next())
    }

    pub(super) fn take(&mut self) -> Token<'a> {
        let token = self.peek();
        if token.kind != TokenKind::End {
            self.peeked = None;
            self.end = token.end();
            self.after_word = token.is_bare_word();
        }
        token
    }

    /// The text from a token's start to the end of the one last taken.
    pub(super) fn text_from(&self, first: &Token<'_>) -> &'a str {
        &self.text[first.start..self.end]
    }

    pub(super) fn accept(&mut self, keyword: &str) -> bool {
        let found = self.peek().is(keyword);
        if found {
            self.take();
        }
        found
    }

    /// Takes a bare name that newer servers reserve, if it is next.
    pub(super) fn accept_later_word(&mut self, word: &str) -> bool {
        let found = self.peek().is_later_word(word);
        if found {
            self.take();
        }
        found
    }

    pub(super) fn expect(&mut self, keyword: &'static str) -> Result<()> {
        self.one_of(&[keyword]).map(drop)
    }

    /// Takes a keyword that must be one of these.
    pub(super) fn one_of(&mut self, keywords: &[&'static str]) -> Result<&'static str> {
        let token = self.take();
        match token.kind {
            TokenKind::Keyword(word) if keywords.contains(&word) => Ok(word),
            _ => Err(self.unexpected(&token, keywords)),
        }
    }

    pub(super) fn name(&mut self) -> Result<String> {
        let token = self.take();
        match token.kind {
            TokenKind::Ident => Ok(token.value().into_owned()),
            _ => Err(self.unexpected(&token, &["identifier"])),
        }
    }

    pub(super) fn string(&mut self) -> Result<()> {
        let token = self.take();
        match token.kind {
            TokenKind::Text => Ok(()),
            _ => Err(self.unexpected(&token, &["string"])),
        }
    }

    pub(super) fn integer(&mut self) -> Result<Token<'a>> {
        let token = self.take();
        match token.kind {
            TokenKind::Integer => Ok(token),
            _ => Err(self.unexpected(&token, &["integer"])),
        }
    }

    pub(super) fn duration(&mut self) -> Result<()> {
        let token = self.take();
        match token.kind {
            TokenKind::Keyword("INF") => Ok(()),
            TokenKind::Duration if is_duration(token.text) => Ok(()),
            TokenKind::Duration => Err(self.wrong(&token, "invalid duration")),
            _ => Err(self.unexpected(&token, &["duration"])),
        }
    }

    /// Takes the rest of a statement; true when there is an `INTO` in it.
    pub(super) fn skip(&mut self) -> Result<bool> {
        let mut into = false;
        loop {
            let next = self.peek();
            match next.kind {
                TokenKind::End | TokenKind::Symbol(";") => return Ok(into),
                TokenKind::BadRegex => return Err(self.wrong(&next, "bad regex: ")),
                TokenKind::BadString
                | TokenKind::BadEscape
                | TokenKind::BadComment
                | TokenKind::Illegal => {
                    let expected = ["identifier", "string", "number", "bool"];
                    return Err(self.unexpected(&next, &expected));
                }
                TokenKind::Keyword("INTO") => into = true,
                _ => {}
            }
            self.take();
        }
    }

    pub(super) fn unexpected(&self, found: &Token<'_>, expected: &[&str]) -> ParseError {
        self.wrong(found, &unexpected(&found.shown(), expected))
    }

    /// Places the message as InfluxDB's scanner counts: a string stands at the character before
    /// it, a bad escape at the character escaped, and the end, behind a bare word, one too far.
    pub(super) fn wrong(&self, found: &Token<'_>, why: &str) -> ParseError {
        let at = match found.kind {
            TokenKind::Text | TokenKind::BadString | TokenKind::BadRegex => {
                self.text[..found.start].char_indices().next_back().map_or(0, |(at, _)| at)
            }
            TokenKind::BadEscape => {
                self.text[..found.end()].char_indices().next_back().map_or(0, |(at, _)| at)
            }
            _ => found.start,
        };
        let too_far = found.kind == TokenKind::End && self.after_word && at == self.end;
        self.wrong_at(at, usize::from(too_far), why)
    }

    fn wrong_at(&self, at: usize, too_far: usize, why: &str) -> ParseError {
        let (line, char) = place(self.text, at);
        ParseError(format!("{why} at line {line}, char {}", char + too_far))
    }

    /// InfluxDB takes a NUL for the end of the text or of a comment, or for a blank.
    pub(super) fn refuse_nul(&self) -> Result<()> {
        match self.text.find('\0') {
            Some(at) => Err(self.wrong_at(at, 0, "found NUL")),
            None => Ok(()),
        }
    }
}

/// What was found, and what should have been.
pub(super) fn unexpected(shown: &str, expected: &[&str]) -> String {
    let most = FOUND_BYTES_MAX.min(shown.len());
    let cut = (0..=most).rev().find(|&at| shown.is_char_boundary(at));
    format!("found {}, expected {}", &shown[..cut.unwrap_or(0)], expected.join(", "))
}

/// Line and character of a byte of the text, counted from 1; a carriage return ends a line too.
pub(super) fn place(text: &str, at: usize) -> (usize, usize) {
    let before = &text[..at];
    let newlines = before.matches('\n').count();
    let returns = before.matches('\r').count() - before.matches("\r\n").count();
    let line = before.rfind(['\n', '\r']).map_or(before, |at| &before[at + 1..]);
    (newlines + returns + 1, line.chars().count() + 1)
}

/// `1d12h`: digits and a unit, any number of times.
fn is_duration(text: &str) -> bool {
    const UNITS: [&str; 9] = ["ns", "ms", "u", "µ", "s", "m", "h", "d", "w"];
    let mut rest = text;
    while !rest.is_empty() {
        let unit = rest.trim_start_matches(|c: char| c.is_ascii_digit());
        let digits = &rest[..rest.len() - unit.len()];
        let Some(found) = UNITS.iter().find(|known| unit.starts_with(**known)) else {
            return false;
        };
        if digits.parse::<i64>().is_err() {
            return false;
        }
        rest = &unit[found.len()..];
    }
    true
}
