//! The state of the gateway at one moment, as the console and `/status` show it. Each worker gives
//! its part, and [`Snapshot::merge`] makes one of them.

mod merge;

use std::net::SocketAddr;
use std::time::{Duration, SystemTime};

use watch::latencies::Percentiles;

use super::Averages;
use crate::backends::BackendStatus;
use crate::connection::ServerState;
use crate::database::Totals;
use crate::settings::Mode;

/// The state at one moment. A part that was not asked for is left empty.
#[derive(Debug, Clone, Default)]
pub struct Snapshot {
    /// Whether `PAUSE` without a database is in force.
    pub paused: bool,
    /// Workers that stood still and gave no part.
    pub missing: usize,
    /// Clients that have not logged in yet.
    pub login_clients: u64,
    /// For each database and user that has or had a client.
    pub pools: Vec<PoolRow>,
    /// Every client that has logged in.
    pub clients: Vec<ClientRow>,
    /// Every server connection, lanes too.
    pub servers: Vec<ServerRow>,
    pub lanes: Vec<LaneRow>,
    /// What has happened since the start, for each database.
    pub totals: Vec<(String, Totals)>,
    /// What happened in the last whole period, for each database.
    pub averages: Averages,
    /// Every database that is configured or in use.
    pub databases: Vec<DatabaseRow>,
    /// Every user that is configured or connected.
    pub users: Vec<UserRow>,
    /// How statements were classified.
    pub plans: Vec<PlanRow>,
    pub backends: Vec<BackendRow>,
    /// Rows of `SHOW MEM`: what takes memory.
    pub memory: Vec<MemoryRow>,
}

/// One database and user.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PoolRow {
    /// The database, as clients name it.
    pub database: String,
    /// The user whose pool it is.
    pub user: String,
    /// When its clients give up server connections.
    pub mode: Mode,
    /// Clients with a server connection, with a statement on a lane, or idle.
    pub clients_active: u64,
    /// Clients whose statement waits for a server connection.
    pub clients_waiting: u64,
    /// Cancel requests that are on their way to a server.
    pub cancels_active: u64,
    /// Cancel requests that wait for a connection.
    pub cancels_waiting: u64,
    /// Server connections that a client has for itself.
    pub servers_active: u64,
    /// Server connections that a cancel request goes over.
    pub servers_cancelling: u64,
    /// Server connections held back until a cancel request that is meant for them has arrived.
    pub servers_being_cancelled: u64,
    /// Server connections that anybody may have.
    pub servers_idle: u64,
    /// Server connections that are being made ready for the next client.
    pub servers_resetting: u64,
    /// Server connections that log in.
    pub servers_login: u64,
    /// How long the client that waits longest has waited.
    pub wait_max: Duration,
    /// How many lanes are open.
    pub lanes: u64,
    /// Statements under way on lanes.
    pub lane_statements: u64,
    /// Clients that keep their server connection beyond a transaction, as their session has state.
    pub clients_pinned: u64,
    /// Clients whose commit is done, and whose answer waits until that is confirmed.
    pub clients_unconfirmed: u64,
    /// Clients that ask for nothing, and have a transaction open.
    pub clients_in_transaction: u64,
    /// How long the one of them has that asks for nothing for longest.
    pub in_transaction_max: Duration,
}

/// What a client does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientState {
    /// It has a server connection, or a statement on a lane.
    Active,
    /// It asks for nothing.
    Idle,
    /// Its statement waits for a server connection.
    Waiting,
}

/// A row of `SHOW CLIENTS`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientRow {
    /// Its number, by which `KILL_CLIENT` finds it.
    pub id: u64,
    /// The user it has logged in as.
    pub user: String,
    /// Its database, as it named it.
    pub database: String,
    pub state: ClientState,
    /// Where it comes from; `None` is a Unix socket.
    pub address: Option<SocketAddr>,
    /// Where it came to; `None` is a Unix socket.
    pub local: Option<SocketAddr>,
    /// When it connected, by the system's clock.
    pub connected: SystemTime,
    /// When its last statement came.
    pub asked: SystemTime,
    /// How long its statement has waited, where it does.
    pub waiting: Duration,
    /// The number of its server connection.
    pub server: Option<u64>,
    /// The TLS version and cipher; empty without TLS.
    pub tls: String,
    /// Its setting `application_name`, empty where it gave none.
    pub application_name: String,
    /// Prepared statements that it has.
    pub prepared: u64,
    /// The worker that serves it.
    pub worker: u64,
    /// Why it keeps its server connection; empty where it doesn't.
    pub pinned: &'static str,
}

