//! One connection of the generator: at most one request under way, never blocking.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::time::{Duration, Instant};

use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::event::{PollFd, PollFlags, poll};

/// What became of the request under way.
pub enum Progress {
    Waiting,
    Answered { number: u64, intended: Instant, status: u16 },
}

struct Pending {
    number: u64,
    intended: Instant,
    sent: Instant,
}

/// One connection, made when it is needed.
pub struct Socket {
    /// Hears when there is something to read.
    epoll: Rc<OwnedFd>,
    /// What it is called there.
    at: usize,
    stream: Option<TcpStream>,
    pending: Option<Pending>,
    read: Vec<u8>,
}

impl Socket {
    /// Connects at once where that is possible.
    pub fn connected(address: SocketAddr, epoll: Rc<OwnedFd>, at: usize) -> Self {
        let mut socket = Self { epoll, at, stream: None, pending: None, read: Vec::new() };
        socket.stream = socket.connect(address);
        socket
    }

    /// Whether the answer has been waited for longer than that.
    pub fn is_late(&self, timeout: Duration) -> bool {
        self.pending.as_ref().is_some_and(|pending| pending.sent.elapsed() > timeout)
    }

    /// Sends a request; false when the server can't be reached.
    pub fn send(&mut self, to: SocketAddr, number: u64, intended: Instant, bytes: &[u8]) -> bool {
        self.read.clear();
        if self.stream.is_none() {
            self.stream = self.connect(to);
        }
        let Some(stream) = self.stream.as_mut() else { return false };
        if !write_all(stream, bytes) {
            self.stream = None;
            return false;
        }
        self.pending = Some(Pending { number, intended, sent: Instant::now() });
        true
    }

    /// Reads what has come.
    pub fn receive(&mut self, timeout: Duration) -> Progress {
        let late = self.is_late(timeout);
        let status = match (self.stream.as_mut(), late) {
            (Some(stream), false) => read_answer(stream, &mut self.read),
            _ => Some(0),
        };
        let Some(status) = status else { return Progress::Waiting };
        if status == 0 {
            self.stream = None;
        }
        match self.pending.take() {
            Some(Pending { number, intended, .. }) => {
                Progress::Answered { number, intended, status }
            }
            None => Progress::Waiting,
        }
    }

    fn connect(&self, address: SocketAddr) -> Option<TcpStream> {
        let stream = TcpStream::connect(address).ok()?;
        stream.set_nodelay(true).ok()?;
        stream.set_nonblocking(true).ok()?;
        let number = EventData::new_u64(self.at as u64);
        epoll::add(&*self.epoll, &stream, number, EventFlags::IN).ok()?;
        Some(stream)
    }
}

fn write_all(stream: &mut TcpStream, mut bytes: &[u8]) -> bool {
    while !bytes.is_empty() {
        match stream.write(bytes) {
            Ok(0) => return false,
            Ok(written) => bytes = &bytes[written..],
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                let _ = poll(&mut [PollFd::new(&*stream, PollFlags::OUT)], None);
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => return false,
        }
    }
    true
}

/// The status of a whole answer, 0 when the connection has ended, nothing while it is not whole.
fn read_answer(stream: &mut TcpStream, read: &mut Vec<u8>) -> Option<u16> {
    let mut chunk = [0; 4096];
    loop {
        match stream.read(&mut chunk) {
            Ok(0) => return Some(0),
            Ok(count) => read.extend_from_slice(&chunk[..count]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => break,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => return Some(0),
        }
        if let Some(status) = whole_answer(read) {
            return Some(status);
        }
    }
    whole_answer(read)
}

fn whole_answer(read: &[u8]) -> Option<u16> {
    let end = read.windows(4).position(|four| four == b"\r\n\r\n")?;
    let head = std::str::from_utf8(&read[..end]).ok()?;
    let status: u16 = head.get(9..12)?.parse().ok()?;
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse().ok())?
    });
    let length: usize = length.unwrap_or(0);
    (read.len() >= end + 4 + length).then_some(status)
}
