//! Whose the last values of sequences are.
//!
//! A server keeps for `currval` and `lastval` what was drawn on a connection, by whichever client.
//! A client hears them where nothing of another's is among them, or where it has drawn itself, in
//! this transaction or Query, from the very sequence that it asks for.

use std::rc::Rc;
use std::time::{Duration, Instant};

use super::rounds::{PendingRound, Rounds};
use crate::plan::{Asks, Kind, Plan, is_literal};

/// So long a client keeps its server after it may have drawn, with `last-values = "keep"`.
const KEPT_MAX: Duration = Duration::from_secs(1);

/// Sequences that are known to have been drawn from, at most.
const FROM_MAX: usize = 256;

/// Sequences that were drawn from for certain.
#[derive(Debug, Default, Clone)]
struct DrawnSequences {
    /// By their bare names.
    from: Vec<Box<[u8]>>,
    /// One of them was, or one which may be any.
    any: bool,
}

impl DrawnSequences {
    /// What a statement has drawn; `swayed`: names may mean something else by now.
    fn add(&mut self, plan: &Plan, swayed: bool) {
        let (sequences, swayed) = (&plan.effects.sequences, swayed || plan.effects.alters_session);
        self.any |= sequences.draws_any || !sequences.draws.is_empty();
        for sequence in &sequences.draws {
            let holds = !swayed || !is_literal(sequence);
            if holds && self.from.len() < FROM_MAX && !self.from.contains(sequence) {
                self.from.push(sequence.clone());
            }
        }
    }
}

/// What a client has drawn on its connection, as far as that is certain.
#[derive(Debug, Default)]
#[cfg_attr(test, derive(Clone))]
pub struct Drawn {
    /// Nothing of another client's is known there.
    owns: bool,
    /// The client may have drawn.
    may_have: bool,
    /// What it has drawn from.
    sequences: DrawnSequences,
    /// Until when it keeps the connection for that.
    kept_until: Option<Instant>,
}

/// What becomes of a statement that may ask for a last value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LastValues {
    /// The statement is run at once.
    Own,
    /// It is run once what others have drawn is forgotten.
    Forgotten,
    /// It waits for the answers to what was sent before.
    Later,
    /// It is refused to the client.
    Refused,
}

impl Drawn {
    /// Of a client that begins on a connection on which others may have drawn, or has had that
    /// forgotten.
    pub fn begin(&mut self, owns: bool) {
        self.owns = owns;
    }

    /// Adds what a round has drawn that was answered, at the time of `keeps` where its client keeps
    /// its connection for that.
    pub fn add(&mut self, round: &PendingRound, swayed: bool, keeps: Option<Instant>) {
        if !round.failed {
            round.drew.iter().for_each(|plan| self.sequences.add(plan, swayed));
            self.owns |= round.forgets_drawn;
        }
        let may_draw = |plan: &Rc<Plan>| plan.effects.sequences.may_draw;
        if round.unknown || round.plans.iter().any(may_draw) {
            self.kept_until = keeps.map(|now| now + KEPT_MAX).or(self.kept_until);
        }
    }

    /// Names may mean something else from now on.
    pub fn names_change(&mut self) {
        self.sequences.from.retain(|sequence| !is_literal(sequence));
    }

    /// A statement goes out that may draw.
    pub fn may_draw(&mut self) {
        self.may_have = true;
    }

    /// A round begins: what was waited for has come.
    pub fn begin_round(&mut self) {
        self.kept_until = None;
    }

    /// Until when the client keeps its connection without a transaction, where it does.
    pub fn kept_until(&self) -> Option<Instant> {
        self.kept_until
    }

    /// What others have drawn is to be forgotten for a client that keeps the connection for good
    /// from now on: it has its own values, unless it has drawn some among others'.
    pub fn forgets_once_pinned(&self) -> bool {
        !self.owns && !self.sequences.any
    }

