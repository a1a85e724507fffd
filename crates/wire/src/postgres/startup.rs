//! A connection's first packets, which have no tag: requests for encryption, cancel requests, and
//! the start of a session ("Message Flow", Start-up).

mod options;

pub use options::{OptionError, options};

use super::read::{Malformed, Reader, put_text, untagged};
use super::{MINOR_MAX, Refusal, SECRET_BYTES, sqlstate};

/// PostgreSQL's own limit on a first packet, in bytes (`MAX_STARTUP_PACKET_LENGTH`).
pub const PACKET_BYTES_MAX: usize = 10_000;

/// What asks for TLS, where a version would stand.
const TLS_CODE: u32 = 80_877_103;
/// What asks for GSSAPI encryption.
const GSS_CODE: u32 = 80_877_104;
/// What asks to cancel.
const CANCEL_CODE: u32 = 80_877_102;

/// What a client's first packet is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum First<'a> {
    /// SSLRequest: one byte answers it, `S` or `N`. Nothing may have come behind it, since that
    /// would be taken for what was said under encryption (CVE-2021-3935).
    Tls,
    /// GSSENCRequest: `N` answers it.
    Gss,
    /// CancelRequest: is never answered.
    Cancel {
        /// Of the connection whose statement is meant.
        process_id: i32,
        /// What proves that it was that connection's client.
        secret: &'a [u8],
    },
    /// StartupMessage: the client opens a session.
    Start(Start<'a>),
}

/// A StartupMessage: protocol 3, parameters in UTF-8, a user's name present.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Start<'a> {
    /// The protocol's major version, always 3.
    pub major: u16,
    /// As asked for; see [`Start::agreed_minor`].
    pub minor: u16,
    parameters: &'a str,
    user: &'a str,
}

/// A first packet that is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StartupError {
    /// Not even a header, or longer than is taken. PostgreSQL closes without a word, since what
    /// says this is hardly a client.
    #[error("invalid length of startup packet")]
    Length,
    /// Strings are not as they should be.
    #[error("invalid startup packet layout")]
    Layout,
    /// The major version is not 3.
    #[error("unsupported frontend protocol {major}.{minor}: server supports 3.0 to 3.2")]
    Version {
        /// The major version that the client sent.
        major: u16,
        /// The minor version that the client sent.
        minor: u16,
    },
    /// Names and values must be in UTF-8 here.
    #[error("startup parameters are not valid UTF-8")]
    NotUtf8,
    /// The parameter `user` is missing or empty.
    #[error("no PostgreSQL user name specified in startup packet")]
    NoUser,
}

impl StartupError {
    /// What the client is told; `None`: the connection is closed without a word.
    pub fn refusal(&self) -> Option<Refusal> {
        let code = match self {
            Self::Length => return None,
            Self::Layout => sqlstate::PROTOCOL_VIOLATION,
            Self::Version { .. } => sqlstate::FEATURE_NOT_SUPPORTED,
            Self::NotUtf8 => sqlstate::CHARACTER_NOT_IN_REPERTOIRE,
            Self::NoUser => sqlstate::INVALID_AUTHORIZATION,
        };
        Some(Refusal::fatal(code, self.to_string()))
    }
}

/// Whether a connection's first byte begins a TLS handshake: direct TLS, without an SSLRequest
/// (the ALPN protocol `postgresql` is then required).
pub fn is_direct_tls(first: u8) -> bool {
    first == 0x16
}

/// The packet at the head of `bytes` and its length; `None`: more bytes are wanted.
///
/// # Errors
/// What is not a first packet, or one of more than `max` bytes ([`PACKET_BYTES_MAX`]).
pub fn parse(bytes: &[u8], max: usize) -> Result<Option<(First<'_>, usize)>, StartupError> {
    let Some(length) = bytes.first_chunk() else { return Ok(None) };
    let len = u32::from_be_bytes(*length) as usize;
    if len < 8 || len > max {
        return Err(StartupError::Length);
    }
    let Some(packet) = bytes.get(4..len) else { return Ok(None) };
    first(packet).map(|first| Some((first, len)))
}

fn first(packet: &[u8]) -> Result<First<'_>, StartupError> {
    let mut reader = Reader::new(packet, "StartupMessage");
    let code = reader.u32().map_err(|_| StartupError::Length)?;
    match (code, packet.len()) {
        (TLS_CODE, 4) => Ok(First::Tls),
        (GSS_CODE, 4) => Ok(First::Gss),
        (CANCEL_CODE, _) => cancel(reader).map_err(|_| StartupError::Length),
        (TLS_CODE | GSS_CODE, _) => Err(StartupError::Length),
        _ => start(code, reader.rest()).map(First::Start),
    }
}

