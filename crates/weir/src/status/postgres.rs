//! The PostgreSQL gateway's part, for a person.

use std::fmt;

use postgres::status::{Backend, Pool, SlowForm, Status};
use watch::words::{bytes, count, harmless, seconds};

use super::{latencies, table};

/// How many databases and users are shown; `--json` has the rest.
const POOLS_MAX: usize = 20;

/// The status of the PostgreSQL gateway, for a terminal.
pub struct PostgresView<'s>(pub &'s Status);

impl fmt::Display for PostgresView<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let status = self.0;
        let share = |part: u64| {
            let share = part as f64 * 100.0 / status.queries.max(1) as f64;
            format!("{share:.0} %")
        };
        let shared = match status.shared_queries {
            0 => String::new(),
            reads => format!(", {} reads shared", count(reads)),
        };
        let paused = if status.paused { "; PAUSED: RESUME at the console ends it" } else { "" };
        writeln!(
            f,
            "postgres {} connections, {} waiting, {} statements since the start, {} by lanes, {} \
             to replicas{shared}{paused}",
            count(status.connections),
            count(status.waiting),
            count(status.queries),
            share(status.lane_queries),
            share(status.replica_queries),
        )?;
        writeln!(f)?;
        let head = ["server", "role", "address", "lag", "behind", "connections", "under way"];
        let rows: Vec<_> = status.backends.iter().map(backend).collect();
        let trouble = |row: usize| status.backends.get(row)?.trouble.clone();
        table::write(f, &head, &rows, 3, trouble)?;
        latencies::write(f, status.backends.iter().map(|of| (of.name.clone(), &*of.latencies)))?;
        slow(&status.slow, f)?;
        if status.pools.is_empty() {
            return Ok(());
        }
        writeln!(f)?;
        let head = [
            "database", "user", "mode", "active", "waiting", "longest", "pinned", "leased", "idle",
            "lanes", "on lanes",
        ];
        let mut pools: Vec<&Pool> = status.pools.iter().collect();
        pools.sort_by(|left, right| {
            let busy = |pool: &Pool| (pool.waiting, pool.clients);
            busy(right)
                .cmp(&busy(left))
                .then_with(|| (&left.database, &left.user).cmp(&(&right.database, &right.user)))
        });
        let rows: Vec<_> = pools.iter().take(POOLS_MAX).map(|of| pool(of)).collect();
        table::write(f, &head, &rows, 3, |row| idle_in_transaction(pools.get(row)?))?;
        match pools.len().saturating_sub(POOLS_MAX) {
            0 => Ok(()),
            more => writeln!(f, "and {more} more with fewer clients; --json has all"),
        }
    }
}

/// The forms of statements that took the most time.
fn slow(forms: &[SlowForm], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    if forms.is_empty() {
        return Ok(());
    }
    let row = |of: &SlowForm| {
        let (together, longest) = (seconds(of.total_seconds), seconds(of.max_seconds));
        vec![of.database.clone(), count(of.count), together, longest]
    };
    let rows: Vec<_> = forms.iter().map(row).collect();
    writeln!(f)?;
    let head = ["slow statements of", "times", "together", "longest"];
    table::write(f, &head, &rows, 1, |row| Some(harmless(&forms.get(row)?.statement)))
}

fn idle_in_transaction(of: &Pool) -> Option<String> {
    let longest = seconds(of.idle_in_transaction_max_seconds);
    let idle = of.idle_in_transaction;
    (idle > 0).then(|| format!("{} idle in a transaction, the longest for {longest}", count(idle)))
}

fn backend(of: &Backend) -> Vec<String> {
    let none = || "-".to_owned();
    vec![
        of.name.clone(),
        of.role.clone(),
        of.address.clone(),
        of.lag_bytes.map_or_else(none, bytes),
        of.lag_seconds.map_or_else(none, seconds),
        count(of.connections),
        count(of.in_flight),
    ]
}

fn pool(of: &Pool) -> Vec<String> {
    let longest = if of.waiting > 0 { seconds(of.wait_max_seconds) } else { "-".to_owned() };
    let mut row = vec![of.database.clone(), of.user.clone(), of.mode.clone()];
    row.extend([count(of.clients), count(of.waiting), longest]);
    row.extend([of.pinned, of.leased, of.idle, of.lanes, of.lane_statements].map(count));
    row
}

#[cfg(test)]
mod tests {
    use postgres::status::{Backend, Pool, Status};
    use watch::latencies::Latency;

    use super::PostgresView;

    #[test]
    fn servers_and_pools_are_seen_with_who_waits() {
        let backend = |name: &str, role: &str| Backend {
            name: name.into(),
            role: role.into(),
            address: "10.0.0.1:5432".into(),
            connections: 12,
            ..Backend::default()
        };
        let replica = Backend {
            lag_bytes: Some(3 << 20),
            lag_seconds: Some(12.5),
            trouble: Some("it is further behind than max-lag".into()),
            ..backend("b", "replica")
        };
        let lane = Latency {
            way: "lane".into(),
            queue: [0.000_05, 0.0012],
            server: [0.000_04, 0.0008],
            total: [0.0001, 0.002],
        };
        let pool = |user: &str, waiting| Pool {
            database: "orders".into(),
            user: user.into(),
            mode: "transaction".into(),
            clients: 250,
            waiting,
            wait_max_seconds: 0.25,
            lanes: 4,
            lane_statements: 31,
            ..Pool::default()
        };
        let status = Status {
            connections: 507,
            waiting: 7,
            queries: 2_000_000,
            lane_queries: 1_500_000,
            replica_queries: 500_000,
            backends: vec![Backend { latencies: vec![lane], ..backend("a", "primary") }, replica],
            pools: vec![pool("ann", 0), pool("bob", 7)],
            ..Status::default()
        };
        let golden = include_str!("../../tests/golden/postgres-status.txt");
        assert_eq!(PostgresView(&status).to_string(), golden);
        let paused = Status { paused: true, ..Status::default() };
        assert!(PostgresView(&paused).to_string().contains("PAUSED"));
    }
}
