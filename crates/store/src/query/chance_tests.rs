//! Queries by chance over files, memory and what was deleted: whatever is asked, there is an
//! answer or an error. The fuzz target `influxql_query` does the same for longer.

use std::ops::ControlFlow;
use std::sync::{LazyLock, Mutex, PoisonError};

use proptest::prelude::*;
use units::{Duration, Size};
use wire::influxql::ast::Statement;
use wire::influxql::{Params, parse};

use super::context::{Cancel, Context, Limits};
use super::encode::{self, Format};
use super::{ddl, run};
use crate::store::testing::TestStore;

const NOW: i64 = 1_600_000_000_000_000_000;
const ANSWER_BYTES_MAX: usize = 64 << 10;

const LINES: [&str; 4] = [
    include_str!("../../../../tests/integration/influxql/data/cpu.lp"),
    include_str!("../../../../tests/integration/influxql/data/sparse.lp"),
    include_str!("../../../../tests/integration/influxql/data/ties.lp"),
    include_str!("../../../../tests/integration/influxql/data/extremes.lp"),
];
const KNOWN: [&str; 9] = [
    include_str!("../../../../tests/integration/influxql/queries/aggregates.txt"),
    include_str!("../../../../tests/integration/influxql/queries/conditions.txt"),
    include_str!("../../../../tests/integration/influxql/queries/delete.txt"),
    include_str!("../../../../tests/integration/influxql/queries/fill.txt"),
    include_str!("../../../../tests/integration/influxql/queries/math.txt"),
    include_str!("../../../../tests/integration/influxql/queries/selectors.txt"),
    include_str!("../../../../tests/integration/influxql/queries/show.txt"),
    include_str!("../../../../tests/integration/influxql/queries/subqueries.txt"),
    include_str!("../../../../tests/integration/influxql/queries/transformations.txt"),
];
/// What stands where something else stood.
const OTHERS: [&str; 24] = [
    "*",
    "0",
    "-1",
    "9223372036854775807",
    "-9223372036854775808",
    "1e308",
    "1ns",
    "5000w",
    "''",
    "/.*/",
    "/^$/",
    "time",
    "usage",
    "a",
    "v",
    "host",
    "nothing",
    "now()",
    "mean(usage)",
    "top(usage, host, 2)",
    "holt_winters(mean(usage), 3, 2)",
    "true",
    "fill(linear)",
    "time(1s, 500ms)",
];

/// Queries, each as its words.
static QUERIES: LazyLock<Vec<Vec<&'static str>>> = LazyLock::new(|| {
    let lines = KNOWN.iter().flat_map(|file| file.lines());
    lines.filter(|line| !line.starts_with(['#', '-']) && !line.is_empty()).map(words).collect()
});

/// A name or number, a space, or a sign.
fn words(text: &str) -> Vec<&str> {
    let is_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.');
    let mut words = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let end = rest.find(|c| is_name(c) != is_name(first)).unwrap_or(rest.len());
        let end = if is_name(first) { end } else { first.len_utf8() };
        let (word, later) = rest.split_at(end);
        words.push(word);
        rest = later;
    }
    words
}

/// How a query is changed: where, in which way, and with what.
type Change = (prop::sample::Index, u8, prop::sample::Index);

fn text(query: &prop::sample::Index, changes: &[Change]) -> String {
    let mut words = query.get(&QUERIES).clone();
    for (place, way, other) in changes {
        let place = place.index(words.len());
        match way % 4 {
            0 => words[place] = OTHERS[other.index(OTHERS.len())],
            1 => {
                words.remove(place);
            }
            2 => words.insert(place, words[other.index(words.len())]),
            _ => {
                // The rest of another query.
                let other = other.get(&QUERIES);
                words.truncate(place + 1);
                words.extend(&other[other.len() / 2..]);
            }
        }
        if words.is_empty() {
            break;
        }
    }
    words.concat()
}

/// Half in files and half in memory, with something deleted in both.
fn store() -> TestStore {
    let store = TestStore::new();
    for half in 0..2 {
        for lines in LINES {
            let lines: Vec<&str> = lines.lines().skip(1).step_by(5).collect();
            let (first, second) = lines.split_at(lines.len() / 2);
            store.write(&if half == 0 { first } else { second }.join("\n"));
        }
        store.run("DELETE FROM cpu WHERE host = 'b' AND time < 1577837000s").unwrap();
        if half == 0 {
            store.store.flush().unwrap();
        }
    }
    store
}

/// Runs what can be parsed; what changes something is changed only where `changed`.
fn ask(store: &TestStore, text: &str, changed: bool) {
    let Ok(statements) = parse(text, &Params::default()) else { return };
    let mut context = Context::new("db", NOW);
    context.limits = Limits {
        timeout: Duration::from_millis(200),
        memory: Size::from_mib(16),
        ..Limits::default()
    };
    context.cancel = Cancel::new(&context.limits);
    let chunk_size = text.len().is_multiple_of(3).then_some(7);
    context.chunk_size = chunk_size;
    let format = Format { csv: text.len().is_multiple_of(5), chunk_size, ..Format::default() };
    let mut bytes = 0;
    let out = move |piece: bytes::Bytes| {
        bytes += piece.len();
        if bytes > ANSWER_BYTES_MAX { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let mut change = |statement: &Statement| {
        ddl::check(&store.store.catalogue(), statement, "db")?;
        match changed {
            true => store.store.apply_change(store.next(), statement, "db", "", NOW),
            false => Ok(()),
        }
    };
    let mut encoder = encode::new(format, Box::new(out));
    run(&store.store, &statements, &context, encoder.as_mut(), &mut change);
}

fn changes() -> impl Strategy<Value = Vec<Change>> {
    prop::collection::vec(any::<Change>(), 0..4)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

    #[test]
    fn a_query_never_panics(query: prop::sample::Index, changes in changes()) {
        static STORE: LazyLock<Mutex<TestStore>> = LazyLock::new(|| Mutex::new(store()));
        let store = STORE.lock().unwrap_or_else(PoisonError::into_inner);
        ask(&store, &text(&query, &changes), false);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 20, ..ProptestConfig::default() })]

    #[test]
    fn nor_does_a_change_and_what_is_asked_after_it(
        queries in prop::collection::vec((any::<prop::sample::Index>(), changes()), 1..12),
        condition: prop::sample::Index,
    ) {
        let store = store();
        for (query, changes) in &queries {
            ask(&store, &text(query, changes), true);
            let words = condition.get(&QUERIES);
            let condition = words.concat();
            if let Some((_, condition)) = condition.split_once(" WHERE ") {
                ask(&store, &format!("DELETE WHERE {condition}"), true);
                ask(&store, &format!("DROP SERIES FROM cpu WHERE {condition}"), true);
            }
        }
        store.store.flush().unwrap();
        store.store.compact().unwrap();
        ask(&store, "SELECT * FROM /.*/; SHOW SERIES; SHOW FIELD KEYS", false);
    }
}
