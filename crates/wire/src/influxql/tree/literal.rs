//! What stands in an expression for itself: literals, names, regular expressions.

use super::params::Param;
use super::scanner::Piece;
use super::{Parser, at_start, regex, unplaced};
use crate::influxql::ast::{Expr, Regex};
use crate::influxql::display::Name;
use crate::influxql::duration;
use crate::influxql::reader::Result;
use crate::influxql::token::TokenKind;
use crate::influxql::{ParseError, quote_identifier};

impl Parser<'_> {
    pub(super) fn literal(&self, first: Piece<'_>) -> Result<Expr> {
        Ok(match first.kind {
            TokenKind::Text => Expr::String(first.value.into_owned()),
            TokenKind::Number => match first.value.parse::<f64>() {
                Ok(value) if value.is_finite() => Expr::Number(value),
                _ => return Err(self.wrong(&first, "unable to parse number")),
            },
            TokenKind::Integer => match (first.value.parse(), first.value.parse()) {
                (Ok(value), _) => Expr::Integer(value),
                (_, Ok(value)) => Expr::Unsigned(value),
                _ => return Err(self.wrong(&first, "unable to parse integer")),
            },
            TokenKind::Keyword("TRUE") => Expr::Boolean(true),
            TokenKind::Keyword("FALSE") => Expr::Boolean(false),
            TokenKind::Duration => {
                let ns = duration::parse(&first.value).map_err(ParseError)?;
                if self.deletes && !duration::is_exact(&first.value) {
                    return Err(self.wrong(&first, "duration too large for what deletes"));
                }
                Expr::Duration(ns)
            }
            TokenKind::Regex => Expr::Regex(self.compiled(&first)?),
            TokenKind::Param => return self.unbound(&first.value),
            _ => {
                let expected = ["identifier", "string", "number", "bool"];
                return Err(self.unexpected(&first, &expected));
            }
        })
    }

    /// A parameter that no token took the place of.
    fn unbound(&self, written: &str) -> Result<Expr> {
        let name = written.strip_prefix('$').unwrap_or(written);
        if name.is_empty() {
            return unplaced("empty bound parameter");
        }
        match self.scanner.param(name) {
            Some(Param::Invalid(why)) => unplaced(why),
            _ => unplaced(&format!("missing parameter: {name}")),
        }
    }

    /// Names with dots between them, without blanks (`parseSegmentedIdents`).
    ///
    /// A dot before a regular expression or a colon is taken, and what follows left to others.
    pub(super) fn segments(&mut self) -> Result<Vec<String>> {
        let mut names = vec![self.ident()?];
        loop {
            if !self.scanner.scan().is(".") {
                self.unscan();
                break;
            }
            match self.scanner.peek_char() {
                Some('/' | ':') => break,
                Some('.') => names.push(String::new()),
                _ => names.push(self.ident()?),
            }
        }
        if names.len() > 3 {
            let last = names.pop().unwrap_or_default();
            let outer = names.iter().map(|name| match name.as_str() {
                "" => ".".to_owned(),
                _ => quote_identifier(name) + ".",
            });
            let outer: String = outer.collect();
            return at_start(&format!("too many segments in {outer}{}", Name(&last)));
        }
        Ok(names)
    }

    /// A regular expression, if that is next (`parseRegex`).
    pub(super) fn regex(&mut self) -> Result<Option<Regex>> {
        if matches!(self.scanner.peek_char(), Some(' ' | '\t' | '\n' | '\r')) {
            self.skip_blanks();
        }
        match self.scanner.peek_char() {
            Some('$') => {
                let bound = self.scanner.scan();
                self.unscan();
                if bound.kind != TokenKind::Regex {
                    return Ok(None);
                }
            }
            Some('/') => {}
            _ => return Ok(None),
        }
        let found = self.scanner.scan_regex();
        match found.kind {
            TokenKind::Regex => self.compiled(&found).map(Some),
            TokenKind::BadRegex => Err(self.wrong(&found, "bad regex: ")),
            TokenKind::BadEscape => {
                Err(self.wrong(&found, &format!("bad escape: {}", found.value)))
            }
            _ => Err(self.unexpected(&found, &["regex"])),
        }
    }

    pub(super) fn needed_regex(&mut self) -> Result<Regex> {
        match self.regex()? {
            Some(regex) => Ok(regex),
            None => {
                let next = self.take();
                Err(self.unexpected(&next, &["regex"]))
            }
        }
    }

    fn compiled(&self, found: &Piece<'_>) -> Result<Regex> {
        regex::check(&found.value).map_err(|why| self.wrong(found, &why))?;
        Ok(Regex(found.value.clone().into_owned()))
    }
}
