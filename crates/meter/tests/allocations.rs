//! A request of a closed loop allocates nothing, from the clock to the record of its answer.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by a panic")]

use std::alloc::System;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use flow::dial::{Address, Target};
use meter::dubbo::{CallOptions, Dubbo};
use meter::engine::{Pace, Plan, run};
use meter::http::data::{Data, RowOrder};
use meter::http::{Http, Options, Request};
use meter::influx::{self, Rows, Writes};
use meter::keys::Order;
use meter::postgres::{self, Postgres};
use meter::redis::{self, Redis};
use meter::workload::{Channels, Greeting, Workload};
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Requests between which allocations of the whole process are counted.
const FROM: u64 = 500;
const TO: u64 = 2500;
/// A second's window is handed on within that time, perhaps several on a machine that is busy.
const ALLOWED: usize = 200;

static SEEN: Mutex<Vec<usize>> = Mutex::new(Vec::new());
/// All of the process is counted, so one load runs at a time.
static ONE: Mutex<()> = Mutex::new(());

#[derive(Clone)]
struct Counted<W>(W);

impl<W: Workload> Workload for Counted<W> {
    type Reader = W::Reader;

    fn request(&mut self, number: u64, out: &mut Vec<u8>) -> usize {
        if number == FROM || number == TO {
            SEEN.lock().unwrap().push(ALLOCATOR.stats().allocations);
        }
        self.0.request(number, out)
    }

    fn reader(&self) -> Self::Reader {
        self.0.reader()
    }

    fn greeting(&self) -> Option<Box<dyn Greeting>> {
        self.0.greeting()
    }

    fn channels(&self) -> Option<Channels> {
        self.0.channels()
    }
}

/// Where in an answer of Dubbo, and in a request, its number stands.
const DUBBO_ID: std::ops::Range<usize> = 4..12;

/// Answers without allocating: what is sent at once is a request.
fn serve(mut stream: TcpStream, first: &[u8], answer: &[u8]) {
    let (mut chunk, mut next) = ([0; 65536], first);
    while let Ok(len @ 1..) = stream.read(&mut chunk) {
        let written = match chunk.starts_with(&[0xda, 0xbb]) {
            true => serve_calls(&mut stream, &chunk[..len], answer),
            false => stream.write_all(next),
        };
        if written.is_err() {
            return;
        }
        next = answer;
    }
}

/// Answers each call of Dubbo by its number; all are as long as the first, and whole.
fn serve_calls(stream: &mut TcpStream, calls: &[u8], answer: &[u8]) -> std::io::Result<()> {
    let len = 16 + u32::from_be_bytes(calls[12..16].try_into().unwrap()) as usize;
    let mut own = [0; 256];
    let bytes = &mut own[..answer.len()];
    bytes.copy_from_slice(answer);
    calls.chunks_exact(len).try_for_each(|call| {
        bytes[DUBBO_ID].copy_from_slice(&call[DUBBO_ID]);
        stream.write_all(bytes)
    })
}

/// Loads a server that answers what comes first on a connection with `first`, and then with
/// `answer`.
fn allocates_nothing<W>(workload: W, first: &'static [u8], answer: &'static [u8])
where
    W: Workload + Clone + Sync + 'static,
{
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    SEEN.lock().unwrap().clear();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            std::thread::spawn(move || serve(stream, first, answer));
        }
    });
    let (host, port) = (address.ip().to_string(), address.port());
    let timeout = Duration::from_secs(30);
    let address = Address::Tcp { host, port };
    let target = Target { address, tls: None, connect_timeout: timeout };
    let pace = Pace::Closed(Duration::from_secs(120));
    let plan = Plan { connections: 8, timeout, ..Plan::new(target, pace) };
    let stop = plan.stop.clone();
    let outcome = run(
        &plan,
        |_| Counted(workload.clone()),
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

#[test]
fn a_request_of_http_allocates_nothing() {
    let request = Request { method: "GET".into(), headers: Vec::new(), body: Vec::new() };
    let http = Http::new(&"http://server/".parse().unwrap(), &request).unwrap();
    let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
    allocates_nothing(http, answer, answer);
}

#[test]
fn a_request_with_gaps_allocates_nothing() {
    let csv = "name,id\nann,1\n\"b & c\",2\n";
    let request = Request {
        method: "POST".into(),
        headers: vec![("X-Id".into(), "{{id}}".into())],
        body: b"{\"n\": \"{{json name}}\", \"r\": {{random 1 99}}}".to_vec(),
    };
    let options = Options {
        data: vec![Data::new(csv.as_bytes(), RowOrder::Random, 1).unwrap()],
        literal: false,
        ..Options::of(request)
    };
    let url = "http://server/{{url name}}?n={{seq}}".parse().unwrap();
    let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
    allocates_nothing(Http::of(&url, options).unwrap(), answer, answer);
}

#[test]
fn a_request_of_redis_allocates_nothing() {
    let options = redis::Options {
        keys: 1000,
        order: Order::Zipf(0.99),
        sizes: "10-100".parse().unwrap(),
        pipeline: 2,
        seed: 1,
        run: None,
    };
    let url = "redis://server/1".parse().unwrap();
    let redis = Redis::new(&url, "get=9,set=1".parse().unwrap(), options).unwrap();
    allocates_nothing(redis, b"+OK\r\n+PONG\r\n", b"$5\r\nvalue\r\n+OK\r\n");
}

#[test]
fn a_request_of_influx_write_allocates_nothing() {
    let options = influx::Options {
        database: Some("load".to_owned()),
        rows: Rows::CpuOnly,
        batch: 10,
        series: 100,
        out_of_order: 0.1,
        gzip: false,
        start_ns: 1_700_000_000_000_000_000,
        seed: 1,
    };
    let writes = Writes::new(&"http://server".parse().unwrap(), &[], options).unwrap();
    let answer = b"HTTP/1.1 204 No Content\r\n\r\n";
    allocates_nothing(writes, answer, answer);
}

#[test]
fn a_request_of_postgres_allocates_nothing() {
    let source = postgres::Source { name: "simple-update".to_owned(), text: None, share: 1 };
    let options = postgres::Options {
        protocol: Some(postgres::Protocol::Extended),
        pipelined: true,
        tables: 1,
        table_size: 1000,
        scale: 1,
        variables: Vec::new(),
        order: Order::Zipf(0.99),
        seed: 1,
        user: "ann".to_owned(),
        password: None,
        run: None,
    };
    let url = "postgres://server/d".parse().unwrap();
    let load = Postgres::new(&url, &[source], &options).unwrap();
    let login = b"R\0\0\0\x08\0\0\0\0Z\0\0\0\x05I";
    let answer = b"T\0\0\0\x06\0\0D\0\0\0\x06\0\0C\0\0\0\x0dSELECT 1\0Z\0\0\0\x05I";
    allocates_nothing(load, login, answer);
}

#[test]
fn a_call_of_dubbo_with_literal_arguments_allocates_nothing() {
    let options = CallOptions {
        method: "echo".to_owned(),
        types: "java.lang.String".to_owned(),
        arguments: serde_json::json!(["text"]),
        ..CallOptions::default()
    };
    let dubbo = Dubbo::new(&"dubbo://server/com.acme.Echo".parse().unwrap(), &options).unwrap();
    let answer = b"\xda\xbb\x02\x14\0\0\0\0\0\0\0\0\0\0\0\x06\x91\x04text";
    allocates_nothing(dubbo, answer, answer);
}
