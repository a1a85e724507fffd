//! A load generator: constant rate with the latency from the intended time, or as fast as answers
//! come. One thread, many connections, so that the schedule does not depend on answers.

mod socket;

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event};
use sched::Slice;

use crate::wait;
use socket::{Progress, Socket};

/// The longest latency that is told apart, in microseconds.
const LATENCY_MAX_US: u64 = 120_000_000;
/// How often it is looked whether an answer is overdue.
const LATE_TURN: Duration = Duration::from_millis(100);
/// Sockets that are looked at in one turn.
const EVENTS_MAX: usize = 256;
/// How long to leave a server alone that refuses connections.
const REFUSED_PAUSE: Duration = Duration::from_millis(5);

/// When requests are sent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Pace {
    /// So many a second, whatever the answers do.
    Rate(f64),
    /// The next one as soon as a connection has its answer.
    Closed,
}

/// What to send where, how fast and for how long.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The server.
    pub address: SocketAddr,
    /// When requests are sent.
    pub pace: Pace,
    /// For how long new requests are sent.
    pub duration: Duration,
    /// Connections at once.
    pub connections: usize,
    /// How long an answer may take before the request counts as unanswered.
    pub timeout: Duration,
    /// Ends the load early when true.
    pub stop: Arc<AtomicBool>,
}

impl Plan {
    /// A constant rate over 64 connections.
    pub fn rate(address: SocketAddr, per_second: f64, duration: Duration) -> Self {
        Self {
            address,
            pace: Pace::Rate(per_second),
            duration,
            connections: 64,
            timeout: wait::LONG,
            stop: Arc::default(),
        }
    }

    /// As fast as answers come, over so many connections.
    pub fn closed(address: SocketAddr, connections: usize, duration: Duration) -> Self {
        Self { pace: Pace::Closed, connections, ..Self::rate(address, 0.0, duration) }
    }

    fn intended(&self, number: u64) -> Duration {
        match self.pace {
            Pace::Rate(rate) => Duration::from_secs_f64(number as f64 / rate),
            Pace::Closed => Duration::ZERO,
        }
    }
}

/// What came of a load.
#[derive(Debug, Clone)]
pub struct Report {
    /// Requests sent.
    pub sent: u64,
    /// Answers by status; 0 stands for none.
    pub statuses: BTreeMap<u16, u64>,
    /// The numbers of the requests that were answered with 204.
    pub acknowledged: Vec<u64>,
    /// Microseconds from the intended time to the answer, of answered requests.
    pub latency: Histogram<u64>,
    /// Microseconds from the intended time to the send: how far the generator was behind.
    pub lag: Histogram<u64>,
    /// From the first send to the last answer.
    pub elapsed: Duration,
}

impl Report {
    fn new() -> Self {
        Self {
            sent: 0,
            statuses: BTreeMap::new(),
            acknowledged: Vec::new(),
            latency: latencies(),
            lag: latencies(),
            elapsed: Duration::ZERO,
        }
    }

    /// How many answers had this status.
    pub fn count(&self, status: u16) -> u64 {
        self.statuses.get(&status).copied().unwrap_or(0)
    }

    /// A percentile of the latency.
    pub fn percentile(&self, percent: f64) -> Duration {
        Duration::from_micros(self.latency.value_at_quantile(percent / 100.0))
    }
}

/// Appends a `POST` of `body` to `out`.
pub fn put_post(out: &mut Vec<u8>, target: &str, body: &[u8]) {
    out.extend_from_slice(b"POST ");
    out.extend_from_slice(target.as_bytes());
    out.extend_from_slice(b" HTTP/1.1\r\nHost: weir\r\nContent-Length: ");
    out.extend_from_slice(body.len().to_string().as_bytes());
    out.extend_from_slice(b"\r\n\r\n");
    out.extend_from_slice(body);
}

/// Sends the load; `request` appends the bytes of request number n.
///
/// # Panics
/// When the system can't poll.
pub fn run(plan: &Plan, request: impl FnMut(u64, &mut Vec<u8>)) -> Report {
    Clients::connect(plan).run(plan, request)
}

/// Connections that are kept from one load to the next.
pub struct Clients {
    epoll: Rc<OwnedFd>,
    sockets: Vec<Socket>,
}

impl Clients {
    /// Connects where and as often as the plan says.
    ///
    /// # Panics
    /// When the system can't poll.
    pub fn connect(plan: &Plan) -> Self {
        let epoll = Rc::new(epoll::create(CreateFlags::CLOEXEC).expect("epoll can be had"));
        let socket = |at| Socket::connected(plan.address, epoll.clone(), at);
        Self { sockets: (0..plan.connections).map(socket).collect(), epoll }
    }

    /// Sends a load to the same server; `request` appends the bytes of request number n. Meanwhile
    /// the thread has short slices of CPU time: what it waits for a CPU itself no client elsewhere
    /// would.
    ///
    /// # Panics
    /// When the system can't poll.
    pub fn run(&mut self, plan: &Plan, request: impl FnMut(u64, &mut Vec<u8>)) -> Report {
        sched::set_slice(Slice::Short);
        let report = Run::new(plan, self, request).finish();
        sched::set_slice(Slice::Usual);
        report
    }
}

