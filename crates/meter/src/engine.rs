//! Sends requests and hears of answers. Each thread of the injector has a runtime, connections and
//! a share of the schedule of its own, and hands on its windows as they end.

mod alarm;
mod asking;
mod collector;
mod connection;
mod kept;
mod looks;
mod offered;
mod opening;
mod state;
mod thread;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::{Duration, Instant, SystemTime};

use flow::dial::{Address, Target};
use tokio::sync::oneshot;

use crate::failure::Errors;
use crate::gate::{Gate, Sliding};
use crate::injector::{BusyTime, Health};
use crate::lateness::Lateness;
use crate::little::Occupancy;
use crate::recorder::{Measure, Results, Times};
use crate::schedule::Schedule;
use crate::verdict::{Doubt, Evidence, THRESHOLDS, doubts};
use crate::window::Timeline;
use crate::workload::Workload;
pub use asking::{AskError, ask};
use collector::Collector;
pub use collector::{Ended, Row};
pub use kept::Kept;
use offered::Offered;
pub use opening::OpenError;
use state::Last;
use thread::{Part, Said, Task};

/// The most connections.
pub const CONNECTIONS_MAX: usize = 1_000_000;
/// The most threads.
pub const THREADS_MAX: usize = 256;
/// Messages of threads that may wait.
const SAID_MAX: usize = 64;
/// Descriptors that the program needs besides its connections.
const DESCRIPTORS_BESIDE: u64 = 64;

/// When requests are sent.
#[derive(Debug, Clone, PartialEq)]
pub enum Pace {
    /// When a schedule says, whatever the answers do.
    Open(Schedule),
    /// On each connection as soon as it has its answer, for so long.
    Closed(Duration),
}

/// Ends runs early, from elsewhere.
#[derive(Debug, Clone, Default)]
pub struct Stop {
    asked: Arc<AtomicU8>,
    /// Whoever ends a run by itself ends no other one, and hears of this one, too.
    of_all: Option<Arc<AtomicU8>>,
}

impl Stop {
    /// The first time: sends nothing more and waits for what is under way. The second time: does
    /// not wait either.
    pub fn ask(&self) {
        self.asked.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether somebody has asked.
    pub fn is_asked(&self) -> bool {
        self.asked() > 0
    }

    fn asked(&self) -> u8 {
        let of_all = self.of_all.as_ref().map_or(0, |all| all.load(Ordering::Relaxed));
        self.asked.load(Ordering::Relaxed).max(of_all)
    }

    /// One for a single run, which ends with all the others as well.
    fn of_run(&self) -> Self {
        Self { asked: Arc::default(), of_all: Some(Arc::clone(&self.asked)) }
    }
}

/// Where to send, how fast, for how long.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The server. Every address of its name is used in turn.
    pub target: Target,
    /// When requests are sent.
    pub pace: Pace,
    /// For how long requests are sent before those that count.
    pub warm_up: Duration,
    /// Connections of all threads.
    pub connections: usize,
    /// Threads.
    pub threads: usize,
    /// How long an answer may take from its send.
    pub timeout: Duration,
    /// A miss of one of these ends the run.
    pub abort: Vec<Gate>,
    /// Ends it early.
    pub stop: Stop,
}

impl Plan {
    /// Whether each connection sends as soon as it has its answer.
    pub fn is_closed(&self) -> bool {
        matches!(self.pace, Pace::Closed(_))
    }
}

/// A run could not be begun.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The plan can't work.
    #[error("{0}")]
    Plan(String),
    /// A connection could not be opened.
    #[error("can't reach the server: {source} ({opened} of {connections} connections were open)")]
    Unreachable {
        /// Connections that were open already.
        opened: usize,
        /// Those that were asked for.
        connections: usize,
        /// Why.
        source: OpenError,
    },
    /// A thread could not be started, or ended by itself.
    #[error("the injector can't run: {0}; this is no fault of the server's")]
    Injector(String),
}

/// What was sent before what counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WarmUp {
    /// How long it was.
    pub duration: Duration,
    /// Its requests.
    pub requests: u64,
    /// Those that failed.
    pub failed: u64,
}

/// What came of a run.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// Whether each connection sent as soon as it had its answer.
    pub closed: bool,
    /// Connections.
    pub connections: usize,
    /// How long requests were sent, of what counts.
    pub measured: Duration,
    /// The wall clock when that began.
    pub wall: SystemTime,
    /// What the operations of its results are called.
    pub operations: Vec<String>,
    /// All results.
    pub results: Results,
    /// Whole windows in order.
    pub rows: Vec<Row>,
    /// Of the results those that are in no row.
    pub rest: Results,
    /// How sends were behind schedule.
    pub lateness: Lateness,
    /// From answers to sends, of a closed loop.
    pub turnaround: Times,
    /// What connections did, of a closed loop.
    pub occupancy: Occupancy,
    /// Errors.
    pub errors: Errors,
    /// How long connections took to open, by the kernel's handshake.
    pub connects: Times,
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
    /// The demand whose miss ended it, with what was found.
    pub aborted: Option<(Gate, String)>,
    /// Somebody ended it early.
    pub stopped: bool,
    /// It ended before its time: each row of the data had its request.
    pub used_up: bool,
}

