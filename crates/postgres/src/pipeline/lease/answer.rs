//! What follows from what a server says to a client that has its connection.

use std::rc::Rc;
use std::time::Instant;

use wire::postgres::backend::{Fields, Status};
use wire::postgres::sqlstate;
use wire::sql::Strings;

use super::listening::DivertedChange;
use super::machine::Lease;
use super::reply::Telling;
use super::rounds::PendingRound;
use super::transaction::TransactionEnd;
use crate::pipeline::effect;
use crate::pipeline::elsewhere::is_for_another;
use crate::pipeline::point_errors;
use crate::pipeline::prepared::DOUBTFUL;
use crate::pipeline::round::Round;
use crate::pipeline::script::{Outcome, ServerEvent};
use crate::plan::{Leaves, Plan, Unsettles};

/// What an answer does outside of the lease, at once and in this order.
#[derive(Debug)]
pub enum Arrival<'a> {
    /// The client hears these bytes, behind those that were kept back.
    Tell {
        /// What was kept back of the reply.
        early: &'a [u8],
        /// What has come of it now.
        bytes: &'a [u8],
    },
    /// The client hears this ParameterStatus, which answers a question of Weir's.
    TellParameter(&'a [u8]),
    /// The client hears this ParameterStatus of its own.
    NoteParameter(&'a [u8]),
    /// What became of the next message that changes a name of the client's.
    Name(Outcome),
    /// What was heard of the client's names holds.
    SettleNames,
    /// Nothing of what was sent has changed a name.
    UndoNames,
    /// All names that the client has given are gone.
    ClearNames,
    /// All that was prepared on the connection is gone.
    ClearPrepared,
    /// What is prepared from now on may be read in another way than what was prepared before.
    NextEpoch,
    /// So much was left on the connection, and no more.
    Leaves(Leaves),
    /// The connection is not to be used again.
    GivesUp,
    /// The client is closed, since answers do not follow from questions any more.
    OutOfStep,
    /// The client is closed, since what becomes of its messages behind a COPY can't be known.
    AmidCopy,
    /// An error is counted that the client hears.
    Error,
    /// The round goes to the primary, as its client has sent it.
    HandOver(Round),
    /// A round was answered.
    Answered(AnsweredRound<'a>),
    /// A statement has done this to the catalogue.
    Unsettles(Unsettles),
    /// Facts may be loaded again, as far as this client goes.
    ReleasesFacts,
    /// Statements may have changed the catalogue where nobody has seen it.
    MayHaveChanged,
    /// Changes of what the client listens to, which the server did not get, hold or do not.
    Diverted(&'a [DivertedChange], bool),
}

/// A round that was answered, as it is counted.
#[derive(Debug)]
pub struct AnsweredRound<'a> {
    /// What was asked in it.
    pub round: &'a PendingRound,
    /// When the first round of its transaction went out.
    pub first_round: Option<Instant>,
    /// A transaction is open behind it.
    pub is_open: bool,
    /// The client keeps its connection beyond a transaction.
    pub is_pinned: bool,
    /// When its answer came.
    pub answered: Instant,
}

/// What is known where something is heard, of the session and of its server connection.
#[derive(Debug)]
pub struct Hearing<'a> {
    /// When the server has said it.
    pub now: Instant,
    /// How servers read the session's strings.
    pub strings: Strings,
    /// What may have been left on the connection so far.
    pub leaves: Leaves,
    /// Whether the server has not answered all by which it is to bring back settings.
    pub is_restoring: bool,
    /// What the client hears in the place of what the server was meant to refuse.
    pub refusal: &'a [u8],
}

/// Carries out what an answer has done.
pub type Arrivals<'a> = dyn FnMut(Arrival<'_>) + 'a;

