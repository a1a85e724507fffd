//! What a consumer says became of items.

/// What became of the items up to a commit, since the commit before.
///
/// The four numbers should add up to the items of the records committed. The journal knows that
/// number: what is missing is counted as dropped, what is too much (because `drop-oldest` had
/// given the records up meanwhile) is taken off `delivered` first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Outcome {
    /// Accepted by the consumer's other side.
    pub delivered: u64,
    /// Put into the dead letters, and synced there.
    pub dead_lettered: u64,
    /// Given up by the consumer.
    pub dropped: u64,
    /// Not meant for this consumer: others have them.
    pub elsewhere: u64,
}

impl std::ops::Add for Outcome {
    type Output = Outcome;

    fn add(self, other: Outcome) -> Outcome {
        Outcome {
            delivered: self.delivered.saturating_add(other.delivered),
            dead_lettered: self.dead_lettered.saturating_add(other.dead_lettered),
            dropped: self.dropped.saturating_add(other.dropped),
            elsewhere: self.elsewhere.saturating_add(other.elsewhere),
        }
    }
}
