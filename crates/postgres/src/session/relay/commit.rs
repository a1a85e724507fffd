//! A client's COMMIT that is told once it is confirmed together with others.
//!
//! It goes out behind what has it not wait, and nothing of the client follows until its answer is
//! out. The server connection is given back as soon as the server has answered.

use std::future::poll_fn;

use wire::postgres::backend::Status;
use wire::postgres::frame;
use wire::postgres::frontend::tag;

use super::Relay;
use crate::backends::BackendState;
use crate::connection::Connection;
use crate::pipeline::lease::machine::Lease;
use crate::pipeline::lease::restore::Restore;
use crate::pipeline::script::ServerEvent;
use crate::plan::{Kind, Plan};
use crate::session::{End, Session};
use crate::worker::{ConfirmedCommit, SharedCommit, unconfirmed};

/// A longer Query is not looked at: it is more than a COMMIT.
const COMMIT_BYTES_MAX: usize = 64;

/// A COMMIT that went out behind what has it not wait.
#[derive(Debug)]
pub(super) struct CommitUnderWay {
    shared: SharedCommit,
    /// Bytes of it that are still to go out.
    pub unsent: usize,
    stage: CommitStage,
    /// What is held of its answer.
    answer: Vec<u8>,
}

/// How far a server has come with a COMMIT.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CommitStage {
    /// It runs what has the COMMIT not wait.
    Prepares,
    /// It runs the COMMIT; what comes meanwhile tells of nothing that was done.
    Runs,
    /// The COMMIT was completed, or has failed.
    Completed,
    /// Its ReadyForQuery was read.
    Answered,
}

impl CommitStage {
    fn hear(self, heard: &ServerEvent<'_>) -> Self {
        match (self, heard) {
            (Self::Prepares, ServerEvent::Ready { swallowed: true, .. }) => Self::Runs,
            (
                Self::Runs,
                ServerEvent::Completed(_) | ServerEvent::Failed { swallowed: false, .. },
            ) => Self::Completed,
            (Self::Runs | Self::Completed, ServerEvent::Ready { swallowed: false, .. }) => {
                Self::Answered
            }
            (stage, _) => stage,
        }
    }
}

impl CommitUnderWay {
    /// Takes note of what the server says, before anything of it is told.
    pub fn hear(&mut self, heard: &ServerEvent<'_>) {
        self.stage = self.stage.hear(heard);
    }

    /// Holds a piece of its answer; false where the client hears it now.
    pub fn holds(&mut self, pieces: [&[u8]; 2]) -> bool {
        let is_held = matches!(self.stage, CommitStage::Completed | CommitStage::Answered);
        if is_held {
            pieces.iter().for_each(|piece| self.answer.extend_from_slice(piece));
        }
        is_held
    }
}

/// Whether a Query is the end of a transaction that may have written, which the server would have
/// nothing else to do with: what was asked before it is answered.
fn may_share(plan: &Plan, lease: &Lease, status: Status) -> bool {
    matches!(plan.kind, Kind::Commit { chain: false })
        && status == Status::InTransaction
        && is_at_rest(lease)
        && lease.transaction.writes()
}

/// Whether a transaction is open, and nothing of it is under way.
fn is_at_rest(lease: &Lease) -> bool {
    lease.is_open() && lease.is_quiet() && lease.restore == Restore::Nothing
}

impl Session {
    /// Puts what has a COMMIT not wait in front of it, if that is what the client has sent next;
    /// how many bytes it has.
    pub(super) fn share_commit(
        &self,
        relay: &mut Relay,
        server: &mut Connection,
        inbox: &[u8],
    ) -> Option<usize> {
        let is_lasting = !self.shares_commits() || relay.lease.is_pinned;
        if is_lasting || !is_at_rest(&relay.lease) || !server.script.is_idle() {
            return None;
        }
        let message = frame::next(inbox, COMMIT_BYTES_MAX).ok().flatten()?;
        let sql = message.body.strip_suffix(&[0]).filter(|_| message.tag == tag::QUERY)?;
        let is_primary = server.backend.standing() == BackendState::Primary;
        if !is_primary || !may_share(&self.plan(sql), &relay.lease, server.status) {
            return None;
        }
        let shared = self.front.share_commit(server, true)?;
        server.ask(&shared.without_waiting());
        let (unsent, stage) = (message.whole.len(), CommitStage::Prepares);
        relay.commit = Some(CommitUnderWay { shared, unsent, stage, answer: Vec::new() });
        Some(unsent)
    }

