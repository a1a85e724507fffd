//! Rounds of a client that stand in front of what is in its inbox: what got no answer and is asked
//! again, and behind that a round that was cut and waits for its turn.

use std::collections::VecDeque;

use crate::client::{Again, Repeat};
use crate::pipeline::round::Round;

/// A round in front of what its client has sent since.
#[derive(Debug)]
struct RoundAhead {
    round: Round,
    /// Where it is asked again; `None` of one that was not asked.
    again: Option<Again>,
}

/// The rounds in front of what is in a client's inbox, in their order.
#[derive(Debug, Default)]
pub(super) struct RoundsAhead(VecDeque<RoundAhead>);

impl RoundsAhead {
    /// Whether what comes next is cut from the inbox.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// These got no answer and come first, in their order.
    pub fn ask_again(&mut self, repeats: impl DoubleEndedIterator<Item = Repeat>) {
        for Repeat { round, again } in repeats.rev() {
            self.0.push_front(RoundAhead { round, again: Some(again) });
        }
    }

    /// A round that was cut waits for its turn.
    pub fn wait(&mut self, round: Round) {
        self.0.push_front(RoundAhead { round, again: None });
    }

    /// The next one, if it is to be asked again.
    pub fn next_repeat(&mut self) -> Option<Repeat> {
        let again = self.0.front()?.again?;
        self.next().map(|round| Repeat { round, again })
    }

    /// The next one, whatever it waits for.
    pub fn next(&mut self) -> Option<Round> {
        let next = self.0.pop_front()?;
        if self.0.is_empty() {
            // Few clients have one, and seldom.
            self.0 = VecDeque::new();
        }
        Some(next.round)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    fn round(name: &[u8]) -> Round {
        Round::query(name.into(), Instant::now())
    }

    #[test]
    fn what_got_no_answer_comes_in_its_order_and_in_front_of_what_was_not_asked() {
        let mut ahead = RoundsAhead::default();
        assert!(ahead.is_empty() && ahead.next().is_none() && ahead.next_repeat().is_none());
        ahead.wait(round(b"c"));
        let repeat = |name: &[u8]| Repeat { round: round(name), again: Again::Elsewhere };
        ahead.ask_again([repeat(b"a"), repeat(b"b")].into_iter());
        assert!(ahead.next_repeat().is_some_and(|repeat| repeat.round == round(b"a")));
        assert_eq!(ahead.next(), Some(round(b"b")));
        assert!(ahead.next_repeat().is_none() && !ahead.is_empty());
        assert_eq!(ahead.next(), Some(round(b"c")));
        assert!(ahead.is_empty());
    }
}
