//! Connections: `CLIENTS`, `SERVERS`, `SOCKETS`, `ACTIVE_SOCKETS`, `LANES`.

use std::net::SocketAddr;
use std::time::{Duration, SystemTime};

use watch::table::{Kind, Table, Value};

use super::super::snapshot::{ClientRow, ClientState, LaneRow, ServerRow, Snapshot};
use crate::connection::ServerState;

/// A connection of either side.
struct Line<'s> {
    kind: &'static str,
    id: u64,
    user: &'s str,
    database: &'s str,
    state: String,
    address: Option<SocketAddr>,
    local: Option<SocketAddr>,
    connected: SystemTime,
    asked: SystemTime,
    waiting: Duration,
    closing: bool,
    /// The number of what is at the other end of Weir.
    link: Option<u64>,
    process: u64,
    tls: &'s str,
    application_name: &'s str,
    prepared: u64,
    worker: u64,
    backend: &'s str,
    pinned: &'static str,
}

/// A column: its name, what it holds, and where that is.
type Column = (&'static str, Kind, fn(&Line<'_>) -> Value);

/// PgBouncer's columns for a connection.
const COLUMNS: [Column; 21] = [
    ("type", Kind::Text, |line| line.kind.into()),
    ("user", Kind::Text, |line| line.user.into()),
    ("database", Kind::Text, |line| line.database.into()),
    ("replication", Kind::Text, |_| "none".into()),
    ("state", Kind::Text, |line| line.state.clone().into()),
    ("addr", Kind::Text, |line| host(line.address)),
    ("port", Kind::Int, |line| port(line.address)),
    ("local_addr", Kind::Text, |line| host(line.local)),
    ("local_port", Kind::Int, |line| port(line.local)),
    ("connect_time", Kind::Text, |line| moment(line.connected)),
    ("request_time", Kind::Text, |line| moment(line.asked)),
    ("wait", Kind::Int, |line| line.waiting.as_secs().into()),
    ("wait_us", Kind::Int, |line| u64::from(line.waiting.subsec_micros()).into()),
    ("close_needed", Kind::Int, |line| line.closing.into()),
    ("ptr", Kind::Text, |line| pointer(line.kind, Some(line.id))),
    ("link", Kind::Text, |line| pointer(if line.kind == "C" { "S" } else { "C" }, line.link)),
    ("remote_pid", Kind::Int, |line| line.process.into()),
    ("tls", Kind::Text, |line| line.tls.into()),
    ("application_name", Kind::Text, |line| line.application_name.into()),
    ("prepared_statements", Kind::Int, |line| line.prepared.into()),
    ("id", Kind::Int, |line| line.id.into()),
];

/// PgBouncer's further columns for `SOCKETS`: the fill of its buffers, which Weir has none of.
const BUFFERS: [Column; 7] = [
    ("recv_pos", Kind::Int, |_| Value::Count(0)),
    ("pkt_pos", Kind::Int, |_| Value::Count(0)),
    ("pkt_remain", Kind::Int, |_| Value::Count(0)),
    ("send_pos", Kind::Int, |_| Value::Count(0)),
    ("send_remain", Kind::Int, |_| Value::Count(0)),
    ("pkt_avail", Kind::Int, |_| Value::Count(0)),
    ("send_avail", Kind::Int, |_| Value::Count(0)),
];

/// Columns that PgBouncer does not have.
const OWN: [Column; 3] = [
    ("worker", Kind::Int, |line| line.worker.into()),
    ("backend", Kind::Text, |line| line.backend.into()),
    ("pinned", Kind::Text, |line| line.pinned.into()),
];

fn table<'s>(parts: &[&[Column]], lines: impl Iterator<Item = Line<'s>>) -> Table {
    let columns: Vec<&Column> = parts.iter().copied().flatten().collect();
    let heads: Vec<_> = columns.iter().map(|(name, kind, _)| (*name, *kind)).collect();
    let mut table = Table::new(&heads);
    for line in lines {
        table.push(columns.iter().map(|(_, _, value)| value(&line)).collect());
    }
    table
}

pub fn clients(snapshot: &Snapshot) -> Table {
    let lines = snapshot.clients.iter().map(|of| client(of, client_state(of.state)));
    table(&[&COLUMNS, &OWN], lines)
}

pub fn servers(snapshot: &Snapshot) -> Table {
    let lines = snapshot.servers.iter().map(|of| server(of, server_state(of.state).to_owned()));
    table(&[&COLUMNS, &OWN], lines)
}

/// Both, with `cl_` and `sv_` before their states.
pub fn all(snapshot: &Snapshot, active: bool) -> Table {
    let busy = |of: &&ClientRow| !active || of.state != ClientState::Idle;
    let clients = snapshot.clients.iter().filter(busy).map(|of| {
        client(of, if of.state == ClientState::Waiting { "cl_waiting" } else { "cl_active" })
    });
    let busy = |of: &&ServerRow| !active || of.state != ServerState::Idle;
    let servers = snapshot.servers.iter().filter(busy);
    let servers = servers.map(|of| server(of, format!("sv_{}", server_state(of.state))));
    table(&[&COLUMNS, &BUFFERS, &OWN], clients.chain(servers))
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
        ServerState::BeingCancelled => "being_canceled",
    }
}

fn client<'s>(of: &'s ClientRow, state: &str) -> Line<'s> {
    Line {
        kind: "C",
        id: of.id,
        user: &of.user,
        database: &of.database,
        state: state.to_owned(),
        address: of.address,
        local: of.local,
        connected: of.connected,
        asked: of.asked,
        waiting: of.waiting,
        closing: false,
        link: of.server,
        process: 0,
        tls: &of.tls,
        application_name: &of.application_name,
        prepared: of.prepared,
        worker: of.worker,
        backend: "",
        pinned: of.pinned,
    }
}

fn server(of: &ServerRow, state: String) -> Line<'_> {
    Line {
        kind: "S",
        id: of.id,
        user: &of.user,
        database: &of.database,
        state,
        address: of.address,
        local: of.local,
        connected: of.connected,
        asked: of.asked,
        waiting: Duration::ZERO,
        closing: of.closing,
        link: of.client,
        process: of.process,
        tls: &of.tls,
        application_name: &of.application_name,
        prepared: of.prepared,
        worker: of.worker,
        backend: &of.backend,
        pinned: "",
    }
}

/// `SHOW LANES`, which PgBouncer does not have.
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

fn host(address: Option<SocketAddr>) -> Value {
    address.map_or_else(|| "unix".to_owned(), |address| address.ip().to_string()).into()
}

fn port(address: Option<SocketAddr>) -> Value {
    address.map_or(0, |address| u64::from(address.port())).into()
}

/// PgBouncer shows addresses in memory by which a client and its server are matched; the numbers
/// of both do the same. Those of clients and of servers differ.
fn pointer(kind: &str, id: Option<u64>) -> Value {
    let first = if kind == "C" { "c" } else { "5" };
    id.map_or_else(String::new, |id| format!("0x{first}{id:07x}")).into()
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
