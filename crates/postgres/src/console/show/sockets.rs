//! Connections: `CLIENTS`, `SERVERS`, `SOCKETS`, `ACTIVE_SOCKETS`, `LANES`.

use std::net::SocketAddr;
use std::time::{Duration, SystemTime};

use super::super::snapshot::{ClientRow, ClientState, LaneRow, ServerRow, ServerState, Snapshot};
use super::super::table::{Kind, Table, Value};

/// PgBouncer's columns for a connection, then Weir's.
const COLUMNS: [(&str, Kind); 24] = [
    ("type", Kind::Text),
    ("user", Kind::Text),
    ("database", Kind::Text),
    ("replication", Kind::Text),
    ("state", Kind::Text),
    ("addr", Kind::Text),
    ("port", Kind::Int),
    ("local_addr", Kind::Text),
    ("local_port", Kind::Int),
    ("connect_time", Kind::Text),
    ("request_time", Kind::Text),
    ("wait", Kind::Int),
    ("wait_us", Kind::Int),
    ("close_needed", Kind::Int),
    ("ptr", Kind::Text),
    ("link", Kind::Text),
    ("remote_pid", Kind::Int),
    ("tls", Kind::Text),
    ("application_name", Kind::Text),
    ("prepared_statements", Kind::Int),
    ("id", Kind::Int),
    ("worker", Kind::Int),
    ("backend", Kind::Text),
    ("pinned", Kind::Text),
];

/// PgBouncer's further columns for `SOCKETS`: the fill of its buffers, which Weir has none of.
const BUFFERS: [(&str, Kind); 7] = [
    ("recv_pos", Kind::Int),
    ("pkt_pos", Kind::Int),
    ("pkt_remain", Kind::Int),
    ("send_pos", Kind::Int),
    ("send_remain", Kind::Int),
    ("pkt_avail", Kind::Int),
    ("send_avail", Kind::Int),
];

/// Where Weir's own columns begin.
const OWN_FROM: usize = 21;

pub fn clients(snapshot: &Snapshot) -> Table {
    let mut table = Table::new(&COLUMNS);
    for client in &snapshot.clients {
        table.push(client_row(client, client_state(client.state)));
    }
    table
}

pub fn servers(snapshot: &Snapshot) -> Table {
    let mut table = Table::new(&COLUMNS);
    for server in &snapshot.servers {
        table.push(server_row(server, server_state(server.state)));
    }
    table
}

/// Both, with `cl_` and `sv_` before their states.
pub fn all(snapshot: &Snapshot, active: bool) -> Table {
    let columns = [&COLUMNS[..OWN_FROM], &BUFFERS, &COLUMNS[OWN_FROM..]].concat();
    let mut table = Table::new(&columns);
    let mut push = |mut row: Vec<Value>| {
        let own = row.split_off(OWN_FROM);
        row.extend(BUFFERS.map(|_| Value::Count(0)));
        row.extend(own);
        table.push(row);
    };
    let busy = |client: &&ClientRow| !active || client.state != ClientState::Idle;
    for client in snapshot.clients.iter().filter(busy) {
        let state = if client.state == ClientState::Waiting { "cl_waiting" } else { "cl_active" };
        push(client_row(client, state));
    }
    let busy = |server: &&ServerRow| !active || server.state != ServerState::Idle;
    for server in snapshot.servers.iter().filter(busy) {
        let state = format!("sv_{}", server_state(server.state));
        push(server_row(server, &state));
    }
    table
}

fn client_state(state: ClientState) -> &'static str {
    match state {
        ClientState::Active => "active",
        ClientState::Idle => "idle",
        ClientState::Waiting => "waiting",
    }
}

fn server_state(state: ServerState) -> &'static str {
    match state {
        ServerState::Active => "active",
        ServerState::Idle => "idle",
        ServerState::Lane => "lane",
        ServerState::Resetting => "tested",
        ServerState::Login => "new",
        ServerState::Cancelling => "active_cancel",
        ServerState::BeingCancelled => "being_canceled",
    }
}

