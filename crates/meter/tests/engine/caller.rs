//! What a caller has of the engine that makes its own requests: it hears of each answer, keeps its
//! connections, and stops where it wants to.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use meter::engine::{IdleConnections, Pace, Plan, Stop, run};
use meter::http::Http;
use meter::recorder::Kind;
use meter::workload::{Answer, Workload};

use super::server::{NO_CONTENT, Server};
use super::{MS, http, open, plan};

/// Notes what it hears.
struct Hearing(Http, Arc<Mutex<HeardAnswers>>);

/// Numbers of requests, each with the status of its answer.
type HeardAnswers = Vec<(u64, Option<u16>)>;

impl Workload for Hearing {
    type Reader = <Http as Workload>::Reader;

    fn request(&mut self, number: u64, out: &mut Vec<u8>) -> usize {
        self.0.request(number, out)
    }

    fn reader(&self) -> Self::Reader {
        self.0.reader()
    }

    fn heard(&mut self, number: u64, answer: Option<&Answer>) {
        self.1.lock().unwrap().push((number, answer.map(|answer| answer.code)));
    }
}

#[test]
fn a_caller_hears_once_what_came_of_each_request() {
    let count = AtomicU64::new(0);
    let server = Server::start(move |stream| match count.fetch_add(1, Ordering::Relaxed) % 4 {
        0 => false,
        1 => stream.send(b"HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n"),
        _ => stream.send(NO_CONTENT),
    });
    let heard = Arc::default();
    let plan = plan(server.address, open(40.0, Duration::from_secs(1)), 16);
    let outcome = run(&plan, |_| Hearing(http(), Arc::clone(&heard)), |_| {}).unwrap();
    let mut heard = heard.lock().unwrap();
    heard.sort_unstable();
    let unsent = outcome.results.count(Kind::Unsent);
    let numbers: Vec<u64> = heard.iter().map(|(number, _)| *number).collect();
    assert_eq!(numbers, (0..40 - unsent).collect::<Vec<_>>());
    let with = |code| heard.iter().filter(|(_, of)| *of == code).count() as u64;
    assert_eq!(with(None), outcome.results.count(Kind::Network));
    assert_eq!(with(Some(503)), outcome.results.count(Kind::Server));
    assert_eq!(with(Some(204)), outcome.results.count(Kind::Succeeded));
    assert!(with(None) > 0 && with(Some(503)) > 0 && with(Some(204)) > 0);
}

#[test]
fn connections_are_kept_from_one_load_to_the_next() {
    let server = Server::start(|stream| stream.send(NO_CONTENT));
    let kept = IdleConnections::default();
    let load = |threads, connections| {
        let plan = Plan { threads, ..plan(server.address, open(50.0, 200 * MS), connections) };
        let outcome = kept.run(&plan, |_| http(), |_| {}).unwrap();
        assert_eq!((outcome.results.total(), outcome.results.failed()), (10, 0));
        assert_eq!(outcome.reconnects, 0);
        outcome.network.connects().count()
    };
    assert_eq!((load(1, 4), kept.len()), (4, 4));
    // Whichever thread has had them.
    assert_eq!((load(2, 4), kept.len()), (0, 4));
    assert_eq!((load(1, 6), kept.len()), (2, 6));
    assert_eq!((load(1, 3), kept.len()), (0, 6));
    assert_eq!(server.requests(), 40);
}

#[test]
fn a_connection_that_the_server_has_closed_meanwhile_is_not_kept() {
    let (closed, kept) = (AtomicU64::new(0), IdleConnections::default());
    let server = Server::start(move |stream| {
        // The first one says nothing of its end, which comes behind its answer.
        stream.send(NO_CONTENT) && closed.fetch_add(1, Ordering::Relaxed) > 0
    });
    let load = || {
        let plan = plan(server.address, open(10.0, 100 * MS), 1);
        let outcome = kept.run(&plan, |_| http(), |_| {}).unwrap();
        assert_eq!((outcome.results.total(), outcome.results.failed()), (1, 0));
    };
    load();
    load();
    assert_eq!((server.requests(), kept.len()), (2, 1));
}

/// Stops the run at a request.
struct Stopping(Http, Stop, u64);

impl Workload for Stopping {
    type Reader = <Http as Workload>::Reader;

    fn request(&mut self, number: u64, out: &mut Vec<u8>) -> usize {
        if number == self.2 {
            self.1.ask();
        }
        self.0.request(number, out)
    }

    fn reader(&self) -> Self::Reader {
        self.0.reader()
    }
}

#[test]
fn a_closed_loop_that_is_stopped_sends_nothing_more() {
    let server = Server::start(|stream| stream.send(NO_CONTENT));
    let plan = plan(server.address, Pace::Closed(Duration::from_secs(60)), 1);
    let stop = plan.stop.clone();
    let outcome = run(&plan, |_| Stopping(http(), stop.clone(), 100), |_| {}).unwrap();
    assert_eq!((server.requests(), outcome.results.total()), (101, 101));
    assert!(outcome.stopped);
}
