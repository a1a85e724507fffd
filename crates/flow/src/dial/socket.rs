//! A connection to a server: TCP, TLS over it, or a Unix socket.

use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::client::TlsStream;

use crate::stream::{Socket as Plain, delegate_io};

/// A connection to a server. What is written to a TLS connection is on its way after a flush.
#[derive(Debug)]
pub enum Socket {
    /// In the clear, or on this machine.
    Plain(Plain),
    /// Boxed, since it is many times the size.
    Tls(Box<TlsStream<TcpStream>>),
}

impl From<TcpStream> for Socket {
    fn from(stream: TcpStream) -> Self {
        Self::Plain(Plain::Tcp(stream))
    }
}

impl From<UnixStream> for Socket {
    fn from(stream: UnixStream) -> Self {
        Self::Plain(Plain::Unix(stream))
    }
}

impl Socket {
    /// Whether it is encrypted.
    pub fn is_tls(&self) -> bool {
        matches!(self, Self::Tls(_))
    }

    /// Whether what is sent can be read on the way.
    pub fn is_in_clear(&self) -> bool {
        matches!(self, Self::Plain(Plain::Tcp(_)))
    }

    /// Version and cipher, where it is encrypted.
    pub fn encryption(&self) -> Option<String> {
        match self {
            Self::Tls(stream) => Some(crate::tls::described(stream.get_ref().1)),
            Self::Plain(_) => None,
        }
    }

    /// This end and the server's; none for a Unix socket, or where it is gone.
    pub fn addresses(&self) -> (Option<SocketAddr>, Option<SocketAddr>) {
        let stream = match self {
            Self::Plain(Plain::Tcp(stream)) => stream,
            Self::Plain(Plain::Unix(_)) => return (None, None),
            Self::Tls(stream) => stream.get_ref().0,
        };
        (stream.local_addr().ok(), stream.peer_addr().ok())
    }

    /// The TCP connection below, by its descriptor; none for a Unix socket.
    pub fn tcp(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Self::Plain(Plain::Tcp(stream)) => Some(stream.as_fd()),
            Self::Plain(Plain::Unix(_)) => None,
            Self::Tls(stream) => Some(stream.get_ref().0.as_fd()),
        }
    }

    /// The certificate (DER) that the server has shown, for channel binding.
    pub fn server_certificate(&self) -> Option<&[u8]> {
        match self {
            Self::Tls(stream) => stream.get_ref().1.peer_certificates()?.first().map(AsRef::as_ref),
            Self::Plain(_) => None,
        }
    }

    /// The protocol that was agreed on by ALPN.
    pub fn alpn(&self) -> Option<&[u8]> {
        match self {
            Self::Tls(stream) => stream.get_ref().1.alpn_protocol(),
            Self::Plain(_) => None,
        }
    }

    /// Waits until there is something to read, or the server has closed; a TLS connection may
    /// turn out to have nothing of the protocol to say.
    ///
    /// # Errors
    /// As the system's.
    pub async fn readable(&self) -> io::Result<()> {
        match self {
            Self::Plain(stream) => stream.readable().await,
            Self::Tls(stream) => stream.get_ref().0.readable().await,
        }
    }
}

delegate_io!(Socket: Plain, Tls);
