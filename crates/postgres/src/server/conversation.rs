//! Message by message over a connection that nobody else uses.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use wire::postgres::Malformed;
use wire::postgres::frame::{self, Frame, FrameError};

/// Room that is made before each read, in bytes.
const READ_BYTES: usize = 8 << 10;
/// The longest message that a server may send to Weir itself, in bytes.
const MESSAGE_BYTES_MAX: usize = 16 << 20;

/// Messages back and forth, one after the other. After an error it is of no more use.
#[derive(Debug)]
pub struct Conversation<S> {
    io: S,
    /// What has come and was not looked at yet; its first `taken` bytes were.
    buffer: Vec<u8>,
    taken: usize,
    /// What is to be sent.
    pub(super) out: Vec<u8>,
}

/// A conversation that broke off.
#[derive(Debug, thiserror::Error)]
pub enum TalkError {
    /// The server closed the connection.
    #[error("the server closed the connection; its log says why")]
    Closed,
    /// Reading from the connection or writing to it failed.
    #[error("the connection broke: {0}")]
    Io(#[from] io::Error),
    /// What comes is not cut into messages.
    #[error("this is not PostgreSQL's protocol: {0}")]
    Frame(#[from] FrameError),
    /// A message is not as it should be.
    #[error("this is not PostgreSQL's protocol: {0}")]
    Malformed(#[from] Malformed),
    /// It never comes to the point.
    #[error("the server talks on and on and is never ready")]
    Endless,
    /// A message that does not belong here.
    #[error("this is not PostgreSQL's protocol: a message {:?} out of turn", char::from(*.0))]
    Unexpected(
        /// The message's type byte.
        u8,
    ),
}

impl<S> Conversation<S> {
    /// Over `io`, after `came` has been read from it.
    pub fn new(io: S, came: Vec<u8>) -> Self {
        Self { io, buffer: came, taken: 0, out: Vec::new() }
    }

    /// The connection, and what has been read from it and was not looked at.
    pub fn into_parts(mut self) -> (S, Vec<u8>) {
        self.buffer.drain(..self.taken);
        (self.io, self.buffer)
    }

    pub fn get_ref(&self) -> &S {
        &self.io
    }

    /// Whether something has come that was not looked at.
    pub fn has_more(&self) -> bool {
        self.buffer.len() > self.taken
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Conversation<S> {
    /// Sends what is to be sent.
    pub(super) async fn send(&mut self) -> Result<(), TalkError> {
        self.io.write_all(&self.out).await?;
        self.io.flush().await?;
        self.out.clear();
        Ok(())
    }

    /// Sends messages that were written elsewhere.
    pub(crate) async fn say(&mut self, messages: &[u8]) -> Result<(), TalkError> {
        self.out.extend_from_slice(messages);
        self.send().await
    }

    /// Waits for the next message.
    pub(crate) async fn next(&mut self) -> Result<Frame<'_>, TalkError> {
        self.buffer.drain(..self.taken);
        self.taken = 0;
        loop {
            if let Some(header) = frame::header(&self.buffer, MESSAGE_BYTES_MAX)?
                && self.buffer.len() >= header.len
            {
                self.taken = header.len;
                break;
            }
            self.buffer.reserve(READ_BYTES);
            if self.io.read_buf(&mut self.buffer).await? == 0 {
                return Err(TalkError::Closed);
            }
        }
        // It is there, as was just seen.
        frame::next(&self.buffer, MESSAGE_BYTES_MAX)?.ok_or(TalkError::Closed)
    }
}
