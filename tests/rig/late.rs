//! A server that is heard late: a proxy that holds what it says.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

/// What of a server's words comes late.
#[derive(Clone, Copy)]
struct Lateness {
    delay: Duration,
    /// As many bytes at the end of what it says at once; the rest comes when it is said.
    tail: usize,
}

/// A proxy in front of a server. It takes connections until it is dropped.
pub struct Late {
    pub address: SocketAddr,
    stops: Arc<AtomicBool>,
}

impl Late {
    /// In front of `server`, whose every word comes `delay` later.
    ///
    /// # Panics
    /// There is no port to be had.
    pub fn before(server: SocketAddr, delay: Duration) -> Self {
        Self::start(server, Lateness { delay, tail: usize::MAX })
    }

    /// In front of `server`, whose words come in two pieces: the last `tail` bytes `delay` behind
    /// the others.
    ///
    /// # Panics
    /// There is no port to be had.
    pub fn in_two(server: SocketAddr, tail: usize, delay: Duration) -> Self {
        Self::start(server, Lateness { delay, tail })
    }

    fn start(server: SocketAddr, lateness: Lateness) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("it is bound");
        let stops = Arc::new(AtomicBool::new(false));
        let stopped = stops.clone();
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                if stopped.load(Ordering::Relaxed) {
                    return;
                }
                if let Ok(server) = TcpStream::connect(server) {
                    join(&client, &server, lateness);
                }
            }
        });
        Self { address, stops }
    }
}

impl Drop for Late {
    fn drop(&mut self) {
        self.stops.store(true, Ordering::Relaxed);
        let _ = TcpStream::connect(self.address);
    }
}

/// Hands on what each says to the other, until one of them ends.
fn join(client: &TcpStream, server: &TcpStream, lateness: Lateness) {
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let ends = || Some((client.try_clone().ok()?, server.try_clone().ok()?));
    if let (Some((client, server)), Some(others)) = (ends(), ends()) {
        thread::spawn(move || hand_on(client, server, Lateness { delay: Duration::ZERO, tail: 0 }));
        thread::spawn(move || hand_on(others.1, others.0, lateness));
    }
}

fn hand_on(mut from: TcpStream, mut to: TcpStream, Lateness { delay, tail }: Lateness) {
    let (read, written) = channel::<(Instant, Vec<u8>)>();
    let writer = thread::spawn(move || {
        for (due, bytes) in written {
            thread::sleep(due.saturating_duration_since(Instant::now()));
            if to.write_all(&bytes).is_err() {
                break;
            }
        }
        let _ = to.shutdown(Shutdown::Both);
    });
    let mut chunk = vec![0; 64 * 1024];
    while let Ok(n @ 1..) = from.read(&mut chunk) {
        let (now, (first, last)) = (Instant::now(), chunk[..n].split_at(n - n.min(tail)));
        let pieces = [(now, first), (now + delay, last)];
        let mut said = pieces.into_iter().filter(|(_, bytes)| !bytes.is_empty());
        if said.any(|(due, bytes)| read.send((due, bytes.to_vec())).is_err()) {
            break;
        }
    }
    drop(read);
    let _ = (from.shutdown(Shutdown::Read), writer.join());
}
