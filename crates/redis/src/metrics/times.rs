//! How long each server takes, and what each command takes there.
//!
//! Commands are known by their numbers in Weir's list, behind which those come that the operator
//! has named: what clients make up never becomes a label. Each worker counts in cells that it alone
//! writes, so that a command costs a few additions, and neither a lock nor a clock.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use flow::service::Took;
use parking_lot::Mutex;
use watch::latencies::{Latencies, OneThreads};
use watch::metrics::{Encoder, Registry};

use super::buckets::{Buckets, Histogram};
use super::errors::{Errors, Kind};
use crate::health::{OTHER, SERVERS_MAX};

/// Gives the name of a command by its number.
type NameOf = fn(usize) -> Option<&'static str>;

/// What is counted of the servers of a pool.
#[derive(Clone)]
pub struct Times {
    pool: Arc<str>,
    registry: Registry,
    known: Arc<PoolTimes>,
}

struct PoolTimes {
    pool: Arc<str>,
    name_of: NameOf,
    /// The servers, of which each is shown before it has answered anything.
    servers: Mutex<Vec<Arc<str>>>,
    /// The cells of all workers, each with the server's name.
    all: Mutex<Vec<(Arc<str>, Arc<Cells>)>>,
}

/// One worker's counts of one server.
type Cells = Box<[Cell]>;

/// What one command took.
#[derive(Debug, Default)]
struct Cell {
    answers: AtomicU64,
    shared: AtomicU64,
    errors: AtomicU64,
    queue_ns: AtomicU64,
    server_ns: AtomicU64,
    /// Of the time at the server.
    buckets: Buckets,
}

/// What one worker counts of one server.
#[derive(Debug)]
pub struct ServerTimes {
    lane: OneThreads,
    lease: OneThreads,
    cells: Arc<Cells>,
    errors: Errors,
}

/// What a command has taken since the start, of all workers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sum {
    /// Replies that servers have sent.
    pub answers: u64,
    /// Answers that clients heard of what was asked for others.
    pub shared: u64,
    /// Those of them that are errors.
    pub errors: u64,
    /// Time in line before the server.
    pub queue: Duration,
    /// Time that the server had it to itself.
    pub server: Duration,
}

impl Times {
    /// Registers those of a pool.
    pub fn new(pool: &str, name_of: NameOf, registry: &Registry) -> Self {
        let pool: Arc<str> = pool.into();
        let (servers, all) = (Mutex::default(), Mutex::default());
        let known = Arc::new(PoolTimes { pool: pool.clone(), name_of, servers, all });
        let weak = Arc::downgrade(&known);
        registry.collect(move |encoder| collect(&weak, encoder));
        Self { pool, registry: registry.clone(), known }
    }

    /// Shows a server from now on; gives the name that it is counted by.
    pub fn add(&self, server: &str) -> Arc<str> {
        let mut servers = self.known.servers.lock();
        let known = |name: &str| servers.iter().find(|of| ***of == *name).cloned();
        let name = if servers.len() < SERVERS_MAX { server } else { OTHER };
        if let Some(known) = known(server).or_else(|| known(name)) {
            return known;
        }
        for way in ["lane", "lease"] {
            self.histograms(name, way);
        }
        Errors::new(&self.pool, name, &self.registry).show();
        servers.push(name.into());
        name.into()
    }

    /// How long requests to a server take that go one way.
    pub fn latencies(&self, server: &str, way: &str) -> Latencies {
        self.histograms(&self.add(server), way)
    }

    fn histograms(&self, server: &str, way: &str) -> Latencies {
        let labels = [("pool", &*self.pool), ("server", server), ("way", way)];
        let histogram = |name, help| self.registry.histogram(name, help, &labels);
        Latencies {
            queue: histogram(
                "weir_redis_queue_seconds",
                "How long commands waited for a connection to a Redis server, or on one for those \
                 before them.",
            ),
            server: histogram(
                "weir_redis_server_seconds",
                "From when a Redis server had a command to itself to the last byte of its answer.",
            ),
            total: histogram(
                "weir_redis_total_seconds",
                "From when a command came to the last byte of its answer.",
            ),
        }
    }

