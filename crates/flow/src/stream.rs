//! A client's connection, plain or TLS.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;

use crate::progress::{Opened, Progress};

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

    fn check(&self) -> io::Result<()> {
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
