//! Sends requests and hears of answers. Each thread of the injector has a runtime, connections and
//! a share of the schedule of its own, and hands on its windows as they end.

// Layers, from the top down.
//   asking, idle_connections
//   load, outcome
//   thread
//   servers
//   channel_task, pacer
//   alarm, connection
//   line
//   channels
//   channel
//   exchange, opening, record, sending
//   collector, looks, plan
//   balance, callers, idle, offered, pacing, pauses, start

mod alarm;
mod asking;
mod balance;
mod callers;
mod channel;
mod channel_task;
mod channels;
mod collector;
mod connection;
mod exchange;
mod idle;
mod idle_connections;
mod line;
mod load;
mod looks;
mod offered;
mod opening;
mod outcome;
mod pacer;
mod pacing;
mod pauses;
mod plan;
mod record;
mod sending;
mod servers;
mod start;
mod thread;

use std::sync::mpsc::{Receiver, sync_channel};
use std::time::{Duration, Instant, SystemTime};

use tokio::sync::oneshot;

use crate::discovery::DiscoveryError;
use crate::gate::{AbortGates, Gate};
use crate::network::Network;
use crate::verdict::Thresholds;
use crate::window::{Timeline, TooLate};
use crate::workload::Workload;
pub use asking::{AskError, Conversation, ask};
use collector::Collector;
pub use collector::{FinishedWindow, LATENCIES, ROWS_MAX, Row, Window, row};
pub use idle_connections::IdleConnections;
pub use load::{Load, names};
use offered::Offered;
pub use opening::OpenError;
pub use outcome::{Outcome, WarmUp};
use plan::Addresses;
pub use plan::{CONNECTIONS_MAX, Pace, Plan, Stop, THREADS_MAX, TIMEOUT, Think};
pub use start::{Start, StartAgreement};
use thread::{Task, ThreadMessage};

/// Messages of threads that may wait.
const MESSAGES_MAX: usize = 64;

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
        source: OpenError,
    },
    /// A registry does not say where to send.
    #[error(transparent)]
    Discovery(#[from] DiscoveryError),
    /// The start was waited for, and whoever was to say it has ended the run.
    #[error("the run was called off before it began")]
    CalledOff,
    /// A thread could not be started, or ended by itself.
    #[error("the injector can't run: {0}; the server is not at fault")]
    Injector(String),
}

/// Runs a plan. `make` makes each thread's workload; `each_window` hears of each as it ends.
///
/// # Errors
/// It could not be begun.
pub fn run<W: Workload + 'static>(
    plan: &Plan,
    make: impl Fn(usize) -> W + Sync,
    each_window: impl FnMut(&FinishedWindow),
) -> Result<Outcome, EngineError> {
    run_all(&[Load::new("load", plan.clone(), make)], each_window)
}

