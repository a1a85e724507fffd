//! Queries by chance, out of what InfluxDB determines the answer of.

use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;

use super::conditions::{bounds, condition, of_rows};
use super::data::{Kind, Measurement, World};
use crate::influxql::script::{Expected, Step};

/// Words by which causes of differences are told apart.
pub const WORDS: [&str; 47] = [
    "count",
    "sum",
    "mean",
    "min",
    "max",
    "first",
    "last",
    "spread",
    "stddev",
    "median",
    "mode",
    "percentile",
    "distinct",
    "top",
    "bottom",
    "integral",
    "derivative",
    "difference",
    "elapsed",
    "non_negative_derivative",
    "non_negative_difference",
    "moving_average",
    "cumulative_sum",
    "*",
    "fill",
    "none",
    "previous",
    "linear",
    "0",
    "time",
    "LIMIT",
    "OFFSET",
    "SLIMIT",
    "SOFFSET",
    "DESC",
    "SELECT",
    "OR",
    "abs",
    "sqrt",
    "pow",
    "floor",
    "/",
    "tz",
    "::field",
    "::tag",
    "INTO",
    "ASC",
];

pub fn query(chance: &mut StdRng, world: &World) -> Step {
    let measurement = world.measurements.choose(chance).unwrap();
    let mut expected = Expected::Same;
    let text = match chance.random_range(0..100) {
        0..45 => aggregates(chance, world, measurement),
        45..70 => raw(chance, world, measurement),
        70..82 => transformed(chance, world, measurement, &mut expected),
        82..90 => nested(chance, world, measurement),
        90..94 => chosen_of_rows(chance, world, measurement),
        _ => alone(chance, world, measurement, &mut expected),
    };
    let with = ["", "", "epoch=ns", "epoch=ms"].choose(chance).unwrap();
    Step { with: (*with).to_owned(), expected, ..Step::query(&text) }
}

fn numeric(chance: &mut StdRng, measurement: &Measurement) -> &'static str {
    let number = |kind| matches!(kind, Kind::Integer | Kind::Float);
    let names: Vec<_> = measurement.fields.iter().filter(|f| number(f.kind)).collect();
    names.choose(chance).unwrap().name
}

fn any(chance: &mut StdRng, measurement: &Measurement) -> &'static str {
    measurement.fields.choose(chance).unwrap().name
}

/// A call that gives one value a window; `windows` because a lone percentile shows the time of a
/// point, and which of tied points is not determined. A window in which `percentile` has no value
/// ends InfluxDB's answer. Which of tied values `mode` takes is up to how Go sorts. Before 1970
/// InfluxDB counts no distinct values without a lower bound of time.
fn call(chance: &mut StdRng, measurement: &Measurement, windows: bool) -> String {
    let of_numbers = ["sum", "mean", "min", "max", "spread", "stddev", "median"];
    let of_all = ["count", "count", "first", "last"];
    match chance.random_range(0..10) {
        0..5 => {
            let name = of_numbers.choose(chance).unwrap();
            format!("{name}({})", numeric(chance, measurement))
        }
        5 if windows => {
            let rank = [50, 75, 90, 99, 100].choose(chance).unwrap();
            format!("percentile({}, {rank})", numeric(chance, measurement))
        }
        6 if windows => format!("count(distinct({}))", any(chance, measurement)),
        _ => format!("{}({})", of_all.choose(chance).unwrap(), any(chance, measurement)),
    }
}

/// A call, or what is computed of some.
fn computed(chance: &mut StdRng, measurement: &Measurement, windows: bool) -> String {
    let number = |chance: &mut StdRng| {
        let name = ["sum", "mean", "max", "min"].choose(chance).unwrap();
        format!("{name}({})", numeric(chance, measurement))
    };
    match chance.random_range(0..14) {
        12 => format!("{} / count({})", number(chance), any(chance, measurement)),
        13 => format!("({} - {}) % 3", number(chance), number(chance)),
        0 => format!("{} + {}", number(chance), number(chance)),
        1 => format!("{} / {}", number(chance), number(chance)),
        2 => format!("{} * 2", number(chance)),
        3 => format!("abs({} - 1.5)", number(chance)),
        _ => call(chance, measurement, windows),
    }
}