    /// What becomes of a statement that is about to be run, behind these rounds, by a client that
    /// may be the only one on its connection (`is_sole`). `swayed`: names may mean something else
    /// by now.
    pub fn decide(&self, plan: &Plan, rounds: &Rounds, is_sole: bool, swayed: bool) -> LastValues {
        let sequences = &plan.effects.sequences;
        let pins = matches!(plan.kind, Kind::Pins(_)) && !self.sequences.any;
        let asks = !sequences.asks.is_empty();
        if !(asks || sequences.may_ask || pins) {
            return LastValues::Own;
        }
        let owns = self.owns || rounds.open().is_some_and(|round| round.forgets_drawn);
        if owns && (is_sole || self.may_have || sequences.asks_later || !asks) {
            return LastValues::Own;
        }
        if !rounds.is_first() {
            return LastValues::Later;
        }
        if !asks {
            return LastValues::Forgotten;
        }
        let mut drawn = self.sequences.clone();
        let open = rounds.open().into_iter().flat_map(|round| &round.drew);
        open.for_each(|plan| drawn.add(plan, swayed));
        let is_met = |asks: &Asks| asks.is_met(&drawn.from, drawn.any);
        match sequences.asks.iter().all(is_met) {
            true => LastValues::Own,
            // Whatever asks later, in this transaction, too, finds nothing of others.
            false if sequences.keeps_asking => LastValues::Forgotten,
            false => LastValues::Refused,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::tests::plan;

    const LASTVAL: &str = "SELECT lastval()";

    fn decide(drawn: &Drawn, sql: &str, rounds: &Rounds, is_sole: bool) -> LastValues {
        drawn.decide(&plan(sql), rounds, is_sole, false)
    }

    /// A round under way in which this was run as it was bound.
    fn within(sql: &str) -> Rounds {
        let mut rounds = Rounds::default();
        rounds.current().drew.push(plan(sql));
        rounds
    }

    fn answered(sql: &str, failed: bool) -> PendingRound {
        PendingRound {
            plans: vec![plan(sql)],
            drew: vec![plan(sql)],
            failed,
            ..PendingRound::default()
        }
    }

    #[test]
    fn what_asks_for_nothing_is_run() {
        let (drawn, rounds) = (Drawn::default(), Rounds::default());
        assert_eq!(decide(&drawn, "BEGIN", &rounds, false), LastValues::Own);
    }

    #[test]
    fn a_last_value_is_told_to_whom_it_is_sure_to_be_of() {
        let rounds = Rounds::default();
        let mut drawn = Drawn::default();
        assert_eq!(decide(&drawn, LASTVAL, &rounds, true), LastValues::Refused);
        // It owns what is known there, and is alone, or may have drawn.
        drawn.begin(true);
        assert_eq!(decide(&drawn, LASTVAL, &rounds, true), LastValues::Own);
        assert_eq!(decide(&drawn, LASTVAL, &rounds, false), LastValues::Refused);
        drawn.may_draw();
        assert_eq!(decide(&drawn, LASTVAL, &rounds, false), LastValues::Own);
        drawn.begin(false);
        assert_eq!(decide(&drawn, LASTVAL, &rounds, false), LastValues::Refused);
        // It has drawn for certain, in an earlier round or in this one.
        let this = within("SELECT nextval('s')");
        assert_eq!(decide(&drawn, LASTVAL, &this, false), LastValues::Own);
        drawn.add(&answered("SELECT nextval('s')", true), false, None);
        assert_eq!(decide(&drawn, LASTVAL, &rounds, false), LastValues::Refused);
        drawn.add(&answered("SELECT nextval('s')", false), false, None);
        assert_eq!(decide(&drawn, LASTVAL, &rounds, false), LastValues::Own);
    }

    #[test]
    fn it_waits_for_what_was_sent_before_and_what_only_may_ask_has_others_forgotten() {
        let mut rounds = Rounds::default();
        rounds.end(Instant::now());
        let drawn = Drawn::default();
        assert_eq!(decide(&drawn, LASTVAL, &rounds, false), LastValues::Later);
        rounds.answered();
        let block = "DO $$ BEGIN PERFORM lastval(); END $$";
        assert_eq!(decide(&drawn, block, &rounds, false), LastValues::Forgotten);
        rounds.current().forgets_drawn = true;
        assert_eq!(decide(&drawn, block, &rounds, false), LastValues::Own);
        let view = "CREATE VIEW v AS SELECT lastval()";
        assert_eq!(decide(&drawn, view, &Rounds::default(), false), LastValues::Forgotten);
    }

    #[test]
    fn a_sequence_by_a_literal_is_another_one_once_names_may_have_changed() {
        let asks = "SELECT currval('s')";
        let drawn_in = |swayed: bool| {
            let mut drawn = Drawn::default();
            drawn.add(&answered("SELECT nextval('s')", false), swayed, None);
            drawn
        };
        let mut drawn = drawn_in(false);
        assert_eq!(decide(&drawn, asks, &Rounds::default(), false), LastValues::Own);
        drawn.names_change();
        assert_eq!(decide(&drawn, asks, &Rounds::default(), false), LastValues::Refused);
        let drawn = drawn_in(true);
        assert_eq!(decide(&drawn, asks, &Rounds::default(), false), LastValues::Refused);
        let this = within("SELECT nextval('s')");
        let mut drawn = Drawn::default();
        assert_eq!(drawn.decide(&plan(asks), &this, false, true), LastValues::Refused);
        assert_eq!(drawn.decide(&plan(asks), &this, false, false), LastValues::Own);
        assert!(drawn.forgets_once_pinned());
        drawn.begin(true);
        assert!(!drawn.forgets_once_pinned() && !drawn_in(false).forgets_once_pinned());
    }

    #[test]
    fn a_client_that_may_have_drawn_keeps_its_connection_until_its_next_round() {
        let (now, mut drawn) = (Instant::now(), Drawn::default());
        let draws = answered("SELECT f() FOR UPDATE", true);
        drawn.add(&draws, false, None);
        assert_eq!(drawn.kept_until(), None);
        drawn.add(&answered("BEGIN", false), false, Some(now));
        assert_eq!(drawn.kept_until(), None);
        drawn.add(&draws, false, Some(now));
        assert_eq!(drawn.kept_until(), Some(now + KEPT_MAX));
        drawn.begin_round();
        assert_eq!(drawn.kept_until(), None);
        let unknown = PendingRound { unknown: true, ..PendingRound::default() };
        drawn.add(&unknown, false, Some(now));
        assert_eq!(drawn.kept_until(), Some(now + KEPT_MAX));
    }
}
