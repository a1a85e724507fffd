//! The share of all points that there is memory to look at.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};

/// Slots that a window is counted in.
pub const SLOTS: usize = 16;

/// A share of all points, from 0 to 1 in both of its parts. Points of one time, and of one series
/// and time, are all in it or none.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Share {
    /// The share of times.
    pub times: f64,
    /// The share of series, another one at each of these times.
    pub series: f64,
}

impl Share {
    /// The share that every point is in.
    pub const ALL: Self = Self { times: 1.0, series: 1.0 };

    /// The share of points.
    pub fn points(self) -> f64 {
        self.times * self.series
    }

    /// Whether a point with this hash of series and time is looked at, its time being so.
    #[inline]
    pub fn has_series(self, key: u64) -> bool {
        self.series >= 1.0 || (key >> 32) as f64 <= self.series * f64::from(u32::MAX)
    }
}

/// A share that all workers read and one changes.
pub struct SharedShare {
    times: AtomicU64,
    series: AtomicU64,
}

impl SharedShare {
    /// Puts a first share in force.
    pub fn new(share: Share) -> Self {
        let bits = |part: f64| AtomicU64::new(part.to_bits());
        Self { times: bits(share.times), series: bits(share.series) }
    }

    /// The share in force.
    #[inline]
    pub fn get(&self) -> Share {
        let part = |bits: &AtomicU64| f64::from_bits(bits.load(Ordering::Relaxed));
        Share { times: part(&self.times), series: part(&self.series) }
    }

    /// Puts a share in force.
    pub fn set(&self, share: Share) {
        self.times.store(share.times.to_bits(), Ordering::Relaxed);
        self.series.store(share.series.to_bits(), Ordering::Relaxed);
    }
}

/// Finds the share by what came within the last window: as much as the memory holds.
#[derive(Debug)]
pub struct ShareControl {
    /// Words that all points looked at within a window may take.
    capacity: f64,
    /// Words that all points of each of the last slots would have taken.
    slots: VecDeque<f64>,
    share: Share,
}

/// Times of which some points are to be looked at in each slot, so that the share of times is near
/// the share of points.
const TIMES_MIN: f64 = 64.0;

impl ShareControl {
    /// Control of a memory of so many words.
    pub fn new(capacity: usize) -> Self {
        Self { capacity: capacity as f64, slots: VecDeque::new(), share: Share::ALL }
    }

    /// The share for the slots to come, `passed` slots after the last call, in which points that
    /// took `words` were looked at, of about so many different `times`.
    pub fn turn(&mut self, passed: usize, words: u64, times: f64) -> Share {
        let all = words as f64 / self.share.points();
        self.slots.push_front(all);
        for _ in 1..passed.min(SLOTS) {
            self.slots.push_front(0.0);
        }
        self.slots.truncate(SLOTS);
        let came: f64 = self.slots.iter().sum();
        let points = (self.capacity / came).min(1.0);
        // Few times are all looked at, and a share of the series at each.
        let of_times = self.share.times * TIMES_MIN / times.max(1.0);
        let times = points.max(of_times.min(1.0));
        self.share = Share { times, series: points / times };
        self.share
    }
}

/// Counts different times, roughly: by the bits that their hashes set (linear counting).
pub struct TimesCount([AtomicU64; 64]);

impl Default for TimesCount {
    fn default() -> Self {
        Self([const { AtomicU64::new(0) }; 64])
    }
}

impl TimesCount {
    const BITS: usize = 64 * 64;

    /// Notes a time by its hash.
    #[inline]
    pub fn note(&self, hash: u64) {
        let bit = hash as usize % Self::BITS;
        let (word, mask) = (&self.0[bit / 64], 1 << (bit % 64));
        // Most are there already, and reading takes the line from no other thread.
        if word.load(Ordering::Relaxed) & mask == 0 {
            word.fetch_or(mask, Ordering::Relaxed);
        }
    }

    /// About how many were noted since the last call.
    pub fn take(&self) -> f64 {
        let set: u32 = self.0.iter().map(|word| word.swap(0, Ordering::Relaxed).count_ones()).sum();
        let all = Self::BITS as f64;
        let clear = (all - f64::from(set)).max(1.0);
        all * (all / clear).ln()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The shares of so many slots, in each of which points of so many words come at `times`.
    fn shares(control: &mut ShareControl, slots: usize, words: f64, times: f64) -> Vec<Share> {
        let slot = |_| {
            let Share { times: of_times, .. } = control.share;
            let looked_at = words * control.share.points();
            control.turn(1, looked_at as u64, times * of_times)
        };
        (0..slots).map(slot).collect()
    }

    fn assert_near(share: f64, expected: f64) {
        assert!((share / expected - 1.0).abs() < 0.02, "{share} is not {expected}");
    }

    #[test]
    fn all_points_are_looked_at_while_a_window_of_them_fits() {
        let mut control = ShareControl::new(1000 * SLOTS);
        assert!(shares(&mut control, 100, 999.0, 1e6).iter().all(|share| *share == Share::ALL));
    }

    #[test]
    fn the_share_is_what_fits_and_grows_again() {
        let mut control = ShareControl::new(1000 * SLOTS);
        let shares_of = shares(&mut control, 40, 50_000.0, 1e6);
        assert!(shares_of[0].points() < 0.4, "a burst is a part of a window");
        assert_near(shares_of.last().unwrap().points(), 0.02);
        assert_eq!(shares_of.last().unwrap().series, 1.0, "there are times enough");
        let shares_of = shares(&mut control, SLOTS, 500.0, 1e6);
        assert!(shares_of[1].points() < 0.03, "the window has the many points still");
        assert_eq!(shares_of[SLOTS - 1], Share::ALL);
    }

    #[test]
    fn of_few_times_some_series_are_looked_at() {
        for (count, of_times) in [(1.0, 1.0), (640.0, 0.1), (1e6, 0.02)] {
            let mut control = ShareControl::new(1000 * SLOTS);
            let last = *shares(&mut control, 40, 50_000.0, count).last().unwrap();
            assert_near(last.points(), 0.02);
            assert_near(last.times, of_times);
        }
    }

    #[test]
    fn a_pause_empties_the_window() {
        let mut control = ShareControl::new(1000 * SLOTS);
        shares(&mut control, 40, 50_000.0, 1e6);
        assert!(control.turn(4, 1000, 1e6).points() < 0.05);
        assert_eq!(control.turn(1_000_000, 0, 0.0), Share::ALL);
    }

    #[test]
    fn series_are_in_the_share_by_their_hash() {
        let share = |series: f64| Share { times: 1.0, series };
        assert!(share(1.0).has_series(u64::MAX));
        assert!(
            share(0.5).has_series(u64::MAX / 2) && !share(0.5).has_series(u64::MAX / 2 + (1 << 33))
        );
        let shared = SharedShare::new(Share::ALL);
        shared.set(share(0.25));
        assert_eq!(shared.get(), share(0.25));
    }

    #[test]
    fn different_times_are_counted_roughly() {
        let sampler = wire::line::Sampler::new(5, 1.0);
        let count = TimesCount::default();
        for times in [1, 10, 1000, 10_000] {
            for n in 0..100_000_i64 {
                count.note(sampler.hash(n % times * 1_000_000));
            }
            let counted = count.take();
            assert!((counted / times as f64 - 1.0).abs() < 0.15, "{counted} of {times}");
        }
        assert_eq!(count.take(), 0.0);
    }
}
