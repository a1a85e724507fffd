//! Where a load goes, how fast and for how long, and what can't work of that.

#[cfg(test)]
mod tests;

use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use flow::dial::{Address, Target, check_fence};

use super::pacing::RequestLimit;
use super::start::Start;
use super::{EngineError, Load};
use crate::chance::Chance;
use crate::gate::Gate;
use crate::ledger::LedgerLocation;
use crate::part::RunPart;
use crate::schedule::Schedule;
use crate::verdict::{THRESHOLDS, Thresholds};

pub const CONNECTIONS_MAX: usize = 1_000_000;
pub const THREADS_MAX: usize = 256;
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

/// A time that a user takes to think: from the least to the most, each as often as any other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Think {
    least: Duration,
    most: Duration,
}

impl Think {
    /// Nothing where the least is over the most, or all of it is over a day.
    pub fn new(least: Duration, most: Duration) -> Option<Self> {
        (least <= most && most <= Duration::from_secs(86_400)).then_some(Self { least, most })
    }

    /// How long it is before a connection's next request.
    pub(super) fn draw(&self, chance: &mut Chance) -> Duration {
        self.least + (self.most - self.least).mul_f64(chance.share())
    }
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

    /// How often somebody has asked.
    pub fn asked(&self) -> u8 {
        let of_all = self.of_all.as_ref().map_or(0, |all| all.load(Ordering::Relaxed));
        self.asked.load(Ordering::Relaxed).max(of_all)
    }

    /// One for a single run, which ends with all the others as well.
    pub(super) fn of_run(&self) -> Self {
        Self { asked: Arc::default(), of_all: Some(Arc::clone(&self.asked)) }
    }
}

/// Where to send, how fast, for how long.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The server. Every address of its name is used in turn, but for those that take no
    /// connection before it begins while another does.
    pub target: Target,
    /// When requests are sent.
    pub pace: Pace,
    /// For how long requests are sent before those that count.
    pub warm_up: Duration,
    /// Connections of all threads.
    pub connections: usize,
    /// Threads among which connections are divided evenly.
    pub threads: usize,
    /// How long an answer may take from its send.
    pub timeout: Duration,
    /// A miss of one of these ends the run.
    pub abort: Vec<Gate>,
    /// Ends the run early when it is asked to.
    pub stop: Stop,
    /// How long each connection of a closed loop waits between an answer and its next request.
    pub think: Option<Think>,
    /// Beyond what it is invalid.
    pub thresholds: Thresholds,
    /// Where it is kept which requests were sent and answered.
    pub ledger: Option<LedgerLocation>,
    /// Which of the run's requests it sends; the others are sent elsewhere. The connections are
    /// its own.
    pub part: RunPart,
    /// When what is measured begins.
    pub start: Start,
}

/// How long an answer, or a connection, may take where nobody says it.
pub const TIMEOUT: Duration = Duration::from_secs(10);

/// How long an address of a name with several may take for its first connection.
const TRIED_MAX: Duration = Duration::from_secs(5);

impl Plan {
    /// How many connections its users share, where so many are wanted: each thread has one at
    /// least, and there are no more than users.
    pub(super) fn shared_connections(&self, wanted: usize) -> usize {
        wanted.clamp(self.threads, self.connections)
    }

    /// What `weir load` does where nobody says anything else: 64 connections, one thread, and no
    /// warm-up.
    pub fn new(target: Target, pace: Pace) -> Self {
        Self {
            target,
            pace,
            warm_up: Duration::ZERO,
            connections: 64,
            threads: 1,
            timeout: TIMEOUT,
            abort: Vec::new(),
            stop: Stop::default(),
            think: None,
            thresholds: THRESHOLDS,
            ledger: None,
            part: RunPart::WHOLE,
            start: Start::Soon,
        }
    }

    /// Whether each connection sends as soon as it has its answer.
    pub fn is_closed(&self) -> bool {
        matches!(self.pace, Pace::Closed(_))
    }

    /// How long requests are sent, of those that count.
    pub fn duration(&self) -> Duration {
        match &self.pace {
            Pace::Open(schedule) => schedule.duration(),
            Pace::Closed(duration) => *duration,
        }
    }
}

