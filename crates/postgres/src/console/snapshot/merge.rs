//! Workers' parts become one.

use super::{PlanRow, PoolRow, Snapshot};
use crate::console::show::micros;
use crate::database::Totals;

impl Snapshot {
    /// Takes in what another worker has. What only one of them can know (databases, users,
    /// backends, averages) is taken from the one that has it.
    pub fn merge(&mut self, other: Self) {
        self.paused |= other.paused;
        self.login_clients += other.login_clients;
        for pool in other.pools {
            let same = |of: &&mut PoolRow| of.database == pool.database && of.user == pool.user;
            match self.pools.iter_mut().find(same) {
                Some(ours) => ours.add(&pool),
                None => self.pools.push(pool),
            }
        }
        for (database, totals) in other.totals {
            match self.totals.iter_mut().find(|(name, _)| *name == database) {
                Some((_, ours)) => ours.add(&totals),
                None => self.totals.push((database, totals)),
            }
        }
        for plan in other.plans {
            let of = |of: &PlanRow| (of.database == plan.database, of.kind, of.reason);
            let wanted = (true, plan.kind, plan.reason);
            match self.plans.iter_mut().find(|ours| of(ours) == wanted) {
                Some(ours) => ours.statements += plan.statements,
                None => self.plans.push(plan),
            }
        }
        for row in other.memory {
            match self.memory.iter_mut().find(|ours| ours.name == row.name) {
                Some(ours) => (ours.used, ours.free) = (ours.used + row.used, ours.free + row.free),
                None => self.memory.push(row),
            }
        }
        self.clients.extend(other.clients);
        self.servers.extend(other.servers);
        self.lanes.extend(other.lanes);
        self.databases.extend(other.databases);
        self.users.extend(other.users);
        self.backends.extend(other.backends);
        if self.averages.is_empty() {
            self.averages = other.averages;
        }
    }
}

impl Snapshot {
    /// Adds bytes that were sent to a client that is still there.
    pub fn add_sent(&mut self, database: &str, bytes: u64) {
        if let Some((_, totals)) = self.totals.iter_mut().find(|(name, _)| name == database) {
            totals.sent += bytes;
        }
    }
}

impl PoolRow {
    /// Server connections that somebody has, or that are made ready.
    pub fn servers_in_use(&self) -> u64 {
        self.servers_active + self.lanes + self.servers_resetting + self.servers_being_cancelled
    }

    /// Server connections in all.
    pub fn servers(&self) -> u64 {
        self.servers_in_use() + self.servers_idle + self.servers_login
    }

    fn add(&mut self, other: &Self) {
        self.clients_active += other.clients_active;
        self.clients_waiting += other.clients_waiting;
        self.cancels_active += other.cancels_active;
        self.cancels_waiting += other.cancels_waiting;
        self.servers_active += other.servers_active;
        self.servers_cancelling += other.servers_cancelling;
        self.servers_being_cancelled += other.servers_being_cancelled;
        self.servers_idle += other.servers_idle;
        self.servers_resetting += other.servers_resetting;
        self.servers_login += other.servers_login;
        self.wait_max = self.wait_max.max(other.wait_max);
        self.lanes += other.lanes;
        self.lane_statements += other.lane_statements;
        self.clients_pinned += other.clients_pinned;
        self.clients_unconfirmed += other.clients_unconfirmed;
        self.clients_in_transaction += other.clients_in_transaction;
        self.in_transaction_max = self.in_transaction_max.max(other.in_transaction_max);
    }
}

impl Totals {
    /// The counts in the order of the columns: PgBouncer's, then Weir's. Times are in
    /// microseconds.
    pub(in crate::console) fn cells(&self) -> [u64; 15] {
        [
            self.assignments,
            self.transactions,
            self.queries,
            self.received,
            self.sent,
            micros(self.transaction_time),
            micros(self.query_time),
            micros(self.wait_time),
            self.client_parses,
            self.server_parses,
            self.binds,
            self.logins,
            self.lane_queries,
            self.replica_queries,
            self.shared_queries,
        ]
    }
}
