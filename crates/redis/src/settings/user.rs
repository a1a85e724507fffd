//! `[[redis.user]]`: who may log in.

use std::io;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::secret::Secret;

use super::ReadFrom;

/// `[[redis.user]]`: a name that may log in with `AUTH` or `HELLO`. A client that sends a password
/// alone is `default`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct UserSettings {
    /// The name that the client logs in with.
    pub name: String,
    /// The password that the client logs in with.
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
    /// The user that it is at the servers, in place of that of `[[redis.backend]]`: it has lanes of
    /// its own, and may what that user may. Without it, and with a password below, the password
    /// alone is sent.
    #[serde(default)]
    pub backend_user: Option<String>,
    /// The password at the servers.
    #[serde(default)]
    pub backend_password: Secret,
    /// A file whose first line is that password; read at start and at each reload.
    #[serde(default)]
    pub backend_password_file: Option<PathBuf>,
}

/// What a user is logged in to servers with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackendLogin {
    /// The name there; without one, the password alone is sent.
    pub user: Option<String>,
    /// The password at the servers.
    pub password: Secret,
}

impl UserSettings {
    /// Whether it is a user of its own at the servers.
    pub fn has_backend_login(&self) -> bool {
        !self.backend_password.is_empty() || self.backend_password_file.is_some()
    }

    /// What it is logged in to servers with; `None` where that is as Weir.
    ///
    /// # Errors
    /// The file of the password can't be read, or has none.
    pub fn backend_login(&self) -> io::Result<Option<BackendLogin>> {
        if !self.has_backend_login() {
            return Ok(None);
        }
        let password = self.backend_password.or_from(self.backend_password_file.as_deref())?;
        if password.is_empty() {
            return Err(io::Error::other("backend-password-file has no password"));
        }
        Ok(Some(BackendLogin { user: self.backend_user.clone(), password }))
    }

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
