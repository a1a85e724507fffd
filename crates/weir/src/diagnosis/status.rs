//! The answer of the admin port's `/status`, as far as a program of this house reads it.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use redis::replica::state::MasterStatus;
use serde::{Deserialize, Serialize};

/// What the process says of itself.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Process {
    /// The version of Weir.
    pub version: String,
    /// The id of the process.
    pub pid: u32,
    /// Seconds since it started.
    pub uptime_seconds: f64,
    /// How many worker threads.
    pub workers: usize,
    /// The name of the machine.
    #[serde(default)]
    pub host: String,
    /// The configuration file; absent where there is none.
    #[serde(default)]
    pub config: Option<String>,
    /// When it started, in seconds since 1970.
    #[serde(default)]
    pub started_at: f64,
    /// The last reload; absent where there was none.
    #[serde(default)]
    pub reload: Option<Reload>,
}

/// A reload of the configuration.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Reload {
    /// When it was, in seconds since 1970.
    pub at: f64,
    /// Why it has changed nothing; absent where it is in force.
    pub refused: Option<String>,
    /// Keys that have changed in the file and need a restart.
    pub needs_restart: Vec<String>,
}

/// Whether writes are taken.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Ready {
    /// Whether writes are taken.
    pub yes: bool,
    /// Why they are not.
    pub reason: Option<String>,
}

/// The part of `/status` that is shown.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct Status {
    /// What the process says of itself.
    pub process: Process,
    /// Whether writes are taken.
    pub ready: Ready,
    /// Absent where the InfluxDB gateway is off.
    pub journal: Option<Journal>,
    /// Absent where that gateway is off.
    pub influx: Option<Influx>,
    /// Absent where the PostgreSQL gateway is off.
    pub postgres: Option<postgres::status::Status>,
    /// Absent where the Redis gateway is off.
    pub redis: Option<redis::status::Status>,
    /// Those that move the most bytes, and those that have waited longest.
    #[serde(default)]
    pub clients: Vec<Client>,
    /// Empty where no append-only file is kept.
    #[serde(default, rename = "redis.aof")]
    pub followed: Vec<MasterStatus>,
    /// Absent where the guard is off.
    #[serde(default, rename = "redis.guard")]
    pub guard: Option<redis::guard::shown::Status>,
}

/// A client that moves many bytes or has waited for long.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct Client {
    /// The gateway that it is connected to.
    pub gateway: String,
    /// Where it comes from.
    pub address: String,
    /// The user that it has logged in as.
    pub user: Option<String>,
    /// Bytes a second in both directions.
    pub bytes_per_second: f64,
    /// For how long it has heard nothing since it asked for something.
    pub waiting_seconds: f64,
}

/// The journal of writes.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct Journal {
    /// When writes are acknowledged.
    pub ack: String,
    /// What happens once it is full.
    pub when_full: String,
    /// Why nothing is acknowledged any more.
    pub poisoned: Option<String>,
    /// Whether writes are refused because of `max-size`.
    pub full: bool,
    /// Whether writes are refused because the disk is full.
    pub disk_full: bool,
    /// Bytes of all segment files.
    pub bytes_used: u64,
    /// The configured `max-size`, in bytes.
    pub bytes_max: u64,
    /// How long until it is full at the present rate; absent where it does not grow.
    pub until_full_seconds: Option<f64>,
    /// What went in since the journal was made.
    #[serde(default)]
    pub accepted: Accepted,
    /// Places that could not be read.
    #[serde(default)]
    pub damage: Vec<Damage>,
}

/// What went into the journal.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct Accepted {
    /// Bytes of records, headers included.
    pub bytes: u64,
}

/// A place of the journal that could not be read.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct Damage {
    /// The file and the offset in it.
    pub place: String,
}

