//! A server that does with each request what it is told.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// An answer without a body.
pub const NO_CONTENT: &[u8] = b"HTTP/1.1 204 No Content\r\n\r\n";

/// A connection of a client, on which answers are sent.
pub struct Stream(TcpStream);

impl Stream {
    /// Sends; false when the connection is gone.
    pub fn send(&mut self, bytes: &[u8]) -> bool {
        self.0.write_all(bytes).is_ok()
    }

    /// Waits until the client has closed.
    pub fn wait_for_close(&mut self) {
        while self.0.read(&mut [0; 1024]).is_ok_and(|len| len > 0) {}
    }
}

/// A server on a free port, which lives as long as the test's process.
pub struct Server {
    pub address: SocketAddr,
    requests: Arc<AtomicU64>,
}

impl Server {
    /// Calls `answer` for each request; false ends the connection.
    pub fn start(answer: impl Fn(&mut Stream) -> bool + Send + Sync + 'static) -> Self {
        Self::seeing(move |stream, _| answer(stream))
    }

    /// The same, with all of the request.
    pub fn seeing(answer: impl Fn(&mut Stream, &str) -> bool + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let requests = Arc::new(AtomicU64::new(0));
        let (count, answer) = (Arc::clone(&requests), Arc::new(answer));
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (count, answer) = (Arc::clone(&count), Arc::clone(&answer));
                std::thread::spawn(move || serve(Stream(stream), &count, &*answer));
            }
        });
        Self { address, requests }
    }

    /// Requests that have come.
    pub fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }
}

fn serve(mut stream: Stream, count: &AtomicU64, answer: &dyn Fn(&mut Stream, &str) -> bool) {
    let (mut read, mut chunk) = (Vec::new(), [0; 4096]);
    stream.0.set_nodelay(true).unwrap();
    loop {
        while let Some(len) = whole(&read) {
            let request = String::from_utf8_lossy(&read[..len]).into_owned();
            read.drain(..len);
            count.fetch_add(1, Ordering::Relaxed);
            if !answer(&mut stream, &request) {
                return;
            }
        }
        match stream.0.read(&mut chunk) {
            Ok(len) if len > 0 => read.extend_from_slice(&chunk[..len]),
            _ => return,
        }
    }
}

/// How long the first request is, if it is whole.
fn whole(read: &[u8]) -> Option<usize> {
    let end = read.windows(4).position(|four| four == b"\r\n\r\n")? + 4;
    let head = String::from_utf8_lossy(&read[..end]).to_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    let len = end + length.map_or(0, |length| length.parse::<usize>().unwrap());
    (read.len() >= len).then_some(len)
}
