//! A server that answers each command with its own number.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use parking_lot::Mutex;

/// What came back for a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// The number of the server that had it.
    Server(usize),
    /// An error that nutcracker made itself.
    Refused(String),
}

/// A running server. Dropping it closes all of its sockets.
pub struct Fake {
    /// As `nutcracker.yml` has it, without the weight.
    pub address: String,
    state: Arc<State>,
    accepting: Option<JoinHandle<()>>,
}

/// What ends the thread that waits for the next connection.
type Wake = Box<dyn Fn() + Send + Sync>;

struct State {
    number: usize,
    over: AtomicBool,
    open: Mutex<Vec<Box<dyn Connection>>>,
    wake: Wake,
}

trait Connection: Read + Write + Send {
    fn another(&self) -> io::Result<Box<dyn Connection>>;
    fn close(&self);
}

impl Connection for TcpStream {
    fn another(&self) -> io::Result<Box<dyn Connection>> {
        Ok(Box::new(self.try_clone()?))
    }

    fn close(&self) {
        let _ = self.shutdown(Shutdown::Both);
    }
}

impl Connection for UnixStream {
    fn another(&self) -> io::Result<Box<dyn Connection>> {
        Ok(Box::new(self.try_clone()?))
    }

    fn close(&self) {
        let _ = self.shutdown(Shutdown::Both);
    }
}

impl Fake {
    pub fn tcp(number: usize) -> Self {
        Self::listening(number, TcpListener::bind("127.0.0.1:0").expect("a free port"))
    }

    /// On port 11211 of any loopback address; `None` where it is taken on those that were tried.
    pub fn on_memcached_port(number: usize) -> Option<Self> {
        let [.., high, low] = std::process::id().to_be_bytes();
        let listener = (1..100).find_map(|net| {
            TcpListener::bind((std::net::Ipv4Addr::new(127, net, high, low | 1), 11211)).ok()
        })?;
        Some(Self::listening(number, listener))
    }

    fn listening(number: usize, listener: TcpListener) -> Self {
        let address = listener.local_addr().expect("an address");
        let wake: Wake = Box::new(move || drop(TcpStream::connect(address)));
        let accept = move || {
            let (stream, _) = listener.accept()?;
            stream.set_nodelay(true)?;
            Ok(Box::new(stream) as Box<dyn Connection>)
        };
        Self::start(number, address.to_string(), wake, accept)
    }

    pub fn unix(number: usize, directory: &Path) -> Self {
        let path = directory.join(format!("{number}.sock"));
        let listener = UnixListener::bind(&path).expect("a socket");
        let address = path.display().to_string();
        let wake: Wake = Box::new(move || drop(UnixStream::connect(&path)));
        let accept = move || Ok(Box::new(listener.accept()?.0) as Box<dyn Connection>);
        Self::start(number, address, wake, accept)
    }

    fn start(
        number: usize,
        address: String,
        wake: Wake,
        accept: impl Fn() -> io::Result<Box<dyn Connection>> + Send + 'static,
    ) -> Self {
        let (over, open) = (AtomicBool::new(false), Mutex::default());
        let state = Arc::new(State { number, over, open, wake });
        let shared = Arc::clone(&state);
        let accepting = thread::spawn(move || {
            while let Ok(connection) = accept() {
                if shared.over.load(Ordering::SeqCst) {
                    return;
                }
                let another = connection.another().expect("a descriptor");
                shared.open.lock().push(another);
                let number = shared.number;
                thread::spawn(move || drop(answer(connection, number)));
            }
        });
        Self { address, state, accepting: Some(accepting) }
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        self.state.over.store(true, Ordering::SeqCst);
        (self.state.wake)();
        if let Some(accepting) = self.accepting.take() {
            let _ = accepting.join();
        }
        for connection in self.state.open.lock().iter() {
            connection.close();
        }
    }
}

/// Answers until the other side has closed. All that is there is read before anything is sent.
fn answer(connection: Box<dyn Connection>, number: usize) -> io::Result<()> {
    let mut sends = connection.another()?;
    let mut reads = BufReader::with_capacity(64 << 10, connection);
    let (mut out, mut line, mut word) = (Vec::new(), Vec::new(), Vec::new());
    loop {
        if reads.buffer().is_empty() {
            sends.write_all(&out)?;
            out.clear();
        }
        for _ in 0..header(&mut reads, b'*', &mut line)? {
            let length = header(&mut reads, b'$', &mut line)?;
            word.resize(length + 2, 0);
            reads.read_exact(&mut word)?;
        }
        write!(out, "$1\r\n{number}\r\n")?;
    }
}

/// The number of a line that begins with `sign`.
pub fn header(reads: &mut impl BufRead, sign: u8, line: &mut Vec<u8>) -> io::Result<usize> {
    line.clear();
    reads.read_until(b'\n', line)?;
    let number = line.strip_prefix(&[sign]).and_then(|line| line.strip_suffix(b"\r\n"));
    number
        .and_then(|number| std::str::from_utf8(number).ok()?.parse().ok())
        .ok_or(io::ErrorKind::UnexpectedEof.into())
}
