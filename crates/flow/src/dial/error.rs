//! Why a server could not be reached, by the stage at which it failed.

use std::fmt;
use std::io;
use std::time::Duration;

use rustix::io::Errno;

use super::own::LeadsHere;

/// At which stage a server could not be reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Stage {
    /// Its name has no address, or nobody could be asked for one.
    Name,
    /// Nothing was left on this side: no descriptor, no port, no memory. That says nothing about
    /// the server.
    Exhausted,
    /// Nobody takes connections there, or as many wait there as may.
    Refused,
    /// The connection was broken off.
    Reset,
    /// Nothing came in time.
    Late,
    /// There is no way there: no route, or no permission.
    Unreachable,
    /// TLS could not be agreed on.
    Tls,
    /// The connection led to the process that has dialled it.
    Own,
}

impl Stage {
    /// At which a connection by TCP failed.
    pub(super) fn of(error: &io::Error) -> Self {
        if is_of_this_side(error) {
            return Self::Exhausted;
        }
        if error.get_ref().is_some_and(|inner| inner.is::<LeadsHere>()) {
            return Self::Own;
        }
        match error.kind() {
            // Of a TCP connection: no room in a table of routes (connect(2)).
            io::ErrorKind::WouldBlock => Self::Exhausted,
            io::ErrorKind::ConnectionRefused => Self::Refused,
            io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionAborted
            | io::ErrorKind::NotConnected
            | io::ErrorKind::BrokenPipe
            | io::ErrorKind::UnexpectedEof => Self::Reset,
            io::ErrorKind::TimedOut => Self::Late,
            _ => Self::Unreachable,
        }
    }

    /// At which a connection by a Unix socket failed: where nobody listens there may be no file,
    /// and where many wait already one more is not let wait (unix(7)).
    pub(super) fn of_unix(error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::WouldBlock => Self::Refused,
            _ => Self::of(error),
        }
    }

    /// At which it failed to find out the addresses of a name.
    pub(super) fn of_lookup(error: &io::Error) -> Self {
        if is_of_this_side(error) { Self::Exhausted } else { Self::Name }
    }

    /// Whether the fault is this machine's, and the server was not asked.
    pub fn is_of_this_side(self) -> bool {
        self == Self::Exhausted
    }
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Name => "its name can't be looked up",
            Self::Exhausted => "this machine has no descriptor, port or memory left",
            Self::Refused => "it takes no connection",
            Self::Reset => "it broke the connection off",
            Self::Late => "it did not answer in time",
            Self::Unreachable => "there is no way there",
            Self::Tls => "TLS failed",
            Self::Own => "it is an address of this Weir",
        })
    }
}

/// Whether a descriptor, memory, or a port with its address was wanting here (errno(3)).
fn is_of_this_side(error: &io::Error) -> bool {
    const WANTING: [Errno; 6] = [
        Errno::MFILE,
        Errno::NFILE,
        Errno::NOMEM,
        Errno::NOBUFS,
        Errno::ADDRNOTAVAIL,
        Errno::ADDRINUSE,
    ];
    Errno::from_io_error(error).is_some_and(|errno| WANTING.contains(&errno))
}

/// Why a server could not be reached.
#[derive(Debug, thiserror::Error)]
#[error("{address}: {stage}: {source}")]
pub struct DialError {
    /// Where it was looked for.
    pub address: String,
    /// At which stage it failed.
    pub stage: Stage,
    /// As the system says it, or rustls does.
    #[source]
    pub source: io::Error,
}

/// A connection was not open in time.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{address} did not take a connection within {limit:?}")]
pub struct Late {
    /// The server's address, as it is shown.
    pub address: String,
    /// How long it might take.
    pub limit: Duration,
}

impl From<Late> for DialError {
    fn from(Late { address, limit: _ }: Late) -> Self {
        Self { address, stage: Stage::Late, source: io::ErrorKind::TimedOut.into() }
    }
}
