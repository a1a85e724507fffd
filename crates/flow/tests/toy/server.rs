//! A server of the toy's protocol that can be made to misbehave.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

/// A server, with a thread for each connection.
#[derive(Clone)]
pub struct Server(Arc<State>);

pub struct State {
    pub address: SocketAddr,
    /// The values by their keys.
    values: Mutex<HashMap<Vec<u8>, Value>>,
    /// How often each key was put.
    pub puts: Mutex<HashMap<Vec<u8>, usize>>,
    connections: Mutex<Vec<TcpStream>>,
    /// Keys that another server has now, by its number.
    elsewhere: Mutex<HashMap<Vec<u8>, usize>>,
    /// While it is set, requests are read and not answered.
    pub hangs: AtomicBool,
    /// So many answers it gives all the same.
    pub passes: AtomicUsize,
    /// Lines that it has read and has an answer to.
    pub read: AtomicUsize,
    /// While it is set, no requests are read.
    pub is_deaf: AtomicBool,
    /// It closes the connection in the middle of so many of the next answers to `GET`.
    pub dies_within: AtomicUsize,
    pub accepted: AtomicUsize,
    /// Replies that it has sent whole.
    pub answered: AtomicUsize,
    /// It listens no more.
    has_left: AtomicBool,
}

/// A value; one byte again and again takes no memory.
enum Value {
    Bytes(Vec<u8>),
    Repeated(u8, usize),
}

impl Value {
    fn new(bytes: Vec<u8>) -> Self {
        match bytes.first() {
            Some(first) if bytes.iter().all(|byte| byte == first) => {
                Self::Repeated(*first, bytes.len())
            }
            _ => Self::Bytes(bytes),
        }
    }

    fn len(&self) -> usize {
        match self {
            Self::Bytes(bytes) => bytes.len(),
            Self::Repeated(_, len) => *len,
        }
    }

    fn bytes(&self) -> Vec<u8> {
        match self {
            Self::Bytes(bytes) => bytes.clone(),
            Self::Repeated(byte, len) => vec![*byte; *len],
        }
    }
}

impl std::ops::Deref for Server {
    type Target = State;

    fn deref(&self) -> &State {
        &self.0
    }
}

