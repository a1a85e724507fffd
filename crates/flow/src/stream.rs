//! A client's connection, plain or TLS, or over a Unix socket.

mod bare;
mod send;
mod socket;

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use crate::progress::{ConnectionEntry, Progress};
use crate::tls::{Encrypted, ServerTls};
pub use bare::Bare;
pub use socket::Socket;
pub(crate) use socket::delegate_io;

/// A connection on its worker. Bytes that move are noted in its [`Progress`]; once that has closed
/// the connection for being slow, every read and write fails with
/// [`TimedOut`](io::ErrorKind::TimedOut).
pub struct Stream {
    io: Io,
    opened: ConnectionEntry,
    /// What was put back, to be read first.
    unread: Vec<u8>,
}

enum Io {
    Plain(Socket),
    /// Boxed, since it is many times the size.
    Tls(Box<Encrypted>),
}

impl Stream {
    pub(crate) fn plain(socket: Socket, opened: ConnectionEntry) -> Self {
        Self { io: Io::Plain(socket), opened, unread: Vec::new() }
    }

    pub(crate) fn tls(encrypted: Encrypted, opened: ConnectionEntry) -> Self {
        Self { io: Io::Tls(Box::new(encrypted)), opened, unread: Vec::new() }
    }

    /// Where the front end says what the connection is doing.
    pub fn progress(&self) -> &Progress {
        &self.opened.progress
    }

    /// Puts back what was read, for whoever reads next; nothing may be put back already.
    pub fn put_back(&mut self, bytes: Vec<u8>) {
        debug_assert!(self.unread.is_empty(), "put back twice");
        self.unread = bytes;
    }

    /// Gives from what was put back, where there is any.
    fn read_again(&mut self, buf: &mut ReadBuf<'_>) -> bool {
        let count = self.unread.len().min(buf.remaining());
        if count == 0 {
            return false;
        }
        buf.put_slice(&self.unread[..count]);
        self.unread.drain(..count);
        if self.unread.is_empty() {
            self.unread = Vec::new();
        }
        true
    }

    /// Goes on encrypted, when the client has asked for it in the protocol's own words. Nothing
    /// may have been read behind those: bytes in clear must never be taken for encrypted ones.
    ///
    /// # Errors
    /// The handshake failed or took longer than the listener's limit; the connection is encrypted
    /// already, or over a Unix socket.
    pub async fn start_tls(self, tls: &ServerTls) -> io::Result<Self> {
        let Self { io, opened, .. } = self;
        let Io::Plain(Socket::Tcp(stream)) = io else {
            let what = "TLS can only be started on a plain TCP connection";
            return Err(io::Error::new(io::ErrorKind::Unsupported, what));
        };
        let within = opened.progress.handshake();
        let encrypted = match within {
            None => tls.accept(stream).await?,
            Some(within) => tokio::time::timeout(within, tls.accept(stream)).await??,
        };
        opened.progress.header();
        Ok(Self::tls(encrypted, opened))
    }

    /// Waits for the first bytes that are unread and copies them, without reading them; 0 at the
    /// end. Of an encrypted connection it is the encrypted ones.
    ///
    /// # Errors
    /// The connection failed, or was closed for being slow.
    pub async fn peek(&self, into: &mut [u8]) -> io::Result<usize> {
        std::future::poll_fn(|cx| {
            self.check()?;
            let peeked = self.socket().poll_peek(cx, into);
            if peeked.is_pending() {
                self.opened.progress.park(cx.waker());
            }
            peeked
        })
        .await
    }

    /// Whether the connection is encrypted.
    pub fn is_tls(&self) -> bool {
        self.encrypted().is_some()
    }

    /// Whether the client came over a Unix socket.
    pub fn is_unix(&self) -> bool {
        matches!(self.io, Io::Plain(Socket::Unix(_)))
    }

    /// The user id of a client that came over a Unix socket, as the kernel knows it.
    pub fn peer_uid(&self) -> Option<u32> {
        match self.socket_if_plain()? {
            Socket::Unix(stream) => stream.peer_cred().ok().map(|peer| peer.uid()),
            Socket::Tcp(_) => None,
        }
    }

    /// The certificate (DER) that the client has shown and that was found good.
    pub fn client_certificate(&self) -> Option<&[u8]> {
        self.encrypted()?.client_certificate()
    }

