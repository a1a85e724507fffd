//! What the injector added to times: how its pauses and its lateness move the counts of a
//! histogram. Few requests have any, so the difference alone is kept.

use std::collections::HashMap;
use std::time::Duration;

use super::{HALF, LONGEST, Times, nanoseconds};

/// What the injector adds to a time is left out below that: no figure moves by more.
pub const NEGLIGIBLE: Duration = Duration::from_micros(20);

/// By how much the injector may move a figure. A figure that it moves by more than both is its own.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tolerance {
    /// The share of the figure without the injector's part.
    pub share: f64,
    /// A smaller part is never one.
    pub least: Duration,
}

/// A figure as it was measured, and without what the injector added.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Figure {
    /// As it was measured.
    pub measured: Duration,
    /// Without the injector's pauses and lateness; never more.
    pub corrected: Duration,
}

impl Figure {
    /// One of which that part is the injector's.
    pub fn delayed(measured: Duration, by: Duration) -> Self {
        Self { measured, corrected: measured.saturating_sub(by) }
    }

    /// What the injector added.
    pub fn added(&self) -> Duration {
        self.measured.saturating_sub(self.corrected)
    }

    /// Whether the injector made it, and not the server.
    pub fn is_injectors(&self, tolerance: &Tolerance) -> bool {
        let added = self.added();
        added > tolerance.least && added > self.corrected.mul_f64(tolerance.share)
    }
}

/// How many more times there are at a place of a histogram without what the injector added, or
/// fewer; places are told by the least of the times that the histogram does not tell apart.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Correction(HashMap<u64, i64>);

impl Correction {
    /// Notes a request's time.
    pub fn note(&mut self, figure: Figure) {
        let [from, to] =
            [figure.measured, figure.corrected].map(|of| place(nanoseconds(of).min(LONGEST)));
        if from != to {
            self.move_counts(from, -1);
            self.move_counts(to, 1);
        }
    }

    fn move_counts(&mut self, place: u64, by: i64) {
        let count = self.0.entry(place).or_default();
        *count = count.saturating_add(by);
        if *count == 0 {
            self.0.remove(&place);
        }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds all of another one.
    pub fn add(&mut self, other: &Self) {
        for (place, by) in &other.0 {
            self.move_counts(*place, *by);
        }
    }

    /// The times that are not there without the injector's part, and those that are there instead:
    /// as two histograms, in which it is written down.
    pub fn sides(&self) -> (Times, Times) {
        let (mut without, mut instead) = (Times::new(), Times::new());
        for (place, by) in &self.0 {
            let side = if *by < 0 { &mut without } else { &mut instead };
            side.note_all(*place, by.unsigned_abs());
        }
        (without, instead)
    }

    /// Adds times that were read: those that are not there, or those that are there instead.
    pub fn add_side(&mut self, times: &Times, is_instead: bool) {
        for (time, count) in times.recorded() {
            let by = i64::try_from(count).unwrap_or(i64::MAX);
            self.move_counts(place(time), if is_instead { by } else { -by });
        }
    }

    /// Times without the injector's part.
    fn applied(&self, times: &Times) -> Times {
        let (mut corrected, mut left) = (Times::new(), self.0.clone());
        for (time, count) in times.recorded() {
            let by = left.remove(&place(time)).unwrap_or_default();
            corrected.note_all(time, count.saturating_add_signed(by));
        }
        for (place, by) in left {
            corrected.note_all(place, u64::try_from(by).unwrap_or_default());
        }
        corrected
    }
}

/// The least of the times that a histogram does not tell apart from this one.
fn place(time: u64) -> u64 {
    let shift = (time / HALF as u64).checked_ilog2().unwrap_or_default();
    time >> shift << shift
}

/// Times as they were measured, and what the injector added to them.
#[derive(Debug, Clone)]
pub struct Distribution {
    measured: Times,
    /// Without what the injector added; nothing where that is the same.
    corrected: Option<Times>,
}

impl Distribution {
    /// Of times and what is known of them.
    pub fn new(measured: Times, correction: &Correction) -> Self {
        let corrected = (!correction.is_empty()).then(|| correction.applied(&measured));
        Self { measured, corrected }
    }

