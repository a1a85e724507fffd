//! Names that cannot be searched for and comments that say nothing, counted by crate.

use std::collections::BTreeMap;

use crate::source::Source;
use crate::tokens::{Token, tokens};

/// Participles, pronouns and verbs. As the whole name of a type each tells nothing of its domain:
/// `KnownStatement`, `PoolSlot` and `AofPosition` do.
const BARE_NAMES: [&str; 32] = [
    "Asked",
    "Broken",
    "Cut",
    "Done",
    "Ended",
    "Found",
    "Heard",
    "Held",
    "Kept",
    "Known",
    "Listening",
    "Loaded",
    "Named",
    "Open",
    "Opened",
    "Part",
    "Place",
    "Prepared",
    "Reading",
    "Running",
    "Said",
    "Seen",
    "Shared",
    "Shown",
    "Stand",
    "Standing",
    "Taken",
    "Told",
    "Wanted",
    "Waiting",
    "Way",
    "Written",
];

/// A doc comment of fewer words repeats the name below it or refers to something elsewhere.
const WORDS_MIN: usize = 4;

/// A comment of one of these words gives what a type cannot: the unit of a number.
const UNITS: [&str; 10] = [
    "bits",
    "bytes",
    "days",
    "hours",
    "microseconds",
    "milliseconds",
    "minutes",
    "nanoseconds",
    "percent",
    "seconds",
];

/// Each member of the workspace: how many of its types have a bare name, and how many of its doc
/// comments are too short. A number may only fall.
const ALLOWED: [(&str, Counts); 16] = [
    ("bench", Counts { bare_names: 0, short_docs: 0 }),
    ("disk", Counts { bare_names: 0, short_docs: 0 }),
    ("flow", Counts { bare_names: 0, short_docs: 0 }),
    ("influx", Counts { bare_names: 0, short_docs: 0 }),
    ("journal", Counts { bare_names: 0, short_docs: 0 }),
    ("meter", Counts { bare_names: 0, short_docs: 0 }),
    ("postgres", Counts { bare_names: 0, short_docs: 0 }),
    ("redis", Counts { bare_names: 0, short_docs: 0 }),
    ("sched", Counts { bare_names: 0, short_docs: 0 }),
    ("store", Counts { bare_names: 0, short_docs: 0 }),
    ("tests", Counts { bare_names: 0, short_docs: 0 }),
    ("units", Counts { bare_names: 0, short_docs: 0 }),
    ("uring", Counts { bare_names: 0, short_docs: 0 }),
    ("watch", Counts { bare_names: 0, short_docs: 0 }),
    ("weir", Counts { bare_names: 0, short_docs: 0 }),
    ("wire", Counts { bare_names: 0, short_docs: 0 }),
];

/// What one crate may have, and what it has.
#[derive(Clone, Copy, Default)]
struct Counts {
    bare_names: usize,
    short_docs: usize,
}

/// Crates that have more of either than the table allows, with each occurrence, and crates that
/// have less, for which the table must be lowered.
pub fn faults() -> Vec<String> {
    let mut members: BTreeMap<String, (Vec<String>, Vec<String>)> = BTreeMap::new();
    for source in Source::all() {
        let Some(member) = member(&source) else { continue };
        let (names, docs) = members.entry(member).or_default();
        names.extend(bare_names(&source));
        docs.extend(short_docs(&source));
    }
    let mut faults = Vec::new();
    for (member, (names, docs)) in members {
        let allowed = ALLOWED.iter().find(|(name, _)| *name == member);
        let allowed = allowed.map(|(_, counts)| *counts).unwrap_or_default();
        faults.extend(compare(&member, "bare_names", allowed.bare_names, &names));
        faults.extend(compare(&member, "short_docs", allowed.short_docs, &docs));
    }
    faults
}

/// The member of the workspace a file belongs to: `wire` for `crates/wire/src/lib.rs`.
fn member(source: &Source) -> Option<String> {
    let mut folders = source.path.iter().map(|folder| folder.to_string_lossy());
    match folders.next()?.as_ref() {
        "crates" => folders.next().map(|name| name.into_owned()),
        name @ ("tests" | "bench") => Some(name.to_owned()),
        _ => None,
    }
}

fn compare(member: &str, of: &str, allowed: usize, found: &[String]) -> Vec<String> {
    let count = found.len();
    match count.cmp(&allowed) {
        std::cmp::Ordering::Equal => Vec::new(),
        std::cmp::Ordering::Less => {
            vec![format!("{member}: {of} is {count}: lower {allowed} in tests/tidy/voice.rs")]
        }
        std::cmp::Ordering::Greater => {
            let sum = format!("{member}: {of} is {count}, at most {allowed} are allowed");
            std::iter::once(sum).chain(found.iter().cloned()).collect()
        }
    }
}

