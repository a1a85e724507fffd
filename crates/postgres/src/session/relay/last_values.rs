//! Whose the last values of sequences are.
//!
//! A server keeps for `currval` and `lastval` what was drawn on a connection, by whichever client.
//! A client hears them where nothing of another's is among them, or where it has drawn itself, in
//! this transaction or Query, from the very sequence that it asks for.

use std::rc::Rc;
use std::time::{Duration, Instant};

use wire::postgres::backend::Status;

use super::Relay;
use crate::connection::Connection;
use crate::pipeline::lease::rounds::PendingRound;
use crate::plan::{Asks, Kind, Plan, is_literal};
use crate::session::Session;
use crate::settings::Mode;

/// So long a client keeps its server after it may have drawn, with `last-values = "keep"`.
const KEPT_MAX: Duration = Duration::from_secs(1);

/// Sequences that are known to have been drawn from, at most.
const FROM_MAX: usize = 256;

/// What makes the values of others unknown.
const FORGET: &str = "DISCARD SEQUENCES";

/// What a client has drawn on its connection, as far as that is certain.
#[derive(Debug, Default)]
pub(super) struct Drawn {
    /// Nothing of another client's is known there.
    owns: bool,
    /// It may have drawn.
    may_have: bool,
    /// Sequences that it has drawn from, by their bare names.
    from: Vec<Box<[u8]>>,
    /// It has drawn from one of them, or from one which may be any.
    any: bool,
    /// Until when it keeps the connection for that.
    kept_until: Option<Instant>,
}

impl Drawn {
    /// What a statement has drawn; `swayed`: names may mean something else by now.
    fn add(&mut self, plan: &Plan, swayed: bool) {
        let (sequences, swayed) = (&plan.effects.sequences, swayed || plan.effects.sways);
        self.any |= sequences.draws_any || !sequences.draws.is_empty();
        for sequence in &sequences.draws {
            let holds = !swayed || !is_literal(sequence);
            if holds && self.from.len() < FROM_MAX && !self.from.contains(sequence) {
                self.from.push(sequence.clone());
            }
        }
    }

    /// Adds what a round that was answered has drawn.
    pub(super) fn answered(&mut self, round: &PendingRound, swayed: bool, keeps: bool) {
        if !round.failed {
            round.drew.iter().for_each(|plan| self.add(plan, swayed));
            self.owns |= round.forgets_drawn;
        }
        let may_draw = |plan: &Rc<Plan>| plan.effects.sequences.may_draw;
        if keeps && (round.unknown || round.plans.iter().any(may_draw)) {
            self.kept_until = Some(Instant::now() + KEPT_MAX);
        }
    }

    /// Names may mean something else from now on.
    pub(super) fn names_change(&mut self) {
        self.from.retain(|sequence| !is_literal(sequence));
    }

    /// Something may have drawn.
    pub(super) fn may_have_drawn(&mut self) {
        self.may_have = true;
    }

    /// A round begins: what was waited for has come.
    pub(super) fn is_used(&mut self) {
        self.kept_until = None;
    }

    /// How long the client still keeps its connection without a transaction.
    pub(super) fn kept(&self) -> Option<Duration> {
        let left = self.kept_until?.saturating_duration_since(Instant::now());
        Some(left).filter(|left| !left.is_zero())
    }
}

/// What becomes of a statement that may ask for a last value.
pub(super) enum LastValues {
    /// It is run.
    Own,
    /// It is run once what others have drawn is forgotten.
    Forgotten,
    /// It waits for the answers to what was sent before.
    Later,
    /// It is refused.
    Refused,
}

impl Session {
    /// Where whatever a client asks for is to be its own, it is from the start.
    pub(super) fn own_from_start(&self, relay: &mut Relay, server: &mut Connection) {
        let is_sole = self.pinned || self.mode == Mode::Session || self.keeps_last_values;
        if server.drew && (is_sole || self.database.may_ask_last_values()) {
            forget(relay, server);
        }
        relay.drawn.owns = !server.drew;
    }

    /// A client that keeps its connection for good has its own values from now on, unless it has
    /// drawn some among others'.
    pub(super) fn own_once_pinned(&self, relay: &mut Relay, server: &mut Connection) {
        if self.pinned && !relay.drawn.owns && !relay.drawn.any {
            forget(relay, server);
        }
    }

    /// What becomes of a statement that is about to be run.
    pub(super) fn last_values(&self, relay: &Relay, plan: &Plan, status: Status) -> LastValues {
        let sequences = &plan.effects.sequences;
        let pins = matches!(plan.kind, Kind::Pins(_)) && !relay.drawn.any;
        let asks = !sequences.asks.is_empty();
        if status == Status::Failed || !(asks || sequences.may_ask || pins) {
            return LastValues::Own;
        }
        let round = relay.rounds.open();
        let owns = relay.drawn.owns || round.is_some_and(|round| round.forgets_drawn);
        let is_sole = self.pinned || self.mode == Mode::Session;
        if owns && (is_sole || relay.drawn.may_have || sequences.asks_later || !asks) {
            return LastValues::Own;
        }
        if !relay.rounds.is_first() {
            return LastValues::Later;
        }
        if asks {
            let mut drawn = Drawn { any: relay.drawn.any, ..Drawn::default() };
            drawn.from.clone_from(&relay.drawn.from);
            round
                .into_iter()
                .flat_map(|round| &round.drew)
                .for_each(|plan| drawn.add(plan, relay.sway.is_swayed()));
            let is_met = |asks: &Asks| asks.is_met(&drawn.from, drawn.any);
            return match sequences.asks.iter().all(is_met) {
                true => LastValues::Own,
                // Whatever asks later, in this transaction, too, finds nothing of others.
                false if sequences.keeps_asking => LastValues::Forgotten,
                false => LastValues::Refused,
            };
        }
        LastValues::Forgotten
    }

    /// Puts in front of a statement that is about to be run what makes the values of others
    /// unknown: in front of a Query, or within a round of the extended protocol.
    pub(super) fn forget_drawn(&self, relay: &mut Relay, server: &mut Connection, is_query: bool) {
        if is_query && !relay.rounds.is_within() {
            return forget(relay, server);
        }
        self.composer(relay, server, |composer, out, script| {
            composer.own(FORGET.as_bytes(), out, script);
        });
        relay.round().forgets_drawn = true;
    }
}

fn forget(relay: &mut Relay, server: &mut Connection) {
    server.ask(FORGET);
    server.drew = false;
    relay.drawn.owns = true;
}