struct Run<'a, F> {
    plan: &'a Plan,
    request: F,
    epoll: Rc<OwnedFd>,
    events: Vec<Event>,
    looked_at: Instant,
    sockets: &'a mut [Socket],
    idle: Vec<usize>,
    /// Due and not yet sent, for want of an idle connection.
    due: VecDeque<u64>,
    next: u64,
    begun: Instant,
    bytes: Vec<u8>,
    report: Report,
    refused_at: Option<Instant>,
}

impl<'a, F: FnMut(u64, &mut Vec<u8>)> Run<'a, F> {
    fn new(plan: &'a Plan, clients: &'a mut Clients, request: F) -> Self {
        Self {
            plan,
            request,
            epoll: clients.epoll.clone(),
            events: Vec::with_capacity(EVENTS_MAX),
            looked_at: Instant::now(),
            idle: (0..clients.sockets.len()).rev().collect(),
            sockets: &mut clients.sockets,
            due: VecDeque::new(),
            next: 0,
            begun: Instant::now(),
            bytes: Vec::new(),
            report: Report::new(),
            refused_at: None,
        }
    }

    fn finish(mut self) -> Report {
        loop {
            let over = self.is_over();
            if !over {
                self.schedule();
            }
            self.send_due();
            if over && self.due.is_empty() && self.idle.len() == self.sockets.len() {
                self.report.elapsed = self.begun.elapsed();
                return self.report;
            }
            let ready = self.wait();
            self.receive(ready);
        }
    }

    fn is_over(&self) -> bool {
        let planned = match self.plan.pace {
            Pace::Rate(_) => self.plan.intended(self.next) >= self.plan.duration,
            Pace::Closed => self.begun.elapsed() >= self.plan.duration,
        };
        planned || self.plan.stop.load(Ordering::Relaxed)
    }

    fn schedule(&mut self) {
        match self.plan.pace {
            Pace::Closed => {
                if self.refused_at.is_some_and(|at| at.elapsed() < REFUSED_PAUSE) {
                    return;
                }
                for _ in self.due.len()..self.idle.len() {
                    self.due.push_back(self.next);
                    self.next += 1;
                }
            }
            Pace::Rate(_) => {
                let now = self.begun.elapsed();
                loop {
                    let at = self.plan.intended(self.next);
                    if at > now || at >= self.plan.duration {
                        return;
                    }
                    self.due.push_back(self.next);
                    self.next += 1;
                }
            }
        }
    }

    fn send_due(&mut self) {
        while let (Some(number), Some(at)) = (self.due.front().copied(), self.idle.last().copied())
        {
            self.due.pop_front();
            let intended = match self.plan.pace {
                Pace::Rate(_) => self.begun + self.plan.intended(number),
                Pace::Closed => Instant::now(),
            };
            self.bytes.clear();
            (self.request)(number, &mut self.bytes);
            self.report.sent += 1;
            note(&mut self.report.lag, intended.elapsed());
            if self.sockets[at].send(self.plan.address, number, intended, &self.bytes) {
                self.idle.pop();
                continue;
            }
            self.answered(number, intended, 0);
            if self.plan.pace == Pace::Closed {
                // What else was due was made up for connections that are not to be had.
                self.refused_at = Some(Instant::now());
                self.next -= self.due.len() as u64;
                self.due.clear();
            }
        }
    }

    /// Waits until something can be read or the next request is due; gives the sockets to look at.
    fn wait(&mut self) -> Vec<usize> {
        let now = self.begun.elapsed();
        let due = match self.plan.pace {
            Pace::Rate(_) if !self.is_over() => self.plan.intended(self.next).saturating_sub(now),
            Pace::Closed if self.refused_at.is_some() => REFUSED_PAUSE,
            _ => Duration::from_millis(100),
        };
        let due = Timespec::try_from(due.min(LATE_TURN)).expect("a tenth of a second fits");
        self.events.clear();
        let room = rustix::buffer::spare_capacity(&mut self.events);
        match epoll::wait(&*self.epoll, room, Some(&due)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => panic!("epoll: {error}"),
        }
        let mut ready: Vec<_> = self.events.iter().map(|one| one.data.u64() as usize).collect();
        if self.looked_at.elapsed() >= LATE_TURN {
            self.looked_at = Instant::now();
            let all = self.sockets.iter().enumerate();
            let late = all.filter(|(_, socket)| socket.is_late(self.plan.timeout));
            ready.extend(late.map(|(at, _)| at));
        }
        ready
    }

    fn receive(&mut self, ready: Vec<usize>) {
        for at in ready {
            match self.sockets[at].receive(self.plan.timeout) {
                Progress::Waiting => {}
                Progress::Answered { number, intended, status } => {
                    self.idle.push(at);
                    self.answered(number, intended, status);
                }
            }
        }
    }

    fn answered(&mut self, number: u64, intended: Instant, status: u16) {
        *self.report.statuses.entry(status).or_default() += 1;
        if status == 204 {
            self.report.acknowledged.push(number);
        }
        if status != 0 {
            note(&mut self.report.latency, intended.elapsed());
        }
    }
}

/// An empty histogram of microseconds.
pub fn latencies() -> Histogram<u64> {
    let made = Histogram::new_with_bounds(1, LATENCY_MAX_US, 3);
    made.expect("the bounds are constants that fit")
}

/// Notes how long something took.
pub fn note(histogram: &mut Histogram<u64>, took: Duration) {
    histogram.saturating_record(u64::try_from(took.as_micros()).unwrap_or(u64::MAX));
}
