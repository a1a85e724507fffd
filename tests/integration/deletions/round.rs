//! Worlds and statements made by chance.

use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;

/// Between two points of a series.
const STEP_NS: i64 = 10;
/// A time in another of InfluxDB's shards, which are weeks.
const LATER_NS: i64 = 30 * 86_400 * 1_000_000_000;

/// The points of one database, by policy: the default one, and a second one, which may be empty.
/// Each has a field `v`, by whose value it is told from all others.
pub struct World {
    pub lines: Vec<String>,
    pub second: Vec<String>,
}

impl World {
    pub fn made(chance: &mut StdRng) -> Self {
        let mut v = 0;
        let mut world = Self { lines: Vec::new(), second: Vec::new() };
        let with_second = chance.random_bool(0.3);
        let is_in_two_shards = chance.random_bool(0.3);
        for name in ["m", "n"] {
            for _ in 0..chance.random_range(4..=7) {
                let series = series(chance, name);
                for shard in 0..=i64::from(is_in_two_shards) {
                    for _ in 0..chance.random_range(1..=2) {
                        v += 1;
                        let ns = v * STEP_NS + shard * LATER_NS;
                        // Every shard has every field: what is a field does not depend on it.
                        let fields = fields(chance, name, v);
                        let into = match with_second && chance.random_bool(0.3) {
                            true => &mut world.second,
                            false => &mut world.lines,
                        };
                        into.push(format!("{series} {fields} {ns}"));
                    }
                }
            }
        }
        world
    }
}

/// `s` is a tag of `n`, and `g` a field of `m`; `h` and `r` are tags of both.
fn series(chance: &mut StdRng, name: &str) -> String {
    let mut series = name.to_owned();
    let keys: &[&str] = if name == "n" { &["h", "r", "s"] } else { &["h", "r"] };
    for key in keys {
        if chance.random_bool(0.6) {
            let value = ["a", "b", "c", "ab"].choose(chance).unwrap();
            series += &format!(",{key}={value}");
        }
    }
    series
}

fn fields(chance: &mut StdRng, name: &str, v: i64) -> String {
    match name {
        "n" => format!("v={v}i,f={}", chance.random_range(0..9)),
        _ => {
            let text = ["a", "b", "x", ""].choose(chance).unwrap();
            format!("v={v}i,s=\"{text}\",g={}", chance.random_range(0..9))
        }
    }
}

/// A condition without time.
pub fn condition(chance: &mut StdRng, with_fields: bool, depth: u32) -> String {
    if depth > 0 && chance.random_bool(0.5) {
        let op = ["AND", "OR"].choose(chance).unwrap();
        let left = condition(chance, with_fields, depth - 1);
        let right = condition(chance, with_fields, depth - 1);
        return match chance.random_bool(0.6) {
            true => format!("({left} {op} {right})"),
            false => format!("{left} {op} {right}"),
        };
    }
    match chance.random_range(0..100) {
        0..38 => text(chance),
        38..56 => regex(chance),
        56..76 => names(chance),
        76..82 => constant(chance),
        _ if with_fields => field(chance),
        _ => text(chance),
    }
}

fn name(chance: &mut StdRng) -> &'static str {
    ["h", "h", "h", "r", "r", "p", "q", "a", "_name", "h::tag"].choose(chance).unwrap()
}

fn text(chance: &mut StdRng) -> String {
    let value = ["a", "b", "c", "ab", "", "x", "m"].choose(chance).unwrap();
    let op = ["=", "=", "=", "!=", "!=", "!=", "<>", ">", "<", ">=", "<="].choose(chance).unwrap();
    let name = name(chance);
    match chance.random_bool(0.1) {
        true => format!("'{value}' {op} {name}"),
        false => format!("{name} {op} '{value}'"),
    }
}

fn regex(chance: &mut StdRng) -> String {
    let op = ["=~", "!~"].choose(chance).unwrap();
    let pattern = ["a", "^a$", "^$", ".*", ".+", "[bc]", "^(a|b)$", "x", "^m"].choose(chance);
    format!("{} {op} /{}/", name(chance), pattern.unwrap())
}

fn names(chance: &mut StdRng) -> String {
    let op = ["=", "=", "!=", "!=", "!=", "!=", "<", ">="].choose(chance).unwrap();
    let (left, right) = (name(chance), name(chance));
    format!("{left} {op} {right}")
}

fn constant(chance: &mut StdRng) -> String {
    let all = ["true", "false", "1 = 1", "1 = 2", "1 > 2", "'a' = 'a'", "'a' != 'a'", "(1 < 2)"];
    (*all.choose(chance).unwrap()).to_owned()
}

fn field(chance: &mut StdRng) -> String {
    let all = [
        "v > 5",
        "s = 'a'",
        "s != 'a'",
        "s != h",
        "g >= 3",
        "f < 4",
        "h = s",
        "f = g",
        "v + 1 > 9",
        "s =~ /a/",
        "s !~ /a/",
        "s = ''",
        "h = 5",
        "h != 5",
        "g::tag = 'a'",
        "s::tag != 'x'",
        "h::field = 'a'",
        "h + 'a'",
        "s::string = 'a'",
        "nothing > 1",
        "h = true",
        "g != 'a'",
    ];
    (*all.choose(chance).unwrap()).to_owned()
}

fn time(chance: &mut StdRng) -> String {
    let op = ["<", "<=", ">", ">=", "="].choose(chance).unwrap();
    let ns = match chance.random_range(0..12) {
        0 => i64::MAX,
        1 => i64::MAX - 1,
        2 => -i64::MAX,
        3 => LATER_NS,
        _ => chance.random_range(0..25) * STEP_NS,
    };
    format!("time {op} {ns}")
}

/// A `DELETE` or `DROP SERIES`, and its condition without time.
pub fn deletion(chance: &mut StdRng) -> (String, String) {
    let with_fields = chance.random_bool(0.4);
    let rest = condition(chance, with_fields, 2);
    let sources = ["m", "m", "m", "n", "m, n", "/[mn]/", "/m/", "nowhere", ""];
    let source = sources.choose(chance).unwrap();
    let source = if source.is_empty() { String::new() } else { format!(" FROM {source}") };
    if chance.random_bool(0.3) {
        return (format!("DROP SERIES{source} WHERE {rest}"), rest);
    }
    let timed = match chance.random_range(0..8) {
        0 => format!("{} AND ({rest})", time(chance)),
        1 => format!("({rest}) AND {} AND {}", time(chance), time(chance)),
        2 => format!("{rest} OR {}", time(chance)),
        3 => time(chance),
        _ => rest.clone(),
    };
    (format!("DELETE{source} WHERE {timed}"), rest)
}
