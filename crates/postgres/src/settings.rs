//! The `[postgres]` table of the configuration. Each field's comment is its entry in the reference.

use std::net::SocketAddr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// `[postgres]`: the PostgreSQL gateway. Absent, it is off.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Settings {
    /// Addresses that clients connect to.
    pub listen: Vec<SocketAddr>,
}
