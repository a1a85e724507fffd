use ring::digest::{SHA256, SHA384, digest};

use super::*;
use crate::auth::common_name;

#[test]
fn the_digest_is_that_of_the_certificates_signature() {
    let p256 = certificate("weir", &rcgen::PKCS_ECDSA_P256_SHA256);
    assert_eq!(binding(&p256).digest(), digest(&SHA256, &p256).as_ref());
    let p384 = certificate("weir", &rcgen::PKCS_ECDSA_P384_SHA384);
    assert_eq!(binding(&p384).digest(), digest(&SHA384, &p384).as_ref());
    // It has no digest of its own; PostgreSQL does not bind to it either.
    assert_eq!(ChannelBinding::of(&certificate("weir", &rcgen::PKCS_ED25519)), None);
}

#[test]
fn a_certificate_names_its_user() {
    for name in ["ann", "Ann Müller", "a,b=c"] {
        let certificate = certificate(name, &rcgen::PKCS_ECDSA_P256_SHA256);
        assert_eq!(common_name(&certificate).as_deref(), Some(name));
    }
    let hidden = certificate("ann\0.example", &rcgen::PKCS_ECDSA_P256_SHA256);
    assert_eq!(common_name(&hidden), None);
}

#[test]
fn a_certificate_that_is_cut_is_none() {
    let whole = certificate("ann", &rcgen::PKCS_ECDSA_P256_SHA256);
    for end in 0..whole.len() {
        assert_eq!(common_name(&whole[..end]), None);
        assert_eq!(ChannelBinding::of(&whole[..end]), None);
    }
}
