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
use crate::pipeline::point_errors;
use crate::pipeline::prepared::DOUBTFUL;
use crate::pipeline::round::Round;
use crate::pipeline::script::{Heard, Outcome, Why};
use crate::pipeline::settings::SessionSettings;
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
    /// The client keeps its server connection beyond the transaction, or no longer does.
    Pins(bool),
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
    /// A transaction has ended.
    Ended(TransactionEnd),
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
}

/// The session that an answer is for.
pub trait Arriving {
    /// Its settings as they are now.
    fn settings(&self) -> &SessionSettings;
    /// How servers read its strings.
    fn strings(&self) -> Strings;
    /// Whether the client keeps its connection beyond a transaction.
    fn is_pinned(&self) -> bool;
    /// Whether it keeps its connection whatever it has done there.
    fn is_pinned_by_mode(&self) -> bool;
    /// Whether the client keeps its connection for a while after it may have drawn.
    fn keeps_last_values(&self) -> bool;
    /// What may have been left on the connection so far.
    fn leaves(&self) -> Leaves;
    /// Whether the server has not answered all by which it is to bring back settings.
    fn is_restoring(&self) -> bool;
    /// Whether another server could do better than to fail with this SQLSTATE.
    fn is_for_another(&self, code: &[u8]) -> bool;
    /// What the client hears in the place of what the server was meant to refuse.
    fn refusal(&self, why: Why) -> Vec<u8>;
    /// Does what an answer has done.
    fn carry_out(&mut self, arrival: Arrival<'_>);
}

impl Lease {
    /// Follows from what a server has said.
    pub fn hear(
        &mut self,
        heard: Heard<'_>,
        now: impl Fn() -> Instant,
        session: &mut impl Arriving,
    ) {
        match heard {
            Heard::Bytes(bytes) => self.tell(bytes, session),
            Heard::Aside(bytes) if self.is_bound(session) => {
                session.carry_out(Arrival::Tell { early: &[], bytes });
            }
            // Nobody else has anything to do with it.
            Heard::Aside(_) => session.carry_out(Arrival::GivesUp),
            Heard::Parameter(body) if self.restore.is_under_way() => {
                session.carry_out(Arrival::TellParameter(body));
            }
            Heard::Parameter(body) if self.is_bound(session) => {
                session.carry_out(Arrival::NoteParameter(body));
            }
            Heard::Ready { swallowed: true, .. } => {
                self.restore.own_answered(session.is_restoring());
            }
            Heard::Ready { status, swallowed: false } => self.answered(status, now, session),
            Heard::Completed(tag) => self.completed(tag, session),
            Heard::CopyIn { syncs, of_query } => self.rounds.copy(syncs, of_query),
            Heard::Unsettled { for_good } => unsettled(for_good, session),
            Heard::Name(outcome) => {
                session.carry_out(Arrival::Name(outcome));
                if !self.reply.may_go_elsewhere() {
                    session.carry_out(Arrival::SettleNames);
                }
            }
            Heard::Refused(why) => {
                self.rounds.fail();
                session.carry_out(Arrival::Error);
                let said = session.refusal(why);
                self.tell(&said, session);
            }
            Heard::LeftOut => self.rounds.leave_out(),
            Heard::Failed { body, swallowed } => self.failed(body, swallowed, session),
            Heard::PointFailed(body) => {
                let point = self.rounds.front_mut().and_then(|round| round.point.take());
                let sql = point.unwrap_or_default();
                let restored = point_errors::restored(body, &sql, session.strings());
                self.tell(&restored, session);
            }
            Heard::Prepared(_)
            | Heard::NotPrepared(_)
            | Heard::Forgotten { .. }
            | Heard::Shape(..)
            | Heard::Parameter(_)
            | Heard::Ignored(_)
            | Heard::ReadyAgain(_)
            | Heard::OwnSync => {}
        }
    }

    /// Passes on what the server said, unless it may still have to be withheld. The end of a round
    /// that has reset something the client hears behind what is restored.
    fn tell(&mut self, bytes: &[u8], session: &mut impl Arriving) {
        if self.reply.is_withheld() || self.restore.hold(bytes) {
            return;
        }
        match self.reply.tell(bytes, !self.rounds.is_empty()) {
            Telling::Nothing => {}
            Telling::After { early, settles } => {
                if settles {
                    session.carry_out(Arrival::SettleNames);
                }
                session.carry_out(Arrival::Tell { early: &early, bytes });
            }
        }
    }

    /// Whether the connection is the client's now: a server says what answers nothing to whoever is
    /// connected.
    fn is_bound(&self, session: &impl Arriving) -> bool {
        session.is_pinned() || self.is_open() || !self.rounds.is_empty()
    }

    /// A command was completed: what all prepared statements were is known by its tag alone, as
    /// it is of one among several.
    fn completed(&mut self, tag: &[u8], session: &mut impl Arriving) {
        self.transaction.completed(tag);
        match tag {
            b"DISCARD ALL" | b"DEALLOCATE ALL" => {
                session.carry_out(Arrival::ClearNames);
                session.carry_out(Arrival::ClearPrepared);
            }
            b"DEALLOCATE" => session.carry_out(Arrival::NextEpoch),
            _ => {}
        }
    }

