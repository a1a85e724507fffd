//! `[redis.eject]`: servers that fail give their keys away.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::Duration;

use crate::health::Rule;

/// `[redis.eject]`: when a server that fails gives its keys away.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct EjectSettings {
    /// Failures in a row, each worker's own, that eject a server for all of them. One is a
    /// connection that cannot be opened, login included, within `connect-timeout`, or one that the
    /// server ends while commands wait on it. Its errors, as `-LOADING` or `-OOM`, and answers that
    /// are late, are none.
    pub failures: u32,
    /// After so long its keys are its own again, until it has failed as often once more.
    pub retry: Duration,
}

impl Default for EjectSettings {
    fn default() -> Self {
        Self { failures: 2, retry: Duration::from_secs(30) }
    }
}

impl EjectSettings {
    /// When a server is ejected, and for how long.
    pub fn rule(&self) -> Rule {
        Rule { failures: self.failures, retry: self.retry.get() }
    }
}
