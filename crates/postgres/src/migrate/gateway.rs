//! `[pgbouncer]`: limits, timeouts, listeners and TLS.

use std::net::IpAddr;

use super::ini::Ini;
use super::keys::{self, To};
use units::Duration;
use units::draft::{Draft, is_in_tmp, text, texts};

/// PgBouncer's own default for `unix_socket_dir`; Debian's is `/var/run/postgresql`.
pub const SOCKET_DIR: &str = "/tmp";
const PORT: u16 = 6432;
/// The longest message that Weir takes.
const MESSAGE_BYTES_MAX: u64 = 1 << 30;
const MESSAGE_BYTES_MIN: u64 = 64 << 10;
/// The shortest `tcp-user-timeout` that Weir takes.
const SILENCE_MILLIS_MIN: u64 = 1000;

pub fn fill(ini: &Ini, draft: &mut Draft) {
    listeners(ini, draft);
    tls(ini, draft);
    for (key, value) in ini.section("pgbouncer") {
        match keys::find(keys::GATEWAY, key) {
            Some(To::Count(path)) => count(draft, path, key, value),
            Some(To::Seconds(path)) => span(draft, path, key, value),
            Some(To::Words(path)) => {
                let words = keys::words(value);
                if !words.is_empty() {
                    set(draft, path, &texts(&words));
                }
            }
            Some(To::As(_)) => {}
            Some(To::Nothing(_)) if value.is_empty() => {}
            Some(To::Nothing(why)) => draft.leave(format!("{key} = {value}: {why}")),
            None => draft.leave(format!("{key} = {value}: PgBouncer has no such key")),
        }
    }
    mode(ini, draft);
    sizes(ini, draft);
    silence(ini, draft);
    if !ini.section("peers").is_empty() {
        let why = "one process uses all cores, so a cancel request finds its statement";
        draft.leave(format!("[peers]: {why}"));
    }
    let known = ["databases", "users", "peers", "pgbouncer"];
    for entry in ini.entries.iter().filter(|entry| !known.contains(&entry.section.as_str())) {
        draft.leave(format!("[{}] {}: PgBouncer has no such section", entry.section, entry.key));
    }
}

/// Sets a key by its path below `[postgres]`.
fn set(draft: &mut Draft, path: &str, value: &str) {
    let (table, key) = path.rsplit_once('.').unwrap_or(("", path));
    draft.table(table).set(key, value);
}

fn count(draft: &mut Draft, path: &str, key: &str, value: &str) {
    match value.parse::<u64>() {
        // A limit of none is none in PgBouncer only where 0 is without limit here, too.
        Ok(0) if matches!(path, "max-connections" | "pool.size") => {
            draft.leave(format!("{key} = 0: nobody could connect"));
        }
        Ok(count) => set(draft, path, &count.to_string()),
        Err(_) => draft.leave(format!("{key} = {value}: this is not a number")),
    }
}

fn span(draft: &mut Draft, path: &str, key: &str, value: &str) {
    let Some(span) = keys::seconds(value) else {
        draft.leave(format!("{key} = {value}: this is not a number of seconds"));
        return;
    };
    if span == "\"0s\"" {
        match path {
            "timeouts.login" | "timeouts.cancel" => {
                return draft.leave(format!("{key} = {value}: what never comes is not waited for"));
            }
            "pool.max-age" => {
                let words = "server_lifetime = 0 closed every connection after one use; the \
                             nearest is a short life, and 0 would be for ever:";
                draft.table("pool").note(words);
                return set(draft, path, "\"1s\"");
            }
            _ => {}
        }
    }
    set(draft, path, &span);
}

/// PgBouncer gives milliseconds, and 0 leaves silent servers to the kernel.
fn silence(ini: &Ini, draft: &mut Draft) {
    let Some(value) = ini.get("tcp_user_timeout").filter(|value| !value.is_empty()) else {
        return;
    };
    match value.parse::<u32>() {
        Ok(0) => {}
        Ok(millis) => {
            let limit = Duration::from_millis(u64::from(millis).max(SILENCE_MILLIS_MIN));
            draft.above().set("tcp-user-timeout", text(&limit.to_string()));
        }
        Err(_) => draft.leave(format!("tcp_user_timeout = {value}: this is not a number")),
    }
}

/// Whether clients of other machines can reach what is listened on.
pub fn is_reachable(ini: &Ini) -> bool {
    addresses(ini).0.iter().any(|address| !address.is_loopback())
}

/// The addresses of `listen_addr`, and what in it is none.
fn addresses(ini: &Ini) -> (Vec<IpAddr>, Vec<String>) {
    let (mut found, mut names) = (Vec::new(), Vec::new());
    for word in keys::words(ini.get("listen_addr").unwrap_or_default()) {
        match (word.as_str(), word.parse::<IpAddr>()) {
            ("*", _) => found.push(IpAddr::from([0_u16; 8])),
            ("localhost", _) => {
                found.push(IpAddr::from([127, 0, 0, 1]));
                found.push(IpAddr::from([0, 0, 0, 0, 0, 0, 0, 1_u16]));
            }
            (_, Ok(address)) => found.push(address),
            (_, Err(_)) => names.push(word),
        }
    }
    // `*` takes the others' ports.
    if found.iter().any(|address| *address == IpAddr::from([0_u16; 8])) {
        found.truncate(0);
        found.push(IpAddr::from([0_u16; 8]));
    }
    found.dedup();
    (found, names)
}

