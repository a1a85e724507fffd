//! The `[postgres]` table of the configuration. Each field's comment is its entry in the reference.
//!
//! Plain values only: what they do is decided where they are used. [`Settings::validate`] refuses
//! what can't work and says what to write instead; [`Settings::warnings`] names what works and is
//! still worth a word.

mod address;
mod auth;
mod backend;
mod database;
mod limits;
mod network;
#[cfg(test)]
mod tests;
mod user;
mod validate;
mod warnings;

use std::net::SocketAddr;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{Duration, Size};

pub use address::{AddressError, read_address};
pub use auth::{AuthQuery, AuthRule, ClientCertificate, From, Method};
pub use backend::{BackendSettings, Role, Spread, TlsMode, TlsNegotiation, TwoPrimaries};
pub use database::{ANY_DATABASE, DatabaseSettings};
pub use limits::{Batches, Lanes, Pool, Timeouts};
pub use network::{Cidr, CidrError, TlsSettings};
pub use user::UserSettings;
pub use validate::SettingsError;

/// The port of the Unix sockets' names where `listen` is empty.
const PORT: u16 = 6432;

/// What has no effect before a restart. Certificates are read again from the same files.
const READ_AT_START: [&str; 5] = ["listen", "unix-sockets", "unix-socket-mode", "tls", "salt-file"];

