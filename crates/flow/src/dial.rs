//! Reaching a server: by TCP or by a Unix socket, under TLS at once or after the protocol has
//! agreed on it, all of it within a deadline.
//!
//! [`Target`] says where and how. A protocol that begins under TLS takes [`Target::connect`]. One
//! that asks the server first takes [`Target::connect_in_clear`], asks, and goes on with
//! [`Target::start_tls`]. Either way [`Target::in_time`] holds the deadline, which is over the
//! protocol's own login, too. What is open is watched ([`watch`]): a connection whose server stays
//! silent ends, and one that leads to this process is refused.

mod dialled;
mod error;
mod fence;
mod own;
mod silence;
mod socket;
#[cfg(test)]
mod tests;
mod tls;

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::net::{TcpStream, UnixStream, lookup_host};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::tls::in_words;

pub(crate) use dialled::is_own;
pub use dialled::{set_silence_limit, watch};
pub use error::{DialError, Late, Stage};
pub use fence::{AllowedAddresses, check_fence, fence};
pub(crate) use own::Listed;
pub use socket::Socket;
pub use tls::{Renewal, Tls};

/// How long an address of a name may be without an answer before the next is tried beside it (the
/// Connection Attempt Delay of RFC 8305, section 5).
const NEXT_ADDRESS: Duration = Duration::from_millis(250);

/// Where a server listens.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Address {
    /// By TCP: a name or an address, and a port.
    Tcp {
        /// A name or an IP address, without brackets.
        host: String,
        /// The TCP port, which has no default here.
        port: u16,
    },
    /// By a Unix socket, at this path.
    Unix(PathBuf),
}

impl Address {
    /// The host as it is written; `None` for a Unix socket.
    pub fn host(&self) -> Option<&str> {
        match self {
            Self::Tcp { host, .. } => Some(host),
            Self::Unix(_) => None,
        }
    }

    /// The path of its Unix socket.
    pub fn socket(&self) -> Option<&Path> {
        match self {
            Self::Tcp { .. } => None,
            Self::Unix(path) => Some(path),
        }
    }
}

/// Host and port as operators write them: the host without brackets, and the port where one is
/// given. `usual` is the port where none is, for the words of an error.
///
/// # Errors
/// It is not a host, in words that say what to write.
pub fn host_and_port(text: &str, usual: u16) -> Result<(&str, Option<&str>), String> {
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, behind) = rest.split_once(']').ok_or("an IPv6 address ends with ]")?;
            match (behind, behind.strip_prefix(':')) {
                ("", _) => (host, None),
                (_, Some(port)) => (host, Some(port)),
                _ => return Err(format!("behind ] stands a port, as [::1]:{usual}")),
            }
        }
        None => match text.split_once(':') {
            Some((_, port)) if port.contains(':') => {
                return Err(format!("an IPv6 address is written in brackets, as [::1]:{usual}"));
            }
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        },
    };
    if host.is_empty() { Err("the host is missing".to_owned()) } else { Ok((host, port)) }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp { host, port } if host.contains(':') => write!(f, "[{host}]:{port}"),
            Self::Tcp { host, port } => write!(f, "{host}:{port}"),
            Self::Unix(path) => write!(f, "{}", path.display()),
        }
    }
}

/// Where a server is and how connections to it are opened.
#[derive(Debug, Clone)]
pub struct Target {
    /// Where the server listens: by TCP or at a Unix socket's path.
    pub address: Address,
    /// What TLS is begun with; `None` is in the clear.
    pub tls: Option<Tls>,
    /// How long a connection may take, the protocol's login included.
    pub connect_timeout: Duration,
}

impl Target {
    /// Opens a connection, under TLS where that is its way. The deadline is the caller's to set.
    ///
    /// # Errors
    /// The server can't be reached, or TLS fails.
    pub async fn connect(&self) -> Result<Socket, DialError> {
        let socket = self.connect_in_clear().await?;
        match &self.tls {
            None => Ok(socket),
            Some(tls) => self.start_tls(socket, tls).await,
        }
    }