/// Structs, enums, traits and type aliases that have a bare name.
fn bare_names(source: &Source) -> Vec<String> {
    let tokens = tokens(&source.code);
    let pairs = tokens.windows(2).filter_map(|pair| match pair {
        [(Token::Name(keyword), _), (Token::Name(name), line)] => Some((keyword, name, line)),
        _ => None,
    });
    pairs
        .filter(|(keyword, name, _)| {
            ["struct", "enum", "trait", "type"].contains(&keyword.as_str())
                && BARE_NAMES.contains(&name.as_str())
        })
        .map(|(_, name, line)| format!("{}:{line}: {name}", source.path.display()))
        .collect()
}

/// Doc comments of too few words; lines of one comment count as one.
fn short_docs(source: &Source) -> Vec<String> {
    let mut blocks: Vec<(usize, &str, String)> = Vec::new();
    let mut last = None;
    for (number, line) in (1..).zip(source.code.lines()) {
        let line = line.trim_start();
        let marker = ["///", "//!"].into_iter().find(|marker| line.starts_with(marker));
        let marker = marker.filter(|_| !line.starts_with("////"));
        if let Some(marker) = marker {
            let text = line[marker.len()..].trim();
            match blocks.last_mut() {
                Some((_, _, block)) if last == Some(marker) => {
                    block.push('\n');
                    block.push_str(text);
                }
                _ => blocks.push((number, marker, text.to_owned())),
            }
        }
        last = marker;
    }
    let short = blocks.into_iter().filter(|(_, _, block)| is_short(block));
    short
        .map(|(number, marker, block)| {
            format!("{}:{number}: {marker} {block}", source.path.display())
        })
        .collect()
}

fn is_short(block: &str) -> bool {
    let words: Vec<&str> = block.split_whitespace().collect();
    let text = block.trim().trim_end_matches('.');
    let is_literal = text.len() > 2
        && text.starts_with('`')
        && text.ends_with('`')
        && text.matches('`').count() == 2;
    let unit = text.to_lowercase();
    let is_unit = UNITS.contains(&unit.trim_start_matches("in "));
    let is_heading = block.lines().any(|line| line == "# Errors");
    words.len() < WORDS_MIN && !is_literal && !is_unit && !is_heading
}

#[cfg(test)]
fn source(code: &str) -> Source {
    Source { path: "crates/example/src/lib.rs".into(), code: code.to_owned() }
}

#[test]
fn a_bare_name_is_found_in_each_kind_of_type() {
    let found = |code: &str| bare_names(&source(code)).len();
    for code in [
        "struct Kept;",
        "pub(crate) enum Seen { One }",
        "pub trait Shared {}",
        "fn f() { type Known = u8; }",
        "struct Place<T>(T);",
    ] {
        assert_eq!(found(code), 1, "{code}");
    }
    for code in [
        "struct KnownStatement;",
        "struct Settings; enum State {} struct Client;",
        "enum Step { Kept, Seen }",
        "// struct Kept;\nconst TEXT: &str = \"struct Kept;\";",
        "use other::Kept; fn f(_: Kept) {}",
    ] {
        assert_eq!(found(code), 0, "{code}");
    }
}

#[test]
fn a_comment_of_three_words_is_found_once_however_it_is_broken() {
    let found = |code: &str| short_docs(&source(code));
    assert_eq!(
        found("/// It has one.\nfn f() {}\n\n    /// Never.\n    a: u8,"),
        ["crates/example/src/lib.rs:1: /// It has one.", "crates/example/src/lib.rs:4: /// Never."]
    );
    assert_eq!(found("//! A file.\n\n/// It\n/// has one.\nfn f() {}").len(), 2);
    for code in [
        "/// The client's own address.\nfn f() {}",
        "/// It\n/// has\n///\n/// two paragraphs.\nfn f() {}",
        "/// # Errors\n/// Never.\nfn f() {}",
        "/// `ReadyForQuery`.\nfn f() {}",
        "/// `CLIENT LIST`\nfn f() {}",
        "/// Bytes.\na: u8,\n/// In milliseconds.\nb: u8,",
        "// It has one.\nfn f() {}",
        "//// Never.\nfn f() {}",
    ] {
        assert_eq!(found(code), [""; 0], "{code}");
    }
    assert_eq!(found("/// `Known` or `Kept`.\nfn f() {}").len(), 1, "two names are no literal");
}

#[test]
fn a_count_that_has_fallen_must_be_written_down() {
    let found = ["a".to_owned(), "b".to_owned()];
    assert!(compare("wire", "bare_names", 2, &found).is_empty());
    assert_eq!(compare("wire", "bare_names", 1, &found).len(), 3, "the sum and each occurrence");
    let lower = compare("wire", "bare_names", 3, &found).concat();
    assert_eq!(lower, "wire: bare_names is 2: lower 3 in tests/tidy/voice.rs");
}