/// A row of `SHOW SERVERS`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerRow {
    /// Its number, which no other of this process has or had.
    pub id: u64,
    /// The user it is logged in as.
    pub user: String,
    /// The database, as its clients name it.
    pub database: String,
    pub state: ServerState,
    /// Where the server is; `None` is a Unix socket.
    pub address: Option<SocketAddr>,
    /// This end; `None` is a Unix socket.
    pub local: Option<SocketAddr>,
    /// When it was made.
    pub connected: SystemTime,
    /// When the last statement was sent.
    pub asked: SystemTime,
    /// Whether it is closed as soon as nobody uses it.
    pub closing: bool,
    /// The number of the client that has it.
    pub client: Option<u64>,
    /// The process id of the server's backend process.
    pub process: u64,
    /// The TLS version and cipher; empty without TLS.
    pub tls: String,
    /// The `application_name` that the server has.
    pub application_name: String,
    /// Statements prepared on it.
    pub prepared: u64,
    /// The backend's name in the settings.
    pub backend: String,
    /// The worker that has it.
    pub worker: u64,
}

/// A row of `SHOW LANES`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaneRow {
    /// The database, as its clients name it.
    pub database: String,
    /// The user on the backend.
    pub user: String,
    /// The backend's name in the settings.
    pub backend: String,
    /// The worker that has it.
    pub worker: u64,
    /// The number of its server connection.
    pub server: u64,
    /// Statements under way on it.
    pub depth: u64,
    /// How long the oldest of them has been under way.
    pub head_age: Duration,
    /// Bytes that the server has yet to take.
    pub unsent: u64,
    /// Statements that it has carried.
    pub statements: u64,
    /// Whether it takes no more.
    pub quarantined: bool,
}

/// A row of `SHOW DATABASES`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DatabaseRow {
    /// The name that clients connect to.
    pub name: String,
    /// The name on the servers.
    pub dbname: String,
    /// Where the primary is, or whichever server is asked; `None` where none is known.
    pub host: Option<String>,
    /// The port of `host`.
    pub port: u64,
    /// The user Weir logs in as for every client.
    pub user: Option<String>,
    /// The most server connections for each user.
    pub pool_size: u64,
    /// Server connections kept open.
    pub min_idle: u64,
    /// How old a server connection may become.
    pub max_age: Duration,
    /// The mode, where it is the database's own.
    pub mode: Option<Mode>,
    /// The most server connections; 0 is without limit.
    pub servers_max: u64,
    /// Server connections that are open now.
    pub servers: u64,
    /// The most clients; 0 is without limit.
    pub clients_max: u64,
    /// Clients that are connected now.
    pub clients: u64,
    /// Whether it is paused.
    pub paused: bool,
    /// Whether it takes no clients.
    pub disabled: bool,
}

/// A row of `SHOW USERS`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UserRow {
    /// The name that clients log in with.
    pub name: String,
    /// The most server connections for each database, where it is the user's own.
    pub pool_size: Option<u64>,
    /// The mode, where it is the user's own.
    pub mode: Option<Mode>,
    /// The most server connections; 0 is without limit.
    pub servers_max: u64,
    /// Server connections that are open now.
    pub servers: u64,
    /// The most clients; 0 is without limit.
    pub clients_max: u64,
    /// Clients that are connected now.
    pub clients: u64,
}

/// How many statements were classified so, and for what reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanRow {
    /// The database, as clients name it.
    pub database: String,
    /// What they are, as `read` or `write`.
    pub kind: &'static str,
    /// Why they do not ride a lane; empty where they do.
    pub reason: &'static str,
    /// How many statements were classified so.
    pub statements: u64,
}

/// A row of `SHOW BACKENDS`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct BackendRow {
    /// Its name in the configuration.
    pub name: String,
    /// The address at which Weir reaches it.
    pub address: String,
    /// What it is taken for: `primary`, `replica`, `down` and the like.
    pub role: &'static str,
    /// What is wrong with it; why nothing is sent there, where nothing is.
    pub trouble: Option<String>,
    /// How much WAL a replica has yet to replay.
    pub lag_bytes: Option<u64>,
    /// How old the newest transaction is that a replica has replayed, where it is behind.
    pub lag: Option<Duration>,
    /// Its share of reads, against the other replicas.
    pub weight: u64,
    /// Server connections that are open now.
    pub servers: u64,
    /// Statements that it has not answered yet.
    pub in_flight: u64,
    /// How long statements on lanes take; `None` before the first.
    pub lane: Option<Percentiles>,
    /// How long statements by lease take; `None` before the first.
    pub lease: Option<Percentiles>,
    /// How long those in batches took.
    pub batch: Option<Percentiles>,
}

/// What takes memory: so many of such a size.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryRow {
    /// What the memory is used for.
    pub name: &'static str,
    /// Bytes that one of them takes.
    pub size: u64,
    /// How many are in use.
    pub used: u64,
    /// How many are kept for the next.
    pub free: u64,
}

impl BackendRow {
    /// A row of what the backends say, with what the workers have at that server.
    pub fn new(status: &BackendStatus, servers: u64, in_flight: u64) -> Self {
        Self {
            name: status.name.clone(),
            address: status.address.clone(),
            role: status.standing.name(),
            trouble: status.trouble.clone(),
            lag_bytes: status.lag_bytes,
            lag: status.lag_ms.map(Duration::from_millis),
            weight: u64::from(status.weight),
            servers,
            in_flight,
            lane: None,
            lease: None,
            batch: None,
        }
    }
}