/// What the InfluxDB gateway does.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct Influx {
    /// Clients that are connected now.
    pub connections: u64,
    /// Points acknowledged since the start.
    pub points_accepted: u64,
    /// What every write is delivered to.
    pub backends: Vec<Backend>,
    /// Absent where nobody looks for points that overwrite others.
    pub collisions: Option<Collisions>,
    /// Absent where there is no embedded store.
    #[serde(default)]
    pub store: Option<EmbeddedStore>,
}

/// What the embedded store has.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct EmbeddedStore {
    /// How many files of points are on the disk.
    pub files: u64,
    /// Bytes of these files.
    pub files_bytes: u64,
    /// Bytes of points that are in memory only.
    pub memory_bytes: u64,
    /// Series that there have been.
    pub series: u64,
    /// How many queries run at this moment.
    pub queries: u64,
}

/// A backend of the InfluxDB gateway.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct Backend {
    /// Its name in the configuration.
    pub name: String,
    /// Its address, without credentials; empty for the embedded store.
    #[serde(default)]
    pub url: String,
    /// `delivering`, `retrying` or `stopped` and the like.
    pub state: String,
    /// Why it is retrying or stopped.
    pub reason: Option<String>,
    /// What went wrong last, also when all is well again.
    #[serde(default)]
    pub last_error: Option<String>,
    /// When that was, in seconds since 1970.
    #[serde(default)]
    pub last_error_at: Option<f64>,
    /// Why it has refused a point for good last.
    #[serde(default)]
    pub last_refusal: Option<String>,
    /// Absent until the delivery has begun.
    pub cursor: Option<Cursor>,
    /// What the embedded store's answers lack.
    #[serde(default)]
    pub missing: Vec<String>,
}

/// The account of a backend's points.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct Cursor {
    /// Points that it has stored.
    pub delivered: u64,
    /// Points that it has refused for good.
    pub dead_lettered: u64,
    /// Points that could not be read.
    pub dropped: u64,
    /// Points given up at `max-size`.
    pub dropped_oldest: u64,
    /// Points lost by damage.
    pub dropped_damaged: u64,
    /// What it has still to get.
    pub waiting: WaitingItems,
}

impl Cursor {
    /// Points that it never gets, whatever the reason.
    pub fn dropped_of_all_kinds(&self) -> u64 {
        self.dropped + self.dropped_oldest + self.dropped_damaged
    }
}

/// What a backend has still to get.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct WaitingItems {
    /// Points that it lacks.
    pub items: u64,
    /// Bytes of the journal.
    pub bytes: u64,
    /// The age of the oldest.
    pub oldest_age_seconds: Option<f64>,
}

/// Points that overwrote others.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct Collisions {
    /// The share of points that is looked at.
    pub share: f64,
    /// Where there were any.
    pub measurements: Vec<Measurement>,
}

/// A measurement of which points were overwritten.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct Measurement {
    /// The database of the measurement.
    pub database: String,
    /// The name of the measurement.
    pub measurement: String,
    /// Points that gave a field another value, by who wrote the two.
    pub overwritten: BTreeMap<String, u64>,
    /// Points that repeated all fields in common.
    pub equal: BTreeMap<String, u64>,
    /// The last of these points.
    pub last_overwritten: Option<Overwritten>,
}

/// One point that overwrote another.
#[derive(Debug, Clone, Deserialize)]
pub struct Overwritten {
    /// The series of both.
    pub series: String,
    /// The time of both points.
    pub time_ns: i64,
    /// A field that both have.
    pub field: String,
    /// The one that was there.
    pub older: Write,
    /// The one that came.
    pub newer: Write,
}

/// A write of a point.
#[derive(Debug, Clone, Deserialize)]
pub struct Write {
    /// Whose; absent where too many connections have come since.
    pub source: Option<Source>,
    /// The value; absent where it must not be shown.
    pub value: Option<String>,
}

/// Who has written a point.
#[derive(Debug, Clone, Deserialize)]
pub struct Source {
    /// The address of the client.
    pub address: SocketAddr,
    /// The user of the client.
    pub user: Option<String>,
}
