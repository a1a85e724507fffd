//! The engine beside servers that do as they are told. A machine that is busy makes numbers larger
//! and never smaller, so what is held are counts and what a time must at least be.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "these are tests")]

mod caller;
mod hostile;
mod pauses;
mod server;
mod users;

use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::sleep;
use std::time::{Duration, Instant};

use flow::dial::{Address, Target};
use meter::engine::{EngineError, FinishedWindow, Load, Outcome, Pace, Plan, Think, run, run_all};
use meter::http::{Http, Request};
use meter::keys::Order;
use meter::recorder::{Kind, Measure};
use meter::redis::{self, Redis};
use meter::schedule::{Arrivals, Schedule, Segment};
use meter::workload::Workload;

use server::{NO_CONTENT, Server};

const MS: Duration = Duration::from_millis(1);

fn open(rate: f64, duration: Duration) -> Pace {
    Pace::Open(Schedule::new(vec![Segment::constant(rate, duration)], Arrivals::Even).unwrap())
}

fn plan(address: SocketAddr, pace: Pace, connections: usize) -> Plan {
    let (host, port) = (address.ip().to_string(), address.port());
    let timeout = Duration::from_secs(30);
    let address = Address::Tcp { host, port };
    let target = Target { address, tls: None, connect_timeout: timeout };
    Plan { connections, timeout, ..Plan::new(target, pace) }
}

fn http() -> Http {
    let request = Request { method: "GET".into(), headers: Vec::new(), body: Vec::new() };
    Http::new(&"http://server/".parse().unwrap(), &request).unwrap()
}

fn load(plan: &Plan) -> Outcome {
    run(plan, |_| http(), |_: &FinishedWindow| {}).unwrap()
}

#[test]
fn percentiles_are_those_of_a_server_with_known_delays() {
    let delays: Vec<Duration> = (0..10).map(|number| number * 10 * MS).collect();
    let next = AtomicU64::new(0);
    let list = delays.clone();
    let server = Server::start(move |stream| {
        sleep(list[next.fetch_add(1, Ordering::Relaxed) as usize % list.len()]);
        stream.send(NO_CONTENT)
    });
    let outcome = load(&plan(server.address, open(100.0, Duration::from_secs(2)), 32));
    // Every request came and was counted once, on both sides.
    assert_eq!((outcome.results.total(), outcome.results.failed()), (200, 0));
    assert_eq!((server.requests(), outcome.lateness.sends), (200, 200));
    for measure in [Measure::Latency, Measure::Service] {
        let times = outcome.results.times(measure, None);
        for (tenth, delay) in (1..=10).zip(&delays) {
            let told = times.quantile(f64::from(tenth) / 10.0);
            assert!(told >= *delay, "{tenth}: {told:?} below {delay:?}");
        }
    }
    // Two whole seconds of 100 each, by when they were sent.
    assert_eq!(outcome.rows.iter().map(|row| row.number).collect::<Vec<_>>(), [0, 1]);
    assert!(outcome.rows.iter().map(|row| row.sent).sum::<u64>() <= 200);
}

#[test]
fn several_threads_send_what_one_would() {
    let server = Server::start(|stream| stream.send(NO_CONTENT));
    let mut plan = plan(server.address, open(300.0, Duration::from_secs(1)), 8);
    (plan.threads, plan.warm_up) = (3, 200 * MS);
    let outcome = load(&plan);
    assert_eq!((outcome.results.total(), outcome.warm_up.requests), (300, 60));
    assert_eq!((server.requests(), outcome.network.connects().count()), (360, 8));
}

/// Notes the number of each request.
struct Numbered(Http, Arc<Mutex<Vec<u64>>>);

impl Workload for Numbered {
    type Reader = <Http as Workload>::Reader;

    fn request(&mut self, number: u64, out: &mut Vec<u8>) -> usize {
        self.1.lock().unwrap().push(number);
        self.0.request(number, out)
    }

    fn reader(&self) -> Self::Reader {
        self.0.reader()
    }
}

#[test]
fn no_two_requests_of_a_closed_loop_have_the_same_number() {
    let server = Server::start(|stream| stream.send(NO_CONTENT));
    let mut plan = plan(server.address, Pace::Closed(Duration::from_secs(1)), 8);
    plan.threads = 3;
    let seen = Arc::default();
    let outcome = run(&plan, |_| Numbered(http(), Arc::clone(&seen)), |_| {}).unwrap();
    let mut numbers = seen.lock().unwrap();
    assert_eq!(numbers.len() as u64, outcome.results.total());
    let all = numbers.len();
    numbers.sort_unstable();
    numbers.dedup();
    assert_eq!(numbers.len(), all);
}

