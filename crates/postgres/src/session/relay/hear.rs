//! What a server says to a client that has its connection.

use std::rc::Rc;
use std::time::Instant;

use wire::postgres::backend::{Fields, Status};
use wire::postgres::frame::HEADER_BYTES;
use wire::postgres::{Refusal, message, sqlstate};

use super::Relay;
use crate::client::OUT_OF_STEP;
use crate::connection::Known;
use crate::lanes::is_for_another;
use crate::pipeline::lease::effect;
use crate::pipeline::lease::reply::Telling;
use crate::pipeline::lease::rounds::PendingRound;
use crate::pipeline::lease::transaction::TransactionEnd;
use crate::pipeline::point_errors;
use crate::pipeline::prepared::DOUBTFUL;
use crate::pipeline::script::Heard;
use crate::plan::{Kind, Leaves, Plan, Unsettles};
use crate::session::Session;
use crate::settings::Mode;
use crate::slow::{self, Slow};

/// What a client hears that sends something else behind a Sync amid the data of a COPY.
pub(super) fn amid_copy() -> Refusal {
    let what = "unexpected message amid the data of a COPY, behind a Sync";
    Refusal::fatal(sqlstate::PROTOCOL_VIOLATION, what).hint("end the data by CopyDone or CopyFail")
}

