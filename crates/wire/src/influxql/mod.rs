//! InfluxQL as far as a gateway must know it: where one statement ends, and what it does.

// Layers, from the top down; `self` is what this file defines.
//   rewrite, tree
//   display, parser
//   reader
//   self
//   ast, databases, duration, time
//   lexer
//   token

pub mod ast;
mod databases;
mod display;
mod duration;
mod lexer;
mod parser;
mod reader;
mod rewrite;
mod time;
mod token;
mod tree;

pub use time::rfc3339_short;
pub use tree::{Param, Params, ParamsError};

/// One statement of a query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statement<'a> {
    /// The statement as written, without the semicolon and the blanks around it.
    pub text: &'a str,
    /// Which right the statement needs, and where it may run.
    pub kind: Kind,
}

/// What a statement does, which decides where it may run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Changes nothing: any backend may answer it.
    Read,
    /// `SHOW DATABASES`: a read whose answer depends on what the user may see.
    ShowDatabases,
    /// A read that tells of the whole server: `SHOW SHARDS`, `SHARD GROUPS`, `STATS`,
    /// `DIAGNOSTICS`, `USERS`, `GRANTS`, `SUBSCRIPTIONS`. For admins.
    ReadAsAdmin,
    /// Changes data or schema: every backend must run it, at the same place among the writes.
    Change(Change),
    /// About users and their rights: never written down, since it may hold a password.
    User,
    /// Concerns one server only: `KILL QUERY`.
    Local,
}

/// What a statement changes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "fields are named as in the syntax above them")]
pub enum Change {
    /// `CREATE DATABASE name [WITH ... [NAME policy]]`.
    CreateDatabase {
        name: String,
        /// The name of its first retention policy, where said.
        policy: Option<String>,
    },
    /// `DROP DATABASE name`.
    DropDatabase { name: String },
    /// `CREATE RETENTION POLICY name ON db ... [DEFAULT]`.
    CreateRetentionPolicy {
        db: String,
        name: String,
        /// Whether it becomes the default of the database.
        default: bool,
    },
    /// `ALTER RETENTION POLICY name ON db ... [DEFAULT]`.
    AlterRetentionPolicy {
        db: String,
        name: String,
        /// Whether it becomes the default of the database.
        default: bool,
    },
    /// `DROP RETENTION POLICY name ON db`.
    DropRetentionPolicy { db: String, name: String },
    /// `DELETE`: needs the right to write.
    Delete,
    /// `DROP SERIES`: needs the right to write.
    DropSeries,
    /// `SELECT ... INTO`: needs the right to read, and to write the target.
    Into,
    /// `DROP MEASUREMENT`, `DROP SHARD`, continuous queries, subscriptions: for admins.
    Other,
}

/// A query that can't be parsed; displays as InfluxDB words it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("error parsing query: {0}")]
pub struct ParseError(pub(crate) String);

impl Statement<'_> {
    /// Every database the statement names by itself: `ON db`, `db.policy.measurement`,
    /// `db..measurement`, `INTO db.policy.measurement`, `CREATE` or `DROP DATABASE db`.
    ///
    /// Sorted, each once; empty when it only works on the database of the request. `*` stands
    /// for all databases, and a bound parameter for itself, as `$name`: which database that is
    /// can't be known here, so no one but an admin should get it.
    pub fn databases(&self) -> Vec<String> {
        databases::databases(self.text)
    }
}

/// Splits a query into its statements and classifies each.
///
/// A statement is a [`Kind::Read`] only when every server would take it for one: where a slash
/// could divide or open a regular expression, it is read as InfluxDB's parser would. Whether the
/// inside of a read is right is left to the server.
///
/// # Errors
/// When the text is not InfluxQL, worded as InfluxDB does where that is cheap to know. A NUL,
/// behind which InfluxDB would silently stop reading, is an error too.
pub fn split(text: &str) -> Result<Vec<Statement<'_>>, ParseError> {
    parser::statements(text)
}

/// Reads a query into its statements, as trees, with its parameters in place.
///
/// What InfluxDB finds only when it runs a statement is not looked for: whether a function
/// exists, what `GROUP BY` needs, whether there is such a time zone.
///
/// # Errors
/// When the text is not InfluxQL, worded and placed as InfluxDB does; also when it is nested
/// deeper than this parser goes, or holds a NUL.
pub fn parse(text: &str, params: &Params) -> Result<Vec<ast::Statement>, ParseError> {
    tree::parse(text, params)
}

/// A duration as InfluxQL and its answers write it, such as `1h30m` or `24h0m0s`, in nanoseconds;
/// `None` where it is none.
pub fn duration_ns(text: &str) -> Option<i64> {
    duration::parse(text).ok().filter(|_| duration::is_exact(text))
}

/// The statement with every `now()` replaced by a quoted RFC 3339 time, so that each backend
/// computes with the same one whenever it runs it. All else stays byte for byte; so does a
/// `CREATE CONTINUOUS QUERY`, whose `now()` is that of each run.
pub fn freeze_now(statement: &str, now_ns: i64) -> String {
    rewrite::freeze_now(statement, now_ns)
}

/// The text with the passwords of `CREATE USER` and `SET PASSWORD` replaced by `[REDACTED]`, fit
/// for a log. Works on text that doesn't parse; rather blanks too much than too little.
pub fn redact(text: &str) -> String {
    rewrite::redact(text)
}

/// `name` as an InfluxQL identifier, in double quotes.
pub fn quote_identifier(name: &str) -> String {
    rewrite::quote(name, '"')
}

/// `text` as an InfluxQL string, in single quotes.
pub fn quote_string(text: &str) -> String {
    rewrite::quote(text, '\'')
}

#[cfg(test)]
mod tests;
