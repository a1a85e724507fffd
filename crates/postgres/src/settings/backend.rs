//! `[[postgres.backend]]`: one server.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// `[[postgres.backend]]`: one server, a primary or a replica.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct BackendSettings {
    /// The backend's name: letters, digits, `.`, `_` and `-`, at most 64.
    pub name: String,
    /// Where it listens, as `10.0.0.1:5432`, or the path of its Unix socket.
    #[serde(default)]
    pub address: String,
}
