//! Hashes that take several bytes at once.

use super::hash::widened;

/// Up to four bytes as a number, the first one lowest.
fn little(bytes: &[u8]) -> u32 {
    bytes.iter().rev().fold(0, |number, &byte| (number << 8) | u32::from(byte))
}

/// Paul Hsieh's SuperFastHash, from 0 on instead of the key's length. A third byte at the end is
/// widened with its sign.
pub fn hsieh(key: &[u8]) -> u32 {
    let mut hash = 0_u32;
    let mut fours = key.chunks_exact(4);
    for four in &mut fours {
        hash = hash.wrapping_add(little(&four[..2]));
        hash = (hash << 16) ^ (little(&four[2..]) << 11) ^ hash;
        hash = hash.wrapping_add(hash >> 11);
    }
    match *fours.remainder() {
        [first, second, third] => {
            hash = hash.wrapping_add(little(&[first, second]));
            hash ^= hash << 16;
            hash ^= widened(third) << 18;
            hash = hash.wrapping_add(hash >> 11);
        }
        [first, second] => {
            hash = hash.wrapping_add(little(&[first, second]));
            hash ^= hash << 11;
            hash = hash.wrapping_add(hash >> 17);
        }
        [only] => {
            hash = hash.wrapping_add(u32::from(only));
            hash ^= hash << 10;
            hash = hash.wrapping_add(hash >> 1);
        }
        _ => {}
    }
    hash ^= hash << 3;
    hash = hash.wrapping_add(hash >> 5);
    hash ^= hash << 4;
    hash = hash.wrapping_add(hash >> 17);
    hash ^= hash << 25;
    hash.wrapping_add(hash >> 6)
}

/// MurmurHash2 with a seed made from the key's length, as libmemcached has it.
pub fn murmur2(key: &[u8]) -> u32 {
    const MULTIPLIER: u32 = 0x5bd1_e995;
    // Of a longer key only the lower half of the length counts.
    let length = key.len() as u32;
    let mut hash = 0xdead_beef_u32.wrapping_mul(length) ^ length;
    let mut fours = key.chunks_exact(4);
    for four in &mut fours {
        let mut part = little(four).wrapping_mul(MULTIPLIER);
        part ^= part >> 24;
        hash = hash.wrapping_mul(MULTIPLIER) ^ part.wrapping_mul(MULTIPLIER);
    }
    let rest = fours.remainder();
    if !rest.is_empty() {
        hash = (hash ^ little(rest)).wrapping_mul(MULTIPLIER);
    }
    hash = (hash ^ (hash >> 13)).wrapping_mul(MULTIPLIER);
    hash ^ (hash >> 15)
}

/// Bob Jenkins's lookup3 (`hashlittle`) with 13 as its start.
pub fn jenkins(key: &[u8]) -> u32 {
    const BLOCK: usize = 12;
    let start = 0xdead_beef_u32.wrapping_add(key.len() as u32).wrapping_add(13);
    let mut state = [start; 3];
    let mut rest = key;
    while rest.len() > BLOCK {
        let (block, after) = rest.split_at(BLOCK);
        add(&mut state, block);
        mix(&mut state);
        rest = after;
    }
    if rest.is_empty() {
        return state[2];
    }
    add(&mut state, rest);
    finish(state)
}

/// Adds a block, or what is left of one, to the state.
fn add(state: &mut [u32; 3], block: &[u8]) {
    for (word, bytes) in state.iter_mut().zip(block.chunks(4)) {
        *word = word.wrapping_add(little(bytes));
    }
}

fn mix(state: &mut [u32; 3]) {
    let [mut a, mut b, mut c] = *state;
    for [first, second, third] in [[4, 6, 8], [16, 19, 4]] {
        a = a.wrapping_sub(c) ^ c.rotate_left(first);
        c = c.wrapping_add(b);
        b = b.wrapping_sub(a) ^ a.rotate_left(second);
        a = a.wrapping_add(c);
        c = c.wrapping_sub(b) ^ b.rotate_left(third);
        b = b.wrapping_add(a);
    }
    *state = [a, b, c];
}

fn finish([mut a, mut b, mut c]: [u32; 3]) -> u32 {
    c = (c ^ b).wrapping_sub(b.rotate_left(14));
    a = (a ^ c).wrapping_sub(c.rotate_left(11));
    b = (b ^ a).wrapping_sub(a.rotate_left(25));
    c = (c ^ b).wrapping_sub(b.rotate_left(16));
    a = (a ^ c).wrapping_sub(c.rotate_left(4));
    b = (b ^ a).wrapping_sub(a.rotate_left(14));
    (c ^ b).wrapping_sub(b.rotate_left(24))
}
