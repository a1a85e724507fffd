//! A server that is heard late: a proxy that holds what it says.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

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
                    join(&client, &server, delay);
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
fn join(client: &TcpStream, server: &TcpStream, delay: Duration) {
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let ends = || Some((client.try_clone().ok()?, server.try_clone().ok()?));
    if let (Some((client, server)), Some(others)) = (ends(), ends()) {
        thread::spawn(move || hand_on(client, server, Duration::ZERO));
        thread::spawn(move || hand_on(others.1, others.0, delay));
    }
}

fn hand_on(mut from: TcpStream, mut to: TcpStream, delay: Duration) {
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
        if read.send((Instant::now() + delay, chunk[..n].to_vec())).is_err() {
            break;
        }
    }
    drop(read);
    let _ = (from.shutdown(Shutdown::Read), writer.join());
}
