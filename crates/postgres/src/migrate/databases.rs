//! `[databases]`: what clients connect to, and the servers behind it.

use super::Read;
use super::connection;
use super::gateway::{SOCKET_DIR, mode_of};
use super::ini::Ini;
use super::keys::{self, To};
use super::users::{number, plain_password};
use units::draft::{Draft, Section, is_in_tmp, text};

/// The longest name of a database in PostgreSQL.
const NAME_BYTES_MAX: usize = 63;
const PORT: u16 = 5432;

/// One server, and the databases that were asked for there.
struct Server {
    host: String,
    port: u16,
    /// As clients call them.
    databases: Vec<String>,
    /// As the server does.
    there: Vec<String>,
}

pub fn fill(ini: &Ini, read: Read<'_>, draft: &mut Draft) {
    let mut servers: Vec<Server> = Vec::new();
    // What each database was on the servers, and where.
    let mut seen: Vec<(String, String)> = Vec::new();
    for (name, line) in ini.section("databases") {
        let Some(pairs) = connection::pairs(line) else {
            draft.demand(format!(
                "database {name}: {line:?} is not a connection string, so its clients are refused"
            ));
            continue;
        };
        if name.is_empty() || name.len() > NAME_BYTES_MAX || name == "pgbouncer" {
            draft.leave(format!("database {name:?}: PgBouncer does not take this name either"));
            continue;
        }
        let last = |wanted: &str| pairs.iter().rev().find(|(of, _)| of == wanted);
        let port = last("port").and_then(|(_, port)| port.parse().ok()).unwrap_or(PORT);
        let local = ini.get("unix_socket_dir").filter(|dir| !dir.is_empty());
        let hosts = last("host").map_or(local.unwrap_or(SOCKET_DIR), |(_, host)| host);
        let there = last("dbname").map_or(name, |(_, there)| there);
        for host in hosts.split(',').map(str::trim) {
            note_server(&mut servers, (host, port), (name, there), draft);
        }
        let elsewhere = seen.iter().any(|(of, at)| of == there && at != hosts);
        seen.push((there.to_owned(), hosts.to_owned()));
        database(name, &pairs, elsewhere.then_some(hosts), draft);
    }
    if servers.is_empty() {
        let words = "[databases] is empty or can't be carried over; put in the real server:";
        draft.table("").note(words);
        draft.demand("[[postgres.backend]]: put in the real server; there was none to carry over");
        let (databases, there) = (Vec::new(), Vec::new());
        servers.push(Server { host: "127.0.0.1".into(), port: PORT, databases, there });
    }
    backends(&servers, ini, read, draft);
}

fn note_server(
    servers: &mut Vec<Server>,
    (host, port): (&str, u16),
    (name, there): (&str, &str),
    draft: &mut Draft,
) {
    if host.starts_with('@') {
        let what = "there are no abstract sockets here";
        draft.demand(format!("host={host} of database {name}: {what}"));
        return;
    }
    if is_in_tmp(host) {
        draft.demand(format!(
            "the server of database {name} has its socket in {host}, which the packaged unit does \
             not see: it has a /tmp of its own; give the server's address, or another directory"
        ));
    }
    let same = |server: &&mut Server| server.host == host && server.port == port;
    match servers.iter_mut().find(same) {
        Some(server) => {
            server.databases.push(name.to_owned());
            server.there.push(there.to_owned());
        }
        None => servers.push(Server {
            host: host.to_owned(),
            port,
            databases: vec![name.to_owned()],
            there: vec![there.to_owned()],
        }),
    }
}

/// The servers that have nothing to do with the first, as far as the databases on them tell.
fn strangers(servers: &[Server]) -> Vec<&Server> {
    let Some((first, mut rest)) =
        servers.split_first().map(|(first, rest)| (first, rest.iter().collect::<Vec<_>>()))
    else {
        return Vec::new();
    };
    let mut known: Vec<&String> = first.there.iter().collect();
    loop {
        let shares = |of: &&Server| of.there.iter().any(|name| known.contains(&name));
        let (related, others): (Vec<_>, Vec<_>) = rest.into_iter().partition(shares);
        rest = others;
        if related.is_empty() {
            return rest;
        }
        known.extend(related.iter().flat_map(|of| &of.there));
    }
}

