//! What to type where something is wrong: each is a line that a shell takes as it stands, or empty
//! where no command helps.

use std::path::Path;

use postgres::status::Status as PostgresStatus;
use redis::replica::state::MasterStatus;
use redis::status::Backend as RedisServer;

use super::installation::Installation;
use super::status::{Backend, Status};

/// The newest words of Weir's own log.
pub const LOG: &str = "journalctl -u weir -n 50";
/// What a failed sync of the journal needs, once the disk is well.
pub const POISONED: &str = "dmesg | tail -n 50; systemctl restart weir";
/// What holds server connections, asked of a server where the console can't be entered.
const ACTIVITY: &str = "SELECT pid, usename, state, xact_start FROM pg_stat_activity \
                        ORDER BY xact_start";

/// What is asked of a replica that may become the primary.
const CANDIDATE: &str = "SELECT pg_is_in_recovery(), pg_last_wal_receive_lsn(), \
                         pg_last_xact_replay_timestamp()";

/// What asks whether a backend of InfluxDB lives.
pub fn ping(backend: &Backend, at: &Installation) -> String {
    match backend.url.as_str() {
        "" => disk(&at.store_dir),
        url => format!("curl -i {}/ping", quoted(url.trim_end_matches('/'))),
    }
}

/// What helps a backend that needs somebody, by its reason.
pub fn stopped(backend: &Backend, status: &Status, at: &Installation) -> String {
    let why = backend.reason.as_deref().unwrap_or_default();
    if why.contains("dead letters") {
        dead_letters(&backend.name, at)
    } else if why.contains("weir placement apply") {
        placement(status, "apply")
    } else if why.contains("look at the URLs") || why.contains("the file lacks") {
        edit(status)
    } else if ["it has a disk of before", "is of the cluster", "is being rebuilt"]
        .iter()
        .any(|of| why.contains(of))
    {
        placement(status, "show")
    } else if why.contains("weir placement rebuild") {
        placement(status, &format!("rebuild {}", quoted(&backend.name)))
    } else if why.contains("401") || why.contains("403") {
        edit(status)
    } else {
        ping(backend, at)
    }
}

/// What helps the backend that the journal keeps the most for; empty where nothing waits.
pub fn laggard(status: &Status, at: &Installation) -> String {
    let bytes = |of: &Backend| of.cursor.as_ref().map_or(0, |cursor| cursor.waiting.bytes);
    let backends = status.influx.iter().flat_map(|influx| &influx.backends);
    let most = backends.filter(|of| bytes(of) > 0).max_by_key(|of| bytes(of));
    most.map(|of| stopped(of, status, at)).unwrap_or_default()
}

/// What shows the points that a backend has refused for good, with its words.
pub fn dead_letters(backend: &str, at: &Installation) -> String {
    format!("weir dead-letters show {} --dir {}", quoted(backend), path(&at.journal_dir))
}

/// What checks every record of the journal.
pub fn verify_journal(at: &Installation) -> String {
    format!("weir journal verify {}", path(&at.journal_dir))
}

/// What checks every file of the embedded store.
pub fn verify_store(at: &Installation) -> String {
    format!("weir store verify {}", path(&at.store_dir))
}

/// What shows how full the disk of a directory is.
pub fn disk(dir: &Path) -> String {
    format!("df -h {}", path(dir))
}

/// What changes the configuration and puts it in force.
pub fn edit(status: &Status) -> String {
    let file = status.process.config.as_deref().map(quoted);
    let edit = file.map(|file| format!("${{EDITOR:-vi}} {file} && systemctl reload weir"));
    edit.unwrap_or_default()
}

/// What does something with the table of a cluster.
fn placement(status: &Status, command: &str) -> String {
    let file = status.process.config.as_deref().unwrap_or("weir.toml");
    format!("weir placement {command} --config {}", quoted(file))
}

/// What says what is wrong with the configuration.
pub fn check(status: &Status) -> String {
    let file = status.process.config.as_deref().unwrap_or("weir.toml");
    format!("weir check --config {}", quoted(file))
}

