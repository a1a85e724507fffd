//! Which of several servers gets the next call: in proportion to their weights, and as evenly as
//! that allows (smooth weighted round robin, as nginx has it). The same begin gives the same order.

use crate::chance::Chance;

/// The turns of servers, in the order of their numbers.
#[derive(Debug, Clone)]
pub struct Balance {
    turns: Vec<Turn>,
    chance: Chance,
}

/// The turns of one server.
#[derive(Debug, Clone, Copy)]
struct Turn {
    weight: i64,
    /// What the server is owed, in weights of all: whoever is owed most is next.
    owed: i64,
}

impl Balance {
    /// Of no servers; threads with different numbers begin with different servers.
    pub fn new(thread: u64) -> Self {
        Self { turns: Vec::new(), chance: Chance::of(0, thread) }
    }

    /// Adds a server behind the others.
    pub fn push(&mut self, weight: u32) {
        let weight = i64::from(weight);
        // It does not begin before or behind all others, or all threads would send there at once.
        let owed = self.chance.below(weight.unsigned_abs() + 1).cast_signed();
        self.turns.push(Turn { weight, owed });
    }

    /// Takes a server out; those behind it have the next lower numbers.
    pub fn remove(&mut self, server: usize) {
        self.turns.remove(server);
    }

    /// Changes the weight of a server.
    pub fn set_weight(&mut self, server: usize, weight: u32) {
        self.turns[server].weight = i64::from(weight);
    }

    /// The next server among those that take calls; nothing where none does. What one misses
    /// meanwhile, it is not owed.
    pub fn next(&mut self, takes_calls: impl Fn(usize) -> bool) -> Option<usize> {
        let of_takers = |(server, turn): (usize, &Turn)| takes_calls(server).then_some(turn.weight);
        let sum: i64 = self.turns.iter().enumerate().filter_map(of_takers).sum();
        let mut best: Option<(usize, i64)> = None;
        for (server, turn) in self.turns.iter_mut().enumerate() {
            if !takes_calls(server) {
                continue;
            }
            // Beyond the sum is only what was owed among others, who are down or gone now.
            turn.owed = (turn.owed + turn.weight).clamp(-sum, sum);
            if best.is_none_or(|(_, most)| turn.owed > most) {
                best = Some((server, turn.owed));
            }
        }
        let (server, _) = best?;
        self.turns[server].owed -= sum;
        Some(server)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::Balance;

    fn of(weights: &[u32], thread: u64) -> Balance {
        let mut balance = Balance::new(thread);
        weights.iter().for_each(|weight| balance.push(*weight));
        balance
    }

    /// How often each of them is next.
    fn counts(balance: &mut Balance, servers: usize, calls: usize, takes: &[bool]) -> Vec<usize> {
        let mut counts = vec![0; servers];
        for _ in 0..calls {
            counts[balance.next(|server| takes[server]).unwrap()] += 1;
        }
        counts
    }

    #[test]
    fn a_heavy_one_is_not_called_many_times_in_a_row() {
        let mut balance = of(&[200, 100], 0);
        let order: Vec<_> = (0..9).map(|_| balance.next(|_| true).unwrap()).collect();
        assert!(order.windows(3).all(|three| three.contains(&1)), "{order:?}");
        assert_eq!(order.iter().filter(|server| **server == 1).count(), 3);
    }

    #[test]
    fn the_order_is_the_same_each_time_and_threads_begin_elsewhere() {
        let order = |thread| {
            let mut balance = of(&[1; 50], thread);
            (0..20).map(|_| balance.next(|_| true).unwrap()).collect::<Vec<_>>()
        };
        assert_eq!(order(3), order(3));
        assert_eq!(balance_of_none().next(|_| true), None);
        let firsts: Vec<_> = (0..8).map(|thread| of(&[100; 5], thread).next(|_| true)).collect();
        assert!(firsts.iter().any(|first| *first != firsts[0]), "{firsts:?}");
    }

    fn balance_of_none() -> Balance {
        Balance::new(0)
    }

    proptest! {
        /// The calls of each are its share by weight, within 1 % of all calls, whoever is down,
        /// whoever comes or goes, and whatever was before.
        #[test]
        fn calls_are_spread_by_weights(
            weights in prop::collection::vec(1_u32..1000, 1..12),
            down in prop::collection::vec(any::<bool>(), 12),
            other in 1_u32..1000,
            gone in any::<prop::sample::Index>(),
            thread in any::<u64>(),
        ) {
            const CALLS: usize = 10_000;
            let mut weights = weights;
            let mut balance = of(&weights, thread);
            let takes = |all: &[bool], len: usize| {
                let mut takes: Vec<_> = all[..len].iter().map(|down| !down).collect();
                takes[0] = true;
                takes
            };
            let own = takes(&down, weights.len());
            counts(&mut balance, weights.len(), 777, &own);
            // One goes, one comes, and one has another weight.
            let gone = gone.index(weights.len());
            weights.remove(gone);
            balance.remove(gone);
            weights.push(other);
            balance.push(other);
            weights[0] = 1001 - other;
            balance.set_weight(0, 1001 - other);
            let own = takes(&down, weights.len());
            let counts = counts(&mut balance, weights.len(), CALLS, &own);
            let taking = weights.iter().zip(&own).filter(|(_, takes)| **takes);
            let sum: u32 = taking.map(|(weight, _)| weight).sum();
            for ((weight, takes), count) in weights.iter().zip(&own).zip(&counts) {
                let share = if *takes { f64::from(*weight) / f64::from(sum) } else { 0.0 };
                let found = *count as f64 / CALLS as f64;
                prop_assert!((found - share).abs() <= 0.01, "{weights:?} {own:?}: {counts:?}");
            }
        }
    }
}
