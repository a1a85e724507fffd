//! How long, how many, how large: `[postgres.timeouts]`, `[postgres.lanes]`, `[postgres.pool]`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{Duration, Size};

use super::{DatabaseSettings, Settings};

/// `[postgres.timeouts]`: how long clients and their statements may take. `"0"` is for ever.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Timeouts {
    /// From the connection to the end of the login, TLS included; then SQLSTATE 08006.
    pub login: Duration,
    /// How long a statement may wait for a server connection; then it hears SQLSTATE 57014, and
    /// the client stays connected. A user or a database may say otherwise.
    pub query_wait: Duration,
    /// How long a statement may run, from being sent to the last byte of its answer; then it is
    /// cancelled, and where that has no effect the server connection is closed. Meant for servers
    /// that hang: `statement_timeout` of PostgreSQL is the better limit for slow statements.
    pub query: Duration,
    /// How long a transaction may be open; then the client hears SQLSTATE 25P04 and is closed.
    pub transaction: Duration,
    /// How long a client may leave a transaction without a statement; then it hears SQLSTATE
    /// 25P03 and is closed.
    pub idle_in_transaction: Duration,
    /// How long a client may be connected without a statement, outside a transaction; then it
    /// hears SQLSTATE 57P05 and is closed.
    pub idle: Duration,
    /// How long the rest of a message of a client may take to come, from one piece to the next;
    /// then it hears SQLSTATE 08006 and is closed.
    pub read: Duration,
    /// While a client takes no byte of its answer: it may have a server connection for itself.
    pub write: Duration,
    /// How long a cancel request may take to reach the server.
    pub cancel: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            login: Duration::from_secs(60),
            query_wait: Duration::from_secs(120),
            query: Duration::from_secs(0),
            transaction: Duration::from_secs(0),
            idle_in_transaction: Duration::from_secs(0),
            idle: Duration::from_secs(0),
            read: Duration::from_secs(60),
            write: Duration::from_secs(600),
            cancel: Duration::from_secs(10),
        }
    }
}

/// `[postgres.lanes]`: server connections that carry proven reads of many clients at once. Each
/// lane is for one database, one user and one set of session settings.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Lanes {
    /// Whether there are lanes. Off, every statement has a server connection for itself. A user or
    /// a database may say otherwise.
    pub on: bool,
    /// Lanes of a worker for the same database, user and settings, shared by the servers that reads
    /// are spread over; but to each of them never so many that all workers' together take more than
    /// half of `size` in `[postgres.pool]`.
    pub count: usize,
    /// Statements under way on one lane at most.
    pub depth: usize,
    /// Statements that run longer than this, as learned from their like, have a server connection
    /// for themselves, so that others need not wait for their answers.
    pub slow: Duration,
    /// Nothing more is sent on a lane whose oldest statement has run for longer than this.
    pub head_of_line: Duration,
    /// Whether a transaction's proven reads ride, too, as long as it has had no other statement:
    /// only then is a server told of its `BEGIN`. For plain transactions at READ COMMITTED.
    pub transactions: bool,
    /// How many bytes of answers are kept for a client that takes them more slowly than the server
    /// sends; past that the client hears SQLSTATE 53400 and is closed.
    pub reply_spill: Size,
}

impl Default for Lanes {
    fn default() -> Self {
        Self {
            on: true,
            count: 4,
            depth: 256,
            slow: Duration::from_millis(10),
            head_of_line: Duration::from_millis(5),
            transactions: true,
            reply_spill: Size::from_mib(16),
        }
    }
}

impl Lanes {
    /// How many lanes a worker may have to one backend for one database and user, whatever the
    /// settings, of the `size` server connections that all `workers` share: half of them are left
    /// for leases, without which no write would come through. At least one.
    pub fn of_a_worker(&self, size: usize, workers: usize) -> usize {
        (size / 2 / workers.max(1)).max(1)
    }
}

