//! What an unknown user is asked, so that nobody can tell.

use std::num::NonZeroU32;

use ring::hmac;
use ring::rand::{SecureRandom, SystemRandom};

use super::ScramVerifier;
use super::derivation::{KEY_BYTES, hmac_sha256};
use super::verifier::{ITERATIONS, SALT_BYTES};

/// Makes up a salt for each name that has none: the same each time, as a real one would be
/// (PostgreSQL's `mock_scram_secret`).
#[derive(Clone, Debug)]
pub struct Mock {
    key: hmac::Key,
    iterations: NonZeroU32,
    md5: bool,
}

impl Mock {
    /// `seeds`: secrets that stay the same over restarts and over all gateways that clients may
    /// reach (passwords, verifiers). A salt that changes would say that it was made up. Without
    /// any, the key is random. `None`: the machine gives no random bytes.
    pub fn new<'s>(seeds: impl IntoIterator<Item = &'s [u8]>) -> Option<Self> {
        let mut all = Vec::new();
        for seed in seeds {
            all.extend_from_slice(&(seed.len() as u64).to_be_bytes());
            all.extend_from_slice(seed);
        }
        let mut random = [0; KEY_BYTES];
        if all.is_empty() {
            SystemRandom::new().fill(&mut random).ok()?;
            all.extend_from_slice(&random);
        }
        let key = hmac_sha256(b"weir mock salts", &all);
        let key = hmac::Key::new(hmac::HMAC_SHA256, &key);
        let iterations = NonZeroU32::new(ITERATIONS).unwrap_or(NonZeroU32::MIN);
        Some(Self { key, iterations, md5: false })
    }

    /// With as many iterations as the real verifiers mostly have (4096).
    #[must_use]
    pub fn iterations(self, iterations: NonZeroU32) -> Self {
        Self { iterations, ..self }
    }

    /// Unknown users are asked by md5 where the rules say `md5`; for where most verifiers are that.
    #[must_use]
    pub fn md5(self, md5: bool) -> Self {
        Self { md5, ..self }
    }

    pub(super) fn is_md5(&self) -> bool {
        self.md5
    }

    /// A verifier that nobody's password fits.
    pub(super) fn verifier(&self, user: &str) -> ScramVerifier {
        let bytes = |what: &[u8]| {
            let mut context = hmac::Context::with_key(&self.key);
            context.update(what);
            context.update(user.as_bytes());
            let mut bytes = [0; KEY_BYTES];
            bytes.copy_from_slice(context.sign().as_ref());
            bytes
        };
        ScramVerifier {
            iterations: self.iterations,
            salt: bytes(b"salt:")[..SALT_BYTES].into(),
            stored_key: bytes(b"stored key:"),
            server_key: bytes(b"server key:"),
        }
    }
}
