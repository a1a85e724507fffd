//! Members side by side, each as wide as its weight.

/// A line of as many places as all weights together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shares {
    /// Where each member's places end, and which one it is.
    ends: Vec<(u64, usize)>,
}

impl Shares {
    /// `None` if there are no places.
    pub fn new(weights: impl Iterator<Item = (usize, u32)>) -> Option<Self> {
        let mut end = 0;
        let weighted = weights.filter(|(_, weight)| *weight > 0);
        let ends: Vec<_> = weighted
            .map(|(member, weight)| {
                end += u64::from(weight);
                (end, member)
            })
            .collect();
        (!ends.is_empty()).then_some(Self { ends })
    }

    /// How many places there are; never 0.
    pub fn total(&self) -> u64 {
        self.ends.last().map_or(1, |(end, _)| *end)
    }

    /// Whose place it is. A place from the total on is the last member's.
    pub fn at(&self, place: u64) -> usize {
        let found = self.ends.partition_point(|(end, _)| *end <= place);
        self.ends[found.min(self.ends.len() - 1)].1
    }
}