fn database(name: &str, pairs: &[(String, String)], elsewhere: Option<&str>, draft: &mut Draft) {
    let element = draft.element("database");
    element.set("name", text(name));
    if let Some(hosts) = elsewhere {
        element.note(&format!(
            "PgBouncer sent this to {hosts}. Reads go to replicas by themselves; \
             route = \"replica\" keeps everything of it there."
        ));
    }
    let mut left = Vec::new();
    let mut settings: Vec<(String, String)> = Vec::new();
    let has_user = pairs.iter().any(|(key, _)| key == "user");
    for (key, value) in pairs {
        let lost = match keys::find(keys::DATABASE, key) {
            Some(To::Count(to)) => take(element, to, number(value, to)),
            Some(To::Seconds(to)) if to == "query-wait" && value == "-1" => None,
            Some(To::Seconds(to)) => take(element, to, keys::seconds(value)),
            Some(To::Nothing(why)) => Some(why.to_owned()),
            Some(To::As(_)) => other(element, &mut settings, has_user, key, value),
            Some(To::Words(_)) | None => Some("PgBouncer has no such key".to_owned()),
        };
        left.extend(lost.map(|why| format!("{key}={value} of database {name}: {why}")));
    }
    if !settings.is_empty() {
        element.set_table("settings", &settings);
    }
    left.into_iter().for_each(|words| draft.leave(words));
}

/// Sets a key; where there is no value, says so.
fn take(element: &mut Section, to: &str, value: Option<String>) -> Option<String> {
    match value {
        Some(value) => {
            element.set(to, value);
            None
        }
        None => Some("PgBouncer can't read this, or it lets nobody in".to_owned()),
    }
}

/// What needs more than a new name; gives the reason where it is lost.
fn other(
    element: &mut Section,
    settings: &mut Vec<(String, String)>,
    has_user: bool,
    key: &str,
    value: &str,
) -> Option<String> {
    match key {
        "dbname" | "user" => element.set(key, text(value)),
        "password" if has_user => element.set(key, text(value)),
        "password" => return Some("there is no user with it".to_owned()),
        "pool_mode" => match mode_of(value) {
            Some((mode, _)) => element.set("mode", text(mode)),
            None => return Some("PgBouncer has no such mode".to_owned()),
        },
        "client_encoding" | "datestyle" | "timezone" | "application_name" => {
            settings.retain(|(name, _)| name != key);
            settings.push((key.to_owned(), value.to_owned()));
        }
        "connect_query" => match assignments(value) {
            Some(found) => settings.extend(found),
            None => {
                return Some(
                    "only SET can be carried over; ALTER ROLE ... SET or ALTER DATABASE ... SET \
                     does it on the server"
                        .to_owned(),
                );
            }
        },
        // The host is a server, `auth_*` is one for all.
        _ => {}
    }
    None
}

/// `SET a = b; SET c TO 'd'` as names and values.
fn assignments(sql: &str) -> Option<Vec<(String, String)>> {
    let mut found = Vec::new();
    for statement in sql.split(';').map(str::trim).filter(|statement| !statement.is_empty()) {
        let rest = statement.get(..4).filter(|word| word.eq_ignore_ascii_case("set "))?;
        let rest = statement[rest.len()..].trim_start();
        let end = rest.find(|c: char| c == '=' || c.is_whitespace())?;
        let (name, rest) = (&rest[..end], rest[end..].trim_start());
        let to = rest.get(..3).filter(|word| word.eq_ignore_ascii_case("to "));
        let value = match to {
            Some(to) => &rest[to.len()..],
            None => rest.strip_prefix('=')?,
        };
        let value = value.trim();
        let plain = value.strip_prefix('\'').and_then(|value| value.strip_suffix('\''));
        let value = plain.unwrap_or(value);
        let named = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.');
        let scope = ["local", "session", "role", "time"];
        let scoped = scope.iter().any(|word| name.eq_ignore_ascii_case(word));
        if name.is_empty() || !name.chars().all(named) || scoped || value.contains('\'') {
            return None;
        }
        found.push((name.to_ascii_lowercase(), value.to_owned()));
    }
    (!found.is_empty()).then_some(found)
}