    /// The times as they were measured.
    pub fn measured(&self) -> &Times {
        &self.measured
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        self.measured.count()
    }

    /// The time below which that share of all is, from 0 to 1.
    pub fn quantile(&self, share: f64) -> Figure {
        self.figure(|times| times.quantile(share))
    }

    pub fn max(&self) -> Figure {
        self.figure(Times::max)
    }

    pub fn mean(&self) -> Figure {
        self.figure(Times::mean)
    }

    fn figure(&self, of: impl Fn(&Times) -> Duration) -> Figure {
        let measured = of(&self.measured);
        // What the injector adds makes nothing shorter: a histogram's own roundings do.
        let corrected = self.corrected.as_ref().map_or(measured, of).min(measured);
        Figure { measured, corrected }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::{prop_assert, prop_assert_eq, proptest};

    use super::{Correction, Distribution, Figure, Tolerance, place};
    use crate::recorder::Times;

    const US: Duration = Duration::from_micros(1);
    const TENTH: Tolerance = Tolerance { share: 0.1, least: Duration::from_micros(200) };

    #[test]
    fn a_figure_is_the_injectors_beyond_a_tenth_and_the_least_alone() {
        for (measured, by, is) in
            [(1100, 100, false), (1200, 200, false), (1201, 201, true), (9000, 800, false)]
        {
            assert_eq!(Figure::delayed(measured * US, by * US).is_injectors(&TENTH), is);
        }
        assert!(!Figure::default().is_injectors(&TENTH));
    }

    #[test]
    fn a_correction_that_fits_no_times_makes_none() {
        let mut correction = Correction::default();
        correction.note(Figure::delayed(900 * US, 800 * US));
        let of_nothing = Distribution::new(Times::new(), &correction);
        assert_eq!((of_nothing.count(), of_nothing.max().measured), (0, Duration::ZERO));
    }

    proptest! {
        #[test]
        fn times_that_share_a_place_share_a_count(time in 0..4_000_000_000_000_u64) {
            let mut times = Times::new();
            times.note(time);
            times.note(place(time));
            prop_assert!(place(time) <= time);
            let counts: Vec<_> = times.recorded().collect();
            prop_assert!(counts.len() == 1 && counts[0].1 == 2, "{counts:?}");
        }

        #[test]
        fn what_is_corrected_is_what_would_have_been_recorded(
            requests in proptest::collection::vec(
                (0..4_000_000_000_u64, 0..3_000_000_000_u64), 1..100,
            ),
            cut in 0..100_usize,
        ) {
            let (mut measured, mut alone) = (Times::new(), Times::new());
            let mut parts = [Correction::default(), Correction::default()];
            for (at, (time, by)) in requests.iter().enumerate() {
                let [time, by] = [time, by].map(|nanos| Duration::from_nanos(*nanos));
                let figure = Figure::delayed(time, by);
                measured.note(figure.measured.as_nanos() as u64);
                alone.note(figure.corrected.as_nanos() as u64);
                parts[usize::from(at < cut)].note(figure);
            }
            let [mut whole, other] = parts;
            whole.add(&other);
            // What is written down and read again is the same.
            let (without, instead) = whole.sides();
            let mut read = Correction::default();
            read.add_side(&without, false);
            read.add_side(&instead, true);
            prop_assert_eq!(&read, &whole);
            let both = Distribution::new(measured, &whole);
            for share in [0.0, 0.5, 0.9, 0.99, 1.0] {
                prop_assert_eq!(both.quantile(share).corrected, alone.quantile(share));
            }
            prop_assert_eq!(both.max().corrected, alone.max());
        }
    }
}
