//! Any SQL: tokens are pieces of the text in order; other constants, white space and case leave the
//! normal form as it is, and what is called a read is one with any constants.
#![no_main]

use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use postgres::plan::{Facts, Kind, Planner, Scope};
use wire::sql::{Lexer, Strings, TokenKind, directive, normalise};

const NAMES: [(&str, &str, &str); 12] = [
    ("function", "lower", "safe"),
    ("function", "nextval", "unsafe"),
    ("attribute", "f", "unsafe"),
    ("relation", "t", "safe"),
    ("relation", "v", "unsafe"),
    ("operator", "=", "safe"),
    ("operator", "+", "safe"),
    ("operator", "*", "safe"),
    ("operator", "-", "unsafe"),
    ("type", "text", "safe"),
    ("type", "d", "unsafe"),
    ("end", "", ""),
];

fuzz_target!(|text: &[u8]| {
    let mut at = 0;
    let mut changed = Vec::new();
    for token in Lexer::new(text, Strings::Standard) {
        assert!(token.start >= at && !token.text.is_empty());
        at = token.start + token.text.len();
        assert_eq!(&text[token.start..at], token.text);
        match token.kind {
            TokenKind::Number => changed.extend_from_slice(b"'x;'"),
            kind if kind.is_literal() => changed.extend_from_slice(b"17"),
            TokenKind::Word => changed.extend(token.text.to_ascii_uppercase()),
            _ => changed.extend_from_slice(token.text),
        }
        changed.extend_from_slice(b" /* ' */\n");
    }
    let rows = NAMES.map(|(what, name, mark)| [what.as_bytes(), name.as_bytes(), mark.as_bytes()]);
    let facts = Arc::new(Facts::load(rows).unwrap_or_default());
    let plan = |text: &[u8], strings| {
        let scope = Scope { strings, unsure_encoding: false };
        Planner::new(Arc::clone(&facts), 10).plan(text, scope)
    };
    plan(text, Strings::Backslash);
    let kind = plan(text, Strings::Standard);
    let form = |text: &[u8]| {
        let mut form = Vec::new();
        normalise(text, Strings::Standard, 4096, &mut form).then_some(form)
    };
    if let Some(before) = form(text)
        && directive(text).is_none()
    {
        assert_eq!(Some(before), form(&changed), "{}", String::from_utf8_lossy(&changed));
        let after = plan(&changed, Strings::Standard);
        assert_eq!(kind.kind == Kind::Read, after.kind == Kind::Read);
    }
});
