//! A client's connection, plain or TLS.

use std::io::{self, IoSlice};
use std::net::Shutdown;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;

use crate::progress::{Connections, Opened, Progress};

/// A connection on its worker. Bytes that move are noted in its [`Progress`]; once that has closed
/// the connection for being slow, every read and write fails with
/// [`TimedOut`](io::ErrorKind::TimedOut).
pub struct Stream {
    io: Io,
    opened: Opened,
}

enum Io {
    Plain(TcpStream),
    /// Boxed, since it is many times the size.
    Tls(Box<TlsStream<TcpStream>>),
}

impl Stream {
    pub(crate) fn plain(stream: TcpStream, opened: Opened) -> Self {
        let io = Io::Plain(stream);
        Self { io, opened }
    }

    pub(crate) fn tls(stream: TlsStream<TcpStream>, opened: Opened) -> Self {
        let io = Io::Tls(Box::new(stream));
        Self { io, opened }
    }

    /// Where the front end says what the connection is doing.
    pub fn progress(&self) -> &Progress {
        &self.opened.progress
    }

    /// Whether the connection is encrypted.
    pub fn is_tls(&self) -> bool {
        matches!(self.io, Io::Tls(_))
    }

    fn io(&self) -> &TcpStream {
        match &self.io {
            Io::Plain(stream) => stream,
            Io::Tls(stream) => stream.get_ref().0,
        }
    }

    /// The address that the client connected to.
    ///
    /// # Errors
    /// The connection is gone.
    pub fn local_addr(&self) -> io::Result<std::net::SocketAddr> {
        self.io().local_addr()
    }

    pub(crate) fn check(&self) -> io::Result<()> {
        match self.opened.progress.closed() {
            None => Ok(()),
            Some(slow) => Err(io::Error::new(io::ErrorKind::TimedOut, slow)),
        }
    }

    /// Looks whether the client has gone, where somebody wants to know while nothing is read.
    fn look_for_client(&self, cx: &mut Context<'_>) {
        if !self.opened.progress.is_watched() {
            return;
        }
        let mut byte = [0];
        let peeked = self.io().poll_peek(cx, &mut ReadBuf::new(&mut byte));
        if matches!(peeked, Poll::Ready(Ok(0) | Err(_))) {
            self.opened.progress.left();
        }
    }

    /// Notes the outcome of an attempt to write.
    fn written<T>(&self, done: Poll<io::Result<T>>, cx: &Context<'_>) -> Poll<io::Result<T>> {
        match &done {
            Poll::Pending => {
                self.opened.progress.blocked();
                self.opened.progress.park(cx.waker());
            }
            Poll::Ready(_) => self.opened.progress.wrote(),
        }
        done
    }
}

/// A client's connection as its [`Outlet`](crate::outlet::Outlet) uses it: written by others than
/// its reader, so that these calls leave the reader's waker where it is.
impl Stream {
    /// The worker's connections, which this is one of.
    pub(crate) fn connections(&self) -> &Connections {
        self.opened.connections()
    }

    /// Writes what the socket takes at once. TLS may keep some of it, see
    /// [`keeps`](Self::keeps).
    ///
    /// # Errors
    /// [`WouldBlock`](io::ErrorKind::WouldBlock), or the connection is closed.
    #[inline]
    pub(crate) fn try_send(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.io {
            Io::Plain(stream) => stream.try_write(bytes),
            Io::Tls(stream) => now(Pin::new(stream).poll_write(&mut nobody(), bytes)),
        }
    }

    /// As [`try_send`](Self::try_send), of several pieces.
    pub(crate) fn try_send_parts(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        match &mut self.io {
            Io::Plain(stream) => stream.try_write_vectored(parts),
            Io::Tls(stream) => now(Pin::new(stream).poll_write_vectored(&mut nobody(), parts)),
        }
    }

    /// As [`try_send`](Self::try_send), and wakes the task when it can be tried again.
    pub(crate) fn poll_send(
        &mut self,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match &mut self.io {
            Io::Plain(stream) => Pin::new(stream).poll_write(cx, bytes),
            Io::Tls(stream) => Pin::new(stream).poll_write(cx, bytes),
        }
    }

    /// Whether encrypted bytes wait for the socket to take them.
    #[inline]
    pub(crate) fn keeps(&self) -> bool {
        match &self.io {
            Io::Plain(_) => false,
            Io::Tls(stream) => stream.get_ref().1.wants_write(),
        }
    }

    /// Passes on what it [`keeps`](Self::keeps).
    pub(crate) fn poll_pass_on(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.io {
            Io::Plain(_) => Poll::Ready(Ok(())),
            Io::Tls(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    /// Ends both directions at once, so that whoever reads hears of it.
    pub(crate) fn hang_up(&mut self) {
        if let Io::Tls(stream) = &mut self.io {
            // Says goodbye if the socket takes it.
            let _ = Pin::new(stream).poll_shutdown(&mut nobody());
        }
        // A socket that is gone already has nothing to end.
        let _ = socket2::SockRef::from(self.io()).shutdown(Shutdown::Both);
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

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.check()?;
        let before = buf.filled().len();
        let done = match &mut self.io {
            Io::Plain(stream) => Pin::new(stream).poll_read(cx, buf),
            Io::Tls(stream) => Pin::new(stream).poll_read(cx, buf),
        };
        match done {
            Poll::Pending => self.opened.progress.park(cx.waker()),
            Poll::Ready(_) => self.opened.progress.read(buf.filled().len() - before),
        }
        done
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.check()?;
        let done = match &mut self.io {
            Io::Plain(stream) => Pin::new(stream).poll_write(cx, buf),
            Io::Tls(stream) => Pin::new(stream).poll_write(cx, buf),
        };
        self.written(done, cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.check()?;
        let done = match &mut self.io {
            Io::Plain(stream) => Pin::new(stream).poll_write_vectored(cx, bufs),
            Io::Tls(stream) => Pin::new(stream).poll_write_vectored(cx, bufs),
        };
        self.written(done, cx)
    }

    fn is_write_vectored(&self) -> bool {
        match &self.io {
            Io::Plain(stream) => stream.is_write_vectored(),
            Io::Tls(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.check()?;
        self.look_for_client(cx);
        let done = match &mut self.io {
            // Always done at once, which says nothing about the client.
            Io::Plain(stream) => return Pin::new(stream).poll_flush(cx),
            Io::Tls(stream) => Pin::new(stream).poll_flush(cx),
        };
        self.written(done, cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.check()?;
        let done = match &mut self.io {
            Io::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            Io::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
        };
        self.written(done, cx)
    }
}