impl Outcome {
    /// Why its numbers can't be believed.
    pub fn doubts(&self) -> Vec<Doubt> {
        let latency = self.results.times(Measure::Latency, None);
        let evidence = Evidence {
            closed: self.closed,
            sends: self.lateness.sends,
            late: self.lateness.late,
            lateness_p99: self.lateness.times.quantile(0.99),
            latency_p99: latency.quantile(0.99),
            latency_mean: latency.mean(),
            turnaround_mean: self.turnaround.mean(),
            busy: self.health.busy,
            waited: self.health.waited,
            stolen: self.health.stolen,
            stood: self.stood_share(),
            errors: self.errors.of(crate::failure::Owner::Injector),
            connections: self.connections as u64,
            found: self.occupancy.connections(self.measured),
        };
        doubts(&evidence, &THRESHOLDS)
    }

    /// The largest share of the time that a thread stood still.
    pub fn stood_share(&self) -> f64 {
        self.stood.as_secs_f64() / self.measured.as_secs_f64().max(f64::MIN_POSITIVE)
    }
}

/// Runs a plan. `make` makes each thread's workload; `each_window` hears of each as it ends.
///
/// # Errors
/// It could not be begun.
pub fn run<W: Workload + 'static>(
    plan: &Plan,
    make: impl Fn(usize) -> W + Sync,
    each_window: impl FnMut(&Ended),
) -> Result<Outcome, EngineError> {
    run_over(&Kept::default(), plan, make, each_window)
}

/// The same over connections that may be there already, and that are kept.
fn run_over<W: Workload + 'static>(
    kept: &Kept,
    plan: &Plan,
    make: impl Fn(usize) -> W + Sync,
    each_window: impl FnMut(&Ended),
) -> Result<Outcome, EngineError> {
    check(plan)?;
    // A demand that is missed ends this run alone.
    let plan = &Plan { stop: plan.stop.of_run(), ..plan.clone() };
    let first = make(0);
    let (operations, last) = (first.operations(), last(plan, first.requests_max())?);
    let addresses = addresses(&plan.target)?;
    let (say, said) = sync_channel(SAID_MAX);
    std::thread::scope(|scope| {
        let mut starts = Vec::new();
        for number in 0..plan.threads {
            let (start, started) = oneshot::channel();
            starts.push(start);
            let (say, last) = (say.clone(), last.clone());
            let task = Task { number, plan, kept, addresses: &addresses, say, last, started };
            let make = &make;
            let spawned = std::thread::Builder::new().name(format!("load-{number}")).spawn_scoped(
                scope,
                move || {
                    let say = task.say.clone();
                    if let Err(error) = thread::run(task, BusyTime::default(), || make(number)) {
                        let _ = say.send(Said::Failed(error));
                    }
                },
            );
            spawned.map_err(|error| EngineError::Injector(error.to_string()))?;
        }
        drop(say);
        let outcome = conduct(plan, starts, &said, each_window)?;
        Ok(Outcome { operations, ..outcome })
    })
}

/// Waits until all connections are open, starts all threads at one moment, and gathers what they
/// say. Threads whose start is dropped end by themselves.
fn conduct(
    plan: &Plan,
    starts: Vec<oneshot::Sender<Timeline>>,
    said: &Receiver<Said>,
    mut each_window: impl FnMut(&Ended),
) -> Result<Outcome, EngineError> {
    let connects = all_ready(plan, said)?;
    let duration = match &plan.pace {
        Pace::Open(schedule) => schedule.duration(),
        Pace::Closed(duration) => *duration,
    };
    let timeline = Timeline::new(Instant::now(), SystemTime::now, plan.warm_up, duration);
    for start in starts {
        let _ = start.send(timeline);
    }
    let offered = match &plan.pace {
        Pace::Open(schedule) => Offered::new(schedule, plan.warm_up),
        Pace::Closed(_) => Offered::default(),
    };
    let whole = timeline.whole_windows();
    let mut collector = Collector::new(plan.threads, whole, timeline.wall, offered);
    let (mut parts, mut aborted) = (Vec::new(), None);
    let mut sliding = Sliding::new(&plan.abort);
    while let Ok(said) = said.recv() {
        match said {
            Said::Window(number, window) => {
                for ended in collector.add(number, &window) {
                    each_window(&ended);
                    let on_stretch = sliding.window(&ended.results);
                    if aborted.is_none() {
                        let of_all = missed(plan, &collector.results, ended.row.number);
                        aborted = of_all.or(on_stretch);
                        aborted.iter().for_each(|_| plan.stop.ask());
                    }
                }
            }
            Said::Ended(part) => parts.push(part),
            Said::Failed(error) => return Err(error),
            Said::Ready(_) => {}
        }
    }
    if parts.len() != plan.threads {
        return Err(EngineError::Injector("a thread ended by itself".to_owned()));
    }
    let outcome = Outcome {
        closed: plan.is_closed(),
        connections: plan.connections,
        measured: duration,
        wall: timeline.wall,
        stopped: plan.stop.asked() > 0 && aborted.is_none(),
        aborted,
        rest: collector.rest(),
        rows: collector.rows,
        operations: Vec::new(),
        results: collector.results,
        lateness: Lateness::default(),
        turnaround: Times::new(),
        occupancy: Occupancy::default(),
        errors: Errors::default(),
        connects,
        reconnects: 0,
        commands: 0,
        health: Health::default(),
        stood: Duration::ZERO,
        warm_up: WarmUp { duration: plan.warm_up, ..WarmUp::default() },
        used_up: false,
    };
    Ok(parts.into_iter().fold(outcome, with))
}