/// `[postgres.batches]`: changes of data of many clients in one transaction, which commits all of
/// them with one flush of the server's log. Only such as stand alone, not within a transaction of
/// their client's, name their row by a key or bring rows along, and run no code of users'
/// (`docs/postgres.md`). Where one fails, each is run by itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Batches {
    /// Whether there are any; where lanes are off there are none.
    pub on: bool,
    /// Batches of a worker under way at once for the same database, user and settings, each on a
    /// server connection. What comes meanwhile goes with the next.
    pub count: usize,
    /// Statements in one at most.
    pub statements: usize,
    /// How long one waits for a lock that somebody else holds. Then its statements are run each by
    /// itself, so keep it well below the server's `deadlock_timeout`.
    pub lock_timeout: Duration,
}

impl Default for Batches {
    fn default() -> Self {
        Self { on: true, count: 2, statements: 64, lock_timeout: Duration::from_millis(20) }
    }
}

/// `[postgres.pool]`: how many server connections there are, lanes included and over all workers,
/// and for how long. 0 is without limit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Pool {
    /// Server connections to one backend for one database and user. A user's own `pool-size` comes
    /// before a database's, and that before this one.
    pub size: usize,
    /// Server connections to one backend for one database, whoever uses them.
    pub max_per_database: usize,
    /// Server connections to one backend of one user, whatever the database.
    pub max_per_user: usize,
    /// Server connections to one backend altogether. Keep it below the server's
    /// `max_connections`.
    pub max_per_backend: usize,
    /// Server connections kept open for each database and user that has had a client, so that the
    /// first statements after a quiet time need not wait. All workers share them, and each keeps at
    /// least one.
    pub min_idle: usize,
    /// A server connection that nobody has used for longer is closed; `0` is never.
    pub idle_timeout: Duration,
    /// A server connection that is older is closed once nobody uses it, give or take a tenth;
    /// `0` is never.
    pub max_age: Duration,
    /// After a login that a server has refused (a wrong password, no such database), for how long
    /// statements that would need another connection of that database and user hear the same at
    /// once, instead of having it tried again. A server that can't be reached is tried again in any
    /// case, with pauses of up to a second.
    pub login_retry: Duration,
}

impl Default for Pool {
    fn default() -> Self {
        Self {
            size: 20,
            max_per_database: 0,
            max_per_user: 0,
            max_per_backend: 0,
            min_idle: 0,
            idle_timeout: Duration::from_secs(600),
            max_age: Duration::from_secs(3600),
            login_retry: Duration::from_secs(1),
        }
    }
}

/// What an entry of its own says, else what holds for all; 0 is without limit.
impl Settings {
    /// Server connections to one backend for a database, as its entry says, and a user.
    pub fn pool_size(&self, database: Option<&DatabaseSettings>, user: &str) -> usize {
        let of_user = self.user(user).and_then(|user| user.pool_size);
        of_user.or_else(|| database?.pool_size).unwrap_or(self.pool.size)
    }

    /// Server connections to one backend for a database, as its entry says.
    pub fn servers_of_database(&self, database: Option<&DatabaseSettings>) -> usize {
        let own = database.and_then(|database| database.max_server_connections);
        own.unwrap_or(self.pool.max_per_database)
    }

    /// Server connections to one backend of a user.
    pub fn servers_of_user(&self, user: &str) -> usize {
        let own = self.user(user).and_then(|user| user.max_server_connections);
        own.unwrap_or(self.pool.max_per_user)
    }

    /// Clients of a database, by its name for them.
    pub fn clients_of_database(&self, name: &str) -> usize {
        let own = self.database(name).and_then(|database| database.max_connections);
        own.unwrap_or(self.max_connections_per_database)
    }

    /// Clients of a user.
    pub fn clients_of_user(&self, user: &str) -> usize {
        let own = self.user(user).and_then(|user| user.max_connections);
        own.unwrap_or(self.max_connections_per_user)
    }
}

#[cfg(test)]
mod tests {
    use super::Lanes;

    #[test]
    fn lanes_leave_room_for_leases() {
        let lanes = Lanes::default();
        for (size, workers, each) in [(20, 1, 10), (20, 2, 5), (20, 4, 2), (20, 64, 1), (1, 1, 1)] {
            assert_eq!(lanes.of_a_worker(size, workers), each, "{size} {workers}");
        }
    }
}
