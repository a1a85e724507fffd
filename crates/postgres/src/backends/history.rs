//! Where the primary was when: what tells how new a replica is.
//!
//! A sample is a position and a time from *before* the primary was asked for it. So whatever a
//! client has been told to be committed by that time lies before the position, and a replica that
//! has replayed up to there has it.

use std::collections::VecDeque;
use std::time::Duration;

use super::{Moment, Position};

/// How many samples are kept. At two a second they reach back for four minutes while the primary
/// writes, and for as long as it pleases while it does not.
const SAMPLES_MAX: usize = 512;

/// Where the primary was, and when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    /// Before it was asked.
    pub at: Moment,
    /// The server's position in the log at that time.
    pub position: Position,
}

/// The samples of one primary on one timeline.
#[derive(Debug, Clone, Default)]
pub struct History {
    /// Both times and positions ascend; of a run of equal positions the first and the last are
    /// kept.
    samples: VecDeque<Sample>,
}

/// How far a replica is behind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Lag {
    /// Bytes that the primary has written and the replica has not replayed.
    pub bytes: u64,
    /// How old the oldest of them are, about.
    pub time: Duration,
}

impl History {
    /// Adds the newest sample.
    pub fn push(&mut self, sample: Sample) {
        // A primary that crashed has lost what it had not flushed, and writes anew from there.
        while self.samples.back().is_some_and(|last| last.position > sample.position) {
            self.samples.pop_back();
        }
        let mut last = self.samples.iter().rev().map(|last| last.position);
        if last.next() == Some(sample.position) && last.next() == Some(sample.position) {
            self.samples.pop_back();
        }
        if self.samples.len() >= SAMPLES_MAX {
            self.samples.pop_front();
        }
        self.samples.push_back(sample);
    }

    /// The newest sample, if there is one.
    pub fn newest(&self) -> Option<Sample> {
        self.samples.back().copied()
    }

    /// The newest time as of which a replica has everything that has replayed up to `replayed`.
    pub fn caught_up(&self, replayed: Position) -> Option<Moment> {
        let reached = self.samples.partition_point(|sample| sample.position <= replayed);
        self.samples.get(reached.checked_sub(1)?).map(|sample| sample.at)
    }

    /// How far a replica is behind that has replayed up to `replayed`, as of the newest sample: it
    /// does not fall behind a primary that is gone. `age` is how long ago, by the replica's own
    /// word, the last transaction that it has replayed was committed; it tells where the samples
    /// do not reach back so far. `None`: nobody has seen the primary yet.
    pub fn lag(&self, replayed: Position, age: Option<Duration>) -> Option<Lag> {
        let newest = self.newest()?;
        let bytes = newest.position.ahead_of(replayed);
        let reached = self.samples.partition_point(|sample| sample.position <= replayed);
        let time = match self.samples.get(reached) {
            None => Duration::ZERO,
            Some(missing) => {
                let known = newest.at.since(missing.at);
                // The first sample is not when it fell behind, but when anybody looked.
                if reached == 0 { age.unwrap_or(known).max(known) } else { known }
            }
        };
        Some(Lag { bytes, time })
    }

    /// Forgets all: another primary, or another timeline.
    pub fn clear(&mut self) {
        self.samples.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::{History, SAMPLES_MAX, Sample};
    use crate::backends::{Moment, Position};
    use proptest::prelude::*;
    use std::time::Duration;

    fn history(samples: &[(u64, u64)]) -> History {
        let mut history = History::default();
        for &(at, position) in samples {
            let (at, position) = (Moment::from_nanos(at), Position(position));
            history.push(Sample { at, position });
        }
        history
    }

    #[test]
    fn a_replica_is_as_new_as_the_newest_position_that_it_has_replayed() {
        let history = history(&[(10, 100), (20, 200), (30, 200), (40, 200), (50, 300)]);
        let as_of = |replayed| history.caught_up(Position(replayed)).map(Moment::nanos);
        assert_eq!(as_of(99), None);
        assert_eq!(as_of(100), Some(10));
        assert_eq!(as_of(199), Some(10));
        assert_eq!(as_of(200), Some(40));
        assert_eq!(as_of(1000), Some(50));
        assert_eq!(history.samples.len(), 4);
    }

    #[test]
    fn lag_is_the_age_of_what_is_missing() {
        let history = history(&[(10, 100), (20, 200), (30, 200), (40, 300)]);
        let lag = |replayed, age: Option<u64>| {
            let lag = history.lag(Position(replayed), age.map(Duration::from_nanos)).unwrap();
            (lag.bytes, lag.time.as_nanos())
        };
        // An idle primary's replica is not behind, whenever its last transaction was.
        assert_eq!(lag(300, Some(1000)), (0, 0));
        assert_eq!(lag(250, Some(1000)), (50, 0));
        assert_eq!(lag(100, Some(1000)), (200, 20));
        // From before anybody looked, the replica alone can tell.
        assert_eq!(lag(50, Some(1000)), (250, 1000));
        assert_eq!(lag(50, None), (250, 30));
        assert!(History::default().lag(Position(1), None).is_none());
    }

    #[test]
    fn a_primary_that_lost_its_last_bytes_starts_over_from_there() {
        let history = history(&[(10, 100), (20, 200), (30, 150)]);
        assert_eq!(history.caught_up(Position(150)), Some(Moment::from_nanos(30)));
        assert_eq!(history.caught_up(Position(149)), Some(Moment::from_nanos(10)));
    }

    proptest! {
        /// The claim itself: a client's write that had ended by `ended` is at a position that the
        /// primary had passed by then. A replica that is said to be newer has replayed it.
        #[test]
        fn a_replica_that_is_new_enough_has_the_write(
            steps in prop::collection::vec((1u64..5, 0u64..3), 1..600),
            ended in 0u64..2000,
            replayed in 0u64..1500,
        ) {
            let (mut at, mut position) = (0, 0);
            // Where the primary is at each time; a sample is of a position at or after its time.
            let mut track = vec![];
            for (wait, written) in steps {
                at += wait;
                position += written;
                track.push((at, position));
            }
            let history = history(&track);
            prop_assert!(history.samples.len() <= SAMPLES_MAX);
            let write = track.iter().take_while(|(at, _)| *at <= ended).last();
            let Some(as_of) = history.caught_up(Position(replayed)) else { return Ok(()) };
            if let Some((_, write)) = write && as_of.nanos() > ended {
                prop_assert!(replayed >= *write, "{replayed} < {write}");
            }
        }
    }
}
