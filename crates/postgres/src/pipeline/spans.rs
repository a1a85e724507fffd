//! Where those of a text's statements are that are about the session.

use std::ops::Range;

use wire::sql::{Strings, Token, statements};

/// Tokens of a statement about the session that are looked at.
const TOKENS_MAX: usize = 64;
/// Statements about the session that are looked at; more of them are not followed in one
/// transaction.
const SPANS_MAX: usize = 256;

/// Where those of a text's statements are that are about the session; `None`: one of them is too
/// long to be looked at, or there are too many.
pub fn spans(sql: &[u8], strings: Strings) -> Option<Vec<Range<usize>>> {
    let mut spans = Vec::new();
    let mut statements = statements(sql, strings);
    let mut tokens: Vec<Token<'_>> = Vec::new();
    while statements.next_into(&mut tokens, TOKENS_MAX) {
        let [first, .., last] = &tokens[..] else { continue };
        if !first.is_any(&["set", "reset", "listen", "unlisten"]) {
            continue;
        }
        if tokens.len() > TOKENS_MAX || spans.len() == SPANS_MAX {
            return None;
        }
        spans.push(first.start..last.start + last.text.len());
    }
    Some(spans)
}
