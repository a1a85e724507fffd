//! An injector that pauses: what it makes of its own is marked, judged by no demand, and no error
//! of the network's.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use meter::engine::{Outcome, Pace, Plan, run};
use meter::gate::Gate;
use meter::http::Http;
use meter::recorder::{Kind, Measure};
use meter::summary::Summary;
use meter::workload::Workload;

use super::server::{NO_CONTENT, Server};
use super::{MS, http, open, plan};

/// A thread that stands still at one request, and has no CPU meanwhile.
struct Pausing(Http, u64, Duration);

impl Workload for Pausing {
    type Reader = <Http as Workload>::Reader;

    fn request(&mut self, number: u64, out: &mut Vec<u8>) -> usize {
        if number == self.1 {
            std::thread::sleep(self.2);
        }
        self.0.request(number, out)
    }

    fn reader(&self) -> Self::Reader {
        self.0.reader()
    }
}

fn paused(plan: &Plan, at: u64, length: Duration) -> Outcome {
    run(plan, |_| Pausing(http(), at, length), |_| {}).unwrap()
}

#[test]
fn a_demand_on_the_longest_is_not_missed_by_the_injectors_own_pause() {
    let server = Server::start(|stream| stream.send(NO_CONTENT));
    let plan = plan(server.address, open(100.0, Duration::from_secs(4)), 64);
    let outcome = paused(&plan, 200, 85 * MS);
    let latency = outcome.results.distribution(Measure::Latency, None);
    let (tolerance, max) = (outcome.thresholds.tolerance(), latency.max());
    assert!(max.measured >= 85 * MS && max.is_injectors(&tolerance), "{max:?}");
    assert!(outcome.results.paused >= 84 * MS, "{:?}", outcome.results.paused);
    let gate: Gate = "max<80ms".parse().unwrap();
    let summary = Summary::new(&outcome, std::slice::from_ref(&gate));
    let said = summary.to_string();
    assert!(summary.is_invalid() && !summary.has_missed(), "{said}");
    assert!(said.contains("because max<80ms can't be judged: it was "), "{said}");
    assert!(said.contains("*        the injector's, by which no demand is judged"), "{said}");
    // The second that it was in says so, too.
    let rows = outcome.rows.iter().filter(|row| row.injectors().any(|name| name == "max"));
    assert!(rows.count() >= 1, "{said}");
    let told = summary.json();
    let own = told["latency"]["injectors"].as_array().unwrap();
    assert!(own.iter().any(|name| name == "max"), "{told}");
    assert!(told["latency"]["corrected"]["max_ns"].as_u64() < told["latency"]["max_ns"].as_u64());
}

#[test]
fn a_closed_loop_marks_what_lay_in_its_sockets_while_it_paused() {
    let server = Server::start(|stream| {
        std::thread::sleep(20 * MS);
        stream.send(NO_CONTENT)
    });
    let plan = plan(server.address, Pace::Closed(Duration::from_secs(3)), 16);
    let outcome = paused(&plan, 500, 180 * MS);
    let service = outcome.results.distribution(Measure::Service, None);
    let (tolerance, max) = (outcome.thresholds.tolerance(), service.max());
    assert!(max.measured >= 180 * MS && max.is_injectors(&tolerance), "{max:?}");
}

#[test]
fn answers_that_lay_in_their_sockets_are_no_timeouts() {
    let server = Server::start(|stream| stream.send(NO_CONTENT));
    for pace in [Pace::Closed(Duration::from_secs(2)), open(400.0, Duration::from_secs(2))] {
        let plan = Plan { timeout: 200 * MS, ..plan(server.address, pace, 64) };
        let outcome = paused(&plan, 300, 260 * MS);
        assert_eq!(outcome.results.failed(), 0, "{:?}", outcome.errors.commonest(9));
        let latency = outcome.results.distribution(Measure::Service, None);
        assert!(latency.max().measured >= 200 * MS || !outcome.closed, "{:?}", latency.max());
    }
}

#[test]
fn a_timeout_that_the_injectors_pause_made_due_is_its_own_error() {
    // The first hundred are answered, and no other one.
    let count = AtomicU64::new(0);
    let server = Server::start(move |stream| {
        let number = count.fetch_add(1, Ordering::Relaxed);
        number >= 100 || stream.send(NO_CONTENT)
    });
    let closed = Pace::Closed(Duration::from_secs(1));
    let plan = Plan { timeout: 300 * MS, ..plan(server.address, closed, 4) };
    // Three are under way without an answer, and the thread stands still before the next one.
    let outcome = paused(&plan, 103, 450 * MS);
    let causes: Vec<_> = outcome.doubts().into_iter().map(|doubt| doubt.cause).collect();
    assert!(outcome.results.count(Kind::Injector) >= 1, "{causes:?}");
    assert!(causes.iter().any(|cause| cause.contains("the injector itself had")), "{causes:?}");
    let words = outcome.errors.commonest(9);
    assert!(
        words.iter().any(|(_, words, _)| words.contains("the injector stood still")),
        "{words:?}"
    );
}

#[test]
fn what_waits_at_the_end_because_the_injector_paused_is_not_the_servers() {
    let server = Server::start(|stream| stream.send(NO_CONTENT));
    // More become due in the pause, which goes over the end, than there are connections.
    let plan = plan(server.address, open(200.0, Duration::from_secs(1)), 4);
    let outcome = paused(&plan, 170, 300 * MS);
    let count = |kind| outcome.results.count(kind);
    assert_eq!((outcome.results.total(), count(Kind::Unsent)), (200, 0));
    assert!(count(Kind::Injector) >= 10, "{}", count(Kind::Injector));
    assert!(!outcome.doubts().is_empty());
}

#[test]
fn a_server_that_stands_still_makes_no_figure_the_injectors() {
    for pace in [open(100.0, Duration::from_secs(2)), Pace::Closed(Duration::from_secs(2))] {
        let count = AtomicU64::new(0);
        let server = Server::start(move |stream| {
            if count.fetch_add(1, Ordering::Relaxed) == 100 {
                std::thread::sleep(600 * MS);
            }
            stream.send(NO_CONTENT)
        });
        let outcome = run(&plan(server.address, pace, 1), |_| http(), |_| {}).unwrap();
        let max = outcome.results.distribution(Measure::Service, None).max();
        // A machine that is busy may add some of its own.
        assert!(max.measured >= 600 * MS && max.corrected >= 500 * MS, "{max:?}");
    }
}
