//! `read-from`: which servers are read.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Which servers answer reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ReadFrom {
    /// To the server that takes the writes.
    #[default]
    Primary,
    /// To a replica of it, where there is one that may be read.
    Replicas,
}