impl Server {
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        // What it does not read is soon left with whoever sends it.
        socket2::SockRef::from(&listener).set_recv_buffer_size(16 * 1024).unwrap();
        let server = Self(Arc::new(State {
            address: listener.local_addr().unwrap(),
            values: Mutex::default(),
            puts: Mutex::default(),
            elsewhere: Mutex::default(),
            connections: Mutex::default(),
            hangs: AtomicBool::new(false),
            passes: AtomicUsize::new(0),
            read: AtomicUsize::new(0),
            is_deaf: AtomicBool::new(false),
            dies_within: AtomicUsize::new(0),
            accepted: AtomicUsize::new(0),
            answered: AtomicUsize::new(0),
            has_left: AtomicBool::new(false),
        }));
        let state = server.clone();
        std::thread::spawn(move || {
            for connection in listener.incoming().flatten() {
                if state.has_left.load(Ordering::Relaxed) {
                    return;
                }
                state.accepted.fetch_add(1, Ordering::Relaxed);
                connection.set_nodelay(true).unwrap();
                state.connections.lock().push(connection.try_clone().unwrap());
                let state = state.clone();
                std::thread::spawn(move || state.serve(&connection));
            }
        });
        server
    }

    /// Cuts all connections of clients.
    pub fn cut(&self) {
        for connection in self.connections.lock().drain(..) {
            let _ = connection.shutdown(Shutdown::Both);
        }
    }

    /// Stops listening and cuts all connections.
    pub fn leave(&self) {
        self.has_left.store(true, Ordering::Relaxed);
        drop(TcpStream::connect(self.address));
        self.cut();
    }

    /// Hands a key over to another server, whose number is told to whoever asks.
    pub fn hand_over(&self, key: &str, to: &Self, number: usize) {
        let mut values = self.values.lock();
        if let Some(value) = values.remove(key.as_bytes()) {
            to.values.lock().insert(key.into(), value);
        }
        self.elsewhere.lock().insert(key.into(), number);
        to.elsewhere.lock().remove(key.as_bytes());
    }

    /// Says of a key that another server has it.
    pub fn send_away(&self, key: &str, number: usize) {
        self.elsewhere.lock().insert(key.into(), number);
    }

    pub fn value(&self, key: &str) -> Option<Vec<u8>> {
        self.values.lock().get(key.as_bytes()).map(Value::bytes)
    }

    pub fn hang(&self, hangs: bool) {
        self.hangs.store(hangs, Ordering::Relaxed);
    }

    /// How often a key was put.
    pub fn put_times(&self, key: &[u8]) -> usize {
        self.puts.lock().get(key).copied().unwrap_or(0)
    }

    fn serve(&self, connection: &TcpStream) {
        let mut reader = BufReader::new(connection);
        let (mut line, mut name) = (Vec::new(), b"nobody".to_vec());
        loop {
            line.clear();
            match reader.read_until(b'\n', &mut line) {
                Ok(n) if n > 0 && line.ends_with(b"\n") => {}
                _ => return,
            }
            // Behind the read: what comes from now on is answered by nobody, the first, too.
            while self.is_deaf.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(5));
            }
            line.pop();
            let Some(reply) = self.answer(&line, &mut name, &mut reader) else { return };
            self.read.fetch_add(1, Ordering::Relaxed);
            while self.hangs.load(Ordering::Relaxed) && !took_one(&self.passes) {
                std::thread::sleep(Duration::from_millis(5));
            }
            if !self.send(connection, &line, &reply) {
                let _ = connection.shutdown(Shutdown::Both);
                return;
            }
            self.answered.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn send(&self, mut connection: &TcpStream, line: &[u8], reply: &Reply) -> bool {
        let dies = line.starts_with(b"GET") && took_one(&self.dies_within);
        match reply {
            Reply::Bytes(bytes) if dies => {
                let _ = connection.write_all(&bytes[..bytes.len() / 2]);
                false
            }
            Reply::Bytes(bytes) => connection.write_all(bytes).is_ok(),
            Reply::Zeros(size) => {
                let mut left = *size;
                let zeros = vec![b'0'; 256 * 1024];
                if connection.write_all(format!("${left}\n").as_bytes()).is_err() {
                    return false;
                }
                while left > 0 {
                    let n = left.min(zeros.len());
                    if connection.write_all(&zeros[..n]).is_err() {
                        return false;
                    }
                    left -= n;
                }
                true
            }
        }
    }

    fn answer(
        &self,
        line: &[u8],
        name: &mut Vec<u8>,
        reader: &mut BufReader<&TcpStream>,
    ) -> Option<Reply> {
        let words: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
        let size = |text: &[u8]| String::from_utf8_lossy(text).parse::<usize>().unwrap();
        let text = |text: &str| Some(Reply::Bytes(format!("{text}\n").into_bytes()));
        match words[..] {
            // So many bytes that nobody holds.
            [b"GET", key] if key.starts_with(b"zeros-") => Some(Reply::Zeros(size(&key[6..]))),
            [b"GET", key] => match self.values.lock().get(key) {
                None => text("-none"),
                Some(value) => {
                    let head = format!("${}\n", value.len());
                    Some(Reply::Bytes([head.as_bytes(), &value.bytes()].concat()))
                }
            },
            [b"PUT", key, n] => {
                let n = size(n);
                let mut value = Vec::new();
                if n <= 1 << 20 {
                    value.resize(n, 0);
                    reader.read_exact(&mut value).ok()?;
                } else {
                    let read = std::io::copy(&mut reader.take(n as u64), &mut std::io::sink());
                    if read.ok()? < n as u64 {
                        return None;
                    }
                }
                *self.puts.lock().entry(key.to_vec()).or_default() += 1;
                self.values.lock().insert(key.to_vec(), Value::new(value));
                text("+ok")
            }
            // What is behind this is asked although the key may be said to be elsewhere.
            [b"LET"] => text("+ok"),
            [b"ADD", key, word] => {
                let mut values = self.values.lock();
                if let Some(number) = self.elsewhere.lock().get(key) {
                    return text(&format!("-elsewhere {number}"));
                }
                let mut bytes = values.get(key).map(Value::bytes).unwrap_or_default();
                bytes.extend_from_slice(word);
                values.insert(key.to_vec(), Value::new(bytes));
                text("+ok")
            }
            [b"SUM", ref keys @ ..] => {
                let values = self.values.lock();
                let lens = keys.iter().map(|key| values.get(*key).map_or(0, Value::len));
                text(&format!("+{}", lens.sum::<usize>()))
            }
            [b"NAME", _, other] => {
                *name = other.to_vec();
                text("+ok")
            }
            [b"NAMED", _] => text(&format!("+{}", String::from_utf8_lossy(name))),
            [b"RESET"] => {
                *name = b"nobody".to_vec();
                text("+ok")
            }
            _ => text("-what?"),
        }
    }
}

fn took_one(of: &AtomicUsize) -> bool {
    of.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1)).is_ok()
}

enum Reply {
    Bytes(Vec<u8>),
    Zeros(usize),
}