/// What asks whether a PostgreSQL server lives.
pub fn pg_isready(address: &str) -> String {
    format!("pg_isready {}", at_server(address))
}

/// What asks a PostgreSQL server as its superuser.
pub fn psql(address: &str, sql: &str) -> String {
    format!("psql {} -U postgres -c {}", at_server(address), quoted(sql))
}

/// What asks the primary; empty where there is none.
pub fn psql_primary(status: &PostgresStatus, sql: &str) -> String {
    let primary = status.backends.iter().find(|of| of.role == "primary");
    primary.map(|primary| psql(&primary.address, sql)).unwrap_or_default()
}

/// What asks the replica that lacks the least how far it is, before somebody promotes it; without
/// one, what asks whether the first server lives.
pub fn candidate(status: &PostgresStatus) -> String {
    let replicas = status.backends.iter().filter(|of| of.role == "replica");
    match (replicas.min_by_key(|of| of.lag_bytes.unwrap_or(u64::MAX)), status.backends.first()) {
        (Some(replica), _) => psql(&replica.address, CANDIDATE),
        (None, Some(first)) => pg_isready(&first.address),
        (None, None) => String::new(),
    }
}

/// What gives a command to the console; empty where nobody may enter it.
pub fn console(at: &Installation, command: &str) -> String {
    let Some(console) = &at.console else { return String::new() };
    let server = at_server(&console.address.to_string());
    let (user, database) = (quoted(&console.user), quoted(&console.database));
    format!("psql {server} -U {user} {database} -c {}", quoted(command))
}

/// What shows who holds server connections: by the console, else by the primary.
pub fn holders(status: &PostgresStatus, at: &Installation, command: &str) -> String {
    match at.console {
        Some(_) => console(at, command),
        None => psql_primary(status, ACTIVITY),
    }
}

/// What asks whether a Redis server lives; where no Sentinel has said yet where that is, what asks
/// one.
pub fn redis_ping(server: &RedisServer) -> String {
    match &server.sentinel {
        Some(of) => {
            let (url, master) = (quoted(&of.url), quoted(&of.master));
            format!("redis-cli -u {url} sentinel get-master-addr-by-name {master}")
        }
        None => redis_cli(&server.url, "ping"),
    }
}

/// What gives a command to a Redis server at a URL or at the path of its socket; of one that is
/// named otherwise, the log.
pub fn redis_cli(whereabouts: &str, command: &str) -> String {
    match whereabouts {
        url if url.starts_with("redis://") || url.starts_with("rediss://") => {
            format!("redis-cli -u {} {command}", quoted(url))
        }
        path if path.starts_with('/') => format!("redis-cli -s {} {command}", quoted(path)),
        _ => LOG.to_owned(),
    }
}

/// What helps a master whose append-only file is in trouble: where its stream comes, the disk is
/// looked at, and else the master.
pub fn followed(master: &MasterStatus) -> String {
    match master.link.as_str() {
        "following" => disk(Path::new(&master.dir)),
        _ => redis_cli(&master.url, "info replication"),
    }
}

/// The options of PostgreSQL's programs for a server at `host:port`, or at a socket's directory.
fn at_server(address: &str) -> String {
    match address.rsplit_once(':') {
        Some((host, port)) => {
            let host = host.trim_matches(['[', ']']);
            format!("-h {} -p {}", quoted(host), quoted(port))
        }
        None => format!("-h {}", quoted(address)),
    }
}

fn path(of: &Path) -> String {
    quoted(&of.display().to_string())
}

/// A word that a shell takes as one, whatever is in it.
fn quoted(word: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:/@".contains(&byte);
    match !word.is_empty() && word.bytes().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}

#[cfg(test)]
mod tests {
    use ::redis::status::SentinelQuestion;

    use super::*;
    use crate::diagnosis::installation::ConsoleLogin;