/// `[postgres]`: the PostgreSQL gateway. Absent, it is off.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Settings {
    /// Where clients connect over TCP: one address or a list of them. `[]` leaves the Unix sockets
    /// only.
    #[serde(deserialize_with = "units::list::one_or_many")]
    #[schemars(with = "units::list::OneOrMany<SocketAddr>")]
    pub listen: Vec<SocketAddr>,
    /// Directories in which a Unix socket is made, named as PostgreSQL does: `.s.PGSQL.` and the
    /// port of the first `listen`, or 6432. Clients give the directory as their host.
    #[serde(deserialize_with = "units::list::one_or_many")]
    #[schemars(with = "units::list::OneOrMany<PathBuf>")]
    pub unix_sockets: Vec<PathBuf>,
    /// Who may connect to a Unix socket, as the octal mode of its file. For a group, make the
    /// directory setgid (`chmod g+s`) and write `"0770"`.
    pub unix_socket_mode: String,
    /// TLS for clients over TCP.
    pub tls: Option<TlsSettings>,
    /// Let clients log in from beyond this machine without TLS. Their statements and rows, and
    /// with `method = "password"` their passwords too, can then be read on the way.
    pub allow_cleartext: bool,
    /// A file with the secret from which the salts are made that unknown users are shown, and those
    /// whose password stands in the file as it is; it is made where it is not there. Without it
    /// there is one in systemd's `StateDirectory`, and without that a new one at each start:
    /// whoever asks before and after can then tell users with a SCRAM verifier in the file from
    /// names that are not there. Several gateways behind one address need the same.
    pub salt_file: Option<PathBuf>,
    /// Client connections at once, all workers together. One more hears SQLSTATE 53300 and is
    /// closed.
    pub max_connections: usize,
    /// Client connections at once of one user; 0 is without limit. A `[[postgres.user]]` may say
    /// otherwise.
    pub max_connections_per_user: usize,
    /// Client connections at once to one database; 0 is without limit. A `[[postgres.database]]`
    /// may say otherwise.
    pub max_connections_per_database: usize,
    /// The largest message of a client; a larger one hears SQLSTATE 54000 and the connection is
    /// closed. PostgreSQL's own limit is 1GiB. Before a client has logged in, the limits are
    /// those of PostgreSQL: 10,000 bytes for its first packet, 64KiB for a password.
    pub max_message: Size,
    /// Memory for what clients have sent and is not sent on yet, of all of them together, beyond
    /// 256KiB of each: a message that is looked into is held until it is whole. Where it is used
    /// up, a client whose message goes on hears SQLSTATE 53200 and is closed.
    pub held_messages: Size,
    /// How long clients and their statements may take.
    pub timeouts: Timeouts,
    /// When a server connection is given up by its client: `session` or `transaction`. A user's
    /// setting comes before a database's, and that before this one.
    pub mode: Mode,
    /// Server connections that carry the statements of many clients at once.
    pub lanes: Lanes,
    /// Writes of many clients in one transaction.
    pub batches: Batches,
    /// How many server connections there are, and for how long.
    pub pool: Pool,
    /// Ask a server once for equal proven reads of several clients that wait together for the same
    /// lane, or for a server connection with the same user and settings. Nothing is cached: a read
    /// joins another only while nothing of that was sent, so each client hears what it could have
    /// heard alone. Only reads of stored rows by what is immutable are, and none behind another
    /// statement of its client that is not answered. The server counts one, in
    /// `pg_stat_statements`, in its log and for `pgaudit`. Has no effect where `lanes` are off.
    pub share_reads: bool,
    /// Where commits are `shared`: once their confirmation has been under way at the server for so
    /// long, as with a synchronous standby that is away, further commits wait for themselves.
    pub commit_wait: Duration,
    /// How new what a client reads must be: `session`, `eventual` or `primary`.
    pub consistency: Consistency,
    /// Whether the primary takes reads as well while there is a replica that can.
    pub reads_on_primary: bool,
    /// A replica that is further behind than this takes no reads until it has caught up; `0` is
    /// without limit.
    pub max_lag: Duration,
    /// The same limit in bytes of WAL that the replica has yet to replay; `0` is without limit.
    pub max_lag_bytes: Size,
    /// Whom a read goes to among the replicas that can take it: `in-flight` or `nearest`.
    pub spread: Spread,
    /// How often each backend is asked for its role and its position. A promotion is noticed
    /// within about twice this. While replicas have yet to replay what a client has written, they
    /// are asked five times as often, because until then that client reads from the primary.
    pub poll_interval: Duration,
    /// A backend that does not answer for so long is down: it gets no statements until it does.
    pub poll_timeout: Duration,
    /// What to do while several backends say that they are the primary: `refuse` or
    /// `higher-timeline`.
    pub two_primaries: TwoPrimaries,
    /// How long a statement waits for a primary while there is none, as during a failover; then
    /// it hears SQLSTATE 08001. `0` fails at once.
    pub failover_wait: Duration,
    /// Answer a plain `BEGIN` at once and send it along with the statement that follows it, which
    /// saves a round trip to the server. `now()` is then the time of that statement, and an error
    /// of `BEGIN` itself (there is none in practice) would come with it.
    pub merge_begin: bool,
    /// Prepare statements that come as text and of which a server has one sensible plan, whatever
    /// their constants are: those that name their rows by a key of one table, and `INSERT` of
    /// values. The server gets the constants as parameters and spares itself parsing and planning.
    /// For sessions in `transaction` mode; statements with comments go out as they are.
    pub prepare_points: bool,
    /// Startup parameters that clients send and that are to have no effect. Any other one becomes
    /// a setting of the client's session, and clients whose settings differ do not share server
    /// connections.
    pub ignore_startup_parameters: Vec<String>,
    /// What the server sees as `application_name`: `client`, `client-and-address` or `gateway`.
    pub application_name: ApplicationName,
    /// Prepared statements kept on each server connection in `transaction` mode; the one least
    /// recently used makes room for the next.
    pub prepared_statements: usize,
    /// Prepared statements that one client may have at a time; one more hears SQLSTATE 54000.
    pub max_prepared_statements: usize,
    /// Bytes of text that the prepared statements of one client may have together; one more hears
    /// SQLSTATE 54000. The unnamed statement does not count. A server connection keeps no more
    /// than this either, and each worker no more of what no client holds.
    pub max_prepared_bytes: Size,
    /// Plans kept by each worker for each database: what Weir knows of a statement whose literals
    /// are taken out. About 100 bytes each.
    pub plan_cache: usize,
    /// Statements that run longer at the server, from being sent to the last byte of the answer and
    /// on a lane without the time behind others, are logged with their literals taken out; `0` logs
    /// none.
    pub slow_statement: Duration,
    /// The console: a database within Weir that shows its state and takes commands.
    pub console: Console,
    /// `[[postgres.auth]]`: who has to prove what, as in `pg_hba.conf`: the first rule that fits
    /// decides, and where none fits the client is refused. Without any rule every client logs in
    /// by SCRAM, or by what its verifier is for.
    pub auth: Vec<AuthRule>,
    /// `[postgres.auth-query]`: asks a server for the verifiers of users that are not in the file.
    pub auth_query: Option<AuthQuery>,
    /// `[[postgres.user]]`: who may log in. Needed unless there is `[postgres.auth-query]` or
    /// nobody has to prove anything.
    pub user: Vec<UserSettings>,
    /// `[[postgres.database]]`: what clients may connect to. Without any entry every database that
    /// the servers have, under its own name.
    pub database: Vec<DatabaseSettings>,
    /// `[[postgres.backend]]`: the servers: one primary and its replicas.
    pub backend: Vec<BackendSettings>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            listen: vec![SocketAddr::from(([127, 0, 0, 1], PORT))],
            unix_sockets: Vec::new(),
            unix_socket_mode: "0777".to_owned(),
            tls: None,
            allow_cleartext: false,
            salt_file: None,
            max_connections: 16_384,
            max_connections_per_user: 0,
            max_connections_per_database: 0,
            max_message: Size::from_gib(1),
            held_messages: Size::from_mib(256),
            timeouts: Timeouts::default(),
            mode: Mode::default(),
            lanes: Lanes::default(),
            batches: Batches::default(),
            pool: Pool::default(),
            share_reads: true,
            commit_wait: Duration::from_secs(1),
            consistency: Consistency::default(),
            reads_on_primary: false,
            max_lag: Duration::from_secs(10),
            max_lag_bytes: Size::from_bytes(0),
            spread: Spread::default(),
            poll_interval: Duration::from_millis(500),
            poll_timeout: Duration::from_secs(2),
            two_primaries: TwoPrimaries::default(),
            failover_wait: Duration::from_secs(30),
            merge_begin: true,
            prepare_points: true,
            ignore_startup_parameters: Vec::new(),
            application_name: ApplicationName::default(),
            prepared_statements: 500,
            max_prepared_statements: 10_000,
            max_prepared_bytes: Size::from_mib(16),
            plan_cache: 10_000,
            slow_statement: Duration::from_secs(10),
            console: Console::default(),
            auth: Vec::new(),
            auth_query: None,
            user: Vec::new(),
            database: Vec::new(),
            backend: Vec::new(),
        }
    }
}

