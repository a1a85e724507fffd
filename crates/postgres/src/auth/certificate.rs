//! As much of an X.509 certificate as logging in looks at: whom it names, and the digest that a
//! channel is known by.

mod der;

use ring::digest;

use der::{Der, OID, SEQUENCE, SET};

/// What a TLS channel is known by: the digest of the server's certificate, for the channel binding
/// `tls-server-end-point` (RFC 5929, section 4.1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChannelBinding(Box<[u8]>);

impl ChannelBinding {
    /// Of a certificate in DER. `None` where its signature has no digest of its own to go by
    /// (Ed25519) or an unknown one: the channel can't be bound then, as in PostgreSQL.
    pub fn of(certificate: &[u8]) -> Option<Self> {
        let algorithm = signature_digest(certificate)?;
        Some(Self(digest::digest(algorithm, certificate).as_ref().into()))
    }

    pub(super) fn digest(&self) -> &[u8] {
        &self.0
    }
}

// RFC 3279, 4055 and 5758, without what each has in common with its neighbours.
const PKCS1: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01];
const ECDSA_SHA2: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03];
const ECDSA_SHA1: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x01];
const SHA2: &[u8] = &[0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02];
const SHA1: &[u8] = &[0x2b, 0x0e, 0x03, 0x02, 0x1a];
const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];

/// The digest of the certificate's signature; SHA-256 in the place of MD5 and SHA-1.
fn signature_digest(certificate: &[u8]) -> Option<&'static digest::Algorithm> {
    let mut fields = Der::new(certificate).read(SEQUENCE)?;
    fields.read(SEQUENCE)?;
    let mut algorithm = fields.read(SEQUENCE)?;
    let oid = algorithm.read(OID)?.bytes();
    let (last, family) = oid.split_last()?;
    match (family, last) {
        _ if oid == ECDSA_SHA1 => Some(&digest::SHA256),
        (PKCS1, 4 | 5 | 11) | (ECDSA_SHA2, 2) => Some(&digest::SHA256),
        (PKCS1, 12) | (ECDSA_SHA2, 3) => Some(&digest::SHA384),
        (PKCS1, 13) | (ECDSA_SHA2, 4) => Some(&digest::SHA512),
        (PKCS1, 10) => pss_digest(algorithm.read(SEQUENCE)?),
        _ => None,
    }
}

/// The `hashAlgorithm` of RSASSA-PSS; SHA-1 where none is named (RFC 4055, section 3.1).
fn pss_digest(mut parameters: Der<'_>) -> Option<&'static digest::Algorithm> {
    const HASH_ALGORITHM: u8 = 0xa0;
    let Some(mut tagged) = parameters.read(HASH_ALGORITHM) else { return Some(&digest::SHA256) };
    let oid = tagged.read(SEQUENCE)?.read(OID)?.bytes();
    match oid.split_last()? {
        _ if oid == SHA1 => Some(&digest::SHA256),
        (1, SHA2) => Some(&digest::SHA256),
        (2, SHA2) => Some(&digest::SHA384),
        (3, SHA2) => Some(&digest::SHA512),
        _ => None,
    }
}

/// The last common name of a certificate's subject (in DER): PostgreSQL's `clientname=CN`.
/// `None` where there is none, or one with a zero byte in it or in an encoding of old.
pub fn common_name(certificate: &[u8]) -> Option<String> {
    const VERSION: u8 = 0xa0;
    const INTEGER: u8 = 0x02;
    let mut fields = Der::new(certificate).read(SEQUENCE)?.read(SEQUENCE)?;
    let _ = fields.read(VERSION);
    fields.read(INTEGER)?;
    // Signature algorithm, issuer, validity.
    for _ in 0..3 {
        fields.read(SEQUENCE)?;
    }
    let mut subject = fields.read(SEQUENCE)?;
    let mut found = None;
    while let Some(mut names) = subject.read(SET) {
        while let Some(mut pair) = names.read(SEQUENCE) {
            if pair.read(OID)?.bytes() == COMMON_NAME {
                found = Some(text(pair)?);
            }
        }
    }
    found
}

/// A directory string (RFC 5280, section 4.1.2.4).
fn text(mut value: Der<'_>) -> Option<String> {
    const UTF8_STRING: u8 = 0x0c;
    const PRINTABLE_STRING: u8 = 0x13;
    const IA5_STRING: u8 = 0x16;
    let bytes = [UTF8_STRING, PRINTABLE_STRING, IA5_STRING].into_iter();
    let bytes = bytes.filter_map(|tag| value.read(tag)).next()?.bytes();
    let text = str::from_utf8(bytes).ok()?;
    (!text.contains('\0')).then(|| text.to_owned())
}
