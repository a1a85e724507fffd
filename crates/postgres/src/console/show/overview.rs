//! Everything that is neither a connection nor a count: `POOLS`, `DATABASES`, `USERS`, `BACKENDS`,
//! `CONFIG`, `LISTS`, `MEM`, `STATE`, `VERSION`, and what is always empty.

use std::collections::BTreeMap;

use serde_json::Value as Json;
use watch::table::{Kind, Table, Value};

use super::super::command::Show;
use super::super::snapshot::Snapshot;
use super::sockets::micros;
use crate::settings::{Mode, Settings};

/// `POOLS`.
pub fn pools(snapshot: &Snapshot) -> Table {
    let mut table = Table::new(&[
        ("database", Kind::Text),
        ("user", Kind::Text),
        ("cl_active", Kind::Int),
        ("cl_waiting", Kind::Int),
        ("cl_active_cancel_req", Kind::Int),
        ("cl_waiting_cancel_req", Kind::Int),
        ("sv_active", Kind::Int),
        ("sv_active_cancel", Kind::Int),
        ("sv_being_canceled", Kind::Int),
        ("sv_idle", Kind::Int),
        ("sv_used", Kind::Int),
        ("sv_tested", Kind::Int),
        ("sv_login", Kind::Int),
        ("maxwait", Kind::Int),
        ("maxwait_us", Kind::Int),
        ("pool_mode", Kind::Text),
        ("load_balance_hosts", Kind::Text),
        ("sv_lanes", Kind::Int),
        ("lane_statements", Kind::Int),
        ("cl_pinned", Kind::Int),
    ]);
    let mut pools: Vec<_> = snapshot.pools.iter().collect();
    pools.sort_by_key(|pool| (&pool.database, &pool.user));
    for pool in pools {
        table.push(vec![
            pool.database.clone().into(),
            pool.user.clone().into(),
            pool.clients_active.into(),
            pool.clients_waiting.into(),
            pool.cancels_active.into(),
            pool.cancels_waiting.into(),
            pool.servers_active.into(),
            pool.servers_cancelling.into(),
            pool.servers_being_cancelled.into(),
            pool.servers_idle.into(),
            Value::Count(0),
            pool.servers_resetting.into(),
            pool.servers_login.into(),
            pool.wait_max.as_secs().into(),
            u64::from(pool.wait_max.subsec_micros()).into(),
            pool.mode.name().into(),
            Value::Null,
            pool.lanes.into(),
            pool.lane_statements.into(),
            pool.clients_pinned.into(),
        ]);
    }
    table
}

/// `DATABASES`.
pub fn databases(snapshot: &Snapshot) -> Table {
    let mut table = Table::new(&[
        ("name", Kind::Text),
        ("host", Kind::Text),
        ("port", Kind::Int),
        ("database", Kind::Text),
        ("force_user", Kind::Text),
        ("pool_size", Kind::Int),
        ("min_pool_size", Kind::Int),
        ("reserve_pool_size", Kind::Int),
        ("server_lifetime", Kind::Int),
        ("pool_mode", Kind::Text),
        ("load_balance_hosts", Kind::Text),
        ("max_connections", Kind::Int),
        ("current_connections", Kind::Int),
        ("max_client_connections", Kind::Int),
        ("current_client_connections", Kind::Int),
        ("paused", Kind::Int),
        ("disabled", Kind::Int),
    ]);
    let mut databases: Vec<_> = snapshot.databases.iter().collect();
    databases.sort_by_key(|database| &database.name);
    for database in databases {
        table.push(vec![
            database.name.clone().into(),
            database.host.clone().into(),
            database.port.into(),
            database.dbname.clone().into(),
            database.user.clone().into(),
            database.pool_size.into(),
            database.min_idle.into(),
            Value::Count(0),
            database.max_age.as_secs().into(),
            database.mode.map(Mode::name).into(),
            Value::Null,
            database.servers_max.into(),
            database.servers.into(),
            database.clients_max.into(),
            database.clients.into(),
            database.paused.into(),
            database.disabled.into(),
        ]);
    }
    table
}

/// `USERS`.
pub fn users(snapshot: &Snapshot) -> Table {
    let mut table = Table::new(&[
        ("name", Kind::Text),
        ("pool_size", Kind::Text),
        ("reserve_pool_size", Kind::Text),
        ("pool_mode", Kind::Text),
        ("max_user_connections", Kind::Int),
        ("current_connections", Kind::Int),
        ("max_user_client_connections", Kind::Int),
        ("current_client_connections", Kind::Int),
    ]);
    let mut users: Vec<_> = snapshot.users.iter().collect();
    users.sort_by_key(|user| &user.name);
    for user in users {
        table.push(vec![
            user.name.clone().into(),
            user.pool_size.map_or_else(String::new, |size| size.to_string()).into(),
            "".into(),
            user.mode.map(Mode::name).into(),
            user.servers_max.into(),
            user.servers.into(),
            user.clients_max.into(),
            user.clients.into(),
        ]);
    }
    table
}

