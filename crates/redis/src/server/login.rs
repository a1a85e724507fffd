//! From a new connection to where commands may be sent.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::{fmt, io};

use flow::dial::{Socket, Stage, Target};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, ReadBuf};
use wire::resp::{Piece, Replies, Value, Version, put_command, value};

use super::{Connection, ConnectionProfile, Credentials, Identity, Server, ServerError};

/// Bytes of answers to a login; `HELLO` answers with a map.
const ANSWER_BYTES_MAX: usize = 64 << 10;

impl Server {
    /// Opens a connection in RESP2 and its first database.
    ///
    /// # Errors
    /// The server can't be reached, or refuses Weir.
    pub async fn dial(&self) -> Result<Connection, ServerError> {
        self.open(ConnectionProfile::FIRST, 0).await
    }

    /// The same where its settings say that it is, whoever else might know better.
    ///
    /// # Errors
    /// As of [`dial`](Self::dial).
    pub async fn dial_as_set(&self) -> Result<Connection, ServerError> {
        self.open_at(&self.target, ConnectionProfile::FIRST, 0).await
    }

    /// Opens a connection for a place, up to where commands may be sent.
    ///
    /// # Errors
    /// The server can't be reached, or refuses Weir; nobody says where it is.
    pub async fn open(
        &self,
        place: ConnectionProfile,
        number: usize,
    ) -> Result<Connection, ServerError> {
        let target = self.target_now().await.map_err(|words| said(&words))?;
        self.open_at(&target, place, number).await
    }

    /// The same where it is known where the server is.
    pub(super) async fn open_at(
        &self,
        target: &Target,
        place: ConnectionProfile,
        number: usize,
    ) -> Result<Connection, ServerError> {
        let opened = async {
            let socket = target.connect().await.map_err(|error| ServerError {
                takes_none: error.stage == Stage::Refused,
                ..said(&error)
            })?;
            let mut connection = Connection::new(socket, number);
            let mut out = Vec::new();
            let count = self.put_login(&mut out, place);
            if self.is_master {
                put_command(&mut out, ["ROLE"].iter());
            }
            let count = count + usize::from(self.is_master);
            let replies = connection.ask(&out, count).await.map_err(|error| said(&error))?;
            let role = replies.last().map(Vec::as_slice).unwrap_or_default();
            let is_other = self.is_master && !role.starts_with(b"*3\r\n$6\r\nmaster\r\n");
            match refusal(&replies).filter(|words| !self.is_let_in(place, words)) {
                None if is_other => {
                    let words = "Sentinel has it as the master, and it says that it is none";
                    Err(ServerError { is_refusal: true, ..ServerError::silent(words) })
                }
                Some(words) => Err(ServerError {
                    is_refusal: true,
                    said: self.is_for_client.then(|| words.as_str().into()),
                    ..ServerError::silent(format!("it refuses Weir{}: {words}", self.as_whom()))
                }),
                None => Ok(connection),
            }
        };
        match tokio::time::timeout(self.target.connect_timeout, opened).await {
            Ok(opened) => opened,
            Err(_) => {
                let limit = self.target.connect_timeout;
                Err(said(&format_args!("no connection within {limit:?}")))
            }
        }
    }

    /// Opens a connection to a place for one client, which nobody else is to have.
    ///
    /// # Errors
    /// As of [`dial`](Self::dial).
    pub async fn open_for(&self, place: ConnectionProfile) -> Result<Connection, ServerError> {
        self.open(place, 0).await
    }

    /// Asks by what number the server knows a connection, which it may refuse to tell.
    ///
    /// # Errors
    /// The connection broke, or the server does not answer.
    pub async fn identify(&self, connection: &mut Connection) -> Result<(), ServerError> {
        let mut out = Vec::new();
        put_command(&mut out, ["CLIENT", "ID"].iter());
        let limit = self.target.connect_timeout;
        let asked = tokio::time::timeout(limit, connection.ask(&out, 1)).await;
        let replies = asked.map_err(|_| said(&format_args!("no answer within {limit:?}")))?;
        let replies = replies.map_err(|error| said(&error))?;
        let id = match replies.first().map(|reply| value(reply)) {
            Some(Ok((Value::Integer(number), _))) => Some(number),
            _ => None,
        };
        connection.identity = Arc::new(Identity { id, ..Identity::default() });
        Ok(())
    }

    /// Asks something on a connection of its own, and before anything else but the login: a server
    /// on which a script runs answers to little more.
    ///
    /// # Errors
    /// The server can't be reached, refuses Weir, or does not answer.
    pub async fn ask_apart(&self, words: &[&str]) -> Result<Vec<u8>, ServerError> {
        self.ask_apart_up_to(words, ANSWER_BYTES_MAX).await
    }

