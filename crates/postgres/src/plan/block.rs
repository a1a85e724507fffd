//! What the code of a `DO` block leaves on the server's session, as far as its text tells.

use wire::sql::{Lexer, Strings, Token, TokenKind};

use super::facts::Facts;
use super::kind::Pin;
use super::traps;

/// Behind these words a statement of PL/pgSQL begins.
const OPENERS: [&str; 4] = ["begin", "then", "else", "loop"];
/// Statements that leave something, wherever they begin.
const LEAVING: [&str; 6] = ["set", "reset", "listen", "unlisten", "load", "prepare"];
/// What `SET` says of the transaction alone.
const LOCAL: [&str; 3] = ["local", "transaction", "constraints"];

/// What the block leaves; of code in another language, or code that runs a text which it makes, it
/// is taken to.
pub(super) fn pin(tokens: &[Token<'_>], facts: &Facts) -> Option<Pin> {
    let language = tokens.iter().position(|token| token.is("language"));
    let named = language.and_then(|at| tokens.get(at + 1));
    if named.is_some_and(|language| !language.text.eq_ignore_ascii_case(b"plpgsql")) {
        return Some(Pin::Function);
    }
    tokens.iter().filter(|token| token.kind.is_literal()).find_map(|literal| {
        let Some(code) = code(literal) else { return Some(Pin::Function) };
        let calls = traps::pin_of_long_text(Lexer::new(code, Strings::Standard), false, facts);
        calls.or_else(|| says(code))
    })
}

/// The code in a literal, where it stands there as it is.
fn code<'a>(literal: &Token<'a>) -> Option<&'a [u8]> {
    let text = literal.text;
    match literal.kind {
        TokenKind::String => text.get(1..text.len().checked_sub(1)?),
        TokenKind::DollarString => {
            let mark = text.iter().skip(1).position(|byte| *byte == b'$')? + 2;
            text.get(mark..text.len().checked_sub(mark)?)
        }
        _ => None,
    }
}

/// What its own statements leave.
fn says(code: &[u8]) -> Option<Pin> {
    let mut before: Option<Token<'_>> = None;
    let mut tokens = Lexer::new(code, Strings::Standard).peekable();
    while let Some(token) = tokens.next() {
        let begins = before
            .is_none_or(|before| before.kind == TokenKind::Semicolon || before.is_any(&OPENERS));
        let is_local = tokens.peek().is_some_and(|next| next.is_any(&LOCAL));
        if begins && token.is_any(&LEAVING) && !is_local {
            return Some(Pin::Setting);
        }
        if token.is("execute") {
            return Some(Pin::Function);
        }
        let makes = before.is_some_and(|before| before.is_any(&["create", "local", "global"]));
        if makes && token.is_any(&["temp", "temporary"]) {
            return Some(Pin::Temporary);
        }
        before = Some(token);
    }
    None
}
