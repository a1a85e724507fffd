//! `sentinel` of a backend and of a master that is followed: who knows where it is.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::secret::Secret;

use super::read_address;
use super::validate::{Checked, is_of_this_machine, wrong};

/// `sentinel`: Sentinels that know where a master is, in place of its `url`. After a failover it is
/// reached where they say that it is, at once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct SentinelSettings {
    /// Where Sentinels listen: `redis://10.0.0.1:26379`, or `rediss://` for TLS, by which the
    /// master is reached then, too. One after the other is asked, until one knows of the newest
    /// failover that was ever heard of.
    #[serde(deserialize_with = "units::list::one_or_many")]
    #[schemars(with = "units::list::OneOrMany<String>")]
    pub urls: Vec<String>,
    /// What they call it.
    pub master: String,
    /// The user that Weir logs in to the Sentinels as; without one, the password alone is sent.
    #[serde(default)]
    pub user: Option<String>,
    /// The password that Weir logs in to the Sentinels with.
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

    /// Where the master is, for a person.
    pub fn whereabouts(&self) -> String {
        format!("{} by Sentinel", self.master)
    }

    /// Whether Weir logs in to them.
    pub(super) fn has_password(&self) -> bool {
        !self.password.is_empty() || self.password_file.is_some()
    }

    pub(super) fn validate(&self, at: &str, allow_cleartext: bool) -> Checked {
        if self.urls.is_empty() || self.master.is_empty() {
            return wrong(at, "sentinel needs urls, as \"redis://10.0.0.1:26379\", and master");
        }
        if self.user.is_some() && !self.has_password() {
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
                let what = "what is said would travel in the clear: write rediss:// in \
                            sentinel.urls, or allow-cleartext";
                return wrong(at, what);
            }
        }
        Ok(())
    }
}
