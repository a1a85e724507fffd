//! The files that `[redis]` names, its secrets, and what strangers could do.

use std::net::SocketAddr;
use std::path::PathBuf;

use flow::tls::ServerTls;
use redis::settings::{MAIN, MasterSettings, PortSettings, SentinelSettings, Settings};
use units::secret::Secret;

use super::Findings;

/// Every file that must be there now, with the key that names it.
pub fn files(settings: &Settings) -> Vec<(String, &PathBuf)> {
    let mut named = Vec::new();
    if let Some(tls) = &settings.tls {
        named.push(("redis.tls.certificate".to_owned(), Some(&tls.certificate)));
        named.push(("redis.tls.key".to_owned(), Some(&tls.key)));
    }
    for (at, backend) in settings.all_backends() {
        let of = |key: &str| format!("redis.{at} {key}");
        named.push((of("password-file"), backend.password_file.as_ref()));
        named.push((of("ca"), backend.ca.as_ref()));
        named.push((of("sentinel.password-file"), file_of(backend.sentinel.as_ref())));
    }
    for user in settings.all_users() {
        let key = format!("redis.user {:?} backend-password-file", user.name);
        named.push((key, user.backend_password_file.as_ref()));
    }
    for master in masters(settings) {
        let of = |key: &str| format!("redis.aof.master {:?} {key}", master.name);
        named.push((of("password-file"), master.password_file.as_ref()));
        named.push((of("ca"), master.ca.as_ref()));
        named.push((of("sentinel.password-file"), file_of(master.sentinel.as_ref())));
    }
    if let Some(port) = settings.aof.as_ref().map(|aof| &aof.port) {
        let of = |key: &str| format!("redis.aof.port {key}");
        named.push((of("password-file"), port.password_file.as_ref()));
        named.push((of("client-ca"), port.client_ca.as_ref()));
        named.push((of("tls.certificate"), port.tls.as_ref().map(|tls| &tls.certificate)));
        named.push((of("tls.key"), port.tls.as_ref().map(|tls| &tls.key)));
    }
    named.into_iter().filter_map(|(key, file)| Some((key, file?))).collect()
}

fn file_of(sentinel: Option<&SentinelSettings>) -> Option<&PathBuf> {
    sentinel.and_then(|of| of.password_file.as_ref())
}

fn masters(settings: &Settings) -> &[MasterSettings] {
    settings.aof.as_ref().map_or(&[], |aof| &aof.master)
}

/// Whether certificates are such, and fit their keys.
pub fn certificates(settings: &Settings, found: &mut Findings) {
    if let Some(tls) = &settings.tls
        && let Err(error) = ServerTls::new(&tls.pair(), &[])
    {
        found.wrong(format!("redis.tls: {error}"));
    }
    if let Some(port) = settings.aof.as_ref().map(|aof| &aof.port)
        && let Some(tls) = &port.tls
        && let Err(error) = ServerTls::with_clients(tls, &[], port.client_ca.as_deref())
    {
        found.wrong(format!("redis.aof.port.tls: {error}"));
    }
    for (at, backend) in settings.all_backends() {
        if let Some(authorities) = &backend.ca
            && let Err(error) = flow::tls::client_config(Some(authorities), false)
        {
            found.wrong(format!("redis.{at} ca: {error}"));
        }
    }
    for master in masters(settings) {
        if let Some(authorities) = &master.ca
            && let Err(error) = flow::tls::client_config(Some(authorities), false)
        {
            found.wrong(format!("redis.aof.master {:?} ca: {error}", master.name));
        }
    }
}

/// Where the clients of all pools connect over TCP.
pub fn listeners(settings: &Settings) -> Vec<(&'static str, SocketAddr)> {
    let at = |(name, pool): (String, Settings)| {
        let key = if name == MAIN { "redis.listen" } else { "redis.pool.listen" };
        pool.listen.into_iter().map(move |address| (key, address))
    };
    let of_masters = masters(settings).iter().filter_map(|of| of.listen);
    let of_masters = of_masters.map(|address| ("redis.aof.master.listen", address));
    settings.pools().into_iter().flat_map(at).chain(of_masters).collect()
}

