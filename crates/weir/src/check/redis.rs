//! What `weir serve` would do with `[redis]`, in words.

use redis::settings::{AofSettings, Mode, Settings};

/// Where clients are taken.
pub fn listeners(settings: &Settings) -> Vec<String> {
    let of_pools = settings.pools();
    let of_pools = of_pools.iter().flat_map(|(_, pool)| pool_listeners(pool));
    of_pools.chain(settings.aof.iter().flat_map(announced)).collect()
}

/// The ports that masters are told.
fn announced(aof: &AofSettings) -> Vec<String> {
    let scheme = if aof.port.tls.is_some() { "rediss" } else { "redis" };
    let then = if aof.port.fills() { ", and fill servers there" } else { "" };
    let listening = aof.master.iter().filter_map(|of| Some((of.listen?, &of.name)));
    listening.map(|(at, name)| format!("on {scheme}://{at} as a replica of {name}{then}")).collect()
}

fn pool_listeners(settings: &Settings) -> Vec<String> {
    let scheme = if settings.tls.is_some() { "rediss" } else { "redis" };
    let tcp = settings.listen.iter().map(|at| format!("on {scheme}://{at} for Redis clients"));
    let unix = settings.unix_sockets.iter();
    let unix = unix.map(|path| format!("on {} for Redis clients", path.display()));
    tcp.chain(unix).collect()
}

/// Whose append-only files are kept, and where.
pub fn followed(settings: &Settings) -> Vec<String> {
    let Some(aof) = &settings.aof else { return Vec::new() };
    let described = aof.master.iter().map(|of| {
        let name = if of.cluster.is_empty() { of.name.clone() } else { format!("{}-ID", of.name) };
        let dir = std::path::absolute(aof.dir.join(name)).unwrap_or_else(|_| aof.dir.clone());
        let user = of.user.as_ref().map_or_else(String::new, |user| format!(", as {user}"));
        let at = of.whereabouts();
        format!("{} at {at}{user}, with its append-only file in {}", of.name, dir.display())
    });
    described.collect()
}

/// What the guard would have servers do.
pub fn acts(settings: &Settings) -> Vec<String> {
    let guard = &settings.guard;
    if guard.mode != Mode::Act {
        return Vec::new();
    }
    let turns = "Redis servers of one host save and rewrite in turns";
    let mut facts = vec![format!("{turns}, from {} UTC", guard.window)];
    if guard.appendonly && settings.aof.is_some() {
        facts.push("appendonly of followed masters off while their copy is durable".to_owned());
    }
    facts
}

/// Who may log in.
pub fn users(settings: &Settings) -> Vec<String> {
    if settings.passes() {
        let others = settings
            .user
            .iter()
            .map(|user| format!("{}, Weir's own administrator of Redis", user.name));
        let servers =
            "whom the Redis servers let in, each as their user: auth = \"pass\"".to_owned();
        return std::iter::once(servers).chain(others).collect();
    }
    if settings.user.is_empty() {
        return vec!["everybody to Redis: there is no [[redis.user]]".to_owned()];
    }
    let described = settings.user.iter().map(|user| match user.admin {
        true => format!("{}, to Redis, as an administrator", user.name),
        false => format!("{}, to Redis", user.name),
    });
    described.collect()
}

/// How keys find their server.
pub fn placement(settings: &Settings) -> Vec<String> {
    if settings.is_cluster() {
        return vec!["keys on the nodes of a Redis Cluster by its slots".to_owned()];
    }
    if settings.backend.len() < 2 {
        return vec!["every key on the one Redis server".to_owned()];
    }
    let word = |value: serde_json::Result<serde_json::Value>| {
        value.ok().and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default()
    };
    let distribution = word(serde_json::to_value(settings.distribution));
    let hash = word(serde_json::to_value(settings.hash));
    let tag = settings.hash_tag.as_ref();
    let tag = tag.map_or_else(String::new, |tag| format!(", by what is between {tag:?}"));
    let count = settings.backend.len();
    let mut facts =
        vec![format!("keys on {count} Redis servers by {distribution} and {hash}{tag}")];
    if let Some(eject) = &settings.eject {
        let (failures, retry) = (eject.failures, eject.retry);
        facts.push(format!("those of a server that fails {failures} times elsewhere for {retry}"));
    }
    facts
}

/// The servers of the pool.
pub fn backends(settings: &Settings) -> Vec<String> {
    let described = settings.backend.iter().map(|of| {
        let user = match (&of.user, of.has_password()) {
            (Some(user), _) => format!(", as {user}"),
            (None, true) => ", with a password".to_owned(),
            (None, false) => String::new(),
        };
        format!("{} at {}{user}, weight {}", of.name, of.whereabouts(), of.weight)
    });
    described.collect()
}