/// `time(...)`, in steps of the data.
fn window(chance: &mut StdRng, world: &World) -> String {
    let seconds = world.step_ns / 1_000_000_000;
    let interval = seconds * [1, 2, 3, 5, 10, 100].choose(chance).unwrap();
    match chance.random_range(0..5) {
        0 => format!("time({interval}s, {}s)", chance.random_range(-2 * seconds..3 * seconds)),
        _ => format!("time({interval}s)"),
    }
}

fn dimensions(chance: &mut StdRng, world: &World, windows: bool) -> String {
    let mut all = Vec::new();
    if windows {
        all.push(window(chance, world));
    }
    match chance.random_range(0..8) {
        0 | 1 => all.push("host".to_owned()),
        2 => all.extend(["dc".to_owned(), "host".to_owned()]),
        3 => all.push((*["*", "*", "*::tag", "*::field"].choose(chance).unwrap()).to_owned()),
        4 => all.push("rack".to_owned()),
        _ => {}
    }
    if all.is_empty() { String::new() } else { format!(" GROUP BY {}", all.join(", ")) }
}

fn fill(chance: &mut StdRng) -> &'static str {
    let fills =
        ["", "", " fill(null)", " fill(none)", " fill(previous)", " fill(linear)", " fill(0)"];
    fills.choose(chance).unwrap()
}

fn zone(chance: &mut StdRng) -> &'static str {
    let zones = ["Europe/Berlin", "America/New_York", "Asia/Kathmandu"];
    match chance.random_range(0..20) {
        0 => [" tz('Europe/Berlin')", " tz('America/New_York')", " tz('Asia/Kathmandu')"]
            [chance.random_range(0..zones.len())],
        _ => "",
    }
}

fn end(chance: &mut StdRng, world: &World) -> String {
    let mut text = String::new();
    if chance.random_bool(0.2) {
        text.push_str(" ORDER BY time DESC");
    }
    // An OFFSET without LIMIT leaves one row of each of InfluxDB's shards and groups, and SLIMIT
    // counts the groups of each shard.
    for (limit, offset, most) in [("LIMIT", "OFFSET", 10), ("SLIMIT", "SOFFSET", 3)] {
        if chance.random_bool(0.15) && (limit == "LIMIT" || world.is_in_one_shard()) {
            text.push_str(&format!(" {limit} {}", chance.random_range(1..=most)));
            if chance.random_bool(0.3) {
                text.push_str(&format!(" {offset} {}", chance.random_range(1..=most)));
            }
        }
    }
    text + zone(chance)
}

/// `FROM` and `WHERE`. Where a field is one of some of the measurements only, InfluxDB takes it for
/// one of all, so that beside several there are only bounds of time.
fn source(chance: &mut StdRng, world: &World, measurement: &Measurement, windows: bool) -> String {
    let several = match chance.random_range(0..12) {
        0 => "/./".to_owned(),
        1 => world.measurements.iter().map(|m| m.name).collect::<Vec<_>>().join(", "),
        _ => {
            return format!(
                "{}{}",
                measurement.name,
                condition(chance, world, measurement, windows)
            );
        }
    };
    let bounds = bounds(chance, world, windows);
    let word = if bounds.is_empty() { "" } else { " WHERE " };
    format!("{several}{word}{}", bounds.join(" AND "))
}

fn aggregates(chance: &mut StdRng, world: &World, measurement: &Measurement) -> String {
    let windows = chance.random_bool(0.6);
    let count = [1, 1, 2, 3].choose(chance).unwrap();
    let calls: Vec<_> = (0..*count).map(|_| computed(chance, measurement, windows)).collect();
    let text = format!(
        "SELECT {} FROM {}{}",
        calls.join(", "),
        source(chance, world, measurement, windows),
        dimensions(chance, world, windows)
    );
    let fill = if windows { fill(chance) } else { "" };
    text + fill + &end(chance, world)
}

