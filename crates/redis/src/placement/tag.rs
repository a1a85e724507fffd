//! The part of a key that counts, so that keys which belong together stay together.

use super::crc::crc16;

/// How many slots a Redis Cluster has.
pub const SLOTS: u16 = 16384;

/// What of a key is hashed: what stands between the first of the tag's first character and the next
/// of its second one. Without both, or with nothing between them, it is the whole key.
pub fn tagged(key: &[u8], tag: Option<[u8; 2]>) -> &[u8] {
    let Some([open, close]) = tag else { return key };
    let Some(start) = key.iter().position(|&byte| byte == open) else { return key };
    let after = &key[start + 1..];
    match after.iter().position(|&byte| byte == close) {
        Some(end) if end > 0 => &after[..end],
        _ => key,
    }
}

/// A key's slot in a Redis Cluster: Redis Cluster Specification, "Keys distribution model" and
/// "Hash tags".
pub fn slot(key: &[u8]) -> u16 {
    crc16(tagged(key, Some(*b"{}"))) % SLOTS
}
