//! A user's verifier, asked of a server: the statements, and what their rows mean.
//!
//! Two statements travel together. The operator's says what is stored for a name; a second one
//! looks into `pg_roles`, which anyone may read, so that `VALID UNTIL` and `NOLOGIN` are honoured
//! whatever the first one selects (CVE-2025-2291).
//!
//! The connection is Weir's own. It starts with [`PARAMETERS`] and nothing that a client sent, so
//! that no client's `search_path` chooses the functions and operators here (CVE-2025-12819).

use wire::postgres::backend::{Fields, Row, Status, ready_for_query, tag};
use wire::postgres::frontend::{put_bind, put_execute, put_parse, put_sync};

use super::{Kind, Verifier};

/// Whether a role may log in by its password now (`t`, `f`, or `none`: it is no role), and what the
/// server keeps of new passwords. One row, whoever is asked for.
const ROLE_QUERY: &str = "SELECT $1::pg_catalog.text, \
     COALESCE((SELECT CASE WHEN rolcanlogin AND \
         COALESCE(rolvaliduntil OPERATOR(pg_catalog.>) pg_catalog.now(), true) \
         THEN 't' ELSE 'f' END FROM pg_catalog.pg_roles \
         WHERE rolname OPERATOR(pg_catalog.=) $1::pg_catalog.name), 'none'), \
     pg_catalog.current_setting('password_encryption'), \
     pg_catalog.current_setting('scram_iterations', true)";

/// Startup parameters of the connection that asks, besides `user` and `database`. No client's
/// parameters go with them.
pub const PARAMETERS: [(&str, &str); 5] = [
    ("search_path", "pg_catalog"),
    ("client_encoding", "UTF8"),
    ("standard_conforming_strings", "on"),
    ("statement_timeout", "10s"),
    ("application_name", "weir auth_query"),
];

/// What came of it.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// What to check the password against.
    Known(Verifier),
    /// No password will do, for this reason. It is for the log: the client is asked for a password
    /// all the same, and hears that it is wrong.
    Unknown {
        /// Why, in words for Weir's log.
        why: &'static str,
        /// What the server keeps of new passwords: what an unknown user is to look like.
        there: Option<Kind>,
    },
    /// The server could not say. The client is told that nobody can log in now.
    Failed(String),
}

impl Outcome {
    /// The verifier that was found, for [`super::Ask::verifier`].
    pub fn verifier(&self) -> Option<&Verifier> {
        match self {
            Self::Known(verifier) => Some(verifier),
            Self::Unknown { .. } | Self::Failed(_) => None,
        }
    }
}

/// A question under way, on a connection that has nothing else to do.
#[derive(Debug)]
pub struct Lookup {
    user: String,
    /// Statements that are complete.
    complete: u32,
    stored: Stored,
    /// What the role says; `None`: the name is not a role's.
    may_log_in: Option<bool>,
    there: Option<Kind>,
    failed: Option<String>,
}

#[derive(Debug)]
enum Stored {
    NoRow,
    Null,
    Verifier(Verifier),
}

impl Lookup {
    /// Asks for `user` with the operator's `query`: appends the messages to `out`.
    pub fn begin(user: &str, query: &str, out: &mut Vec<u8>) -> Self {
        for text in [query, ROLE_QUERY] {
            put_parse(out, b"", text.as_bytes(), &[]);
            put_bind(out, b"", b"", &[Some(user.as_bytes())]);
            // One row more than is right, so that too many are seen, however many there are.
            put_execute(out, b"", 2);
        }
        put_sync(out);
        Self {
            user: user.to_owned(),
            complete: 0,
            stored: Stored::NoRow,
            may_log_in: None,
            there: None,
            failed: None,
        }
    }

    /// One message of the server's reply; `Some` after its last. After [`Outcome::Failed`] the
    /// connection may be at odds and is to be closed.
    pub fn on(&mut self, tag: u8, body: &[u8]) -> Option<Outcome> {
        match tag {
            tag::DATA_ROW => {
                if let Err(why) = self.row(body) {
                    self.fail(why);
                }
            }
            tag::COMMAND_COMPLETE | tag::PORTAL_SUSPENDED => self.complete += 1,
            tag::ERROR_RESPONSE => {
                let fields = Fields::read(body).ok();
                let message = fields.map_or(&b"an error"[..], |fields| fields.message());
                self.fail(String::from_utf8_lossy(message).into_owned());
            }
            tag::READY_FOR_QUERY => return Some(self.finish(body)),
            tag::EMPTY_QUERY_RESPONSE => self.fail("the query is empty".to_owned()),
            // Completions, and news that nobody waits for.
            _ => {}
        }
        None
    }

    fn fail(&mut self, why: String) {
        self.failed.get_or_insert(why);
    }

    fn row(&mut self, body: &[u8]) -> Result<(), String> {
        let row = Row::read(body).map_err(|malformed| malformed.to_string())?;
        let mut values = row.values();
        let (Some(name), Some(value)) = (values.next(), values.next()) else {
            return Err("the query is to give two columns: name and password".to_owned());
        };
        if name != Some(self.user.as_bytes()) {
            return Err("a row of another user's name".to_owned());
        }
        match self.complete {
            0 => self.stored(value),
            _ => {
                self.may_log_in = match value {
                    Some(b"none") => None,
                    value => Some(value == Some(b"t")),
                };
                let encryption = values.next().flatten();
                self.there = encryption.and_then(|by| kept_as(by, values.next().flatten()));
                Ok(())
            }
        }
    }

    fn stored(&mut self, value: Option<&[u8]>) -> Result<(), String> {
        if !matches!(self.stored, Stored::NoRow) {
            return Err("more than one row for a user".to_owned());
        }
        self.stored = match value {
            None | Some([]) => Stored::Null,
            Some(value) => {
                let text = str::from_utf8(value).map_err(|_| "a password not in UTF-8")?;
                Stored::Verifier(Verifier::parse(text))
            }
        };
        Ok(())
    }

    fn finish(&mut self, body: &[u8]) -> Outcome {
        let idle = ready_for_query(body) == Ok(Status::Idle);
        if let Some(why) = self.failed.take() {
            return Outcome::Failed(why);
        }
        if !idle || self.complete != 2 {
            return Outcome::Failed("the query's reply is not complete".to_owned());
        }
        let unknown = |why| Outcome::Unknown { why, there: self.there };
        match (std::mem::replace(&mut self.stored, Stored::NoRow), self.may_log_in) {
            (Stored::NoRow, _) => unknown("there is no such user"),
            (Stored::Null, _) => unknown("the user has no password"),
            (_, Some(false)) => unknown("the password has expired, or NOLOGIN"),
            (Stored::Verifier(verifier), _) => Outcome::Known(verifier),
        }
    }
}

/// What a server keeps of new passwords, by its `password_encryption` and `scram_iterations`
/// (from PostgreSQL 16 on).
fn kept_as(encryption: &[u8], iterations: Option<&[u8]>) -> Option<Kind> {
    match encryption {
        b"scram-sha-256" => {
            let iterations = iterations.and_then(|text| str::from_utf8(text).ok()?.parse().ok());
            Some(iterations.map_or(Kind::scram(), Kind::scram_of))
        }
        // Before PostgreSQL 14 any truth is md5.
        b"md5" | b"on" | b"true" | b"yes" | b"1" => Some(Kind::Md5),
        _ => None,
    }
}
