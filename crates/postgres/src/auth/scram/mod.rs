//! SCRAM-SHA-256 and SCRAM-SHA-256-PLUS (RFC 5802, RFC 7677; channel binding `tls-server-end-point`
//! of RFC 5929) as PostgreSQL speaks them: no user name, no authorization identity.

mod attributes;
pub(super) mod client;
pub(super) mod server;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::rand::{SecureRandom, SystemRandom};
use subtle::ConstantTimeEq;

use super::derivation::{KEY_BYTES, hmac_sha256};

/// The mechanism without channel binding.
pub(super) const MECHANISM: &str = "SCRAM-SHA-256";
/// The mechanism with it.
pub(super) const MECHANISM_PLUS: &str = "SCRAM-SHA-256-PLUS";

/// What a client says of channel binding, when it binds.
const GS2_PLUS: &str = "p=tls-server-end-point,,";

/// Bytes of any message that is taken: PostgreSQL's `PG_MAX_SASL_MESSAGE_LENGTH`.
pub(super) const MESSAGE_BYTES_MAX: usize = 1024;
/// Characters of a nonce that are taken; PostgreSQL and libpq send 24.
const NONCE_MAX: usize = 256;
/// Random bytes of our nonces, as PostgreSQL's `SCRAM_RAW_NONCE_LEN`.
const NONCE_BYTES: usize = 18;

/// A nonce of our own. `None`: the machine gives no random bytes.
pub(super) fn nonce() -> Option<String> {
    let mut bytes = [0; NONCE_BYTES];
    SystemRandom::new().fill(&mut bytes).ok()?;
    Some(STANDARD.encode(bytes))
}

/// What `c=` must be: the client's own first words, and what the channel is known by.
fn bound(gs2: &str, digest: &[u8]) -> String {
    STANDARD.encode([gs2.as_bytes(), digest].concat())
}

fn xor(a: &[u8; KEY_BYTES], b: &[u8; KEY_BYTES]) -> [u8; KEY_BYTES] {
    std::array::from_fn(|at| a[at] ^ b[at])
}

/// `HMAC(key, message)`, a ClientSignature or ServerSignature.
fn signature(key: &[u8; KEY_BYTES], message: &str) -> [u8; KEY_BYTES] {
    hmac_sha256(key, message.as_bytes())
}

/// In time that doesn't depend on what differs.
fn equal(a: &[u8], b: &[u8]) -> bool {
    a.ct_eq(b).into()
}

/// A message is not as SCRAM has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Malformed(pub &'static str);
