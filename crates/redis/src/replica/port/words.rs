//! What is said at an announced port.

use std::fmt::Write as _;

use wire::resp::{put_array, put_bulk, put_integer};

use super::Facts;

/// What `INFO` says: it is a replica that nobody lists and nobody promotes.
pub fn info(facts: &Facts) -> String {
    let Facts { state, master, port, run_id, .. } = facts;
    let link = if state.is_following() { "up" } else { "down" };
    let offset = state.durable.borrow().offset;
    let id = state.id().map_or_else(|| "0".repeat(40), |id| id.to_string());
    let (host, at) = master.now();
    let fields: [(&str, &dyn std::fmt::Display); 17] = [
        ("redis_version", &"7.0.0"),
        ("weir_version", &env!("CARGO_PKG_VERSION")),
        ("redis_mode", &"standalone"),
        ("run_id", run_id),
        ("tcp_port", port),
        ("role", &"slave"),
        ("master_host", &host),
        ("master_port", &at),
        ("master_link_status", &link),
        ("master_last_io_seconds_ago", &0),
        ("master_sync_in_progress", &0),
        ("slave_repl_offset", &offset),
        ("slave_priority", &0),
        ("slave_read_only", &1),
        ("replica_announced", &0),
        ("master_replid", &id),
        ("master_repl_offset", &offset),
    ];
    let mut text = String::new();
    for (number, (name, value)) in fields.into_iter().enumerate() {
        // Writing to a string does not fail.
        let _ = match number {
            0 => write!(text, "# Server\r\n"),
            5 => write!(text, "\r\n# Replication\r\n"),
            _ => Ok(()),
        };
        let _ = write!(text, "{name}:{value}\r\n");
    }
    text
}

/// Puts the reply to `ROLE`.
pub fn role(facts: &Facts, out: &mut Vec<u8>) {
    let link = if facts.state.is_following() { "connected" } else { "connect" };
    put_array(out, 5);
    put_bulk(out, b"slave");
    let (host, port) = facts.master.now();
    put_bulk(out, host.as_bytes());
    put_integer(out, port.into());
    put_bulk(out, link.as_bytes());
    put_integer(out, facts.state.durable.borrow().offset as i64);
}