fn raw(chance: &mut StdRng, world: &World, measurement: &Measurement) -> String {
    let mut columns = Vec::new();
    for _ in 0..chance.random_range(1..=3) {
        columns.push(match chance.random_range(0..10) {
            // InfluxDB knows the fields of the shards alone that the times reach.
            0 if world.is_in_one_shard() => "*".to_owned(),
            1 => format!("{} + 1", numeric(chance, measurement)),
            2 => format!("{} / 4", numeric(chance, measurement)),
            3 => format!("i - {}", numeric(chance, measurement)),
            4 => ["host", "dc", "rack"].choose(chance).unwrap().to_string(),
            // Of an integer, 1.6 gives it as it is.
            5 => format!("abs({} - 0.5)", numeric(chance, measurement)),
            _ => any(chance, measurement).to_owned(),
        });
    }
    let text = format!(
        "SELECT {} FROM {}{}",
        columns.join(", "),
        source(chance, world, measurement, false),
        dimensions(chance, world, false)
    );
    text + &end(chance, world)
}

/// Of points, or of windows.
fn transformed(
    chance: &mut StdRng,
    world: &World,
    measurement: &Measurement,
    expected: &mut Expected,
) -> String {
    let windows = chance.random_bool(0.6);
    let inner = if windows {
        let names = ["sum", "mean", "max", "min", "spread", "count", "last", "first"];
        let name = names.choose(chance).unwrap();
        format!("{name}({})", numeric(chance, measurement))
    } else {
        numeric(chance, measurement).to_owned()
    };
    let outer = match chance.random_range(0..11) {
        9 if windows => format!("difference(moving_average({inner}, 2))"),
        10 if windows => format!("difference({inner}), mean({})", numeric(chance, measurement)),
        0 => format!("derivative({inner})"),
        1 => format!("derivative({inner}, 10s)"),
        2 => format!("non_negative_derivative({inner}, 1s)"),
        3 => format!("difference({inner})"),
        4 => format!("non_negative_difference({inner})"),
        5 => format!("moving_average({inner}, {})", chance.random_range(2..5)),
        6 => format!("elapsed({inner}, 1s)"),
        7 => format!("difference({inner}) * 2"),
        _ => format!("cumulative_sum({inner})"),
    };
    *expected = Expected::Unordered;
    let text = format!(
        "SELECT {outer} FROM {}{}{}{}",
        measurement.name,
        condition(chance, world, measurement, windows),
        dimensions(chance, world, windows),
        if windows { fill(chance) } else { "" }
    );
    let desc = if chance.random_bool(0.2) { " ORDER BY time DESC" } else { "" };
    // InfluxDB cuts the points of each shard first where no windows are made of them.
    let limit = if windows && chance.random_bool(0.2) { " LIMIT 4" } else { "" };
    text + desc + limit
}

