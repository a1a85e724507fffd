//! What there is in some times: each week of two policies has tags and fields of its own, and is
//! asked for them by chance.

use rand::Rng;
use rand::SeedableRng;
use rand::rngs::StdRng;
use rand::seq::{IndexedRandom, SliceRandom};
use rig::chance::{self, Length};

use crate::influxql::script::{self, Action, Step};
use crate::influxql::sides::Pair;

const WORLDS: u64 = 12;
const QUERIES: usize = 120;
const DAY_S: i64 = 86_400;
const DAYS: i64 = 40;
const KEYS: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

/// A point of some day; of the tags each week lacks others.
pub fn line(chance: &mut StdRng) -> String {
    let day = chance.random_range(0..DAYS);
    let mut line = (*["m", "m", "n"].choose(chance).unwrap()).to_owned();
    for (at, key) in (0..).zip(KEYS) {
        if (at + day / 7) % 3 != 0 && chance.random_bool(0.3) {
            let value = *["x", "y", "z"].choose(chance).unwrap();
            line.push_str(&format!(",{key}={value}"));
        }
    }
    let mut fields = ["u", "v", "w"];
    fields.shuffle(chance);
    let fields: Vec<String> = fields[..chance.random_range(1..3)]
        .iter()
        .map(|field| format!("{field}={}", chance.random_range(0..100)))
        .collect();
    let time = day * DAY_S + chance.random_range(0..DAY_S);
    format!("{line} {} {time}\n", fields.join(","))
}

/// A query of some of the days. None ends before 1970, which InfluxDB takes the time of each series
/// for.
pub fn query(chance: &mut StdRng) -> String {
    let from = chance.random_range(-2..DAYS + 2);
    let to = from.max(0) + *[0, 1, 1, 3, 7, 20].choose(chance).unwrap();
    let time = match chance.random_range(0..3) {
        0 => format!("time >= {from}d AND time <= {to}d"),
        1 => format!("time > {from}d"),
        _ => format!("time < {to}d + 5h"),
    };
    let policy = *["", "days.", "autogen."].choose(chance).unwrap();
    let name = *["m", "n", "/m|n/"].choose(chance).unwrap();
    let of = format!("{policy}{name}");
    let conditions = ["", "", " AND a = 'x'", " AND b != ''", " AND c =~ /x|y/"];
    let all = format!("{time}{}", conditions.choose(chance).unwrap());
    let windows = format!("time >= {from}d AND time <= {to}d GROUP BY time(1d), *");
    match chance.random_range(0..12) {
        0 => format!("SHOW TAG VALUES WITH KEY =~ /./ WHERE {all}"),
        1 => format!("SHOW TAG VALUES FROM {of} WITH KEY IN (a, b) WHERE {all}"),
        2 => format!("SHOW TAG KEYS FROM {of} WHERE {all}"),
        3 => format!("SHOW TAG KEYS WHERE {time}"),
        4 => format!("SHOW SERIES FROM {of} WHERE {all}"),
        5 => format!("SHOW SERIES FROM {of}"),
        6 => format!("SELECT * FROM {of} WHERE {all}"),
        7 => format!("SELECT v FROM {of} WHERE {all} GROUP BY *"),
        8 => format!("SELECT count(v) FROM {of} WHERE {all} GROUP BY /[ace]/"),
        9 => format!("SELECT last(/[uvw]/) FROM {of} WHERE {time}"),
        10 => format!("SELECT difference(sum(v)) FROM {policy}m WHERE {windows} fill(none)"),
        _ => format!("SELECT * FROM (SELECT v FROM {of} GROUP BY *) WHERE {time}"),
    }
}

fn play(pair: &Pair, seed: u64) -> Vec<String> {
    let mut chance = StdRng::seed_from_u64(seed);
    let db = format!("weeks{seed}");
    pair.create(&db);
    let step = |action| Step { db: db.clone(), action, ..Step::query("") };
    let mut steps = vec![step(Action::Query(format!(
        "CREATE RETENTION POLICY days ON {db} DURATION INF REPLICATION 1 SHARD DURATION 1d"
    )))];
    for policy in ["autogen", "days"] {
        let count = chance.random_range(5..80);
        let lines = (0..count).map(|_| line(&mut chance)).collect();
        let parameters = format!("precision=s&rp={policy}");
        steps.push(step(Action::Write { lines, parameters }));
    }
    steps.extend((0..QUERIES).map(|_| step(Action::Query(query(&mut chance)))));
    steps.push(step(Action::Query(format!("DROP DATABASE {db}"))));
    let differences = steps.iter().filter_map(|step| pair.compare(step));
    differences.map(|what| format!("seed {seed}, {what}")).collect()
}

#[test]
fn what_some_weeks_have_is_answered_as_by_influxdb() {
    let only = chance::number("INFLUXQL_SEED");
    let first = only.unwrap_or_else(chance::seed);
    let length = if only.is_some() { Length::exactly(1) } else { Length::of(WORLDS) };
    let pair = Pair::start(script::INDEX);
    let (mut found, mut played) = (Vec::new(), 0);
    while length.goes_on(played) && found.is_empty() {
        found = play(&pair, first.wrapping_add(played));
        played += 1;
    }
    println!("{played} worlds");
    drop(pair);
    assert!(found.is_empty(), "{} differences\n\n{}", found.len(), found.join("\n\n"));
}
