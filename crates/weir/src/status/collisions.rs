//! Points that overwrote others, as a person sees them: how many, whose, and the remedy.

use std::fmt;

use watch::words::{count, harmless};

use super::table;
use crate::diagnosis::status::{Collisions, Measurement, Overwritten, Source, Write};

/// Measurements that are shown, those with most first; `--json` has the rest.
const SHOWN_MAX: usize = 10;

impl Measurement {
    fn overwritten(&self) -> u64 {
        self.overwritten.values().sum()
    }

    fn by(&self, between: &str) -> u64 {
        self.overwritten.get(between).copied().unwrap_or_default()
    }

    fn row(&self) -> Vec<String> {
        let equal: u64 = self.equal.values().sum();
        vec![
            harmless(&self.database),
            // Those of all pairs that are not told apart have no measurement.
            if self.measurement.is_empty() { "-".to_owned() } else { harmless(&self.measurement) },
            count(self.overwritten()),
            count(self.by("hosts")),
            count(self.by("connections")),
            count(self.by("self")),
            count(equal),
        ]
    }
}

impl fmt::Display for Collisions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const HEAD: [&str; 7] = [
            "database",
            "measurement",
            "points overwritten",
            "by other hosts",
            "by other connections",
            "by the same",
            "repeated",
        ];
        if self.measurements.is_empty() {
            return Ok(());
        }
        let mut shown: Vec<&Measurement> = self.measurements.iter().collect();
        shown.sort_by_key(|of| {
            std::cmp::Reverse((of.overwritten(), of.equal.values().sum::<u64>()))
        });
        let more = shown.len().saturating_sub(SHOWN_MAX);
        shown.truncate(SHOWN_MAX);
        let rows: Vec<_> = shown.iter().map(|of| of.row()).collect();
        writeln!(f)?;
        table::write(f, &HEAD, &rows, 2, |row| {
            shown.get(row)?.last_overwritten.as_ref().map(Overwritten::to_string)
        })?;
        if more > 0 {
            writeln!(f, "and {more} measurements more; `weir status --json` has them all")?;
        }
        if self.share < 1.0 {
            let share = self.share * 100.0;
            writeln!(f, "counted among {share:.2} % of the points, as far as memory goes")?;
        }
        if let Some(stamp) = self.remedy() {
            writeln!(f, "Several writers have the same series: tell them apart in [influx] by")?;
            writeln!(f, "    stamp = {{ writer = \"{stamp}\" }}")?;
            writeln!(f, "and have queries add up what they write (docs/influxdb.md, Overwriting)")?;
        }
        Ok(())
    }
}

impl Collisions {
    /// What the stamp is by that tells the writers apart; `None` where there are none to be told.
    fn remedy(&self) -> Option<&'static str> {
        let all = |between: &str| self.measurements.iter().map(|of| of.by(between)).sum::<u64>();
        match (all("hosts"), all("connections")) {
            (0, 0) => None,
            (_, 0) => Some("peer"),
            _ => Some("parameter:writer"),
        }
    }
}

impl fmt::Display for Overwritten {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { series, time_ns, field, older, newer } = self;
        let (series, field) = (harmless(series), harmless(field));
        let time = wire::influxql::rfc3339_short(*time_ns);
        write!(f, "last: {series} at {time}, {field}: {newer} over {older}")
    }
}

impl fmt::Display for Write {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.value {
            Some(value) => write!(f, "{}", harmless(value))?,
            None => write!(f, "a value")?,
        }
        match &self.source {
            Some(Source { address, user: Some(user) }) => {
                write!(f, " of {} at {address}", harmless(user))
            }
            Some(Source { address, user: None }) => write!(f, " of {address}"),
            None => write!(f, " of a connection that is not remembered"),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn measurement(hosts: u64, connections: u64, own: u64) -> Value {
        let counts =
            |hosts: u64| json!({ "hosts": hosts, "connections": connections, "self": own });
        let source = |port: u16, user: Option<&str>| {
            let address = format!("10.0.0.7:{port}");
            json!({ "address": address, "connection": 3, "user": user })
        };
        json!({
            "database": "load", "measurement": "jmeter",
            "overwritten": counts(hosts), "equal": counts(0),
            "last_overwritten": {
                "series": "jmeter,application=shop", "time_ns": 1_700_000_000_000_000_000_i64,
                "field": "count",
                "older": { "source": source(51_234, None), "value": "10i" },
                "newer": { "source": source(4000, Some("ann")), "value": null },
            },
        })
    }

    fn shown(share: f64, measurements: Vec<Value>) -> String {
        let status = json!({ "share": share, "window_seconds": 10, "measurements": measurements });
        serde_json::from_value::<Collisions>(status).unwrap().to_string()
    }

    #[test]
    fn who_overwrites_whom_is_seen_with_the_remedy() {
        assert_eq!(shown(1.0, Vec::new()), "");
        let text = shown(1.0, vec![measurement(1_200, 0, 0)]);
        assert_eq!(text, include_str!("../../tests/golden/collisions.txt"));
    }

    #[test]
    fn what_writers_sent_moves_no_cursor() {
        let mut hostile = measurement(1, 0, 0);
        hostile["last_overwritten"]["newer"]["value"] = "\"\u{1b}[2J\n\"".into();
        hostile["last_overwritten"]["series"] = "m\u{7}".into();
        let text = shown(1.0, vec![hostile]);
        assert!(text.contains("\\u{1b}[2J\\n") && text.contains("m\\u{7}"), "{text}");
        assert!(!text.contains('\u{1b}') && !text.contains('\u{7}'));
    }

    #[test]
    fn the_remedy_fits_the_cause() {
        assert!(shown(1.0, vec![measurement(1, 1, 0)]).contains("writer = \"parameter:writer\""));
        assert!(!shown(1.0, vec![measurement(0, 0, 9)]).contains("stamp"));
        assert!(shown(0.021, vec![measurement(1, 0, 0)]).contains("among 2.10 % of the points"));
        let many = shown(1.0, (0..12).map(|n| measurement(n, 0, 0)).collect());
        assert!(many.contains("and 2 measurements more"), "{many}");
        assert_eq!(many.matches("last: ").count(), SHOWN_MAX);
    }
}
