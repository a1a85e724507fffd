//! The pauses of a thread of the injector, and how much of a request's time they took up.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Pauses that are kept: of a thread that pauses a thousand times a second those of a quarter of a
/// minute. What is older is forgotten, and counts as the server's.
const KEPT_MAX: usize = 16_384;

#[derive(Debug, Clone, Copy)]
struct Pause {
    from: Instant,
    to: Instant,
    /// How long all before it were together.
    before: Duration,
}

/// The pauses of a thread, in their order.
#[derive(Debug, Default)]
pub struct Pauses {
    kept: VecDeque<Pause>,
    total: Duration,
}

impl Pauses {
    /// Adds one that is behind all others.
    pub fn add(&mut self, from: Instant, to: Instant) {
        let from = self.kept.back().map_or(from, |last| from.max(last.to));
        if to <= from {
            return;
        }
        if self.kept.len() == KEPT_MAX {
            self.kept.pop_front();
        }
        self.kept.push_back(Pause { from, to, before: self.total });
        self.total += to - from;
    }

    /// How much of a span was a pause.
    pub fn overlap(&self, from: Instant, to: Instant) -> Duration {
        match self.kept.back() {
            Some(last) if last.to > from => self.until(to).saturating_sub(self.until(from)),
            _ => Duration::ZERO,
        }
    }

    /// How long the pauses before a moment were.
    fn until(&self, at: Instant) -> Duration {
        let behind = self.kept.partition_point(|pause| pause.from < at);
        match behind.checked_sub(1).and_then(|last| self.kept.get(last)) {
            Some(last) => last.before + last.to.min(at).duration_since(last.from),
            None => self.kept.front().map_or(self.total, |first| first.before),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use proptest::prelude::{prop_assert_eq, proptest};

    use super::{KEPT_MAX, Pauses};

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn of_a_span_before_all_that_is_kept_only_what_is_kept_counts() {
        let (begin, mut pauses) = (Instant::now(), Pauses::default());
        for number in 0..KEPT_MAX as u32 + 10 {
            let from = begin + 10 * number * MS;
            pauses.add(from, from + MS);
        }
        assert_eq!(pauses.kept.len(), KEPT_MAX);
        assert_eq!(pauses.overlap(begin, begin + 95 * MS), Duration::ZERO);
        assert_eq!(pauses.overlap(begin, begin + 105 * MS), MS);
    }

    proptest! {
        #[test]
        fn an_overlap_is_that_of_each_millisecond(
            lengths in proptest::collection::vec((0..20_u32, 0..20_u32), 0..12),
            from in 0..300_u32,
            length in 0..300_u32,
        ) {
            let begin = Instant::now();
            let (mut pauses, mut paused, mut at) = (Pauses::default(), Vec::new(), 0);
            for (gap, length) in lengths {
                at += gap;
                pauses.add(begin + at * MS, begin + (at + length) * MS);
                paused.extend(at..at + length);
                at += length;
            }
            let within = paused.iter().filter(|at| (from..from + length).contains(*at)).count();
            let found = pauses.overlap(begin + from * MS, begin + (from + length) * MS);
            prop_assert_eq!(found, within as u32 * MS);
        }
    }
}
