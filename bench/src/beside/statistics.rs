//! The median of some ratios, and between what it lies.

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::report::median;

/// Samples that are drawn anew from the ratios.
const SAMPLES: usize = 10_000;
/// Of these lie below the interval, and as many above it: it holds 95 %.
const BELOW: f64 = 0.025;
/// What chance begins with, so that the same ratios always have the same interval.
const SEED: u64 = 20;

/// A median and its 95 % interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// The middle of the ratios.
    pub median: f64,
    /// Where the interval begins.
    pub low: f64,
    pub high: f64,
}

/// The bootstrap by percentiles: of so many ratios drawn with repetition the median is taken, again
/// and again; the middle 95 % of these medians are the interval. `None` where there are no ratios.
pub fn estimate(ratios: &[f64]) -> Option<Estimate> {
    estimate_by(SAMPLES, ratios)
}

fn estimate_by(samples: usize, ratios: &[f64]) -> Option<Estimate> {
    if ratios.is_empty() {
        return None;
    }
    let mut chance = StdRng::seed_from_u64(SEED);
    let mut drawn = vec![0.0; ratios.len()];
    let mut medians: Vec<f64> = (0..samples)
        .map(|_| {
            drawn.fill_with(|| ratios[chance.random_range(0..ratios.len())]);
            median(&drawn)
        })
        .collect();
    medians.sort_by(f64::total_cmp);
    let at = |share: f64| medians[((samples - 1) as f64 * share).round() as usize];
    Some(Estimate { median: median(ratios), low: at(BELOW), high: at(1.0 - BELOW) })
}

#[cfg(test)]
mod tests {
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    use super::{estimate, estimate_by};

    /// Ratios around `middle`, as the sum of three chances: something like a bell.
    fn ratios(chance: &mut StdRng, middle: f64, count: usize) -> Vec<f64> {
        let one = |chance: &mut StdRng| {
            (0..3).map(|_| chance.random_range(-0.01..0.01)).sum::<f64>() + middle
        };
        (0..count).map(|_| one(chance)).collect()
    }

    #[test]
    fn equal_ratios_leave_no_doubt() {
        let all = estimate(&[1.01; 30]).unwrap();
        assert_eq!([all.median, all.low, all.high], [1.01; 3]);
        assert!(estimate(&[]).is_none());
    }

    #[test]
    fn the_same_ratios_have_the_same_interval() {
        let all = ratios(&mut StdRng::seed_from_u64(1), 1.0, 30);
        assert_eq!(estimate(&all), estimate(&all));
    }

    #[test]
    fn the_interval_holds_the_truth_in_about_95_of_100_runs() {
        let mut chance = StdRng::seed_from_u64(2);
        let holds = (0..200).filter(|_| {
            // Fewer samples than are drawn elsewhere, for the sake of time.
            let all = estimate_by(400, &ratios(&mut chance, 1.02, 30)).unwrap();
            all.low <= 1.02 && 1.02 <= all.high
        });
        let share = holds.count() as f64 / 200.0;
        assert!((0.90..=0.99).contains(&share), "{share}");
    }

    #[test]
    fn more_rounds_make_it_narrower_and_an_outlier_does_not_move_it() {
        let mut chance = StdRng::seed_from_u64(3);
        let mut many = ratios(&mut chance, 1.0, 120);
        let width = |ratios: &[f64]| estimate(ratios).map(|all| all.high - all.low).unwrap();
        assert!(width(&many) < width(&many[..20]));
        let before = estimate(&many).unwrap();
        many[7] = 30.0;
        let after = estimate(&many).unwrap();
        assert!((before.median - after.median).abs() < 0.001);
        assert!(after.high < 1.01, "{after:?}");
    }
}