impl Lease {
    /// Follows from what a server has said; what is behind a transaction that it has ended.
    #[must_use]
    pub fn hear(
        &mut self,
        heard: ServerEvent<'_>,
        known: Hearing<'_>,
        out: &mut Arrivals<'_>,
    ) -> Option<TransactionEnd> {
        match heard {
            ServerEvent::Bytes(bytes) => self.tell(bytes, out),
            ServerEvent::Aside(bytes) if self.is_bound() => {
                out(Arrival::Tell { early: &[], bytes })
            }
            // Nobody else has anything to do with it.
            ServerEvent::Aside(_) => out(Arrival::GivesUp),
            ServerEvent::Parameter(body) if self.restore.is_under_way() => {
                out(Arrival::TellParameter(body));
            }
            ServerEvent::Parameter(body) if self.is_bound() => out(Arrival::NoteParameter(body)),
            ServerEvent::Ready { swallowed: true, .. } => {
                self.restore.own_answered(known.is_restoring)
            }
            ServerEvent::Ready { status, swallowed: false } => {
                return self.answered(status, known, out);
            }
            ServerEvent::Completed(tag) => self.completed(tag, out),
            ServerEvent::CopyIn { syncs, of_query } => self.rounds.copy(syncs, of_query),
            ServerEvent::Unsettled { for_good } => self.unsettled(for_good, out),
            ServerEvent::Name(outcome) => {
                out(Arrival::Name(outcome));
                if !self.reply.may_go_elsewhere() {
                    out(Arrival::SettleNames);
                }
            }
            ServerEvent::Refused(_) => {
                self.rounds.fail();
                out(Arrival::Error);
                self.tell(known.refusal, out);
            }
            ServerEvent::LeftOut => self.rounds.leave_out(),
            ServerEvent::Failed { body, swallowed } => self.failed(body, swallowed, out),
            ServerEvent::PointFailed(body) => {
                let point = self.rounds.front_mut().and_then(|round| round.point.take());
                let sql = point.unwrap_or_default();
                self.tell(&point_errors::restored(body, &sql, known.strings), out);
            }
            ServerEvent::Prepared(_)
            | ServerEvent::NotPrepared(_)
            | ServerEvent::Forgotten { .. }
            | ServerEvent::Shape(..)
            | ServerEvent::Parameter(_)
            | ServerEvent::Ignored(_)
            | ServerEvent::ReadyAgain(_)
            | ServerEvent::OwnSync => {}
        }
        None
    }

    /// Passes on what the server said, unless it may still have to be withheld. The end of a round
    /// that has reset something the client hears behind what is restored.
    fn tell(&mut self, bytes: &[u8], out: &mut Arrivals<'_>) {
        if self.reply.is_withheld() || self.restore.hold(bytes) {
            return;
        }
        match self.reply.tell(bytes, !self.rounds.is_empty()) {
            Telling::Nothing => {}
            Telling::After { early, settles } => {
                if settles {
                    out(Arrival::SettleNames);
                }
                out(Arrival::Tell { early: &early, bytes });
            }
        }
    }

    /// Whether the connection is the client's now: a server says what answers nothing to whoever is
    /// connected.
    fn is_bound(&self) -> bool {
        self.is_pinned || self.is_open() || !self.rounds.is_empty()
    }

    /// A command was completed: what all prepared statements were is known by its tag alone, as
    /// it is of one among several.
    fn completed(&mut self, tag: &[u8], out: &mut Arrivals<'_>) {
        self.transaction.completed(tag);
        match tag {
            b"DISCARD ALL" | b"DEALLOCATE ALL" => {
                out(Arrival::ClearNames);
                out(Arrival::ClearPrepared);
            }
            b"DEALLOCATE" => out(Arrival::NextEpoch),
            _ => {}
        }
    }

    /// An error came, of what the client or Weir itself has asked.
    fn failed(&mut self, body: &[u8], swallowed: bool, out: &mut Arrivals<'_>) {
        self.rounds.fail();
        let Ok(fields) = Fields::read(body) else { return };
        let code = fields.code();
        if DOUBTFUL.contains(&code) {
            out(Arrival::NextEpoch);
        }
        if swallowed {
            return;
        }
        if !self.reply.fail(is_for_another(code, true), fields.is_fatal()) {
            return out(Arrival::Error);
        }
        if code == sqlstate::READ_ONLY_TRANSACTION.as_bytes()
            && let Some(round) = self.rounds.front()
        {
            round.plans.iter().for_each(|plan| plan.refute());
        }
    }

