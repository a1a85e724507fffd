//! A running Weir at one moment, with what only a series of moments tells.

use std::collections::BTreeMap;
use std::sync::Arc;

use watch::words::seconds;

use super::installation::Installation;
use super::status::{Backend, Status};

/// What ends within this is told: 14 days.
const EXPIRY_SECONDS: f64 = 14.0 * 86_400.0;
/// The weight of the newest second in the mean of what a backend gains on its backlog.
const GAIN_WEIGHT: f64 = 0.2;

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
    /// What commands have to name.
    pub installation: Arc<Installation>,
    /// How often each worker stood still, by worker and stage.
    pub stalls: BTreeMap<(String, String), u64>,
    /// Workers that stand still now.
    pub stalled: Vec<String>,
    /// What ends some day.
    pub expiries: Vec<Expiry>,
    /// Since when each backend of InfluxDB has been away, in seconds since 1970.
    pub away: BTreeMap<String, f64>,
    /// Points a second by which the backlog of each backend shrinks, as a mean of the last
    /// seconds; below zero it grows.
    pub gains: BTreeMap<String, f64>,
}

impl Observation {
    /// Notes who is away since when and how backlogs change, by what was known a moment ago.
    pub fn follow(&mut self, before: &Self) {
        self.away = self.away_since(before);
        self.gains = self.gained_since(before);
    }

    /// Seconds until a backend has had its backlog; `None` where it has none, or where that does
    /// not shrink.
    pub fn caught_up_in(&self, backend: &Backend) -> Option<f64> {
        let gain = self.gains.get(&backend.name).copied().filter(|gain| *gain > 0.0)?;
        let waiting = waiting(backend);
        (waiting > 0 && !is_away(backend)).then(|| waiting as f64 / gain)
    }

    fn backends(&self) -> impl Iterator<Item = &Backend> {
        self.status.influx.iter().flat_map(|influx| &influx.backends)
    }

    /// Those that are caught up some time, with the seconds until then.
    pub fn catching_up(&self) -> BTreeMap<String, f64> {
        let left = |backend: &Backend| Some((backend.name.clone(), self.caught_up_in(backend)?));
        self.backends().filter_map(left).collect()
    }

    fn away_since(&self, before: &Self) -> BTreeMap<String, f64> {
        let away = self.backends().filter(|backend| is_away(backend));
        let since = away.map(|backend| {
            let oldest = oldest_age(backend).map_or(self.at, |age| self.at - age);
            let known = before.away.get(&backend.name).copied().unwrap_or(self.at);
            (backend.name.clone(), known.min(oldest))
        });
        since.collect()
    }

    /// By what waits now and a moment ago, and not by what was delivered: in a cluster a backend
    /// passes the points of other sets, too.
    fn gained_since(&self, before: &Self) -> BTreeMap<String, f64> {
        let span = self.at - before.at;
        let gain = |backend: &Backend| {
            let name = &backend.name;
            let former = before.backends().find(|of| of.name == *name)?;
            let newest = (waiting(former) as f64 - waiting(backend) as f64) / span;
            let mean = before.gains.get(name).copied().unwrap_or(newest);
            Some((name.clone(), mean + (newest - mean) * GAIN_WEIGHT))
        };
        if span > 0.0 { self.backends().filter_map(gain).collect() } else { before.gains.clone() }
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
