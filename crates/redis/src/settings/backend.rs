//! `[[redis.backend]]`: a server, and how it is reached.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::Duration;
use units::secret::Secret;

use super::validate::{Checked, is_of_this_machine, wrong};
use super::{SentinelSettings, read_address};

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
    /// The password that Weir logs in with.
    #[serde(default)]
    pub password: Secret,
    /// A file whose first line is the password; read at start and at each reload.
    #[serde(default)]
    pub password_file: Option<PathBuf>,
    /// A PEM file of certificate authorities to trust instead of the system's.
    #[serde(default)]
    pub ca: Option<PathBuf>,
    /// How long a connection may take, login included.
    #[serde(default = "connect_timeout")]
    pub connect_timeout: Duration,
    /// The machine it runs on, by any name: servers of one machine save and rewrite in turns where
    /// the guard acts. By default the address that `url`, Sentinels or its Cluster have for it.
    #[serde(default)]
    pub host: Option<String>,
}

impl BackendSettings {
    /// Where it is, for a person.
    pub fn whereabouts(&self) -> String {
        match &self.sentinel {
            None => self.url.clone(),
            Some(of) => of.whereabouts(),
        }
    }

    /// Whether Weir logs in to it.
    pub fn has_password(&self) -> bool {
        !self.password.is_empty() || self.password_file.is_some()
    }

    /// Whether Weir logs in to it, or to those who know where it is.
    pub(super) fn tells_password(&self) -> bool {
        self.has_password() || self.sentinel.as_ref().is_some_and(SentinelSettings::has_password)
    }

    /// That it can be reached as its settings say. On the way to another machine, `what` is said in
    /// the clear only where that is allowed.
    pub(super) fn validate(&self, at: &str, what: &str, allow_cleartext: bool) -> Checked {
        if self.user.is_some() && !self.has_password() {
            return wrong(at, "user needs a password");
        }
        if let Some(sentinel) = &self.sentinel {
            if !self.url.is_empty() {
                return wrong(at, "needs one of url and sentinel");
            }
            if self.ca.is_some() && !sentinel.is_tls() {
                return wrong(at, "ca is for TLS: write rediss:// in sentinel.urls");
            }
            return sentinel.validate(at, allow_cleartext);
        }
        let reached = match read_address(&self.url) {
            Ok(reached) => reached,
            Err(error) => return wrong(at, error.to_string()),
        };
        if self.ca.is_some() && !reached.tls {
            return wrong(at, "ca is for TLS: write rediss:// in url");
        }
        let is_here = reached.address.host().is_none_or(is_of_this_machine);
        if !reached.tls && !is_here && !allow_cleartext {
            let remedy = "would travel in the clear: write rediss:// in url, or allow-cleartext";
            return wrong(at, format!("{what} {remedy}"));
        }
        Ok(())
    }
}

fn one() -> u32 {
    1
}

pub(super) fn connect_timeout() -> Duration {
    Duration::from_secs(5)
}
