//! What holds in every world, and in one where nothing is on its way.

use super::super::TransactionStanding;
use super::connections::Lease;
use super::script::{Input, expected};
use super::server::Deed;
use super::world::World;

impl World {
    /// Its own answers, in order, once; and what was run was run as a whole, and as it was said.
    pub(super) fn check(&self) {
        let text = self.text();
        let numbers = text.split_terminator('.').map(|of| of[of.len() - 1..].parse().unwrap());
        let numbers: Vec<usize> = numbers.collect();
        let wanted: Vec<usize> = (0..numbers.len()).collect();
        assert_eq!(numbers, wanted, "{self:?}");
        assert!(!text.contains("-none"), "{self:?}");
        for deed in &self.deeds {
            match deed {
                Deed::Plain { number, caches } => {
                    self.check_caching(*caches, *number);
                }
                Deed::Run { exec, steps, watched, caches } => {
                    let wanted = expected(&self.said, *exec);
                    assert!(!wanted.is_aborted, "{self:?}");
                    assert_eq!(*steps, wanted.steps, "{self:?}");
                    self.check_caching(*caches, wanted.multi);
                    let granted = |of: &&usize| text.contains(&format!("+ok{of}."));
                    let is_lost = |of: &usize| !watched.contains(of);
                    assert!(!wanted.watches.iter().filter(granted).any(is_lost), "{self:?}");
                }
            }
        }
        for (at, deed) in self.deeds.iter().enumerate() {
            let is_ping = |number: &usize| self.said[*number] == Input::Ping;
            let is_of_all = |of: &Deed| matches!(of, Deed::Plain { number, .. } if is_ping(number));
            let is_new = !self.deeds[..at].contains(deed);
            assert!(is_new || is_of_all(deed), "{self:?} runs twice");
        }
    }

    /// `CLIENT CACHING` held for the command, or the `MULTI`, that it was said for, and for nothing
    /// else; for nothing at all where a server has refused to tell of keys.
    fn check_caching(&self, caches: bool, number: usize) {
        let is_wanted = self.cached.contains(&number);
        let may_be = if caches { self.is_astray } else { self.is_untold };
        assert!(caches == is_wanted || may_be, "{self:?} {number}");
    }

    /// Nothing is on its way, and nothing that the client says is.
    pub fn is_at_rest(&self) -> bool {
        let is_idle = |lease: &Lease| match lease {
            Lease::Held(of) => of.is_idle(),
            lease => *lease != Lease::Opening,
        };
        self.pending.is_empty() && self.leases.iter().all(is_idle)
    }

    /// Whoever has no transaction has no connection for one, and nothing of one is left.
    pub fn check_rest(&self) {
        assert!(self.line.is_empty() || self.is_closed, "{self:?}");
        if self.is_closed {
            return;
        }
        let standing = self.machine.standing();
        let watches = expected(&self.said, self.said.len()).watches;
        let is_granted = watches.iter().any(|of| self.text().contains(&format!("+ok{of}.")));
        let is_watching = matches!(standing, TransactionStanding::Watching { .. });
        let is_without = standing == TransactionStanding::None;
        assert!(!is_watching || is_granted, "{self:?} watches nothing");
        assert!(!is_without || !is_granted, "{self:?} watches no more");
        for lease in &self.leases {
            if let (Lease::Held(of), true) = (lease, is_without) {
                assert!(self.machine.tracks(), "{self:?}: a connection is held for nothing");
                assert!(of.is_without_transaction(), "{self:?} leaves {of:?}");
            }
        }
    }
}