    fn redis(url: &str, sentinel: Option<SentinelQuestion>) -> RedisServer {
        RedisServer { url: url.to_owned(), sentinel, ..RedisServer::default() }
    }

    #[test]
    fn names_from_a_file_are_one_word_of_a_shell() {
        let at = Installation { store_dir: "/var/my store".into(), ..Installation::default() };
        let url = "http://h/$(reboot)'x".to_owned();
        let odd = Backend { url, ..Backend::default() };
        assert_eq!(ping(&odd, &at), "curl -i 'http://h/$(reboot)'\\''x'/ping");
        let plain = Backend { url: "http://10.0.0.2:8086/".to_owned(), ..Backend::default() };
        assert_eq!(ping(&plain, &at), "curl -i http://10.0.0.2:8086/ping");
        let glob = Backend { url: "http://[::1]:8086".to_owned(), ..Backend::default() };
        assert_eq!(ping(&glob, &at), "curl -i 'http://[::1]:8086'/ping");
        assert_eq!(ping(&Backend::default(), &at), "df -h '/var/my store'");
        assert_eq!(pg_isready("[::1]:5432"), "pg_isready -h ::1 -p 5432");
        assert_eq!(redis_ping(&redis("redis://a b", None)), "redis-cli -u 'redis://a b' ping");
    }

    #[test]
    fn a_member_of_a_cluster_is_helped_by_what_keeps_it_from_being_used() {
        let at = Installation::default();
        let mut status = Status::default();
        status.process.config = Some("/etc/weir.toml".to_owned());
        let remedy = |why: &str| {
            let reason = Some(why.to_owned());
            let name = "b".to_owned();
            stopped(&Backend { name, reason, ..Backend::default() }, &status, &at)
        };
        for (why, wanted) in [
            ("it has no table yet; run `weir placement apply`", "weir placement apply --config"),
            ("its server is the member \"b\"; look at the URLs", "${EDITOR:-vi} /etc/weir.toml"),
            ("the members have a period ... that the file lacks; put it in", "${EDITOR:-vi}"),
            ("it has a disk of before: other members know a newer one", "weir placement show"),
            ("it is being rebuilt; ... `weir placement rebuild` again", "weir placement show"),
            ("it was put back ...; `weir placement rebuild` brings", "weir placement rebuild b "),
        ] {
            assert!(remedy(why).starts_with(wanted), "{why}: {}", remedy(why));
        }
    }

    #[test]
    fn a_redis_server_is_asked_where_it_is() {
        assert_eq!(
            redis_ping(&redis("/run/redis.sock", None)),
            "redis-cli -s /run/redis.sock ping"
        );
        let question =
            SentinelQuestion { url: "redis://10.0.0.1:26379".into(), master: "mymaster".into() };
        assert_eq!(
            redis_ping(&redis("mymaster by Sentinel", Some(question))),
            "redis-cli -u redis://10.0.0.1:26379 sentinel get-master-addr-by-name mymaster"
        );
        assert_eq!(redis_cli("mymaster by Sentinel", "ping"), LOG);
    }

    #[test]
    fn the_console_and_servers_are_asked_by_psql() {
        let mut at = Installation::default();
        let server = |name: &str, role: &str, lag| postgres::status::Backend {
            address: format!("{name}:5432"),
            role: role.to_owned(),
            lag_bytes: lag,
            ..Default::default()
        };
        let status = PostgresStatus {
            backends: vec![server("a", "down", None), server("b", "replica", Some(9))],
            ..PostgresStatus::default()
        };
        let asked = format!("psql -h b -p 5432 -U postgres -c '{CANDIDATE}'");
        assert_eq!(candidate(&status), asked);
        assert_eq!(console(&at, "RESUME"), "");
        let (address, user) = ("127.0.0.1:6432".parse().unwrap(), "ann".to_owned());
        at.console = Some(ConsoleLogin { address, user, database: "weir".to_owned() });
        assert_eq!(console(&at, "RESUME"), "psql -h 127.0.0.1 -p 6432 -U ann weir -c RESUME");
    }
}
