//! What a gateway says when it says no: an ErrorResponse with a SQLSTATE, always.

use std::borrow::Cow;

use super::backend::{Fields, tag};
use super::read::{message, put_text};

/// SQLSTATE codes that a gateway gives of its own accord (the manual's appendix "PostgreSQL Error
/// Codes").
pub mod sqlstate {
    /// Nothing is wrong: the code of a notice.
    pub const SUCCESSFUL_COMPLETION: &str = "00000";
    /// `warning`
    pub const WARNING: &str = "01000";
    /// A connection could not be made.
    pub const CONNECTION_EXCEPTION: &str = "08000";
    /// The server refused or is not there.
    pub const CANNOT_CONNECT: &str = "08001";
    /// The gateway takes no connection now.
    pub const CONNECTION_REJECTED: &str = "08004";
    /// The connection to the server broke.
    pub const CONNECTION_FAILURE: &str = "08006";
    /// The server died with a write under way: nobody knows whether it happened.
    pub const OUTCOME_UNKNOWN: &str = "08007";
    /// What came is not the protocol.
    pub const PROTOCOL_VIOLATION: &str = "08P01";
    /// Not something that is done here.
    pub const FEATURE_NOT_SUPPORTED: &str = "0A000";
    /// Text is not in its encoding.
    pub const CHARACTER_NOT_IN_REPERTOIRE: &str = "22021";
    /// A setting's value is wrong.
    pub const INVALID_PARAMETER_VALUE: &str = "22023";
    /// A write where only reads are taken.
    pub const READ_ONLY_TRANSACTION: &str = "25006";
    /// A statement after an error in the same transaction.
    pub const IN_FAILED_TRANSACTION: &str = "25P02";
    /// A transaction was idle for too long.
    pub const IDLE_IN_TRANSACTION_TIMEOUT: &str = "25P03";
    /// A transaction was open for too long.
    pub const TRANSACTION_TIMEOUT: &str = "25P04";
    /// A prepared statement that is not there.
    pub const UNDEFINED_PREPARED_STATEMENT: &str = "26000";
    /// May not log in.
    pub const INVALID_AUTHORIZATION: &str = "28000";
    /// Wrong password, or no such user: nobody is told which.
    pub const INVALID_PASSWORD: &str = "28P01";
    /// A database that is not there.
    pub const UNDEFINED_DATABASE: &str = "3D000";
    /// The text is not valid SQL.
    pub const SYNTAX_ERROR: &str = "42601";
    /// May not do that.
    pub const INSUFFICIENT_PRIVILEGE: &str = "42501";
    /// A setting that is not there.
    pub const UNDEFINED_OBJECT: &str = "42704";
    /// A prepared statement of that name is there already.
    pub const DUPLICATE_PREPARED_STATEMENT: &str = "42P05";
    /// A limit of the gateway's memory.
    pub const OUT_OF_MEMORY: &str = "53200";
    /// A limit on connections.
    pub const TOO_MANY_CONNECTIONS: &str = "53300";
    /// A limit of the gateway's configuration.
    pub const CONFIGURATION_LIMIT: &str = "53400";
    /// A message or value over its limit.
    pub const PROGRAM_LIMIT: &str = "54000";
    /// A state in which that can't be done.
    pub const NOT_IN_STATE: &str = "55000";
    /// Cancelled by its client or for having taken too long.
    pub const QUERY_CANCELED: &str = "57014";
    /// Closed by the operator, or in order to stop.
    pub const ADMIN_SHUTDOWN: &str = "57P01";
    /// Not ready yet, or no server is.
    pub const CANNOT_CONNECT_NOW: &str = "57P03";
    /// A client was idle for too long.
    pub const IDLE_SESSION_TIMEOUT: &str = "57P05";
    /// A fault of the gateway.
    pub const INTERNAL_ERROR: &str = "XX000";
}

/// How grave a [`Refusal`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// The statement or transaction is over; the connection goes on.
    Error,
    /// The connection is closed after it.
    Fatal,
}

impl Severity {
    /// The word on the wire.
    pub fn word(self) -> &'static str {
        match self {
            Self::Error => "ERROR",
            Self::Fatal => "FATAL",
        }
    }
}

/// An ErrorResponse of the gateway's own.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: {message} (SQLSTATE {code})", severity.word())]
pub struct Refusal {
    /// Whether the connection ends.
    pub severity: Severity,
    /// One of [`sqlstate`], or what a server has said: five bytes.
    pub code: Cow<'static, str>,
    /// What was refused and why, in one line.
    pub message: String,
    /// More of what happened.
    pub detail: Option<String>,
    /// What can be done about it.
    pub hint: Option<String>,
    /// The server's function that says the same, where drivers go by that.
    pub routine: Option<&'static str>,
}

impl Refusal {
    /// An error of severity ERROR, which ends the statement.
    pub fn error(code: impl Into<Cow<'static, str>>, message: impl Into<String>) -> Self {
        Self::new(Severity::Error, code.into(), message.into())
    }

    /// An error of severity FATAL, which ends the connection.
    pub fn fatal(code: impl Into<Cow<'static, str>>, message: impl Into<String>) -> Self {
        Self::new(Severity::Fatal, code.into(), message.into())
    }

    fn new(severity: Severity, code: Cow<'static, str>, message: String) -> Self {
        Self { severity, code, message, detail: None, hint: None, routine: None }
    }

    /// What a server has said, as an error of a statement: its code, message, detail and hint.
    #[must_use]
    pub fn of_server(fields: &Fields<'_>) -> Self {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let mut refusal = Self::error(text(fields.code()), text(fields.message()));
        refusal.detail = fields.detail().map(text);
        refusal.hint = fields.hint().map(text);
        refusal
    }

    /// With more of what happened.
    #[must_use]
    pub fn detail(mut self, detail: impl Into<String>) -> Self {
        self.detail = Some(detail.into());
        self
    }

    /// With what can be done about it.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// As the server's function of this name says it, which drivers go by.
    #[must_use]
    pub fn routine(mut self, routine: &'static str) -> Self {
        self.routine = Some(routine);
        self
    }

    /// Appends an ErrorResponse of the refusal's severity.
    pub fn encode(&self, out: &mut Vec<u8>) {
        self.encode_as(tag::ERROR_RESPONSE, self.severity.word(), out);
    }

    /// Appends a NoticeResponse of severity WARNING that says the same.
    pub fn encode_as_warning(&self, out: &mut Vec<u8>) {
        self.encode_as(tag::NOTICE_RESPONSE, "WARNING", out);
    }

    /// Appends a NoticeResponse of severity NOTICE that says the same.
    pub fn encode_as_notice(&self, out: &mut Vec<u8>) {
        self.encode_as(tag::NOTICE_RESPONSE, "NOTICE", out);
    }

    fn encode_as(&self, tag: u8, severity: &str, out: &mut Vec<u8>) {
        let field = |out: &mut Vec<u8>, letter: u8, text: &str| {
            out.push(letter);
            put_text(out, text.as_bytes());
        };
        message(out, tag, |out| {
            // 'S' may be translated, 'V' never is; drivers look at either ("Error and Notice
            // Message Fields").
            field(out, b'S', severity);
            field(out, b'V', severity);
            field(out, b'C', &self.code);
            field(out, b'M', &self.message);
            for (letter, text) in [(b'D', &self.detail), (b'H', &self.hint)] {
                if let Some(text) = text {
                    field(out, letter, text);
                }
            }
            if let Some(routine) = self.routine {
                field(out, b'R', routine);
            }
            out.push(0);
        });
    }
}
