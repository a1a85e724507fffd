//! What is to happen next on a lease, which limits how long that may take.

use std::time::Instant;

use super::machine::Lease;

/// What is to happen next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expectation {
    /// The rest of a message comes that has begun to.
    Rest,
    /// The server answers the round in front, which went out then, or which it has then come to.
    Answer(Option<Instant>),
    /// The client sends its next round.
    Round {
        /// A transaction is open meanwhile.
        in_transaction: bool,
    },
}

impl Lease {
    /// What is to happen next; `is_sent`: the server has taken all that was written for it,
    /// `is_cut`: what the client has sent ends within a message.
    pub fn expects(&self, is_sent: bool, is_cut: impl FnOnce() -> bool) -> Expectation {
        let rests = self.rounds.is_empty() && is_sent;
        if self.incoming.is_within() || (rests && is_cut()) {
            Expectation::Rest
        } else if rests {
            Expectation::Round { in_transaction: self.is_open() }
        } else {
            Expectation::Answer(self.rounds.front().and_then(|round| round.asked))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pipeline::lease::incoming::Incoming;

    #[test]
    fn a_message_is_to_go_on_a_round_to_be_answered_and_a_client_to_say_more() {
        let mut lease = Lease::default();
        let expects = |lease: &Lease| lease.expects(true, || false);
        assert_eq!(expects(&lease), Expectation::Round { in_transaction: false });
        assert_eq!(lease.expects(true, || true), Expectation::Rest);
        assert_eq!(lease.expects(false, || true), Expectation::Answer(None));
        lease.transaction.turn(true, None);
        assert_eq!(expects(&lease), Expectation::Round { in_transaction: true });
        lease.round();
        assert_eq!(expects(&lease), Expectation::Answer(None));
        let now = Instant::now();
        lease.rounds.end(now);
        assert_eq!(lease.expects(true, || true), Expectation::Answer(Some(now)));
        lease.incoming = Incoming::of_long(1, true);
        assert_eq!(expects(&lease), Expectation::Rest);
    }
}
