//! A backend that costs next to nothing: every write is answered with 204 at once, and its lines
//! are counted. A process of its own, so that its CPU time is not Weir's nor the client's.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rig::http::Request;
use rig::process::Process;

/// A sink's process.
pub struct Sink {
    /// Where it listens.
    pub address: SocketAddr,
    process: Process,
}

impl Sink {
    /// Starts a sink.
    pub fn start() -> Self {
        let address = rig::places::free_address();
        let me = std::env::current_exe().expect("a running program has a path");
        let mut command = Command::new(me);
        command.arg("sink").arg(address.to_string());
        let log = std::env::temp_dir().join("weir-bench-sink.log");
        let mut process = Process::start("sink", &mut command, &log);
        process.wait_ready(|| TcpStream::connect(address).is_ok());
        Self { address, process }
    }

    /// Its address for a backend's `url`.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// Lines it has taken so far.
    pub fn lines(&self) -> u64 {
        let answer = rig::http::send(self.address, &Request::get("/count"));
        answer.ok().and_then(|answer| answer.text().trim().parse().ok()).unwrap_or(0)
    }
}

/// Serves until killed, a thread a connection.
pub fn serve(address: SocketAddr) {
    let listener = TcpListener::bind(address).expect("a free address");
    let lines = Arc::new(AtomicU64::new(0));
    for stream in listener.incoming().flatten() {
        let lines = Arc::clone(&lines);
        std::thread::spawn(move || connection(&stream, &lines));
    }
}

fn connection(stream: &TcpStream, lines: &AtomicU64) -> Option<()> {
    stream.set_nodelay(true).ok()?;
    let mut reader = BufReader::with_capacity(256 << 10, stream);
    let mut writer = stream;
    let mut line = String::new();
    let mut chunk = vec![0; 256 << 10];
    loop {
        line.clear();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        let counting = line.starts_with("GET /count");
        let mut length = 0_usize;
        loop {
            line.clear();
            reader.read_line(&mut line).ok()?;
            let field = line.trim_end();
            if field.is_empty() {
                break;
            }
            if let Some((name, value)) = field.split_once(':')
                && name.eq_ignore_ascii_case("content-length")
            {
                length = value.trim().parse().ok()?;
            }
        }
        while length > 0 {
            let part = length.min(chunk.len());
            reader.read_exact(&mut chunk[..part]).ok()?;
            lines.fetch_add(newlines(&chunk[..part]), Ordering::Relaxed);
            length -= part;
        }
        if counting {
            let count = lines.load(Ordering::Relaxed).to_string();
            let length = count.len();
            write!(writer, "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{count}").ok()?;
        } else {
            writer.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").ok()?;
        }
    }
}

/// Counted in runs of bytes, which the compiler turns into vector instructions.
fn newlines(bytes: &[u8]) -> u64 {
    let run = |run: &[u8]| u64::from(run.iter().map(|&b| u8::from(b == b'\n')).sum::<u8>());
    bytes.chunks(255).map(run).sum()
}
