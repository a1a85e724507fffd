//! Why a connection to a server could not be opened, and what can be done about it.

use std::borrow::Cow;
use std::fmt;

use flow::dial::{self, Stage};
use wire::postgres::backend::Fields;
use wire::postgres::sqlstate;

use super::TalkError;

/// How much of a server's text is kept, in bytes.
const TEXT_BYTES_MAX: usize = 1024;

/// An error that a server has answered with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerError {
    /// `ERROR`, `FATAL` or `PANIC`.
    pub severity: String,
    /// The SQLSTATE; empty where the server gave none.
    pub code: String,
    /// The message in the server's language.
    pub message: String,
    /// What can be done about it, where the server knows.
    pub hint: Option<String>,
}

impl ServerError {
    /// From the fields of an ErrorResponse.
    pub fn new(fields: &Fields<'_>) -> Self {
        Self {
            severity: text(fields.severity()),
            code: text(fields.code()),
            message: text(fields.message()),
            hint: fields.hint().map(text),
        }
    }
}

fn text(bytes: &[u8]) -> String {
    let bytes = &bytes[..bytes.len().min(TEXT_BYTES_MAX)];
    match String::from_utf8_lossy(bytes) {
        Cow::Borrowed(text) => text.to_owned(),
        Cow::Owned(text) => text,
    }
}

impl fmt::Display for ServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.severity, self.message)?;
        if !self.code.is_empty() {
            write!(f, " (SQLSTATE {})", self.code)?;
        }
        match &self.hint {
            Some(hint) => write!(f, "; {hint}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for ServerError {}

/// Why a connection to a server could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum DialError {
    /// Nobody is there, or the network says so.
    #[error(
        "can't connect to {}: {}; is PostgreSQL running and listening there?",
        .0.address, .0.source
    )]
    Connect(
        /// What failed, and at which stage.
        #[source]
        dial::DialError,
    ),
    /// It took too long.
    #[error("{0}; does it hang?")]
    TimedOut(
        /// Where, and how long it might take.
        #[from]
        dial::Late,
    ),
    /// The server has no TLS.
    #[error("{address} does not take TLS: set ssl = on there, or tls = \"disable\" here")]
    NoTls {
        /// The address of the server.
        address: String,
    },
    /// The TLS handshake failed, or the certificate was not trusted.
    #[error("TLS with {}: {}; see `tls` and `ca` of the backend", .0.address, .0.source)]
    Tls(
        /// As rustls says it.
        #[source]
        dial::DialError,
    ),
    /// TLS was begun without asking, and the server did not say what protocol it speaks.
    #[error(
        "{address} took direct TLS without ALPN: PostgreSQL before 17 can't; write \
         tls-negotiation = \"postgres\""
    )]
    NoAlpn {
        /// The address of the server.
        address: String,
    },
    /// Something came in the clear between the agreement on TLS and the handshake, which would be
    /// taken for what came under TLS (CVE-2021-43766).
    #[error("{address} sent something in the clear after agreeing to TLS: is somebody between?")]
    Injected {
        /// The address of the server.
        address: String,
    },
    /// The server refuses this login.
    #[error("{address} refuses user {user} in database {database}: {error}")]
    Refused {
        /// The address of the server.
        address: String,
        /// The user that Weir logs in as.
        user: String,
        /// The database's name on the server.
        database: String,
        /// In the server's words.
        error: Box<ServerError>,
    },
    /// Weir can't log in, for want of a password or because the server does not know it either.
    #[error("can't log in to {address} as {user}: {reason}")]
    Login {
        /// The address of the server.
        address: String,
        /// The user that Weir logs in as.
        user: String,
        /// Why, in words for the operator.
        reason: String,
    },
    /// The server closed, or does not speak the protocol.
    #[error("{address}: {source}")]
    Talk {
        /// The address of the server.
        address: String,
        /// What went wrong on the connection.
        source: TalkError,
    },
}

impl From<dial::DialError> for DialError {
    fn from(error: dial::DialError) -> Self {
        match error.stage {
            Stage::Tls => Self::Tls(error),
            _ => Self::Connect(error),
        }
    }
}

impl DialError {
    /// The server's own words, where it answered with an error.
    pub fn server_error(&self) -> Option<&ServerError> {
        match self {
            Self::Refused { error, .. } => Some(error),
            _ => None,
        }
    }

    /// Whether the server runs and takes connections, and this login alone was refused: another
    /// user's, or one a moment later, may be taken.
    pub fn is_of_this_login(&self) -> bool {
        match self {
            Self::Refused { error, .. } => error.code != sqlstate::CANNOT_CONNECT_NOW,
            Self::Login { .. } => true,
            _ => false,
        }
    }
}
