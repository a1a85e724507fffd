//! Tokens as the parser asks for them: with parameters bound, with a look back, and with the
//! places that InfluxDB's messages name (`bufScanner` and `reader` of `influxql/scanner.go`).

use std::borrow::Cow;

use super::params::{Param, Params};
use crate::influxql::ParseError;
use crate::influxql::lexer::Lexer;
use crate::influxql::reader::{Result, place, unexpected};
use crate::influxql::token::{Token, TokenKind};

/// Bytes that bound parameters may stand for beyond one use of each: every use is a copy, and a
/// text can use a long one a million times.
const BOUND_BYTES_MAX: usize = 4 << 20;

/// A token, blanks and comments included.
#[derive(Clone, Debug)]
pub(super) struct Piece<'a> {
    pub(super) kind: TokenKind,
    /// What a name, string or number says; empty where the kind says it all.
    pub(super) value: Cow<'a, str>,
    /// The byte of the text its place is named by.
    at: usize,
    /// Characters between `at` and where InfluxDB places the token in errors.
    too_far: usize,
}

/// Reads a text token by token; up to three can be taken back.
pub(super) struct Scanner<'a> {
    text: &'a str,
    params: &'a Params,
    /// Bytes that they may still stand for; `None` once that was too little.
    bound: Option<usize>,
    lexer: Lexer<'a>,
    /// The tokens last read, `at` being the newest, as a ring: as many as InfluxDB keeps.
    ring: [Piece<'a>; 3],
    at: usize,
    /// How many of them were taken back.
    back: usize,
    end: End,
}

/// How the end of the text was read: its place moves by one when it was read before.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Unread,
    /// Read and taken back, `usize` characters too far.
    Back(usize),
    Read,
}

impl End {
    /// Reads it; gives by how many characters its place is too far.
    fn read(&mut self) -> usize {
        let too_far = match *self {
            Self::Unread => 0,
            Self::Back(too_far) => too_far,
            Self::Read => 1,
        };
        *self = Self::Read;
        too_far
    }

    fn look(&mut self) {
        let too_far = self.read();
        *self = Self::Back(too_far);
    }
}

impl<'a> Scanner<'a> {
    pub(super) fn new(text: &'a str, params: &'a Params) -> Self {
        let none =
            Piece { kind: TokenKind::End, value: Cow::Borrowed(""), at: text.len(), too_far: 0 };
        Self {
            text,
            params,
            bound: Some(params.bytes() + BOUND_BYTES_MAX),
            lexer: Lexer::new(text),
            ring: [none.clone(), none.clone(), none],
            at: 0,
            back: 0,
            end: End::Unread,
        }
    }