    /// The certificate (DER) that the client was shown, for channel binding (RFC 5929, section 4).
    pub fn server_certificate(&self) -> Option<&[u8]> {
        Some(self.encrypted()?.server_certificate())
    }

    /// Version and cipher of an encrypted connection, as `TLSv1.3/TLS13_AES_256_GCM_SHA384`.
    pub fn encryption(&self) -> Option<String> {
        let connection = self.encrypted()?.stream.get_ref().1;
        Some(crate::tls::described(connection))
    }

    /// The protocol that was agreed on by ALPN.
    pub fn alpn(&self) -> Option<&[u8]> {
        self.encrypted()?.protocol()
    }

    fn encrypted(&self) -> Option<&Encrypted> {
        match &self.io {
            Io::Plain(_) => None,
            Io::Tls(encrypted) => Some(encrypted),
        }
    }

    fn socket_if_plain(&self) -> Option<&Socket> {
        match &self.io {
            Io::Plain(socket) => Some(socket),
            Io::Tls(_) => None,
        }
    }

    /// What is below, encrypted or not.
    fn socket(&self) -> socket::Below<'_> {
        match &self.io {
            Io::Plain(Socket::Tcp(stream)) => socket::Below::Tcp(stream),
            Io::Plain(Socket::Unix(stream)) => socket::Below::Unix(stream),
            Io::Tls(encrypted) => socket::Below::Tcp(encrypted.stream.get_ref().0),
        }
    }

    /// The address that the client connected to.
    ///
    /// # Errors
    /// The connection is gone, or is one over a Unix socket.
    pub fn local_addr(&self) -> io::Result<std::net::SocketAddr> {
        let tcp: Option<&TcpStream> = match &self.io {
            Io::Plain(Socket::Tcp(stream)) => Some(stream),
            Io::Plain(Socket::Unix(_)) => None,
            Io::Tls(encrypted) => Some(encrypted.stream.get_ref().0),
        };
        tcp.ok_or(io::ErrorKind::Unsupported)?.local_addr()
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
        let peeked = self.socket().poll_peek(cx, &mut [0]);
        if matches!(peeked, Poll::Ready(Ok(0) | Err(_))) {
            self.opened.progress.left();
        }
    }

    /// Notes the outcome of an attempt to write, and how much the client took.
    fn taken(&self, done: Poll<io::Result<usize>>, cx: &Context<'_>) -> Poll<io::Result<usize>> {
        match &done {
            Poll::Ready(Ok(bytes)) => self.opened.progress.took(*bytes),
            _ => return self.written(done, cx),
        }
        done
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
        if self.read_again(buf) {
            return Poll::Ready(Ok(()));
        }
        let before = buf.filled().len();
        let done = match &mut self.io {
            Io::Plain(socket) => Pin::new(socket).poll_read(cx, buf),
            Io::Tls(encrypted) => Pin::new(&mut encrypted.stream).poll_read(cx, buf),
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
        let done = self.poll_send(cx, buf);
        self.taken(done, cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.check()?;
        let done = match &mut self.io {
            Io::Plain(socket) => Pin::new(socket).poll_write_vectored(cx, bufs),
            Io::Tls(encrypted) => Pin::new(&mut encrypted.stream).poll_write_vectored(cx, bufs),
        };
        self.taken(done, cx)
    }

    fn is_write_vectored(&self) -> bool {
        match &self.io {
            Io::Plain(socket) => socket.is_write_vectored(),
            Io::Tls(encrypted) => encrypted.stream.is_write_vectored(),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.check()?;
        self.look_for_client(cx);
        let done = match &mut self.io {
            // Always done at once, which says nothing about the client.
            Io::Plain(socket) => return Pin::new(socket).poll_flush(cx),
            Io::Tls(encrypted) => Pin::new(&mut encrypted.stream).poll_flush(cx),
        };
        self.written(done, cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.check()?;
        let done = match &mut self.io {
            Io::Plain(socket) => Pin::new(socket).poll_shutdown(cx),
            Io::Tls(encrypted) => Pin::new(&mut encrypted.stream).poll_shutdown(cx),
        };
        self.written(done, cx)
    }
}
