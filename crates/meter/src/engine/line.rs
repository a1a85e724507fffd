//! What a connection's task sends on: a connection of its own, or its part of a shared one.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use flow::dial::Socket;
use tokio::io::{AsyncRead as _, AsyncWrite as _, ReadBuf};

use super::channel::{Channel, has_come};

/// Where requests go out, and answers come in.
pub enum Line {
    Own(Socket),
    Shared(SharedLine),
}

/// A user's part of a shared connection.
pub struct SharedLine {
    channel: Rc<Channel>,
    user: usize,
}

impl SharedLine {
    /// Of a user who has not been on it.
    pub fn new(channel: &Rc<Channel>) -> Self {
        Self { channel: Rc::clone(channel), user: channel.join() }
    }

    /// Gives up what is under way: what comes of it is nobody's.
    pub fn release(&self) {
        self.channel.release(self.user);
    }

    /// Whether the connection takes requests.
    pub fn is_open(&self) -> bool {
        self.channel.is_open()
    }

    /// Waits until the connection takes requests.
    pub async fn opened(&self) {
        poll_fn(|cx| self.channel.poll_open(self.user, cx)).await;
    }
}

impl Line {
    /// Reads what has come; nothing is the end.
    pub fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self {
            Self::Own(socket) => Pin::new(socket).poll_read(cx, buffer),
            Self::Shared(line) => line.channel.poll_receive(line.user, cx, buffer),
        }
    }

    /// Writes what there is room for; on a shared connection all of it, which is a whole request.
    pub fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self {
            Self::Own(socket) => Pin::new(socket).poll_write(cx, bytes),
            Self::Shared(line) => line.channel.poll_send(line.user, cx, bytes),
        }
    }

    /// Has what was written be on its way; a shared connection does so by itself.
    pub fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Own(socket) => Pin::new(socket).poll_flush(cx),
            Self::Shared(_) => Poll::Ready(Ok(())),
        }
    }

    /// Whether the kernel has something that has not been read.
    pub fn has_come(&self) -> bool {
        match self {
            Self::Own(socket) => has_come(socket),
            Self::Shared(line) => line.channel.has_come(),
        }
    }

    /// Whether it is a shared connection that takes no requests now.
    pub fn has_left(&self) -> bool {
        matches!(self, Self::Shared(line) if !line.is_open())
    }

    /// The connection, if it is its user's own.
    pub fn into_own(self) -> Option<Socket> {
        match self {
            Self::Own(socket) => Some(socket),
            Self::Shared(_) => None,
        }
    }
}
