//! What the pools of twemproxy are in Weir's own configuration.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;

use units::Duration;
use units::draft::{Conversion, Draft, Section, is_in_tmp, text, texts};
use units::secret::Secret;

use super::{Listen, Pool, Server};
use crate::settings::Settings;

/// What clients of twemproxy see of Weir's default, where a pool had no `timeout`.
const NO_TIMEOUT: &str = "no timeout: nutcracker waits for a server without end. Weir's default is \
                          5s; set timeout where commands take longer.";

/// The TOML that means what the pools of `file` mean, with comments on what has no equivalent.
pub fn toml(file: &Path, pools: &[Pool]) -> Conversion {
    let from = format!("From {} of twemproxy.", file.display());
    let secret = match pools.iter().any(|pool| pool.redis && password(pool).is_some()) {
        true => "It holds what redis_auth held: chmod 640. ",
        false => "",
    };
    let words = format!(
        "{secret}What is not said is Weir's default; docs/twemproxy.md has every key of both."
    );
    let mut draft = Draft::new("redis", &[from, words]);
    above(pools, &mut draft);
    let mut left = BTreeSet::new();
    for pool in pools {
        if pool.redis {
            put(pool, &mut draft);
            leave(pool, &mut left);
        } else {
            draft.demand(format!(
                "{}: without \"redis: true\" it is for memcached, which Weir does not speak; \
                 nutcracker has to go on for it",
                pool.name
            ));
        }
    }
    left.into_iter().for_each(|words| draft.leave(words));
    draft.finish()
}

/// What Weir has for all pools together.
fn above(pools: &[Pool], draft: &mut Draft) {
    let preset = Settings::default();
    let redis = || pools.iter().filter(|pool| pool.redis);
    let table = draft.table("");
    if redis().any(is_open) {
        table.note(
            "twemproxy has no TLS: passwords, keys and values cross the network in the clear, as \
             they did. [redis.tls] and rediss:// in url change that.",
        );
        table.set("allow-cleartext", true);
    }
    let database = redis().map(|pool| pool.redis_db).max().unwrap_or_default();
    if database >= preset.databases {
        table.set("databases", u64::from(database) + 1);
    }
    let lanes = redis().map(|pool| pool.server_connections as usize).max().unwrap_or_default();
    if lanes >= preset.pool_size {
        table.set("pool-size", lanes + preset.pool_size);
    }
}

/// Whether anything of a pool crosses the network that would have to be encrypted.
fn is_open(pool: &Pool) -> bool {
    let is_beyond = |host: &str| address(host).is_none_or(|at| !at.to_canonical().is_loopback());
    let by_clients = match &pool.listen {
        Listen::Tcp { host, .. } => is_beyond(host),
        Listen::Unix { .. } => false,
    };
    let host = |of: &Server| of.address.rsplit_once(':').map(|(host, _)| host.to_owned());
    let by_servers = pool.redis_auth.is_some()
        && pool.servers.iter().filter_map(host).any(|host| is_beyond(&host));
    by_clients || by_servers
}

/// An address as it is, and the name that every machine has for itself.
fn address(host: &str) -> Option<IpAddr> {
    let is_own = host == "localhost";
    is_own.then_some(IpAddr::V4(Ipv4Addr::LOCALHOST)).or_else(|| host.parse().ok())
}

