//! Workers that echo, and clients on threads of their own.
#![allow(dead_code, reason = "each test binary uses a part")]

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use flow::endpoint::Endpoint;
use flow::limit::Limit;
use flow::progress::Timeouts;
use flow::stream::Stream;
use flow::tcp::bind;
use flow::workers::{Drained, Workers};
use parking_lot::Mutex;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use watch::metrics::Registry;

pub const LOCAL: &str = "127.0.0.1:0";
/// Long enough for anything that is going to happen at all on a busy machine.
pub const LONG: Duration = Duration::from_secs(60);

/// An echo server for the length of a test.
pub struct Server {
    pub address: SocketAddr,
    pub registry: Registry,
    workers: Workers,
}

impl Server {
    /// Starts `count` workers with `prepare` applied to the endpoint.
    pub fn start(
        count: usize,
        limit: usize,
        timeouts: &Timeouts,
        prepare: impl FnOnce(Endpoint) -> Endpoint,
    ) -> Self {
        let registry = Registry::new();
        let listeners = bind(LOCAL.parse().unwrap(), count).unwrap();
        let address = listeners[0].address();
        assert_ne!(address.port(), 0);
        assert!(listeners.iter().all(|l| l.address() == address));
        let endpoint = Endpoint::new("test", Limit::new(limit), timeouts, &registry);
        let endpoint = prepare(endpoint);
        let listeners = Arc::new(Mutex::new(listeners));
        let body = move |worker: flow::Worker| async move {
            let listener = listeners.lock().pop().unwrap();
            let drain = worker.drain.clone();
            let handle = move |stream, _| echo(stream, drain.clone());
            endpoint.serve(listener, &worker, handle).await.unwrap();
        };
        let workers = Workers::start(count, &registry, body).unwrap();
        Self { address, registry, workers }
    }

    pub fn connect(&self) -> TcpStream {
        let client = TcpStream::connect(self.address).unwrap();
        client.set_read_timeout(Some(LONG)).unwrap();
        client
    }

    pub fn metric(&self, line: &str) -> u64 {
        let text = self.registry.render();
        let found = text.lines().find_map(|l| l.strip_prefix(line)?.strip_prefix(' '));
        found.map_or(0, |value| value.parse().unwrap())
    }

    /// Waits until a metric is at least `value`.
    pub fn wait_for(&self, line: &str, value: u64) {
        self.wait_until(line, |now| now >= value);
    }

    /// Waits until a metric is as wanted.
    pub fn wait_until(&self, line: &str, wanted: impl Fn(u64) -> bool) {
        let deadline = Instant::now() + LONG;
        while !wanted(self.metric(line)) {
            assert!(Instant::now() < deadline, "{line}\n{}", self.registry.render());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    pub fn drain(self, timeout: Duration) -> Drained {
        let runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = { runtime }.enable_all().build().unwrap();
        runtime.block_on(self.workers.drain(timeout))
    }
}

/// Sends each line back, with its phases as a front end would say them. Before a line `w` comes
/// back there is a lot to read; `b` begins a body; `p` is a fault; `s` makes the worker stand.
/// A `?` within a line is answered at once: what stands before it has been read.
async fn echo(mut stream: Stream, drain: flow::drain::Drain) {
    let progress = stream.progress().clone();
    let mut line = Vec::new();
    loop {
        let byte = tokio::select! {
            byte = stream.read_u8() => byte,
            () = drain.started(), if line.is_empty() => return,
        };
        let Ok(byte) = byte else { return };
        line.push(byte);
        if byte == b'?' && stream.write_all(b"!").await.is_err() {
            return;
        }
        if byte != b'\n' {
            continue;
        }
        progress.serving();
        match line[0] {
            b'p' => panic!("asked to"),
            b's' => std::thread::sleep(Duration::from_secs(1)),
            b'b' => {
                progress.body();
                line.clear();
                continue;
            }
            b'w' if stream.write_all(&vec![b'.'; 64 << 20]).await.is_err() => return,
            _ => {}
        }
        if stream.write_all(&line).await.is_err() || stream.flush().await.is_err() {
            return;
        }
        line.clear();
        progress.idle();
    }
}

/// Sends `line` and reads as much back.
pub fn round_trip(client: &mut (impl std::io::Read + std::io::Write), line: &[u8]) {
    client.write_all(line).unwrap();
    let mut back = vec![0; line.len()];
    client.read_exact(&mut back).unwrap();
    assert_eq!(back, line);
}

/// Waits until the server closes, and gives what came before.
pub fn read_to_close(client: &mut TcpStream) -> Vec<u8> {
    let mut all = Vec::new();
    let mut piece = [0; 65_536];
    loop {
        match client.read(&mut piece) {
            Ok(0) => return all,
            Ok(n) => all.extend_from_slice(&piece[..n]),
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => return all,
            Err(error) => panic!("the server did not close: {error}"),
        }
    }
}

pub fn send(client: &mut TcpStream, bytes: &[u8]) {
    client.write_all(bytes).unwrap();
}

/// Sends the beginning of a line, `half a ?`, which has been read when this returns.
pub fn begin_line(client: &mut TcpStream) {
    send(client, b"half a ?");
    let mut said = [0];
    client.read_exact(&mut said).unwrap();
    assert_eq!(&said, b"!");
}