fn backends(servers: &[Server], ini: &Ini, read: Read<'_>, draft: &mut Draft) {
    if servers.len() > 1 {
        let words = "These servers are taken for one primary and its replicas, and Weir finds out \
                     which is which. Servers that do not replicate from one another need a Weir of \
                     their own each.";
        draft.table("").note(words);
    }
    for server in strangers(servers) {
        let Server { host, port, databases, .. } = server;
        draft.demand(format!(
            "{host}:{port} shares no database with {}:{}, and these are taken for copies of each \
             other: unless it replicates from it, or to it, give {} a Weir of its own",
            servers[0].host,
            servers[0].port,
            databases.join(", "),
        ));
    }
    let mode = ini.get("server_tls_sslmode").filter(|mode| !mode.is_empty()).unwrap_or("prefer");
    let mode = if mode == "allow" { "prefer" } else { mode };
    let file = |key: &str| ini.get(key).filter(|file| !file.is_empty());
    let timeout = ini.get("server_connect_timeout").and_then(keys::seconds);
    for (index, server) in servers.iter().enumerate() {
        let element = draft.element("backend");
        if servers.len() > 1 {
            element.note(&format!("PgBouncer sent {} here.", server.databases.join(", ")));
        }
        element.set("name", text(&format!("server-{}", index + 1)));
        element.set("url", text(&server.url()));
        if let Some(user) = ini.get("auth_user").filter(|user| !user.is_empty()) {
            element.set("user", text(user));
            if let Some(password) = plain_password(ini, read, user) {
                element.set("password", text(&password));
            }
        }
        if server.host.starts_with('/') {
            continue;
        }
        element.set("tls", text(mode));
        if let Some(authorities) = file("server_tls_ca_file").filter(|_| mode.starts_with("verify"))
        {
            element.set("ca", text(authorities));
        }
        if let (Some(certificate), Some(key)) =
            (file("server_tls_cert_file"), file("server_tls_key_file"))
        {
            element.set("certificate", text(certificate));
            element.set("key", text(key));
        }
        if let Some(timeout) = timeout.as_ref().filter(|timeout| *timeout != "\"0s\"") {
            element.set("connect-timeout", timeout);
        }
    }
    if file("server_tls_ca_file").is_some() && !mode.starts_with("verify") {
        let words = format!("server_tls_ca_file: with server_tls_sslmode = {mode} it is not used");
        draft.leave(words);
    }
    draft.leave(
        "the user that Weir itself asks the servers as (user, password and database of \
         [[postgres.backend]]) had no part in PgBouncer: it needs no rights but pg_monitor",
    );
}

impl Server {
    fn url(&self) -> String {
        let Self { host, port, .. } = self;
        match host.as_str() {
            host if host.starts_with('/') => format!("{host}:{port}"),
            host if host.contains(':') => format!("postgresql://[{host}]:{port}"),
            host => format!("postgresql://{host}:{port}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Server, assignments, strangers};

    #[test]
    fn servers_are_related_by_the_databases_on_them() {
        let server = |host: &str, there: &[&str]| Server {
            host: host.to_owned(),
            port: 5432,
            databases: Vec::new(),
            there: there.iter().map(|name| (*name).to_owned()).collect(),
        };
        let found = |servers: &[Server]| {
            strangers(servers).iter().map(|of| of.host.clone()).collect::<Vec<_>>()
        };
        assert!(found(&[]).is_empty() && found(&[server("a", &[])]).is_empty());
        let copies = [server("a", &["x"]), server("b", &["x", "y"]), server("c", &["y"])];
        assert!(found(&copies).is_empty());
        let apart = [server("a", &["x"]), server("b", &["y"]), server("c", &["*"])];
        assert_eq!(found(&apart), ["b", "c"]);
    }

    #[test]
    fn only_plain_assignments_become_settings() {
        let read = |sql: &str| {
            assignments(sql).map(|found| {
                found.iter().map(|(name, value)| format!("{name}:{value}")).collect::<Vec<_>>()
            })
        };
        let is = |pairs: &[&str]| Some(pairs.iter().map(|pair| (*pair).to_owned()).collect());
        assert_eq!(read("SET a = 1; set B.c TO 'x y';"), is(&["a:1", "b.c:x y"]));
        for sql in [
            "",
            "SELECT 1",
            "SET LOCAL a = 1",
            "SET ROLE x",
            "SET TIME ZONE 'UTC'",
            "SET a",
            "SET a = 'it''s'",
            "SET a = 1; SELECT 2",
        ] {
            assert_eq!(read(sql), None, "{sql}");
        }
    }
}
