//! Sends SQL to a cluster.

use std::ffi::OsStr;
use std::fmt;
use std::process::Command;
use std::sync::{Mutex, PoisonError};
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

/// A connection of the superuser's with nothing of a session left on it, if there is one.
#[derive(Default)]
pub(super) struct IdleClient(Mutex<Option<Client>>);

impl IdleClient {
    fn take(&self) -> Option<Client> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// The one that is kept, unless it was ended since.
    fn take_valid(&self) -> Option<Client> {
        let mut client = self.take()?;
        client.is_valid(CONNECT).is_ok().then_some(client)
    }

    fn keep(&self, client: Client) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(client);
    }
}

impl fmt::Debug for IdleClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("IdleClient")
    }
}

impl Drop for IdleClient {
    fn drop(&mut self) {
        // On a thread of its own, as it was made.
        let client = self.take();
        std::thread::scope(|scope| drop(scope.spawn(move || drop(client))));
    }
}

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
        let asked = || {
            let mut client = match self.idle.take_valid() {
                Some(client) => client,
                None => self.connect()?,
            };
            let rows = rows(&mut client, sql);
            // For the next time: to fork a process each time a condition is looked at would cost
            // more than the tests themselves.
            if client.batch_execute("DISCARD ALL").is_ok() {
                self.idle.keep(client);
            }
            rows
        };
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

/// What psql says of a statement, which asks by libpq: its rows, or in the place of them the error.
///
/// # Errors
/// What it wrote to standard error.
///
/// # Panics
/// When psql is missing.
pub fn psql(dsn: &str, statement: &str, environment: &[(&str, &OsStr)]) -> Result<String, String> {
    let mut command = Command::new(super::program("psql"));
    command.args(["-X", "-At", "-c", statement, dsn]).envs(environment.iter().copied());
    let output = command.output().expect("psql can be started");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
}