fn client_row(client: &ClientRow, state: &str) -> Vec<Value> {
    let (address, port) = place(client.address);
    let (local, local_port) = place(client.local);
    vec![
        "C".into(),
        client.user.clone().into(),
        client.database.clone().into(),
        "none".into(),
        state.into(),
        address,
        port,
        local,
        local_port,
        moment(client.connected),
        moment(client.asked),
        client.waiting.as_secs().into(),
        u64::from(client.waiting.subsec_micros()).into(),
        false.into(),
        pointer(Some(client.id)),
        pointer(client.server),
        Value::Count(0),
        client.tls.clone().into(),
        client.application_name.clone().into(),
        client.prepared.into(),
        client.id.into(),
        client.worker.into(),
        "".into(),
        client.pinned.into(),
    ]
}

fn server_row(server: &ServerRow, state: &str) -> Vec<Value> {
    let (address, port) = place(server.address);
    let (local, local_port) = place(server.local);
    vec![
        "S".into(),
        server.user.clone().into(),
        server.database.clone().into(),
        "none".into(),
        state.into(),
        address,
        port,
        local,
        local_port,
        moment(server.connected),
        moment(server.asked),
        Value::Count(0),
        Value::Count(0),
        server.closing.into(),
        pointer(Some(server.id)),
        pointer(server.client),
        server.process.into(),
        server.tls.clone().into(),
        server.application_name.clone().into(),
        server.prepared.into(),
        server.id.into(),
        server.worker.into(),
        server.backend.clone().into(),
        "".into(),
    ]
}

/// `LANES`, Weir's own.
pub fn lanes(snapshot: &Snapshot) -> Table {
    let mut table = Table::new(&[
        ("database", Kind::Text),
        ("user", Kind::Text),
        ("backend", Kind::Text),
        ("worker", Kind::Int),
        ("server", Kind::Int),
        ("depth", Kind::Int),
        ("head_age_us", Kind::Int),
        ("unsent", Kind::Int),
        ("statements", Kind::Numeric),
        ("quarantined", Kind::Int),
    ]);
    for lane in &snapshot.lanes {
        let LaneRow { worker, server, depth, unsent, statements, .. } = lane;
        table.push(vec![
            lane.database.clone().into(),
            lane.user.clone().into(),
            lane.backend.clone().into(),
            (*worker).into(),
            (*server).into(),
            (*depth).into(),
            micros(lane.head_age).into(),
            (*unsent).into(),
            (*statements).into(),
            lane.quarantined.into(),
        ]);
    }
    table
}

pub fn micros(span: Duration) -> u64 {
    u64::try_from(span.as_micros()).unwrap_or(u64::MAX)
}

fn place(address: Option<SocketAddr>) -> (Value, Value) {
    match address {
        Some(address) => (address.ip().to_string().into(), u64::from(address.port()).into()),
        None => ("unix".into(), Value::Count(0)),
    }
}

/// PgBouncer shows addresses in memory by which a client and its server are matched; the numbers
/// of both do the same.
fn pointer(id: Option<u64>) -> Value {
    id.map_or_else(String::new, |id| format!("{id:#x}")).into()
}

/// A moment as PgBouncer writes it, always in UTC.
fn moment(at: SystemTime) -> Value {
    let since = at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
    let (days, seconds) = (since / 86_400, since % 86_400);
    let (year, month, day) = date(days);
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02} UTC").into()
}

/// Year, month and day of so many days after 1970-01-01, counted in years that begin in March, so
/// that a leap day is the last of its year.
fn date(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    (era * 400 + year + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::{Value, date, moment};
    use std::time::{Duration, SystemTime};

    #[test]
    fn moments_are_written_as_by_pgbouncer() {
        for (seconds, text) in [
            (0, "1970-01-01 00:00:00 UTC"),
            (951_782_399, "2000-02-28 23:59:59 UTC"),
            (951_782_400, "2000-02-29 00:00:00 UTC"),
            (1_709_251_200, "2024-03-01 00:00:00 UTC"),
            (4_107_542_399, "2100-02-28 23:59:59 UTC"),
        ] {
            let at = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
            assert_eq!(moment(at), Value::from(text));
        }
        assert_eq!(date(47_541), (2100, 3, 1));
    }
}
