//! A TCP or Unix socket.

use std::io::{self, IoSlice};
use std::net::Shutdown;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::net::RecvFlags;
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::{TcpStream, UnixStream};

/// Reads and writes of an enum of connections are those of the connection that it holds.
macro_rules! delegate_io {
    ($of:ident: $($variant:ident),+) => {
        impl AsyncRead for $of {
            fn poll_read(
                self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                buf: &mut ReadBuf<'_>,
            ) -> Poll<io::Result<()>> {
                match self.get_mut() {
                    $(Self::$variant(stream) => Pin::new(stream).poll_read(cx, buf),)+
                }
            }
        }

        impl AsyncWrite for $of {
            fn poll_write(
                self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                buf: &[u8],
            ) -> Poll<io::Result<usize>> {
                match self.get_mut() {
                    $(Self::$variant(stream) => Pin::new(stream).poll_write(cx, buf),)+
                }
            }

            fn poll_write_vectored(
                self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                bufs: &[IoSlice<'_>],
            ) -> Poll<io::Result<usize>> {
                match self.get_mut() {
                    $(Self::$variant(stream) => Pin::new(stream).poll_write_vectored(cx, bufs),)+
                }
            }

            fn is_write_vectored(&self) -> bool {
                match self {
                    $(Self::$variant(stream) => stream.is_write_vectored(),)+
                }
            }

            fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
                match self.get_mut() {
                    $(Self::$variant(stream) => Pin::new(stream).poll_flush(cx),)+
                }
            }

            fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
                match self.get_mut() {
                    $(Self::$variant(stream) => Pin::new(stream).poll_shutdown(cx),)+
                }
            }
        }
    };
}
pub(crate) use delegate_io;

/// A socket, as the kernel gave it: a client's, or one to a server.
#[derive(Debug)]
pub enum Socket {
    /// A connection over TCP, from or to any host.
    Tcp(TcpStream),
    /// A connection by a Unix socket, from or to this machine.
    Unix(UnixStream),
}

macro_rules! either {
    ($self:expr, $stream:ident => $what:expr) => {
        match $self {
            Socket::Tcp($stream) => $what,
            Socket::Unix($stream) => $what,
        }
    };
}

impl Socket {
    /// Waits until there is something to read, or the other end has closed.
    ///
    /// # Errors
    /// As the system's.
    pub async fn readable(&self) -> io::Result<()> {
        either!(self, stream => stream.readable().await)
    }

    #[inline]
    pub(super) fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        either!(self, stream => stream.try_write(bytes))
    }

    pub(super) fn try_write_vectored(&self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        either!(self, stream => stream.try_write_vectored(parts))
    }
}

delegate_io!(Socket: Tcp, Unix);

/// The socket below a connection, encrypted or not.
pub(super) enum Below<'a> {
    Tcp(&'a TcpStream),
    Unix(&'a UnixStream),
}

impl Below<'_> {
    /// Copies the first bytes that are unread.
    pub(super) fn poll_peek(
        &self,
        cx: &mut Context<'_>,
        into: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        match self {
            Self::Tcp(stream) => stream.poll_peek(cx, &mut ReadBuf::new(into)),
            Self::Unix(stream) => loop {
                ready!(stream.poll_read_ready(cx))?;
                let peek = || Ok(rustix::net::recv(stream, &mut *into, RecvFlags::PEEK)?.1);
                match stream.try_io(Interest::READABLE, peek) {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    peeked => return Poll::Ready(peeked),
                }
            },
        }
    }

    /// Whether the peer has ended its side or the connection has failed, also when there are bytes
    /// unread before that.
    pub(super) fn is_ended(&self) -> bool {
        let ended = PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR;
        self.polls(PollFlags::RDHUP, ended)
    }

    /// Whether both directions have ended: the peer has closed the connection and refuses what is
    /// sent to it, or the connection has failed.
    pub(super) fn is_broken(&self) -> bool {
        self.polls(PollFlags::empty(), PollFlags::HUP | PollFlags::ERR)
    }

    fn polls(&self, asked: PollFlags, any: PollFlags) -> bool {
        let mut polled = match self {
            Self::Tcp(stream) => [PollFd::new(*stream, asked)],
            Self::Unix(stream) => [PollFd::new(*stream, asked)],
        };
        // Nothing is waited for, so nothing interrupts it.
        let polls = rustix::event::poll(&mut polled, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }));
        polls.is_ok() && polled.iter().any(|fd| fd.revents().intersects(any))
    }

    pub(super) fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => SockRef::from(*stream).shutdown(how),
            Self::Unix(stream) => SockRef::from(*stream).shutdown(how),
        }
    }
}
