//! What a server says to a client ("Message Formats", marked B).

mod build;
mod fields;
mod rows;

pub use build::*;
pub use fields::Fields;
pub use rows::{Column, Columns, Row, RowError, Values};

use super::SECRET_BYTES;
use super::read::{Malformed, Reader};

/// Tags of a server's messages.
#[expect(missing_docs, reason = "each is named after its message in \"Message Formats\"")]
pub mod tag {
    /// Authentication*, all of them.
    pub const AUTHENTICATION: u8 = b'R';
    pub const BACKEND_KEY_DATA: u8 = b'K';
    pub const BIND_COMPLETE: u8 = b'2';
    pub const CLOSE_COMPLETE: u8 = b'3';
    pub const COMMAND_COMPLETE: u8 = b'C';
    pub const COPY_DATA: u8 = b'd';
    pub const COPY_DONE: u8 = b'c';
    pub const COPY_IN_RESPONSE: u8 = b'G';
    pub const COPY_OUT_RESPONSE: u8 = b'H';
    pub const COPY_BOTH_RESPONSE: u8 = b'W';
    pub const DATA_ROW: u8 = b'D';
    pub const EMPTY_QUERY_RESPONSE: u8 = b'I';
    pub const ERROR_RESPONSE: u8 = b'E';
    pub const FUNCTION_CALL_RESPONSE: u8 = b'V';
    pub const NEGOTIATE_PROTOCOL_VERSION: u8 = b'v';
    pub const NO_DATA: u8 = b'n';
    pub const NOTICE_RESPONSE: u8 = b'N';
    pub const NOTIFICATION_RESPONSE: u8 = b'A';
    pub const PARAMETER_DESCRIPTION: u8 = b't';
    pub const PARAMETER_STATUS: u8 = b'S';
    pub const PARSE_COMPLETE: u8 = b'1';
    pub const PORTAL_SUSPENDED: u8 = b's';
    pub const READY_FOR_QUERY: u8 = b'Z';
    pub const ROW_DESCRIPTION: u8 = b'T';
}

/// Where a session is, as ReadyForQuery says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Status {
    /// Not in a transaction.
    Idle,
    /// In a transaction block (status `T`).
    InTransaction,
    /// In a transaction that failed.
    Failed,
}

impl Status {
    /// From the byte on the wire.
    pub fn of_byte(byte: u8) -> Option<Self> {
        match byte {
            b'I' => Some(Self::Idle),
            b'T' => Some(Self::InTransaction),
            b'E' => Some(Self::Failed),
            _ => None,
        }
    }

    /// The byte on the wire.
    pub fn byte(self) -> u8 {
        match self {
            Self::Idle => b'I',
            Self::InTransaction => b'T',
            Self::Failed => b'E',
        }
    }
}

