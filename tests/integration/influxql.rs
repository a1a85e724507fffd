//! InfluxQL as InfluxDB answers it: the same writes and queries go to a real InfluxDB 1.x and to
//! Weir with its embedded store, and the answers must be the same, byte for byte, but for computed
//! floats, which may differ by 1e-9 of themselves.
//!
//! `influxql/queries/` holds them by topic; [`script`] says how such a file is written. Where Weir
//! differs on purpose, the file says why. `INFLUXQL_ITSELF=1` compares InfluxDB with itself, which
//! shows what is not determined there.

pub mod clustered;
mod compare;
mod generated;
mod script;
mod sides;

use rig::places;

use script::Action;
use sides::Pair;

/// Differences shown; the rest is counted.
const SHOWN_MAX: usize = 40;

/// Plays a file of queries against both.
#[track_caller]
fn play(topic: &str) {
    let dir = places::root().join("tests/integration/influxql");
    let text = std::fs::read_to_string(dir.join("queries").join(format!("{topic}.txt"))).unwrap();
    let load = |name: &str| std::fs::read_to_string(dir.join("data").join(name)).unwrap();
    let pair = Pair::start(script::index(&text));
    pair.create(script::DATABASE);
    let mut wrong = Vec::new();
    let steps = script::parse(&text, load);
    let queries = steps.iter().filter(|step| matches!(step.action, Action::Query(_))).count();
    for step in &steps {
        wrong.extend(pair.compare(step).map(|what| format!("{topic}.txt:{what}")));
    }
    // Dropped while a test fails, they would show their logs.
    drop(pair);
    let count = wrong.len();
    wrong.truncate(SHOWN_MAX);
    assert!(wrong.is_empty(), "{count} of {queries} queries differ\n\n{}", wrong.join("\n\n"));
}

/// A test for each file.
macro_rules! topics {
    ($($topic:ident)*) => {
        $(#[test] fn $topic() { play(stringify!($topic)); })*

        #[test]
        fn every_file_of_queries_is_played() {
            let dir = places::root().join("tests/integration/influxql/queries");
            let mut files: Vec<String> = std::fs::read_dir(dir)
                .unwrap()
                .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
                .collect();
            files.sort();
            let mut played = vec![$(concat!(stringify!($topic), ".txt")),*];
            played.sort_unstable();
            assert_eq!(files, played);
        }
    };
}

topics! {
    a_tag_and_a_field_of_one_name
    aggregates
    bound_parameters
    casts
    conditions_over_subqueries
    conditions
    delete
    delete_by_presence
    delete_where_a_field_is_said
    drop_and_create
    encodings
    execution_errors
    fields_that_are_nowhere
    fill
    grafana
    group_by_typed_wildcards
    group_by
    into
    known_differences
    limits_and_order
    math
    means_past_64_bits
    negative_zero
    not_a_number_in_subqueries
    parse_errors
    raw
    regular_expressions
    retention_policies
    selectors
    several_statements
    shards_have_their_own_tags
    show
    subqueries
    subqueries_ordered_against_their_query
    tag_values_counted
    time_zones
    times
    top_into_keeps_tags
    transformations
    wildcards
    windows
    written_again
}
