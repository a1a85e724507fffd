//! What `weir status` and `/metrics` show of collisions.

use std::collections::BTreeMap;

use serde::Serialize;
use watch::metrics::Encoder;

use super::Collisions;
use super::counts::{MeasurementCounts, Overwriting};
use super::source::{Between, SourceStatus};
use super::window::Outcome;

/// Collisions since the start.
#[derive(Debug, Serialize)]
pub struct CollisionsStatus {
    /// The share of points that is looked at now, from 0 to 1.
    share: f64,
    /// Seconds within which two points collide.
    window_seconds: f64,
    measurements: Vec<MeasurementStatus>,
}

#[derive(Debug, Serialize)]
struct MeasurementStatus {
    database: String,
    measurement: String,
    /// Points that gave a field another value, by who wrote the two.
    overwritten: BTreeMap<&'static str, u64>,
    /// Points that repeated all fields in common, by who wrote the two.
    equal: BTreeMap<&'static str, u64>,
    last_overwritten: Option<OverwrittenStatus>,
}

#[derive(Debug, Serialize)]
struct OverwrittenStatus {
    series: String,
    time_ns: i64,
    field: String,
    older: WriteStatus,
    newer: WriteStatus,
}

#[derive(Debug, Serialize)]
struct WriteStatus {
    /// Who wrote it; absent where too many connections have come since.
    source: Option<SourceStatus>,
    /// As line protocol has it; absent where it must not be shown, and of an older string.
    value: Option<String>,
}

impl Collisions {
    /// What there was since the start, with values only where they may be shown.
    pub fn status(&self, show_values: bool) -> CollisionsStatus {
        let measurement = |pair: &MeasurementCounts| {
            let counts = |outcome| {
                let count = |between: Between| (between.name(), pair.get(outcome, between));
                Between::ALL.into_iter().map(count).collect()
            };
            MeasurementStatus {
                database: pair.database.clone(),
                measurement: pair.measurement.clone(),
                overwritten: counts(Outcome::Overwritten),
                equal: counts(Outcome::Equal),
                last_overwritten: pair.last().map(|last| self.overwritten(last, show_values)),
            }
        };
        CollisionsStatus {
            share: self.share.get().points(),
            window_seconds: f64::from(self.window_ms) / 1000.0,
            measurements: self.counts.all().iter().map(|pair| measurement(pair)).collect(),
        }
    }

    fn overwritten(&self, last: Overwriting, show_values: bool) -> OverwrittenStatus {
        let write = |connection, value: Option<String>| WriteStatus {
            source: self.sources.status(connection),
            value: value.filter(|_| show_values),
        };
        OverwrittenStatus {
            series: last.series,
            time_ns: last.time_ns,
            field: last.field,
            older: write(last.older_connection, last.older_value),
            newer: write(last.newer_connection, Some(last.newer_value)),
        }
    }

    /// Puts the metrics of collisions.
    pub fn encode(&self, encoder: &mut Encoder) {
        let name = "weir_influx_collisions_total";
        let help = "Points whose series, time and a field were written before, within the window.";
        for pair in self.counts.all_and_others() {
            for (outcome, between) in all_kinds() {
                let count = pair.get(outcome, between);
                let labels = [
                    ("database", &*pair.database),
                    ("measurement", &*pair.measurement),
                    ("outcome", outcome.name()),
                    ("between", between.name()),
                ];
                encoder.counter(name, help, &labels, count);
            }
        }
        let help = "The share of points at which detection of collisions looks, from 0 to 1.";
        encoder.gauge("weir_influx_collisions_share", help, &[], self.share.get().points());
        let help = "Memory that detection of collisions has taken.";
        encoder.gauge("weir_influx_collisions_bytes", help, &[], self.bytes() as u64);
        let help = "Points that detection of collisions had no turn and no memory to look at.";
        encoder.counter("weir_influx_collisions_unseen_total", help, &[], self.unseen.get());
    }
}

/// Every outcome between everybody.
fn all_kinds() -> impl Iterator<Item = (Outcome, Between)> {
    let of = |outcome| Between::ALL.into_iter().map(move |between| (outcome, between));
    Outcome::ALL.into_iter().flat_map(of)
}
