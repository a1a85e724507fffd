//! What the gateway counts, beside what lanes, pools and backends count of themselves.

use watch::latencies::Latencies;
use watch::metrics::{Counter, Gauge, Registry};

use crate::plan::Reason;

/// Counters of all workers.
#[derive(Debug, Clone)]
pub struct Metrics {
    /// Logins that were refused.
    pub logins_refused: Counter,
    /// Those that were told late.
    pub logins_slowed: Counter,
    /// Rounds that rode a lane.
    pub ridden: Counter,
    /// Reads that were answered by what was asked for an equal one.
    pub shared: Counter,
    /// Rounds that went by lease.
    pub leased: Counter,
    /// Rounds that shared a transaction.
    pub batched: Counter,
    /// Transactions that were shared.
    pub batches: Counter,
    /// Shared transactions that failed and were undone.
    pub batches_undone: Counter,
    /// Rounds that were answered here.
    pub answered: Counter,
    /// Point statements that came as text and were run as prepared ones.
    pub points: Counter,
    /// Rounds that were asked again.
    pub repeated: Counter,
    /// Commits that are confirmed together.
    pub commits: CommitMetrics,
    reasons: Vec<(Reason, Counter)>,
    registry: Registry,
}

/// Counters of commits whose answers wait for marks.
#[derive(Debug, Clone)]
pub struct CommitMetrics {
    /// Answers that wait for one.
    pub held: Gauge,
    /// Marks that were sent.
    pub marks: Counter,
    /// Answers that a mark has confirmed.
    pub confirmed: Counter,
    /// Those of them that went out behind a WARNING.
    pub warned: Counter,
    /// Answers that no mark could confirm.
    pub unconfirmed: Counter,
}

impl CommitMetrics {
    fn new(registry: &Registry) -> Self {
        let counter = |name, help| registry.counter(name, help, &[]);
        Self {
            held: registry.gauge(
                "weir_postgres_commits_held",
                "Transactions that the server has committed and whose answers wait for a mark.",
                &[],
            ),
            marks: counter(
                "weir_postgres_marks_total",
                "Transactions of Weir's own that confirm the commits before them.",
            ),
            confirmed: counter(
                "weir_postgres_commits_confirmed_total",
                "Transactions that were committed without waiting and told once a mark was \
                 durable.",
            ),
            warned: counter(
                "weir_postgres_commits_warned_total",
                "Those of them that were told behind the WARNING that the wait for a standby was \
                 cancelled.",
            ),
            unconfirmed: counter(
                "weir_postgres_commits_unconfirmed_total",
                "Transactions whose clients heard 08007, since the connection for marks broke.",
            ),
        }
    }
}

/// How long rounds to one backend take.
#[derive(Debug)]
pub struct BackendLatencies {
    /// The backend's name in the settings.
    pub backend: String,
    /// Of statements on lanes.
    pub lane: Latencies,
    /// Of statements by lease.
    pub lease: Latencies,
    /// Of statements in batches.
    pub batch: Latencies,
}

impl Metrics {
    /// Registers all metrics of the gateway.
    pub fn new(registry: &Registry) -> Self {
        let counter = |name, help| registry.counter(name, help, &[]);
        let rounds = |way| {
            let help = "Rounds (what one ReadyForQuery answers), by the way they took.";
            registry.counter("weir_postgres_rounds_total", help, &[("way", way)])
        };
        let reason = |reason: Reason| {
            let help = "Statements that went by lease, by why they were no proven reads; proven: a \
                        read that was slow, or new, or found no lane.";
            let labels = [("reason", reason.as_str())];
            let counter = registry.counter("weir_postgres_unproven_total", help, &labels);
            (reason, counter)
        };
        Self {
            logins_refused: counter(
                "weir_postgres_logins_refused_total",
                "Clients that did not come in: wrong password, no such database, no server.",
            ),
            logins_slowed: counter(
                "weir_postgres_logins_slowed_total",
                "Clients that were told late that they do not come in, since many from their \
address had failed.",
            ),
            ridden: rounds("lane"),
            shared: counter(
                "weir_postgres_shared_total",
                "Reads that were answered with an equal read of another client: the server was not \
                 asked for them.",
            ),
            leased: rounds("lease"),
            batched: rounds("batch"),
            batches: counter(
                "weir_postgres_batches_total",
                "Transactions that several clients' writes may have shared.",
            ),
            batches_undone: counter(
                "weir_postgres_batches_undone_total",
                "Those of them that failed: each statement was run again by itself.",
            ),
            answered: rounds("weir"),
            points: counter(
                "weir_postgres_points_total",
                "Statements that came as text and were run as prepared ones, since their rows are \
                 named by a key or come along.",
            ),
            repeated: counter(
                "weir_postgres_repeats_total",
                "Reads that were asked again, since a server gave no answer to them.",
            ),
            commits: CommitMetrics::new(registry),
            reasons: Reason::ALL.into_iter().map(reason).collect(),
            registry: registry.clone(),
        }
    }

    /// How long rounds to a backend take.
    pub fn latencies(&self, backend: &str) -> BackendLatencies {
        BackendLatencies {
            backend: backend.to_owned(),
            lane: self.of_way(backend, "lane"),
            lease: self.of_way(backend, "lease"),
            batch: self.of_way(backend, "batch"),
        }
    }

    fn of_way(&self, backend: &str, way: &str) -> Latencies {
        let labels = [("backend", backend), ("way", way)];
        let histogram = |name, help| self.registry.histogram(name, help, &labels);
        Latencies {
            queue: histogram(
                "weir_postgres_queue_seconds",
                "How long rounds waited for a server connection, or on a lane for those before \
                 them.",
            ),
            server: histogram(
                "weir_postgres_server_seconds",
                "From when a server had a round to itself to the last byte of its answer.",
            ),
            total: histogram(
                "weir_postgres_total_seconds",
                "From when a round wanted a server to the last byte of its answer.",
            ),
        }
    }

    /// How many statements were no proven reads, by the reason; only reasons that there were.
    pub fn reasons(&self) -> impl Iterator<Item = (Reason, u64)> {
        let all = self.reasons.iter().map(|(reason, counter)| (*reason, counter.get()));
        all.filter(|(_, count)| *count > 0)
    }

    /// A statement went by lease: was it no proven read?
    pub fn unproven(&self, reason: Reason) {
        if let Some((_, counter)) = self.reasons.iter().find(|(known, _)| *known == reason) {
            counter.inc();
        }
    }
}