    /// As [`ask_apart`](Self::ask_apart), with a limit on the bytes of the answer.
    ///
    /// # Errors
    /// As of `ask_apart`.
    pub async fn ask_apart_up_to(
        &self,
        words: &[&str],
        most: usize,
    ) -> Result<Vec<u8>, ServerError> {
        let asked = async {
            let server = self.located().await.map_err(|words| said(&words))?;
            let socket = server.target.connect().await.map_err(|error| said(&error))?;
            let mut connection = Connection::new(socket, 0);
            let mut out = Vec::new();
            let login = self.login();
            login.iter().for_each(|words| put_command(&mut out, words.iter()));
            put_command(&mut out, words.iter());
            let count = usize::from(login.is_some()) + 1;
            let replies = connection.ask_up_to(&out, count, most).await;
            let mut replies = replies.map_err(|error| said(&error))?;
            let answer = replies.pop().unwrap_or_default();
            match refusal(&replies) {
                Some(words) => Err(said(&format_args!("it refuses Weir: {words}"))),
                None => Ok(answer),
            }
        };
        let limit = self.target.connect_timeout;
        let asked = tokio::time::timeout(limit, asked).await;
        asked.unwrap_or_else(|_| Err(said(&format_args!("no answer within {limit:?}"))))
    }

    /// As whom Weir is refused, for an operator: nothing where that goes without saying.
    fn as_whom(&self) -> String {
        let user = self.login.as_ref().and_then(Credentials::user);
        user.map(|user| format!(" as {:?}", String::from_utf8_lossy(user))).unwrap_or_default()
    }

    /// Who Weir is, for the server.
    fn login(&self) -> Option<Vec<&[u8]>> {
        self.login.as_ref().map(Credentials::command)
    }

    /// Whether an error is one that only who is let in hears: of a client as nobody, who may not
    /// `PING`, or of a server that is busy with a script. A server looks at who somebody is before
    /// what that may do.
    pub(super) fn is_let_in(&self, place: ConnectionProfile, words: &str) -> bool {
        let only_pings = self.login.is_none()
            && place == ConnectionProfile { server: place.server, ..ConnectionProfile::FIRST };
        let may_not = self.is_for_client && words.starts_with("NOPERM ");
        only_pings && !self.is_master && (may_not || words.starts_with("BUSY "))
    }

    /// What a connection begins with: how many replies it has.
    pub(super) fn put_login(&self, out: &mut Vec<u8>, place: ConnectionProfile) -> usize {
        let mut all: Vec<Vec<&[u8]>> = Vec::new();
        let database = place.database.to_string();
        all.extend(self.login());
        if place.version == Version::Three {
            all.push(vec![b"HELLO", b"3"]);
        }
        if place.database != 0 {
            all.push(vec![b"SELECT", database.as_bytes()]);
        }
        // What else a replica in a Cluster says of every key is that another node has it.
        if place.reads && self.is_node {
            all.push(vec![b"READONLY"]);
        }
        // Without any of these the server's greeting would be the first client's.
        if all.is_empty() {
            all.push(vec![b"PING"]);
        }
        all.iter().for_each(|words| put_command(out, words.iter()));
        all.len()
    }
}

fn said(error: &dyn fmt::Display) -> ServerError {
    ServerError::silent(error.to_string())
}

/// The first error among replies, in the server's words.
pub(super) fn refusal(replies: &[Vec<u8>]) -> Option<String> {
    let error = replies.iter().find_map(|reply| reply.strip_prefix(b"-"))?;
    Some(String::from_utf8_lossy(error).trim_end().to_owned())
}

impl Connection {
    fn new(socket: Socket, number: usize) -> Self {
        Self { socket, number, incarnation: 0, identity: Arc::default() }
    }

    /// Sends commands and reads so many replies, each whole.
    ///
    /// # Errors
    /// The connection broke, or the server said something else.
    pub async fn ask(&mut self, bytes: &[u8], count: usize) -> io::Result<Vec<Vec<u8>>> {
        self.ask_up_to(bytes, count, ANSWER_BYTES_MAX).await
    }

    /// As [`ask`](Self::ask), with a limit on the bytes of one reply.
    ///
    /// # Errors
    /// As of `ask`.
    pub async fn ask_up_to(
        &mut self,
        bytes: &[u8],
        count: usize,
        most: usize,
    ) -> io::Result<Vec<Vec<u8>>> {
        self.socket.write_all(bytes).await?;
        self.socket.flush().await?;
        let (mut replies, mut all) = (Replies::default(), Vec::new());
        let (mut reply, mut rest) = (Vec::new(), Vec::new());
        while all.len() < count {
            let mut piece = [0; 16 << 10];
            let read = self.socket.read(&mut piece).await?;
            if read == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            rest.extend_from_slice(piece.get(..read).unwrap_or_default());
            let mut at = 0;
            while let Some(bytes) = rest.get(at..).filter(|bytes| !bytes.is_empty()) {
                let step = replies.scan(bytes).map_err(io::Error::other)?;
                if step.len == 0 {
                    break;
                }
                reply.extend_from_slice(bytes.get(..step.len).unwrap_or_default());
                at += step.len;
                match step.what {
                    Piece::Part => {}
                    Piece::End => all.push(std::mem::take(&mut reply)),
                    Piece::Push => return Err(io::Error::other("a push that nobody asked for")),
                }
            }
            rest.drain(..at);
            if reply.len() + rest.len() > most || all.len() > count {
                return Err(io::Error::other("it answers more than it was asked"));
            }
        }
        match rest.is_empty() && reply.is_empty() {
            true => Ok(all),
            false => Err(io::Error::other("it answers more than it was asked")),
        }
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().socket).poll_read(cx, buf)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().socket).poll_write(cx, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().socket).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().socket).poll_shutdown(cx)
    }
}
