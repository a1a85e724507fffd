//! What is done of what a server says to a client that has its connection.

use wire::postgres::frame::HEADER_BYTES;
use wire::postgres::{Refusal, message, sqlstate};

use super::Relay;
use super::commit::CommitUnderWay;
use super::state::{RoundInFront, Tally};
use crate::catalogue::Unsettled;
use crate::client::OUT_OF_STEP;
use crate::connection::ConnectionKnowledge;
use crate::pipeline::lease::answer::{AnsweredRound, Arrival, Hearing};
use crate::pipeline::lease::transaction::TransactionEnd;
use crate::pipeline::round::Round;
use crate::pipeline::script::ServerEvent;
use crate::plan::Kind;
use crate::session::Session;
use crate::session::listen::end_diverted;
use crate::settings::Mode;
use crate::slow::{self, Slow};

/// What a client hears that sends something else behind a Sync amid the data of a COPY.
pub(super) fn amid_copy() -> Refusal {
    let what = "unexpected message amid the data of a COPY, behind a Sync";
    Refusal::fatal(sqlstate::PROTOCOL_VIOLATION, what).hint("end the data by CopyDone or CopyFail")
}

/// A session for which its server connection says something.
struct HearingSession<'a, 'k> {
    session: &'a mut Session,
    known: &'a mut ConnectionKnowledge<'k>,
    unsettled: &'a mut Option<Unsettled>,
    tally: &'a mut Tally,
    in_front: &'a mut RoundInFront,
    commit: &'a mut Option<CommitUnderWay>,
}

impl HearingSession<'_, '_> {
    /// Does what an answer has done.
    fn carry_out(&mut self, arrival: Arrival<'_>) {
        let Self { session, known, in_front, commit, .. } = self;
        match arrival {
            Arrival::Tell { early, bytes }
                if (**commit).as_mut().is_some_and(|commit| commit.holds([early, bytes])) => {}
            Arrival::Tell { early: [], bytes } => session.client.outlet.send(bytes),
            Arrival::Tell { early, bytes } => session.client.outlet.send_parts(&[early, bytes]),
            Arrival::TellParameter(body) => session.tell_parameter(body),
            Arrival::NoteParameter(body) => session.is_told(body),
            Arrival::Name(outcome) => session.client.names().heard(outcome),
            Arrival::SettleNames => session.client.names().settle(),
            Arrival::UndoNames => session.client.names().undo_all(),
            Arrival::ClearNames => session.client.names().clear(),
            Arrival::ClearPrepared => known.prepared.clear(),
            Arrival::NextEpoch => known.prepared.next_epoch(),
            Arrival::Leaves(leaves) => *known.leaves = leaves,
            Arrival::GivesUp => known.give_up(),
            Arrival::OutOfStep => {
                session.client.kill(Refusal::fatal(sqlstate::INTERNAL_ERROR, OUT_OF_STEP));
            }
            Arrival::AmidCopy => session.client.kill(amid_copy()),
            Arrival::Error => session.database.count(|totals| totals.errors += 1),
            Arrival::HandOver(round) => session.hand_over(in_front, round),
            Arrival::Answered(answered) => session.count(self.tally, &answered),
            Arrival::Unsettles(how) => session.database.catalogue_changed(how),
            Arrival::ReleasesFacts => *self.unsettled = None,
            Arrival::MayHaveChanged => session.database.may_have_changed(),
            Arrival::Diverted(changes, holds) => {
                end_diverted(&mut session.listener, changes, holds)
            }
        }
    }
}

