//! Several statements in one text, cut at the semicolons that the server's grammar cuts at.

use super::lexer::Lexer;
use super::token::{Strings, Token, TokenKind};

/// The statements of a text that are not empty, one after the other.
#[derive(Clone, Debug)]
pub struct Statements<'a> {
    lexer: Lexer<'a>,
    open: usize,
}

/// Cuts `text` into statements. Semicolons in parentheses (`CREATE RULE ... DO (a; b)`) and in the
/// body of a function (`BEGIN ATOMIC ... END`) cut nothing.
#[must_use]
pub fn statements(text: &[u8], strings: Strings) -> Statements<'_> {
    Statements { lexer: Lexer::new(text, strings), open: 0 }
}

impl<'a> Statements<'a> {
    /// The tokens of the next statement that has any, into `tokens`, which is emptied first; false
    /// at the end. Of a statement with more than `limit` tokens the rest is left out, and the
    /// number of tokens is then `limit + 1`.
    pub fn next_into(&mut self, tokens: &mut Vec<Token<'a>>, limit: usize) -> bool {
        tokens.clear();
        let mut body = Body::default();
        self.open = 0;
        for token in self.lexer.by_ref() {
            match token.kind {
                TokenKind::Open => self.open += 1,
                TokenKind::Close => self.open = self.open.saturating_sub(1),
                TokenKind::Semicolon if self.open == 0 && body.depth == 0 => {
                    if tokens.is_empty() {
                        continue;
                    }
                    return true;
                }
                TokenKind::Word if self.open == 0 => body.word(&token, tokens),
                _ => {}
            }
            if tokens.len() <= limit {
                tokens.push(token);
            }
        }
        !tokens.is_empty()
    }
}

/// Whether we are inside a function's body that is written as statements.
#[derive(Default)]
struct Body {
    /// Of `BEGIN ATOMIC` and `CASE`, each of which has its `END`.
    depth: usize,
}

impl Body {
    fn word(&mut self, token: &Token<'_>, before: &[Token<'_>]) {
        let atomic = token.is("atomic") && before.last().is_some_and(|last| last.is("begin"));
        if atomic && self.depth == 0 && creates_routine(before) {
            self.depth = 1;
        } else if self.depth > 0 && token.is("case") {
            self.depth += 1;
        } else if self.depth > 0 && token.is("end") {
            self.depth -= 1;
        }
    }
}

/// `CREATE [OR REPLACE] FUNCTION | PROCEDURE`: nothing else has such a body.
fn creates_routine(tokens: &[Token<'_>]) -> bool {
    let is = |at: usize, word: &str| tokens.get(at).is_some_and(|token| token.is(word));
    let what = if is(1, "or") && is(2, "replace") { 3 } else { 1 };
    is(0, "create") && (is(what, "function") || is(what, "procedure"))
}
