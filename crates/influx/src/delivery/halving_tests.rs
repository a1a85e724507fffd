use std::collections::BTreeSet;

use super::*;
use proptest::prelude::{any, prop_assert, prop_assert_eq, proptest};

/// A backend that refuses some points, fails at others and takes the rest.
#[derive(Default)]
struct Backend {
    refused: BTreeSet<u32>,
    crashing: BTreeSet<u32>,
    largest: usize,
    /// Everything that was stored, in order.
    stored: Vec<u32>,
    sends: usize,
    hints: bool,
    wrong_hint: Option<u32>,
}

impl Backend {
    fn take(&mut self, points: &[u32]) -> Outcome {
        self.sends += 1;
        if points.len() > self.largest {
            return Outcome::TooLarge("too large".into());
        }
        if points.iter().any(|point| self.crashing.contains(point)) {
            return Outcome::Failed("crashed".into());
        }
        let bad: Vec<u32> =
            points.iter().copied().filter(|point| self.refused.contains(point)).collect();
        if bad.is_empty() {
            self.stored.extend_from_slice(points);
            return Outcome::Accepted;
        }
        // As InfluxDB: the good points of a refused batch are stored nevertheless.
        self.stored.extend(points.iter().filter(|point| !self.refused.contains(point)));
        let all = bad.len() == points.len();
        let mut suspects = if self.hints { bad } else { Vec::new() };
        suspects.extend(self.wrong_hint);
        suspects.sort_unstable();
        suspects.dedup();
        Outcome::Refused { words: "refused".into(), all, suspects }
    }

    fn run(&mut self, points: u32) -> (Halving, Vec<u32>) {
        let mut halving = Halving::new(points);
        let mut dead = Vec::new();
        loop {
            let outcome = match halving.step() {
                Step::Finished => return (halving, dead),
                Step::Send(points) => self.take(points),
                Step::Canary { .. } => Outcome::Accepted,
            };
            dead.extend(halving.settle(outcome).into_iter().map(|poison| poison.point));
            assert!(self.sends < 1_000_000, "never ends");
        }
    }
}

/// The points in the order in which the backend saw each of them last.
fn last_arrivals(stored: &[u32]) -> Vec<u32> {
    let mut seen = BTreeSet::new();
    let mut last: Vec<u32> =
        stored.iter().rev().copied().filter(|point| seen.insert(*point)).collect();
    last.reverse();
    last
}

proptest! {
    #[test]
    fn good_points_arrive_in_order_and_each_bad_one_is_found(
        count in 1_u32..400,
        refused in proptest::collection::btree_set(0_u32..400, 0..12),
        crashing in proptest::collection::btree_set(0_u32..400, 0..6),
        largest in 1_usize..500,
        hints in any::<bool>(),
        wrong_hint in proptest::option::of(0_u32..400),
    ) {
        let refused: BTreeSet<u32> = refused.into_iter().filter(|point| *point < count).collect();
        let crashing: BTreeSet<u32> = crashing.into_iter().filter(|p| *p < count).collect();
        let bad: Vec<u32> = refused.union(&crashing).copied().collect();
        let mut backend = Backend {
            refused: refused.clone(), crashing: crashing.clone(), largest, hints, wrong_hint,
            ..Backend::default()
        };
        let (halving, mut dead) = backend.run(count);
        dead.sort_unstable();
        prop_assert_eq!(&dead, &bad);
        let good: Vec<u32> = (0..count).filter(|point| !bad.contains(point)).collect();
        prop_assert_eq!(halving.delivered(), good.len() as u64);
        prop_assert_eq!(last_arrivals(&backend.stored), good);
        let depth = 1 + count.ilog2() as usize + 1;
        let chunks = count as usize / largest + 1;
        // Each crashing point is tried twice on every level and then in rounds.
        let bound = 4 * chunks + 2 * refused.len() * depth
            + crashing.len() * (4 * depth + usize::from(ROUNDS) + 2)
            + (refused.len() + 1) * 3;
        prop_assert!(backend.sends <= 2 * bound, "{} sends, bound {}", backend.sends, 2 * bound);
    }

    #[test]
    fn a_backend_that_fails_at_everything_makes_no_poison(
        count in 1_u32..40, tries in 0_usize..400,
    ) {
        let mut halving = Halving::new(count);
        for _ in 0..tries {
            assert_eq!(halving.settle(Outcome::Failed("down".into())), []);
        }
        let (mut backend, mut points) = (Backend { largest: 99, ..Backend::default() }, 0);
        loop {
            let outcome = match halving.step() {
                Step::Finished => break,
                Step::Canary { .. } => Outcome::Failed("down".into()),
                Step::Send(part) => {
                    let part = part.to_vec();
                    points += part.len();
                    backend.take(&part)
                }
            };
            assert_eq!(halving.settle(outcome), []);
        }
        prop_assert_eq!(points as u32, count);
        prop_assert_eq!(backend.stored, (0..count).collect::<Vec<_>>());
    }
}

#[test]
fn one_bad_point_among_ten_thousand_costs_two_sends_a_level() {
    let mut backend = Backend { refused: [7_777].into(), largest: 99_999, ..Backend::default() };
    let (_, dead) = backend.run(10_000);
    assert_eq!(dead, [7_777]);
    assert!(backend.sends <= 29, "{}", backend.sends);
}

#[test]
fn every_second_point_bad_costs_three_sends_when_the_words_tell_which() {
    let refused: BTreeSet<u32> = (0..10_000).filter(|point| point % 2 == 0).collect();
    let mut backend = Backend { refused, largest: 99_999, hints: true, ..Backend::default() };
    let (halving, dead) = backend.run(10_000);
    assert_eq!((halving.delivered(), dead.len(), backend.sends), (5_000, 5_000, 3));
}

#[test]
fn a_batch_dropped_whole_is_dead_at_once() {
    let mut backend = Backend { refused: (0..500).collect(), largest: 999, ..Backend::default() };
    let (_, dead) = backend.run(500);
    assert_eq!((dead.len(), backend.sends), (500, 1));
}

#[test]
fn without_another_series_a_failing_point_waits_for_ever() {
    let mut halving = Halving::new(1);
    for _ in 0..1_000 {
        let outcome = match halving.step() {
            Step::Canary { .. } => Outcome::NoCanary,
            _ => Outcome::Failed("500".into()),
        };
        assert_eq!(halving.settle(outcome), []);
    }
    assert_eq!(halving.step(), Step::Canary { beside: 0 });
    halving.settle(Outcome::NoCanary);
    halving.settle(Outcome::Accepted);
    assert_eq!(halving.step(), Step::Finished);
}

#[test]
fn overload_halves_but_never_blames() {
    let mut halving = Halving::new(8);
    for _ in 0..100 {
        assert_eq!(halving.settle(Outcome::Overloaded), []);
        assert!(matches!(halving.step(), Step::Send(_)));
    }
    assert_eq!(halving.step(), Step::Send(&[0]));
}
