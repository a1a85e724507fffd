//! What the front end counts.

use std::time::{Duration, Instant};

use flow::memory::Memory;
use http::StatusCode;
use journal::{AckError, AppendError};
use watch::metrics::{Counter, Histogram, Registry};

use crate::admission::Refusal;

/// The statuses that are counted each by itself; all others count as `other`.
const STATUSES: [u16; 12] = [200, 204, 400, 401, 403, 404, 405, 413, 500, 503, 429, 0];

/// How a query of a cluster is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueryWay {
    /// By a member of one set, whose answer is passed on.
    Passed,
    /// Of the schema that a member of each set has.
    United,
    /// By the series of a member of each set.
    Joined,
    /// By the partial results of a member of each set.
    Merged,
    /// By the executor here, on the points of a member of each set.
    Fetched,
    /// Of those that are fetched: the points pass through as they come.
    Streamed,
}

impl QueryWay {
    const ALL: [Self; 6] =
        [Self::Passed, Self::United, Self::Joined, Self::Merged, Self::Fetched, Self::Streamed];

    fn name(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::United => "united",
            Self::Joined => "joined",
            Self::Merged => "merged",
            Self::Fetched => "fetched",
            Self::Streamed => "streamed",
        }
    }
}

/// The front end's instruments, shared by all workers.
pub struct Metrics {
    answers: [Counter; STATUSES.len()],
    /// Points that are in the journal and were, or will be, acknowledged.
    pub accepted: Counter,
    bad_lines: Counter,
    /// Points the embedded store would not take, refused before the journal has them.
    pub points_refused: Counter,
    /// Writes that were refused for want of room, by what was wanting.
    pub refused: Refused,
    /// What became of datagrams.
    pub datagrams: Datagrams,
    queries_failed: Counter,
    /// Queries of a cluster, in the order of [`QueryWay::ALL`].
    ways: [Counter; QueryWay::ALL.len()],
    /// Queries that were refused because answers take as much memory as they may, or no turn came.
    pub queries_refused: Counter,
    parse: Histogram,
    journal: Histogram,
    write: Histogram,
    query: Histogram,
}

/// Why a write that was good was not taken.
pub struct Refused {
    /// The journal's memory bound.
    pub busy: Counter,
    /// The journal has reached its `max-size`.
    pub full: Counter,
    /// No room on the disk.
    pub disk_full: Counter,
    /// A flush failed; nothing is acknowledged any more.
    pub poisoned: Counter,
    /// No acknowledgement within `ack-timeout`.
    pub timeout: Counter,
    /// A record larger than the journal takes.
    pub too_large: Counter,
    /// The embedded store is too far behind the journal.
    pub behind: Counter,
    /// All bodies together take as much memory as they may.
    pub memory: Counter,
}

impl Refused {
    /// Counts a refusal, if it is one for want of room.
    pub fn count(&self, refusal: &Refusal) {
        let counter = match refusal {
            Refusal::Append(AppendError::Busy) => &self.busy,
            Refusal::Append(AppendError::TooLarge { .. }) => &self.too_large,
            Refusal::Append(AppendError::Full) | Refusal::Unacknowledged(AckError::Full) => {
                &self.full
            }
            Refusal::Append(AppendError::DiskFull)
            | Refusal::Unacknowledged(AckError::DiskFull) => &self.disk_full,
            Refusal::Append(AppendError::Poisoned | AppendError::Closed)
            | Refusal::Unacknowledged(AckError::Poisoned | AckError::Closed) => &self.poisoned,
            Refusal::Unacknowledged(AckError::Timeout) => &self.timeout,
            Refusal::Behind(_) => &self.behind,
            Refusal::Starting(_)
            | Refusal::Unsettled(_)
            | Refusal::NameTooLong(_)
            | Refusal::Stopping(_) => return,
        };
        counter.inc();
    }
}

/// What became of datagrams.
pub struct Datagrams {
    /// Datagrams whose points are in the journal.
    pub taken: Counter,
    /// Dropped whole for a bad line.
    pub bad: Counter,
    /// Dropped because the journal did not take them.
    pub refused: Counter,
}

