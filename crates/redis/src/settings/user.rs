//! `[[redis.user]]`: who may log in.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use watch::secret::Secret;

use super::ReadFrom;

/// `[[redis.user]]`: a name that may log in with `AUTH` or `HELLO`. A client that sends a password
/// alone is `default`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct UserSettings {
    /// The name.
    pub name: String,
    /// The password.
    #[serde(default)]
    pub password: Secret,
    /// The password's SHA-256 in hexadecimal, as `printf %s PASSWORD | sha256sum` prints it, so
    /// that the file does not hold the password itself.
    #[serde(default)]
    pub password_sha256: Option<String>,
    /// It may use commands that show or touch what is everybody's, as `FLUSHALL` and `KEYS`.
    #[serde(default)]
    pub admin: bool,
    /// In place of `read-from` of the pool.
    #[serde(default)]
    pub read_from: Option<ReadFrom>,
}

impl UserSettings {
    /// What its password's SHA-256 is; `None` where it can't be read.
    pub fn digest(&self) -> Option<[u8; 32]> {
        let Some(written) = &self.password_sha256 else {
            let digest =
                ring::digest::digest(&ring::digest::SHA256, self.password.reveal().as_bytes());
            return digest.as_ref().try_into().ok();
        };
        let digit = |at: usize| char::from(*written.as_bytes().get(at)?).to_digit(16);
        let byte = |at: usize| u8::try_from(digit(at * 2)? * 16 + digit(at * 2 + 1)?).ok();
        let bytes: Option<Vec<u8>> = (0..32).map(byte).collect();
        if written.len() == 64 { bytes?.try_into().ok() } else { None }
    }
}