/// Refuses what can't work, before anything is opened.
pub(super) fn check(loads: &[Load<'_>]) -> Result<(), EngineError> {
    loads.iter().try_for_each(|load| check_one(&load.plan))?;
    let wrong = |words: String| Err(EngineError::Plan(words));
    let plans = || loads.iter().map(|load| &load.plan);
    if !plans().is_sorted_by(|a, b| a.is_closed() == b.is_closed() && a.duration() == b.duration())
    {
        return wrong(
            "the loads of a run are as long as one another, and all closed or none".into(),
        );
    }
    if loads.len() > 1 && loads.iter().any(|load| load.requests_max().is_some()) {
        return wrong("a load of rows that are used once each has no other one beside it".into());
    }
    let connections = plans().map(|plan| plan.connections as u64).sum::<u64>();
    let limit = flow::nofile::raise().ok().and_then(|limit| limit.now);
    let needed = connections + DESCRIPTORS_BESIDE;
    if let Some(limit) = limit.filter(|limit| *limit < needed) {
        return wrong(format!(
            "{connections} connections need {needed} open files, and {limit} are allowed: raise \
             that (ulimit -n)"
        ));
    }
    Ok(())
}

fn check_one(plan: &Plan) -> Result<(), EngineError> {
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
    if plan.is_closed() && plan.duration().is_zero() {
        return wrong("a load lasts longer than 0 s".to_owned());
    }
    Ok(())
}

/// The numbers of requests where there are only so many; a schedule may not have more.
pub(super) fn last(load: &Load<'_>) -> Result<Option<RequestLimit>, EngineError> {
    let Some(requests) = load.requests_max() else { return Ok(None) };
    if let Pace::Open(schedule) = &load.plan.pace {
        let mut due = schedule.clone().warmed_up(load.plan.warm_up).due(0, 1);
        if due.nth(usize::try_from(requests).unwrap_or(usize::MAX)).is_some() {
            return Err(EngineError::Plan(format!(
                "there are data for {requests} requests, each once, and more are due, with the \
                 warm-up: shorten the load, or add rows"
            )));
        }
    }
    Ok(Some(RequestLimit { next: Arc::default(), requests, part: load.plan.part }))
}

/// The addresses of a server's name that a load uses, and those that it leaves out.
#[derive(Debug, Default)]
pub(super) struct Addresses {
    /// None of a socket's path.
    pub(super) used: Vec<SocketAddr>,
    /// Those that take no connection, each with why: there is another that does.
    pub(super) left_out: Vec<(SocketAddr, String)>,
}

/// Every address of the server's name, but for those that refuse while another does not: before
/// the load begins that is no fault of the server's, as where `localhost` is `::1`, too.
pub(super) fn addresses(target: &Target) -> Result<Addresses, EngineError> {
    let Address::Tcp { host, port } = &target.address else { return Ok(Addresses::default()) };
    let found = std::net::ToSocketAddrs::to_socket_addrs(&(&**host, *port));
    let found = match found.map(Iterator::collect::<Vec<_>>) {
        Ok(found) if !found.is_empty() => found,
        Ok(_) => return Err(EngineError::Plan(format!("{host} has no address"))),
        Err(error) => {
            return Err(EngineError::Plan(format!("{host} can't be looked up: {error}")));
        }
    };
    if found.len() == 1 {
        return Ok(Addresses { used: found, ..Addresses::default() });
    }
    // All at a time: each of those that are silent costs the whole limit.
    let tried: Vec<_> = std::thread::scope(|scope| {
        let limit = target.connect_timeout.min(TRIED_MAX);
        let each = found.iter().map(|address| {
            scope.spawn(move || {
                check_fence(*address)?;
                TcpStream::connect_timeout(address, limit).map(drop)
            })
        });
        let each: Vec<_> = each.collect();
        each.into_iter().map(|tried| tried.join().unwrap_or(Ok(()))).collect()
    });
    if tried.iter().all(Result::is_err) {
        return Ok(Addresses { used: found, ..Addresses::default() });
    }
    let mut all = Addresses::default();
    for (address, tried) in found.into_iter().zip(tried) {
        match tried {
            Ok(()) => all.used.push(address),
            Err(error) => all.left_out.push((address, error.to_string())),
        }
    }
    Ok(all)
}
