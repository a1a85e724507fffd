//! The gateway's part of the admin port's `/status`, which `weir status` shows.

use serde::{Deserialize, Serialize};
use watch::latencies::Latency;
use watch::metrics::{Encoder, Label};

use crate::backends::ExpiringRole;
use crate::console::Snapshot;
pub use crate::slow::SlowForm;

/// The state at one moment, from what the console shows.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// Clients that have logged in.
    pub connections: u64,
    /// Clients whose statement waits for a server connection.
    pub waiting: u64,
    /// Whether `PAUSE` is in force for everything.
    pub paused: bool,
    /// Statements since the start.
    pub queries: u64,
    /// How many of them went by a lane.
    pub lane_queries: u64,
    /// How many of them went to a replica.
    pub replica_queries: u64,
    /// How many reads heard what was asked for an equal one.
    #[serde(default)]
    pub shared_queries: u64,
    /// Errors of servers that clients were told, since the start.
    #[serde(default)]
    pub errors: u64,
    pub backends: Vec<Backend>,
    /// For each database and user.
    pub pools: Vec<Pool>,
    /// Forms of slow statements that took the most time.
    #[serde(default)]
    pub slow: Vec<SlowForm>,
    /// Roles of the primary whose passwords end within 14 days.
    #[serde(default)]
    pub expiring: Vec<ExpiringRole>,
}

/// One backend, as the status page shows it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Backend {
    /// Its name in the configuration.
    pub name: String,
    /// The address at which Weir reaches it.
    pub address: String,
    /// What it is taken for: `primary`, `replica`, `down` and the like.
    pub role: String,
    /// What is wrong with it; why nothing is sent there, where nothing is.
    pub trouble: Option<String>,
    /// How much WAL a replica has yet to replay.
    pub lag_bytes: Option<u64>,
    /// How far a replica is behind.
    pub lag_seconds: Option<f64>,
    /// Server connections that are open now.
    pub connections: u64,
    /// Statements that it has not answered yet.
    pub in_flight: u64,
    /// How long statements take, those on lanes and those by lease; none before the first.
    pub latencies: Vec<Latency>,
}

/// One database and user.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Pool {
    /// The database, as clients name it.
    pub database: String,
    /// The user whose pool it is.
    pub user: String,
    /// `session` or `transaction`: when clients give up their server connections.
    pub mode: String,
    /// Clients that wait for a server connection.
    pub waiting: u64,
    /// How long the one that waits longest has waited.
    pub wait_max_seconds: f64,
    /// Clients that do not wait.
    pub clients: u64,
    /// Clients that keep a server connection, as their session has state.
    pub pinned: u64,
    /// Clients that ask for nothing, and have a transaction open.
    #[serde(default)]
    pub idle_in_transaction: u64,
    /// How long the one of them has that asks for nothing for longest.
    #[serde(default)]
    pub idle_in_transaction_max_seconds: f64,
    /// Server connections that a client has for itself.
    pub leased: u64,
    /// Server connections that anybody may have.
    pub idle: u64,
    /// How many lanes are open.
    pub lanes: u64,
    /// Statements under way on lanes.
    pub lane_statements: u64,
}

impl Status {
    /// What a snapshot with pools, totals and backends says.
    pub fn of(snapshot: &Snapshot) -> Self {
        let sum = |of: fn(&crate::database::Totals) -> u64| {
            snapshot.totals.iter().map(|(_, totals)| of(totals)).sum()
        };
        let pools: Vec<Pool> = snapshot.pools.iter().map(Pool::of).collect();
        let waiting = pools.iter().map(|pool| pool.waiting).sum();
        Self {
            connections: pools.iter().map(|pool| pool.clients).sum::<u64>() + waiting,
            waiting,
            paused: snapshot.paused,
            queries: sum(|totals| totals.queries),
            lane_queries: sum(|totals| totals.lane_queries),
            replica_queries: sum(|totals| totals.replica_queries),
            shared_queries: sum(|totals| totals.shared_queries),
            errors: sum(|totals| totals.errors),
            backends: snapshot.backends.iter().map(Backend::of).collect(),
            pools,
            ..Self::default()
        }
    }
}