    /// The next token, blanks and comments included.
    pub(super) fn scan(&mut self) -> Piece<'a> {
        self.read(Lexer::piece)
    }

    /// The next token, which a slash begins as a regular expression.
    pub(super) fn scan_regex(&mut self) -> Piece<'a> {
        self.read(Lexer::regex_piece)
    }

    /// The next token that is neither blanks nor a comment.
    pub(super) fn take(&mut self) -> Piece<'a> {
        loop {
            let piece = self.scan();
            if !matches!(piece.kind, TokenKind::Blank | TokenKind::Comment) {
                return piece;
            }
        }
    }

    /// Takes the newest token back.
    pub(super) fn unscan(&mut self) {
        self.back += 1;
    }

    /// The character behind all that was read, taken back or not.
    pub(super) fn peek_char(&mut self) -> Option<char> {
        let next = self.lexer.peek_char();
        if next.is_none() {
            self.end.read();
        }
        next
    }

    /// Whether parameters would have stood for more text than they may.
    pub(super) fn is_over_bound(&self) -> bool {
        self.bound.is_none()
    }

    pub(super) fn param(&self, name: &str) -> Option<&'a Param> {
        self.params.get(name)
    }

    fn read(&mut self, scan: fn(&mut Lexer<'a>) -> Token<'a>) -> Piece<'a> {
        if self.back > 0 {
            self.back -= 1;
        } else {
            let token = scan(&mut self.lexer);
            let piece = self.piece(&token);
            if piece.kind == TokenKind::Param
                && let Some(param) = piece.value.get(1..).and_then(|name| self.params.get(name))
            {
                self.bound = self.bound.and_then(|left| left.checked_sub(param.bytes()));
            }
            self.at = (self.at + 1) % self.ring.len();
            if let Some(slot) = self.ring.get_mut(self.at) {
                *slot = piece;
            }
        }
        let newest = self.at + self.ring.len() - self.back % self.ring.len();
        let piece = &self.ring[newest % self.ring.len()];
        if piece.kind == TokenKind::Param
            && self.bound.is_some()
            && let Some(param) = piece.value.get(1..).and_then(|name| self.params.get(name))
            && let Some((kind, value)) = param.token()
        {
            return Piece { kind, value, ..*piece };
        }
        piece.clone()
    }

    fn piece(&mut self, token: &Token<'a>) -> Piece<'a> {
        let too_far = self.note_end(token);
        let at = match token.kind {
            TokenKind::Text | TokenKind::Regex | TokenKind::BadRegex => self.before(token.start),
            TokenKind::BadString => {
                self.before(token.start + token.text.find(['"', '\'']).unwrap_or(0))
            }
            TokenKind::BadEscape => {
                let escape = token.start + token.text.rfind('\\').unwrap_or(0);
                escape + 1
            }
            _ => token.start,
        };
        Piece { kind: token.kind, value: value(token), at, too_far }
    }

    /// Where the character before stands: InfluxDB's scanner places strings there.
    fn before(&self, at: usize) -> usize {
        let text = &self.text[..at];
        let newline = text.strip_suffix("\r\n").map(str::len);
        newline.unwrap_or_else(|| text.char_indices().next_back().map_or(0, |(at, _)| at))
    }

    /// Follows how InfluxDB's scanner reads the end of the text to know that a token ends.
    fn note_end(&mut self, token: &Token<'_>) -> usize {
        if token.kind == TokenKind::End {
            return self.end.read();
        }
        if token.end() < self.text.len() {
            return 0;
        }
        match token.kind {
            TokenKind::Ident | TokenKind::Param | TokenKind::Keyword(_)
                if !token.text.ends_with('"') =>
            {
                self.end.read();
                self.end.read();
            }
            TokenKind::Blank => {
                self.end.read();
            }
            TokenKind::Comment
                if token.text.starts_with("--") && !token.text.ends_with(['\n', '\r']) =>
            {
                self.end.read();
            }
            TokenKind::Integer | TokenKind::Number | TokenKind::Duration => self.end.look(),
            TokenKind::Symbol("." | "-" | "/" | "=" | ">" | "<" | ":") => self.end.look(),
            TokenKind::Illegal if token.text == "!" => self.end.look(),
            _ => {}
        }
        0
    }

    /// What to say of a token that should be another.
    pub(super) fn unexpected(&self, found: &Piece<'_>, expected: &[&str]) -> ParseError {
        self.wrong(found, &unexpected(shown(found), expected))
    }

    /// The message with the place of a token.
    pub(super) fn wrong(&self, found: &Piece<'_>, why: &str) -> ParseError {
        let (line, char) = self.place(found);
        ParseError(format!("{why} at line {line}, char {char}"))
    }

    /// Line and character of a token, from 1.
    pub(super) fn place(&self, piece: &Piece<'_>) -> (usize, usize) {
        let (line, char) = place(self.text, piece.at);
        (line, char + piece.too_far)
    }

    /// InfluxDB takes a NUL for the end of the text or of a comment, or for a blank.
    pub(super) fn refuse_nul(&self) -> Result<()> {
        crate::influxql::reader::Reader::new(self.text).refuse_nul()
    }
}

/// What a token says, as `Scan` of InfluxDB gives it.
fn value<'a>(token: &Token<'a>) -> Cow<'a, str> {
    match token.kind {
        TokenKind::Keyword(_) | TokenKind::Symbol(_) | TokenKind::End => Cow::Borrowed(""),
        TokenKind::Comment | TokenKind::BadComment | TokenKind::BadRegex => Cow::Borrowed(""),
        TokenKind::BadString if token.text.starts_with('$') => {
            Cow::Owned(format!("${}", token.value()))
        }
        TokenKind::Ident | TokenKind::Text | TokenKind::BadString => token.value(),
        TokenKind::Param => Cow::Owned(format!("${}", token.value().trim_start_matches('$'))),
        TokenKind::Number => Cow::Borrowed(token.text.strip_suffix('.').unwrap_or(token.text)),
        TokenKind::Regex => {
            let inner = token.text.get(1..token.text.len() - 1).unwrap_or_default();
            match inner.contains("\\/") {
                true => Cow::Owned(inner.replace("\\/", "/")),
                false => Cow::Borrowed(inner),
            }
        }
        TokenKind::BadEscape => {
            let escape = &token.text[token.text.rfind('\\').unwrap_or(0)..];
            match escape {
                // Behind the end InfluxDB finds a NUL.
                "\\" => Cow::Borrowed("\\\0"),
                "\\\r" => Cow::Borrowed("\\\n"),
                _ => Cow::Borrowed(escape),
            }
        }
        TokenKind::Blank if token.text.contains('\r') => {
            Cow::Owned(token.text.replace("\r\n", "\n").replace('\r', "\n"))
        }
        TokenKind::Blank | TokenKind::Integer | TokenKind::Duration | TokenKind::Illegal => {
            Cow::Borrowed(token.text)
        }
    }
}

/// How InfluxDB's messages name a token (`tokstr`).
pub(super) fn shown<'p>(piece: &'p Piece<'_>) -> &'p str {
    if !piece.value.is_empty() {
        return &piece.value;
    }
    match piece.kind {
        TokenKind::Keyword(word) => word,
        TokenKind::Symbol("<>") => "!=",
        TokenKind::Symbol(symbol) => symbol,
        TokenKind::Ident => "IDENT",
        TokenKind::Text => "STRING",
        TokenKind::BadString => "BADSTRING",
        TokenKind::Regex => "REGEX",
        TokenKind::Number => "NUMBER",
        TokenKind::Duration => "DURATIONVAL",
        TokenKind::End => "EOF",
        TokenKind::BadComment => "ILLEGAL",
        _ => "",
    }
}
