//! Some of the series of a policy.

use super::SeriesId;

/// A set of series: a bit for each series that its policy has had so far.
#[derive(Clone, Debug)]
pub struct SeriesSet(Vec<u64>);

impl SeriesSet {
    /// An empty set for series whose numbers are below `bound`.
    pub(crate) fn below(bound: u32) -> Self {
        Self(vec![0; bound.div_ceil(u64::BITS) as usize])
    }

    /// Adds a series. A number past the bound, as a damaged file may have it, is left out.
    pub(crate) fn add(&mut self, series: u32) {
        let (at, bit) = place(series);
        if let Some(word) = self.0.get_mut(at) {
            *word |= bit;
        }
    }

    /// Whether a series is in it.
    pub fn has(&self, series: SeriesId) -> bool {
        let (at, bit) = place(series.0);
        self.0.get(at).is_some_and(|word| word & bit != 0)
    }
}

fn place(series: u32) -> (usize, u64) {
    ((series / u64::BITS) as usize, 1 << (series % u64::BITS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_has_what_was_added_and_no_number_past_its_bound_takes_memory() {
        let mut set = SeriesSet::below(130);
        for series in [0, 63, 64, 129, u32::MAX] {
            set.add(series);
        }
        let has: Vec<u32> = (0..200).filter(|&series| set.has(SeriesId(series))).collect();
        assert_eq!(has, [0, 63, 64, 129]);
        assert!(!set.has(SeriesId(u32::MAX)));
    }
}
