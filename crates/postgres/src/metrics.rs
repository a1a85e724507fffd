//! What the gateway counts, beside what lanes, pools and backends count of themselves.

use watch::metrics::{Counter, Histogram, Registry};

use crate::plan::Reason;

/// Counters of all workers.
#[derive(Debug, Clone)]
pub struct Metrics {
    /// Logins that were refused.
    pub logins_refused: Counter,
    /// Rounds that rode a lane.
    pub ridden: Counter,
    /// Rounds that went by lease.
    pub leased: Counter,
    /// Rounds that were answered here.
    pub answered: Counter,
    /// Rounds that were asked again.
    pub repeated: Counter,
    /// From a round's being sent to its last byte, on lanes.
    pub lane_seconds: Histogram,
    /// The same by lease.
    pub lease_seconds: Histogram,
    reasons: Vec<(Reason, Counter)>,
}

impl Metrics {
    /// Registers them.
    pub fn new(registry: &Registry) -> Self {
        let counter = |name, help| registry.counter(name, help, &[]);
        let rounds = |way| {
            let help = "Rounds (what one ReadyForQuery answers), by the way they took.";
            registry.counter("weir_postgres_rounds_total", help, &[("way", way)])
        };
        let seconds = |way| {
            let help = "From a round's being sent to a server to the last byte of its answer.";
            registry.histogram("weir_postgres_round_seconds", help, &[("way", way)])
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
            ridden: rounds("lane"),
            leased: rounds("lease"),
            answered: rounds("weir"),
            repeated: counter(
                "weir_postgres_repeats_total",
                "Reads that were asked again, since a server gave no answer to them.",
            ),
            lane_seconds: seconds("lane"),
            lease_seconds: seconds("lease"),
            reasons: Reason::ALL.into_iter().map(reason).collect(),
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
