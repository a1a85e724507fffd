//! What is drawn for a request is a function of its number: the same run file sends the same
//! requests, however many threads share them, and nothing has to be kept for a ledger.

/// Draws of one request.
#[derive(Debug, Clone)]
pub struct Chance(u64);

impl Chance {
    /// Those of request `number`, of all requests that begin with that seed.
    pub fn of(seed: u64, number: u64) -> Self {
        Self(mixed(seed).wrapping_add(mixed(number ^ STEP)))
    }

    /// 64 bits (SplitMix64, by Steele, Lea and Flood 2014).
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(STEP);
        mixed(self.0)
    }

    /// A number below `bound`, by Lemire's multiplication; 0 where that is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(bound)) >> 64) as u64
    }

    /// Which of several, by their shares, which make that sum. The only one takes no draw.
    pub fn one_of(&mut self, sum: u64, shares: impl ExactSizeIterator<Item = u64>) -> usize {
        let mut at = if shares.len() == 1 { 0 } else { self.below(sum) };
        for (number, share) in shares.enumerate() {
            match at.checked_sub(share) {
                Some(rest) => at = rest,
                None => return number,
            }
        }
        0
    }

    /// From 0 to below 1.
    pub fn share(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

fn mixed(bits: u64) -> u64 {
    let bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

/// Uniform draws whose mean is bell-shaped.
const BELL: usize = 12;

/// sysbench's own distribution, `special`: three quarters of all draws are of the hundredth in the
/// middle of `count` numbers, each as often as any other; the others are bell-shaped over all.
pub fn special(count: u64, chance: &mut Chance) -> u64 {
    if chance.below(4) == 0 {
        let mean = (0..BELL).map(|_| chance.share()).sum::<f64>() / BELL as f64;
        return ((mean * count as f64) as u64).min(count.saturating_sub(1));
    }
    let few = (count / 100).max(1);
    count.saturating_sub(few) / 2 + chance.below(few)
}

/// Zipf's distribution: number k of `count` comes as often as 1 / (k + 1)^exponent says. Drawn by
/// rejection-inversion (Hörmann and Derflinger 1996), which needs no table however many there are.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Zipf {
    count: u64,
    exponent: f64,
    /// The integral of the hat at its left end and at its right end.
    ends: (f64, f64),
    /// How near to a whole number a draw is surely accepted.
    near: f64,
}

impl Zipf {
    /// Of `count` numbers, at least 1; the exponent is above 0.
    pub fn new(count: u64, exponent: f64) -> Self {
        let mut zipf = Self { count: count.max(1), exponent, ends: (0.0, 0.0), near: 0.0 };
        zipf.ends = (zipf.integral(1.5) - 1.0, zipf.integral(count as f64 + 0.5));
        zipf.near = 2.0 - zipf.inverse(zipf.integral(2.5) - zipf.hat(2.0));
        zipf
    }

    /// A number from 0 on; the least come most often.
    pub fn draw(&self, chance: &mut Chance) -> u64 {
        loop {
            let at = self.ends.1 + chance.share() * (self.ends.0 - self.ends.1);
            let x = self.inverse(at);
            let rank = (x + 0.5).floor().clamp(1.0, self.count as f64);
            if rank - x <= self.near || at >= self.integral(rank + 0.5) - self.hat(rank) {
                return (rank as u64).min(self.count) - 1;
            }
        }
    }

    fn hat(&self, x: f64) -> f64 {
        (-self.exponent * x.ln()).exp()
    }

    /// Of the hat, up to a constant.
    fn integral(&self, x: f64) -> f64 {
        let log = x.ln();
        let power = (1.0 - self.exponent) * log;
        // (e^p - 1) / p, which is 1 at 0.
        let factor = if power.abs() > 1e-8 { power.exp_m1() / power } else { 1.0 + power / 2.0 };
        factor * log
    }

    fn inverse(&self, area: f64) -> f64 {
        let power = (area * (1.0 - self.exponent)).max(-1.0);
        let factor = if power.abs() > 1e-8 { power.ln_1p() / power } else { 1.0 - power / 2.0 };
        (factor * area).exp()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{prop_assert, proptest};

    use super::{Chance, Zipf, special};

    #[test]
    fn a_number_draws_the_same_each_time_and_its_neighbour_something_else() {
        let draws = |number| {
            let mut chance = Chance::of(7, number);
            [chance.bits(), chance.bits()]
        };
        assert_eq!(draws(5), draws(5));
        assert_ne!(draws(5), draws(6));
        assert_ne!(Chance::of(7, 5).bits(), Chance::of(8, 5).bits());
    }

    #[test]
    fn all_numbers_come_equally_often() {
        let mut counts = [0_u32; 10];
        for number in 0..100_000 {
            counts[Chance::of(1, number).below(10) as usize] += 1;
        }
        assert!(counts.iter().all(|count| (9_500..10_500).contains(count)), "{counts:?}");
        assert_eq!(Chance::of(1, 1).below(0), 0);
    }

    #[test]
    fn zipf_comes_as_often_as_its_formula_says() {
        for exponent in [0.5, 0.99, 1.0, 1.5] {
            let zipf = Zipf::new(100, exponent);
            let mut counts = [0.0_f64; 100];
            for number in 0..200_000 {
                counts[zipf.draw(&mut Chance::of(3, number)) as usize] += 1.0;
            }
            let weight = |rank: usize| ((rank + 1) as f64).powf(-exponent);
            let whole: f64 = (0..100).map(weight).sum();
            for rank in [0, 1, 2, 9, 49] {
                let wanted = weight(rank) / whole * 200_000.0;
                let off = (counts[rank] - wanted).abs();
                assert!(off < 6.0 * wanted.sqrt(), "{exponent} {rank}: {} {wanted}", counts[rank]);
            }
        }
    }

    #[test]
    fn special_draws_are_three_quarters_of_the_middle_and_the_rest_is_bell_shaped() {
        let mut counts = [0_u32; 1000];
        for number in 0..100_000 {
            counts[special(1000, &mut Chance::of(5, number)) as usize] += 1;
        }
        let of = |from: usize, to: usize| counts[from..to].iter().sum::<u32>();
        // Of the mean of 12 the deviation is 1/12: 4.8 % of a bell is in its hundredth.
        assert!((75_500..77_000).contains(&of(495, 505)), "{}", of(495, 505));
        assert!(counts[495..505].iter().all(|count| (7_000..8_300).contains(count)));
        // Two deviations to each side have 95.4 % of the rest.
        let within = of(333, 667) - of(495, 505);
        assert!((22_000..23_500).contains(&within), "{within}");
        assert_eq!((of(0, 50), of(950, 1000)), (0, 0));
    }

    proptest! {
        #[test]
        fn no_draw_is_out_of_bounds(
            count in 1..u64::MAX, exponent in 0.01..5.0_f64, number: u64,
        ) {
            let mut chance = Chance::of(1, number);
            prop_assert!(Zipf::new(count, exponent).draw(&mut chance) < count);
            prop_assert!(chance.below(count) < count);
            prop_assert!(special(count, &mut chance) < count);
            prop_assert!((0.0..1.0).contains(&chance.share()));
        }
    }
}
