//! `[[redis.command]]`: a command that Weir does not know.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The longest name that may be given, in bytes.
pub const COMMAND_BYTES_MAX: usize = 64;

/// `[[redis.command]]`: a command that Weir's own list does not have, and that may ride a lane.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct CommandSettings {
    /// Its name, as `JSON.GET`, in capitals or not.
    pub name: String,
    /// It changes nothing (the flag `readonly`): after a broken connection it may be asked again.
    #[serde(default)]
    pub reads: bool,
    /// It is for users with `admin = true`.
    #[serde(default)]
    pub admin: bool,
    /// Which argument its first key is; the name itself is number 0, and `0` says that it has none.
    #[serde(default = "one")]
    pub first_key: u8,
    /// Which argument its last key is; `-1` is the last of all.
    #[serde(default = "one_of_either_end")]
    pub last_key: i8,
    /// From one key to the next.
    #[serde(default = "one")]
    pub key_step: u8,
}

fn one() -> u8 {
    1
}

fn one_of_either_end() -> i8 {
    1
}
