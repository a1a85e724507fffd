//! What becomes of a client whose server connection is gone.

use super::machine::Lease;
use super::reply::Reply;
use super::rounds::PendingRound;
use crate::pipeline::round::Round;

/// What becomes of a client whose server connection is gone.
#[derive(Debug, PartialEq, Eq)]
pub enum Loss {
    /// Its round is asked of another server, since nothing of the answer was told.
    HandOver(Round),
    /// The server itself has told it why.
    Dismissed,
    /// It has had all its answers, and nothing of it was there.
    Unnoticed,
    /// It hears why, and is closed: in a transaction, or within an answer, it could not be told
    /// otherwise.
    Closed,
    /// Each of so many rounds hears an error in the place of its answer.
    Failed(usize),
}

impl Lease {
    /// Whether the transaction, or a round that is not answered, may have changed data.
    pub fn may_have_written(&self) -> bool {
        self.transaction.writes() || self.rounds.iter().any(PendingRound::may_have_written)
    }

    /// The server is gone, or said what it was not asked.
    pub fn lose(&mut self) -> Loss {
        let request = self.reply.hand_over().filter(|_| !self.rounds.is_within());
        if let Some(request) = request {
            return Loss::HandOver(request);
        }
        if self.reply == Reply::Dismissed {
            return Loss::Dismissed;
        }
        let stays = self.is_open() || self.is_pinned;
        if self.is_quiet() && !stays {
            return Loss::Unnoticed;
        }
        if stays || self.rounds.is_within() || self.reply == Reply::Told {
            return Loss::Closed;
        }
        Loss::Failed(self.rounds.len())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::plan::tests::plan;

    fn sent(request: Option<&[u8]>, rounds: &[&str]) -> Lease {
        let mut lease = Lease::new(request.map(|bytes| Round::query(bytes.into(), Instant::now())));
        for sql in rounds {
            lease.round().plans.push(plan(sql));
            lease.rounds.end(Instant::now());
        }
        lease
    }

    fn pinned(rounds: &[&str]) -> Lease {
        Lease { is_pinned: true, ..sent(None, rounds) }
    }

    #[test]
    fn a_round_of_which_nothing_was_told_is_asked_of_another_server_where_that_can_be() {
        let mut lease = sent(Some(b"round"), &["SELECT 1"]);
        let round = Round::query(b"round".as_slice().into(), Instant::now());
        assert_eq!(lease.lose(), Loss::HandOver(round));
        let mut lease = sent(Some(b"round"), &["SELECT 1"]);
        lease.reply.tell(&[0; 9000], true);
        assert_eq!(lease.lose(), Loss::Closed, "it was told in part");
    }

    #[test]
    fn whoever_can_be_told_of_each_round_is_and_others_are_closed() {
        assert_eq!(sent(None, &["SELECT 1", "SELECT 2"]).lose(), Loss::Failed(2));
        assert_eq!(pinned(&["SELECT 1"]).lose(), Loss::Closed);
        assert_eq!(pinned(&[]).lose(), Loss::Closed);
        assert_eq!(sent(None, &[]).lose(), Loss::Unnoticed);
        let mut within = sent(None, &["SELECT 1"]);
        within.round();
        assert_eq!(within.lose(), Loss::Closed);
        let mut open = sent(None, &[]);
        open.transaction.turn(true, None);
        assert_eq!(open.lose(), Loss::Closed);
        let mut dismissed = sent(None, &["SELECT 1"]);
        dismissed.reply.fail(false, true);
        assert_eq!(dismissed.lose(), Loss::Dismissed);
    }

    #[test]
    fn a_write_may_have_been_done_until_its_transaction_has_ended() {
        let mut lease = sent(None, &["INSERT INTO t VALUES (1)"]);
        assert!(lease.may_have_written() && !sent(None, &["SELECT 1"]).may_have_written());
        let mut round = lease.rounds.answered().unwrap();
        lease.transaction.turn(true, round.asked);
        lease.transaction.add(&mut round);
        assert!(lease.may_have_written());
        lease.transaction.end(true, false);
        assert!(!lease.may_have_written());
    }
}
