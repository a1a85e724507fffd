//! A plain TCP connection that no task waits for.

use std::io;
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};

use rustix::net::RecvFlags;

use super::{Io, Socket, Stream};
use crate::progress::{ConnectionEntry, Progress};

/// A plain TCP connection without the runtime: reads what has come, for those who hear from a
/// [`PollSet`](crate::poll_set::PollSet) when to try, which is noted in its [`Progress`]. It is
/// written to as any descriptor.
pub struct Bare {
    socket: TcpStream,
    opened: ConnectionEntry,
}

impl Stream {
    /// Whether it can do without the runtime: a plain one over TCP, with nothing put back.
    pub fn can_be_bare(&self) -> bool {
        matches!(self.io, Io::Plain(Socket::Tcp(_))) && self.unread.is_empty()
    }

    /// Goes on without the runtime.
    ///
    /// # Errors
    /// The runtime does not let go of it, or it [cannot](Self::can_be_bare).
    pub fn into_bare(self) -> io::Result<Bare> {
        match self.io {
            Io::Plain(Socket::Tcp(socket)) if self.unread.is_empty() => {
                Ok(Bare { socket: socket.into_std()?, opened: self.opened })
            }
            _ => Err(io::ErrorKind::Unsupported.into()),
        }
    }
}

impl Bare {
    /// Goes on within the runtime.
    ///
    /// # Errors
    /// The runtime does not take it.
    pub fn into_stream(self) -> io::Result<Stream> {
        let socket = tokio::net::TcpStream::from_std(self.socket)?;
        Ok(Stream::plain(Socket::Tcp(socket), self.opened))
    }

    /// Where the front end says what the connection is doing.
    pub fn progress(&self) -> &Progress {
        &self.opened.progress
    }

    /// Reads what has come; 0 at the end.
    ///
    /// # Errors
    /// [`WouldBlock`](io::ErrorKind::WouldBlock), or the connection has failed.
    pub fn recv(&self, buffer: &mut [u8]) -> io::Result<usize> {
        let (count, _) = rustix::net::recv(&self.socket, buffer, RecvFlags::DONTWAIT)?;
        self.opened.progress.read(count);
        Ok(count)
    }
}

impl AsFd for Bare {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
