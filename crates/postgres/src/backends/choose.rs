//! Which of several backends takes the next read.

use crate::settings::Spread;

/// A backend that could take it, as one worker sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Candidate {
    /// Statements that this worker has in flight there.
    pub in_flight: usize,
    /// How much it is to take in proportion to the others.
    pub weight: u32,
    /// The measured round trip to it, in microseconds.
    pub round_trip_us: u32,
}

/// Round trips that differ by less than this are the same distance, in microseconds.
const NEAR_US: u32 = 250;

/// The place of the one that takes it among `count` candidates; `None` where there is none.
///
/// `turn` is another number each time: those that are equally good take turns by their weight.
/// Candidates of weight 0 take it where there are no others. Nothing is allocated; `candidate` is
/// called up to three times for each.
pub fn choose(
    spread: Spread,
    turn: u32,
    count: usize,
    candidate: impl Fn(usize) -> Option<Candidate>,
) -> Option<usize> {
    let all = || (0..count).filter_map(|at| candidate(at).map(|found| (at, found)));
    let weighed = all().any(|(_, found)| found.weight > 0);
    let wanted = |found: &Candidate| !weighed || found.weight > 0;
    let far_us = match spread {
        Spread::InFlight => u32::MAX,
        Spread::Nearest => {
            let nearest = all().filter(|(_, found)| wanted(found)).map(|(_, c)| c.round_trip_us);
            let nearest = nearest.min()?;
            nearest.saturating_add(nearest / 2).saturating_add(NEAR_US)
        }
    };
    let near = || all().filter(|(_, c)| wanted(c) && c.round_trip_us <= far_us);

    let mut best: Option<Candidate> = None;
    let mut shares = 0;
    for (_, found) in near() {
        match best.map(|best| load(&found, &best).cmp(&load(&best, &found))) {
            Some(std::cmp::Ordering::Greater) => {}
            Some(std::cmp::Ordering::Equal) => shares += share(&found),
            Some(std::cmp::Ordering::Less) | None => (best, shares) = (Some(found), share(&found)),
        }
    }
    let best = best?;
    let mut left = turn % shares;
    for (at, found) in near() {
        if load(&found, &best) != load(&best, &found) {
            continue;
        }
        match left.checked_sub(share(&found)) {
            None => return Some(at),
            Some(rest) => left = rest,
        }
    }
    // Counts that changed between the two looks; the first will do.
    near().map(|(at, _)| at).next()
}

/// In flight for its weight, to be compared with the same of the other.
fn load(one: &Candidate, other: &Candidate) -> u64 {
    (one.in_flight as u64).saturating_mul(u64::from(share(other)))
}

fn share(candidate: &Candidate) -> u32 {
    candidate.weight.max(1)
}

#[cfg(test)]
mod tests {
    use super::{Candidate, choose};
    use crate::settings::Spread;
    use proptest::prelude::*;

    fn of(in_flight: usize, weight: u32, round_trip_us: u32) -> Candidate {
        Candidate { in_flight, weight, round_trip_us }
    }

    fn chosen(spread: Spread, turn: u32, all: &[Candidate]) -> Option<usize> {
        choose(spread, turn, all.len(), |at| Some(all[at]))
    }

    /// How many of `turns` each one takes, while none has anything in flight for long.
    fn taken(spread: Spread, turns: u32, all: &[Candidate]) -> Vec<u32> {
        let mut counts = vec![0; all.len()];
        (0..turns).for_each(|turn| counts[chosen(spread, turn, all).unwrap()] += 1);
        counts
    }

    #[test]
    fn the_idle_take_turns_by_weight() {
        let all = [of(0, 1, 0), of(0, 3, 0), of(0, 0, 0)];
        assert_eq!(taken(Spread::InFlight, 40, &all), [10, 30, 0]);
        assert_eq!(taken(Spread::InFlight, 7, &[of(0, 0, 0)]), [7]);
        assert_eq!(chosen(Spread::InFlight, 0, &[]), None);
    }

    #[test]
    fn the_least_loaded_for_its_weight_is_next() {
        assert_eq!(chosen(Spread::InFlight, 5, &[of(3, 1, 0), of(2, 1, 0)]), Some(1));
        assert_eq!(chosen(Spread::InFlight, 5, &[of(3, 2, 0), of(2, 1, 0)]), Some(0));
    }

    /// What each of two servers has answered after a while, when `clients` ask again as soon as
    /// they are answered, which each does with so many at a time.
    fn answered(clients: usize, at_a_time: [usize; 2]) -> [usize; 2] {
        let (mut in_flight, mut answered, mut turn) = ([0; 2], [0; 2], 0);
        let mut ask = |in_flight: &mut [usize; 2]| {
            turn += 1;
            let all = in_flight.map(|n| of(n, 1, 0));
            in_flight[chosen(Spread::InFlight, turn, &all).unwrap()] += 1;
        };
        (0..clients).for_each(|_| ask(&mut in_flight));
        for _ in 0..1_000 {
            let done: [usize; 2] = std::array::from_fn(|at| in_flight[at].min(at_a_time[at]));
            for at in 0..2 {
                in_flight[at] -= done[at];
                answered[at] += done[at];
            }
            (0..done[0] + done[1]).for_each(|_| ask(&mut in_flight));
        }
        answered
    }

    #[test]
    fn equal_ones_answer_equally_many_under_load() {
        for clients in [1, 2, 3, 8, 64, 256] {
            for at_a_time in [1, 4, 16] {
                let [a, b] = answered(clients, [at_a_time; 2]);
                let share = a as f64 / (a + b) as f64;
                assert!((0.49..=0.51).contains(&share), "{clients} {at_a_time}: {share}");
            }
        }
    }

    #[test]
    fn a_slow_one_answers_what_it_can_and_keeps_the_other_busy() {
        assert_eq!(answered(64, [1, 8]), [1_000, 8_000]);
        let [hung, other] = answered(8, [0, 4]);
        assert!(hung == 0 && other > 500, "{other}");
    }

    #[test]
    fn the_far_are_asked_only_where_nobody_is_near() {
        let all = [of(90, 1, 300), of(80, 1, 500), of(0, 1, 9000)];
        assert_eq!(taken(Spread::Nearest, 4, &all), [0, 4, 0]);
        assert_eq!(taken(Spread::InFlight, 4, &all), [0, 0, 4]);
        assert_eq!(chosen(Spread::Nearest, 0, &all[2..]), Some(0));
    }

    proptest! {
        #[test]
        fn whoever_is_there_is_found_and_nobody_better_is_left_out(
            all in prop::collection::vec((0usize..50, 0u32..5, 0u32..5000), 1..8),
            turn: u32,
        ) {
            let all: Vec<_> = all.into_iter().map(|(n, w, r)| of(n, w, r)).collect();
            let one = all[chosen(Spread::InFlight, turn, &all).unwrap()];
            let load = |c: &Candidate| c.in_flight as f64 / f64::from(c.weight.max(1));
            if all.iter().any(|other| other.weight > 0) {
                prop_assert!(one.weight > 0);
                let others = all.iter().filter(|other| other.weight > 0);
                prop_assert!(others.map(load).all(|other| load(&one) <= other));
            }
            prop_assert!(chosen(Spread::Nearest, turn, &all).is_some());
        }
    }
}
