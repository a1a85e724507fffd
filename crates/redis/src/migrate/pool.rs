//! A pool of `nutcracker.yml`.

use std::collections::HashSet;

use units::secret::Secret;

use super::NutcrackerError;
use super::server::{Listen, Server, number};
use super::yaml::{RawPool, Text, Value};
use crate::placement::{Distribution, Hash};

/// A pool, with nutcracker's defaults for the keys that it does not have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pool {
    pub name: String,
    /// `listen`.
    pub listen: Listen,
    /// `hash`.
    pub hash: Hash,
    /// `hash_tag`: where the part of a key begins and ends that is hashed.
    pub hash_tag: Option<[u8; 2]>,
    /// `distribution`: any but [`Distribution::Jump`].
    pub distribution: Distribution,
    /// `timeout`, in milliseconds, for a server to be connected to and to answer. Without it
    /// nutcracker waits.
    pub timeout_ms: Option<u32>,
    /// `backlog` of the listening socket.
    pub backlog: u32,
    /// `preconnect`: whether the servers are connected to at the start.
    pub preconnect: bool,
    /// `tcpkeepalive`.
    pub tcp_keepalive: bool,
    /// `reuseport`.
    pub reuse_port: bool,
    /// `redis`: without it the pool speaks memcached's protocol.
    pub redis: bool,
    /// `redis_auth`: the password of the servers and of the clients.
    pub redis_auth: Option<Secret>,
    /// `redis_db`: the database of the servers.
    pub redis_db: u32,
    /// `client_connections`, which nutcracker reads and then does not heed.
    pub client_connections: Option<u32>,
    /// `server_connections`: how many connections there are to a server; above 0.
    pub server_connections: u32,
    /// `auto_eject_hosts`: whether the keys of a server that fails go to the others.
    pub auto_eject_hosts: bool,
    /// `server_retry_timeout`, in milliseconds: for how long a server is ejected.
    pub server_retry_timeout_ms: u32,
    /// `server_failure_limit`: how many failures in a row eject a server.
    pub server_failure_limit: u32,
    /// `servers`, in the file's order; at least one, and no two are placed alike.
    pub servers: Vec<Server>,
}

impl Pool {
    pub(super) fn read(raw: &RawPool) -> Result<Self, NutcrackerError> {
        let in_pool = |what: String| {
            let (line, pool) = (raw.name.line, raw.name.text.clone());
            NutcrackerError::Pool { line, pool, what }
        };
        let in_key = |at: &Text, key: &Text, what: String| {
            let (pool, key) = (raw.name.text.clone(), key.text.clone());
            NutcrackerError::Key { line: at.line, pool, key, what }
        };
        let listen = raw.keys.iter().find(|(key, _)| key.text == "listen");
        let (key, value) = listen.ok_or_else(|| in_pool("has no \"listen\"".to_owned()))?;
        let at = one(key, value).map_err(|what| in_key(key, key, what))?;
        let listen = Listen::read(&at.text).map_err(|what| in_key(at, key, what.to_owned()))?;
        let mut pool = Self::listening(raw.name.text.clone(), listen);
        let mut names = HashSet::new();
        for (key, value) in &raw.keys {
            match (key.text.as_str(), value) {
                ("listen", _) => {}
                ("servers", value) => {
                    let texts = match value {
                        Value::One(text) => std::slice::from_ref(text),
                        Value::Many(texts) => texts,
                    };
                    for text in texts {
                        let server = server(&text.text, &mut names);
                        pool.servers.push(server.map_err(|what| in_key(text, key, what))?);
                    }
                }
                _ => {
                    let at = one(key, value).map_err(|what| in_key(key, key, what))?;
                    pool.set(&key.text, &at.text).map_err(|what| in_key(at, key, what))?;
                }
            }
        }
        if pool.servers.is_empty() {
            return Err(in_pool("has no servers".to_owned()));
        }
        if pool.redis_auth.is_some() && !pool.redis {
            return Err(in_pool("has \"redis_auth\" without \"redis: true\"".to_owned()));
        }
        Ok(pool)
    }

    /// A pool with nutcracker's defaults.
    fn listening(name: String, listen: Listen) -> Self {
        Self {
            name,
            listen,
            hash: Hash::Fnv1a64,
            hash_tag: None,
            distribution: Distribution::Ketama,
            timeout_ms: None,
            backlog: 512,
            preconnect: false,
            tcp_keepalive: false,
            reuse_port: false,
            redis: false,
            redis_auth: None,
            redis_db: 0,
            client_connections: None,
            server_connections: 1,
            auto_eject_hosts: false,
            server_retry_timeout_ms: 30_000,
            server_failure_limit: 2,
            servers: Vec::new(),
        }
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        match key {
            "hash" => self.hash = named(value, Hash::ALL, Hash::name)?,
            "hash_tag" => {
                let tag = value.as_bytes().try_into();
                self.hash_tag = Some(tag.map_err(|_| "is not two characters".to_owned())?);
            }
            "distribution" => {
                let all = [Distribution::Ketama, Distribution::Modula, Distribution::Random];
                self.distribution = named(value, all, Distribution::name)?;
            }
            "timeout" => self.timeout_ms = Some(count(value)?),
            "backlog" => self.backlog = count(value)?,
            "preconnect" => self.preconnect = boolean(value)?,
            "tcpkeepalive" => self.tcp_keepalive = boolean(value)?,
            "reuseport" => self.reuse_port = boolean(value)?,
            "redis" => self.redis = boolean(value)?,
            "redis_auth" => self.redis_auth = Some(Secret::new(value)),
            "redis_db" => self.redis_db = count(value)?,
            "client_connections" => self.client_connections = Some(count(value)?),
            "server_connections" => match count(value)? {
                0 => return Err("can't be 0".to_owned()),
                connections => self.server_connections = connections,
            },
            "auto_eject_hosts" => self.auto_eject_hosts = boolean(value)?,
            "server_retry_timeout" => self.server_retry_timeout_ms = count(value)?,
            "server_failure_limit" => self.server_failure_limit = count(value)?,
            _ => return Err("is unknown to nutcracker".to_owned()),
        }
        Ok(())
    }
}

/// A server whose name is not among `names` yet.
fn server(text: &str, names: &mut HashSet<String>) -> Result<Server, String> {
    let server = Server::read(text).map_err(|what| format!("has {text:?}, which {what}"))?;
    let name = server.placed_as();
    if names.contains(&name) {
        return Err(format!("has two servers that are called {name:?}"));
    }
    names.insert(name);
    Ok(server)
}

fn one<'v>(key: &Text, value: &'v Value) -> Result<&'v Text, String> {
    match value {
        Value::One(text) => Ok(text),
        Value::Many(_) => Err(format!("is a list; write \"{}: value\"", key.text)),
    }
}

fn named<T: Copy, const N: usize>(
    value: &str,
    all: [T; N],
    name: impl Fn(T) -> &'static str,
) -> Result<T, String> {
    all.into_iter().find(|one| name(*one) == value).ok_or_else(|| {
        let names: Vec<_> = all.into_iter().map(name).collect();
        format!("is {value:?}, which is none of {}", names.join(", "))
    })
}

fn count(value: &str) -> Result<u32, String> {
    number(value).ok_or_else(|| format!("is {value:?}, which is not from 0 to {}", i32::MAX))
}

fn boolean(value: &str) -> Result<bool, String> {
    match value {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err(format!("is {value:?}, which is neither true nor false")),
    }
}