#[test]
fn a_server_that_refuses_the_login_is_told_in_its_own_words() {
    let server = Server::start(|_| false);
    // What it is asked is not HTTP, so it says nothing; another one answers it with an error.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let _ = std::io::Read::read(&mut stream, &mut [0; 1024]);
            let _ = std::io::Write::write_all(&mut stream, b"-NOAUTH Authentication required.\r\n");
        }
    });
    let mix = "get".parse().unwrap();
    let sizes = "3".parse().unwrap();
    let order = Order::Uniform;
    let options = redis::Options { keys: 9, order, sizes, pipeline: 1, seed: 1, run: None };
    let redis = Redis::new(&"redis://h".parse().unwrap(), mix, options).unwrap();
    let refused = run(&plan(address, open(1.0, MS), 4), |_| redis.clone(), |_| {}).unwrap_err();
    assert!(refused.to_string().contains("does not let us in: NOAUTH"), "{refused}");
    let mut silent = plan(server.address, open(1.0, MS), 4);
    silent.target.connect_timeout = 100 * MS;
    assert!(run(&silent, |_| redis.clone(), |_| {}).is_err());
}

#[test]
fn a_stalled_server_is_seen_by_all_who_would_have_come() {
    let (count, stall) = (AtomicU64::new(0), Mutex::new(()));
    let server = Server::start(move |stream| {
        let held = stall.lock().unwrap();
        if count.fetch_add(1, Ordering::Relaxed) == 100 {
            sleep(1000 * MS);
        }
        drop(held);
        stream.send(NO_CONTENT)
    });
    let outcome = load(&plan(server.address, open(200.0, Duration::from_secs(3)), 4));
    // On a busy machine some are still due at the end; nothing else fails.
    let (failed, unsent) = (outcome.results.failed(), outcome.results.count(Kind::Unsent));
    assert_eq!((outcome.results.total(), failed), (600, unsent));
    // Within the stall 200 were due, half of them over 500 ms before its end; 4 were under way.
    let latency = outcome.results.times(Measure::Latency, None);
    assert!(latency.max() >= 990 * MS && latency.quantile(1.0 - 95.0 / 600.0) >= 500 * MS);
    assert!(outcome.lateness.blocked >= 180, "{}", outcome.lateness.blocked);
    assert!(outcome.lateness.waits.max() >= 900 * MS);
    // Who starts the clock at the send sees 4 of them.
    let service = outcome.results.times(Measure::Service, None);
    assert!(service.quantile(0.5) <= latency.quantile(0.5) && service.max() >= 990 * MS);
}

#[test]
fn what_is_never_answered_counts_at_its_age() {
    let server = Server::start(|stream| {
        stream.wait_for_close();
        false
    });
    let mut plan = plan(server.address, open(50.0, Duration::from_secs(1)), 2);
    plan.timeout = 300 * MS;
    let outcome = load(&plan);
    // Nothing is lost, and nothing was a success.
    assert_eq!((outcome.results.total(), outcome.results.count(Kind::Succeeded)), (50, 0));
    let count = |kind| outcome.results.count(kind);
    // On a busy machine a deadline may fall where the injector itself stood still.
    let timeouts = count(Kind::Timeout) + count(Kind::Injector);
    assert_eq!(timeouts + count(Kind::Unsent), 50);
    assert!(count(Kind::Timeout) >= 2 && count(Kind::Unsent) >= 1);
    assert_eq!(outcome.lateness.sends, timeouts);
    let timeouts = outcome.results.times(Measure::Service, Some(Kind::Timeout));
    assert!(timeouts.quantile(0.0) >= 299 * MS);
    let unsent = outcome.results.times(Measure::Latency, Some(Kind::Unsent));
    assert!(unsent.max() <= Duration::from_secs(60));
}

/// A request builder that sleeps, as one that waits for a lock.
struct Sleepy(Http);

impl Workload for Sleepy {
    type Reader = <Http as Workload>::Reader;

    fn request(&mut self, number: u64, out: &mut Vec<u8>) -> usize {
        sleep(2 * MS);
        self.0.request(number, out)
    }

    fn reader(&self) -> Self::Reader {
        self.0.reader()
    }
}

#[test]
fn a_request_builder_that_sleeps_makes_a_closed_loop_invalid() {
    for connections in [1, 64] {
        let server = Server::start(|stream| stream.send(NO_CONTENT));
        let plan = plan(server.address, Pace::Closed(Duration::from_secs(1)), connections);
        let outcome = run(&plan, |_| Sleepy(http()), |_| {}).unwrap();
        let causes: Vec<_> = outcome.doubts().into_iter().map(|doubt| doubt.cause).collect();
        assert!(outcome.turnaround.mean() >= 2 * MS && outcome.results.total() > 0);
        let named = |cause: &String| cause.contains("busy") || cause.contains("to the next send");
        assert!(causes.iter().any(named), "{connections}: {causes:?}");
    }
}

