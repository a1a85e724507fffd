//! Which databases a statement names by itself.

use std::collections::BTreeSet;

use super::lexer::Lexer;
use super::token::{Token, TokenKind};

pub(super) fn databases(text: &str) -> Vec<String> {
    let mut found = BTreeSet::new();
    let mut lexer = Lexer::new(text);
    let mut before = lexer.next();
    // The host of a query to kill is not a database.
    let local = before.is("KILL");
    let mut path = Path::default();
    let mut in_target = false;
    loop {
        let token = lexer.next();
        if token.kind == TokenKind::End {
            break;
        }
        let named = before.is("DATABASE") || (before.is("ON") && !local);
        if named && let Some(name) = name(&token) {
            found.insert(name);
        }
        if let TokenKind::Keyword(word) = token.kind {
            in_target = word == "INTO";
        }
        if token.in_sources || in_target {
            path.add(&token, &mut found);
        } else {
            path = Path::default();
        }
        before = token;
    }
    found.into_iter().collect()
}

/// A name with dots in it: with two of them, its first part is a database.
#[derive(Default)]
struct Path {
    first: Option<String>,
    dots: usize,
}

impl Path {
    fn add(&mut self, token: &Token<'_>, found: &mut BTreeSet<String>) {
        if token.is_symbol(".") {
            self.dots += 1;
            if self.dots == 2 {
                found.extend(self.first.take());
            }
        } else if self.first.is_none() || self.dots == 0 {
            *self = Self { first: name(token), dots: 0 };
        } else if token.is_symbol(",") {
            *self = Self::default();
        }
    }
}

/// A bound parameter keeps its dollar sign and a wildcard its star: neither says which.
fn name(token: &Token<'_>) -> Option<String> {
    match token.kind {
        TokenKind::Ident => Some(token.value().into_owned()),
        TokenKind::Param => Some(token.text.to_owned()),
        TokenKind::Symbol("*") => Some("*".to_owned()),
        _ => None,
    }
}
