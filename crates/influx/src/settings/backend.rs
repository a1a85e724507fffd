//! A backend's settings as the rest of the gateway takes them: what can't be said of one is not
//! there.

use std::path::PathBuf;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::Size;
use units::secret::Secret;

/// The protocol a backend speaks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum BackendKind {
    /// InfluxDB 1.x: `/write` and `/query`, databases and retention policies are known by name.
    #[default]
    Influxdb,
    /// InfluxDB 2.x and 3: `/api/v2/write` with a token; a bucket is named `database/policy`, or
    /// `database` where the policy is not known.
    Influxdb2,
    /// VictoriaMetrics: `/write`; every database is accepted, none has to be created.
    VictoriaMetrics,
}

impl BackendKind {
    /// The name as it is written in the configuration.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Influxdb => "influxdb",
            Self::Influxdb2 => "influxdb2",
            Self::VictoriaMetrics => "victoria-metrics",
        }
    }

    /// Whether the backend can be asked which databases and retention policies it has, and
    /// executes InfluxQL statements that change something.
    pub fn has_catalogue(self) -> bool {
        self == Self::Influxdb
    }
}

/// Where the cursor of a backend begins that the journal has not seen before.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Start {
    /// With the first write after it was added.
    #[default]
    End,
    /// With the oldest record the journal still keeps.
    Oldest,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BackendSettings {
    /// A server of its own.
    Server(Box<ServerSettings>),
    /// The store within this process, of which nothing but its delivery can be set.
    Embedded(DeliverySettings),
}

/// What every backend has: points are delivered to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeliverySettings {
    /// The name of the backend, of its cursor and of its dead letters.
    pub name: String,
    /// Where the cursor begins that the journal has not seen before.
    pub start: Start,
    /// How large the file of dead letters may become.
    pub dead_letters_max: Size,
}

/// What is said of a server; [`BackendTable`](super::BackendTable) tells what each means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerSettings {
    pub delivery: DeliverySettings,
    pub url: String,
    pub kind: BackendKind,
    pub user: String,
    pub password: Secret,
    pub password_file: Option<PathBuf>,
    pub org: String,
    pub token: Secret,
    pub token_file: Option<PathBuf>,
    pub ca: Option<PathBuf>,
    pub insecure_skip_verify: bool,
    pub timeout: Duration,
    pub statement_timeout: Duration,
    pub batch_points: u32,
    /// Bytes.
    pub batch_bytes: usize,
    pub linger: Duration,
    pub gzip: bool,
    pub catch_up_rate: u64,
    pub create_missing: bool,
}

impl BackendSettings {
    /// What the backend has as every other one has.
    pub fn delivery(&self) -> &DeliverySettings {
        match self {
            Self::Server(server) => &server.delivery,
            Self::Embedded(delivery) => delivery,
        }
    }

    /// The backend's own name.
    pub fn name(&self) -> &str {
        &self.delivery().name
    }

    /// The server's, unless the backend is the embedded store.
    pub fn server(&self) -> Option<&ServerSettings> {
        match self {
            Self::Server(server) => Some(server),
            Self::Embedded(_) => None,
        }
    }
}