impl Status {
    /// Writes the status as metrics.
    pub fn encode(&self, out: &mut Encoder) {
        let mut gauge = |name: &str, help: &str, labels: &[Label<'_>], value: f64| {
            out.gauge(&format!("weir_postgres_{name}"), help, labels, value);
        };
        let help = "Clients that have logged in, by whether their statement waits for a server.";
        let active = self.connections.saturating_sub(self.waiting);
        for (state, count) in [("active", active), ("waiting", self.waiting)] {
            gauge("clients", help, &[("state", state)], count as f64);
        }
        let sum = |of: fn(&Pool) -> u64| self.pools.iter().map(of).sum::<u64>() as f64;
        let help = "Clients that keep a server connection beyond a transaction.";
        gauge("clients_pinned", help, &[], sum(|pool| pool.pinned));
        let help = "Clients that ask for nothing, and have a transaction open.";
        gauge("clients_idle_in_transaction", help, &[], sum(|pool| pool.idle_in_transaction));
        let longest = self.pools.iter().map(|pool| pool.wait_max_seconds).fold(0.0, f64::max);
        let help = "How long the client has waited for a server that has waited longest.";
        gauge("longest_wait_seconds", help, &[], longest);
        let help = "Server connections, by what they do.";
        gauge("servers", help, &[("state", "leased")], sum(|pool| pool.leased));
        gauge("servers", help, &[("state", "idle")], sum(|pool| pool.idle));
        gauge("servers", help, &[("state", "lane")], sum(|pool| pool.lanes));
        let help = "Statements under way on lanes.";
        gauge("lane_statements", help, &[], sum(|pool| pool.lane_statements));
        for backend in &self.backends {
            let labels = [("backend", &*backend.name)];
            let help = "Server connections to it.";
            gauge("backend_connections", help, &labels, backend.connections as f64);
            let help = "Statements under way there.";
            gauge("backend_in_flight", help, &labels, backend.in_flight as f64);
        }
    }
}

impl Backend {
    fn of(row: &crate::console::BackendRow) -> Self {
        Self {
            name: row.name.clone(),
            address: row.address.clone(),
            role: row.role.to_owned(),
            trouble: row.trouble.clone(),
            lag_bytes: row.lag_bytes,
            lag_seconds: row.lag.map(|lag| lag.as_secs_f64()),
            connections: row.servers,
            in_flight: row.in_flight,
            latencies: [("lane", row.lane), ("batch", row.batch), ("lease", row.lease)]
                .into_iter()
                .filter_map(|(way, took)| Some(Latency::of(way, &took?)))
                .collect(),
        }
    }
}

impl Pool {
    fn of(row: &crate::console::PoolRow) -> Self {
        Self {
            database: row.database.clone(),
            user: row.user.clone(),
            mode: row.mode.name().to_owned(),
            waiting: row.clients_waiting,
            wait_max_seconds: row.wait_max.as_secs_f64(),
            clients: row.clients_active,
            pinned: row.clients_pinned,
            idle_in_transaction: row.clients_in_transaction,
            idle_in_transaction_max_seconds: row.in_transaction_max.as_secs_f64(),
            leased: row.servers_active,
            idle: row.servers_idle,
            lanes: row.lanes,
            lane_statements: row.lane_statements,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::Status;
    use crate::console::{PoolRow, Snapshot};
    use crate::database::Totals;

    #[test]
    fn clients_that_wait_are_connected_too() {
        let pool = |user: &str| PoolRow {
            user: user.into(),
            clients_active: 3,
            clients_waiting: 2,
            wait_max: Duration::from_millis(1500),
            ..PoolRow::default()
        };
        let totals = Totals { queries: 5, lane_queries: 4, ..Totals::default() };
        let snapshot = Snapshot {
            pools: vec![pool("a"), pool("b")],
            totals: vec![("d".into(), totals), ("e".into(), totals)],
            ..Snapshot::default()
        };
        let status = Status::of(&snapshot);
        assert_eq!((status.connections, status.waiting), (10, 4));
        assert_eq!((status.queries, status.lane_queries), (10, 8));
        assert!((status.pools[0].wait_max_seconds - 1.5).abs() < 1e-9);
    }
}
