//! `[[postgres.user]]`: who may log in.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::Duration;
use units::secret::Secret;

use super::{Commit, LastValues, Mode, Route};

/// `[[postgres.user]]`: one who may log in. What is not said is as in `[postgres]`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct UserSettings {
    /// The name, as PostgreSQL knows it.
    pub name: String,
    /// How the password is checked: `SCRAM-SHA-256$...` or `md5...` as in `pg_authid.rolpassword`,
    /// or the password itself. With the very verifier that the server has, Weir logs in there as
    /// this user without knowing the password; an `md5` one only opens servers that ask for md5.
    #[serde(default)]
    pub password: Secret,
    /// A file whose first line is the password or verifier; read at start and at each reload.
    #[serde(default)]
    pub password_file: Option<PathBuf>,
    /// When this user's clients give up their server connections: `session` or `transaction`.
    #[serde(default)]
    pub mode: Option<Mode>,
    /// Whether this user's proven reads may share server connections.
    #[serde(default)]
    pub lanes: Option<bool>,
    /// Where this user's statements go: `auto`, `primary` or `replica`.
    #[serde(default)]
    pub route: Option<Route>,
    /// What the answer to this user's commits waits for: `own` or `shared`.
    #[serde(default)]
    pub commit: Option<Commit>,
    /// What `currval` and `lastval` tell this user outside the transaction that has drawn:
    /// `refuse` or `keep`.
    #[serde(default)]
    pub last_values: Option<LastValues>,
    /// Server connections to one backend for one database and this user.
    #[serde(default)]
    pub pool_size: Option<usize>,
    /// Server connections to one backend of this user; 0 is without limit.
    #[serde(default)]
    pub max_server_connections: Option<usize>,
    /// Client connections at once of this user; 0 is without limit.
    #[serde(default)]
    pub max_connections: Option<usize>,
    /// How long a statement of this user may wait for a server connection, in place of
    /// `query-wait` of `[postgres.timeouts]`.
    #[serde(default)]
    pub query_wait: Option<Duration>,
    /// How long a statement of this user may run, in place of `query` of `[postgres.timeouts]`.
    #[serde(default)]
    pub query: Option<Duration>,
    /// How long a transaction of this user may be open, in place of `transaction` of
    /// `[postgres.timeouts]`.
    #[serde(default)]
    pub transaction: Option<Duration>,
    /// How long a client of this user may leave a transaction without a statement, in place of
    /// `idle-in-transaction` of `[postgres.timeouts]`.
    #[serde(default)]
    pub idle_in_transaction: Option<Duration>,
    /// How long a client of this user may be connected without a statement, outside a transaction,
    /// in place of `idle` of `[postgres.timeouts]`.
    #[serde(default)]
    pub idle: Option<Duration>,
}

impl UserSettings {
    /// The password or verifier, from its file where one is named.
    ///
    /// # Errors
    /// The file can't be read.
    pub fn secret(&self) -> std::io::Result<Secret> {
        self.password.or_from(self.password_file.as_deref())
    }
}
