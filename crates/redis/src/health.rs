//! How the servers of a pool are, for all workers: which are ejected, and what was wrong last.
//!
//! A server has failed where a connection to it could not be opened, login included, or where it
//! ended one on which commands waited. What a server says is not a failure, be it `-LOADING`, and
//! neither is an answer that is late: the server may be busy with what that client asked.

mod ejections;

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use watch::metrics::{Counter, Gauge, Registry};

use ejections::Ejections;
pub use ejections::Rule;

/// Servers that are counted by themselves: nodes of a Cluster come and go.
pub const SERVERS_MAX: usize = 256;
/// Commands and servers that have no name of their own where things are counted.
pub const OTHER: &str = "other";
/// Stands for no time at all.
const NEVER: u64 = u64::MAX;
/// Characters of a server's or the system's words that are kept.
const WORDS_MAX: usize = 256;

/// The servers of a pool, by their numbers.
#[derive(Debug)]
pub struct Health {
    known: Mutex<HealthOfServers>,
    /// Counts the changes of who has keys.
    changes: AtomicU64,
    /// When the next one comes back, in milliseconds since `begun`.
    next: AtomicU64,
    begun: Instant,
    pool: String,
    registry: Registry,
}

#[derive(Debug)]
struct HealthOfServers {
    counts: Vec<Counts>,
    /// The names that servers are counted by.
    names: HashSet<String>,
    ejections: Ejections,
    /// What was wrong with each last, until it was reached again.
    wrong: Vec<Option<String>>,
}

#[derive(Debug)]
struct Counts {
    name: String,
    /// It belongs to the pool no more: another server may be counted by the same name.
    has_left: bool,
    failures: Counter,
    ejections: Counter,
    ejected: Gauge,
}

impl HealthOfServers {
    /// By which name a server is counted: those of a Cluster come and go.
    fn shown<'a>(&mut self, name: &'a str) -> &'a str {
        if self.names.len() >= SERVERS_MAX && !self.names.contains(name) {
            return OTHER;
        }
        self.names.insert(name.to_owned());
        name
    }
}

impl Counts {
    fn new(pool: &str, name: &str, registry: &Registry) -> Self {
        let labels = [("pool", pool), ("server", name)];
        Self {
            name: name.to_owned(),
            has_left: false,
            failures: registry.counter(
                "weir_redis_server_failures_total",
                "Connections to a Redis server that could not be opened, and those that it ended \
                 while commands waited on them.",
                &labels,
            ),
            ejections: registry.counter(
                "weir_redis_server_ejections_total",
                "How often a Redis server was ejected.",
                &labels,
            ),
            ejected: registry.gauge(
                "weir_redis_server_ejected",
                "Whether a Redis server is ejected now: others have its keys.",
                &labels,
            ),
        }
    }
}

/// How a server is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct State {
    /// For how long it is ejected still.
    pub ejected: Option<Duration>,
    /// How often it was ejected since the start.
    pub ejections: u64,
    /// What was wrong with it last, if it was not reached since.
    pub wrong: Option<String>,
}

impl Health {
    /// Servers with these names, in a pool of that name.
    pub fn new(pool: &str, names: &[&str], rule: Option<Rule>, registry: &Registry) -> Self {
        let counts = names.iter().map(|name| Counts::new(pool, name, registry)).collect();
        let ejections = Ejections::new(names.len(), rule);
        Self {
            known: Mutex::new(HealthOfServers {
                counts,
                names: names.iter().map(|name| (*name).to_owned()).collect(),
                ejections,
                wrong: vec![None; names.len()],
            }),
            changes: AtomicU64::new(0),
            next: AtomicU64::new(NEVER),
            begun: Instant::now(),
            pool: pool.to_owned(),
            registry: registry.clone(),
        }
    }

