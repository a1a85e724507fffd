//! A key as 32 bits.

use md5::{Digest, Md5};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::crc::{crc16_wide, crc32};
use super::mixed::{hsieh, jenkins, murmur2};

/// How a key becomes the number that a distribution works with. The names are twemproxy's.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Hash {
    /// Bob Jenkins's one-at-a-time hash.
    OneAtATime,
    /// The first four bytes of the MD5 sum.
    Md5,
    /// The sum of CRC-16, with what a register of 32 bits keeps above it.
    Crc16,
    /// Fifteen bits out of the CRC-32, for keys that libmemcached placed. Prefer `crc32a`.
    Crc32,
    /// The CRC-32 that the rest of the world knows.
    Crc32a,
    /// The lower half of FNV-1's 64 bits.
    #[serde(rename = "fnv1_64")]
    Fnv1_64,
    /// FNV-1a with the lower half of the start and of the prime for 64 bits. The default.
    #[default]
    #[serde(rename = "fnv1a_64")]
    Fnv1a64,
    /// FNV-1 with 32 bits.
    #[serde(rename = "fnv1_32")]
    Fnv1_32,
    /// FNV-1a with 32 bits.
    #[serde(rename = "fnv1a_32")]
    Fnv1a32,
    /// SuperFastHash, by Paul Hsieh.
    Hsieh,
    /// MurmurHash2, by Austin Appleby.
    Murmur,
    /// lookup3, by Bob Jenkins.
    Jenkins,
}

/// FNV's start and prime for 64 bits, of which only the lower halves reach the lower half of a
/// product.
const FNV_64_START: u32 = 0x8422_2325;
const FNV_64_PRIME: u32 = 0x01b3;
const FNV_32_START: u32 = 0x811c_9dc5;
const FNV_32_PRIME: u32 = 0x0100_0193;

impl Hash {
    /// All of them, in twemproxy's order.
    pub const ALL: [Self; 12] = [
        Self::OneAtATime,
        Self::Md5,
        Self::Crc16,
        Self::Crc32,
        Self::Crc32a,
        Self::Fnv1_64,
        Self::Fnv1a64,
        Self::Fnv1_32,
        Self::Fnv1a32,
        Self::Hsieh,
        Self::Murmur,
        Self::Jenkins,
    ];

    /// The name in `nutcracker.yml`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::OneAtATime => "one_at_a_time",
            Self::Md5 => "md5",
            Self::Crc16 => "crc16",
            Self::Crc32 => "crc32",
            Self::Crc32a => "crc32a",
            Self::Fnv1_64 => "fnv1_64",
            Self::Fnv1a64 => "fnv1a_64",
            Self::Fnv1_32 => "fnv1_32",
            Self::Fnv1a32 => "fnv1a_32",
            Self::Hsieh => "hsieh",
            Self::Murmur => "murmur",
            Self::Jenkins => "jenkins",
        }
    }

    /// The hash of a key, of which the caller has cut the tag out. The empty key's is 0 by any of
    /// them: twemproxy hashes nothing there.
    pub fn of(self, key: &[u8]) -> u32 {
        if key.is_empty() {
            return 0;
        }
        match self {
            Self::OneAtATime => one_at_a_time(key),
            Self::Md5 => {
                let sum = Md5::digest(key);
                u32::from_le_bytes([sum[0], sum[1], sum[2], sum[3]])
            }
            Self::Crc16 => crc16_wide(key),
            Self::Crc32 => (crc32(key) >> 16) & 0x7fff,
            Self::Crc32a => crc32(key),
            Self::Fnv1_64 => fnv1(key, FNV_64_START, FNV_64_PRIME),
            Self::Fnv1a64 => fnv1a(key, FNV_64_START, FNV_64_PRIME),
            Self::Fnv1_32 => fnv1(key, FNV_32_START, FNV_32_PRIME),
            Self::Fnv1a32 => fnv1a(key, FNV_32_START, FNV_32_PRIME),
            Self::Hsieh => hsieh(key),
            Self::Murmur => murmur2(key),
            Self::Jenkins => jenkins(key),
        }
    }
}

/// A byte as C widens a signed `char`: from 0x80 on, the upper bits are set.
pub fn widened(byte: u8) -> u32 {
    i32::from(byte.cast_signed()).cast_unsigned()
}

fn one_at_a_time(key: &[u8]) -> u32 {
    let mut hash = key.iter().fold(0_u32, |hash, &byte| {
        let hash = hash.wrapping_add(widened(byte));
        let hash = hash.wrapping_add(hash << 10);
        hash ^ (hash >> 6)
    });
    hash = hash.wrapping_add(hash << 3);
    hash ^= hash >> 11;
    hash.wrapping_add(hash << 15)
}

fn fnv1(key: &[u8], start: u32, prime: u32) -> u32 {
    key.iter().fold(start, |hash, &byte| hash.wrapping_mul(prime) ^ widened(byte))
}

fn fnv1a(key: &[u8], start: u32, prime: u32) -> u32 {
    key.iter().fold(start, |hash, &byte| (hash ^ widened(byte)).wrapping_mul(prime))
}
