//! A connection to a server: TCP, TLS over it, or a Unix socket.

use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::client::TlsStream;

use super::dialled::Registration;
use crate::stream::{Socket as Plain, delegate_io};

/// A connection to a server. What is written to a TLS connection is on its way after a flush. One
/// that was ended since its server stays silent fails with
/// [`TimedOut`](io::ErrorKind::TimedOut).
#[derive(Debug)]
pub struct Socket {
    /// `None` of a Unix socket, and where nobody watches.
    registration: Option<Registration>,
    io: Io,
}

#[derive(Debug)]
enum Io {
    /// In the clear, or on this machine.
    Plain(Plain),
    /// Boxed, since it is many times the size.
    Tls(Box<TlsStream<TcpStream>>),
}

impl From<TcpStream> for Socket {
    fn from(stream: TcpStream) -> Self {
        Self { registration: None, io: Io::Plain(Plain::Tcp(stream)) }
    }
}

impl From<UnixStream> for Socket {
    fn from(stream: UnixStream) -> Self {
        Self { registration: None, io: Io::Plain(Plain::Unix(stream)) }
    }
}

impl Socket {
    /// A connection that was just opened, watched from now on.
    ///
    /// # Errors
    /// As of [`Registration::new`].
    pub(super) fn dialled(stream: TcpStream) -> io::Result<Self> {
        Ok(Self { registration: Registration::new(&stream)?, ..stream.into() })
    }

    /// The same connection under TLS, once `shake_hands` has been done.
    pub(super) async fn encrypted<F>(
        self,
        shake_hands: impl FnOnce(TcpStream) -> F,
    ) -> io::Result<Self>
    where
        F: Future<Output = io::Result<TlsStream<TcpStream>>>,
    {
        let Self { registration, io: Io::Plain(Plain::Tcp(stream)) } = self else {
            let what = "TLS can only be started on a plain TCP connection";
            return Err(io::Error::new(io::ErrorKind::Unsupported, what));
        };
        let stream = shake_hands(stream).await?;
        Ok(Self { registration, io: Io::Tls(Box::new(stream)) })
    }

    /// The TCP connection in the clear that it is; none of any other.
    pub fn into_tcp_in_clear(self) -> Option<TcpStream> {
        match self.io {
            Io::Plain(Plain::Tcp(stream)) => Some(stream),
            Io::Plain(Plain::Unix(_)) | Io::Tls(_) => None,
        }
    }

    /// Whether it is encrypted.
    pub fn is_tls(&self) -> bool {
        matches!(self.io, Io::Tls(_))
    }

    /// Whether what is sent can be read on the way.
    pub fn is_in_clear(&self) -> bool {
        matches!(self.io, Io::Plain(Plain::Tcp(_)))
    }

    /// Version and cipher, where it is encrypted.
    pub fn encryption(&self) -> Option<String> {
        match &self.io {
            Io::Tls(stream) => Some(crate::tls::described(stream.get_ref().1)),
            Io::Plain(_) => None,
        }
    }

    /// This end and the server's; none for a Unix socket, or where it is gone.
    pub fn addresses(&self) -> (Option<SocketAddr>, Option<SocketAddr>) {
        match self.tcp_stream() {
            Some(stream) => (stream.local_addr().ok(), stream.peer_addr().ok()),
            None => (None, None),
        }
    }

    /// The TCP connection below, by its descriptor; none for a Unix socket.
    pub fn tcp(&self) -> Option<BorrowedFd<'_>> {
        self.tcp_stream().map(AsFd::as_fd)
    }

    /// The descriptor of the connection, whatever it is; below TLS.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        match &self.io {
            Io::Plain(Plain::Tcp(stream)) => stream.as_fd(),
            Io::Plain(Plain::Unix(stream)) => stream.as_fd(),
            Io::Tls(stream) => stream.get_ref().0.as_fd(),
        }
    }

    fn tcp_stream(&self) -> Option<&TcpStream> {
        match &self.io {
            Io::Plain(Plain::Tcp(stream)) => Some(stream),
            Io::Plain(Plain::Unix(_)) => None,
            Io::Tls(stream) => Some(stream.get_ref().0),
        }
    }

    /// The certificate (DER) that the server has shown, for channel binding.
    pub fn server_certificate(&self) -> Option<&[u8]> {
        match &self.io {
            Io::Tls(stream) => stream.get_ref().1.peer_certificates()?.first().map(AsRef::as_ref),
            Io::Plain(_) => None,
        }
    }

    /// The protocol that was agreed on by ALPN.
    pub fn alpn(&self) -> Option<&[u8]> {
        match &self.io {
            Io::Tls(stream) => stream.get_ref().1.alpn_protocol(),
            Io::Plain(_) => None,
        }
    }

    /// Waits until there is something to read, or the server has closed; a TLS connection may
    /// turn out to have nothing of the protocol to say.
    ///
    /// # Errors
    /// As the system's.
    pub async fn readable(&self) -> io::Result<()> {
        match &self.io {
            Io::Plain(stream) => stream.readable().await,
            Io::Tls(stream) => stream.get_ref().0.readable().await,
        }
    }

    /// The error of a connection that was ended from here, in place of what `done` says of its end.
    #[cold]
    fn at_end<T>(&self, done: io::Result<T>) -> io::Result<T> {
        match self.registration.as_ref().and_then(Registration::silence) {
            Some(silence) => Err(silence),
            None => done,
        }
    }

    fn written<T>(&self, done: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        match done {
            Poll::Ready(Err(error)) => Poll::Ready(self.at_end(Err(error))),
            done => done,
        }
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        match Pin::new(&mut self.io).poll_read(cx, buf) {
            Poll::Ready(done) if buf.filled().len() == before => Poll::Ready(self.at_end(done)),
            done => done,
        }
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let done = Pin::new(&mut self.io).poll_write(cx, buf);
        self.written(done)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let done = Pin::new(&mut self.io).poll_write_vectored(cx, bufs);
        self.written(done)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let done = Pin::new(&mut self.io).poll_flush(cx);
        self.written(done)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let done = Pin::new(&mut self.io).poll_shutdown(cx);
        self.written(done)
    }
}

delegate_io!(Io: Plain, Tls);
