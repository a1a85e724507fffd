//! A client of PostgreSQL's protocol, message by message, that can go away at any point.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use wire::postgres::backend::{Fields, Row, parameter_status};
use wire::postgres::startup::{put_cancel, put_start};

/// No answer takes longer.
const PATIENCE: Duration = Duration::from_secs(60);

/// All that is said up to ReadyForQuery.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Reply {
    /// The rows of all of its statements.
    pub rows: Vec<Vec<Option<String>>>,
    pub tags: Vec<String>,
    /// The SQLSTATE of an error.
    pub error: Option<String>,
    /// The lines of a COPY.
    pub copied: Vec<String>,
    /// Notifications that came in front of its end.
    pub notified: usize,
    /// `I`, `T` or `E`; `G` when data of a COPY is wanted.
    pub status: char,
}

impl Reply {
    /// The first value, where there is one.
    pub fn value(&self) -> Option<&str> {
        self.rows.first()?.first()?.as_deref()
    }
}

pub struct MessageClient {
    stream: TcpStream,
    address: SocketAddr,
    buffer: Vec<u8>,
    key: Vec<u8>,
    /// The settings that were reported.
    pub reported: BTreeMap<String, String>,
}

impl MessageClient {
    /// Connects and logs in, where nobody asks for a password.
    pub fn connect(address: SocketAddr, parameters: &[(&str, &str)]) -> io::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let (buffer, key, reported) = Default::default();
        let mut peer = Self { stream, address, buffer, key, reported };
        let mut start = Vec::new();
        put_start(&mut start, 0, parameters.iter().copied());
        peer.send(&start)?;
        let reply = peer.reply()?;
        match reply.error {
            None => Ok(peer),
            Some(code) => Err(io::Error::other(format!("refused: {code}"))),
        }
    }

    pub fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)
    }

    /// Reads so many bytes at most, and forgets them.
    pub fn glance(&mut self, bytes: usize) -> io::Result<()> {
        self.stream.read(&mut vec![0; bytes]).map(drop)
    }

    /// Asks to cancel what is under way, and waits until that was dealt with.
    pub fn cancel(&self) -> io::Result<()> {
        let Some((id, secret)) = self.key.split_first_chunk() else { return Ok(()) };
        let mut request = Vec::new();
        put_cancel(&mut request, i32::from_be_bytes(*id), secret);
        let mut stream = TcpStream::connect(self.address)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.write_all(&request)?;
        stream.read(&mut [0]).map(drop)
    }

    /// Whether anything is said within this time.
    pub fn hears_within(&mut self, limit: Duration) -> io::Result<bool> {
        if !self.buffer.is_empty() {
            return Ok(true);
        }
        self.stream.set_read_timeout(Some(limit))?;
        let read = self.fill();
        self.stream.set_read_timeout(Some(PATIENCE))?;
        match read {
            Ok(()) => Ok(true),
            Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    fn fill(&mut self) -> io::Result<()> {
        let mut chunk = [0; 16 * 1024];
        match self.stream.read(&mut chunk)? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            n => {
                self.buffer.extend_from_slice(&chunk[..n]);
                Ok(())
            }
        }
    }

    /// Sends nothing more, and reads on.
    pub fn ends_sending(&self) -> io::Result<()> {
        self.stream.shutdown(std::net::Shutdown::Write)
    }

    /// The next message, and takes note of what it reports.
    ///
    /// # Errors
    /// The connection has ended, or nothing comes for a minute.
    pub fn message(&mut self) -> io::Result<(u8, Vec<u8>)> {
        let (tag, body) = self.raw_message()?;
        match tag {
            b'S' => {
                let (name, value) = parameter_status(&body).map_err(io::Error::other)?;
                self.reported.insert(text(name), text(value));
            }
            b'K' => self.key.clone_from(&body),
            _ => {}
        }
        Ok((tag, body))
    }

    /// Ends the connection without a word.
    pub fn cut(&self) {
        let _ = self.stream.shutdown(std::net::Shutdown::Both);
    }

    /// The port of this end.
    pub fn port(&self) -> u16 {
        self.stream.local_addr().map_or(0, |address| address.port())
    }

    fn raw_message(&mut self) -> io::Result<(u8, Vec<u8>)> {
        loop {
            if let [tag, a, b, c, d, ..] = self.buffer[..] {
                let len = 1 + u32::from_be_bytes([a, b, c, d]) as usize;
                if self.buffer.len() >= len {
                    let body = self.buffer[5..len].to_vec();
                    self.buffer.drain(..len);
                    return Ok((tag, body));
                }
            }
            self.fill()?;
        }
    }

    /// All messages up to the next ReadyForQuery, as they came.
    pub fn messages(&mut self) -> io::Result<Vec<(u8, Vec<u8>)>> {
        let mut messages = Vec::new();
        loop {
            let message = self.message()?;
            let is_last = message.0 == b'Z';
            messages.push(message);
            if is_last {
                return Ok(messages);
            }
        }
    }

    /// All up to the next ReadyForQuery, or to where the server waits for data.
    pub fn reply(&mut self) -> io::Result<Reply> {
        let mut reply = Reply::default();
        loop {
            let (tag, body) = self.message()?;
            match tag {
                b'Z' => {
                    reply.status = char::from(body[0]);
                    return Ok(reply);
                }
                b'G' => {
                    reply.status = 'G';
                    return Ok(reply);
                }
                b'E' => {
                    let fields = Fields::read(&body).map_err(io::Error::other)?;
                    assert_eq!(reply.error, None, "a second error in one round");
                    let code = text(fields.code());
                    if fields.is_fatal() {
                        let said = text(fields.message());
                        return Err(io::Error::other(format!("cut off: {code} {said}")));
                    }
                    reply.error = Some(code);
                }
                b'D' => {
                    let row = Row::read(&body).map_err(io::Error::other)?;
                    reply.rows.push(row.values().map(|value| value.map(text)).collect());
                }
                b'C' => reply.tags.push(text(body.strip_suffix(&[0]).unwrap_or(&body))),
                b's' => reply.tags.push("suspended".to_owned()),
                b'd' => reply.copied.push(text(&body)),
                b'A' => reply.notified += 1,
                _ => {}
            }
        }
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
