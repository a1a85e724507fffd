//! What is wrong with a query's text, word for word as a real InfluxDB 1.x says it, and where.

use std::path::PathBuf;

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use rig::http::Request;
use rig::influxd::Influxd;
use rig::places;
use wire::influxql::{Params, parse};

/// Differences shown; the rest is counted.
const SHOWN_MAX: usize = 30;

/// Mutated texts: they take about three seconds.
const MUTATED: usize = 4_000;

/// Of what was found Weir repeats no more than this many bytes.
const FOUND_BYTES_MAX: usize = 256;

fn texts() -> Vec<String> {
    let file: PathBuf = places::root().join("tests/integration/influxql_parse/texts.txt");
    let table = std::fs::read_to_string(file).unwrap();
    let said = table.lines().filter(|line| !line.starts_with('#'));
    said.map(|line| line.replace('␊', "\n").replace('␍', "\r").replace('␉', "\t")).collect()
}

/// InfluxDB's message where it does not parse.
fn theirs(server: &Influxd, text: &str) -> Option<String> {
    let answer = server.send(&Request::query(text, &[]));
    let error = answer.json()["error"].as_str().map(str::to_owned);
    error.filter(|error| answer.status() == 400 && error.starts_with("error parsing query: "))
}

fn ours(text: &str) -> Option<String> {
    parse(text, &Params::default()).err().map(|why| why.to_string())
}

#[track_caller]
fn compare(texts: &[String]) {
    let server = Influxd::start();
    let mut wrong = Vec::new();
    for text in texts.iter().filter(|text| !text.trim().is_empty()) {
        let (ours, theirs) = (ours(text), theirs(&server, text));
        // The name of a time zone is looked up by whoever runs the query.
        let excepted =
            |why: &String| why.len() > FOUND_BYTES_MAX || why.contains("unable to find time zone");
        if ours != theirs && !theirs.as_ref().is_some_and(excepted) {
            wrong.push(format!("{text:?}\n  influxdb: {theirs:?}\n  weir:     {ours:?}"));
        }
    }
    drop(server);
    let count = wrong.len();
    wrong.truncate(SHOWN_MAX);
    assert!(wrong.is_empty(), "{count} of {} differ\n{}", texts.len(), wrong.join("\n"));
}

#[test]
fn a_query_that_is_wrong_is_told_so_in_influxdbs_words() {
    let texts = texts();
    assert!(texts.len() > 600);
    compare(&texts);
}

#[test]
fn so_is_any_other_that_almost_says_the_same() {
    let texts = texts();
    let words: Vec<&str> = texts.iter().flat_map(|text| text.split_inclusive(' ')).collect();
    let mut random = StdRng::seed_from_u64(15);
    let mutated: Vec<String> = (0..MUTATED)
        .map(|_| mutate(texts.choose(&mut random).unwrap(), &words, &mut random))
        .collect();
    compare(&mutated);
}

/// The text with a character or a word gone, doubled, replaced or from elsewhere.
fn mutate(text: &str, words: &[&str], random: &mut StdRng) -> String {
    const MARKS: &str = "()/.,:;'\"\\*+-=~!<>$&|^%0159hmsuµ_ax \n\r\t@é";
    let mut chars: Vec<char> = text.chars().collect();
    for _ in 0..random.random_range(1..=2) {
        let at = random.random_range(0..=chars.len());
        match random.random_range(0..5) {
            0 if at < chars.len() => drop(chars.remove(at)),
            1 => chars.truncate(at),
            2 if at < chars.len() => {
                let marks: Vec<char> = MARKS.chars().collect();
                chars[at] = *marks.choose(random).unwrap();
            }
            3 => {
                let marks: Vec<char> = MARKS.chars().collect();
                chars.insert(at, *marks.choose(random).unwrap());
            }
            _ => drop(chars.splice(at..at, words.choose(random).unwrap().chars())),
        }
    }
    chars.into_iter().collect()
}