    /// The calling thread's counts of a server, with room for so many commands.
    pub fn of_one_thread(&self, server: &str, commands: usize) -> ServerTimes {
        let server = &self.add(server);
        let mut all = self.known.all.lock();
        let is_free = |(of, cells): &&(Arc<str>, Arc<Cells>)| {
            of == server && Arc::strong_count(cells) == 1 && cells.len() == commands
        };
        let free = all.iter().find(is_free).map(|(_, cells)| Arc::clone(cells));
        let cells = free.unwrap_or_else(|| {
            let new: Arc<Cells> = Arc::new((0..commands).map(|_| Cell::default()).collect());
            all.push((Arc::clone(server), Arc::clone(&new)));
            new
        });
        ServerTimes {
            lane: self.histograms(server, "lane").of_one_thread(),
            lease: self.histograms(server, "lease").of_one_thread(),
            cells,
            errors: Errors::new(&self.pool, server, &self.registry),
        }
    }

    /// What commands have taken, by server and command.
    pub fn sums(&self) -> BTreeMap<(Arc<str>, &'static str), Sum> {
        self.known.sums()
    }

    /// How long servers had each command to themselves, of those that were answered.
    pub fn by_command(&self) -> BTreeMap<&'static str, Histogram> {
        let mut all = BTreeMap::new();
        for (_, cells) in self.known.all.lock().iter() {
            for (number, cell) in cells.iter().enumerate() {
                let Some(name) = (self.known.name_of)(number) else { continue };
                cell.buckets.add_to(all.entry(name).or_default());
            }
        }
        all.retain(|_, histogram: &mut Histogram| histogram.count() > 0);
        all
    }
}

impl PoolTimes {
    fn sums(&self) -> BTreeMap<(Arc<str>, &'static str), Sum> {
        let servers = self.servers.lock();
        let none = |server: &Arc<str>| ((Arc::clone(server), OTHER), Sum::default());
        let mut sums: BTreeMap<_, Sum> = servers.iter().map(none).collect();
        for (server, cells) in self.all.lock().iter() {
            for (number, cell) in cells.iter().enumerate() {
                let answers = cell.answers.load(Ordering::Relaxed);
                let errors = cell.errors.load(Ordering::Relaxed);
                let shared = cell.shared.load(Ordering::Relaxed);
                if answers + shared == 0 {
                    continue;
                }
                let name = (self.name_of)(number).unwrap_or(OTHER);
                let sum = sums.entry((Arc::clone(server), name)).or_default();
                sum.answers += answers;
                sum.errors += errors;
                sum.shared += shared;
                sum.queue += Duration::from_nanos(cell.queue_ns.load(Ordering::Relaxed));
                sum.server += Duration::from_nanos(cell.server_ns.load(Ordering::Relaxed));
            }
        }
        sums
    }
}

fn collect(known: &Weak<PoolTimes>, encoder: &mut Encoder) {
    let Some(known) = known.upgrade() else { return };
    for ((server, command), sum) in known.sums() {
        let labels = [("pool", &*known.pool), ("server", &*server), ("command", command)];
        encoder.counter(
            "weir_redis_command_answers_total",
            "Answers of Redis servers, by the command; of a command that is split, one for each \
             part.",
            &labels,
            sum.answers,
        );
        encoder.counter(
            "weir_redis_shared_total",
            "Reads of Redis clients that were answered with an equal read of another client: the \
             server was not asked for them.",
            &labels,
            sum.shared,
        );
        encoder.counter(
            "weir_redis_command_errors_total",
            "Those of them that were errors.",
            &labels,
            sum.errors,
        );
        encoder.counter(
            "weir_redis_command_queue_seconds_total",
            "How long commands waited for a connection, or on one for those before them.",
            &labels,
            sum.queue.as_secs_f64(),
        );
        encoder.counter(
            "weir_redis_command_server_seconds_total",
            "How long Redis servers had commands to themselves.",
            &labels,
            sum.server.as_secs_f64(),
        );
    }
}

impl ServerTimes {
    /// A command of this number was answered.
    #[inline]
    pub fn answered(&self, number: usize, took: &Took) {
        if took.is_shared {
            return self.shared(number, took);
        }
        // What waits for others says nothing of the server, but that it was answered.
        if let Some(queued) = took.queued {
            let way = if took.is_leased { &self.lease } else { &self.lane };
            way.observe(queued, took.ran);
        }
        let Some(cell) = self.cell(number) else { return };
        add(&cell.answers, 1);
        if let Some(queued) = took.queued {
            add(&cell.queue_ns, nanoseconds(queued));
            add(&cell.server_ns, nanoseconds(took.ran));
            cell.buckets.observe(took.ran);
        }
    }