impl Session {
    /// Follows from what the server has said.
    pub(super) fn hear(
        &mut self,
        relay: &mut Relay,
        known: &mut ConnectionKnowledge<'_>,
        heard: ServerEvent<'_>,
    ) {
        let Relay { lease, unsettled, tally, in_front, commit, .. } = relay;
        if let Some(commit) = commit {
            commit.hear(&heard);
        }
        let refusal = match heard {
            ServerEvent::Refused(why) => self.client.refused(why),
            _ => Vec::new(),
        };
        let hearing = Hearing {
            now: known.now,
            strings: self.environment.scope.strings,
            leaves: *known.leaves,
            is_restoring: known.is_restoring(),
            refusal: &refusal,
        };
        let mut session =
            HearingSession { session: self, known, unsettled, tally, in_front, commit };
        let end = lease.hear(heard, hearing, &mut |arrival| session.carry_out(arrival));
        if let Some(end) = end {
            lease.is_pinned |= self.transaction_ended(end);
        }
    }

    /// The client hears of a setting that is brought back for it.
    fn tell_parameter(&mut self, body: &[u8]) {
        let mut out = Vec::with_capacity(body.len() + HEADER_BYTES);
        message(&mut out, b'S', |out| out.extend_from_slice(body));
        self.client.outlet.send(&out);
        self.is_told(body);
    }

    /// A round goes to the primary, since this server could not answer it.
    pub(super) fn hand_over(&mut self, in_front: &mut RoundInFront, round: Round) {
        self.front.shared.metrics.repeated.inc();
        *in_front = RoundInFront::HandedOver(round);
        self.only_primary = true;
    }

    /// No transaction is open any more; whether the client keeps its connection for the settings
    /// that it has now.
    fn transaction_ended(&mut self, end: TransactionEnd) -> bool {
        let mut pins = false;
        if end.holds {
            let settings = &mut self.environment.settings;
            end.changes.into_iter().for_each(|change| settings.change(change));
            self.environment.follow();
            pins = self.environment.settings.pins();
            end.listens.iter().for_each(|plan| self.listening_changed(plan));
        }
        if end.changed_logins {
            self.front.backends.logins_changed();
        }
        if end.wrote {
            self.last_write = self.front.backends.note_write();
        }
        pins
    }

    /// Learns how long a round ran, and counts it.
    fn count(&self, tally: &mut Tally, answered: &AnsweredRound<'_>) {
        self.front.shared.metrics.leased.inc();
        let round = answered.round;
        let Some(asked) = round.asked else { return };
        let ran = answered.answered.saturating_duration_since(asked);
        let queued = tally.wanted.take().map(|wanted| asked.saturating_duration_since(wanted));
        let begun = answered.first_round.unwrap_or(asked);
        let took = asked.saturating_duration_since(begun) + ran;
        let ended = Some(took).filter(|_| !answered.is_open);
        self.database.count(|totals| {
            totals.queries += 1;
            totals.query_time += ran;
            totals.replica_queries += u64::from(tally.on_replica);
            if let Some(took) = ended {
                totals.transactions += 1;
                totals.transaction_time += took;
            }
        });
        let seen = self.client.seen();
        seen.prepared.set(self.client.names().count());
        seen.pinned.set(self.pinned_by(answered.is_pinned));
        seen.in_transaction.set(answered.is_open.then_some(answered.answered));
        if let Some(latencies) = &tally.latencies {
            latencies.lease.observe(queued.unwrap_or_default(), ran);
            slow::note(&self.front.slow, ran, || Slow {
                database: &self.database,
                user: &self.user,
                backend: &latencies.backend,
                way: "lease",
                plans: &round.plans,
            });
        }
        if let ([plan], false) = (&round.plans[..], round.failed) {
            plan.note(ran);
            match plan.kind {
                Kind::Read => self.front.norm.note(ran),
                Kind::Write => self.front.write_norm.note(ran),
                _ => {}
            }
        }
    }

    /// Why the client keeps its server connection beyond a transaction; empty where it doesn't.
    fn pinned_by(&self, is_pinned: bool) -> &'static str {
        match (is_pinned, self.options.mode) {
            (false, _) => "",
            (true, Mode::Session) => "mode",
            (true, Mode::Transaction) => "state",
        }
    }
}
