//! HTTP/1.1 as simply as it can be spoken, so that a test decides every byte: a blocking client,
//! and the reading of messages that the fakes use too.

use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::time::Duration;

use socket2::{Domain, Socket, Type};

use crate::wait;

/// How long a read waits: a hung server fails the test instead of hanging it.
const READ_TIMEOUT: Duration = wait::LONG;

/// Anything bytes go through both ways.
pub trait Stream: Read + Write + Send {}
impl<T: Read + Write + Send> Stream for T {}

#[derive(Debug, Clone, Default)]
pub struct Request {
    pub method: String,
    pub target: String,
    /// Header fields; `Host` and `Content-Length` are added where they are missing.
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Request {
    /// A request of any method.
    pub fn new(method: &str, target: &str) -> Self {
        Self { method: method.to_owned(), target: target.to_owned(), ..Self::default() }
    }

    pub fn get(target: &str) -> Self {
        Self::new("GET", target)
    }

    /// A POST with a body.
    pub fn post(target: &str, body: impl Into<Vec<u8>>) -> Self {
        Self { body: body.into(), ..Self::new("POST", target) }
    }

    /// A POST to `/query` with `q` and other pairs as a form.
    pub fn query(q: &str, pairs: &[(&str, &str)]) -> Self {
        let pairs = std::iter::once(("q", q)).chain(pairs.iter().copied());
        let form: Vec<String> = pairs.map(|(k, v)| format!("{k}={}", escape(v))).collect();
        Self::post("/query", form.join("&"))
            .header("Content-Type", "application/x-www-form-urlencoded")
    }

    /// Adds a header field.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// The bytes on the wire.
    pub fn encode(&self) -> Vec<u8> {
        let has = |name: &str| self.headers.iter().any(|(n, _)| n.eq_ignore_ascii_case(name));
        let mut out = format!("{} {} HTTP/1.1\r\n", self.method, self.target);
        if !has("host") {
            out.push_str("Host: localhost\r\n");
        }
        if !has("content-length") && !has("transfer-encoding") {
            out.push_str(&format!("Content-Length: {}\r\n", self.body.len()));
        }
        for (name, value) in &self.headers {
            out.push_str(&format!("{name}: {value}\r\n"));
        }
        out.push_str("\r\n");
        let mut out = out.into_bytes();
        out.extend_from_slice(&self.body);
        out
    }
}

/// `text` as it stands in a URL's query or a form.
pub fn escape(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' => out.push(byte.into()),
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

/// A message as it was read: an answer or, at a fake, a request.
#[derive(Debug, Clone, Default)]
pub struct Message {
    pub start: String,
    pub headers: Vec<(String, String)>,
    /// The body, without chunk framing.
    pub body: Vec<u8>,
}

impl Message {
    /// The answer's status; 0 where the first line has none.
    pub fn status(&self) -> u16 {
        self.start.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or(0)
    }

    /// A header field's value.
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(n, _)| n.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The body as JSON; null where it is none.
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }
}

pub struct Connection {
    stream: Box<dyn Stream>,
    unread: Vec<u8>,
}

impl Connection {
    /// Connects over TCP.
    ///
    /// # Errors
    /// As the system's.
    pub fn open(address: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(READ_TIMEOUT))?;
        stream.set_nodelay(true)?;
        Ok(Self::over(stream))
    }

    /// Connects over TCP from an address of this machine's own.
    ///
    /// # Errors
    /// As the system's.
    pub fn open_from(from: IpAddr, address: SocketAddr) -> io::Result<Self> {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
        socket.bind(&SocketAddr::new(from, 0).into())?;
        socket.connect(&address.into())?;
        socket.set_read_timeout(Some(READ_TIMEOUT))?;
        socket.set_tcp_nodelay(true)?;
        Ok(Self::over(TcpStream::from(socket)))
    }

    /// Speaks over what is there already.
    pub fn over(stream: impl Stream + 'static) -> Self {
        Self { stream: Box::new(stream), unread: Vec::new() }
    }

