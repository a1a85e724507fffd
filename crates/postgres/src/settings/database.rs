//! `[[postgres.database]]`: what clients may connect to.

use std::collections::BTreeMap;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::Duration;
use units::secret::Secret;

use super::{Commit, Consistency, LastValues, Mode, Route};

/// The name of the entry for every database that has none of its own.
pub const ANY_DATABASE: &str = "*";

/// `[[postgres.database]]`: one that clients may connect to. What is not said is as in
/// `[postgres]`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct DatabaseSettings {
    /// The name that clients connect to; `"*"` is any that has no entry of its own.
    pub name: String,
    /// The database's name on the servers; empty is the same.
    #[serde(default)]
    pub dbname: String,
    /// The user Weir logs in as for every client of this database; empty is the client's own.
    /// Privileges, row security and `current_user` are then this user's.
    #[serde(default)]
    pub user: String,
    /// The password of `user`; without one the verifier of `[[postgres.user]]` is tried.
    #[serde(default)]
    pub password: Secret,
    /// A file whose first line is the password; read at start and at each reload.
    #[serde(default)]
    pub password_file: Option<PathBuf>,
    /// Settings that every server connection of this database begins with, as
    /// `{ timezone = "UTC" }`. A client's own come before them.
    #[serde(default)]
    pub settings: BTreeMap<String, String>,
    /// When clients of this database give up their server connections: `session` or `transaction`.
    #[serde(default)]
    pub mode: Option<Mode>,
    /// Whether proven reads may share server connections.
    #[serde(default)]
    pub lanes: Option<bool>,
    /// In place of `share-reads` of `[postgres]`.
    #[serde(default)]
    pub share_reads: Option<bool>,
    /// Where statements go: `auto`, `primary` or `replica`.
    #[serde(default)]
    pub route: Option<Route>,
    /// How new what clients of this database read must be: `session`, `eventual` or `primary`.
    #[serde(default)]
    pub consistency: Option<Consistency>,
    /// What the answer to commits waits for: `own` or `shared`.
    #[serde(default)]
    pub commit: Option<Commit>,
    /// What `currval` and `lastval` tell clients outside the transaction that has drawn:
    /// `refuse` or `keep`.
    #[serde(default)]
    pub last_values: Option<LastValues>,
    /// Server connections to one backend for this database and one user.
    #[serde(default)]
    pub pool_size: Option<usize>,
    /// Server connections kept open for this database and each user that has had a client.
    #[serde(default)]
    pub min_idle: Option<usize>,
    /// Server connections to one backend for this database; 0 is without limit.
    #[serde(default)]
    pub max_server_connections: Option<usize>,
    /// Client connections at once to this database; 0 is without limit.
    #[serde(default)]
    pub max_connections: Option<usize>,
    /// How old a server connection of this database may become, in place of `max-age` of
    /// `[postgres.pool]`.
    #[serde(default)]
    pub max_age: Option<Duration>,
    /// How long a statement may wait for a server connection of this database, in place of
    /// `query-wait` of `[postgres.timeouts]`.
    #[serde(default)]
    pub query_wait: Option<Duration>,
}

impl DatabaseSettings {
    /// The password of `user`, from its file where one is named.
    ///
    /// # Errors
    /// The file can't be read.
    pub fn secret(&self) -> std::io::Result<Secret> {
        self.password.or_from(self.password_file.as_deref())
    }

    /// The database's name on the servers, for a client that names `asked`.
    pub fn server_name<'a>(&'a self, asked: &'a str) -> &'a str {
        if self.dbname.is_empty() { asked } else { &self.dbname }
    }
}
