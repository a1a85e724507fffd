//! Writing as an [`Outlet`](crate::outlet::Outlet) does it: by others than the connection's
//! reader, so that the reader's waker stays where it is.

use std::io::{self, IoSlice};
use std::net::Shutdown;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use tokio::io::AsyncWrite as _;

use super::{Io, Socket, Stream};
use crate::progress::Connections;

impl Stream {
    /// The worker's connections, which this is one of.
    pub(crate) fn connections(&self) -> &Connections {
        self.opened.connections()
    }

    /// Its socket, where it is a plain one over TCP.
    #[inline]
    pub(crate) fn tcp(&self) -> Option<BorrowedFd<'_>> {
        match &self.io {
            Io::Plain(Socket::Tcp(socket)) => Some(socket.as_fd()),
            _ => None,
        }
    }

    /// Writes what the socket takes at once. TLS may keep some of it, see
    /// [`keeps`](Self::keeps).
    ///
    /// # Errors
    /// [`WouldBlock`](io::ErrorKind::WouldBlock), or the connection is closed.
    #[inline]
    pub(crate) fn try_send(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.io {
            Io::Plain(socket) => socket.try_write(bytes),
            Io::Tls(encrypted) => {
                now(Pin::new(&mut encrypted.stream).poll_write(&mut nobody(), bytes))
            }
        }
    }

    /// As [`try_send`](Self::try_send), of several pieces.
    pub(crate) fn try_send_parts(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        match &mut self.io {
            Io::Plain(socket) => socket.try_write_vectored(parts),
            Io::Tls(encrypted) => {
                now(Pin::new(&mut encrypted.stream).poll_write_vectored(&mut nobody(), parts))
            }
        }
    }

    /// As [`try_send`](Self::try_send), and wakes the task when it can be tried again.
    pub(crate) fn poll_send(
        &mut self,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match &mut self.io {
            Io::Plain(socket) => Pin::new(socket).poll_write(cx, bytes),
            Io::Tls(encrypted) => Pin::new(&mut encrypted.stream).poll_write(cx, bytes),
        }
    }

    /// Whether encrypted bytes wait for the socket to take them.
    #[inline]
    pub(crate) fn keeps(&self) -> bool {
        self.encrypted().is_some_and(|encrypted| encrypted.stream.get_ref().1.wants_write())
    }

    /// Passes on what it [`keeps`](Self::keeps).
    pub(crate) fn poll_pass_on(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.io {
            Io::Plain(_) => Poll::Ready(Ok(())),
            Io::Tls(encrypted) => Pin::new(&mut encrypted.stream).poll_flush(cx),
        }
    }

    /// Whether the client has ended its side, also when there are bytes unread before that.
    pub(crate) fn is_ended(&self) -> bool {
        self.socket().is_ended()
    }

    /// Whether the client has closed the connection, which is known once something was sent to it,
    /// or the connection has failed.
    pub(crate) fn is_broken(&self) -> bool {
        self.socket().is_broken()
    }

    /// Ends both directions at once, so that whoever reads hears of it.
    pub(crate) fn hang_up(&mut self) {
        if let Io::Tls(encrypted) = &mut self.io {
            // Says goodbye if the socket takes it.
            let _ = Pin::new(&mut encrypted.stream).poll_shutdown(&mut nobody());
        }
        // A socket that is gone already has nothing to end.
        let _ = self.socket().shutdown(Shutdown::Both);
    }
}

/// A context for an attempt after which nobody waits.
fn nobody() -> Context<'static> {
    Context::from_waker(Waker::noop())
}

fn now<T>(polled: Poll<io::Result<T>>) -> io::Result<T> {
    match polled {
        Poll::Ready(done) => done,
        Poll::Pending => Err(io::ErrorKind::WouldBlock.into()),
    }
}