    /// Another server has this number from now on. One that may never have keys is not ejected.
    pub fn is_new(&self, server: usize, name: &str, may_have_keys: bool) {
        let known = &mut *self.known.lock();
        let counts = Counts::new(&self.pool, known.shown(name), &self.registry);
        match known.counts.get_mut(server) {
            Some(former) => *former = counts,
            None => known.counts.push(counts),
        }
        known.wrong.resize(known.counts.len(), None);
        known.wrong[server] = None;
        known.ejections.is_new(server, may_have_keys);
    }

    /// A server belongs to the pool no more: it has no keys that another one could have.
    pub fn leaves(&self, server: usize) {
        let known = &mut *self.known.lock();
        let Some(counts) = known.counts.get_mut(server) else { return };
        counts.has_left = true;
        counts.ejected.set(0);
        if let Some(wrong) = known.wrong.get_mut(server) {
            *wrong = None;
        }
        known.ejections.is_new(server, false);
        self.changed(known);
    }

    /// A server has failed a worker, in these words.
    pub fn failed(&self, server: usize, worker: usize, words: &str) {
        let known = &mut *self.known.lock();
        let Some(counts) = known.counts.get(server) else { return };
        counts.failures.inc();
        if let Some(wrong) = known.wrong.get_mut(server) {
            *wrong = Some(words.chars().take(WORDS_MAX).collect());
        }
        if known.ejections.failed(server, worker, Instant::now()) {
            counts.ejections.inc();
            tracing::warn!(server = counts.name, words, "a Redis server is ejected");
            self.changed(known);
        }
    }

    /// A worker has reached a server, which answered; `words` where it refused.
    pub fn reached(&self, server: usize, worker: usize, words: Option<&str>) {
        let mut known = self.known.lock();
        known.ejections.reached(server, worker);
        if let Some(wrong) = known.wrong.get_mut(server) {
            *wrong = words.map(|words| words.chars().take(WORDS_MAX).collect());
        }
    }

    /// Puts another rule in force.
    pub fn set_rule(&self, rule: Option<Rule>) {
        let mut known = self.known.lock();
        if known.ejections.set_rule(rule) {
            self.changed(&known);
        }
    }

    /// How often it has changed who has keys. Whoever is due back has come back by then.
    #[inline]
    pub fn changes(&self) -> u64 {
        let next = self.next.load(Ordering::Relaxed);
        if next != NEVER && self.millis() >= next {
            let mut known = self.known.lock();
            if known.ejections.look(Instant::now()) {
                self.changed(&known);
            }
        }
        self.changes.load(Ordering::Acquire)
    }

    /// Which servers have keys.
    pub fn live(&self) -> Vec<bool> {
        let known = self.known.lock();
        (0..known.counts.len()).map(|server| known.ejections.is_in(server)).collect()
    }

    /// How a server is.
    pub fn state(&self, server: usize) -> State {
        self.changes();
        let known = self.known.lock();
        let until = known.ejections.until(server);
        State {
            ejected: until.map(|until| until.saturating_duration_since(Instant::now())),
            ejections: known.counts.get(server).map_or(0, |counts| counts.ejections.get()),
            wrong: known.wrong.get(server).cloned().flatten(),
        }
    }

    fn changed(&self, known: &HealthOfServers) {
        let ejections = &known.ejections;
        let there = known.counts.iter().enumerate().filter(|(_, counts)| !counts.has_left);
        for (server, counts) in there {
            let was_ejected = counts.ejected.get() > 0;
            counts.ejected.set(i64::from(!ejections.is_in(server)));
            if was_ejected && ejections.is_in(server) {
                tracing::info!(server = counts.name, "a Redis server has its keys again");
            }
        }
        // A millisecond later rather than earlier, so that whoever looks then finds it due.
        let next = ejections.next().map(|at| at.saturating_duration_since(self.begun));
        let next = next.map(|after| u64::try_from(after.as_millis()).unwrap_or(NEVER - 2) + 1);
        self.next.store(next.unwrap_or(NEVER), Ordering::Relaxed);
        self.changes.fetch_add(1, Ordering::Release);
    }

    fn millis(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(NEVER)
    }
}