fn listeners(ini: &Ini, draft: &mut Draft) {
    let port = ini.get("listen_port").and_then(|port| port.parse().ok()).unwrap_or(PORT);
    let (addresses, names) = addresses(ini);
    let listen: Vec<String> = addresses
        .iter()
        .map(|address| std::net::SocketAddr::new(*address, port).to_string())
        .collect();
    for name in names {
        draft.demand(format!("listen_addr {name}: write the address, names are not resolved here"));
    }
    let dir = ini.get("unix_socket_dir").unwrap_or(SOCKET_DIR);
    let sockets = !dir.is_empty() && !dir.starts_with('@');
    if listen.is_empty() && !sockets {
        let main = draft.table("");
        main.note("Neither an address nor a directory could be carried over; this is the default:");
        main.set("listen", texts(&[format!("127.0.0.1:{port}")]));
        draft.demand("listen: neither an address nor a directory of sockets could be carried over");
    } else {
        if listen.is_empty() && port != PORT {
            draft.leave(format!(
                "listen_port = {port}: without an address the Unix socket is named for port 6432"
            ));
        }
        draft.table("").set("listen", texts(&listen));
    }
    if sockets {
        if is_in_tmp(dir) {
            draft.demand(format!(
                "unix-sockets = {dir:?}: the packaged unit has a /tmp of its own, where no client \
                 finds the socket; RuntimeDirectory=weir in its [Service] makes /run/weir for it"
            ));
        }
        draft.table("").set("unix-sockets", texts(&[dir]));
        if let Some(mode) = ini.get("unix_socket_mode") {
            draft.table("").set("unix-socket-mode", text(mode));
        }
    } else if !dir.is_empty() {
        draft.leave(format!("unix_socket_dir = {dir}: abstract sockets have no rights to check"));
    }
}

fn tls(ini: &Ini, draft: &mut Draft) {
    let mode = ini.get("client_tls_sslmode").unwrap_or("disable");
    let file = |key: &str| ini.get(key).filter(|file| !file.is_empty());
    let pair = (file("client_tls_cert_file"), file("client_tls_key_file"));
    let required = matches!(mode, "require" | "verify-ca" | "verify-full");
    if is_reachable(ini) && !required {
        let main = draft.table("");
        let words = "PgBouncer let clients from other machines come without TLS. Better: \
                     required = true in [postgres.tls], and this line away.";
        main.note(words);
        main.set("allow-cleartext", true);
    }
    let (Some(certificate), Some(key)) = pair else {
        if mode != "disable" {
            draft.leave(format!(
                "client_tls_sslmode = {mode}: it needs client_tls_cert_file and client_tls_key_file"
            ));
        }
        return;
    };
    if mode == "disable" {
        return draft.leave("client_tls_cert_file: client_tls_sslmode is disable");
    }
    let table = draft.table("tls");
    table.set("certificate", text(certificate));
    table.set("key", text(key));
    table.set("required", required);
    if let Some(authorities) = file("client_tls_ca_file") {
        table.set("client-ca", text(authorities));
    }
    if mode.starts_with("verify-") && ini.get("auth_type") != Some("cert") {
        draft.leave(format!(
            "client_tls_sslmode = {mode}: a client certificate is asked for, and only demanded \
             where a rule has method = \"cert\""
        ));
    }
}

/// The mode as Weir has it, and whether that is another one.
pub fn mode_of(value: &str) -> Option<(&'static str, bool)> {
    match value {
        "session" => Some(("session", false)),
        "transaction" => Some(("transaction", false)),
        "statement" => Some(("transaction", true)),
        _ => None,
    }
}

fn mode(ini: &Ini, draft: &mut Draft) {
    let written = ini.get("pool_mode").filter(|mode| !mode.is_empty()).unwrap_or("session");
    let Some((mode, other)) = mode_of(written) else {
        return draft.leave(format!("pool_mode = {written}: PgBouncer has no such mode"));
    };
    let main = draft.table("");
    if other {
        main.note("pool_mode = statement refused transactions; they are allowed here.");
    }
    if mode == "session" {
        main.note(
            "With \"transaction\" clients share server connections; each keeps its session state.",
        );
    }
    main.set("mode", text(mode));
    if ini.get("application_name_add_host").is_some_and(is_on) {
        main.set("application-name", text("client-and-address"));
    }
}

/// Whether a switch is on, in any of the ways PgBouncer knows.
pub fn is_on(value: &str) -> bool {
    matches!(value.to_ascii_lowercase().as_str(), "1" | "yes" | "on" | "true")
}

fn sizes(ini: &Ini, draft: &mut Draft) {
    if let Some(bytes) = ini.get("max_packet_size").and_then(|bytes| bytes.parse::<u64>().ok())
        && bytes < MESSAGE_BYTES_MAX
    {
        let bytes = units::Size::from_bytes(bytes.max(MESSAGE_BYTES_MIN));
        draft.table("").set("max-message", text(&bytes.to_string()));
    }
    match ini.get("max_prepared_statements").map(str::parse::<u64>) {
        Some(Ok(0)) => draft.leave(
            "max_prepared_statements = 0: prepared statements work in transaction mode in any case",
        ),
        Some(Ok(count)) => draft.table("").set("prepared-statements", count),
        _ => {}
    }
}
