//! From text to the tree of [`ast`](super::ast), as `influxql/parser.go` reads it.
//!
//! It asks for tokens exactly as that does, blanks and all: what a message names, and where, is
//! decided by what was read and taken back before.

mod continuous;
mod expression;
mod literal;
mod params;
mod policies;
mod regex;
mod scanner;
mod select;
mod show;
mod sources;
mod statement;
mod users;

use super::ParseError;
use super::ast::Statement;
use super::duration;
use super::reader::Result;
use super::token::TokenKind;
pub use params::{Param, Params, ParamsError};
use scanner::{Piece, Scanner};

/// Parentheses, calls and sub-queries within each other.
const NESTING_MAX: u32 = 100;

pub(super) fn parse(text: &str, params: &Params) -> Result<Vec<Statement>> {
    // InfluxDB trims before it counts characters.
    let scanner = Scanner::new(text.trim(), params);
    let mut parser = Parser { scanner, nesting: 0, deletes: false };
    parser.scanner.refuse_nul()?;
    let read = parser.query();
    if parser.scanner.is_over_bound() {
        return unplaced("bound parameters stand for too much text");
    }
    read
}

struct Parser<'a> {
    scanner: Scanner<'a>,
    nesting: u32,
    /// Whether the statement deletes points: its durations have to be those that are written.
    deletes: bool,
}

impl<'a> Parser<'a> {
    /// `ParseQuery`.
    fn query(&mut self) -> Result<Vec<Statement>> {
        let mut statements = Vec::new();
        let mut separated = true;
        loop {
            let first = self.take();
            match first.kind {
                TokenKind::End => return Ok(statements),
                TokenKind::Symbol(";") => separated = true,
                _ if !separated => return Err(self.unexpected(&first, &[";"])),
                _ => {
                    self.unscan();
                    statements.push(self.statement()?);
                    separated = false;
                }
            }
        }
    }

    fn take(&mut self) -> Piece<'a> {
        self.scanner.take()
    }

    fn unscan(&mut self) {
        self.scanner.unscan();
    }

    fn unexpected(&self, found: &Piece<'_>, expected: &[&str]) -> ParseError {
        self.scanner.unexpected(found, expected)
    }

    fn wrong(&self, found: &Piece<'_>, why: &str) -> ParseError {
        self.scanner.wrong(found, why)
    }

    /// Takes a keyword or symbol if it is next.
    fn accept(&mut self, word: &str) -> bool {
        let found = self.take().is(word);
        if !found {
            self.unscan();
        }
        found
    }

    fn expect(&mut self, word: &'static str) -> Result<()> {
        self.one_of(&[word]).map(drop)
    }

    /// Takes a keyword or symbol that must be one of these.
    fn one_of(&mut self, words: &[&'static str]) -> Result<&'static str> {
        let found = self.take();
        match words.iter().find(|word| found.is(word)) {
            Some(word) => Ok(word),
            None => Err(self.unexpected(&found, words)),
        }
    }

    fn ident(&mut self) -> Result<String> {
        let found = self.take();
        match found.kind {
            TokenKind::Ident => Ok(found.value.into_owned()),
            _ => Err(self.unexpected(&found, &["identifier"])),
        }
    }

    fn string(&mut self) -> Result<String> {
        let found = self.take();
        match found.kind {
            TokenKind::Text => Ok(found.value.into_owned()),
            _ => Err(self.unexpected(&found, &["string"])),
        }
    }

    /// Reads a duration in nanoseconds; `INF` is 0.
    fn duration(&mut self) -> Result<i64> {
        let found = self.take();
        match found.kind {
            TokenKind::Keyword("INF") => Ok(0),
            TokenKind::Duration => {
                duration::parse(&found.value).map_err(|why| self.wrong(&found, &why))
            }
            _ => Err(self.unexpected(&found, &["duration"])),
        }
    }

    fn unsigned(&mut self) -> Result<u64> {
        let found = self.take();
        if found.kind != TokenKind::Integer {
            return Err(self.unexpected(&found, &["integer"]));
        }
        let parsed = found.value.parse();
        parsed.map_err(|_| self.wrong(&found, &out_of_range("ParseUint", &found.value)))
    }

    /// `word` and a number behind it; 0 without. A number past int64 is the largest one.
    fn optional_count(&mut self, word: &'static str) -> Result<u64> {
        if !self.accept(word) {
            return Ok(0);
        }
        let found = self.take();
        if found.kind != TokenKind::Integer {
            return Err(self.unexpected(&found, &["integer"]));
        }
        if found.value.starts_with('-') {
            return Err(self.wrong(&found, &format!("{word} must be >= 0")));
        }
        Ok(found.value.parse::<i64>().unwrap_or(i64::MAX).unsigned_abs())
    }

    /// Takes blanks if they are next.
    fn skip_blanks(&mut self) {
        if self.scanner.scan().kind != TokenKind::Blank {
            self.unscan();
        }
    }

    /// Goes one level deeper for the time of `read`.
    fn nested<T>(&mut self, read: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        if self.nesting == NESTING_MAX {
            let why = format!("nested more than {NESTING_MAX} levels deep");
            let next = self.take();
            return Err(self.wrong(&next, &why));
        }
        self.nesting += 1;
        let read = read(self);
        self.nesting -= 1;
        read
    }
}

impl Piece<'_> {
    /// Whether it is this keyword or symbol.
    fn is(&self, word: &str) -> bool {
        match self.kind {
            TokenKind::Keyword(found) | TokenKind::Symbol(found) => found == word,
            _ => false,
        }
    }
}

/// How Go's `strconv` says that a number is too large.
fn out_of_range(function: &str, number: &str) -> String {
    format!("strconv.{function}: parsing \"{number}\": value out of range")
}

/// An error that InfluxDB gives no place to.
fn unplaced<T>(why: &str) -> Result<T> {
    Err(ParseError(why.to_owned()))
}

/// An error to which InfluxDB gives the place of the beginning, wherever it is.
fn at_start<T>(why: &str) -> Result<T> {
    Err(ParseError(format!("{why} at line 1, char 1")))
}

#[cfg(test)]
mod tests;
