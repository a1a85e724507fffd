//! Statements that may be reads: `SELECT`, `VALUES`, `TABLE`, `WITH`, and `EXPLAIN` of them.

use wire::sql::{Token, TokenKind};

use super::facts::Facts;
use super::kind::{Kind, Pin, Unsettles};
use super::proof;
use super::reason::Reason;
use super::statement::{StatementTraits, TOKENS_MAX};

/// Whether the statement begins as a query does.
pub(super) fn begins(tokens: &[Token<'_>]) -> bool {
    tokens.first().is_some_and(|first| {
        first.kind == TokenKind::Open
            || first.is_any(&["select", "values", "table", "with", "explain"])
    })
}

/// A read if it is proven to be one.
pub(super) fn classify(tokens: &[Token<'_>], facts: &Facts) -> StatementTraits {
    if tokens.len() > TOKENS_MAX {
        return StatementTraits::of(Kind::Other, Reason::TooLong);
    }
    let explains = tokens.first().is_some_and(|first| first.is("explain"));
    let query = if explains { explained(tokens) } else { Some(tokens) };
    let Some(query) = query else { return StatementTraits::of(Kind::Other, Reason::Explain) };
    match proof::prove(query, facts) {
        // A plan may be made for the transaction.
        Ok(steady) => {
            let steady = steady && !explains;
            StatementTraits { steady, ..StatementTraits::of(Kind::Read, Reason::Proven) }
        }
        Err(reason @ Reason::Into) if !explains => StatementTraits::of(into(query), reason),
        Err(reason @ Reason::DataChange) if !explains => StatementTraits::of(Kind::Write, reason),
        Err(reason) => StatementTraits::of(Kind::Other, reason),
    }
}

/// The query behind `EXPLAIN` and its options, unless it is run or is not a query.
fn explained<'t, 'a>(tokens: &'t [Token<'a>]) -> Option<&'t [Token<'a>]> {
    let mut rest = tokens.get(1..)?;
    let runs = |token: &Token<'_>| token.is_any(&["analyze", "analyse"]);
    let with_options = rest.first().is_some_and(|open| open.kind == TokenKind::Open)
        && !rest.get(1).is_some_and(|word| {
            word.kind == TokenKind::Open || word.is_any(&["select", "values", "table", "with"])
        });
    if with_options {
        let end = rest.iter().position(|token| token.kind == TokenKind::Close)?;
        if rest[..end].iter().any(runs) {
            return None;
        }
        rest = &rest[end + 1..];
    } else if rest.first().is_some_and(|word| word.is("verbose")) {
        rest = &rest[1..];
    }
    let is_query = rest.first().is_some_and(|first| {
        first.kind == TokenKind::Open || first.is_any(&["select", "values", "table", "with"])
    });
    is_query.then_some(rest)
}

/// `SELECT ... INTO [TEMP] table` makes a table.
fn into(tokens: &[Token<'_>]) -> Kind {
    let temporary = tokens.windows(3).any(|three| {
        let scope = usize::from(three[1].is_any(&["local", "global"]));
        three[0].is("into") && three[1 + scope].is_any(&["temp", "temporary"])
    });
    if temporary { Kind::Pins(Pin::Temporary) } else { Kind::Ddl(Unsettles::Adds) }
}