/// A thread that stands still once, as one that is stopped.
struct PausingOnce(Http, u64);

impl Workload for PausingOnce {
    type Reader = <Http as Workload>::Reader;

    fn request(&mut self, number: u64, out: &mut Vec<u8>) -> usize {
        if number == self.1 {
            sleep(500 * MS);
        }
        self.0.request(number, out)
    }

    fn reader(&self) -> Self::Reader {
        self.0.reader()
    }
}

#[test]
fn a_thread_that_stood_still_is_not_taken_for_a_slow_server() {
    for pace in [open(400.0, Duration::from_secs(2)), Pace::Closed(Duration::from_secs(2))] {
        let server = Server::start(|stream| stream.send(NO_CONTENT));
        let plan = plan(server.address, pace, 2);
        let outcome = run(&plan, |_| PausingOnce(http(), 200), |_| {}).unwrap();
        assert!(outcome.stood >= 450 * MS, "{:?}", outcome.stood);
        let causes: Vec<_> = outcome.doubts().into_iter().map(|doubt| doubt.cause).collect();
        assert!(causes.iter().any(|cause| cause.contains("stood still")), "{causes:?}");
        // What was due meanwhile was due 2.5 ms apart, and nothing of it waited for the server.
        assert!(outcome.closed || outcome.lateness.late >= 190, "{}", outcome.lateness.late);
    }
}

#[test]
fn a_closed_loop_accounts_for_all_of_its_connections() {
    let server = Server::start(|stream| {
        sleep(5 * MS);
        stream.send(NO_CONTENT)
    });
    let outcome = load(&plan(server.address, Pace::Closed(Duration::from_secs(1)), 4));
    let found = outcome.occupancy.connections(outcome.measured);
    assert!((found - 4.0).abs() < 0.08, "{found}");
    assert_eq!(outcome.results.total(), server.requests());
    let service = outcome.results.times(Measure::Service, None);
    assert!(service.quantile(0.0) >= 5 * MS);
}

#[test]
fn a_connection_that_thinks_is_accounted_for_and_draws_no_turnaround() {
    let server = Server::start(|stream| stream.send(NO_CONTENT));
    let think = Think::new(40 * MS, 60 * MS);
    for threads in [1, 2] {
        let before = server.requests();
        let closed = Pace::Closed(Duration::from_secs(1));
        let outcome = load(&Plan { think, threads, ..plan(server.address, closed, 4) });
        let found = outcome.occupancy.connections(outcome.measured);
        assert!((found - 4.0).abs() < 0.08, "{found}");
        let total = outcome.results.total();
        assert_eq!(total, server.requests() - before);
        // Each has its first within 60 ms, and then one in 40 ms at most.
        assert!((1..=4 * 26).contains(&total), "{total}");
        let thinking = Duration::from_nanos(outcome.occupancy.thinking as u64);
        assert!(thinking >= 40 * MS * (total as u32 - 4) / 2, "{thinking:?} of {total}");
    }
    assert!(Think::new(2 * MS, MS).is_none());
}

#[test]
fn a_closed_loop_that_thinks_ends_while_it_does() {
    let server = Server::start(|stream| stream.send(NO_CONTENT));
    let think = Think::new(Duration::from_secs(600), Duration::from_secs(600));
    let begun = Instant::now();
    let closed = Pace::Closed(500 * MS);
    let outcome = load(&Plan { think, ..plan(server.address, closed, 4) });
    assert!(begun.elapsed() < Duration::from_secs(60));
    let found = outcome.occupancy.connections(outcome.measured);
    assert!((found - 4.0).abs() < 0.08, "{found}");
}

#[test]
fn several_loads_have_connections_and_schedules_of_their_own() {
    let (one, other) = (server_of_nothing(), server_of_nothing());
    let second = Duration::from_secs(1);
    let first = Load::new("one", plan(one.address, open(50.0, second), 2), |_| http());
    let plan_of_other = Plan { threads: 2, ..plan(other.address, open(30.0, second), 4) };
    let loads = [first, Load::new("other", plan_of_other, |_| http())];
    let outcome = run_all(&loads, |_| {}).unwrap();
    assert_eq!(outcome.operations, ["one", "other"]);
    let of = |operation| outcome.results.of(Measure::Latency, operation).count();
    assert_eq!((of(0), of(1), outcome.connections), (50, 30, 6));
    assert_eq!((one.requests(), other.requests()), (50, 30));
    assert_eq!(outcome.network.ways().len(), 2);
    let offered = outcome.rows.iter().map(|row| row.offered).sum::<u64>();
    assert_eq!(offered, 80);
    for wrong in [open(30.0, 2 * second), Pace::Closed(second)] {
        let loads = [
            Load::new("one", plan(one.address, open(50.0, second), 2), |_| http()),
            Load::new("other", plan(other.address, wrong, 2), |_| http()),
        ];
        let refused = run_all(&loads, |_| {}).unwrap_err().to_string();
        assert!(refused.contains("as long as one another"), "{refused}");
    }
}