    /// Opens a connection that is not encrypted yet. The addresses of a name are tried in their
    /// order: the next one once the former has failed, or beside it where that says nothing for a
    /// while. Of those that fail the last is told.
    ///
    /// # Errors
    /// The server can't be reached.
    pub async fn connect_in_clear(&self) -> Result<Socket, DialError> {
        match &self.address {
            Address::Unix(path) => {
                let connected = async {
                    fence::check_unix()?;
                    let stream = UnixStream::connect(path).await?;
                    dialled::refuse_own_unix(&stream)?;
                    Ok(stream)
                };
                connected
                    .await
                    .map(Socket::from)
                    .map_err(|error| self.failed(Stage::of_unix, error))
            }
            Address::Tcp { host, port } => self.connect_tcp(host, *port).await,
        }
    }

    async fn connect_tcp(&self, host: &str, port: u16) -> Result<Socket, DialError> {
        let found = lookup_host((host, port)).await;
        let addresses = found.map_err(|error| self.failed(Stage::of_lookup, error))?;
        match first_of(addresses.collect()).await {
            Ok(stream) => Socket::dialled(stream).map_err(|error| self.failed(Stage::of, error)),
            Err(Some(error)) => Err(self.failed(Stage::of, error)),
            Err(None) => {
                let what = "could not resolve to any address";
                Err(self.failed(|_| Stage::Name, io::Error::new(io::ErrorKind::InvalidInput, what)))
            }
        }
    }

    /// Encrypts a connection. Nothing may have been read from it behind the server's agreement:
    /// bytes in the clear must never be taken for encrypted ones.
    ///
    /// # Errors
    /// The handshake failed; the connection is encrypted already, or over a Unix socket.
    pub async fn start_tls(&self, socket: Socket, tls: &Tls) -> Result<Socket, DialError> {
        let shaken = tls.shake_hands(socket).await;
        let words = |error: io::Error| match in_words(&error) {
            Some(words) => io::Error::new(error.kind(), words),
            None => error,
        };
        shaken.map_err(|error| self.failed(|_| Stage::Tls, words(error)))
    }

    /// Does what opens a connection, for no longer than one may take.
    ///
    /// # Errors
    /// As of `open`, or it took too long.
    pub async fn in_time<T, E: From<Late>>(
        &self,
        open: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        let limit = self.connect_timeout;
        let late = |_| Err(Late { address: self.address.to_string(), limit }.into());
        timeout(limit, open).await.unwrap_or_else(late)
    }

    fn failed(&self, stage: impl FnOnce(&io::Error) -> Stage, source: io::Error) -> DialError {
        DialError { address: self.address.to_string(), stage: stage(&source), source }
    }
}

/// The first connection that comes about; of those that fail the error of the last.
async fn first_of(addresses: Vec<SocketAddr>) -> Result<TcpStream, Option<io::Error>> {
    if let [address] = addresses[..] {
        return connect_to(address).await.map_err(Some);
    }
    let mut left = addresses.into_iter();
    let (mut attempts, mut last) = (JoinSet::new(), None);
    loop {
        let next = left.next();
        let is_next = next.is_some();
        if let Some(address) = next {
            attempts.spawn(connect_to(address));
        }
        let ended = match is_next {
            true => timeout(NEXT_ADDRESS, attempts.join_next()).await,
            false => Ok(attempts.join_next().await),
        };
        match ended {
            Ok(Some(Ok(Ok(stream)))) => return Ok(stream),
            Ok(Some(Ok(Err(error)))) => last = Some(error),
            Ok(Some(Err(error))) => last = Some(error.into()),
            Ok(None) => return Err(last),
            // Nothing yet: the next address, beside those that are being tried.
            Err(_) => {}
        }
    }
}

async fn connect_to(address: SocketAddr) -> io::Result<TcpStream> {
    check_fence(address)?;
    let stream = TcpStream::connect(address).await?;
    dialled::prepare(&stream)?;
    Ok(stream)
}
