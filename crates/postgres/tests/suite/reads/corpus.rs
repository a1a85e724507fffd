//! The statements of `reads.sql` and `traps.sql`.

use wire::sql::{Lexer, Strings, TokenKind, directive};

/// What must be proven.
pub fn reads() -> impl Iterator<Item = String> {
    lines(include_str!("reads.sql"))
}

/// What must not be.
pub fn traps() -> impl Iterator<Item = String> {
    lines(include_str!("traps.sql"))
}

fn lines(text: &'static str) -> impl Iterator<Item = String> {
    let is_comment = |line: &&str| line.starts_with("--") && !line.contains('¶');
    text.lines()
        .skip(2)
        .filter(move |line| !line.is_empty() && !is_comment(line))
        .map(|line| line.replace('¶', "\n"))
}

/// The same statement with other constants, white space and case: its normal form is the same.
pub fn with_other_constants(sql: &str) -> String {
    let mut changed = Vec::new();
    if directive(sql.as_bytes()).is_some() {
        return sql.to_owned();
    }
    for token in Lexer::new(sql.as_bytes(), Strings::Standard) {
        match token.kind {
            TokenKind::Number => changed.extend_from_slice(b"'x;'"),
            kind if kind.is_literal() => changed.extend_from_slice(b"17"),
            TokenKind::Word => changed.extend(token.text.to_ascii_uppercase()),
            _ => changed.extend_from_slice(token.text),
        }
        changed.extend_from_slice(b" /* ' */\n");
    }
    String::from_utf8(changed).unwrap()
}