/// What a server asks for, or says, while a client logs in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Authentication<'a> {
    /// The client is in.
    Ok,
    /// The server asks for the password without encryption.
    CleartextPassword,
    /// The password under md5 with the user's name, then with this salt.
    Md5Password {
        /// Random bytes that the server chose for this login.
        salt: [u8; 4],
    },
    /// A choice of SASL mechanisms, names with a zero byte behind each: [`mechanisms`].
    Sasl(&'a [u8]),
    /// The mechanism's next message.
    SaslContinue(&'a [u8]),
    /// The mechanism's last message.
    SaslFinal(&'a [u8]),
    /// Kerberos, GSSAPI, SSPI, or something newer.
    Other(i32),
}

impl<'a> Authentication<'a> {
    /// Reads the body of an `R`.
    ///
    /// # Errors
    /// The body is not as its kind says.
    pub fn read(body: &'a [u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(body, "Authentication");
        let kind = reader.i32()?;
        let rest = reader.rest();
        match (kind, rest.len()) {
            (0, 0) => Ok(Self::Ok),
            (3, 0) => Ok(Self::CleartextPassword),
            (5, _) => {
                let salt = rest.try_into().map_err(|_| reader.malformed())?;
                Ok(Self::Md5Password { salt })
            }
            (10, _) if rest.last() == Some(&0) => Ok(Self::Sasl(rest)),
            (11, _) => Ok(Self::SaslContinue(rest)),
            (12, _) => Ok(Self::SaslFinal(rest)),
            (0 | 3 | 10, _) => Err(reader.malformed()),
            _ => Ok(Self::Other(kind)),
        }
    }
}

/// The names in [`Authentication::Sasl`].
pub fn mechanisms(list: &[u8]) -> impl Iterator<Item = &[u8]> {
    list.split(|byte| *byte == 0).take_while(|name| !name.is_empty())
}

/// Name and value in a ParameterStatus.
///
/// # Errors
/// Not two strings.
pub fn parameter_status(body: &[u8]) -> Result<(&[u8], &[u8]), Malformed> {
    let mut reader = Reader::new(body, "ParameterStatus");
    let pair = (reader.text()?, reader.text()?);
    reader.end()?;
    Ok(pair)
}

/// BackendKeyData: what a CancelRequest for this connection must carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackendKey<'a> {
    /// The process ID of the server's backend.
    pub process_id: i32,
    /// Four bytes; up to 256 in protocol 3.2.
    pub secret: &'a [u8],
}

impl<'a> BackendKey<'a> {
    /// Reads a body.
    ///
    /// # Errors
    /// A secret whose length is none of [`SECRET_BYTES`].
    pub fn read(body: &'a [u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(body, "BackendKeyData");
        let process_id = reader.i32()?;
        let secret = reader.rest();
        if !SECRET_BYTES.contains(&secret.len()) {
            return Err(reader.malformed());
        }
        Ok(Self { process_id, secret })
    }
}

/// The status in a ReadyForQuery.
///
/// # Errors
/// Not one of its three bytes.
pub fn ready_for_query(body: &[u8]) -> Result<Status, Malformed> {
    let status = match body {
        [byte] => Status::of_byte(*byte),
        _ => None,
    };
    status.ok_or(Malformed("ReadyForQuery"))
}

/// The tag in a CommandComplete, such as `SELECT 5`.
///
/// # Errors
/// Not one string.
pub fn command_complete(body: &[u8]) -> Result<&[u8], Malformed> {
    let mut reader = Reader::new(body, "CommandComplete");
    let text = reader.text()?;
    reader.end()?;
    Ok(text)
}

/// The count at the end of a command's tag; `None` where it has none (`BEGIN`, `SET`).
pub fn command_rows(tag: &[u8]) -> Option<u64> {
    let last = tag.rsplit(|byte| *byte == b' ').next()?;
    str::from_utf8(last).ok()?.parse().ok()
}

/// NegotiateProtocolVersion: the server speaks less than was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Negotiate<'a> {
    /// Highest minor version of protocol 3 that the server speaks.
    pub minor: u16,
    /// How many extensions it doesn't know.
    pub unknown: usize,
    names: &'a [u8],
}

impl<'a> Negotiate<'a> {
    /// Reads a body.
    ///
    /// # Errors
    /// Not protocol 3, or the names are not as many as is said.
    pub fn read(body: &'a [u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(body, "NegotiateProtocolVersion");
        let version = reader.u32()?;
        // PostgreSQL sends the whole version; the manual of old spoke of the minor alone.
        if version >> 16 != 3 && version >> 16 != 0 {
            return Err(reader.malformed());
        }
        let minor = (version & 0xffff) as u16;
        let unknown = usize::try_from(reader.i32()?).map_err(|_| reader.malformed())?;
        let names = reader.rest();
        for _ in 0..unknown {
            reader.text()?;
        }
        reader.end()?;
        Ok(Self { minor, unknown, names })
    }

    /// Names of the extensions that the server doesn't know.
    pub fn names(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        self.names.split(|byte| *byte == 0).take(self.unknown)
    }
}

/// NotificationResponse: a `NOTIFY` on a channel that the client listens to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Notification<'a> {
    /// The server's process that notified.
    pub process_id: i32,
    /// Where it was sent.
    pub channel: &'a [u8],
    /// The text of the `NOTIFY`; empty where it gave none.
    pub payload: &'a [u8],
}

impl<'a> Notification<'a> {
    /// Reads a body.
    ///
    /// # Errors
    /// Fields are missing, or something is left over.
    pub fn read(body: &'a [u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(body, "NotificationResponse");
        let process_id = reader.i32()?;
        let (channel, payload) = (reader.text()?, reader.text()?);
        reader.end()?;
        Ok(Self { process_id, channel, payload })
    }
}
