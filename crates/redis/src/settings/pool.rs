//! `[[redis.pool]]`: one of several pools in a file.

use std::net::SocketAddr;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::Duration;

use super::{Auth, BackendSettings, EjectSettings, ReadFrom, Settings, UserSettings};
use crate::placement::{Distribution, Hash};

/// What the pool is called that `[redis]` itself is.
pub const MAIN: &str = "redis";

/// `[[redis.pool]]`: servers that share keys, and where their clients connect.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct PoolSettings {
    /// Its name, in metrics and in the status.
    pub name: String,
    /// As `listen` of `[redis]`; no other pool has the same.
    #[serde(default, deserialize_with = "units::list::one_or_many")]
    #[schemars(with = "units::list::OneOrMany<SocketAddr>")]
    pub listen: Vec<SocketAddr>,
    /// As `unix-sockets` of `[redis]`.
    #[serde(default, deserialize_with = "units::list::one_or_many")]
    #[schemars(with = "units::list::OneOrMany<PathBuf>")]
    pub unix_sockets: Vec<PathBuf>,
    /// In place of `unix-socket-mode` of `[redis]`. Needs a restart.
    #[serde(default)]
    pub unix_socket_mode: Option<String>,
    /// In place of `distribution` of `[redis]`.
    #[serde(default)]
    pub distribution: Option<Distribution>,
    /// In place of `hash` of `[redis]`.
    #[serde(default)]
    pub hash: Option<Hash>,
    /// In place of `hash-tag` of `[redis]`.
    #[serde(default)]
    pub hash_tag: Option<String>,
    /// In place of `database` of `[redis]`.
    #[serde(default)]
    pub database: Option<u32>,
    /// In place of `timeout` of `[redis]`.
    #[serde(default)]
    pub timeout: Option<Duration>,
    /// In place of `read-from` of `[redis]`.
    #[serde(default)]
    pub read_from: Option<ReadFrom>,
    /// In place of `lanes` of `[redis]`.
    #[serde(default)]
    pub lanes: Option<usize>,
    /// In place of `share-reads` of `[redis]`.
    #[serde(default)]
    pub share_reads: Option<bool>,
    /// In place of `[redis.eject]`.
    #[serde(default)]
    pub eject: Option<EjectSettings>,
    /// In place of `auth` of `[redis]`. Needs a restart.
    #[serde(default)]
    pub auth: Option<Auth>,
    /// Who may log in, in place of all `[[redis.user]]`.
    #[serde(default)]
    pub user: Vec<UserSettings>,
    /// The servers of the pool.
    pub backend: Vec<BackendSettings>,
}

impl PoolSettings {
    /// The pool as a gateway of its own would have it.
    fn whole(&self, of: &Settings) -> Settings {
        Settings {
            listen: self.listen.clone(),
            unix_sockets: self.unix_sockets.clone(),
            unix_socket_mode: self
                .unix_socket_mode
                .as_ref()
                .unwrap_or(&of.unix_socket_mode)
                .clone(),
            distribution: self.distribution.unwrap_or(of.distribution),
            hash: self.hash.unwrap_or(of.hash),
            hash_tag: self.hash_tag.clone().or_else(|| of.hash_tag.clone()),
            database: self.database.unwrap_or(of.database),
            timeout: self.timeout.unwrap_or(of.timeout),
            read_from: self.read_from.unwrap_or(of.read_from),
            lanes: self.lanes.unwrap_or(of.lanes),
            share_reads: self.share_reads.unwrap_or(of.share_reads),
            eject: self.eject.clone().or_else(|| of.eject.clone()),
            auth: self.auth.unwrap_or(of.auth),
            user: if self.user.is_empty() { of.user.clone() } else { self.user.clone() },
            backend: self.backend.clone(),
            pool: Vec::new(),
            aof: None,
            ..of.clone()
        }
    }
}

impl Settings {
    /// The pools by their names, each with all its settings and without pools below it.
    pub fn pools(&self) -> Vec<(String, Self)> {
        let is_pool = (self.pool.is_empty() && self.aof.is_none()) || !self.backend.is_empty();
        let own = Self { pool: Vec::new(), aof: None, ..self.clone() };
        let own = is_pool.then(|| (MAIN.to_owned(), own));
        own.into_iter()
            .chain(self.pool.iter().map(|of| (of.name.clone(), of.whole(self))))
            .collect()
    }

    /// The servers of all pools, each with what its key is called.
    pub fn all_backends(&self) -> impl Iterator<Item = (String, &BackendSettings)> {
        let own = self.backend.iter().map(|of| (format!("backend {:?}", of.name), of));
        own.chain(self.pool.iter().flat_map(|pool| {
            let named =
                |of: &BackendSettings| format!("pool {:?} backend {:?}", pool.name, of.name);
            pool.backend.iter().map(move |of| (named(of), of))
        }))
    }

    /// The users of all pools.
    pub fn all_users(&self) -> impl Iterator<Item = &UserSettings> {
        self.user.iter().chain(self.pool.iter().flat_map(|pool| &pool.user))
    }
}
