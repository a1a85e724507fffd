//! The files of queries whose queries read, and name no database; and those in `over_sets/`, whose
//! points a store refuses.

use rig::places;

use super::cluster::MemberKind;
use super::plays::Play;
use crate::influxql::script::{self, Action, Expected, Step};

const TOPICS: [&str; 29] = [
    "a_tag_and_a_field_of_one_name",
    "aggregates",
    "bound_parameters",
    "casts",
    "conditions",
    "conditions_over_subqueries",
    "execution_errors",
    "fields_that_are_nowhere",
    "fill",
    "grafana",
    "group_by",
    "known_differences",
    "limits_and_order",
    "math",
    "means_past_64_bits",
    "negative_zero",
    "not_a_number_in_subqueries",
    "parse_errors",
    "raw",
    "regular_expressions",
    "selectors",
    "several_statements",
    "subqueries",
    "subqueries_ordered_against_their_query",
    "time_zones",
    "times",
    "transformations",
    "wildcards",
    "windows",
];

/// What no store takes, whose fields have one type each.
const OF_INFLUXDB: [&str; 1] = ["types_that_differ_by_shard"];

/// All files that members of a kind can be asked, each over a database of its own.
pub fn all(members: MemberKind) -> Vec<Play> {
    // Of two tags a store takes from a condition what InfluxDB does with its index in memory.
    let has_index = |topic: &&&str| script::index(&read("queries", topic)) == script::INDEX;
    let topics = TOPICS.iter().filter(|of| members == MemberKind::Influxd || has_index(of));
    let topics = topics.map(|topic| ("queries", *topic));
    let others = OF_INFLUXDB.iter().map(|topic| ("over_sets", *topic));
    let others = others.filter(|_| members == MemberKind::Influxd);
    let numbered = topics.chain(others).enumerate();
    numbered.map(|(at, (folder, topic))| of(folder, topic, &format!("t{at}"))).collect()
}

fn read(folder: &str, name: &str) -> String {
    let dir = places::root().join("tests/integration/influxql").join(folder);
    let file = if folder == "data" { name.to_owned() } else { format!("{name}.txt") };
    std::fs::read_to_string(dir.join(file)).unwrap()
}

fn of(folder: &str, topic: &str, db: &str) -> Play {
    let text = read(folder, topic);
    let steps =
        script::parse(&text, |name: &str| read("data", name)).into_iter().filter_map(|mut step| {
            if step.db == script::DATABASE {
                db.clone_into(&mut step.db);
            }
            match &step.action {
                Action::Write { .. } => Some(step),
                Action::Query(text) if is_read(text) && step.expected != Expected::Shape => {
                    let (with, accept) = (without_chunks(&step.with), String::new());
                    Some(Step { with, accept, ..step })
                }
                Action::Query(_) => None,
            }
        });
    Play::of(&format!("{topic}.txt"), db, steps)
}

/// Whether all that a text says is about points or the schema of the database that it is sent to.
fn is_read(text: &str) -> bool {
    let upper = text.to_ascii_uppercase();
    let begins = ["SELECT", "SHOW TAG", "SHOW FIELD", "SHOW SERIES", "SHOW MEASUREMENTS"];
    let others = ["INTO", "DROP", "CREATE", "DELETE", "ALTER", "EXPLAIN", "CARDINALITY", "DB."];
    begins.iter().any(|word| upper.trim_start().starts_with(word))
        && !others.iter().any(|word| upper.contains(word))
}

/// Parameters without those by which an answer comes in several documents.
fn without_chunks(with: &str) -> String {
    let pairs = with.split('&').filter(|pair| !pair.starts_with("chunk"));
    pairs.collect::<Vec<_>>().join("&")
}