/// `SHOW BACKENDS`, which PgBouncer does not have.
pub fn backends(snapshot: &Snapshot) -> Table {
    let mut table = Table::new(&[
        ("name", Kind::Text),
        ("address", Kind::Text),
        ("role", Kind::Text),
        ("trouble", Kind::Text),
        ("lag_bytes", Kind::Int),
        ("lag_us", Kind::Int),
        ("weight", Kind::Int),
        ("connections", Kind::Int),
        ("in_flight", Kind::Int),
        ("lane_p50_us", Kind::Int),
        ("lane_p99_us", Kind::Int),
        ("lease_p50_us", Kind::Int),
        ("lease_p99_us", Kind::Int),
        ("batch_p50_us", Kind::Int),
        ("batch_p99_us", Kind::Int),
    ]);
    for backend in &snapshot.backends {
        table.push(vec![
            backend.name.clone().into(),
            backend.address.clone().into(),
            backend.role.into(),
            backend.trouble.clone().into(),
            backend.lag_bytes.into(),
            backend.lag.map(micros).into(),
            backend.weight.into(),
            backend.servers.into(),
            backend.in_flight.into(),
            backend.lane.map(|took| micros(took.total[0])).into(),
            backend.lane.map(|took| micros(took.total[1])).into(),
            backend.lease.map(|took| micros(took.total[0])).into(),
            backend.lease.map(|took| micros(took.total[1])).into(),
            backend.batch.map(|took| micros(took.total[0])).into(),
            backend.batch.map(|took| micros(took.total[1])).into(),
        ]);
    }
    table
}

/// `CONFIG`: every single value under `[postgres]`, as `pool.size`. Users, databases, servers and
/// rules have tables of their own.
pub fn config(settings: &Settings) -> Table {
    let mut table = Table::new(&[
        ("key", Kind::Text),
        ("value", Kind::Text),
        ("default", Kind::Text),
        ("changeable", Kind::Text),
    ]);
    let preset = values(&Settings::default());
    for (key, value) in values(settings) {
        let preset = preset.get(&key).cloned();
        let changeable = if Settings::is_read_at_start(&key) { "no" } else { "yes" };
        table.push(vec![key.into(), value.into(), preset.into(), changeable.into()]);
    }
    table
}

/// Single values by their path. Secrets are shown as `***` by their own serialization.
fn values(settings: &Settings) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let document = serde_json::to_value(settings).unwrap_or_default();
    walk("", &document, &mut found);
    found
}

fn walk(path: &str, value: &Json, found: &mut BTreeMap<String, String>) {
    match value {
        Json::Object(table) => {
            for (key, value) in table {
                let dot = if path.is_empty() { "" } else { "." };
                walk(&format!("{path}{dot}{key}"), value, found);
            }
        }
        Json::Array(list) if list.iter().any(Json::is_object) => {}
        Json::Array(list) => {
            let words: Vec<&str> = list.iter().filter_map(Json::as_str).collect();
            found.insert(path.to_owned(), words.join(", "));
        }
        Json::Null => {}
        Json::String(text) => {
            found.insert(path.to_owned(), text.clone());
        }
        other => {
            found.insert(path.to_owned(), other.to_string());
        }
    }
}

/// `LISTS`.
pub fn lists(snapshot: &Snapshot) -> Table {
    let mut table = Table::new(&[("list", Kind::Text), ("items", Kind::Int)]);
    let logged_in = snapshot.clients.len() as u64;
    for (name, count) in [
        ("databases", snapshot.databases.len() as u64),
        ("users", snapshot.users.len() as u64),
        ("peers", 0),
        ("pools", snapshot.pools.len() as u64),
        ("peer_pools", 0),
        ("free_clients", 0),
        ("used_clients", logged_in + snapshot.login_clients),
        ("login_clients", snapshot.login_clients),
        ("free_servers", 0),
        ("used_servers", snapshot.servers.len() as u64),
        ("dns_names", 0),
        ("dns_zones", 0),
        ("dns_queries", 0),
        ("dns_pending", 0),
        ("lanes", snapshot.lanes.len() as u64),
        ("backends", snapshot.backends.len() as u64),
    ] {
        table.push(vec![name.into(), count.into()]);
    }
    table
}

/// `MEM`.
pub fn memory(snapshot: &Snapshot) -> Table {
    let mut table = Table::new(&[
        ("name", Kind::Text),
        ("size", Kind::Int),
        ("used", Kind::Int),
        ("free", Kind::Int),
        ("memtotal", Kind::Int),
    ]);
    for row in &snapshot.memory {
        let total = row.size.saturating_mul(row.used.saturating_add(row.free));
        table.push(vec![
            row.name.into(),
            row.size.into(),
            row.used.into(),
            row.free.into(),
            total.into(),
        ]);
    }
    table
}

/// `STATE`.
pub fn state(snapshot: &Snapshot) -> Table {
    let mut table = Table::new(&[("key", Kind::Text), ("value", Kind::Text)]);
    let yes = |yes: bool| if yes { "yes" } else { "no" };
    for (key, value) in
        [("active", !snapshot.paused), ("paused", snapshot.paused), ("suspended", false)]
    {
        table.push(vec![key.into(), yes(value).into()]);
    }
    table
}

/// `VERSION`.
pub fn version() -> Table {
    let mut table = Table::new(&[("version", Kind::Text)]);
    table.push(vec![concat!("Weir ", env!("CARGO_PKG_VERSION")).into()]);
    table
}

/// PgBouncer's tables that are always empty here.
pub fn none(show: Show) -> Table {
    Table::new(match show {
        Show::DnsHosts => {
            &[("hostname", Kind::Text), ("ttl", Kind::Int), ("addrs", Kind::Text)][..]
        }
        Show::DnsZones => &[("zonename", Kind::Text), ("serial", Kind::Int), ("count", Kind::Int)],
        Show::Peers => &[
            ("peer_id", Kind::Int),
            ("host", Kind::Text),
            ("port", Kind::Int),
            ("pool_size", Kind::Int),
        ],
        _ => &[
            ("peer_id", Kind::Int),
            ("cl_active_cancel_req", Kind::Int),
            ("cl_waiting_cancel_req", Kind::Int),
            ("sv_active_cancel", Kind::Int),
            ("sv_login", Kind::Int),
        ],
    })
}
