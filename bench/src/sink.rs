//! The backend that costs next to nothing: reads, counts lines, answers 204. A process of its own,
//! so that its CPU time is nobody else's.
//!
//! `GET /count` gives the lines so far, `GET /hang` makes it accept and never answer, `GET /accept`
//! ends that. Anything it does not know it answers as the tests' fake does.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use rig::fake::ClusterDatabase;
use rig::http::Message;

/// What is read at once; the longest head that is understood.
const BUFFER_BYTES: usize = 256 << 10;
/// The database it has.
pub const DATABASE: &str = "bench";

#[derive(Default)]
struct State {
    lines: AtomicU64,
    cluster: Mutex<ClusterDatabase>,
    hangs: AtomicBool,
}

/// Serves for ever.
///
/// # Errors
/// When the address is taken.
pub fn run(address: SocketAddr) -> io::Result<()> {
    let state = Arc::new(State::default());
    for stream in TcpListener::bind(address)?.incoming() {
        let (state, stream) = (state.clone(), stream?);
        // A connection that breaks is its client's affair.
        thread::spawn(move || drop(serve(stream, &state)));
    }
    Ok(())
}

fn serve(mut stream: TcpStream, state: &State) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut buffer = vec![0; BUFFER_BYTES];
    let mut filled = 0;
    loop {
        let Some(end) = memchr::memmem::find(&buffer[..filled], b"\r\n\r\n") else {
            filled += read(&mut stream, &mut buffer[filled..])?;
            continue;
        };
        let (head, begun) = (String::from_utf8_lossy(&buffer[..end]).into_owned(), end + 4);
        let target = head.split(' ').nth(1).unwrap_or_default().to_owned();
        let mut left = length(&head);
        let is_table = target.contains("db=_weir");
        let is_read = is_table || target.starts_with("/query");
        let mut body = Vec::new();
        let mut lines = 0;
        let mut from = begun;
        loop {
            let take = left.min(filled - from);
            let part = &buffer[from..from + take];
            if is_read {
                body.extend_from_slice(part);
            } else {
                lines += memchr::memchr_iter(b'\n', part).count() as u64;
            }
            left -= take;
            from += take;
            if left == 0 {
                break;
            }
            filled = read(&mut stream, &mut buffer)?;
            from = 0;
        }
        buffer.copy_within(from..filled, 0);
        filled -= from;
        let answer = answer(state, &head, &target, body, lines);
        stream.write_all(&answer)?;
    }
}

fn read(stream: &mut TcpStream, buffer: &mut [u8]) -> io::Result<usize> {
    match stream.read(buffer)? {
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        count => Ok(count),
    }
}

fn length(head: &str) -> usize {
    let value = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse().ok())?
    });
    value.unwrap_or(0)
}

fn answer(state: &State, head: &str, target: &str, body: Vec<u8>, lines: u64) -> Vec<u8> {
    let text = |text: String| {
        format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{text}", text.len()).into_bytes()
    };
    match target.split('?').next().unwrap_or_default() {
        "/count" => text(state.lines.load(Ordering::SeqCst).to_string()),
        "/hang" | "/accept" => {
            state.hangs.store(target == "/hang", Ordering::SeqCst);
            text(String::new())
        }
        "/write" if target.contains("db=_weir") => {
            let mut cluster = state.cluster.lock().unwrap_or_else(PoisonError::into_inner);
            cluster.write(&String::from_utf8_lossy(&body));
            b"HTTP/1.1 204 No Content\r\n\r\n".to_vec()
        }
        "/query" if memchr::memmem::find(&body, b"%22table%22").is_some() => {
            let cluster = state.cluster.lock().unwrap_or_else(PoisonError::into_inner);
            text(serde_json::json!({ "results": [cluster.result()] }).to_string())
        }
        "/query" | "/ping" => {
            let start = head.lines().next().unwrap_or_default().to_owned();
            let request = Message { start, headers: Vec::new(), body };
            rig::fake::accepted(&[DATABASE, "_internal"], &request)
        }
        _ => {
            while state.hangs.load(Ordering::SeqCst) {
                // The client gives up long before anybody waits for this.
                thread::park_timeout(Duration::from_millis(50));
            }
            state.lines.fetch_add(lines, Ordering::SeqCst);
            b"HTTP/1.1 204 No Content\r\n\r\n".to_vec()
        }
    }
}
