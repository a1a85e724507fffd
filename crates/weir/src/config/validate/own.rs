//! Servers that would be this Weir itself: what it takes in would be handed on to itself for ever.

use std::collections::HashMap;
use std::fs;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs as _, UdpSocket};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use flow::dial::Address;

use super::{Findings, redis as keys};
use crate::config::Settings;

/// Where it is listened on, each with the key that says so.
#[derive(Default)]
struct Listeners {
    tcp: Vec<(&'static str, SocketAddr)>,
    unix: Vec<(&'static str, PathBuf)>,
}

/// Names each server that is an address of this Weir, by whatever name.
pub fn servers(settings: &Settings, found: &mut Findings) {
    let listeners = Listeners::of(settings);
    let mut names = Names::default();
    for (server, address) in all(settings) {
        if let Some((key, at)) = listeners.taking(&address, &mut names) {
            found.wrong(format!(
                "{server} is {address}, and that is Weir's own {key} = \"{at}\": what it takes in \
                 would come back for ever; give the server's own address"
            ));
        }
    }
}

/// Every server that is named, with what it is called. What can't be read is found elsewhere.
fn all(settings: &Settings) -> Vec<(String, Address)> {
    let mut all = Vec::new();
    if settings.has_influx() {
        for backend in settings.influx.backend.iter().filter(|backend| !backend.embedded) {
            let address = of_url(&backend.url);
            all.extend(address.map(|at| (format!("influx.backend {:?}", backend.name), at)));
        }
    }
    for backend in settings.postgres.iter().flat_map(|postgres| &postgres.backend) {
        let address = postgres::settings::read_address(&backend.url).ok();
        all.extend(address.map(|at| (format!("postgres.backend {:?}", backend.name), at)));
    }
    let of_redis = settings.redis.iter().flat_map(keys::servers);
    all.extend(of_redis.filter_map(|(name, url)| {
        let address = redis::settings::read_address(&url).ok()?.address;
        Some((name, address))
    }));
    all
}

fn of_url(url: &str) -> Option<Address> {
    let uri: http::Uri = url.parse().ok()?;
    let usual = if uri.scheme_str() == Some("https") { 443 } else { 80 };
    let host = uri.host()?.trim_matches(['[', ']']).to_owned();
    Some(Address::Tcp { host, port: uri.port_u16().unwrap_or(usual) })
}

impl Listeners {
    fn of(settings: &Settings) -> Self {
        let mut all = Self::default();
        let admin = settings.admin.address().ok().flatten();
        all.tcp.extend(admin.map(|at| ("admin.listen", at)));
        if settings.has_influx() {
            all.tcp.extend(settings.influx.listen.iter().map(|at| ("influx.listen", *at)));
        }
        if let Some(postgres) = &settings.postgres {
            all.tcp.extend(postgres.listen.iter().map(|at| ("postgres.listen", *at)));
            let files = postgres.unix_socket_files();
            all.unix.extend(files.into_iter().map(|at| ("postgres.unix-sockets", at)));
        }
        if let Some(redis) = &settings.redis {
            all.tcp.extend(keys::listeners(redis));
            for (_, pool) in redis.pools() {
                let files = pool.unix_sockets.into_iter();
                all.unix.extend(files.map(|at| ("redis.unix-sockets", at)));
            }
        }
        all
    }

    /// The listener that would take a connection to `address`, with its key.
    fn taking(&self, address: &Address, names: &mut Names) -> Option<(&'static str, String)> {
        let (host, port) = match address {
            Address::Unix(path) => {
                let (key, at) = self.unix.iter().find(|(_, at)| is_same_file(at, path))?;
                return Some((*key, at.display().to_string()));
            }
            Address::Tcp { host, port } => (host, *port),
        };
        // A name is looked up only where the port could be ours: that may take a while.
        let mut there = self.tcp.iter().filter(|(_, at)| at.port() == port && port != 0);
        there.find_map(|(key, at)| {
            let leads_here = |ip: &IpAddr| takes(*at, *ip);
            names.of(host).iter().any(leads_here).then(|| (*key, at.to_string()))
        })
    }
}

/// The addresses of names, each looked up once.
#[derive(Default)]
struct Names(HashMap<String, Vec<IpAddr>>);

impl Names {
    fn of(&mut self, host: &str) -> &[IpAddr] {
        self.0.entry(host.to_owned()).or_insert_with(|| {
            let found = (host, 0).to_socket_addrs();
            found.into_iter().flatten().map(|address| address.ip().to_canonical()).collect()
        })
    }
}

/// Whether a listener takes connections to an address. The unspecified address is, as one to
/// connect to, this machine (Linux, ip(7)).
fn takes(listener: SocketAddr, ip: IpAddr) -> bool {
    let own = listener.ip().to_canonical();
    match own {
        IpAddr::V4(all) if all.is_unspecified() => ip.is_ipv4() && is_here(ip),
        IpAddr::V6(all) if all.is_unspecified() => is_here(ip),
        own if ip.is_unspecified() => own.is_loopback() && own.is_ipv4() == ip.is_ipv4(),
        own => own == ip,
    }
}

/// Whether an address is one of this machine's: then the kernel takes it as the source of what is
/// sent to it. Nothing is sent.
fn is_here(ip: IpAddr) -> bool {
    if ip.is_loopback() || ip.is_unspecified() {
        return true;
    }
    let any: IpAddr = if ip.is_ipv4() { [0; 4].into() } else { [0; 16].into() };
    let source = || {
        let socket = UdpSocket::bind((any, 0)).ok()?;
        socket.connect((ip, 9)).ok()?;
        Some(socket.local_addr().ok()?.ip())
    };
    source() == Some(ip)
}

fn is_same_file(one: &Path, other: &Path) -> bool {
    let identity = |path: &Path| fs::metadata(path).ok().map(|file| (file.dev(), file.ino()));
    // Neither may be there yet: then by their directories.
    let place = |path: &Path| {
        let directory = fs::canonicalize(path.parent()?).ok()?;
        Some(directory.join(path.file_name()?))
    };
    one == other
        || identity(one).is_some_and(|file| Some(file) == identity(other))
        || place(one).is_some_and(|at| Some(at) == place(other))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::parse;

    /// What is said of the servers of a configuration.
    fn said(text: &str) -> Vec<String> {
        let mut found = Findings::default();
        servers(&parse(text).unwrap(), &mut found);
        found.problems.into_iter().map(|problem| problem.what).collect()
    }

    #[test]
    fn a_backend_of_any_gateway_that_is_an_own_listener_is_refused_by_every_name() {
        for (listen, hosts) in [
            ("127.0.0.1:4711", ["127.0.0.1", "localhost", "[::ffff:127.0.0.1]"]),
            ("0.0.0.0:4711", ["127.0.0.1", "127.0.0.9", "0.0.0.0"]),
            ("[::]:4711", ["127.0.0.1", "[::1]", "localhost"]),
        ] {
            for host in hosts {
                for text in [
                    format!(
                        "[influx]\nlisten = \"{listen}\"\n[[influx.backend]]\nname = \"a\"\n\
                         url = \"http://{host}:4711\""
                    ),
                    format!(
                        "[postgres]\nlisten = \"{listen}\"\n[[postgres.backend]]\nname = \"a\"\n\
                         url = \"postgresql://{host}:4711\""
                    ),
                    format!(
                        "[redis]\nlisten = \"{listen}\"\n[[redis.backend]]\nname = \"a\"\n\
                         url = \"redis://{host}:4711\""
                    ),
                    format!(
                        "[postgres]\nlisten = \"{listen}\"\n[redis]\nlisten = \"127.0.0.1:1\"\n\
                         [[redis.backend]]\nname = \"a\"\nurl = \"redis://{host}:4711\""
                    ),
                ] {
                    let found = said(&text);
                    assert_eq!(found.len(), 1, "{found:?}\n{text}");
                    let is_told = found[0].contains(" \"a\" is ") && found[0].contains(listen);
                    assert!(is_told, "{found:?}");
                    let other =
                        text.replace(&format!("://{host}:4711"), &format!("://{host}:4712"));
                    assert!(said(&other).is_empty(), "{other}");
                }
            }
        }
    }

    #[test]
    fn an_address_of_an_interface_is_found_and_another_machines_is_not() {
        // What would be the source of what is sent anywhere, where there is such a thing.
        let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
        if socket.connect("192.0.2.1:9").is_ok() {
            let own = socket.local_addr().unwrap().ip();
            assert!(takes("0.0.0.0:1".parse().unwrap(), own), "{own}");
            assert!(!takes("127.0.0.1:1".parse().unwrap(), own) || own.is_loopback(), "{own}");
        }
        assert!(!takes("0.0.0.0:1".parse().unwrap(), "192.0.2.1".parse().unwrap()));
        assert!(!takes("0.0.0.0:1".parse().unwrap(), "::1".parse().unwrap()));
    }

    #[test]
    fn an_own_unix_socket_is_found_through_links_and_before_it_is_there() {
        let dir = tempfile::tempdir().unwrap();
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(dir.path(), &link).unwrap();
        let (dir, link) = (dir.path().display(), link.display());
        let keys = format!(
            "[redis]\nunix-sockets = [\"{dir}/s\"]\n[[redis.backend]]\nname = \"a\"\n\
             url = \"{link}/s\""
        );
        let sql = format!(
            "[postgres]\nlisten = \"127.0.0.1:6432\"\nunix-sockets = [\"{dir}\"]\n\
             [[postgres.backend]]\nname = \"a\"\nurl = \"{link}:6432\""
        );
        for text in [keys, sql] {
            let found = said(&text);
            assert_eq!(found.len(), 1, "{found:?}\n{text}");
            assert!(found[0].contains("unix-sockets"), "{found:?}");
        }
    }
}
