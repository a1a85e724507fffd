//! What one logs in with.

use std::fmt;
use std::num::NonZeroU32;

use super::derivation::KEY_BYTES;
use super::{Md5Verifier, ScramVerifier, Secret};

/// What Weir logs in with at a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Credentials {
    /// Nothing: the server trusts, or knows Weir by its address or process.
    None,
    /// A password: serves every method.
    Password(Secret),
    /// An md5 digest: serves md5 only.
    Md5(Md5Verifier),
    /// The key of a client that proved itself here: serves SCRAM at a server whose verifier is
    /// equal to the one it was checked against.
    Scram(ScramLogin),
    /// A certificate, which TLS has presented: the server asks for nothing more.
    Certificate,
}

/// SCRAM's keys without the password, recovered from a client's proof.
#[derive(Clone, PartialEq, Eq)]
pub struct ScramLogin {
    pub(super) client_key: [u8; KEY_BYTES],
    pub(super) stored_key: [u8; KEY_BYTES],
    pub(super) server_key: [u8; KEY_BYTES],
    /// Of the verifier; the server's must be the same.
    pub(super) salt: Box<[u8]>,
    pub(super) iterations: NonZeroU32,
}

impl ScramLogin {
    /// Whether it is for this verifier. If a user's verifier has changed, the key is of no use any
    /// more.
    pub fn is_for(&self, verifier: &ScramVerifier) -> bool {
        self.salt == verifier.salt
            && self.iterations == verifier.iterations
            && self.stored_key == verifier.stored_key
    }
}

impl fmt::Debug for ScramLogin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ScramLogin(***)")
    }
}
