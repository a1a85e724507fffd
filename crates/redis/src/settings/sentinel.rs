//! `[redis.aof.master.sentinel]`: who knows where a master is.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use watch::secret::Secret;

use super::read_address;
use super::validate::{Checked, is_of_this_machine, wrong};

/// `[redis.aof.master.sentinel]`: Sentinels that know where a master is, in place of its `url`. It
/// is followed where they say it is, at once after a failover.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct SentinelSettings {
    /// Where Sentinels listen: `redis://10.0.0.1:26379`, or `rediss://` for TLS, by which the
    /// master is reached then, too. The first that answers is asked.
    #[serde(deserialize_with = "watch::list::one_or_many")]
    #[schemars(with = "watch::list::OneOrMany<String>")]
    pub urls: Vec<String>,
    /// What they call it.
    pub master: String,
    /// The user that Weir logs in to the Sentinels as; without one, the password alone is sent.
    #[serde(default)]
    pub user: Option<String>,
    /// Its password.
    #[serde(default)]
    pub password: Secret,
    /// A file whose first line is the password; read at start.
    #[serde(default)]
    pub password_file: Option<PathBuf>,
}

impl SentinelSettings {
    /// Whether they, and the master, are reached under TLS.
    pub fn is_tls(&self) -> bool {
        self.urls.first().is_some_and(|url| url.starts_with("rediss://"))
    }

    pub(super) fn validate(&self, at: &str, allow_cleartext: bool) -> Checked {
        if self.urls.is_empty() || self.master.is_empty() {
            return wrong(at, "sentinel needs urls, as \"redis://10.0.0.1:26379\", and master");
        }
        if self.user.is_some() && self.password.is_empty() && self.password_file.is_none() {
            return wrong(at, "sentinel.user needs a password");
        }
        for url in &self.urls {
            let reached = match read_address(url) {
                Ok(reached) => reached,
                Err(error) => return wrong(at, format!("sentinel {error}")),
            };
            if reached.tls != self.is_tls() {
                return wrong(at, "all of sentinel.urls must be rediss://, or none");
            }
            let is_here = reached.address.host().is_none_or(is_of_this_machine);
            if !reached.tls && !is_here && !allow_cleartext {
                let what = "every key and value would travel in the clear: write rediss:// in \
                            sentinel.urls, or allow-cleartext";
                return wrong(at, what);
            }
        }
        Ok(())
    }
}