/// When a client gives up its server connection.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// A client has a server connection of its own for as long as it is connected.
    Session,
    /// A client has one for a transaction, or for as long as its session has state that can't be
    /// carried over; statements that are proven reads may share one.
    #[default]
    Transaction,
}

impl Mode {
    /// The name as it is written in the configuration.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Session => "session",
            Self::Transaction => "transaction",
        }
    }
}

/// How new what a client reads must be.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Consistency {
    /// A client never reads from a replica that has not replayed what this client has written.
    #[default]
    Session,
    /// Any replica within `max-lag` will do; a client may not see its own last write.
    Eventual,
    /// Everything is read from the primary, and replicas stand by.
    Primary,
}

/// Where the statements of a user or a database go.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Route {
    /// Proven reads to a replica where there is one, everything else to the primary.
    #[default]
    Auto,
    /// Everything to the primary.
    Primary,
    /// Everything to a replica; a statement that writes is refused by it with SQLSTATE 25006.
    Replica,
}

/// What the answer to a commit waits for, for clients that do not set `synchronous_commit`
/// themselves (`docs/durability.md`). Either way a client hears of its commit once it is as durable
/// as the server's `synchronous_commit` says.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Commit {
    /// The server's own answer, for which the server connection waits.
    #[default]
    Own,
    /// A confirmation that many commits have in common. The server connection is free meanwhile,
    /// and locks are gone; other clients may read what is not confirmed yet.
    Shared,
}

/// What `currval` and `lastval` tell outside the transaction that has drawn.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LastValues {
    /// Nothing: the connection may be another client's by then, so SQLSTATE 55000 says what to do.
    #[default]
    Refuse,
    /// The client's own: after a statement that may draw from a sequence the client keeps its
    /// server connection until its next statement is answered, for one second at most.
    Keep,
}

/// What the server sees as `application_name`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ApplicationName {
    /// The client's own. Clients of different names do not share lanes.
    #[default]
    Client,
    /// The client's own and its address, as `psql - 10.0.0.7:51234`. Then no two clients share a
    /// lane.
    ClientAndAddress,
    /// `weir`, for all: lanes are shared by clients of any name, and only `SHOW CLIENTS` has their
    /// names.
    Gateway,
}

