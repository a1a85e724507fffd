//! A real Redis server, and a client that hears each reply as it came.

mod cluster;
mod sentinel;
mod socket;
mod valkey;

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use tempfile::TempDir;
use wire::resp::{Piece, Replies, put_command};

pub use cluster::RedisCluster;
pub use sentinel::Sentinels;
use socket::Socket;
pub use valkey::{valkey, valkeys};

use crate::places;
use crate::process::Process;
use crate::tls::Certificate;
use crate::wait;

/// A real server on loopback with a directory of its own; it can be killed and started again.
#[derive(Debug)]
pub struct Redis {
    process: Option<Process>,
    dir: TempDir,
    program: PathBuf,
    pub address: SocketAddr,
    args: Vec<String>,
}

impl Redis {
    /// A new, empty server.
    ///
    /// # Panics
    /// When it is missing or does not start.
    pub fn start() -> Self {
        Self::start_with(&[])
    }

    /// The same with arguments.
    ///
    /// # Panics
    /// When it is missing or does not start.
    pub fn start_with(args: &[&str]) -> Self {
        Self::start_as(&places::need("redis-server"), args)
    }

    /// The same, of this program.
    ///
    /// # Panics
    /// When it does not start.
    pub fn start_as(program: &Path, args: &[&str]) -> Self {
        let args = args.iter().map(|arg| (*arg).to_owned()).collect();
        let (dir, address) = (places::directory(), places::free_address());
        let program = program.to_owned();
        let mut server = Self { process: None, dir, program, address, args };
        server.start_again();
        server
    }

    /// Starts it where it is not running, at its address.
    ///
    /// # Panics
    /// When it does not start.
    pub fn start_again(&mut self) {
        let dir = self.dir.path();
        let mut command = Command::new(&self.program);
        command.args(["--port", &self.address.port().to_string(), "--bind", "127.0.0.1"]);
        command.args(["--save", "", "--appendonly", "no", "--dir"]).arg(dir);
        command.args(&self.args);
        let mut process = Process::start("redis", &mut command, &dir.join("log"));
        let address = self.address;
        process.wait_ready(|| {
            RedisClient::try_connect(address).is_ok_and(|mut of| of.try_ask(&["PING"]).is_ok())
        });
        self.process = Some(process);
    }

    /// `kill -9`.
    pub fn kill(&mut self) {
        self.process = None;
    }

    /// The running process.
    ///
    /// # Panics
    /// When it is not running.
    pub fn running(&mut self) -> &mut Process {
        self.process.as_mut().expect("the server was started")
    }

    /// Where its files are.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// As a backend's `url`.
    pub fn url(&self) -> String {
        format!("redis://{}", self.address)
    }

    /// A client of it.
    ///
    /// # Panics
    /// When it is not let in.
    pub fn client(&self) -> RedisClient {
        RedisClient::connect(self.address)
    }
}

/// A client that sends what it is told to, and hears replies as they come.
#[derive(Debug)]
pub struct RedisClient {
    socket: Socket,
    replies: Replies,
    rest: Vec<u8>,
    /// What has come of the reply that is heard.
    begun: Vec<u8>,
}

impl RedisClient {
    /// Connects.
    ///
    /// # Panics
    /// When it is not let in.
    pub fn connect(address: SocketAddr) -> Self {
        Self::try_connect(address).expect("clients are taken")
    }

    /// Connects.
    ///
    /// # Errors
    /// As of the socket.
    pub fn try_connect(address: SocketAddr) -> io::Result<Self> {
        let socket = TcpStream::connect(address)?;
        socket.set_nodelay(true)?;
        Self::over(Socket::Tcp(socket))
    }

    /// Connects under TLS, and trusts this certificate alone.
    ///
    /// # Errors
    /// As of the socket; that of the handshake comes with the first command.
    pub fn over_tls(address: SocketAddr, trusted: &Certificate) -> io::Result<Self> {
        Self::over(Socket::Tls(Box::new(trusted.stream(address, &[])?)))
    }

    /// Connects to a Unix socket.
    ///
    /// # Errors
    /// As of the socket.
    pub fn over_unix(path: &Path) -> io::Result<Self> {
        Self::over(Socket::Unix(UnixStream::connect(path)?))
    }

    fn over(socket: Socket) -> io::Result<Self> {
        socket.patience(wait::LONG)?;
        let (replies, rest) = (Replies::default(), Vec::new());
        Ok(Self { socket, replies, rest, begun: Vec::new() })
    }

    /// How long a reply is waited for.
    ///
    /// # Panics
    /// When the socket does not take it.
    pub fn patience(&self, limit: Duration) {
        self.socket.patience(limit).expect("a socket takes a timeout");
    }

    /// Sends bytes.
    ///
    /// # Panics
    /// When they are not taken.
    pub fn send(&mut self, bytes: &[u8]) {
        self.socket.write_all(bytes).expect("it takes bytes");
    }

    /// Sends a command.
    ///
    /// # Panics
    /// When it is not taken.
    pub fn say(&mut self, words: &[&str]) {
        let mut out = Vec::new();
        put_command(&mut out, words.iter());
        self.send(&out);
    }

    /// The next reply, as it came.
    ///
    /// # Errors
    /// As of the socket; the end of the connection is one.
    pub fn try_hear(&mut self) -> io::Result<Vec<u8>> {
        loop {
            while !self.rest.is_empty() {
                let step = self.replies.scan(&self.rest).map_err(io::Error::other)?;
                if step.len == 0 {
                    break;
                }
                // Copied at once: byte by byte, large values keep a test without optimisation busy.
                self.begun.extend_from_slice(&self.rest[..step.len]);
                self.rest.drain(..step.len);
                if step.what != Piece::Part {
                    return Ok(std::mem::take(&mut self.begun));
                }
            }
            let mut piece = [0; 64 * 1024];
            let read = self.socket.read(&mut piece)?;
            if read == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            self.rest.extend_from_slice(&piece[..read]);
        }
    }

    /// What had come of the next reply when it was not heard to its end.
    pub fn begun(&self) -> &[u8] {
        &self.begun
    }

    /// The next reply, as text with `\r\n` shown as a space each.
    ///
    /// # Panics
    /// When there is none.
    #[track_caller]
    pub fn hear(&mut self) -> String {
        shown(&self.try_hear().expect("it is answered"))
    }

    /// Sends a command and hears its reply.
    ///
    /// # Errors
    /// As of the socket.
    pub fn try_ask(&mut self, words: &[&str]) -> io::Result<Vec<u8>> {
        let mut out = Vec::new();
        put_command(&mut out, words.iter());
        self.socket.write_all(&out)?;
        self.try_hear()
    }

    /// Sends a command and hears its reply.
    ///
    /// # Panics
    /// When there is none.
    #[track_caller]
    pub fn ask(&mut self, words: &[&str]) -> String {
        self.say(words);
        self.hear()
    }

    /// A command of words with spaces between them.
    ///
    /// # Panics
    /// When there is no reply.
    #[track_caller]
    pub fn line(&mut self, line: &str) -> String {
        self.ask(&line.split(' ').collect::<Vec<_>>())
    }

    /// Whether the other side has closed the connection, and said nothing before.
    pub fn is_closed(&mut self) -> bool {
        matches!(self.try_hear(), Err(error) if error.kind() != io::ErrorKind::WouldBlock)
    }
}

/// A reply as text.
fn shown(reply: &[u8]) -> String {
    String::from_utf8_lossy(reply).trim_end().replace("\r\n", " ")
}
