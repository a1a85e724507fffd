//! What `/status` shows of the gateway.

use serde::{Deserialize, Serialize};
use watch::latencies::Latency;

use crate::server_memory::ServerMemory;

/// The state of the Redis gateway, as the status page shows it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// Clients that are connected now.
    pub connections: u64,
    /// Commands since the start.
    pub commands: u64,
    /// Those of them that rode a lane.
    pub lane_commands: u64,
    /// Those of these that were answered with an equal read of another client.
    #[serde(default)]
    pub shared_reads: u64,
    /// Those that were refused by Weir.
    pub refused: u64,
    /// Connections to all servers that could not be opened since the start.
    pub failed_connections: u64,
    /// The servers of all pools.
    pub backends: Vec<Backend>,
}

/// What a Sentinel is asked to find a server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SentinelQuestion {
    /// Where the Sentinel listens.
    pub url: String,
    /// What it calls the server.
    pub master: String,
}

/// One server, as the status page shows it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Backend {
    /// Its pool; `redis` is the one of `[redis]` itself.
    pub pool: String,
    /// Its name in the configuration.
    pub name: String,
    /// The URL that Weir reaches it by.
    pub url: String,
    /// Who is asked where it is, until that is known; absent where its settings say it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sentinel: Option<SentinelQuestion>,
    /// The server whose replica it is, where it is read as such.
    #[serde(default)]
    pub replica_of: Option<String>,
    /// Its share of the keys, in proportion to the others.
    pub weight: u32,
    /// For how many seconds it is ejected still, where it is.
    pub ejected_seconds: Option<f64>,
    /// How often it was ejected since the start.
    #[serde(default)]
    pub ejections: u64,
    /// What was wrong with it last, where it was not reached since.
    pub wrong: Option<String>,
    /// What it says of its memory; absent where it says nothing.
    #[serde(default)]
    pub memory: Option<ServerMemory>,
    /// Commands that it has answered since the start, but for those that wait for others.
    #[serde(default)]
    pub answers: u64,
    /// How long commands take, those on lanes and those by lease; none before the first.
    #[serde(default)]
    pub latencies: Vec<Latency>,
}
