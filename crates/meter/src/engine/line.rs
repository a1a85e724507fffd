//! What a connection's task sends on: a connection of its own, or its part of a shared one.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};

use flow::dial::Socket;
use tokio::io::{AsyncRead as _, AsyncWrite as _, ReadBuf};

use super::channel::{Channel, has_come};
use super::channels::BalancedLine;

/// Where requests go out, and answers come in.
pub enum Line {
    Own(Socket),
    Shared(SharedLine),
    /// Its part of shared connections to several servers.
    Balanced(BalancedLine),
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
            Self::Balanced(line) => line.poll_receive(cx, buffer),
        }
    }

    /// Writes what there is room for; on a shared connection all of it, which is a whole request.
    pub fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self {
            Self::Own(socket) => Pin::new(socket).poll_write(cx, bytes),
            Self::Shared(line) => line.channel.poll_send(line.user, cx, bytes),
            Self::Balanced(line) => line.poll_send(cx, bytes),
        }
    }

    /// Has what was written be on its way; a shared connection does so by itself.
    pub fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Own(socket) => Pin::new(socket).poll_flush(cx),
            Self::Shared(_) | Self::Balanced(_) => Poll::Ready(Ok(())),
        }
    }

    /// Whether the kernel has something that has not been read.
    pub fn has_come(&self) -> bool {
        match self {
            Self::Own(socket) => has_come(socket),
            Self::Shared(line) => line.channel.has_come(),
            Self::Balanced(line) => line.has_come(),
        }
    }

    /// Whether it is shared with others.
    pub fn is_shared(&self) -> bool {
        !matches!(self, Self::Own(_))
    }

    /// Whether what is shared takes no requests now.
    pub fn has_left(&self) -> bool {
        match self {
            Self::Own(_) => false,
            Self::Shared(line) => !line.channel.is_open(),
            Self::Balanced(line) => !line.is_open(),
        }
    }

    /// Gives up what is under way on what is shared: what comes of it is nobody's.
    pub fn release(&mut self) {
        match self {
            Self::Own(_) => {}
            Self::Shared(line) => line.channel.release(line.user),
            Self::Balanced(line) => drop(line.release()),
        }
    }

    /// The request has ended: which of several servers had it.
    pub fn end_request(&mut self) -> Option<Arc<str>> {
        match self {
            Self::Own(_) | Self::Shared(_) => None,
            Self::Balanced(line) => line.release(),
        }
    }

    /// Waits until what is shared takes requests.
    pub async fn opened(&self) {
        match self {
            Self::Own(_) => {}
            Self::Shared(line) => poll_fn(|cx| line.channel.poll_open(line.user, cx)).await,
            Self::Balanced(line) => poll_fn(|cx| line.poll_open(cx)).await,
        }
    }

    /// The connection, if it is its user's own.
    pub fn into_own(self) -> Option<Socket> {
        match self {
            Self::Own(socket) => Some(socket),
            Self::Shared(_) | Self::Balanced(_) => None,
        }
    }
}