/// Runs several loads at one time. Each has threads, connections and a schedule of its own; the
/// first one's plan says what is of the whole run: what ends it, and what was before it.
///
/// # Errors
/// It could not be begun.
pub fn run_all(
    loads: &[Load<'_>],
    each_window: impl FnMut(&FinishedWindow),
) -> Result<Outcome, EngineError> {
    run_over(&IdleConnections::default(), loads, each_window)
}

/// The same over connections that may be there already, and that are kept.
fn run_over(
    kept: &IdleConnections,
    loads: &[Load<'_>],
    each_window: impl FnMut(&FinishedWindow),
) -> Result<Outcome, EngineError> {
    plan::check(loads)?;
    let operations = names(loads);
    let whole = Whole::new(loads, &operations)?;
    let servers = loads.iter().map(Load::discover).collect::<Result<Vec<_>, _>>()?;
    let addresses = loads.iter().zip(&servers).map(|(load, servers)| match servers {
        None => plan::addresses(&load.plan.target),
        Some(_) => Ok(Addresses::default()),
    });
    let addresses = addresses.collect::<Result<Vec<_>, _>>()?;
    let last = loads.iter().map(plan::last).collect::<Result<Vec<_>, _>>()?;
    let plans: Vec<_> = loads
        .iter()
        .map(|load| Plan { stop: whole.stop.clone(), warm_up: whole.warm_up, ..load.plan.clone() })
        .collect();
    let (say, said) = sync_channel(MESSAGES_MAX);
    std::thread::scope(|scope| {
        let (mut starts, mut first_operation) = (Vec::new(), 0);
        let each = loads.iter().zip(&plans).zip(addresses.iter().zip(&servers)).zip(&last);
        for (((load, plan), (Addresses { used: addresses, .. }, servers)), last) in each {
            for number in 0..plan.threads {
                let (start, started) = oneshot::channel();
                starts.push(start);
                let (say, last, servers) = (say.clone(), last.clone(), servers.clone());
                let of_load = (number, first_operation);
                let task = Task { of_load, plan, kept, addresses, servers, say, last, started };
                let spawned = std::thread::Builder::new()
                    .name(format!("load-{number}"))
                    .spawn_scoped(scope, move || load.send(task));
                spawned.map_err(|error| EngineError::Injector(error.to_string()))?;
            }
            first_operation += load.operations().len();
        }
        drop(say);
        let mut outcome = conduct(&whole, starts, &said, each_window)?;
        let left_out = addresses.iter().flat_map(|of| &of.left_out);
        left_out.for_each(|(address, why)| outcome.network.leave_out(*address, why));
        for mut servers in servers.into_iter().flatten() {
            outcome.calls.leave_out(servers.servers().left_out.iter());
        }
        Ok(Outcome { operations, ..outcome })
    })
}

/// What is of all loads of a run.
struct Whole {
    closed: bool,
    connections: usize,
    threads: usize,
    duration: Duration,
    warm_up: Duration,
    offered: Offered,
    abort: Vec<Gate>,
    thresholds: Thresholds,
    stop: Stop,
    start: Start,
}

impl Whole {
    fn new(loads: &[Load<'_>], operations: &[String]) -> Result<Self, EngineError> {
        let plans = || loads.iter().map(|load| &load.plan);
        let first = plans().next().ok_or_else(|| EngineError::Plan("nothing is loaded".into()))?;
        let on = |gate: &Gate| gate.clone().on(operations);
        let abort = first.abort.iter().map(on).collect::<Result<_, _>>();
        let schedules = plans().filter_map(|plan| match &plan.pace {
            Pace::Open(schedule) => Some((schedule, plan.part)),
            Pace::Closed(_) => None,
        });
        Ok(Self {
            closed: first.is_closed(),
            connections: plans().map(|plan| plan.connections).sum(),
            threads: plans().map(|plan| plan.threads).sum(),
            duration: first.duration(),
            warm_up: first.warm_up,
            offered: Offered::new(schedules, first.warm_up),
            abort: abort.map_err(|error| EngineError::Plan(error.to_string()))?,
            thresholds: first.thresholds,
            // A demand that is missed ends this run alone.
            stop: first.stop.of_run(),
            start: first.start.clone(),
        })
    }
}

impl Whole {
    /// When the parts of the run are, now that everything else is ready.
    fn timeline(&self, network: &Network) -> Result<Timeline, EngineError> {
        let (warm_up, duration) = (self.warm_up, self.duration);
        let late = |late: TooLate| EngineError::Plan(late.to_string());
        match &self.start {
            Start::Soon => Ok(Timeline::new(Instant::now(), SystemTime::now, warm_up, duration)),
            Start::At(wall) => {
                let (now, wall_now) = (Instant::now(), SystemTime::now());
                Timeline::at(*wall, now, wall_now, warm_up, duration).map_err(late)
            }
            Start::Agreed(agreement) => {
                let start = agreement.wait(network).ok_or(EngineError::CalledOff)?;
                Timeline::agreed(start, Instant::now(), warm_up, duration).map_err(late)
            }
        }
    }
}

/// Waits until all connections are open, starts all threads at one moment, and gathers what they
/// say. Threads whose start is dropped end by themselves.
fn conduct(
    run: &Whole,
    starts: Vec<oneshot::Sender<Timeline>>,
    said: &Receiver<ThreadMessage>,
    mut each_window: impl FnMut(&FinishedWindow),
) -> Result<Outcome, EngineError> {
    let network = all_ready(run, said)?;
    let timeline = run.timeline(&network)?;
    for start in starts {
        let _ = start.send(timeline);
    }
    let whole = timeline.whole_windows();
    let (offered, tolerance) = (run.offered.clone(), run.thresholds.tolerance());
    let mut collector = Collector::new(run.threads, whole, timeline.wall, offered, tolerance);
    let (mut parts, mut aborted) = (Vec::new(), None);
    let mut abort = AbortGates::new(run.abort.clone(), tolerance);
    while let Ok(said) = said.recv() {
        match said {
            ThreadMessage::Window(number, window) => {
                for ended in collector.add(number, &window) {
                    each_window(&ended);
                    let missed = abort.window(ended.row.number, &ended.results, &collector.results);
                    if aborted.is_none() {
                        aborted = missed;
                        aborted.iter().for_each(|_| run.stop.ask());
                    }
                }
            }
            ThreadMessage::Ended(part) => parts.push(part),
            ThreadMessage::Failed(error) => return Err(error),
            ThreadMessage::Ready(_) => {}
        }
    }
    if parts.len() != run.threads {
        return Err(EngineError::Injector("a thread ended by itself".to_owned()));
    }
    abort.end(&collector.rest());
    let mut outcome = Outcome {
        closed: run.closed,
        connections: run.connections,
        threads: run.threads,
        measured: run.duration,
        wall: timeline.wall,
        stopped: run.stop.is_asked() && aborted.is_none(),
        aborted,
        rest: collector.rest(),
        rows: collector.rows,
        results: collector.results,
        network,
        thresholds: run.thresholds,
        warm_up: WarmUp { duration: run.warm_up, ..WarmUp::default() },
        ..Outcome::default()
    };
    outcome = parts.iter().fold(outcome, |outcome, part| outcome.with(part));
    if outcome.aborted.is_none() {
        outcome.unjudged = abort.unjudged(&outcome.results, outcome.measured);
    }
    Ok(outcome)
}

/// Waits until all threads have their connections; what is known of their ways.
fn all_ready(run: &Whole, said: &Receiver<ThreadMessage>) -> Result<Network, EngineError> {
    let mut network = Network::default();
    for _ in 0..run.threads {
        match said.recv() {
            Ok(ThreadMessage::Ready(of_thread)) => network.add(&of_thread),
            Ok(ThreadMessage::Failed(error)) => return Err(error),
            Ok(ThreadMessage::Window(..) | ThreadMessage::Ended(_)) | Err(_) => {
                return Err(EngineError::Injector("a thread ended before its time".to_owned()));
            }
        }
    }
    Ok(network)
}
