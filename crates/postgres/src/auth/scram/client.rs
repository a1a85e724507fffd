//! SCRAM as a client: Weir logs in to a server.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::super::Keys;
use super::super::derivation::{ITERATIONS_MAX, KEY_BYTES};
use super::attributes::{Attributes, decode, nonce, text};
use super::{GS2_PLUS, Malformed, bound, equal, signature, xor};

/// Bytes of a salt that are taken; PostgreSQL's has 16.
const SALT_BYTES_MAX: usize = 256;

/// What this side says of channel binding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Flag<'d> {
    /// It does not support channel binding.
    None,
    /// It could, had the server offered it.
    Possible,
    /// It does, with this digest of the server's certificate.
    Bound(&'d [u8]),
}

/// After this side's first message.
#[derive(Debug)]
pub(in super::super) struct Hello {
    bare: String,
    nonce: String,
    bound: String,
}

/// The server's first message.
#[derive(Debug)]
pub(in super::super) struct Challenge {
    pub salt: Vec<u8>,
    pub iterations: u32,
    /// Both first messages and this side's last one, as the proof covers them.
    covered: String,
    unproved: String,
}

/// What the server has to prove.
#[derive(Debug)]
pub(in super::super) struct Expected {
    signature: [u8; KEY_BYTES],
}

/// This side's first message.
pub(in super::super) fn begin(flag: Flag<'_>, own_nonce: &str) -> (Hello, String) {
    let (gs2, digest) = match flag {
        Flag::None => ("n,,", &[][..]),
        Flag::Possible => ("y,,", &[][..]),
        Flag::Bound(digest) => (GS2_PLUS, digest),
    };
    let bare = format!("n=,r={own_nonce}");
    let message = format!("{gs2}{bare}");
    (Hello { bare, nonce: own_nonce.to_owned(), bound: bound(gs2, digest) }, message)
}

impl Hello {
    /// Reads the server's first message.
    pub(in super::super) fn challenged(self, message: &[u8]) -> Result<Challenge, Malformed> {
        let first = text(message)?;
        let mut attributes = Attributes::of(first);
        let nonce = nonce(attributes.expect('r')?)?;
        // A nonce to which the server added nothing could be an old one that is played back.
        if !nonce.starts_with(&self.nonce) || nonce.len() == self.nonce.len() {
            return Err(Malformed("the server's nonce does not begin with ours"));
        }
        let salt = decode(attributes.expect('s')?)?;
        if salt.is_empty() || salt.len() > SALT_BYTES_MAX {
            return Err(Malformed("the salt is empty or too long"));
        }
        let iterations = attributes.expect('i')?.parse().unwrap_or(0);
        if !(1..=ITERATIONS_MAX).contains(&iterations) {
            return Err(Malformed("the iteration count is impossible or too high"));
        }
        attributes.skip()?;
        let unproved = format!("c={},r={nonce}", self.bound);
        let covered = format!("{},{first},{unproved}", self.bare);
        Ok(Challenge { salt, iterations, covered, unproved })
    }
}

impl Challenge {
    /// This side's last message.
    pub(in super::super) fn prove(self, keys: &Keys) -> (Expected, String) {
        let proof = xor(&keys.client_key, &signature(&keys.stored_key, &self.covered));
        let message = format!("{},p={}", self.unproved, STANDARD.encode(proof));
        (Expected { signature: signature(&keys.server_key, &self.covered) }, message)
    }
}

impl Expected {
    /// Reads the server's last message: whether it has the verifier too. `Err` carries its own
    /// words where it says what is wrong.
    pub(in super::super) fn check(&self, message: &[u8]) -> Result<bool, Malformed> {
        let mut attributes = Attributes::of(text(message)?);
        let signature = decode(attributes.expect('v')?)?;
        attributes.skip()?;
        Ok(equal(&signature, &self.signature))
    }
}