impl Metrics {
    /// Registers everything, so that a scrape shows zeros before the first request.
    pub fn new(registry: &Registry) -> Self {
        let counter = |name, help, labels: &[(&str, &str)]| registry.counter(name, help, labels);
        let answer = |status: u16| {
            let code = if status == 0 { "other".to_owned() } else { status.to_string() };
            let help = "Answers of the InfluxDB front end, by status code.";
            counter("weir_influx_answers_total", help, &[("code", &code)])
        };
        let refused = |reason| {
            let help = "Good writes that were answered with 503 or 413 for want of room.";
            counter("weir_influx_writes_refused_total", help, &[("reason", reason)])
        };
        let datagram = |outcome| {
            let help = "UDP datagrams by what became of them.";
            counter("weir_influx_datagrams_total", help, &[("outcome", outcome)])
        };
        let stage = |stage| {
            let help = "Time of a write by stage: parse, journal (append to acknowledgement), all.";
            registry.histogram("weir_influx_write_seconds", help, &[("stage", stage)])
        };
        let way = |way: QueryWay| {
            let help = "Statements of a cluster that read points or the schema, by how.";
            counter("weir_influx_cluster_queries_total", help, &[("way", way.name())])
        };
        Self {
            answers: STATUSES.map(answer),
            ways: QueryWay::ALL.map(way),
            accepted: counter("weir_influx_points_accepted_total", "Points acknowledged.", &[]),
            points_refused: counter(
                "weir_influx_points_refused_total",
                "Points of another type than their field, or older than their policy keeps.",
                &[],
            ),
            bad_lines: counter("weir_influx_lines_bad_total", "Lines no point was made of.", &[]),
            refused: Refused {
                busy: refused("busy"),
                full: refused("full"),
                disk_full: refused("disk-full"),
                poisoned: refused("poisoned"),
                timeout: refused("timeout"),
                too_large: refused("too-large"),
                behind: refused("behind"),
                memory: refused("memory"),
            },
            datagrams: Datagrams {
                taken: datagram("taken"),
                bad: datagram("bad"),
                refused: datagram("refused"),
            },
            queries_failed: counter(
                "weir_influx_queries_failed_total",
                "Queries that no backend answered.",
                &[],
            ),
            queries_refused: counter(
                "weir_influx_queries_refused_total",
                "Queries answered with 503 because answers not read yet take all memory, or turns.",
                &[],
            ),
            parse: stage("parse"),
            journal: stage("journal"),
            write: stage("all"),
            query: registry.histogram(
                "weir_influx_query_seconds",
                "Time from a whole query to the beginning of its answer, refusals included.",
                &[],
            ),
        }
    }

    /// Shows how much memory is taken by what clients have not finished sending or reading.
    pub fn show_memory(registry: &Registry, bodies: &Memory, answers: &Memory) {
        let (bodies, answers) = (bodies.clone(), answers.clone());
        registry.collect(move |encoder| {
            for (of, memory) in [("bodies", &bodies), ("answers", &answers)] {
                encoder.gauge(
                    "weir_influx_memory_bytes",
                    "Memory taken by request bodies under way, and by answers not read yet.",
                    &[("of", of)],
                    memory.used() as u64,
                );
            }
        });
    }

    /// Counts an answer by its status code.
    pub fn answered(&self, status: StatusCode) {
        let last = STATUSES.len() - 1;
        let at = STATUSES.iter().position(|&s| s == status.as_u16()).unwrap_or(last);
        self.answers[at].inc();
    }

    /// How many answers there were, and how many with a status that `is` so.
    pub fn answers(&self, is: impl Fn(u16) -> bool) -> u64 {
        let counted = STATUSES.iter().zip(&self.answers).filter(|(status, _)| is(**status));
        counted.map(|(_, count)| count.get()).sum()
    }

    /// Points that clients sent and nothing keeps: of lines that none could be made of, and those
    /// that the embedded store refused.
    pub fn points_dropped(&self) -> u64 {
        self.bad_lines.get() + self.points_refused.get()
    }

    /// Notes how long parsing took and how many bad lines it found.
    pub fn parsed(&self, took: Duration, bad_lines: u32) {
        self.parse.observe(took);
        if bad_lines > 0 {
            self.bad_lines.add(u64::from(bad_lines));
        }
    }

    /// Notes a write that was begun, parsed and acknowledged.
    pub fn acknowledged(&self, [begun, parsed, acknowledged]: [Instant; 3], points: u32) {
        self.journal.observe(acknowledged.saturating_duration_since(parsed));
        self.write.observe(acknowledged.saturating_duration_since(begun));
        self.accepted.add(u64::from(points));
    }

    /// Notes how long a query waited for the beginning of its answer.
    pub fn queried(&self, took: Duration) {
        self.query.observe(took);
    }

    /// Counts a statement of a cluster by how it is answered.
    pub fn routed(&self, way: QueryWay) {
        let counted = QueryWay::ALL.iter().zip(&self.ways).find(|(known, _)| **known == way);
        counted.into_iter().for_each(|(_, counter)| counter.inc());
    }

    /// Counts a query that no backend answered.
    pub fn query_failed(&self) {
        self.queries_failed.inc();
    }
}
