//! TLS without authorities, for two programs that share a secret: the listener shows a certificate
//! that it has made itself, and each proves by the secret that nobody is between the two.

use std::sync::Arc;

use ring::hmac;
use rustls::{ClientConfig, ConnectionCommon, ServerConfig};
use rustls_pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};

use super::{Nameless, TlsError, provider};

/// What is exported from the keys of a connection (RFC 5705, RFC 8446 section 7.5).
const LABEL: &[u8] = b"EXPORTER-weir-shared-secret";
const EXPORTED_BYTES: usize = 32;
/// Bytes of a proof, which is an HMAC-SHA256.
pub const PROOF_BYTES: usize = 32;

/// Which side of a connection proves that it knows the secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The one that has connected.
    Client,
    /// The one that listens, and shows its certificate.
    Server,
}

/// A listener's side, with a new certificate that nobody vouches for. Of TLS 1.3 only, whose
/// exported keys are of one connection alone.
///
/// # Errors
/// The certificate can't be made.
pub fn self_made_server() -> Result<ServerConfig, TlsError> {
    let made = rcgen::generate_simple_self_signed(vec!["weir".to_owned()]);
    let made = made.map_err(|error| rustls::Error::General(error.to_string()))?;
    let key = PrivatePkcs8KeyDer::from(made.key_pair.serialize_der());
    let builder = ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])?;
    let chain = vec![made.cert.der().clone()];
    Ok(builder.with_no_client_auth().with_single_cert(chain, PrivateKeyDer::Pkcs8(key))?)
}

/// The other side, which takes any certificate: only a proof says who the server is.
///
/// # Errors
/// rustls refuses TLS 1.3.
pub fn unchecked_client() -> Result<ClientConfig, TlsError> {
    let provider = provider();
    let unchecked = Arc::new(Nameless::any(provider.signature_verification_algorithms));
    let builder = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])?;
    let builder = builder.dangerous().with_custom_certificate_verifier(unchecked);
    Ok(builder.with_no_client_auth())
}

/// What both sides of a connection prove that they know the secret by. Whoever is between the two
/// has two connections, whose keys differ.
pub struct SecretProof {
    key: hmac::Key,
    exported: [u8; EXPORTED_BYTES],
}

impl SecretProof {
    /// Of a connection after its handshake.
    ///
    /// # Errors
    /// The handshake is not over.
    pub fn new<S>(secret: &[u8], connection: &ConnectionCommon<S>) -> Result<Self, TlsError> {
        let exported = [0; EXPORTED_BYTES];
        let exported = connection.export_keying_material(exported, LABEL, None)?;
        Ok(Self { key: hmac::Key::new(hmac::HMAC_SHA256, secret), exported })
    }

    /// The proof of one side, which is not that of the other one.
    pub fn of(&self, side: Side) -> [u8; PROOF_BYTES] {
        let tag = hmac::sign(&self.key, &self.message(side));
        let mut proof = [0; PROOF_BYTES];
        proof.copy_from_slice(tag.as_ref());
        proof
    }

    /// Whether it is the proof of that side. It takes as long for one that is not.
    pub fn is_of(&self, side: Side, proof: &[u8]) -> bool {
        hmac::verify(&self.key, &self.message(side), proof).is_ok()
    }

    fn message(&self, side: Side) -> Vec<u8> {
        let side: &[u8] = match side {
            Side::Client => b"client",
            Side::Server => b"server",
        };
        [side, &self.exported].concat()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::ops::DerefMut;

    use rustls::{ClientConnection, ConnectionCommon, ServerConnection, SideData};

    use super::*;

    /// Hands on what each side has to say until both are done.
    fn shaken() -> (ClientConnection, ServerConnection) {
        let name = "weir".try_into().unwrap();
        let mut client =
            ClientConnection::new(Arc::new(unchecked_client().unwrap()), name).unwrap();
        let mut server = ServerConnection::new(Arc::new(self_made_server().unwrap())).unwrap();
        while client.is_handshaking() || server.is_handshaking() {
            hand_on(&mut client, &mut server);
            hand_on(&mut server, &mut client);
        }
        (client, server)
    }

    fn hand_on<A: SideData, B: SideData>(
        from: &mut impl DerefMut<Target = ConnectionCommon<A>>,
        to: &mut impl DerefMut<Target = ConnectionCommon<B>>,
    ) {
        let mut bytes = Vec::new();
        while from.wants_write() {
            from.write_tls(&mut bytes).unwrap();
        }
        bytes.flush().unwrap();
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            to.read_tls(&mut rest).unwrap();
            to.process_new_packets().unwrap();
        }
    }

    #[test]
    fn each_side_believes_the_other_by_the_secret_and_nobody_between_them() {
        let (client, server) = shaken();
        let of = |secret: &[u8]| {
            (SecretProof::new(secret, &client).unwrap(), SecretProof::new(secret, &server).unwrap())
        };
        let (ours, theirs) = of(b"a secret of both");
        assert!(theirs.is_of(Side::Client, &ours.of(Side::Client)));
        assert!(ours.is_of(Side::Server, &theirs.of(Side::Server)));
        // What one side has said is of no use to play the other one.
        assert!(!ours.is_of(Side::Server, &ours.of(Side::Client)));
        let (wrong, _) = of(b"another secret");
        assert!(!theirs.is_of(Side::Client, &wrong.of(Side::Client)));
        assert!(!theirs.is_of(Side::Client, &[]));
        // Nor is a proof of another connection.
        let (elsewhere, _) = shaken();
        let elsewhere = SecretProof::new(b"a secret of both", &elsewhere).unwrap();
        assert!(!theirs.is_of(Side::Client, &elsewhere.of(Side::Client)));
    }
}
