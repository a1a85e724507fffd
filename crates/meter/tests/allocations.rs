//! A request of a closed loop allocates nothing, from the clock to the record of its answer.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by a panic")]

use std::alloc::System;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Mutex;
use std::time::Duration;

use flow::dial::{Address, Target};
use meter::engine::{Pace, Plan, Stop, run};
use meter::http::{Http, Request};
use meter::workload::Workload;
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Requests between which allocations of the whole process are counted.
const FROM: u64 = 500;
const TO: u64 = 2500;
/// A second's window is handed on within that time, perhaps several on a machine that is busy.
const ALLOWED: usize = 200;

static SEEN: Mutex<Vec<usize>> = Mutex::new(Vec::new());

struct Counted(Http);

impl Workload for Counted {
    type Reader = <Http as Workload>::Reader;

    fn request(&mut self, number: u64, out: &mut Vec<u8>) -> usize {
        if number == FROM || number == TO {
            SEEN.lock().unwrap().push(ALLOCATOR.stats().allocations);
        }
        self.0.request(number, out)
    }

    fn reader(&self) -> Self::Reader {
        self.0.reader()
    }
}

/// Answers without allocating: what is sent at once is a request.
fn serve(mut stream: TcpStream) {
    let mut chunk = [0; 4096];
    while stream.read(&mut chunk).is_ok_and(|len| len > 0) {
        if stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").is_err() {
            return;
        }
    }
}

#[test]
fn a_request_of_a_closed_loop_allocates_nothing() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            std::thread::spawn(move || serve(stream));
        }
    });
    let request = Request { method: "GET".into(), headers: Vec::new(), body: Vec::new() };
    let http = Http::new(&"http://server/".parse().unwrap(), &request).unwrap();
    let (host, port) = (address.ip().to_string(), address.port());
    let timeout = Duration::from_secs(30);
    let plan = Plan {
        target: Target {
            address: Address::Tcp { host, port },
            tls: None,
            connect_timeout: timeout,
        },
        pace: Pace::Closed(Duration::from_secs(120)),
        warm_up: Duration::ZERO,
        connections: 8,
        threads: 1,
        timeout,
        abort: Vec::new(),
        stop: Stop::default(),
    };
    let stop = plan.stop.clone();
    let outcome = run(
        &plan,
        |_| Counted(http.clone()),
        |_| {
            if SEEN.lock().unwrap().len() == 2 {
                stop.ask();
            }
        },
    );
    assert_eq!(outcome.unwrap().results.failed(), 0);
    let seen = SEEN.lock().unwrap();
    let allocated = seen[1] - seen[0];
    assert!(allocated < ALLOWED, "{allocated} allocations of {} requests", TO - FROM);
}