fn cancel(mut reader: Reader<'_>) -> Result<First<'_>, Malformed> {
    let process_id = reader.i32()?;
    let secret = reader.rest();
    if !SECRET_BYTES.contains(&secret.len()) {
        return Err(reader.malformed());
    }
    Ok(First::Cancel { process_id, secret })
}

fn start(version: u32, body: &[u8]) -> Result<Start<'_>, StartupError> {
    let (major, minor) = ((version >> 16) as u16, (version & 0xffff) as u16);
    if major != 3 {
        return Err(StartupError::Version { major, minor });
    }
    // Pairs of strings, and a zero byte where the next name would begin.
    let mut reader = Reader::new(body, "StartupMessage");
    loop {
        if reader.text().map_err(|_| StartupError::Layout)?.is_empty() {
            break;
        }
        reader.text().map_err(|_| StartupError::Layout)?;
    }
    reader.end().map_err(|_| StartupError::Layout)?;
    let parameters = str::from_utf8(body).map_err(|_| StartupError::NotUtf8)?;
    let mut start = Start { major, minor, parameters, user: "" };
    start.user = start.get("user").filter(|user| !user.is_empty()).ok_or(StartupError::NoUser)?;
    Ok(start)
}

impl<'a> Start<'a> {
    /// Names and values in their order, `user` and `database` included.
    pub fn parameters(&self) -> impl Iterator<Item = (&'a str, &'a str)> + use<'a> {
        let mut strings = self.parameters.split('\0');
        std::iter::from_fn(move || {
            let name = strings.next().filter(|name| !name.is_empty())?;
            Some((name, strings.next()?))
        })
    }

    /// The value of a parameter; the last one counts, as in PostgreSQL.
    pub fn get(&self, name: &str) -> Option<&'a str> {
        self.parameters().filter(|(found, _)| *found == name).last().map(|(_, value)| value)
    }

    /// Who wants to log in; never empty.
    pub fn user(&self) -> &'a str {
        self.user
    }

    /// Which database; the user's name where none is named.
    pub fn database(&self) -> &'a str {
        self.get("database").filter(|name| !name.is_empty()).unwrap_or(self.user)
    }

    /// Command-line switches for the session, to be split by [`options`].
    pub fn options(&self) -> Option<&'a str> {
        self.get("options")
    }

    /// Names of the protocol extensions asked for (`_pq_.` and something). None is known here.
    pub fn extensions(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        self.parameters().map(|(name, _)| name).filter(|name| name.starts_with("_pq_."))
    }

    /// The minor version that both sides go on with.
    pub fn agreed_minor(&self) -> u16 {
        self.minor.min(MINOR_MAX)
    }

    /// Whether the client must be told by a NegotiateProtocolVersion that it gets less than it
    /// asked for: `backend::put_negotiate_protocol_version(out, start.agreed_minor(), extensions)`.
    pub fn must_negotiate(&self) -> bool {
        self.minor > MINOR_MAX || self.extensions().next().is_some()
    }
}

/// Appends a StartupMessage of protocol 3.`minor`.
pub fn put_start<'p>(
    out: &mut Vec<u8>,
    minor: u16,
    parameters: impl IntoIterator<Item = (&'p str, &'p str)>,
) {
    untagged(out, |out| {
        out.extend_from_slice(&3u16.to_be_bytes());
        out.extend_from_slice(&minor.to_be_bytes());
        for (name, value) in parameters {
            put_text(out, name.as_bytes());
            put_text(out, value.as_bytes());
        }
        out.push(0);
    });
}

/// Appends an SSLRequest, which the server answers with one byte.
pub fn put_tls_request(out: &mut Vec<u8>) {
    untagged(out, |out| out.extend_from_slice(&TLS_CODE.to_be_bytes()));
}

/// Appends a GSSENCRequest, which the server answers with one byte.
pub fn put_gss_request(out: &mut Vec<u8>) {
    untagged(out, |out| out.extend_from_slice(&GSS_CODE.to_be_bytes()));
}

/// Appends a CancelRequest, which must be the connection's only packet.
pub fn put_cancel(out: &mut Vec<u8>, process_id: i32, secret: &[u8]) {
    untagged(out, |out| {
        out.extend_from_slice(&CANCEL_CODE.to_be_bytes());
        out.extend_from_slice(&process_id.to_be_bytes());
        out.extend_from_slice(secret);
    });
}