fn put(pool: &Pool, draft: &mut Draft) {
    if let Listen::Unix { path, .. } = &pool.listen
        && is_in_tmp(&path.to_string_lossy())
    {
        draft.demand(format!(
            "unix-sockets of {}: the packaged unit has a /tmp of its own, where no client finds \
             {}; RuntimeDirectory=weir in its [Service] makes /run/weir for it",
            pool.name,
            path.display()
        ));
    }
    let table = draft.element("pool");
    table.set("name", text(&pool.name));
    listen(&pool.listen, table);
    table.set("distribution", text(pool.distribution.name()));
    table.set("hash", text(pool.hash.name()));
    if let Some(tag) = pool.hash_tag {
        table.set("hash-tag", text(&String::from_utf8_lossy(&tag)));
    }
    if pool.redis_db > 0 {
        table.set("database", pool.redis_db);
    }
    let timeout = pool.timeout_ms.filter(|ms| *ms > 0).map(millis);
    match (&timeout, pool.timeout_ms) {
        (Some(timeout), _) => table.set("timeout", timeout),
        (None, Some(_)) => table.note("timeout: 0 would leave no command any time."),
        (None, None) => table.note(NO_TIMEOUT),
    }
    if pool.server_connections > 1 {
        table.note("server_connections: of each worker.");
        table.set("lanes", pool.server_connections);
    }
    if pool.auto_eject_hosts {
        let failures = pool.server_failure_limit.max(1);
        let retry = millis(pool.server_retry_timeout_ms);
        table.set("eject", format!("{{ failures = {failures}, retry = {retry} }}"));
    }
    let password = password(pool);
    if let Some(password) = password {
        let user = draft.element("pool.user");
        user.set("name", text("default"));
        user.set("password", text(password));
    }
    for server in &pool.servers {
        let backend = draft.element("pool.backend");
        backend.set("name", text(&server.placed_as()));
        backend.set("url", text(&url(server)));
        if server.weight != 1 {
            backend.set("weight", server.weight);
        }
        if let Some(timeout) = &timeout {
            backend.set("connect-timeout", timeout);
        }
        if let Some(password) = password {
            backend.set("password", text(password));
        }
    }
}

fn password(pool: &Pool) -> Option<&str> {
    pool.redis_auth.as_ref().map(Secret::reveal).filter(|of| !of.is_empty())
}

fn millis(ms: u32) -> String {
    text(&Duration::from_millis(u64::from(ms)).to_string())
}

fn listen(at: &Listen, table: &mut Section) {
    match at {
        Listen::Tcp { host, port } => match address(host) {
            Some(ip) => table.set("listen", text(&SocketAddr::new(ip, *port).to_string())),
            None => table.note(&format!(
                "listen: put the address of {host} here; Weir takes no names: listen = \
                 \"ADDRESS:{port}\""
            )),
        },
        Listen::Unix { path, mode } => {
            table.set("unix-sockets", texts(&[path.to_string_lossy()]));
            if let Some(mode) = mode {
                table.set("unix-socket-mode", text(&format!("{mode:04o}")));
            }
        }
    }
}

/// Where a server is.
fn url(server: &Server) -> String {
    match server.address.rsplit_once(':') {
        Some((host, port)) => {
            let port = port.trim_start_matches('0');
            let is_v6 = host.contains(':');
            if is_v6 {
                format!("redis://[{host}]:{port}")
            } else {
                format!("redis://{host}:{port}")
            }
        }
        None => server.address.clone(),
    }
}

/// What has no equivalent, and why.
fn leave(pool: &Pool, left: &mut BTreeSet<String>) {
    let is_default = pool.server_retry_timeout_ms == 30_000 && pool.server_failure_limit == 2;
    let all = [
        (pool.backlog != 512, "backlog: set as it should be for every socket."),
        (pool.preconnect, "preconnect: a server is connected to by the first command for it."),
        (pool.tcp_keepalive, "tcpkeepalive: set as it should be for every socket."),
        (pool.reuse_port, "reuseport: Weir's workers do that by themselves."),
        (
            pool.client_connections.is_some(),
            "client_connections: nutcracker did not heed it; max-connections of [redis] counts \
             the clients of all pools.",
        ),
        (
            !pool.auto_eject_hosts && !is_default,
            "server_retry_timeout, server_failure_limit: without auto_eject_hosts nothing is \
             ejected.",
        ),
    ];
    let some = all.into_iter().filter(|(is_there, _)| *is_there);
    left.extend(some.map(|(_, words)| words.to_owned()));
}
