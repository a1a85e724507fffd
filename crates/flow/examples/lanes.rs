//! What a request costs on its way through lanes, with nothing to do for it but to be passed on.
//!
//! `cargo run --release -p weir-flow --example lanes [clients [lanes [seconds [flush]]]]`: clients
//! and an echo server run as processes of their own; what is counted is this process's time. With
//! `flush` the server writes each reply by itself, as PostgreSQL does.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a measurement, run by hand")]

use std::cell::Cell;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command};
use std::rc::Rc;
use std::time::{Duration, Instant};

use flow::endpoint::Endpoint;
use flow::lane::{Handle, Limits, Owner, Protocol, Step, What};
use flow::limit::Limit;
use flow::outlet::Outlet;
use flow::progress::Timeouts;
use flow::stream::Stream;
use flow::tcp::bind;
use flow::workers::{Worker, Workers};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use watch::metrics::Registry;

/// A message is its length and as many bytes.
const REQUEST: usize = 64;

/// The length of the first message in `bytes`, if it is whole.
fn whole(bytes: &[u8]) -> Option<usize> {
    let (len, _) = bytes.split_first_chunk::<4>()?;
    let len = 4 + u32::from_be_bytes(*len) as usize;
    (len <= bytes.len()).then_some(len)
}

struct Messages;

impl Protocol for Messages {
    fn scan(&mut self, bytes: &[u8]) -> Step {
        Step { len: whole(bytes).unwrap_or(0), what: What::End }
    }
}

struct Replies(Rc<Cell<u64>>);

impl Owner<Outlet> for Replies {
    fn reply(&mut self, ticket: &mut Outlet, bytes: &[u8], last: Option<Duration>) {
        ticket.send(bytes);
        self.0.set(self.0.get() + u64::from(last.is_some()));
    }

    fn aside(&mut self, _: &[u8]) {}
}

async fn client(stream: Stream, lanes: Rc<Vec<Handle<Messages, Outlet>>>) {
    let outlet = Outlet::new(stream, 1 << 20);
    loop {
        let read = outlet.read_with(|bytes| {
            let mut bytes = bytes?;
            let now = Instant::now();
            while let Some(len) = whole(bytes) {
                let (message, rest) = bytes.split_at(len);
                let lane = lanes.iter().min_by_key(|lane| lane.depth())?;
                let write = |out: &mut Vec<u8>| out.extend_from_slice(message);
                lane.push(outlet.clone(), 1, now, write).ok()?;
                outlet.progress().idle();
                bytes = rest;
            }
            Some(())
        });
        if !matches!(read.await, Ok(Some(()))) {
            return outlet.close();
        }
    }
}

async fn serve(worker: Worker, listener: flow::tcp::Listener, server: SocketAddr, count: usize) {
    let replies = Rc::new(Cell::new(0));
    let mut lanes = Vec::new();
    for _ in 0..count {
        let io = tokio::net::TcpStream::connect(server).await.unwrap();
        io.set_nodelay(true).unwrap();
        let limits = Limits { depth: 1024, ..Limits::default() };
        let scratch = worker.connections.scratch().clone();
        let owner = Replies(Rc::clone(&replies));
        let (handle, driver) = flow::lane::start(io, Messages, limits, scratch, owner);
        tokio::task::spawn_local(driver);
        lanes.push(handle);
    }
    tokio::task::spawn_local(report(replies));
    let lanes = Rc::new(lanes);
    let limit = Limit::new(100_000);
    let endpoint = Endpoint::new("bench", limit, &Timeouts::default(), &Registry::new());
    let handle = move |stream, _| client(stream, Rc::clone(&lanes));
    endpoint.serve(listener, &worker, handle).await.unwrap();
}

/// Prints each second what a request has cost.
async fn report(replies: Rc<Cell<u64>>) {
    let (mut before, mut cpu_before) = (0, cpu());
    loop {
        let began = Instant::now();
        tokio::time::sleep(Duration::from_secs(1)).await;
        let (count, used) = (replies.get() - before, cpu() - cpu_before);
        (before, cpu_before) = (replies.get(), cpu());
        let rate = count as f64 / began.elapsed().as_secs_f64();
        let each = used.as_secs_f64() * 1e6 / count.max(1) as f64;
        println!("{rate:.0} requests/s, {each:.2} us of CPU a request");
    }
}

/// Time that this process has used, in user and system mode (proc(5), in 1/100 s).
fn cpu() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<_> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    let ticks: u64 = fields[11..13].iter().map(|n| n.parse::<u64>().unwrap()).sum();
    Duration::from_millis(ticks * 10)
}

/// A thread for each connection; all whole messages that one read brought are sent back.
fn echo_server(listener: &TcpListener, flush: bool) {
    for stream in listener.incoming() {
        let stream = stream.unwrap();
        stream.set_nodelay(true).unwrap();
        std::thread::spawn(move || echo(stream, flush));
    }
}

fn echo(mut stream: TcpStream, flush: bool) {
    let (mut buffer, mut len) = (vec![0; 65_536], 0);
    loop {
        let Ok(n @ 1..) = stream.read(&mut buffer[len..]) else { return };
        len += n;
        let mut done = 0;
        while let Some(message) = whole(&buffer[done..len]) {
            if flush {
                stream.write_all(&buffer[done..done + message]).unwrap();
            }
            done += message;
        }
        if !flush {
            stream.write_all(&buffer[..done]).unwrap();
        }
        buffer.copy_within(done..len, 0);
        len -= done;
    }
}

fn load(address: SocketAddr, clients: usize) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        for _ in 0..clients {
            let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
            stream.set_nodelay(true).unwrap();
            tokio::spawn(async move {
                let mut message = [b'.'; REQUEST];
                message[..4].copy_from_slice(&(REQUEST as u32 - 4).to_be_bytes());
                loop {
                    stream.write_all(&message).await.unwrap();
                    stream.read_exact(&mut message).await.unwrap();
                }
            });
        }
        std::future::pending::<()>().await;
    });
}

struct ServerProcess(Child);

impl Drop for ServerProcess {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

fn child(arguments: &[&str]) -> ServerProcess {
    ServerProcess(Command::new(std::env::current_exe().unwrap()).args(arguments).spawn().unwrap())
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, default| arguments.get(at).map_or(default, |n| n.parse().unwrap());
    match arguments.first().map(String::as_str) {
        Some("server") => {
            let listener = TcpListener::bind(&*arguments[1]).unwrap();
            return echo_server(&listener, arguments[2] == "flush");
        }
        Some("load") => return load(arguments[1].parse().unwrap(), number(2, 1)),
        _ => {}
    }
    let (clients, lanes, seconds) = (number(0, 256), number(1, 2), number(2, 5));
    let flush = arguments.get(3).map_or("all", |mode| mode);
    // Free a moment ago, which is good enough here.
    let server = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let _server = child(&["server", &server.to_string(), flush]);
    while TcpStream::connect(server).is_err() {
        std::thread::sleep(Duration::from_millis(10));
    }
    let listener = bind("127.0.0.1:0".parse().unwrap(), 1).unwrap().remove(0);
    let address = listener.address().to_string();
    let listener = parking_lot::Mutex::new(Some(listener));
    let listener = std::sync::Arc::new(listener);
    let body = move |worker: Worker| async move {
        let listener = listener.lock().take().unwrap();
        serve(worker, listener, server, lanes).await;
    };
    let _workers = Workers::start(1, &Registry::new(), body).unwrap();
    let _load = child(&["load", &address, &clients.to_string()]);
    std::thread::sleep(Duration::from_millis(seconds as u64 * 1000 + 200));
}