    /// Sends bytes as they are.
    ///
    /// # Errors
    /// As the stream's.
    pub fn push(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)?;
        self.stream.flush()
    }

    /// Sends a request and reads its answer, which may come before all of the request was sent.
    ///
    /// # Errors
    /// As the stream's, and `UnexpectedEof` where the answer breaks off.
    pub fn send(&mut self, request: &Request) -> io::Result<Message> {
        let pushed = self.push(&request.encode());
        let answer = self.answer(request.method == "HEAD");
        pushed.or_else(|error| answer.as_ref().map(|_| ()).map_err(|_| error))?;
        answer
    }

    /// Reads one answer.
    ///
    /// # Errors
    /// As the stream's, and `UnexpectedEof` where the answer breaks off.
    pub fn answer(&mut self, to_head: bool) -> io::Result<Message> {
        let mut message = self.head()?;
        while message.status() == 100 {
            message = self.head()?;
        }
        if !(to_head || matches!(message.status(), 204 | 304)) {
            self.body(&mut message, true)?;
        }
        Ok(message)
    }

    /// Reads one request with its body.
    ///
    /// # Errors
    /// As the stream's, and `UnexpectedEof` where it breaks off.
    pub fn request(&mut self) -> io::Result<Message> {
        let mut message = self.head()?;
        self.body(&mut message, false)?;
        Ok(message)
    }

    fn more(&mut self) -> io::Result<()> {
        let before = self.unread.len();
        self.unread.resize(before + (64 << 10), 0);
        let read = self.stream.read(&mut self.unread[before..]);
        self.unread.truncate(before + read.as_ref().map_or(0, |n| *n));
        match read? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(()),
        }
    }

    fn line(&mut self) -> io::Result<String> {
        let mut searched = 0;
        loop {
            if let Some(at) = self.unread[searched..].iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.unread.drain(..=searched + at).collect();
                return Ok(String::from_utf8_lossy(&line).trim_end().to_owned());
            }
            searched = self.unread.len();
            self.more()?;
        }
    }

    /// Reads the head of an answer, whose body comes in chunks.
    ///
    /// # Errors
    /// As the stream's, and `UnexpectedEof` where it breaks off.
    pub fn head(&mut self) -> io::Result<Message> {
        let mut message = Message { start: self.line()?, ..Message::default() };
        loop {
            let line = self.line()?;
            if line.is_empty() {
                return Ok(message);
            }
            let (name, value) = line.split_once(':').unwrap_or((&line, ""));
            message.headers.push((name.to_owned(), value.trim().to_owned()));
        }
    }

    fn body(&mut self, message: &mut Message, to_the_end: bool) -> io::Result<()> {
        let chunked = message.header("transfer-encoding").is_some_and(|v| v.contains("chunked"));
        let length = message.header("content-length").and_then(|v| v.parse().ok());
        if chunked {
            while self.chunk(&mut message.body)? {}
            return Ok(());
        }
        match length {
            Some(length) => self.exactly(length, &mut message.body),
            None if to_the_end => {
                while self.more().is_ok() {}
                message.body = std::mem::take(&mut self.unread);
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// Reads one chunk; false when it is the empty one at the end.
    ///
    /// # Errors
    /// As the stream's, and `UnexpectedEof` where it breaks off.
    pub fn chunk(&mut self, into: &mut Vec<u8>) -> io::Result<bool> {
        let size = self.line()?;
        let size = usize::from_str_radix(&size, 16).map_err(io::Error::other)?;
        self.exactly(size, into)?;
        self.line()?;
        Ok(size > 0)
    }

    fn exactly(&mut self, length: usize, into: &mut Vec<u8>) -> io::Result<()> {
        while self.unread.len() < length {
            self.more()?;
        }
        into.extend(self.unread.drain(..length));
        Ok(())
    }

    /// Whether the other side has closed, or closes within the read timeout.
    pub fn is_closed(&mut self) -> bool {
        loop {
            match self.more() {
                Ok(()) => {}
                Err(error) => {
                    return !matches!(
                        error.kind(),
                        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut
                    );
                }
            }
        }
    }
}

/// Sends one request over a connection of its own.
///
/// # Errors
/// As the system's, and `UnexpectedEof` where the answer breaks off.
pub fn send(address: SocketAddr, request: &Request) -> io::Result<Message> {
    Connection::open(address)?.send(request)
}
