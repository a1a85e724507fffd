//! A provider of Dubbo that answers each call as badly as it is told to.

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use wire::dubbo::{
    Event, FrameReader, Kind, Response, ResponseBody, Status, put_event, put_failure, put_response,
};
use wire::hessian2::{Encoder, Value};

use crate::places;

/// How a provider answers a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answering {
    /// Sends a text back.
    Well,
    /// Sends a text back after some milliseconds.
    Slowly,
    /// Sends a text, byte by byte.
    InPieces,
    /// Sends a text back twice.
    Twice,
    /// Holds each answer until two are held, and sends the later one first.
    Swapped,
    /// Sends an answer only when the next call comes.
    Late,
    /// Closes the connection instead of each tenth answer.
    Closes,
    /// Leaves the call unanswered.
    Never,
    /// Sends bytes that are not a frame.
    Garbage,
    /// Sends a header that announces more than 8 MiB.
    TooLong,
    /// Sends status 100, with words.
    PoolFull,
    /// Sends a text once its heartbeat was answered.
    AfterHeartbeat,
    /// Sends a text behind the event that it takes no further calls.
    ReadOnly,
}

/// How long a slow provider takes for each call.
const SLOW: Duration = Duration::from_millis(4);

/// A provider that is told how to answer. It takes connections until it is dropped, which ends
/// those that there are.
pub struct Provider {
    pub address: SocketAddr,
    seen: Arc<Counts>,
}

#[derive(Default)]
struct Counts {
    is_over: AtomicBool,
    calls: AtomicU64,
    connections: AtomicU64,
    heartbeats: AtomicU64,
    /// Connections that are open.
    open: AtomicU64,
    clients: Mutex<Vec<TcpStream>>,
}

impl Provider {
    /// Listens on a port of its own, and answers each call so.
    ///
    /// # Panics
    /// There is no port to be had.
    pub fn start(answering: Answering) -> Self {
        Self::start_at(SocketAddr::from(([127, 0, 0, 1], 0)), answering)
    }

    /// The same where another one was.
    ///
    /// # Panics
    /// The port is not free.
    pub fn start_at(address: SocketAddr, answering: Answering) -> Self {
        let listener = places::listen(address);
        let address = listener.local_addr().expect("it is bound");
        let seen = Arc::new(Counts::default());
        let counts = seen.clone();
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                if counts.is_over.load(Ordering::Relaxed) {
                    return;
                }
                let counts = counts.clone();
                counts.connections.fetch_add(1, Ordering::Relaxed);
                counts.open.fetch_add(1, Ordering::Relaxed);
                let [known, ends] = [0; 2].map(|_| client.try_clone().expect("a descriptor"));
                counts.clients.lock().unwrap_or_else(PoisonError::into_inner).push(known);
                thread::spawn(move || {
                    serve(client, answering, &counts);
                    // The other descriptors would keep it open.
                    let _ = ends.shutdown(Shutdown::Both);
                    counts.open.fetch_sub(1, Ordering::Relaxed);
                });
            }
        });
        Self { address, seen }
    }

    /// Calls that have come.
    pub fn calls(&self) -> u64 {
        self.seen.calls.load(Ordering::Relaxed)
    }

    /// Connections that were opened.
    pub fn connections(&self) -> u64 {
        self.seen.connections.load(Ordering::Relaxed)
    }

    /// Connections that are open.
    pub fn open_connections(&self) -> u64 {
        self.seen.open.load(Ordering::Relaxed)
    }

    /// Heartbeats that were answered.
    pub fn heartbeats(&self) -> u64 {
        self.seen.heartbeats.load(Ordering::Relaxed)
    }
}

impl Drop for Provider {
    fn drop(&mut self) {
        self.seen.is_over.store(true, Ordering::Relaxed);
        let _ = TcpStream::connect(self.address);
        for client in self.seen.clients.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            let _ = client.shutdown(Shutdown::Both);
        }
    }
}

fn serve(mut client: TcpStream, answering: Answering, counts: &Counts) {
    let _ = client.set_nodelay(true);
    let (mut frames, mut chunk) = (FrameReader::new(1 << 20), [0; 4096]);
    // Calls that are answered once a heartbeat, or another call, has come.
    let mut held = VecDeque::new();
    loop {
        let Ok(len @ 1..) = client.read(&mut chunk) else { return };
        let mut piece = &chunk[..len];
        while let Ok(Some(frame)) = frames.read(&mut piece) {
            let header = frame.header;
            let written = match header.kind {
                Kind::Response { .. } => {
                    counts.heartbeats.fetch_add(1, Ordering::Relaxed);
                    held.pop_front().map_or(Ok(()), |id| client.write_all(&text(id)))
                }
                Kind::Request { .. } if header.is_event => Ok(()),
                Kind::Request { .. } => {
                    let calls = counts.calls.fetch_add(1, Ordering::Relaxed) + 1;
                    held.push_back(header.id);
                    match (answering, held.len()) {
                        (Answering::Closes, _) if calls.is_multiple_of(10) => return,
                        (Answering::Late, 1) | (Answering::Swapped, 0 | 1) => Ok(()),
                        (Answering::Late, _) => {
                            let id = held.pop_front().unwrap_or_default();
                            client.write_all(&text(id))
                        }
                        (Answering::Swapped, _) => {
                            let out = held.drain(..).rev().flat_map(text).collect::<Vec<_>>();
                            client.write_all(&out)
                        }
                        (Answering::AfterHeartbeat, _) => answer(&mut client, answering, 0),
                        _ => answer(&mut client, answering, header.id),
                    }
                }
            };
            if written.is_err() {
                return;
            }
        }
    }
}

fn answer(client: &mut TcpStream, answering: Answering, id: i64) -> std::io::Result<()> {
    let mut out = Vec::new();
    match answering {
        Answering::Well | Answering::Swapped | Answering::Late | Answering::Closes => {
            out = text(id);
        }
        Answering::Slowly => {
            thread::sleep(SLOW);
            out = text(id);
        }
        Answering::InPieces => {
            return text(id).chunks(1).try_for_each(|byte| client.write_all(byte));
        }
        Answering::Twice => out = [text(id), text(id)].concat(),
        Answering::Never => {}
        Answering::Garbage => out.extend_from_slice(b"HTTP/1.1 400 Bad Request\r\n\r\n"),
        Answering::TooLong => {
            out = text(id);
            out[12..16].copy_from_slice(&(9_u32 << 20).to_be_bytes());
        }
        Answering::PoolFull => {
            put_failure(&mut out, id, Status::ServerThreadpoolExhausted, "the pool is full");
        }
        Answering::AfterHeartbeat => {
            put_event(&mut out, Kind::Request { is_two_way: true }, -1, &Event::Heartbeat);
        }
        Answering::ReadOnly => {
            put_event(&mut out, Kind::Request { is_two_way: false }, -1, &Event::ReadOnly);
            out.extend_from_slice(&text(id));
        }
    }
    client.write_all(&out)
}

fn text(id: i64) -> Vec<u8> {
    let mut out = Vec::new();
    let body = ResponseBody::Value(Value::from("text"));
    let response = Response { body, attachments: None };
    put_response(&mut out, &mut Encoder::default(), id, &response);
    out
}