/// Every server that is named, with what it is called and its URL.
pub fn servers(settings: &Settings) -> Vec<(String, String)> {
    let sentinels = |of: Option<&SentinelSettings>| of.map_or(Vec::new(), |of| of.urls.clone());
    let of_gateway = settings.all_backends().flat_map(|(at, backend)| {
        let urls = std::iter::once(backend.url.clone()).chain(sentinels(backend.sentinel.as_ref()));
        urls.map(move |url| (format!("redis.{at}"), url)).collect::<Vec<_>>()
    });
    let of_masters = masters(settings).iter().flat_map(|master| {
        let urls = std::iter::once(&master.url).chain(&master.cluster).chain(&master.replicas);
        let urls = urls.cloned().chain(sentinels(master.sentinel.as_ref()));
        let name = format!("redis.aof.master {:?}", master.name);
        urls.map(move |url| (name.clone(), url)).collect::<Vec<_>>()
    });
    of_gateway.chain(of_masters).collect()
}

/// What strangers could read or do.
pub fn exposure(settings: &Settings, found: &mut Findings) {
    settings.pools().iter().for_each(|(_, pool)| pool_exposure(pool, found));
    if let Some(aof) = &settings.aof
        && aof.port != PortSettings::default()
        && aof.master.iter().all(|of| of.listen.is_none())
    {
        let words = "redis.aof.port is for the ports that `listen` of a [[redis.aof.master]] \
                     opens, and none has one: nothing listens";
        found.doubtful(words.to_owned());
    }
}

/// What does not do what it seems to.
pub fn misleading(settings: &Settings, found: &mut Findings) {
    let pools = settings.pools();
    let may_log_in =
        |name: &str| pools.iter().any(|(_, pool)| pool.user.iter().any(|user| user.name == name));
    for user in settings.user.iter().filter(|user| !may_log_in(&user.name)) {
        found.doubtful(format!(
            "redis.user {:?} may log in to no pool: a pool that has [[redis.pool.user]] lets in \
             nobody else. Write it there",
            user.name
        ));
    }
    for backend in pools.iter().filter(|(_, of)| of.eject.is_some()).flat_map(|(_, of)| &of.backend)
    {
        let at = backend.whereabouts();
        if let Some(master) = masters(settings).iter().find(|of| of.whereabouts() == at) {
            found.doubtful(format!(
                "redis.backend {:?} is followed as redis.aof.master {:?} and its pool has eject: \
                 what another server takes while it is away is not found once it is back. \
                 Eject servers of caches only",
                backend.name, master.name
            ));
        }
    }
}

fn pool_exposure(settings: &Settings, found: &mut Findings) {
    for address in settings.listen.iter().filter(|address| !address.ip().is_loopback()) {
        if settings.user.is_empty() {
            found.doubtful(format!(
                "redis.listen {address} is not loopback and there is no [[redis.user]]: whoever \
                 reaches it may read and write every key"
            ));
        }
        if settings.tls.is_none() {
            found.doubtful(format!(
                "redis.listen {address} is not loopback and there is no [redis.tls]: passwords, \
                 keys and values cross the network in clear text"
            ));
        }
    }
}

/// Whether passwords stand in the file.
pub fn holds_secrets(settings: &Settings) -> bool {
    let has = |password: &Secret, sentinel: Option<&SentinelSettings>| {
        !password.is_empty() || sentinel.is_some_and(|of| !of.password.is_empty())
    };
    settings.all_backends().any(|(_, of)| has(&of.password, of.sentinel.as_ref()))
        || settings.all_users().any(|of| !of.password.is_empty() || !of.backend_password.is_empty())
        || masters(settings).iter().any(|of| has(&of.password, of.sentinel.as_ref()))
        || settings.aof.as_ref().is_some_and(|aof| !aof.port.password.is_empty())
}
