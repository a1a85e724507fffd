//! `auth`: who checks passwords.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Who checks the passwords of clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Auth {
    /// Weir does, by `[[redis.user]]`.
    #[default]
    Weir,
    /// A server, asked anew for each login: clients are the servers' own users.
    Pass,
}
