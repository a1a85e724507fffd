//! `WHERE`.

use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;

use super::data::{Kind, Measurement, World};

/// Bounds of time: none, one or both.
pub fn bounds(chance: &mut StdRng, world: &World, both: bool) -> Vec<String> {
    let literal = |chance: &mut StdRng, ns: i64| match chance.random_range(0..3) {
        0 if ns % 1_000_000_000 == 0 => format!("{}s", ns / 1_000_000_000),
        1 if ns % 1_000_000 == 0 => format!("{}ms", ns / 1_000_000),
        _ => ns.to_string(),
    };
    let mut found = Vec::new();
    if both || chance.random_bool(0.5) {
        let ns = world.time(chance, -3, world.steps / 2);
        let op = [">=", ">=", ">"].choose(chance).unwrap();
        found.push(format!("time {op} {}", literal(chance, ns)));
    }
    if both || chance.random_bool(0.5) {
        let ns = world.time(chance, world.steps / 2, world.steps + 3);
        let op = ["<", "<="].choose(chance).unwrap();
        found.push(format!("time {op} {}", literal(chance, ns)));
    }
    found
}

/// A condition on a tag.
fn tag(chance: &mut StdRng) -> String {
    let key = ["host", "host", "dc", "rack", "nothing"].choose(chance).unwrap();
    let value = ["a", "b", "x", "1", "", "z"].choose(chance).unwrap();
    match chance.random_range(0..4) {
        0 => format!("{key} = '{value}'"),
        1 => format!("{key} != '{value}'"),
        2 => format!("{key} =~ /^[ax1]?$/"),
        _ => format!("{key} !~ /[ax]|10/"),
    }
}

/// A condition on a field.
fn field(chance: &mut StdRng, measurement: &Measurement) -> String {
    let field = measurement.fields.choose(chance).unwrap();
    let name = field.name;
    let op = ["=", "!=", "<", "<=", ">", ">="].choose(chance).unwrap();
    let equal = ["=", "!="].choose(chance).unwrap();
    match field.kind {
        Kind::Integer if chance.random_bool(0.2) => format!("{name} % 3 = 1"),
        Kind::Integer | Kind::Float if chance.random_bool(0.2) => format!("{name} {op} f"),
        Kind::Integer => format!("{name} {op} {}", chance.random_range(-40..40)),
        Kind::Float => format!("{name} {op} {}", f64::from(chance.random_range(-300..300)) / 4.0),
        Kind::Text if chance.random_bool(0.3) => format!("{name} =~ /e/"),
        Kind::Text => format!("{name} {equal} 'red'"),
        Kind::Boolean => format!("{name} {equal} {}", chance.random_bool(0.5)),
    }
}

fn tree(chance: &mut StdRng, measurement: &Measurement, depth: u32) -> String {
    if depth > 0 && chance.random_bool(0.4) {
        let op = ["AND", "OR"].choose(chance).unwrap();
        let left = tree(chance, measurement, depth - 1);
        let right = tree(chance, measurement, depth - 1);
        return format!("({left} {op} {right})");
    }
    if chance.random_bool(0.6) { tag(chance) } else { field(chance, measurement) }
}

/// A condition on the rows of a sub-query: of names with types behind them, of two names, of
/// booleans that may be null.
pub fn of_rows(chance: &mut StdRng, measurement: &Measurement, depth: u32) -> String {
    if depth > 0 && chance.random_bool(0.4) {
        let op = ["AND", "OR"].choose(chance).unwrap();
        let left = of_rows(chance, measurement, depth - 1);
        return format!("({left} {op} {})", of_rows(chance, measurement, depth - 1));
    }
    let equal = ["=", "!="].choose(chance).unwrap();
    let mut name = || match chance.random_bool(0.4) {
        true => *["host", "dc", "rack", "nothing"].choose(chance).unwrap(),
        false => measurement.fields.choose(chance).unwrap().name,
    };
    let (one, other) = (name(), name());
    let cast = ["", "::tag", "::field"].choose(chance).unwrap();
    match chance.random_range(0..5) {
        0 => format!("{one} {equal} {other}"),
        1 => format!("{one}{cast} {equal} {}", chance.random_bool(0.5)),
        2 => format!("{one}{cast} {equal} 'a'"),
        3 => tag(chance).replacen(' ', &format!("{cast} "), 1),
        _ => field(chance, measurement),
    }
}

/// The whole of it with its space before, or nothing.
pub fn condition(
    chance: &mut StdRng,
    world: &World,
    measurement: &Measurement,
    both: bool,
) -> String {
    let mut parts = bounds(chance, world, both);
    if chance.random_bool(0.4) {
        parts.push(tree(chance, measurement, 2));
    }
    if parts.is_empty() { String::new() } else { format!(" WHERE {}", parts.join(" AND ")) }
}
