//! A running Weir at one moment, with what only a series of moments tells.

use std::collections::BTreeMap;

use watch::words::seconds;

use super::status::{Backend, Status};

/// What ends within this is told: 14 days.
const EXPIRY_SECONDS: f64 = 14.0 * 86_400.0;

/// A certificate or a password that ends.
#[derive(Debug, Clone, PartialEq)]
pub struct Expiry {
    /// What it is, as `certificate /etc/weir/cert.pem` or `password of PostgreSQL role app`.
    pub what: String,
    /// When it ends, in seconds since 1970.
    pub at: f64,
}

impl Expiry {
    /// Whether it has ended, or does so within 14 days.
    pub fn is_near(&self, now: f64) -> bool {
        self.at - now < EXPIRY_SECONDS
    }

    /// When it ends, in words.
    pub fn in_words(&self, now: f64) -> String {
        match self.at - now {
            left if left > 0.0 => format!("{} ends in {}", self.what, seconds(left)),
            left => format!("{} ended {} ago", self.what, seconds(-left)),
        }
    }
}

/// What is known of one moment.
#[derive(Debug, Clone, Default)]
pub struct Observation {
    /// The moment, in seconds since 1970.
    pub at: f64,
    /// What `/status` says of it.
    pub status: Status,
    /// How often each worker stood still, by worker and stage.
    pub stalls: BTreeMap<(String, String), u64>,
    /// Workers that stand still now.
    pub stalled: Vec<String>,
    /// What ends some day.
    pub expiries: Vec<Expiry>,
    /// Since when each backend of InfluxDB has been away, in seconds since 1970.
    pub away: BTreeMap<String, f64>,
    /// Points a second that each backend gains on its backlog; below zero it falls behind.
    pub gains: BTreeMap<String, f64>,
}

impl Observation {
    /// Notes who is away since when, by what was known a moment ago.
    pub fn follow(&mut self, before: &Self) {
        let backends = self.status.influx.iter().flat_map(|influx| &influx.backends);
        let away = backends.filter(|backend| is_away(backend));
        let since = away.map(|backend| {
            let oldest = oldest_age(backend).map_or(self.at, |age| self.at - age);
            let known = before.away.get(&backend.name).copied().unwrap_or(self.at);
            (backend.name.clone(), known.min(oldest))
        });
        self.away = since.collect();
    }
}

/// Whether nothing can be delivered to a backend now.
pub fn is_away(backend: &Backend) -> bool {
    matches!(backend.state.as_str(), "retrying" | "stopped")
}

/// The age of the oldest point that waits for a backend, in seconds.
pub fn oldest_age(backend: &Backend) -> Option<f64> {
    backend.cursor.as_ref()?.waiting.oldest_age_seconds
}

/// Points that wait for a backend.
pub fn waiting(backend: &Backend) -> u64 {
    backend.cursor.as_ref().map_or(0, |cursor| cursor.waiting.items)
}
