//! From text to tokens, as `influxql/scanner.go` does it, and as `parser.go` asks it to: whether
//! a slash divides or opens a regular expression is known only from what stands before it.

use super::token::{Token, TokenKind, keyword};

/// Reads tokens; blanks and comments between them are dropped.
#[derive(Clone, Debug)]
pub(super) struct Lexer<'a> {
    text: &'a str,
    at: usize,
    /// The token before, as far as a slash or `MEASUREMENT = /x/` needs to know.
    before: Before,
    in_sources: bool,
    /// `in_sources` of the parentheses around the current ones.
    outer: Vec<bool>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Before {
    /// Something a slash divides.
    Operand,
    Dot,
    /// The word `MEASUREMENT`, which names sources after an equals sign.
    Measurement,
    /// Two colons, after which a keyword is a type, and an operand.
    Colons,
    Other,
}

/// The longest first, so that `>=` is not read as `>`.
const SYMBOLS: [&str; 25] = [
    "::", "=~", "!=", "!~", ">=", "<=", "<>", "+", "-", "*", "%", "&", "|", "^", "=", ">", "<",
    "(", ")", ",", ";", ":", ".", "/", "!",
];

impl<'a> Lexer<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { text, at: 0, before: Before::Other, in_sources: false, outer: Vec::new() }
    }

    /// The next token; at the end, and after what is broken, always [`TokenKind::End`].
    pub(super) fn next(&mut self) -> Token<'a> {
        let unended = self.skip_blanks();
        let start = self.at;
        let divides = self.divides();
        let kind = if unended { self.broken(TokenKind::BadComment) } else { self.scan(divides) };
        self.note(kind);
        self.token_from(start, kind)
    }

    /// The next token, be it blanks or a comment, for a reader who knows what a slash is: here
    /// it divides.
    pub(super) fn piece(&mut self) -> Token<'a> {
        let start = self.at;
        let kind = match (self.byte(0), self.byte(1)) {
            (Some(b' ' | b'\t' | b'\n' | b'\r'), _) => {
                let rest = self.rest();
                self.at += rest.len() - rest.trim_start_matches([' ', '\t', '\n', '\r']).len();
                TokenKind::Blank
            }
            (Some(b'-'), Some(b'-')) => {
                let line = self.rest().find(['\n', '\r']);
                self.at += line.unwrap_or(self.rest().len());
                self.at += match (self.byte(0), self.byte(1)) {
                    (Some(b'\r'), Some(b'\n')) => 2,
                    (Some(_), _) => 1,
                    (None, _) => 0,
                };
                TokenKind::Comment
            }
            (Some(b'/'), Some(b'*')) => match self.rest()[2..].find("*/") {
                Some(len) => {
                    self.at += len + 4;
                    TokenKind::Comment
                }
                None => self.broken(TokenKind::BadComment),
            },
            _ => self.scan(true),
        };
        self.token_from(start, kind)
    }

    /// The regular expression that begins at the slash it stands before.
    pub(super) fn regex_piece(&mut self) -> Token<'a> {
        let start = self.at;
        let kind = self.scan(false);
        self.token_from(start, kind)
    }

    /// The character that the next token begins with.
    pub(super) fn peek_char(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn token_from(&self, start: usize, kind: TokenKind) -> Token<'a> {
        Token { kind, text: &self.text[start..self.at], start, in_sources: self.in_sources }
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn byte(&self, ahead: usize) -> Option<u8> {
        self.text.as_bytes().get(self.at + ahead).copied()
    }

    /// Ends the text here: what follows can't be told apart any more.
    fn broken(&mut self, kind: TokenKind) -> TokenKind {
        self.text = &self.text[..self.at];
        kind
    }

    /// Skips blanks and comments; true at a comment that doesn't end.
    fn skip_blanks(&mut self) -> bool {
        loop {
            match (self.byte(0), self.byte(1)) {
                // A carriage return counts as a newline, with or without one after it.
                (Some(b' ' | b'\t' | b'\n' | b'\r'), _) => self.at += 1,
                (Some(b'-'), Some(b'-')) => {
                    let line = self.rest().find(['\n', '\r']);
                    self.at += line.unwrap_or(self.rest().len());
                }
                (Some(b'/'), Some(b'*')) => match self.rest()[2..].find("*/") {
                    Some(len) => self.at += len + 4,
                    None => return true,
                },
                _ => return false,
            }
        }
    }

    fn scan(&mut self, divides: bool) -> TokenKind {
        let Some(first) = self.byte(0) else { return TokenKind::End };
        match first {
            b'a'..=b'z' | b'A'..=b'Z' | b'_' | b'"' => self.word(),
            b'0'..=b'9' => self.number(),
            b'.' if self.byte(1).is_some_and(|byte| byte.is_ascii_digit()) => self.number(),
            b'\'' => self.quoted(b'\'', TokenKind::Text),
            b'$' => {
                self.at += 1;
                match self.word() {
                    bad @ (TokenKind::BadString | TokenKind::BadEscape) => bad,
                    _ => TokenKind::Param,
                }
            }
            b'/' if !divides => self.regex(),
            _ => self.symbol(),
        }
    }

    fn divides(&self) -> bool {
        match self.before {
            Before::Operand => true,
            // `a./b` divides, but `FROM db.policy./regex/` does not.
            Before::Dot => !self.in_sources,
            Before::Measurement | Before::Colons | Before::Other => false,
        }
    }

    /// A keyword or name; a quoted name ends it, and is it, whatever stands before the quote.
    fn word(&mut self) -> TokenKind {
        let start = self.at;
        let is_part = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        while self.byte(0).is_some_and(is_part) {
            self.at += 1;
        }
        if self.byte(0) == Some(b'"') {
            return self.quoted(b'"', TokenKind::Ident);
        }
        keyword(&self.text[start..self.at]).map_or(TokenKind::Ident, TokenKind::Keyword)
    }

    /// A string or name in quotes, which the lexer stands before.
    fn quoted(&mut self, quote: u8, kind: TokenKind) -> TokenKind {
        self.at += 1;
        while let Some(byte) = self.byte(0) {
            match byte {
                b'\n' | b'\r' => break,
                b'\\' if matches!(self.byte(1), Some(b'n' | b'\\' | b'"' | b'\'')) => self.at += 2,
                b'\\' => {
                    let escaped = self.rest().chars().nth(1).map_or(0, char::len_utf8);
                    self.at += 1 + escaped;
                    return self.broken(TokenKind::BadEscape);
                }
                _ if byte == quote => {
                    self.at += 1;
                    return kind;
                }
                _ => self.at += 1,
            }
        }
        self.broken(TokenKind::BadString)
    }

    fn digits(&mut self) {
        while self.byte(0).is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
    }

    fn number(&mut self) -> TokenKind {
        self.digits();
        if self.byte(0) == Some(b'.') {
            // A dot without digits after it is eaten all the same.
            self.at += 1;
            self.digits();
            return TokenKind::Number;
        }
        let digits = self.rest();
        let unit = |c: char| c.is_ascii_alphabetic() || c == 'µ';
        if !digits.starts_with(unit) {
            return TokenKind::Integer;
        }
        let end = digits.find(|c: char| !unit(c) && !c.is_ascii_digit());
        self.at += end.unwrap_or(digits.len());
        TokenKind::Duration
    }

    fn regex(&mut self) -> TokenKind {
        self.at += 1;
        while let Some(byte) = self.byte(0) {
            match byte {
                b'\\' if self.byte(1) == Some(b'/') => self.at += 2,
                b'/' => {
                    self.at += 1;
                    return TokenKind::Regex;
                }
                b'\n' | b'\r' => break,
                _ => self.at += 1,
            }
        }
        self.broken(TokenKind::BadRegex)
    }

    fn symbol(&mut self) -> TokenKind {
        let rest = self.rest();
        match SYMBOLS.iter().find(|symbol| rest.starts_with(**symbol)) {
            Some(&"!") | None => {
                self.at += rest.chars().next().map_or(0, char::len_utf8);
                TokenKind::Illegal
            }
            Some(symbol) => {
                self.at += symbol.len();
                TokenKind::Symbol(symbol)
            }
        }
    }

    /// Notes what a following slash and following names depend on.
    fn note(&mut self, kind: TokenKind) {
        let after_measurement = self.before == Before::Measurement;
        self.before = match kind {
            TokenKind::Keyword(_) if self.before == Before::Colons => Before::Operand,
            TokenKind::Keyword("MEASUREMENT") => Before::Measurement,
            TokenKind::Keyword("TRUE" | "FALSE") => Before::Operand,
            TokenKind::Symbol("*" | ")") => Before::Operand,
            TokenKind::Symbol(".") => Before::Dot,
            TokenKind::Symbol("::") => Before::Colons,
            TokenKind::Ident
            | TokenKind::Param
            | TokenKind::Text
            | TokenKind::Integer
            | TokenKind::Number
            | TokenKind::Duration
            | TokenKind::Regex => Before::Operand,
            _ => Before::Other,
        };
        match kind {
            TokenKind::Keyword(word) => self.in_sources = word == "FROM",
            TokenKind::Symbol("=" | "=~") if after_measurement => self.in_sources = true,
            TokenKind::Symbol("(") => {
                self.outer.push(self.in_sources);
                self.in_sources = false;
            }
            TokenKind::Symbol(")") => self.in_sources = self.outer.pop().unwrap_or(false),
            TokenKind::Symbol(";") => {
                self.in_sources = false;
                self.outer.clear();
            }
            _ => {}
        }
    }
}
