//! What came of a run.

use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

use super::collector::Row;
use super::record::{RecordSums, SendAccount};
use super::thread::ThreadResult;
use crate::calls::CallsByServer;
use crate::failure::{Errors, Owner};
use crate::gate::Gate;
use crate::hlog;
use crate::injector::Health;
use crate::lateness::Lateness;
use crate::little::Occupancy;
use crate::network::Network;
use crate::recorder::{Measure, Results, Times};
use crate::sharing::Sharing;
use crate::traffic::Traffic;
use crate::verdict::{
    Doubt, Evidence, THRESHOLDS, Thresholds, basic_figures, doubt_of_demand, doubts,
};

/// What was sent before what counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WarmUp {
    /// How long it was.
    pub duration: Duration,
    pub requests: u64,
    pub failed: u64,
}

/// What came of a run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Outcome {
    /// Whether each connection sent as soon as it had its answer.
    pub closed: bool,
    pub connections: usize,
    /// Threads of all loads, and the CPUs that this machine has for them.
    pub threads: usize,
    pub cpus: usize,
    /// How long requests were sent, of what counts.
    pub measured: Duration,
    /// The wall clock when that began.
    pub wall: SystemTime,
    /// What the operations of its results are called.
    pub operations: Vec<String>,
    /// All results, by operation and kind.
    #[serde(skip)]
    pub results: Results,
    /// Whole windows in order.
    #[serde(skip)]
    pub rows: Vec<Row>,
    /// Of the results those that are in no row.
    #[serde(skip)]
    pub rest: Results,
    /// How sends were behind schedule.
    pub lateness: Lateness,
    /// From answers to sends, of a closed loop.
    #[serde(with = "hlog::within")]
    pub turnaround: Times,
    /// What connections did, of a closed loop.
    pub occupancy: Occupancy,
    pub errors: Errors,
    /// The ways to the servers' addresses.
    pub network: Network,
    /// Bytes and status codes, of what counts.
    pub traffic: Traffic,
    /// Requests by server, where a registry says which there are.
    #[serde(default)]
    pub calls: CallsByServer,
    /// When the last result came, since what counts began.
    pub last: Duration,
    /// Connections that were opened anew while it ran.
    pub reconnects: u64,
    /// Commands or statements that were answered: a request may have several.
    pub commands: u64,
    /// The worst of any thread.
    pub health: Health,
    /// The longest that a thread stood still, of what counts.
    pub stood: Duration,
    /// What does not count.
    pub warm_up: WarmUp,
    /// Who sent it, where several injectors shared the run.
    pub sharing: Option<Sharing>,
    /// The demand whose miss ended it, with what was found.
    pub aborted: Option<(Gate, String)>,
    /// The demands by which it was to be ended, and that can't be judged, with what was found.
    pub unjudged: Vec<(Gate, String)>,
    /// Somebody ended it early.
    pub stopped: bool,
    /// It ended before its time: each row of the data had its request.
    pub used_up: bool,
    /// What it is judged by.
    pub thresholds: Thresholds,
}

impl Default for Outcome {
    /// That of a run in which nothing was sent.
    fn default() -> Self {
        Self {
            closed: false,
            connections: 0,
            threads: 1,
            cpus: std::thread::available_parallelism().map_or(1, usize::from),
            measured: Duration::ZERO,
            wall: SystemTime::UNIX_EPOCH,
            operations: Vec::new(),
            results: Results::default(),
            rows: Vec::new(),
            rest: Results::default(),
            lateness: Lateness::default(),
            turnaround: Times::new(),
            occupancy: Occupancy::default(),
            errors: Errors::default(),
            network: Network::default(),
            traffic: Traffic::default(),
            calls: CallsByServer::default(),
            last: Duration::ZERO,
            reconnects: 0,
            commands: 0,
            health: Health::default(),
            stood: Duration::ZERO,
            warm_up: WarmUp::default(),
            sharing: None,
            aborted: None,
            unjudged: Vec::new(),
            stopped: false,
            used_up: false,
            thresholds: THRESHOLDS,
        }
    }
}

