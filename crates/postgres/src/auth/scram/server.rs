//! SCRAM as a server: a client logs in to Weir.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::super::derivation::sha256;
use super::super::{ScramLogin, ScramVerifier};
use super::attributes::{Attributes, decode, nonce, text};
use super::{GS2_PLUS, MECHANISM, MECHANISM_PLUS, Malformed, bound, equal, signature, xor};

/// What a client answered to the server's challenge.
#[derive(Debug)]
pub(in super::super) enum Verdict {
    /// It knows the password.
    Proved {
        /// The server's last message.
        last: String,
        /// The client's key, which its proof gives away to whoever has the verifier.
        login: ScramLogin,
    },
    /// The proof is not of the password.
    Wrong,
}

/// What may be wrong with a client's message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Fault {
    /// The message is not SCRAM's.
    Malformed(Malformed),
    /// The nonce is not the one agreed upon.
    Nonce,
    /// A mechanism that was not offered.
    Mechanism,
    /// Client and server disagree about channel binding: someone may be in between.
    Binding(&'static str),
}

impl From<Malformed> for Fault {
    fn from(malformed: Malformed) -> Self {
        Self::Malformed(malformed)
    }
}

/// After the client's first message, before its last.
#[derive(Debug)]
pub(in super::super) struct Challenge {
    verifier: ScramVerifier,
    /// Both first messages as the proof covers them.
    firsts: String,
    nonce: String,
    /// What `c=` must be.
    bound: String,
}

/// What was offered to a client.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Offer<'d> {
    /// What the channel is known by, where channel binding was offered.
    pub digest: Option<&'d [u8]>,
    /// Whether nothing else was.
    pub bound_only: bool,
}

/// Reads a client's first message and makes the server's.
pub(in super::super) fn begin(
    verifier: ScramVerifier,
    offer: Offer<'_>,
    mechanism: &[u8],
    message: &[u8],
    own_nonce: &str,
) -> Result<(Challenge, String), Fault> {
    let plus = match mechanism {
        name if name == MECHANISM.as_bytes() && !offer.bound_only => None,
        name if name == MECHANISM_PLUS.as_bytes() => Some(offer.digest.ok_or(Fault::Mechanism)?),
        _ => return Err(Fault::Mechanism),
    };
    let message = text(message)?;
    let (flag, rest) = message.split_once(',').ok_or(Malformed("\",\" is missing"))?;
    let bound = match (flag, plus) {
        ("n", None) => bound("n,,", &[]),
        ("y", None) if offer.digest.is_some() => {
            return Err(Fault::Binding(
                "The client supports SCRAM channel binding but thinks the server does not.",
            ));
        }
        ("y", None) => bound("y,,", &[]),
        ("p=tls-server-end-point", Some(digest)) => bound(GS2_PLUS, digest),
        ("n" | "y", Some(_)) => {
            return Err(Malformed("SCRAM-SHA-256-PLUS without channel binding data").into());
        }
        (flag, None) if flag.starts_with("p=") => {
            return Err(Malformed("SCRAM-SHA-256 with channel binding data").into());
        }
        (flag, _) if flag.starts_with("p=") => {
            return Err(Fault::Binding("unsupported SCRAM channel-binding type"));
        }
        _ => return Err(Malformed("unexpected channel-binding flag").into()),
    };
    let (identity, bare) = rest.split_once(',').ok_or(Malformed("\",\" is missing"))?;
    if !identity.is_empty() {
        return Err(Malformed("authorization identities are not supported").into());
    }
    let mut attributes = Attributes::of(bare);
    // PostgreSQL goes by the startup packet's name, and so do its clients, which leave it empty.
    attributes.expect('n')?;
    let nonce = format!("{}{own_nonce}", nonce(attributes.expect('r')?)?);
    attributes.skip()?;
    let (salt, iterations) = (STANDARD.encode(&verifier.salt), verifier.iterations);
    let first = format!("r={nonce},s={salt},i={iterations}");
    let firsts = format!("{bare},{first}");
    Ok((Challenge { verifier, firsts, nonce, bound }, first))
}

impl Challenge {
    /// Reads the client's last message.
    pub(in super::super) fn finish(self, message: &[u8]) -> Result<Verdict, Fault> {
        let message = text(message)?;
        let mut attributes = Attributes::of(message);
        let bound = attributes.expect('c')?;
        let nonce = attributes.expect('r')?;
        // What else there may be; the proof comes last, over all that is before it.
        let (unproved, proof) = message.rsplit_once(",p=").ok_or(Malformed("proof is missing"))?;
        attributes.skip()?;
        let proof = decode(proof)?.try_into().map_err(|_| Malformed("malformed proof"))?;
        if !equal(bound.as_bytes(), self.bound.as_bytes()) {
            return Err(Fault::Binding("SCRAM channel binding check failed"));
        }
        if !equal(nonce.as_bytes(), self.nonce.as_bytes()) {
            return Err(Fault::Nonce);
        }
        let covered = format!("{},{unproved}", self.firsts);
        let ScramVerifier { iterations, salt, stored_key, server_key } = self.verifier;
        let client_key = xor(&signature(&stored_key, &covered), &proof);
        if !equal(&sha256(&client_key), &stored_key) {
            return Ok(Verdict::Wrong);
        }
        let last = format!("v={}", STANDARD.encode(signature(&server_key, &covered)));
        let login = ScramLogin { client_key, stored_key, server_key, salt, iterations };
        Ok(Verdict::Proved { last, login })
    }
}