fn server_of_nothing() -> Server {
    Server::start(|stream| stream.send(NO_CONTENT))
}

#[test]
fn nobody_listening_is_told_at_once_with_the_reason() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = free.local_addr().unwrap();
    drop(free);
    let failed = run(&plan(address, open(1.0, Duration::from_secs(60)), 4), |_| http(), |_| {});
    let error = failed.unwrap_err();
    assert!(matches!(error, EngineError::Unreachable { opened: 0, connections: 4, .. }));
    assert!(error.to_string().contains("refused"), "{error}");
}

#[test]
fn whoever_stops_a_run_has_a_report_of_what_was() {
    let server = Server::start(|stream| stream.send(NO_CONTENT));
    let plan = plan(server.address, open(100.0, Duration::from_secs(600)), 4);
    let (stop, begun) = (plan.stop.clone(), Instant::now());
    let outcome = run(&plan, |_| http(), move |_| stop.ask()).unwrap();
    assert!(outcome.stopped && begun.elapsed() < Duration::from_secs(300));
    assert!(outcome.measured >= Duration::from_secs(1) && outcome.results.total() >= 100);
}

#[test]
fn a_missed_demand_ends_a_run_that_is_to_abort() {
    let server =
        Server::start(|stream| stream.send(b"HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n"));
    let mut plan = plan(server.address, open(100.0, Duration::from_secs(600)), 4);
    plan.abort = vec!["errors<=100%".parse().unwrap(), "errors<50%".parse().unwrap()];
    let outcome = load(&plan);
    let (gate, found) = outcome.aborted.unwrap();
    assert_eq!((&*gate.to_string(), &*found), ("errors<50%", "100.000 %"));
    assert!(outcome.results.count(Kind::Server) >= 100 && !outcome.stopped);
    assert_eq!(outcome.errors.commonest(1)[0].1, "status 500");
    // It ends this run, and not those behind it.
    let next = load(&plan);
    assert!(next.aborted.is_some() && !next.stopped, "{} windows", next.rows.len());
}

#[test]
fn a_demand_on_any_stretch_ends_a_run_that_is_to_abort() {
    let count = AtomicU64::new(0);
    // Three seconds fail, which are at most three of four so far.
    let server = Server::start(move |stream| {
        let fails = (100..400).contains(&count.fetch_add(1, Ordering::Relaxed));
        let failure = b"HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n";
        stream.send(if fails { failure } else { NO_CONTENT })
    });
    let mut plan = plan(server.address, open(100.0, Duration::from_secs(600)), 4);
    plan.abort = vec!["errors<95%".parse().unwrap(), "errors<60% in any 1s".parse().unwrap()];
    let outcome = load(&plan);
    let (gate, found) = outcome.aborted.unwrap();
    assert_eq!(gate.to_string(), "errors<60% in any 1s");
    assert!(found.contains(" in the 1 s up to second "), "{found}");
}

#[test]
fn what_can_not_work_is_refused_before_anything_is_opened() {
    let address: SocketAddr = "127.0.0.1:1".parse().unwrap();
    for change in [
        |plan: &mut Plan| plan.threads = 0,
        |plan: &mut Plan| plan.threads = 9,
        |plan: &mut Plan| plan.timeout = Duration::ZERO,
        |plan: &mut Plan| plan.connections = 1 << 40,
    ] {
        let mut plan = plan(address, open(1.0, Duration::from_secs(1)), 8);
        change(&mut plan);
        let refused = run(&plan, |_| http(), |_| {});
        assert!(matches!(refused, Err(EngineError::Plan(_))), "{refused:?}");
    }
}

#[test]
fn a_request_is_never_sent_twice() {
    // Each connection ends without an answer: what was sent on it failed, and stays failed.
    let seen = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&seen);
    let server = Server::start(move |_| {
        count.fetch_add(1, Ordering::Relaxed);
        false
    });
    let outcome = load(&plan(server.address, open(50.0, Duration::from_secs(1)), 4));
    assert_eq!(outcome.results.count(Kind::Network), seen.load(Ordering::Relaxed));
    assert_eq!(outcome.results.total(), 50);
    assert!(outcome.reconnects > 0);
}