impl Outcome {
    /// Why its numbers can't be believed.
    pub fn doubts(&self) -> Vec<Doubt> {
        let [latency, service] = [Measure::Latency, Measure::Service]
            .map(|measure| self.results.distribution(measure, None));
        let of_open_loop = (!self.closed).then_some(&latency);
        let evidence = Evidence {
            closed: self.closed,
            sends: self.lateness.sends,
            late: self.lateness.late,
            figures: basic_figures(of_open_loop, &service, &self.thresholds.tolerance()),
            latency_mean: latency.mean().measured,
            turnaround_mean: self.turnaround.mean(),
            busy: self.health.busy,
            waited: self.health.waited,
            stolen: self.health.stolen,
            stood: self.stood_share(),
            errors: self.errors.of(Owner::Injector),
            error: self.errors.commonest_of(Owner::Injector).unwrap_or_default().to_owned(),
            threads: self.threads,
            cpus: self.cpus,
            connections: self.connections as u64,
            found: self.occupancy.connections(self.measured),
        };
        let mut found = doubts(&evidence, &self.thresholds);
        found.extend(self.sharing.iter().flat_map(Sharing::doubts));
        let unjudged = self.unjudged.iter();
        found.extend(unjudged.map(|(gate, found)| doubt_of_demand(&gate.to_string(), found)));
        found
    }

    /// The largest share of the time that a thread stood still.
    pub fn stood_share(&self) -> f64 {
        self.stood.as_secs_f64() / self.measured.as_secs_f64().max(f64::MIN_POSITIVE)
    }

    /// Adds what a thread has recorded.
    pub(super) fn with(mut self, part: &ThreadResult) -> Self {
        let RecordSums { measured, sends, totals, stood } = &part.sums;
        self.measured = self.measured.min(*measured);
        match sends {
            SendAccount::Open(lateness) => self.lateness.add(lateness),
            SendAccount::Closed { sends, turnaround, occupancy } => {
                self.lateness.sends += sends;
                self.turnaround.add(turnaround);
                self.occupancy.add(occupancy);
            }
        }
        self.errors.add(&totals.errors);
        self.traffic.add(&totals.traffic);
        self.calls.add(&totals.calls);
        self.last = self.last.max(totals.last);
        self.reconnects += totals.reconnects;
        self.commands += totals.commands;
        self.warm_up.requests += totals.warm_up.requests;
        self.warm_up.failed += totals.warm_up.failed;
        self.stood = self.stood.max(*stood);
        self.used_up |= part.used_up;
        self.health = self.health.worse(&part.health);
        self
    }

    /// What came of two parts of one run, which were sent at one time. Results, windows and the
    /// rest are added elsewhere.
    #[must_use]
    pub fn beside(mut self, other: &Self) -> Self {
        self.connections += other.connections;
        // A remedy is for the injector that is busiest.
        if other.health.busy > self.health.busy {
            (self.threads, self.cpus) = (other.threads, other.cpus);
        }
        self.measured = self.measured.min(other.measured);
        self.lateness.add(&other.lateness);
        self.turnaround.add(&other.turnaround);
        self.occupancy.add(&other.occupancy);
        self.errors.add(&other.errors);
        self.network.add(&other.network);
        for (address, why) in &other.network.left_out {
            self.network.leave_out(*address, why);
        }
        self.traffic.add(&other.traffic);
        self.calls.add(&other.calls);
        self.last = self.last.max(other.last);
        self.reconnects += other.reconnects;
        self.commands += other.commands;
        self.health = self.health.worse(&other.health);
        self.stood = self.stood.max(other.stood);
        self.warm_up.requests += other.warm_up.requests;
        self.warm_up.failed += other.warm_up.failed;
        self.aborted = self.aborted.or_else(|| other.aborted.clone());
        self.unjudged.extend(other.unjudged.iter().cloned());
        self.stopped |= other.stopped;
        self.used_up |= other.used_up;
        self
    }
}
