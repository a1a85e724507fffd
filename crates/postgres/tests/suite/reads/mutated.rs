//! Statements of the corpus with a trap and a few words put in where they do not belong: what the
//! server still takes for a query is what a planner that lost its way would let through.

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use wire::sql::{Lexer, Strings};

use super::corpus;

/// Each of them does something that is seen afterwards, if it is run.
const TRAPS: [&str; 12] = [
    ", v_bad",
    "from v_bad",
    "join v_bad vb on true",
    "cross join v_bad",
    "vol_set()",
    ", vol_set()",
    "table v_bad",
    "(table v_bad)",
    ". attr",
    "union select x from v_bad",
    ", vol_rows(1)",
    "over (order by vol_set())",
];

/// Words that lead somewhere in the grammar.
const WORDS: [&str; 64] = [
    "select",
    "from",
    "where",
    "as",
    "is",
    "not",
    "distinct",
    "join",
    "on",
    "using",
    "(",
    ")",
    ",",
    ".",
    "::",
    "int",
    "1",
    "t",
    "x",
    "u",
    "group",
    "by",
    "order",
    "within",
    "with",
    "rows",
    "only",
    "lateral",
    "values",
    "table",
    "union",
    "all",
    "cast",
    "extract",
    "trim",
    "substring",
    "for",
    "limit",
    "offset",
    "fetch",
    "window",
    "over",
    "filter",
    "case",
    "end",
    "in",
    "between",
    "and",
    "array",
    "[",
    "]",
    "*",
    "=",
    "'a'",
    "natural",
    "left",
    "collation",
    "ordinality",
    "\"is\"",
    "recursive",
    "materialized",
    "exists",
    "interval",
    "operator",
];

/// Endless, the same for a seed.
pub fn statements(seed: u64) -> impl Iterator<Item = String> {
    let known: Vec<String> = corpus::reads().collect();
    let mut random = StdRng::seed_from_u64(seed);
    std::iter::repeat_with(move || mutated(&known, &mut random))
}

fn mutated(known: &[String], random: &mut StdRng) -> String {
    let base = known.choose(random).map_or("", String::as_str);
    let tokens = Lexer::new(base.as_bytes(), Strings::Standard);
    let mut words: Vec<String> =
        tokens.map(|token| String::from_utf8_lossy(token.text).into_owned()).collect();
    for _ in 0..random.random_range(0..4) {
        let at = random.random_range(0..words.len());
        let word = WORDS.choose(random).map_or("", |word| *word).to_owned();
        match random.random_range(0..6) {
            0 if words.len() > 2 => drop(words.remove(at)),
            1 => words[at] = word,
            _ => words.insert(at, word),
        }
    }
    let at = random.random_range(1..=words.len());
    words.insert(at, TRAPS.choose(random).map_or("", |trap| *trap).to_owned());
    words.join(" ")
}
