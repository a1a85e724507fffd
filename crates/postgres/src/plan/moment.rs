//! Words in a value that stand for the time of the transaction.

use wire::sql::{Lexer, Strings, TokenKind};

/// What the input of a type of times takes for the time at which the transaction began, or the day
/// of it (`datetktbl` in `datetime.c`).
const MOMENTS: [&[u8]; 4] = [b"now", b"today", b"tomorrow", b"yesterday"];

/// Whether a literal in a statement's text, or a parameter in the bytes of a Bind, may be such a
/// word for a column or type of times. No plan knows, since plans are made without values: a steady
/// one holds for a statement of which this is false. What escapes or continues a literal hides its
/// text, so that is taken for one.
#[must_use]
pub fn names_moment(bytes: &[u8]) -> bool {
    bytes.split(|byte| !byte.is_ascii_alphabetic()).any(is_moment) || hides(bytes)
}

/// Whether a literal in a statement's text may be such a word, so that a server reads the time when
/// it prepares the statement. Where strings end depends on the session, so either way is looked at;
/// what is called, as `now()`, has its time when it is run.
#[must_use]
pub fn reads_moment(sql: &[u8]) -> bool {
    let in_literal = |strings| {
        Lexer::new(sql, strings).any(|token| {
            (token.kind.is_literal() || token.kind == TokenKind::Odd) && names_moment(token.text)
        })
    };
    names_moment(sql) && (in_literal(Strings::Standard) || in_literal(Strings::Backslash))
}

fn is_moment(word: &[u8]) -> bool {
    MOMENTS.iter().any(|moment| word.eq_ignore_ascii_case(moment))
}

/// `E'\x6eow'`, `U&'...'` whose escape may be any character, and `'no'` with `'w'` on the next
/// line.
fn hides(bytes: &[u8]) -> bool {
    bytes.windows(2).any(|two| two == b"&'")
        || bytes.split(|byte| *byte == b'\'').any(|between| {
            let start = between.iter().position(|byte| *byte > b' ');
            match start.and_then(|start| between.get(start..)) {
                Some(rest) => rest.starts_with(b"--"),
                None => between.iter().any(|byte| matches!(byte, b'\n' | b'\r')),
            }
        })
        || bytes.contains(&b'\\')
}