/// `[postgres.console]`: a database within Weir that shows its state and takes commands, as the
/// database `pgbouncer` of PgBouncer does. Nobody can connect to it unless named here; who is logs
/// in as a `[[postgres.user]]`, or by `[postgres.auth-query]` where that names its database.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Console {
    /// The names under which clients connect to it. Databases of these names on the servers can't
    /// be reached through Weir.
    pub databases: Vec<String>,
    /// Users who may give every command.
    pub admin_users: Vec<String>,
    /// Users who may look, by `SHOW`, and nothing else.
    pub stats_users: Vec<String>,
}

impl Default for Console {
    fn default() -> Self {
        Self {
            databases: vec!["weir".to_owned(), "pgbouncer".to_owned()],
            admin_users: Vec::new(),
            stats_users: Vec::new(),
        }
    }
}

impl Settings {
    /// The port in the names of the Unix sockets.
    pub fn unix_port(&self) -> u16 {
        self.listen.first().map(SocketAddr::port).filter(|port| *port != 0).unwrap_or(PORT)
    }

    /// The entry of a database that a client names: its own, else the one for any, else none.
    pub fn database(&self, name: &str) -> Option<&DatabaseSettings> {
        let named = |wanted: &str| self.database.iter().find(|entry| entry.name == wanted);
        named(name).or_else(|| named(ANY_DATABASE))
    }

    /// The entry of a database by its name on the servers.
    pub fn database_there(&self, name: &str) -> Option<&DatabaseSettings> {
        let is_it = |entry: &&DatabaseSettings| entry.server_name(&entry.name) == name;
        let any = || self.database.iter().find(|entry| entry.name == ANY_DATABASE);
        let mut named = self.database.iter().filter(|entry| entry.name != ANY_DATABASE);
        named.find(is_it).or_else(|| any().filter(|entry| entry.server_name(name) == name))
    }

    /// Whether clients may connect to `name` at all, as far as the file says.
    pub fn has_database(&self, name: &str) -> bool {
        self.database.is_empty() || self.database(name).is_some()
    }

    /// The entry of a user.
    pub fn user(&self, name: &str) -> Option<&UserSettings> {
        self.user.iter().find(|entry| entry.name == name)
    }

    /// The mode of a user's connection to a database.
    pub fn mode(&self, database: &str, user: &str) -> Mode {
        let of_user = self.user(user).and_then(|user| user.mode);
        of_user.or_else(|| self.database(database)?.mode).unwrap_or(self.mode)
    }

    /// How the commits of a user's transactions in a database are confirmed.
    pub fn commit(&self, database: &str, user: &str) -> Commit {
        let of_user = self.user(user).and_then(|user| user.commit);
        of_user.or_else(|| self.database(database)?.commit).unwrap_or_default()
    }

    /// Whether the commits of any client are confirmed together.
    pub fn shares_commits(&self) -> bool {
        let mut of_users = self.user.iter().map(|user| user.commit);
        let mut of_databases = self.database.iter().map(|database| database.commit);
        let is_shared = |commit| commit == Some(Commit::Shared);
        of_users.any(is_shared) || of_databases.any(is_shared)
    }

    /// Whether a key, as `listen` or `tls.required`, is only read at a start.
    pub fn is_read_at_start(key: &str) -> bool {
        let first = key.split('.').next().unwrap_or(key);
        READ_AT_START.contains(&first)
    }

    /// These with what is only read at a start as it is in the `running` ones, and the keys of
    /// what differed there.
    pub fn keep_fixed(self, running: &Self) -> (Self, Vec<String>) {
        let differ = [
            self.listen != running.listen,
            self.unix_sockets != running.unix_sockets,
            self.unix_socket_mode != running.unix_socket_mode,
            self.tls != running.tls,
            self.salt_file != running.salt_file,
        ];
        let keys = READ_AT_START.iter().zip(differ).filter(|(_, differs)| *differs);
        let keys = keys.map(|(key, _)| format!("postgres.{key}")).collect();
        let Self { listen, unix_sockets, unix_socket_mode, tls, salt_file, .. } = running.clone();
        (Self { listen, unix_sockets, unix_socket_mode, tls, salt_file, ..self }, keys)
    }
}