/// Waits until all threads have their connections; how long these took to open.
fn all_ready(plan: &Plan, said: &Receiver<Said>) -> Result<Times, EngineError> {
    let mut connects = Times::new();
    for _ in 0..plan.threads {
        match said.recv() {
            Ok(Said::Ready(times)) => connects.add(&times),
            Ok(Said::Failed(error)) => return Err(error),
            Ok(Said::Window(..) | Said::Ended(_)) | Err(_) => {
                return Err(EngineError::Injector("a thread ended before its time".to_owned()));
            }
        }
    }
    Ok(connects)
}

/// Adds what a thread saw.
fn with(mut outcome: Outcome, part: Box<Part>) -> Outcome {
    let seen = &part.seen;
    outcome.measured = outcome.measured.min(part.measured);
    outcome.lateness.add(&seen.lateness);
    outcome.turnaround.add(&seen.turnaround);
    outcome.occupancy.add(&seen.occupancy);
    outcome.errors.add(&seen.errors);
    outcome.reconnects += seen.reconnects;
    outcome.commands += seen.commands;
    outcome.warm_up.requests += seen.warm_up.requests;
    outcome.warm_up.failed += seen.warm_up.failed;
    outcome.stood = outcome.stood.max(part.stood);
    outcome.used_up |= part.used_up;
    outcome.health.busy = outcome.health.busy.max(part.health.busy);
    outcome.health.waited = outcome.health.waited.max(part.health.waited);
    outcome.health.stolen = outcome.health.stolen.max(part.health.stolen);
    outcome
}

/// The first demand that the run so far misses.
fn missed(plan: &Plan, so_far: &Results, window: u64) -> Option<(Gate, String)> {
    let measured = crate::window::WINDOW * u32::try_from(window + 1).unwrap_or(u32::MAX);
    plan.abort.iter().find_map(|gate| {
        let found = gate.missed(so_far, measured)?;
        Some((gate.clone(), found))
    })
}

/// The numbers of requests where there are only so many; a schedule may not have more.
fn last(plan: &Plan, requests: Option<u64>) -> Result<Option<Last>, EngineError> {
    let Some(requests) = requests else { return Ok(None) };
    if let Pace::Open(schedule) = &plan.pace {
        let mut due = schedule.clone().warmed_up(plan.warm_up).due(0, 1);
        if due.nth(usize::try_from(requests).unwrap_or(usize::MAX)).is_some() {
            return Err(EngineError::Plan(format!(
                "there are data for {requests} requests, each once, and more are due, with the \
                 warm-up: shorten the load, or add rows"
            )));
        }
    }
    Ok(Some(Last { next: Arc::default(), requests }))
}

/// Refuses what can't work, before anything is opened.
fn check(plan: &Plan) -> Result<(), EngineError> {
    let wrong = |words: String| Err(EngineError::Plan(words));
    if plan.threads == 0 || plan.threads > THREADS_MAX {
        return wrong(format!("an injector has 1 to {THREADS_MAX} threads"));
    }
    if plan.connections < plan.threads || plan.connections > CONNECTIONS_MAX {
        return wrong(format!(
            "there are {CONNECTIONS_MAX} connections at most, 1 for each thread"
        ));
    }
    if plan.timeout.is_zero() {
        return wrong("a timeout is longer than nothing".to_owned());
    }
    if matches!(plan.pace, Pace::Closed(duration) if duration.is_zero()) {
        return wrong("a load lasts longer than 0 s".to_owned());
    }
    let limit = flow::nofile::raise().ok().and_then(|limit| limit.now);
    let needed = plan.connections as u64 + DESCRIPTORS_BESIDE;
    if limit.is_some_and(|limit| limit < needed) {
        return wrong(format!(
            "{} connections need {needed} open files, and {} are allowed: raise that (ulimit -n)",
            plan.connections,
            limit.unwrap_or_default()
        ));
    }
    Ok(())
}

/// Every address of the server's name; of a socket's path none.
fn addresses(target: &Target) -> Result<Vec<SocketAddr>, EngineError> {
    let Address::Tcp { host, port } = &target.address else { return Ok(Vec::new()) };
    let found = std::net::ToSocketAddrs::to_socket_addrs(&(&**host, *port));
    match found.map(Iterator::collect::<Vec<_>>) {
        Ok(found) if !found.is_empty() => Ok(found),
        Ok(_) => Err(EngineError::Plan(format!("{host} has no address"))),
        Err(error) => Err(EngineError::Plan(format!("{host} can't be looked up: {error}"))),
    }
}
