//! Which server of a ring a key belongs to, as a worker goes by it.

use std::sync::Arc;

use crate::fleet::Spread;
use crate::placement::{Distribution, Ring, tagged};

/// Which server a key belongs to.
#[derive(Debug)]
pub(super) struct Placing {
    spread: Arc<Spread>,
    /// Those that have keys, by their places in the spread.
    live: Vec<bool>,
    ring: Ring,
}

impl Placing {
    /// With all servers live; `None` where none has any weight.
    pub(super) fn new(spread: &Arc<Spread>) -> Option<Self> {
        let live = vec![true; spread.shares.len()];
        let ring = spread.ring(&|_| true)?;
        Some(Self { spread: Arc::clone(spread), live, ring })
    }

    /// The same among those servers that are live, by their numbers; where none of them has any
    /// weight, as it was. Whether others have keys by that than before.
    pub(super) fn set_live(&mut self, live: &[bool]) -> bool {
        let shares = self.spread.shares.iter();
        let live: Vec<bool> = shares.map(|of| live.get(of.server) == Some(&true)).collect();
        let Some(ring) = self.spread.ring(&|of| live.get(of) == Some(&true)) else { return false };
        self.ring = ring;
        std::mem::replace(&mut self.live, live) != self.live
    }

    pub(super) fn distribution(&self) -> Distribution {
        self.spread.hashing.distribution
    }

    /// Whether a server has keys now.
    pub(super) fn is_live(&self, server: usize) -> bool {
        let mut shares = self.spread.shares.iter().zip(&self.live);
        shares.any(|(of, is_live)| of.server == server && *is_live)
    }

    /// The number of a key's server.
    pub(super) fn server_of(&self, key: &[u8]) -> usize {
        if let [only] = &*self.spread.shares {
            return only.server;
        }
        let hashing = &self.spread.hashing;
        let hash = match hashing.distribution {
            Distribution::Random => rand::random(),
            _ => hashing.hash.of(tagged(key, hashing.tag)),
        };
        // The ring has no other places.
        self.spread.shares.get(self.ring.server_of(hash)).map_or(0, |of| of.server)
    }
}
