//! Loads whose requests a caller makes one by one, by the load meter's library: how many were sent,
//! and what came of each.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use flow::dial::{Address, Target};
use meter::engine::{IdleConnections, Outcome, Pace, Plan};
use meter::http::answer::Answers;
use meter::recorder::Measure;
use meter::schedule::{Arrivals, Schedule, Segment};
use meter::workload::{Answer, Workload};

use crate::wait;

/// A load at a constant rate, over 64 connections of one thread, from now on.
///
/// # Panics
/// When no schedule has that rate.
pub fn rate(address: SocketAddr, per_second: f64, duration: Duration) -> Plan {
    let segments = vec![Segment::constant(per_second, duration)];
    let schedule = Schedule::new(segments, Arrivals::Even).expect("the rate can be kept");
    plan(address, Pace::Open(schedule))
}

/// A load that is as fast as answers come, over so many connections of one thread, from now on.
pub fn closed(address: SocketAddr, connections: usize, duration: Duration) -> Plan {
    Plan { connections, ..plan(address, Pace::Closed(duration)) }
}

fn plan(address: SocketAddr, pace: Pace) -> Plan {
    let (host, port) = (address.ip().to_string(), address.port());
    let connect_timeout = wait::LONG;
    let target = Target { address: Address::Tcp { host, port }, tls: None, connect_timeout };
    Plan { timeout: wait::LONG, ..Plan::new(target, pace) }
}

/// What came of a load.
#[derive(Debug, Clone)]
pub struct Report {
    /// Requests sent; their numbers are those below.
    pub sent: u64,
    /// Answers by status; 0 stands for none.
    pub statuses: BTreeMap<u16, u64>,
    /// The numbers of the requests that were answered with 204.
    pub acknowledged: Vec<u64>,
    /// What the meter says.
    pub outcome: Outcome,
}

impl Report {
    /// How many answers had this status.
    pub fn count(&self, status: u16) -> u64 {
        self.statuses.get(&status).copied().unwrap_or(0)
    }

    /// The latency below which that share of all is, from when each was due.
    pub fn latency(&self, share: f64) -> Duration {
        self.outcome.results.times(Measure::Latency, None).quantile(share)
    }

    /// How late that share of sends was at most, by the meter's own doing.
    pub fn lag(&self, share: f64) -> Duration {
        self.outcome.lateness.times.quantile(share)
    }

    /// How long requests were sent.
    pub fn elapsed(&self) -> Duration {
        self.outcome.measured
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
/// When it can't be begun.
pub fn run(plan: &Plan, request: impl FnMut(u64, &mut Vec<u8>) + Send + 'static) -> Report {
    run_over(&IdleConnections::default(), plan, request)
}

/// The same over connections that are kept from one load to the next.
///
/// # Panics
/// When it can't be begun.
pub fn run_over(
    kept: &IdleConnections,
    plan: &Plan,
    request: impl FnMut(u64, &mut Vec<u8>) + Send + 'static,
) -> Report {
    let (sent, statuses, acknowledged) = (0, BTreeMap::new(), Vec::new());
    let told = Arc::new(Mutex::new(RequestLog { request, sent, statuses, acknowledged }));
    let outcome = kept.run(plan, |_| Requests(Arc::clone(&told)), |_| {});
    let outcome = outcome.unwrap_or_else(|error| panic!("the load can't be begun: {error}"));
    let mut told = locked(&told);
    let statuses = std::mem::take(&mut told.statuses);
    let acknowledged = std::mem::take(&mut told.acknowledged);
    Report { sent: told.sent, statuses, acknowledged, outcome }
}

/// What makes requests, and what is known of them.
struct RequestLog<F> {
    request: F,
    sent: u64,
    statuses: BTreeMap<u16, u64>,
    acknowledged: Vec<u64>,
}

struct Requests<F>(Arc<Mutex<RequestLog<F>>>);

fn locked<F>(told: &Mutex<RequestLog<F>>) -> MutexGuard<'_, RequestLog<F>> {
    told.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<F: FnMut(u64, &mut Vec<u8>)> Workload for Requests<F> {
    type Reader = Answers;

    fn request(&mut self, number: u64, out: &mut Vec<u8>) -> usize {
        let mut told = locked(&self.0);
        told.sent = told.sent.max(number + 1);
        (told.request)(number, out);
        0
    }

    fn reader(&self) -> Answers {
        Answers::new(false)
    }

    fn heard(&mut self, number: u64, answer: Option<&Answer>) {
        let mut told = locked(&self.0);
        let status = answer.map_or(0, |answer| answer.code);
        *told.statuses.entry(status).or_default() += 1;
        if status == 204 {
            told.acknowledged.push(number);
        }
    }
}
