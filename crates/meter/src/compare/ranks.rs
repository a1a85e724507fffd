//! Two samples held against each other without any assumption on what they are distributed like:
//! the exact test of Mann and Whitney (Annals of Mathematical Statistics 18, 1947), and the shift
//! of Hodges and Lehmann (34, 1963) with the interval that belongs to that test.

/// How sure the interval is, at least.
const CONFIDENCE: f64 = 0.95;

/// What sets the second sample apart from the first.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Difference {
    /// The middle of the first sample.
    pub first: f64,
    /// The middle of the second one.
    pub second: f64,
    /// How much larger the second one is: the middle of all differences between them.
    pub shift: f64,
    /// Where the interval of the shift begins.
    pub low: f64,
    pub high: f64,
    /// How often chance alone sets two samples apart so far, or further, either way.
    pub p: f64,
}

impl Difference {
    /// Of two samples; nothing where one is empty.
    pub fn of(first: &[f64], second: &[f64]) -> Option<Self> {
        if first.is_empty() || second.is_empty() {
            return None;
        }
        let pairs = first.iter().flat_map(|a| second.iter().map(move |b| b - a));
        let mut pairs: Vec<f64> = pairs.collect();
        pairs.sort_by(f64::total_cmp);
        // Of so many on either side the interval leaves out.
        let beyond = beyond(first.len(), second.len()).max(1) - 1;
        Some(Self {
            first: median(first),
            second: median(second),
            shift: median(&pairs),
            low: pairs[beyond],
            high: pairs[pairs.len() - 1 - beyond],
            p: p(first, second),
        })
    }

    /// Whether chance alone explains it less often than once in twenty, and the interval leaves 0
    /// out. Both are asked: the test counts equal values as they are, and the interval is that of
    /// samples without any, so that with ties one may say what the other does not.
    pub fn is_seen(&self) -> bool {
        let leaves_zero_out = self.low > 0.0 || self.high < 0.0;
        self.p < 1.0 - CONFIDENCE && leaves_zero_out
    }
}

/// The middle one, or the mean of the middle two.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => f64::NAN,
        len if len % 2 == 1 => sorted[len / 2],
        len => f64::midpoint(sorted[len / 2 - 1], sorted[len / 2]),
    }
}

/// The exact probability of both sides: of all ways to deal the values to the samples, those that
/// set their ranks apart as far. Equal values share the mean of their ranks.
fn p(first: &[f64], second: &[f64]) -> f64 {
    let doubled = doubled_ranks(first, second);
    let mine: usize = doubled[..first.len()].iter().sum();
    let ways = ways(first.len(), &doubled);
    let all: f64 = ways.iter().sum();
    let below: f64 = ways[..=mine].iter().sum();
    let above: f64 = ways[mine..].iter().sum();
    (2.0 * below.min(above) / all).min(1.0)
}

/// Twice the rank of each value, those of the first sample first: a whole number with ties, too.
fn doubled_ranks(first: &[f64], second: &[f64]) -> Vec<usize> {
    let all: Vec<f64> = first.iter().chain(second).copied().collect();
    let rank = |value: &f64| {
        let below = all.iter().filter(|other| *other < value).count();
        let equal = all.iter().filter(|other| *other == value).count();
        2 * below + equal + 1
    };
    all.iter().map(rank).collect()
}

/// In how many ways so many of these ranks can be taken, by their sum.
fn ways(count: usize, ranks: &[usize]) -> Vec<f64> {
    let most: usize = ranks.iter().sum();
    let mut ways = vec![vec![0.0; most + 1]; count + 1];
    ways[0][0] = 1.0;
    for (seen, rank) in ranks.iter().enumerate() {
        // From the most down: each rank is taken once.
        for taken in (1..=count.min(seen + 1)).rev() {
            for sum in (*rank..=most).rev() {
                ways[taken][sum] += ways[taken - 1][sum - rank];
            }
        }
    }
    ways.swap_remove(count)
}

