//! The normal form of a text: its tokens with one blank between them, words in lower case, every
//! literal and every list of literals as one [`LITERAL`].
//!
//! Two texts of one normal form differ only in what no plan depends on: white space, comments, the
//! case of words, and constants. The form is the key itself, not a hash of it: a cache compares it
//! on a hit, so that no collision, found or made, gives a statement the plan of another one.

use super::directive::{Directive, directive};
use super::lexer::Lexer;
use super::token::{Strings, TokenKind};

/// What stands for a literal: no token of SQL is a `$` alone.
pub const LITERAL: u8 = b'$';

/// Appends the normal form of `text` to `out`. False, and an undefined end of `out`, if it has
/// none: a token is odd, or the form is longer than `limit` bytes.
#[inline]
pub fn normalise(text: &[u8], strings: Strings, limit: usize, out: &mut Vec<u8>) -> bool {
    let limit = out.len() + limit;
    if matches!(text.first(), Some(b' ' | b'\t' | b'\n' | b'\r' | b'/' | b'-')) {
        out.extend_from_slice(match directive(text) {
            Some(Directive::Primary) => b"/*primary*/ ",
            Some(Directive::Replica) => b"/*replica*/ ",
            Some(Directive::Auto) => b"/*auto*/ ",
            None => b"",
        });
    }
    // Where the form ended before the comma, if the last two tokens are a literal and a comma.
    let mut list = Last::Other;
    for token in Lexer::new(text, strings) {
        if out.len() + token.text.len() > limit && !token.kind.is_literal() {
            return false;
        }
        list = match (token.kind, list) {
            (TokenKind::Odd, _) => return false,
            (kind, Last::ListComma) if kind.is_literal() => {
                out.truncate(out.len() - 2);
                Last::Literal
            }
            (kind, _) if kind.is_literal() => {
                out.extend_from_slice(&[LITERAL, b' ']);
                Last::Literal
            }
            (TokenKind::Comma, Last::Literal) => {
                out.extend_from_slice(b", ");
                Last::ListComma
            }
            (TokenKind::Word, _) => {
                let start = out.len();
                out.extend_from_slice(token.text);
                out[start..].make_ascii_lowercase();
                out.push(b' ');
                Last::Other
            }
            _ => {
                out.extend_from_slice(token.text);
                out.push(b' ');
                Last::Other
            }
        };
    }
    true
}

/// What was written last, as far as lists of literals go.
#[derive(Clone, Copy)]
enum Last {
    Literal,
    ListComma,
    Other,
}