fn nested(chance: &mut StdRng, world: &World, measurement: &Measurement) -> String {
    let inner_windows = chance.random_bool(0.5);
    let condition = condition(chance, world, measurement, inner_windows);
    let inner_dimensions = dimensions(chance, world, inner_windows);
    // With several groups InfluxDB fills a group anew whenever groups alternate, and loses rows of
    // what is computed of two calls; and first() at one time depends on how it walks the series.
    let grouped = inner_dimensions.contains(", ") || !inner_windows && !inner_dimensions.is_empty();
    let call = ["sum", "mean", "max", "min", "median"].choose(chance).unwrap();
    let number = numeric(chance, measurement);
    let (call, fill) = match inner_windows {
        _ if grouped => {
            (format!("{call}({number})"), if inner_windows { " fill(none)" } else { "" })
        }
        true => (computed(chance, measurement, true), fill(chance)),
        false => (format!("{call}({number}) * 2"), ""),
    };
    let name = measurement.name;
    let inner = format!("SELECT {call} AS v FROM {name}{condition}{inner_dimensions}{fill}");
    let outer_windows = chance.random_bool(0.4);
    let name = ["count", "sum", "mean", "max", "min"].choose(chance).unwrap();
    let outer = if chance.random_bool(0.8) { format!("{name}(v)") } else { "v".to_owned() };
    let outer_windows = outer_windows && outer != "v";
    let time =
        if outer_windows { bounds(chance, world, true).join(" AND ") } else { String::new() };
    let condition = if time.is_empty() { time } else { format!(" WHERE {time}") };
    let dimensions = dimensions(chance, world, outer_windows);
    // An order of its own is that of the query around it, or refused.
    let (inner_order, order) = match chance.random_range(0..20) {
        0 => (" ORDER BY time DESC", ""),
        1 => (" ORDER BY time ASC", " ORDER BY time DESC"),
        2 => (" ORDER BY time", ""),
        _ => ("", ""),
    };
    format!("SELECT {outer} FROM ({inner}{inner_order}){condition}{dimensions}{order}")
}

/// What is counted of the rows of a sub-query that a condition chooses.
fn chosen_of_rows(chance: &mut StdRng, world: &World, measurement: &Measurement) -> String {
    let inner = condition(chance, world, measurement, false);
    let tags = ["", "", " GROUP BY host", " GROUP BY *"].choose(chance).unwrap();
    let name = ["count", "sum", "max", "min"].choose(chance).unwrap();
    format!(
        "SELECT {name}({}) FROM (SELECT * FROM {}{inner}{tags}) WHERE {}{}",
        numeric(chance, measurement),
        measurement.name,
        of_rows(chance, measurement, 2),
        ["", " GROUP BY host"].choose(chance).unwrap(),
    )
}

/// What is ranked by tags and written, and then what was written. All are taken: which of equal
/// points of one time are the first is up to a heap.
fn ranked_into(
    chance: &mut StdRng,
    world: &World,
    measurement: &Measurement,
    windows: bool,
) -> String {
    let function = ["top", "bottom"].choose(chance).unwrap();
    let tags = ["host", "dc", "host, dc", "rack, host"].choose(chance).unwrap();
    let number = numeric(chance, measurement);
    let condition = condition(chance, world, measurement, windows);
    let dimensions = dimensions(chance, world, windows);
    let name = measurement.name;
    format!(
        "SELECT {function}({number}, {tags}, 1000) AS v INTO ranked \
         FROM {name}{condition}{dimensions}; \
         SELECT * FROM ranked GROUP BY *; DROP MEASUREMENT ranked"
    )
}

/// Functions that stand alone.
fn alone(
    chance: &mut StdRng,
    world: &World,
    measurement: &Measurement,
    expected: &mut Expected,
) -> String {
    let windows = chance.random_bool(0.5);
    let number = numeric(chance, measurement);
    let condition = condition(chance, world, measurement, windows);
    *expected = Expected::Unordered;
    let call = match chance.random_range(0..6) {
        4 | 5 => return ranked_into(chance, world, measurement, windows),
        0 => format!("distinct({})", any(chance, measurement)),
        1 => format!("top({number}, {})", chance.random_range(1..5)),
        2 => format!("bottom({number}, {})", chance.random_range(1..5)),
        // Not by tags: InfluxDB walks a map and may even cut a group in two.
        _ => {
            let by =
                if windows { format!(" GROUP BY {}", window(chance, world)) } else { "".into() };
            return format!(
                "SELECT integral({number}, 10s) FROM {}{condition}{by}",
                measurement.name
            );
        }
    };
    let dimensions = dimensions(chance, world, windows);
    format!("SELECT {call} FROM {}{condition}{dimensions}", measurement.name)
}