    /// Hands over a COMMIT that was answered, for the next mark to confirm.
    pub(super) fn hold_commit(&mut self, relay: &mut Relay) {
        let is_answered = |commit: &mut CommitUnderWay| commit.stage == CommitStage::Answered;
        if let Some(commit) = relay.commit.take_if(is_answered) {
            self.unconfirmed = Some(commit.shared.hold(&commit.answer));
        }
    }

    /// Waits until the last COMMIT is confirmed, and tells the client.
    ///
    /// # Errors
    /// The client was closed meanwhile.
    pub(in crate::session) async fn confirmed(&mut self) -> Result<(), End> {
        let Some(mut commit) = self.unconfirmed.take() else { return Ok(()) };
        let client = self.client.clone();
        client.seen().unconfirmed.set(true);
        let confirmed = tokio::select! {
            biased;
            confirmed = commit.confirmed() => Some(confirmed),
            () = poll_fn(|cx| client.poll_killed(cx, false)) => None,
        };
        client.seen().unconfirmed.set(false);
        // Only now does a position of the server's lie behind it.
        self.last_write = self.front.backends.note_write();
        match confirmed {
            None => return Err(client.killed().map_or(End::Gone, End::Refused)),
            Some(None) => self.refuse(&unconfirmed()),
            Some(Some(ConfirmedCommit { bytes, warning })) => {
                client.outlet.send_parts(&[warning.as_deref().unwrap_or_default(), &bytes]);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::plan::tests::plan;

    const OPEN: Status = Status::InTransaction;

    /// A lease in whose open transaction these were run.
    fn within(texts: &[&str]) -> Lease {
        let mut lease = Lease::default();
        for sql in texts {
            lease.round().plans.push(plan(sql));
            lease.rounds.end(Instant::now());
            let mut round = lease.rounds.answered().unwrap();
            lease.transaction.turn(true, round.asked);
            lease.transaction.add(&mut round);
        }
        lease
    }

    #[test]
    fn the_end_of_a_transaction_that_has_written_may_wait_for_a_mark() {
        let wrote = || within(&["BEGIN", "INSERT INTO t VALUES (1)"]);
        for sql in ["COMMIT", "END", "COMMIT WORK", "commit;"] {
            assert!(may_share(&plan(sql), &wrote(), OPEN), "{sql}");
        }
        for sql in ["COMMIT AND CHAIN", "ROLLBACK", "COMMIT; SELECT 1", "COMMIT PREPARED 'a'"] {
            assert!(!may_share(&plan(sql), &wrote(), OPEN), "{sql}");
        }
        for status in [Status::Idle, Status::Failed] {
            assert!(!may_share(&plan("COMMIT"), &wrote(), status), "{status:?}");
        }
    }

    #[test]
    fn a_transaction_that_has_only_read_waits_for_nothing() {
        assert!(!may_share(&plan("COMMIT"), &within(&["BEGIN"]), OPEN));
        assert!(!may_share(&plan("COMMIT"), &Lease::default(), OPEN));
    }

    #[test]
    fn a_commit_behind_what_is_not_answered_is_the_server_s_own() {
        let mut lease = within(&["BEGIN", "INSERT INTO t VALUES (1)"]);
        lease.round().plans.push(plan("INSERT INTO t VALUES (2)"));
        assert!(!may_share(&plan("COMMIT"), &lease, OPEN));
        lease.rounds.end(Instant::now());
        assert!(!may_share(&plan("COMMIT"), &lease, OPEN));
        let mut lease = within(&["BEGIN", "INSERT INTO t VALUES (1)"]);
        lease.restore.await_round();
        assert!(!may_share(&plan("COMMIT"), &lease, OPEN));
    }

    #[test]
    fn an_answer_is_held_from_what_tells_that_something_was_done() {
        let ready = |swallowed| ServerEvent::Ready { status: Status::Idle, swallowed };
        let done = ServerEvent::Completed(b"COMMIT");
        let failed = |swallowed| ServerEvent::Failed { body: b"", swallowed };
        let after =
            |all: &[ServerEvent<'_>]| all.iter().fold(CommitStage::Prepares, |s, h| s.hear(h));
        let notice = ServerEvent::Bytes(b"N");
        assert_eq!(after(&[ServerEvent::Completed(b"SELECT 1")]), CommitStage::Prepares);
        assert_eq!(after(&[failed(true)]), CommitStage::Prepares);
        assert_eq!(after(&[ready(true), notice]), CommitStage::Runs);
        for end in [done, failed(false)] {
            let (before, all) =
                (after(&[ready(true), end]), after(&[ready(true), end, ready(false)]));
            assert_eq!((before, all), (CommitStage::Completed, CommitStage::Answered));
        }
        assert_eq!(after(&[ready(true), ready(false)]), CommitStage::Answered);
    }
}
