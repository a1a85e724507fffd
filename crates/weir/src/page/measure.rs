//! What is drawn: rates, times and numbers that wait, made of two moments of the registry and the
//! status.
//!
//! A line's name says what it measures, as `influx.points`; one of a server has its name behind a
//! bar, as `backend.waiting|b`.

use std::collections::BTreeMap;

use watch::metrics::{Buckets, Registry};

use crate::diagnosis::observation::{oldest_age, waiting};
use crate::diagnosis::status::Status;

/// Counters whose sum over all labels is drawn as a rate.
const RATES: [(&str, &str); 3] = [
    ("weir_influx_answers_total", "influx.requests"),
    ("weir_journal_groups_total", "journal.groups"),
    ("weir_redis_errors_total", "redis.errors"),
];

/// Listeners whose bytes from clients, and to them, are drawn as rates. What InfluxDB's writes
/// bring is counted by the journal, that of UDP included.
const BYTES: [(&str, &str, &str); 5] = [
    ("influx", "out", "influx.sent"),
    ("postgres", "in", "postgres.bytes"),
    ("postgres", "out", "postgres.sent"),
    ("redis", "in", "redis.bytes"),
    ("redis", "out", "redis.sent"),
];

/// A label's name and value, where a family has series that are not drawn.
type OfLabel = Option<(&'static str, &'static str)>;

/// Histograms of which p50 and p99 are drawn, in milliseconds.
const TIMES: [(&str, OfLabel, &str); 5] = [
    ("weir_influx_write_seconds", Some(("stage", "all")), "influx"),
    ("weir_influx_query_seconds", None, "query"),
    ("weir_journal_sync_seconds", None, "sync"),
    ("weir_postgres_total_seconds", None, "postgres"),
    ("weir_redis_total_seconds", None, "redis"),
];

/// What has been counted by one moment.
#[derive(Debug, Default)]
pub struct Counted {
    /// The moment, in seconds.
    at: f64,
    counters: BTreeMap<String, f64>,
    buckets: BTreeMap<&'static str, Buckets>,
    /// What is drawn as it is.
    numbers: BTreeMap<String, f64>,
}

/// How often each worker stood still in each stage, and those that do now.
pub type Stalls = (BTreeMap<(String, String), u64>, Vec<String>);

impl Counted {
    /// Reads the registry, and takes from the status what that has.
    pub fn read(at: f64, registry: &Registry, status: &Status) -> Self {
        let mut all = Self { at, ..Self::default() };
        all.registry(registry);
        all.influx(status);
        all.postgres(status);
        all.redis(status);
        if let Some(seconds) = watch::process::cpu_seconds() {
            all.counters.insert("process.cpu".to_owned(), seconds);
        }
        if let Some(bytes) = watch::process::resident_memory() {
            all.number("process.memory", bytes as f64);
        }
        all
    }

    fn registry(&mut self, registry: &Registry) {
        for (family, name) in RATES {
            let mut sum = None;
            registry.read(family, |of| *sum.get_or_insert(0.0) += of.value());
            self.counters.extend(sum.map(|sum| (name.to_owned(), sum)));
        }
        registry.read("weir_connections_bytes_total", |of| {
            let (listener, direction) = (of.label("listener"), of.label("direction"));
            for (wanted, way, name) in BYTES {
                if listener.as_deref() == Some(wanted) && direction.as_deref() == Some(way) {
                    *self.counters.entry(name.to_owned()).or_default() += of.value();
                }
            }
        });
        let mut errors = None;
        registry.read("weir_influx_answers_total", |of| {
            let is_error = of.label("code").is_some_and(|code| !code.starts_with('2'));
            *errors.get_or_insert(0.0) += if is_error { of.value() } else { 0.0 };
        });
        self.counters.extend(errors.map(|sum| ("influx.errors".to_owned(), sum)));
        for (family, label, name) in TIMES {
            registry.read(family, |of| {
                let fits = label.is_none_or(|(key, value)| of.label(key).as_deref() == Some(value));
                let Some(buckets) = of.buckets().filter(|_| fits) else { return };
                match self.buckets.get_mut(name) {
                    Some(sum) => sum.add(&buckets),
                    None => drop(self.buckets.insert(name, buckets)),
                }
            });
        }
        let mut open = 0.0;
        registry.read("weir_connections_open", |of| open += of.value());
        self.number("process.connections", open);
    }

    fn influx(&mut self, status: &Status) {
        if let Some(journal) = &status.journal {
            self.count("influx.bytes", journal.accepted.bytes as f64);
            self.number("journal.used", journal.bytes_used as f64);
        }
        let Some(influx) = &status.influx else { return };
        self.count("influx.points", influx.points_accepted as f64);
        for backend in &influx.backends {
            let named = |what: &str| format!("backend.{what}|{}", backend.name);
            if let Some(cursor) = &backend.cursor {
                self.count(&named("rate"), cursor.delivered as f64);
            }
            self.number(&named("waiting"), waiting(backend) as f64);
            self.number(&named("age"), oldest_age(backend).unwrap_or(0.0));
        }
    }