    /// An error came, of what the client or Weir itself has asked.
    fn failed(&mut self, body: &[u8], swallowed: bool, session: &mut impl Arriving) {
        self.rounds.fail();
        let Ok(fields) = Fields::read(body) else { return };
        let code = fields.code();
        if DOUBTFUL.contains(&code) {
            session.carry_out(Arrival::NextEpoch);
        }
        if swallowed {
            return;
        }
        if !self.reply.fail(session.is_for_another(code), fields.is_fatal()) {
            return session.carry_out(Arrival::Error);
        }
        if code == sqlstate::READ_ONLY_TRANSACTION.as_bytes()
            && let Some(round) = self.rounds.front()
        {
            round.plans.iter().for_each(|plan| plan.refute());
        }
    }

    /// A round was answered: what it changed holds from now on.
    fn answered(&mut self, status: Status, now: impl Fn() -> Instant, session: &mut impl Arriving) {
        let Some(mut round) = self.rounds.answered() else {
            // More answers than questions: whatever follows would be taken for another's.
            session.carry_out(Arrival::GivesUp);
            return session.carry_out(Arrival::OutOfStep);
        };
        let request = self.reply.end();
        if self.reply.is_withheld() {
            session.carry_out(Arrival::UndoNames);
            if let Some(request) = request {
                session.carry_out(Arrival::HandOver(request));
            }
            return;
        }
        session.carry_out(Arrival::SettleNames);
        self.restore.round_answered(self.rounds.is_empty());
        // The next one's time begins now, if it was sent before.
        if let Some(next) = self.rounds.front_mut().and_then(|next| next.asked.as_mut()) {
            *next = now();
        }
        let turn = self.transaction.turn(status != Status::Idle, round.asked);
        let (first_round, is_open) = (turn.first_round, self.is_open());
        session.carry_out(Arrival::Answered(AnsweredRound { round: &round, first_round, is_open }));
        let (is_swayed, keeps) = (self.sway.is_swayed(), session.keeps_last_values());
        self.drawn.add(&round, is_swayed, keeps, &now);
        for plan in &round.plans {
            session.carry_out(Arrival::Unsettles(effect::unsettles(plan)));
        }
        let discards = round.plans.iter().rposition(|plan| effect::unpins(plan));
        if let Some(at) = discards.filter(|_| !round.failed) {
            self.discarded(&round, at + 1, session);
        }
        session.carry_out(Arrival::Diverted(&round.diverted, !round.failed));
        if !round.failed {
            for change in &round.changes {
                self.restore.want(session.settings().begun_with(change));
            }
        }
        self.transaction.add(&mut round);
        if !is_open {
            self.end_transaction(turn.was_open, round.failed, session);
        }
    }

    /// `DISCARD ALL` was done. What was sent behind it, in this round from the plan at `from` on
    /// and in later ones, may leave something again; and some things it leaves as they are.
    fn discarded(&self, round: &PendingRound, from: usize, session: &mut impl Arriving) {
        let pins = round.pins(from) || self.rounds.iter().any(|round| round.pins(0));
        let leaves = session.leaves();
        let stays = session.is_pinned() && leaves == Leaves::Lasting;
        session.carry_out(Arrival::Pins(session.is_pinned_by_mode() || pins || stays));
        if leaves != Leaves::Lasting {
            let later = self.rounds.iter().map(|round| round.leaves(0));
            session.carry_out(Arrival::Leaves(later.fold(round.leaves(from), Leaves::max)));
        }
    }

    /// No transaction is open any more.
    fn end_transaction(&mut self, was_open: bool, failed: bool, session: &mut impl Arriving) {
        if session.leaves() != Leaves::Nothing {
            session.carry_out(Arrival::MayHaveChanged);
        }
        if self.sway.end_transaction(self.rounds.is_empty()) {
            session.carry_out(Arrival::NextEpoch);
        }
        let unsettles = |plan: &Rc<Plan>| effect::unsettles(plan) >= Unsettles::Changes;
        if !self.rounds.iter().any(|round| round.plans.iter().any(unsettles)) {
            session.carry_out(Arrival::ReleasesFacts);
        }
        let end = self.transaction.end(was_open, failed);
        session.carry_out(Arrival::Ended(end));
    }
}

/// A COPY has failed of which nobody knows how many of the Syncs amid its data are answered: nobody
/// else ever has a connection on which an answer may still be under way.
fn unsettled(for_good: bool, session: &mut impl Arriving) {
    session.carry_out(Arrival::Pins(true));
    session.carry_out(Arrival::Leaves(Leaves::Lasting));
    if for_good {
        session.carry_out(Arrival::GivesUp);
        session.carry_out(Arrival::AmidCopy);
    }
}

#[cfg(test)]
#[path = "answer_tests.rs"]
mod tests;