    /// A round was answered: what it changed holds from now on.
    fn answered(
        &mut self,
        status: Status,
        known: Hearing<'_>,
        out: &mut Arrivals<'_>,
    ) -> Option<TransactionEnd> {
        let Some(mut round) = self.rounds.answered() else {
            // More answers than questions: whatever follows would be taken for another's.
            out(Arrival::GivesUp);
            out(Arrival::OutOfStep);
            return None;
        };
        let request = self.reply.end();
        if self.reply.is_withheld() {
            out(Arrival::UndoNames);
            if let Some(request) = request {
                out(Arrival::HandOver(request));
            }
            return None;
        }
        out(Arrival::SettleNames);
        self.restore.round_answered(self.rounds.is_empty());
        // The next one's time begins now, if it was sent before.
        if let Some(next) = self.rounds.front_mut().and_then(|next| next.asked.as_mut()) {
            *next = known.now;
        }
        let turn = self.transaction.turn(status != Status::Idle, round.asked);
        let is_open = self.is_open();
        out(Arrival::Answered(AnsweredRound {
            round: &round,
            first_round: turn.first_round,
            is_open,
            is_pinned: self.is_pinned,
            answered: known.now,
        }));
        let keeps = self.options.keeps_last_values.then_some(known.now);
        self.drawn.add(&round, self.sway.is_swayed(), keeps);
        for plan in &round.plans {
            out(Arrival::Unsettles(effect::unsettles(plan)));
        }
        let discards = round.plans.iter().rposition(|plan| effect::unpins(plan));
        let leaves = match discards.filter(|_| !round.failed) {
            Some(at) => self.discarded(&round, at + 1, known.leaves, out),
            None => known.leaves,
        };
        out(Arrival::Diverted(&round.diverted, !round.failed));
        if !round.failed {
            round.resets.drain(..).for_each(|begun| self.restore.want(begun));
        }
        self.transaction.add(&mut round);
        match is_open {
            true => None,
            false => Some(self.end_transaction(turn.was_open, round.failed, leaves, out)),
        }
    }

    /// `DISCARD ALL` was done; what is left of what was left before. What was sent behind it, in
    /// this round from the plan at `from` on and in later ones, may leave something again; and some
    /// things it leaves as they are.
    fn discarded(
        &mut self,
        round: &PendingRound,
        from: usize,
        left: Leaves,
        out: &mut Arrivals<'_>,
    ) -> Leaves {
        let pins = round.pins(from) || self.rounds.iter().any(|round| round.pins(0));
        let stays = self.is_pinned && left == Leaves::Lasting;
        self.is_pinned = self.options.is_pinned_by_mode || pins || stays;
        if left == Leaves::Lasting {
            return left;
        }
        let later = self.rounds.iter().map(|round| round.leaves(0));
        let leaves = later.fold(round.leaves(from), Leaves::max);
        out(Arrival::Leaves(leaves));
        leaves
    }

    /// No transaction is open any more.
    fn end_transaction(
        &mut self,
        was_open: bool,
        failed: bool,
        leaves: Leaves,
        out: &mut Arrivals<'_>,
    ) -> TransactionEnd {
        if leaves != Leaves::Nothing {
            out(Arrival::MayHaveChanged);
        }
        if self.sway.end_transaction(self.rounds.is_empty()) {
            out(Arrival::NextEpoch);
        }
        let unsettles = |plan: &Rc<Plan>| effect::unsettles(plan) >= Unsettles::Changes;
        if !self.rounds.iter().any(|round| round.plans.iter().any(unsettles)) {
            out(Arrival::ReleasesFacts);
        }
        let end = self.transaction.end(was_open, failed);
        // What holds now of what it has set only the server knows: the client keeps it.
        self.is_pinned |= end.pins;
        end
    }

    /// A COPY has failed of which nobody knows how many of the Syncs amid its data are answered:
    /// nobody else ever has a connection on which an answer may still be under way.
    fn unsettled(&mut self, for_good: bool, out: &mut Arrivals<'_>) {
        self.is_pinned = true;
        out(Arrival::Leaves(Leaves::Lasting));
        if for_good {
            out(Arrival::GivesUp);
            out(Arrival::AmidCopy);
        }
    }
}

#[cfg(test)]
#[path = "answer_tests.rs"]
mod tests;