impl Session {
    pub(super) fn hear(&mut self, relay: &mut Relay, known: &mut Known<'_>, heard: Heard<'_>) {
        match heard {
            Heard::Bytes(bytes) => self.tell(relay, bytes),
            Heard::Aside(bytes) => self.tell_aside(relay, known, bytes),
            Heard::Parameter(body) if relay.lease.restore.is_under_way() => {
                let mut out = Vec::with_capacity(body.len() + HEADER_BYTES);
                message(&mut out, b'S', |out| out.extend_from_slice(body));
                self.client.outlet.send(&out);
                self.is_told(body);
            }
            Heard::Parameter(body) if self.is_bound(relay) => self.is_told(body),
            Heard::Ready { swallowed: true, .. } => {
                relay.lease.restore.own_answered(known.is_restoring());
            }
            Heard::Ready { status, swallowed: false } => {
                self.answered(relay, known, status);
            }
            Heard::Completed(tag) => self.completed(relay, known, tag),
            Heard::CopyIn { syncs, of_query } => relay.lease.rounds.copy(syncs, of_query),
            Heard::Unsettled { for_good } => {
                // Nobody else ever has a connection on which an answer may still be under way.
                self.pinned = true;
                *known.leaves = Leaves::Lasting;
                if for_good {
                    known.give_up();
                    self.client.kill(amid_copy());
                }
            }
            Heard::Name(outcome) => {
                let mut names = self.client.names();
                names.heard(outcome);
                if !relay.lease.reply.may_go_elsewhere() {
                    names.settle();
                }
            }
            Heard::Refused(why) => {
                relay.lease.rounds.fail();
                self.database.count(|totals| totals.errors += 1);
                let said = self.client.refused(why);
                self.tell(relay, &said);
            }
            Heard::LeftOut => relay.lease.rounds.leave_out(),
            Heard::Failed { body, swallowed } => self.failed(relay, known, body, swallowed),
            Heard::PointFailed(body) => {
                let point = relay.lease.rounds.front_mut().and_then(|round| round.point.take());
                let sql = point.unwrap_or_default();
                self.tell(relay, &point_errors::restored(body, &sql, self.scope.strings));
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

    /// Passes on what the server said, unless it may still have to be withheld.
    fn tell(&mut self, relay: &mut Relay, bytes: &[u8]) {
        // The end of the round that has reset something the client hears behind what is restored.
        if relay.lease.reply.is_withheld() || relay.lease.restore.hold(bytes) {
            return;
        }
        match relay.lease.reply.tell(bytes, !relay.lease.rounds.is_empty()) {
            Telling::Nothing => {}
            Telling::After { early, settles } => {
                if settles {
                    self.client.names().settle();
                }
                if early.is_empty() {
                    self.client.outlet.send(bytes);
                } else {
                    self.client.outlet.send_parts(&[&early, bytes]);
                }
            }
        }
    }

    /// Passes on what answers nothing, as a server says it to whoever is connected: to a client
    /// that the connection is still bound to. Anybody else has nothing to do with it.
    fn tell_aside(&mut self, relay: &Relay, known: &mut Known<'_>, bytes: &[u8]) {
        if self.is_bound(relay) {
            self.client.outlet.send(bytes);
        } else {
            known.give_up();
        }
    }

    /// Whether the connection is the client's now.
    fn is_bound(&self, relay: &Relay) -> bool {
        self.pinned || relay.lease.is_open() || !relay.lease.rounds.is_empty()
    }

    /// A command was completed: what all prepared statements were is known by its tag alone, as
    /// it is of one among several.
    fn completed(&mut self, relay: &mut Relay, known: &mut Known<'_>, tag: &[u8]) {
        relay.lease.transaction.completed(tag);
        match tag {
            b"DISCARD ALL" | b"DEALLOCATE ALL" => {
                self.client.names().clear();
                known.prepared.clear();
            }
            b"DEALLOCATE" => known.prepared.next_epoch(),
            _ => {}
        }
    }

    fn failed(&mut self, relay: &mut Relay, known: &mut Known<'_>, body: &[u8], swallowed: bool) {
        relay.lease.rounds.fail();
        let Ok(fields) = Fields::read(body) else { return };
        let code = fields.code();
        if DOUBTFUL.contains(&code) {
            known.prepared.next_epoch();
        }
        if swallowed {
            return;
        }
        if !relay.lease.reply.fail(is_for_another(code, true), fields.is_fatal()) {
            return self.database.count(|totals| totals.errors += 1);
        }
        if code == sqlstate::READ_ONLY_TRANSACTION.as_bytes()
            && let Some(round) = relay.lease.rounds.front()
        {
            round.plans.iter().for_each(|plan| plan.refute());
        }
    }

    /// A round was answered: what it changed holds from now on.
    fn answered(&mut self, relay: &mut Relay, known: &mut Known<'_>, status: Status) {
        let Some(mut round) = relay.lease.rounds.answered() else {
            // More answers than questions: whatever follows would be taken for another's.
            known.give_up();
            return self.client.kill(Refusal::fatal(sqlstate::INTERNAL_ERROR, OUT_OF_STEP));
        };
        let request = relay.lease.reply.end();
        if relay.lease.reply.is_withheld() {
            self.client.names().undo_all();
            if let Some(request) = request {
                self.front.shared.metrics.repeated.inc();
                self.put_back(&request);
                self.only_primary = true;
            }
            return;
        }
        self.client.names().settle();
        relay.lease.restore.round_answered(relay.lease.rounds.is_empty());
        self.front.shared.metrics.leased.inc();
        // The next one's time begins now, if it was sent before.
        if let Some(next) = relay.lease.rounds.front_mut().and_then(|next| next.asked.as_mut()) {
            *next = Instant::now();
        }
        let turn = relay.lease.transaction.turn(status != Status::Idle, round.asked);
        self.count(relay, &round, turn.first_round);
        let (is_swayed, keeps) = (relay.lease.sway.is_swayed(), self.keeps_last_values);
        relay.lease.drawn.add(&round, is_swayed, keeps, Instant::now);
        for plan in &round.plans {
            self.database.catalogue_changed(effect::unsettles(plan));
        }
        let discards = round.plans.iter().rposition(|plan| effect::unpins(plan));
        if let Some(at) = discards.filter(|_| !round.failed) {
            self.discarded(relay, known, &round, at + 1);
        }
        self.divert_ended(&round.diverted, !round.failed);
        if !round.failed {
            let begun = round.changes.iter().map(|change| self.settings.begun_with(change));
            begun.for_each(|begun| relay.lease.restore.want(begun));
        }
        relay.lease.transaction.add(&mut round);
        if !relay.lease.is_open() {
            if *known.leaves != Leaves::Nothing {
                self.database.may_have_changed();
            }
            if relay.lease.sway.end_transaction(relay.lease.rounds.is_empty()) {
                known.prepared.next_epoch();
            }
            let end = relay.lease.transaction.end(turn.was_open, round.failed);
            self.transaction_ended(relay, end);
        }
    }

    /// `DISCARD ALL` was done. What was sent behind it, in this round from the plan at `from` on
    /// and in later ones, may leave something again; and some things it leaves as they are.
    fn discarded(
        &mut self,
        relay: &Relay,
        known: &mut Known<'_>,
        round: &PendingRound,
        from: usize,
    ) {
        let later = || relay.lease.rounds.iter();
        let pins = round.pins(from) || later().any(|round| round.pins(0));
        let stays = self.pinned && *known.leaves == Leaves::Lasting;
        self.pinned = self.mode == Mode::Session || pins || stays;
        if *known.leaves != Leaves::Lasting {
            *known.leaves =
                later().map(|round| round.leaves(0)).fold(round.leaves(from), Leaves::max);
        }
    }

    /// No transaction is open any more.
    fn transaction_ended(&mut self, relay: &mut Relay, end: TransactionEnd) {
        let unsettles = |plan: &Rc<Plan>| effect::unsettles(plan) >= Unsettles::Changes;
        if !relay.lease.rounds.iter().any(|round| round.plans.iter().any(unsettles)) {
            relay.unsettled = None;
        }
        // What holds now of what it has set only the server knows: the client keeps it.
        self.pinned |= end.pins;
        if end.holds {
            end.changes.into_iter().for_each(|change| self.settings.change(change));
            self.settings_changed();
            self.pinned |= self.settings.pins();
            end.listens.iter().for_each(|plan| self.listening_changed(plan));
        }
        if end.changed_logins {
            self.front.backends.logins_changed();
        }
        if end.wrote {
            self.last_write = self.front.backends.note_write();
        }
    }

    /// Learns how long a round ran, and counts it.
    fn count(&self, relay: &mut Relay, round: &PendingRound, first_round: Option<Instant>) {
        let Some(asked) = round.asked else { return };
        let ran = asked.elapsed();
        let queued = relay.wanted.take().map(|wanted| asked.saturating_duration_since(wanted));
        let begun = first_round.unwrap_or(asked);
        let took = asked.saturating_duration_since(begun) + ran;
        let ended = Some(took).filter(|_| !relay.lease.is_open());
        self.database.count(|totals| {
            totals.queries += 1;
            totals.query_time += ran;
            totals.replica_queries += u64::from(relay.on_replica);
            if let Some(took) = ended {
                totals.transactions += 1;
                totals.transaction_time += took;
            }
        });
        let seen = self.client.seen();
        seen.prepared.set(self.client.names().count());
        seen.pinned.set(self.pinned_by());
        seen.in_transaction.set(relay.lease.is_open().then(Instant::now));
        if let Some(latencies) = &relay.latencies {
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
    fn pinned_by(&self) -> &'static str {
        match (self.pinned, self.mode) {
            (false, _) => "",
            (true, Mode::Session) => "mode",
            (true, Mode::Transaction) => "state",
        }
    }
}