    fn postgres(&mut self, status: &Status) {
        let Some(postgres) = &status.postgres else { return };
        self.count("postgres.statements", postgres.queries as f64);
        self.count("postgres.errors", postgres.errors as f64);
        self.number("postgres.waiting", postgres.waiting as f64);
        self.number("postgres.clients", postgres.connections as f64);
        for server in &postgres.backends {
            if let Some(lag) = server.lag_seconds {
                self.number(&format!("server.lag|{}", server.name), lag);
            }
        }
    }

    fn redis(&mut self, status: &Status) {
        if let Some(redis) = &status.redis {
            self.count("redis.commands", redis.commands as f64);
            self.number("redis.clients", redis.connections as f64);
        }
        for master in &status.followed {
            self.number(&format!("aof.late|{}", master.name), master.not_durable_seconds);
        }
    }

    fn count(&mut self, name: &str, value: f64) {
        self.counters.insert(name.to_owned(), value);
    }

    fn number(&mut self, name: &str, value: f64) {
        self.numbers.insert(name.to_owned(), value);
    }

    /// What is drawn of the time since an earlier moment.
    pub fn since(&self, earlier: &Self) -> BTreeMap<String, f64> {
        let mut drawn = self.numbers.clone();
        let span = self.at - earlier.at;
        if span <= 0.0 {
            return drawn;
        }
        for (name, value) in &self.counters {
            if let Some(was) = earlier.counters.get(name) {
                drawn.insert(name.clone(), (value - was).max(0.0) / span);
            }
        }
        for (name, buckets) in &self.buckets {
            let Some(was) = earlier.buckets.get(name) else { continue };
            let since = buckets.since(was);
            for (share, quantile) in [("p50", 0.5), ("p99", 0.99)] {
                if let Some(took) = since.quantile(quantile) {
                    drawn.insert(format!("{name}.{share}"), took.as_secs_f64() * 1e3);
                }
            }
        }
        drawn
    }
}

/// Who stands still, and how often.
pub fn stalls(registry: &Registry) -> Stalls {
    let (mut times, mut now) = (BTreeMap::new(), Vec::new());
    registry.read("weir_worker_stalls_total", |of| {
        if let (Some(worker), Some(stage)) = (of.label("worker"), of.label("stage")) {
            times.insert((worker, stage), of.value() as u64);
        }
    });
    registry.read("weir_worker_stalled", |of| {
        now.extend(of.label("worker").filter(|_| of.value() > 0.0));
    });
    (times, now)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::*;

    fn status(points: u64, delivered: u64) -> Status {
        let waiting = json!({ "items": points - delivered, "bytes": 1, "oldest_age_seconds": 2.0 });
        let cursor = json!({
            "delivered": delivered, "dead_lettered": 0, "dropped": 0, "dropped_oldest": 0,
            "dropped_damaged": 0, "waiting": waiting,
        });
        let backends = json!([{ "name": "a|b", "state": "delivering", "cursor": cursor }]);
        let influx = json!({ "connections": 1, "points_accepted": points, "backends": backends });
        let process = json!({ "version": "0", "pid": 1, "uptime_seconds": 1.0, "workers": 1 });
        let ready = json!({ "yes": true, "reason": null });
        let all = json!({ "process": process, "ready": ready, "influx": influx });
        serde_json::from_value(all).unwrap()
    }

    #[test]
    fn counts_become_rates_and_times_are_of_the_last_second() {
        let registry = Registry::new();
        let answers =
            |code: &str| registry.counter("weir_influx_answers_total", "A.", &[("code", code)]);
        let took = |stage: &str| {
            registry.histogram("weir_influx_write_seconds", "W.", &[("stage", stage)])
        };
        took("all").observe(Duration::from_secs(3));
        let before = Counted::read(100.0, &registry, &status(10, 10));
        answers("204").add(100);
        answers("503").add(10);
        took("all").observe(Duration::from_millis(2));
        took("parse").observe(Duration::from_secs(9));
        let drawn = Counted::read(102.0, &registry, &status(70, 30)).since(&before);
        for (name, value) in [
            ("influx.points", 30.0),
            ("backend.rate|a|b", 10.0),
            ("backend.waiting|a|b", 40.0),
            ("backend.age|a|b", 2.0),
            ("influx.p50", 2.0),
            ("influx.p99", 2.0),
        ] {
            assert_eq!(drawn.get(name), Some(&value), "{name}");
        }
        assert!(!drawn.contains_key("influx.requests"), "there was none of it before");
        let later = Counted::read(103.0, &registry, &status(70, 30));
        let drawn = later.since(&Counted::read(102.0, &registry, &status(70, 30)));
        assert_eq!(drawn["influx.errors"], 0.0);
        assert!(!drawn.contains_key("influx.p99"), "nothing was written meanwhile");
    }
}
