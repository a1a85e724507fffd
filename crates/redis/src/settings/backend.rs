//! `[[redis.backend]]`: one server.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use watch::secret::Secret;
use watch::units::Duration;

use super::SentinelSettings;

/// `[[redis.backend]]`: one server that has a share of the keys.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct BackendSettings {
    /// The backend's name, by which `ketama` places keys: a server that moves and keeps its name
    /// keeps its keys. twemproxy takes `host:port` where a server has no name.
    pub name: String,
    /// Where it listens: `redis://10.0.0.1:6379`, `rediss://` for TLS, or a Unix socket's path.
    #[serde(default)]
    pub url: String,
    /// Who knows where it is, in place of `url`.
    #[serde(default)]
    pub sentinel: Option<SentinelSettings>,
    /// How much of the keys it has in proportion to the others.
    #[serde(default = "one")]
    pub weight: u32,
    /// The user that Weir logs in as; without one, the password alone is sent.
    #[serde(default)]
    pub user: Option<String>,
    /// Its password.
    #[serde(default)]
    pub password: Secret,
    /// A file whose first line is the password; read at start.
    #[serde(default)]
    pub password_file: Option<PathBuf>,
    /// A PEM file of certificate authorities to trust instead of the system's.
    #[serde(default)]
    pub ca: Option<PathBuf>,
    /// How long a connection may take, login included.
    #[serde(default = "connect_timeout")]
    pub connect_timeout: Duration,
    /// The machine it runs on, by any name: servers of one machine save and rewrite in turns where
    /// the guard acts. By default what `url` says.
    #[serde(default)]
    pub host: Option<String>,
}

impl BackendSettings {
    /// Where it is, for a person.
    pub fn whereabouts(&self) -> String {
        match &self.sentinel {
            None => self.url.clone(),
            Some(of) => format!("{} by Sentinel", of.master),
        }
    }
}

fn one() -> u32 {
    1
}

pub(super) fn connect_timeout() -> Duration {
    Duration::from_secs(5)
}