    /// A command was answered with one that the server was asked for another client: its client
    /// has waited for so long, and the server has worked once.
    fn shared(&self, number: usize, took: &Took) {
        if let Some(queued) = took.queued {
            self.lane.observe_total(queued + took.ran);
        }
        if let Some(cell) = self.cell(number) {
            add(&cell.shared, 1);
        }
    }

    /// The answer to a command of this number begins with this, which is an error.
    #[cold]
    pub fn refused(&self, number: usize, line: &[u8]) {
        self.errors.count(Kind::of(line));
        if let Some(cell) = self.cell(number) {
            add(&cell.errors, 1);
        }
    }

    /// A command was not answered by the server.
    #[cold]
    pub fn failed(&self, kind: Kind) {
        self.errors.count(kind);
    }

    /// The last cell is for what has none of its own.
    fn cell(&self, number: usize) -> Option<&Cell> {
        self.cells.get(number).or_else(|| self.cells.last())
    }
}

/// Only this thread writes here.
#[inline]
pub(super) fn add(to: &AtomicU64, more: u64) {
    to.store(to.load(Ordering::Relaxed).wrapping_add(more), Ordering::Relaxed);
}

fn nanoseconds(of: Duration) -> u64 {
    u64::try_from(of.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn took(queued: Option<u64>, ran: u64) -> Took {
        let queued = queued.map(Duration::from_micros);
        let ran = Duration::from_micros(ran);
        Took { queued, ran, bytes: 5, is_leased: false, is_shared: false, client: 0 }
    }

    #[test]
    fn what_was_asked_for_another_client_is_no_answer_of_the_server() {
        let times = Times::new("main", |_| Some("GET"), &Registry::new());
        let worker = times.of_one_thread("a", 1);
        worker.answered(0, &took(Some(10), 30));
        worker.answered(0, &Took { is_shared: true, ..took(Some(20), 30) });
        let sum = times.sums()[&("a".into(), "GET")];
        assert_eq!((sum.answers, sum.shared, sum.server.as_micros()), (1, 1, 30));
        let counted = times.latencies("a", "lane");
        assert_eq!((counted.total.count(), counted.server.count()), (2, 1));
    }

    #[test]
    fn commands_are_summed_over_workers_and_unknown_ones_are_one() {
        let registry = Registry::new();
        let name_of = |number| ["GET", "SET"].get(number).copied();
        let times = Times::new("main", name_of, &registry);
        let server: Arc<str> = "a".into();
        for _ in 0..2 {
            let worker = times.of_one_thread(&server, 3);
            worker.answered(0, &took(Some(10), 30));
            worker.answered(7, &took(None, 500));
            worker.refused(0, b"-WRONGTYPE Operation\r\n");
        }
        let sums = times.sums();
        let wanted = Sum {
            answers: 2,
            shared: 0,
            errors: 2,
            queue: Duration::from_micros(20),
            server: Duration::from_micros(60),
        };
        assert_eq!(sums[&(server.clone(), "GET")], wanted);
        assert_eq!(sums[&(server.clone(), "other")].answers, 2);
        assert_eq!(
            times.latencies("a", "lane").percentiles().map(|of| of.total[0].as_micros()),
            Some(40)
        );
        let text = registry.render();
        for line in [
            "weir_redis_command_answers_total{command=\"GET\",pool=\"main\",server=\"a\"} 2",
            "weir_redis_errors_total{kind=\"WRONGTYPE\",pool=\"main\",server=\"a\"} 2",
        ] {
            assert!(text.contains(line), "{line} in {text}");
        }
    }

    #[test]
    fn servers_that_come_and_go_are_counted_by_so_many_names_only() {
        let times = Times::new("main", |_| None, &Registry::new());
        for n in 0..3 * SERVERS_MAX {
            times.of_one_thread(&n.to_string(), 1).answered(0, &took(None, 1));
        }
        assert_eq!(&*times.add("1"), "1");
        assert_eq!(&*times.add("new"), OTHER);
        let sums = times.sums();
        assert_eq!(sums.len(), SERVERS_MAX + 1);
        assert_eq!(sums[&(OTHER.into(), OTHER)].answers, 2 * SERVERS_MAX as u64);
    }
}
