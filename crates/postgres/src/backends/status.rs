//! What is told of a backend: in `weir status`, `SHOW BACKENDS` and `/metrics`.

use std::time::{Duration, SystemTime};

use serde::Serialize;
use watch::metrics::Encoder;

use super::picture::Member;
use super::roles::Sight;
use super::{Backend, BackendState, Lag};

/// How a backend is, as of its last poll.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BackendStatus {
    /// Its name in the settings.
    pub name: String,
    /// The address at which Weir reaches it.
    pub address: String,
    /// What it is taken for.
    pub standing: BackendState,
    /// Whether it takes reads as a replica, or writes as the primary.
    pub in_use: bool,
    /// Why it is not in use, or what is wrong with it although it is.
    pub trouble: Option<String>,
    /// How much of the reads it takes in proportion to the others.
    pub weight: u32,
    /// How much a replica has yet to replay, in bytes.
    pub lag_bytes: Option<u64>,
    /// How old the oldest of that is, about, in milliseconds.
    pub lag_ms: Option<u64>,
    /// Where it writes, or up to where it has replayed.
    pub position: Option<String>,
    /// The timeline that it writes or receives.
    pub timeline: Option<u32>,
    /// The cluster's system identifier, the same on a primary and its standbys.
    pub system: Option<u64>,
    /// The version of PostgreSQL that it runs.
    pub version: Option<String>,
    /// The smoothed time of a question and its answer, in microseconds.
    pub round_trip_us: u32,
    /// Polls since the process started.
    pub polls: u64,
    /// Polls so far without a usable answer.
    pub polls_failed: u64,
    /// Seconds since it became what it is taken for.
    pub since_s: u64,
}

/// What the overseer last wrote about a backend.
#[derive(Debug, Clone, Default)]
pub(super) struct OverseerNotes {
    pub(super) standing: BackendState,
    pub(super) takes_reads: bool,
    pub(super) trouble: Option<String>,
    pub(super) lag: Option<Lag>,
    pub(super) position: Option<String>,
    pub(super) timeline: Option<u32>,
    pub(super) system: Option<u64>,
    pub(super) polls: u64,
    pub(super) polls_failed: u64,
    pub(super) since: Option<SystemTime>,
}

impl OverseerNotes {
    /// After a poll; `failure` is what went wrong with it, `ours` the timeline of the primary.
    pub(super) fn next(&self, member: &Member, failure: Option<&str>, ours: Option<u32>) -> Self {
        let facts = match member.sight {
            Sight::Up(facts) => Some(facts),
            Sight::Unasked | Sight::Down => None,
        };
        let stays = self.standing == member.standing && self.since.is_some();
        Self {
            standing: member.standing,
            takes_reads: member.takes_reads(),
            trouble: failure.map(str::to_owned).or_else(|| trouble(member, ours)),
            lag: member.lag,
            position: facts.map(|facts| facts.position.to_string()),
            timeline: member.timeline,
            system: facts.and_then(|facts| facts.system),
            polls: self.polls,
            polls_failed: self.polls_failed,
            since: if stays { self.since } else { Some(SystemTime::now()) },
        }
    }
}

/// What is wrong with a backend that answers, and what can be done about it.
fn trouble(member: &Member, ours: Option<u32>) -> Option<String> {
    let told = match member.standing {
        BackendState::Rival => {
            "others say that they are the primary too: stop all but one of them, \
                            nothing is written until then"
        }
        BackendState::Misplaced => {
            "it says that it is a primary and should be a replica: rebuild it \
                                with pg_rewind or pg_basebackup"
        }
        BackendState::Foreign => {
            "its data is another cluster's (system_identifier): it is not a \
                              replica of these servers"
        }
        BackendState::Replica if member.is_astray => {
            let (its, ours) = (member.timeline.unwrap_or(0), ours.unwrap_or(0));
            return Some(format!(
                "it follows timeline {its}, and the primary is on {ours}: it takes no reads until \
                 it has found the primary (after a failover that is seen late unless Weir's user \
                 may see pg_stat_wal_receiver: GRANT pg_monitor)"
            ));
        }
        BackendState::Replica if member.is_behind => "it is further behind than max-lag",
        _ => return None,
    };
    Some(told.to_owned())
}

impl Backend {
    /// How it is, as of its last poll.
    pub fn status(&self) -> BackendStatus {
        let told = self.told.load();
        let parameters = self.parameters();
        let version = parameters.as_ref().and_then(|all| {
            all.iter().find(|(name, _)| name == "server_version").map(|(_, value)| value.clone())
        });
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let since = told.since.and_then(|since| since.elapsed().ok());
        let refused = (!self.takes_connections()).then(|| self.breaker().last_failure()).flatten();
        BackendStatus {
            name: self.name().to_owned(),
            address: self.server().target.address.to_string(),
            standing: told.standing,
            in_use: told.takes_reads || told.standing == BackendState::Primary,
            trouble: told.trouble.clone().or(refused.map(|failure| failure.reason.to_string())),
            weight: self.weight(),
            lag_bytes: told.lag.map(|lag| lag.bytes),
            lag_ms: told.lag.map(|lag| millis(lag.time)),
            position: told.position.clone(),
            timeline: told.timeline,
            system: told.system,
            version,
            round_trip_us: self.round_trip_us(),
            polls: told.polls,
            polls_failed: told.polls_failed,
            since_s: since.unwrap_or_default().as_secs(),
        }
    }

    /// Writes this backend's metrics.
    pub(super) fn encode(&self, out: &mut Encoder) {
        let told = self.told.load();
        let labels = [("backend", self.name())];
        let mut gauge = |name: &str, help: &str, value: f64| {
            out.gauge(&format!("weir_postgres_backend_{name}"), help, &labels, value);
        };
        let up = told.standing != BackendState::Down && told.standing != BackendState::Unknown;
        gauge("up", "Whether the server answers.", f64::from(u8::from(up)));
        let primary = told.standing == BackendState::Primary;
        gauge("primary", "Whether it takes writes.", f64::from(u8::from(primary)));
        let reads = told.takes_reads;
        gauge("reads", "Whether it takes reads as a replica.", f64::from(u8::from(reads)));
        let connects = f64::from(u8::from(self.takes_connections()));
        gauge("takes_connections", "0 after connections that could not be opened.", connects);
        let round_trip = f64::from(self.round_trip_us()) / 1e6;
        gauge("round_trip_seconds", "Smoothed time of a question and its answer.", round_trip);
        if let Some(timeline) = told.timeline {
            gauge("timeline", "The timeline that it writes or receives.", f64::from(timeline));
        }
        if let Some(lag) = told.lag {
            let help = "WAL that the replica has yet to replay.";
            gauge("lag_bytes", help, lag.bytes as f64);
            let help = "Age of the oldest WAL that the replica has yet to replay, about.";
            gauge("lag_seconds", help, lag.time.as_secs_f64());
        }
        let mut counter = |name: &str, help: &str, value: u64| {
            out.counter(&format!("weir_postgres_backend_{name}"), help, &labels, value);
        };
        counter("polls_total", "Times it was asked for its role.", told.polls);
        let help = "Times it gave no usable answer about its role.";
        counter("polls_failed_total", help, told.polls_failed);
        let help = "Reads that were sent there because reads may go to several: proven ones, and \
                    transactions that are READ ONLY.";
        counter("asked_total", help, self.reads().get());
    }
}
