//! Identifiers as the server sees them.

use std::borrow::Cow;

use wire::sql::{Token, TokenKind};

use super::words::NAME_BYTES_MAX;

/// The name that a word or quoted identifier is: folded to lower case, or without its quotes. None
/// for any other token, and for those whose name is not decided here: `U&"..."`, and what the
/// server would cut off.
pub(super) fn name<'a>(token: &Token<'a>) -> Option<Cow<'a, [u8]>> {
    let name = match token.kind {
        TokenKind::Word if token.text.iter().any(u8::is_ascii_uppercase) => {
            Cow::Owned(token.text.to_ascii_lowercase())
        }
        TokenKind::Word => Cow::Borrowed(token.text),
        TokenKind::Quoted => {
            let inside = token.text.get(1..token.text.len().saturating_sub(1))?;
            if inside.contains(&b'"') {
                Cow::Owned(undouble(inside, b'"'))
            } else {
                Cow::Borrowed(inside)
            }
        }
        _ => return None,
    };
    (name.len() <= NAME_BYTES_MAX).then_some(name)
}

/// The name as text, where it has to be kept.
pub(super) fn text(token: &Token<'_>) -> Option<Box<str>> {
    Some(std::str::from_utf8(&name(token)?).ok()?.into())
}

/// The words in a text within a statement, as they are and in lower case.
pub(super) fn words_of<'a>(token: &Token<'a>) -> impl Iterator<Item = Cow<'a, [u8]>> + use<'a> {
    let is_end = |byte: &u8| !byte.is_ascii_alphanumeric() && *byte != b'_' && *byte < 0x80;
    let words = token.text.split(is_end).filter(|word| !word.is_empty());
    words.flat_map(|word| [Cow::Borrowed(word), Cow::Owned(word.to_ascii_lowercase())])
}

/// Each doubled quote is one.
pub(super) fn undouble(inside: &[u8], quote: u8) -> Vec<u8> {
    let mut name = Vec::with_capacity(inside.len());
    let mut last_was_quote = false;
    for &byte in inside {
        last_was_quote = byte == quote && !last_was_quote;
        if !last_was_quote {
            name.push(byte);
        }
    }
    name
}

/// Whether it is an identifier, in quotes or not.
pub(super) fn is_name(token: &Token<'_>) -> bool {
    matches!(token.kind, TokenKind::Word | TokenKind::Quoted | TokenKind::UnicodeQuoted)
}