/// The quantile of the test's statistic below which half of what the interval leaves out is, where
/// no two values are equal.
fn beyond(first: usize, second: usize) -> usize {
    let ranks: Vec<usize> = (1..=first + second).collect();
    let ways = ways(first, &ranks);
    let all: f64 = ways.iter().sum();
    let lowest = first * (first + 1) / 2;
    let mut below = 0.0;
    for (statistic, ways) in ways[lowest..].iter().enumerate() {
        below += ways;
        // As R's qwilcox, a hair below: sums of doubles are not exact.
        if below / all >= (1.0 - CONFIDENCE) / 2.0 * (1.0 - 1e-12) {
            return statistic;
        }
    }
    0
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{prop_assert, prop_assert_eq, proptest};

    use super::{Difference, beyond};

    fn near(found: f64, expected: f64) {
        assert!((found - expected).abs() < 1e-9, "{found} for {expected}");
    }

    #[test]
    fn probabilities_are_those_of_scipy() {
        // scipy 1.17.1: mannwhitneyu(a, b, method="exact").pvalue
        let cases: [(&[f64], &[f64], f64); 5] = [
            (&[1.0, 2.0, 3.0, 4.0, 5.0], &[6.0, 7.0, 8.0, 9.0, 10.0], 0.007936507936507936),
            (&[1.1, 4.2, 2.3, 5.4, 3.5], &[2.6, 6.7, 4.8, 7.9, 3.1], 0.30952380952380953),
            (
                &[12.1, 11.8, 12.6, 12.3, 11.9, 12.0, 12.2],
                &[11.7, 11.5, 12.05, 11.6, 11.85, 11.4, 11.75],
                0.006993006993006993,
            ),
            (&[3.0, 1.0, 9.0, 7.0, 5.0, 11.0], &[2.0, 4.0, 6.0, 8.0, 10.0], 1.0),
            (
                &[0.8, 0.83, 1.89, 1.04, 1.45, 1.38, 1.91, 1.64, 0.73, 1.46],
                &[1.15, 0.88, 0.9, 0.74, 1.21],
                0.2544122544122544,
            ),
        ];
        for (first, second, expected) in cases {
            near(Difference::of(first, second).unwrap().p, expected);
        }
        // scipy 1.17.1: permutation_test over all ways, as equal values leave no other exact test.
        near(
            Difference::of(&[1.0, 2.0, 2.0, 3.0, 4.0], &[2.0, 4.0, 5.0, 5.0, 6.0]).unwrap().p,
            0.0873015873015873,
        );
    }

    #[test]
    fn the_interval_is_that_of_the_test() {
        // R's qwilcox(0.025, n, m), which is also the inverse of scipy's exact distribution.
        let quantiles = [(5, 5, 3), (5, 6, 4), (7, 7, 9), (10, 5, 9), (10, 10, 24), (4, 4, 1)];
        for (first, second, expected) in quantiles {
            assert_eq!(beyond(first, second), expected, "{first} {second}");
        }
        let first = [1.0, 2.0, 3.0, 4.0, 5.0];
        let second = [6.5, 7.5, 8.5, 9.5, 10.5];
        let found = Difference::of(&first, &second).unwrap();
        near(found.shift, 5.5);
        // The third of 25 differences from either end.
        assert_eq!((found.low, found.high), (2.5, 8.5));
        assert!(found.is_seen());
        let same = Difference::of(&first, &first).unwrap();
        assert_eq!((same.p, same.shift), (1.0, 0.0));
        assert!(Difference::of(&[], &first).is_none());
    }

    proptest! {
        #[test]
        fn whoever_is_second_changes_the_sign_alone(
            first in proptest::collection::vec(0..20_u8, 1..9),
            second in proptest::collection::vec(0..20_u8, 1..9),
        ) {
            let values = |of: &[u8]| of.iter().map(|value| f64::from(*value)).collect::<Vec<_>>();
            let (first, second) = (values(&first), values(&second));
            let there = Difference::of(&first, &second).unwrap();
            let back = Difference::of(&second, &first).unwrap();
            prop_assert!((there.p - back.p).abs() < 1e-12 && there.p > 0.0 && there.p <= 1.0);
            prop_assert_eq!((there.shift, there.low), (-back.shift, -back.high));
            prop_assert!(there.low <= there.shift && there.shift <= there.high);
        }

        #[test]
        fn what_is_seen_has_the_sign_of_its_whole_interval(
            first in proptest::collection::vec(0..9_u8, 1..9),
            second in proptest::collection::vec(0..9_u8, 1..9),
            apart in 0..6_u8,
        ) {
            let values = |of: &[u8], more: u8| {
                of.iter().map(|value| f64::from(value + more)).collect::<Vec<_>>()
            };
            let found = Difference::of(&values(&first, 0), &values(&second, apart)).unwrap();
            let signs = [found.low, found.shift, found.high].map(f64::signum);
            prop_assert!(!found.is_seen() || (found.p < 0.05 && signs[0] == signs[2]), "{found:?}");
            prop_assert!(!found.is_seen() || (found.shift != 0.0 && signs[0] == signs[1]));
        }
    }
}
