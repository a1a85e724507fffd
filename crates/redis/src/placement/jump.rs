//! Jump consistent hash (Lamping and Veach, 2014), by weights, with servers that may be away.

use super::shares::Shares;

/// How often a key is thrown again before the next server that lives takes it.
const THROWS_MAX: u64 = 64;

/// Buckets of all members, those that are away among them, so that nobody else's keys move.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Buckets {
    shares: Shares,
    /// Whether each member lives, by its number.
    live: Vec<bool>,
}

impl Buckets {
    /// The weights of all members. `None` if nobody with a weight lives.
    pub fn new(weights: &[u32], live: Vec<bool>) -> Option<Self> {
        weights.iter().zip(&live).find(|(weight, live)| **weight > 0 && **live)?;
        let shares = Shares::new(weights.iter().copied().enumerate())?;
        Some(Self { shares, live })
    }

    /// Who has a key. Only the keys of those that are away go elsewhere, spread by weight.
    pub fn at(&self, hash: u32) -> usize {
        let total = self.shares.total();
        let mut place = 0;
        for throw in 0..THROWS_MAX {
            place = bucket(spread(u64::from(hash) | (throw << 32)), total);
            let member = self.shares.at(place);
            if self.live[member] {
                return member;
            }
        }
        self.next_live(self.shares.at(place))
    }

    fn next_live(&self, away: usize) -> usize {
        let members = self.live.len();
        let after = (1..=members).map(|step| (away + step) % members);
        after.into_iter().find(|&member| self.live[member]).unwrap_or(away)
    }
}

/// The bucket of a key, below `buckets`, in about ln(`buckets`) steps.
pub fn bucket(mut key: u64, buckets: u64) -> u64 {
    let (mut last, mut next) = (0_u64, 0_u64);
    while next < buckets {
        last = next;
        key = key.wrapping_mul(2_862_933_555_777_941_757).wrapping_add(1);
        let step = (1_u64 << 31) as f64 / ((key >> 33) + 1) as f64;
        next = ((last + 1) as f64 * step) as u64;
    }
    last
}

/// 64 bits out of fewer, each of which depends on all: the end of splitmix64.
fn spread(number: u64) -> u64 {
    let number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}
