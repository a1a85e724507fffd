//! Data and queries made by chance: each world is a schema, its writes and some queries over them,
//! all from one seed.
//!
//! `WEIR_TEST_STEPS` says how many worlds, `INFLUXQL_SEED` plays that one only. What differs is
//! shown with the few lines of data that are needed for it.

mod conditions;
pub mod data;
pub mod grammar;
pub mod weeks;

use rand::SeedableRng;
use rand::rngs::StdRng;
use rig::chance::{self, Length};

use super::script::{self, Action, Step};
use super::sides::Pair;
use data::World;

/// Worlds that are played.
const WORLDS: u64 = 60;
/// Queries for each schema.
const QUERIES: usize = 60;
/// Differences after which it stops.
const SHOWN_MAX: usize = 8;
/// Databases made to find out which lines are needed for one difference.
const TRIES_MAX: usize = 60;

/// A query's shape, by which differences of one cause are told from others: names and numbers are
/// left out.
pub fn cause(what: &str) -> String {
    let first = what.lines().next().unwrap_or_default();
    let calls = first.split(['(', ' ', ',']).filter(|word| grammar::WORDS.contains(word));
    calls.collect::<Vec<_>>().join(" ")
}

/// The lines of these for which `differs` still tells of a difference, or nearly so few, and what
/// it tells; it is given the number of the try, too.
pub fn needed(
    mut lines: Vec<String>,
    mut differs: impl FnMut(&[String], usize) -> Option<String>,
) -> (Vec<String>, Option<String>) {
    let (mut tries, mut part, mut last) = (0, lines.len().div_ceil(2), None);
    while part > 0 && tries < TRIES_MAX {
        let mut at = 0;
        while at < lines.len() && tries < TRIES_MAX {
            let mut fewer = lines.clone();
            fewer.drain(at..(at + part).min(lines.len()));
            tries += 1;
            let wrong = differs(&fewer, tries);
            if wrong.is_some() {
                (lines, last) = (fewer, wrong);
            } else {
                at += part;
            }
        }
        part /= 2;
    }
    (lines, last)
}

/// Whether it is answered differently over these lines.
fn differs(pair: &Pair, lines: &[String], step: &Step, number: usize) -> Option<String> {
    let db = format!("fewer{number}");
    pair.create(&db);
    let write = Action::Write { lines: lines.concat(), parameters: String::new() };
    let wrote = Step { db: db.clone(), action: write, ..step.clone() };
    pair.compare(&wrote);
    let wrong = pair.compare(&Step { db: db.clone(), ..step.clone() });
    pair.compare(&Step::query(&format!("DROP DATABASE {db}")));
    wrong
}

/// Plays one seed; gives the first difference of each cause.
fn play(pair: &Pair, seed: u64, causes: &mut Vec<String>) -> Vec<String> {
    let mut chance = StdRng::seed_from_u64(seed);
    let world = World::made(&mut chance);
    let db = format!("seed{seed}");
    pair.create(&db);
    let mut found = Vec::new();
    for lines in world.requests(&mut chance) {
        let action = Action::Write { lines: lines.concat(), parameters: String::new() };
        let step = Step { db: db.clone(), action, ..Step::query("") };
        found.extend(pair.compare(&step).map(|what| format!("seed {seed}, {what}")));
    }
    for _ in 0..QUERIES {
        let step = Step { db: db.clone(), ..grammar::query(&mut chance, &world) };
        let Some(what) = pair.compare(&step) else { continue };
        let cause = cause(&what);
        if causes.contains(&cause) {
            continue;
        }
        causes.push(cause);
        let (lines, fewer) =
            needed(world.lines.clone(), |lines, number| differs(pair, lines, &step, number));
        let what = fewer.unwrap_or(what);
        let count = lines.len();
        let shown = lines[..count.min(12)].concat();
        found.push(format!("seed {seed}, {what}\n  over {count} lines:\n{shown}"));
    }
    pair.compare(&Step::query(&format!("DROP DATABASE {db}")));
    found
}

#[test]
fn what_chance_writes_and_asks_is_answered_as_by_influxdb() {
    let only = chance::number("INFLUXQL_SEED");
    let first = only.unwrap_or_else(chance::seed);
    let length = if only.is_some() { Length::exactly(1) } else { Length::of(WORLDS) };
    let pair = Pair::start(script::INDEX);
    let (mut found, mut causes, mut played) = (Vec::new(), Vec::new(), 0);
    while length.goes_on(played) && found.len() < SHOWN_MAX {
        found.extend(play(&pair, first.wrapping_add(played), &mut causes));
        played += 1;
    }
    println!("{played} worlds");
    drop(pair);
    assert!(found.is_empty(), "{} differences\n\n{}", found.len(), found.join("\n\n"));
}
