//! What flows in and out of each front end, for a terminal.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use watch::words::{bytes, count};

/// How a value is shown.
#[derive(Clone, Copy)]
enum Unit {
    /// So many a second.
    Rate,
    /// So many bytes a second, with a binary unit.
    Bytes,
    /// Milliseconds.
    Millis,
}

/// A front end's lines, each by its name in the frame and in words.
type RateLine = (&'static str, &'static [(&'static str, &'static str, Unit)]);

const LINES: [RateLine; 4] = [
    (
        "influx",
        &[
            ("influx.points", "points in", Unit::Rate),
            ("out", "points out", Unit::Rate),
            ("influx.requests", "requests", Unit::Rate),
            ("influx.errors", "errors", Unit::Rate),
            ("influx.bytes", "in", Unit::Bytes),
            ("influx.sent", "out", Unit::Bytes),
            ("influx.p50", "write p50", Unit::Millis),
            ("influx.p99", "write p99", Unit::Millis),
            ("query.p50", "query p50", Unit::Millis),
            ("query.p99", "query p99", Unit::Millis),
        ],
    ),
    (
        "journal",
        &[
            ("journal.groups", "groups", Unit::Rate),
            ("sync.p50", "sync p50", Unit::Millis),
            ("sync.p99", "sync p99", Unit::Millis),
        ],
    ),
    (
        "postgres",
        &[
            ("postgres.statements", "statements", Unit::Rate),
            ("postgres.errors", "errors", Unit::Rate),
            ("postgres.bytes", "in", Unit::Bytes),
            ("postgres.sent", "out", Unit::Bytes),
            ("postgres.p50", "p50", Unit::Millis),
            ("postgres.p99", "p99", Unit::Millis),
        ],
    ),
    (
        "redis",
        &[
            ("redis.commands", "commands", Unit::Rate),
            ("redis.errors", "errors", Unit::Rate),
            ("redis.bytes", "in", Unit::Bytes),
            ("redis.sent", "out", Unit::Bytes),
            ("redis.p50", "p50", Unit::Millis),
            ("redis.p99", "p99", Unit::Millis),
        ],
    ),
];

/// A line for each front end of which something was measured in the last second.
pub fn text(series: &BTreeMap<String, f64>) -> String {
    let delivered: Vec<f64> = series
        .iter()
        .filter(|(name, _)| name.starts_with("backend.rate|"))
        .map(|of| *of.1)
        .collect();
    let value = |name: &str| match name {
        "out" => (!delivered.is_empty()).then(|| delivered.iter().sum()),
        name => series.get(name).copied(),
    };
    let mut text = String::new();
    for (front, parts) in LINES {
        let part = |(name, words, unit): &(&str, &str, Unit)| {
            let value = value(name)?;
            Some(match unit {
                Unit::Rate => format!("{} {words}/s", count(value.round() as u64)),
                Unit::Bytes => format!("{} {words}/s", bytes(value as u64)),
                Unit::Millis => format!("{words} {value:.3} ms"),
            })
        };
        let parts: Vec<String> = parts.iter().filter_map(part).collect();
        if !parts.is_empty() {
            // Writing to a string can not fail.
            let _ = writeln!(text, "{front:<8} {}", parts.join(", "));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_front_end_has_a_line_with_what_was_measured() {
        let series = [
            ("influx.points", 1234.4),
            ("backend.rate|a", 1000.0),
            ("backend.rate|b", 234.0),
            ("influx.p99", 2.5),
            ("redis.commands", 7.0),
            ("redis.bytes", 2048.0),
            ("process.cpu", 1.0),
        ];
        let series = series.map(|(name, value)| (name.to_owned(), value)).into();
        assert_eq!(
            text(&series),
            "influx   1,234 points in/s, 1,234 points out/s, write p99 2.500 ms\n\
             redis    7 commands/s, 2.0 KiB in/s\n"
        );
    }
}
