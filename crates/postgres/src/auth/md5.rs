//! PostgreSQL's md5 authentication: old, but servers and clients of ten years speak nothing else.

use md5::{Digest, Md5};

use super::Md5Verifier;

/// The digest of all parts, one behind the other, in hexadecimal digits.
pub(super) fn hex(parts: &[&[u8]]) -> Vec<u8> {
    let mut digest = Md5::new();
    for part in parts {
        digest.update(part);
    }
    let digits = b"0123456789abcdef";
    let nibbles = |byte: u8| [digits[usize::from(byte >> 4)], digits[usize::from(byte & 15)]];
    digest.finalize().into_iter().flat_map(nibbles).collect()
}

/// What a client answers to AuthenticationMD5Password.
pub(super) fn answer(verifier: &Md5Verifier, salt: [u8; 4]) -> Vec<u8> {
    let mut answer = b"md5".to_vec();
    answer.extend(hex(&[verifier.digest.expose(), &salt]));
    answer
}
