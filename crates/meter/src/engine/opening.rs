//! From nothing to a connection that takes requests: the kernel's handshake, TLS, and what the
//! workload says first.

use std::io;
use std::time::{Duration, Instant};

use flow::dial::{DialError, Late, Socket, Target};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::failure::Owner;
use crate::workload::{Greeting, Refused};

/// Connections of a thread that are opened at once.
pub const AT_ONCE_MAX: usize = 16;
/// Bytes that are read at once while nothing is measured.
const PIECE: usize = 4096;

/// A connection could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The server can't be reached.
    #[error(transparent)]
    Dial(#[from] DialError),
    /// The server is there and does not let us in.
    #[error("{address} does not let us in: {source}")]
    Refused {
        address: String,
        /// In the server's words.
        source: Refused,
    },
    /// The connection broke before it took a request.
    #[error("{address} broke the connection off before it took a request: {source}")]
    Broken {
        address: String,
        /// As the system says it.
        source: io::Error,
    },
}

impl From<Late> for OpenError {
    fn from(late: Late) -> Self {
        Self::Dial(late.into())
    }
}

impl OpenError {
    /// Whose fault it is, in words without the address.
    pub(super) fn blame(&self) -> (Owner, String) {
        match self {
            Self::Dial(error) => {
                let is_ours = error.stage.is_of_this_side();
                let owner = if is_ours { Owner::Injector } else { Owner::Network };
                (owner, format!("{}: {}", error.stage, error.source))
            }
            Self::Refused { source, .. } => (Owner::Server, source.to_string()),
            Self::Broken { source, .. } => (Owner::Network, source.to_string()),
        }
    }
}

/// What is known of a connection when it is open.
#[derive(Debug, Clone, Copy)]
pub struct ConnectionTimes {
    /// How long the kernel's handshake took.
    pub took: Duration,
    /// The round trip that it was, by the kernel's measure.
    pub round_trip: Option<Duration>,
}

/// Opens a connection; gives what is known of its way, too.
pub async fn open(
    target: &Target,
    greeting: Option<Box<dyn Greeting>>,
) -> Result<(Socket, ConnectionTimes), OpenError> {
    let opened = async {
        let begun = Instant::now();
        let mut socket = target.connect_in_clear().await?;
        let took = begun.elapsed();
        let round_trip = socket.tcp().and_then(sched::tcp::min_round_trip);
        if let Some(tls) = &target.tls {
            if let Some(request) = greeting.as_ref().and_then(|greeting| greeting.tls_request()) {
                ask_for_tls(target, &mut socket, &request).await?;
            }
            socket = target.start_tls(socket, tls).await?;
        }
        if let Some(mut greeting) = greeting {
            greet(target, &mut socket, &mut *greeting).await?;
        }
        Ok((socket, ConnectionTimes { took, round_trip }))
    };
    target.in_time(opened).await
}

/// Reads no byte behind the agreement: one in the clear must not be taken for an encrypted one.
async fn ask_for_tls(
    target: &Target,
    socket: &mut Socket,
    request: &[u8],
) -> Result<(), OpenError> {
    let address = || target.address.to_string();
    let broken = |source| OpenError::Broken { address: address(), source };
    socket.write_all(request).await.map_err(broken)?;
    let mut agreed = [0];
    socket.read_exact(&mut agreed).await.map_err(broken)?;
    match agreed {
        [b'S'] => Ok(()),
        _ => {
            let source = Refused("it has no TLS, which is asked for".to_owned());
            Err(OpenError::Refused { address: address(), source })
        }
    }
}

async fn greet(
    target: &Target,
    socket: &mut Socket,
    greeting: &mut dyn Greeting,
) -> Result<(), OpenError> {
    let address = || target.address.to_string();
    let broken = |source| OpenError::Broken { address: address(), source };
    let (mut piece, mut len, mut out) = ([0; PIECE], 0, Vec::new());
    loop {
        let done = greeting.step(&piece[..len], &mut out);
        let done = done.map_err(|source| OpenError::Refused { address: address(), source })?;
        socket.write_all(&out).await.map_err(broken)?;
        socket.flush().await.map_err(broken)?;
        out.clear();
        if done {
            return Ok(());
        }
        len = socket.read(&mut piece).await.map_err(broken)?;
        if len == 0 {
            return Err(broken(io::ErrorKind::UnexpectedEof.into()));
        }
    }
}
