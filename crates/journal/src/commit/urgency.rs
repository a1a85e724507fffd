//! How much of a hurry the journal thread is in for a CPU.

use sched::{Slice, set_slice};

/// So many records a group are many.
const MANY: u32 = 24;
/// And so many are few.
const FEW: u32 = 12;
/// The mean is over about so many groups.
const GROUPS: u32 = 64;
/// Digits of the mean behind the point, in bits.
const FRACTION: u32 = 8;

/// While groups have few records the thread has short slices of CPU time and so interrupts whoever
/// computes. While they have many it has the usual ones: whom it would interrupt is about to make
/// the next group larger.
#[derive(Debug)]
pub(crate) struct Urgency {
    slice: Slice,
    /// Records a group, with the fraction.
    mean: u32,
    /// Whether there is anything to be had.
    heard: bool,
}

impl Urgency {
    /// For the calling thread, which is in a hurry to begin with.
    pub fn new() -> Self {
        Self { slice: Slice::Short, mean: 0, heard: set_slice(Slice::Short) }
    }

    /// Takes note of a group of so many records.
    pub fn note(&mut self, records: u32) {
        if let Some(slice) = self.change(records)
            && self.heard
        {
            self.heard = set_slice(slice);
        }
    }

    fn change(&mut self, records: u32) -> Option<Slice> {
        // A single huge group says no more than a large one.
        let records = records.min(4 * MANY) << FRACTION;
        self.mean = self.mean - self.mean / GROUPS + records / GROUPS;
        let slice = match self.mean >> FRACTION {
            ..=FEW => Slice::Short,
            MANY.. => Slice::Usual,
            _ => self.slice,
        };
        let before = std::mem::replace(&mut self.slice, slice);
        (slice != before).then_some(slice)
    }
}

#[cfg(test)]
mod tests {
    use sched::Slice;

    use super::{FEW, MANY, Urgency};

    #[test]
    fn the_mean_of_many_groups_changes_it_and_no_single_one() {
        let mut urgency = Urgency { slice: Slice::Short, mean: 0, heard: false };
        let mut changes = |records: &[u32], times| -> Vec<Slice> {
            let groups = std::iter::repeat_n(records, times).flatten();
            groups.filter_map(|records| urgency.change(*records)).collect()
        };
        assert_eq!(changes(&[1], 100), []);
        assert_eq!(changes(&[u32::MAX], 1), [], "one of them");
        assert_eq!(changes(&[3 * MANY, 1], 500), [Slice::Usual], "small ones between them");
        assert_eq!(changes(&[(FEW + MANY) / 2], 500), []);
        assert_eq!(changes(&[1], 500), [Slice::Short]);
    }
}
