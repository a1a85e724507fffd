//! Sends SQL to a cluster.

use std::time::Duration;

use pg::{Client, Config, NoTls, SimpleQueryMessage};

use super::start::quoted;
use super::{Cluster, SUPERUSER};
use crate::wait;

/// Rows of text; NULL is `None`.
pub type Rows = Vec<Vec<Option<String>>>;

/// As PostgreSQL's client says it.
pub type SqlError = pg::Error;

/// How long a server may take to take a connection.
const CONNECT: Duration = Duration::from_secs(10);

impl Cluster {
    /// A connection as the superuser to the database `postgres`, by the Unix socket.
    ///
    /// # Errors
    /// The server does not run, does not answer within 10 s, or refuses.
    pub fn connect(&self) -> Result<Client, SqlError> {
        self.config(SUPERUSER, SUPERUSER).connect(NoTls)
    }

    /// The same by TCP as any user.
    ///
    /// # Errors
    /// As for [`connect`](Self::connect).
    pub fn connect_as(
        &self,
        user: &str,
        password: &str,
        database: &str,
    ) -> Result<Client, SqlError> {
        let mut config = Config::new();
        config.host(&self.address.ip().to_string()).port(self.address.port());
        config.user(user).password(password).dbname(database).connect_timeout(CONNECT);
        config.connect(NoTls)
    }

    fn config(&self, user: &str, database: &str) -> Config {
        let mut config = Config::new();
        config.host_path(self.socket_dir()).port(self.address.port()).user(user).dbname(database);
        config.connect_timeout(CONNECT);
        config
    }

    /// Runs statements as the superuser and gives the rows of all of them.
    ///
    /// # Panics
    /// When one fails.
    #[track_caller]
    pub fn sql(&self, sql: &str) -> Rows {
        self.try_sql(sql).unwrap_or_else(|error| panic!("{sql}: {error:?}"))
    }

    /// The same where it may fail.
    ///
    /// # Errors
    /// The server can't be reached, or refuses.
    pub fn try_sql(&self, sql: &str) -> Result<Rows, SqlError> {
        // On a thread of its own, since the client blocks, which a test's async runtime forbids.
        let asked = || rows(&mut self.connect()?, sql);
        std::thread::scope(|scope| scope.spawn(asked).join()).expect("the client does not panic")
    }

    /// The one value that `sql` gives, empty where that is NULL.
    ///
    /// # Panics
    /// When it fails or gives no row.
    #[track_caller]
    pub fn value(&self, sql: &str) -> String {
        let first = self.sql(sql).into_iter().next().and_then(|row| row.into_iter().next());
        first.unwrap_or_else(|| panic!("{sql}: no row")).unwrap_or_default()
    }

    /// Adds a user who may log in.
    ///
    /// # Panics
    /// When that fails.
    pub fn create_user(&self, name: &str, password: &str) {
        self.sql(&format!("CREATE ROLE \"{name}\" LOGIN PASSWORD '{}'", quoted(password)));
    }

    /// Adds a database.
    ///
    /// # Panics
    /// When that fails.
    pub fn create_database(&self, name: &str, owner: &str) {
        self.sql(&format!("CREATE DATABASE \"{name}\" OWNER \"{owner}\""));
    }

    /// Whether it is a replica now.
    pub fn is_replica(&self) -> bool {
        self.value("SELECT pg_is_in_recovery()") == "t"
    }

    /// Waits until this replica has replayed what `primary` has written so far.
    ///
    /// # Panics
    /// When it does not within a minute.
    pub fn catch_up(&self, primary: &Self) {
        let position = primary.value("SELECT pg_current_wal_insert_lsn()");
        let ask = format!("SELECT pg_last_wal_replay_lsn() >= '{position}'::pg_lsn");
        wait::until("the replica has caught up", wait::LONG, || self.value(&ask) == "t");
    }

    /// Lets this replica receive and not replay, as one does that lags.
    ///
    /// # Panics
    /// When it is not a replica.
    pub fn pause_replay(&self) {
        self.sql("SELECT pg_wal_replay_pause()");
        let ask = "SELECT pg_get_wal_replay_pause_state()";
        wait::until("replay is paused", wait::LONG, || self.value(ask) == "paused");
    }

    /// Lets it replay again.
    ///
    /// # Panics
    /// When it is not a replica.
    pub fn resume_replay(&self) {
        self.sql("SELECT pg_wal_replay_resume()");
    }
}

/// Runs statements over `client` and gives the rows of all of them.
///
/// # Errors
/// As the server's.
pub fn rows(client: &mut Client, sql: &str) -> Result<Rows, SqlError> {
    let messages = client.simple_query(sql)?;
    let rows = messages.into_iter().filter_map(|message| match message {
        SimpleQueryMessage::Row(row) => {
            Some((0..row.len()).map(|at| row.get(at).map(str::to_owned)).collect())
        }
        _ => None,
    });
    Ok(rows.collect())
}
