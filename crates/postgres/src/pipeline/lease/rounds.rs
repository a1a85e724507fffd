//! The rounds of a client that its server has not answered.

use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Instant;

use super::listening::DivertedChange;
use crate::pipeline::effect;
use crate::pipeline::settings::{Change, Setting};
use crate::plan::{Leaves, Plan};

/// A round under way: what follows from it once it is answered.
#[derive(Debug, Default)]
#[cfg_attr(test, derive(Clone))]
pub struct PendingRound {
    /// The plans of its statements, in their order.
    pub plans: Vec<Rc<Plan>>,
    /// Something in it was not looked into.
    pub unknown: bool,
    /// What its statements change in the session's settings.
    pub changes: Vec<Change>,
    /// What the session began with and they reset: what is to be brought back for each.
    pub resets: Vec<Vec<Setting>>,
    /// Those of its statements that change what the client listens to.
    pub listens: Vec<Rc<Plan>>,
    /// The same of what the server did not get.
    pub diverted: Vec<DivertedChange>,
    /// When it went out, or the one before it was answered.
    pub asked: Option<Instant>,
    /// An error came in it.
    pub failed: bool,
    /// Those of its statements that were run as a whole as soon as they were bound, as it is.
    pub drew: Vec<Rc<Plan>>,
    /// What others have drawn is forgotten in it.
    pub forgets_drawn: bool,
    /// The client's text, where another one was sent for it.
    pub point: Option<Box<[u8]>>,
}

impl PendingRound {
    /// What was taken for the next round is a part of this one.
    fn goes_on_with(&mut self, next: Self) {
        let Self { plans, unknown, changes, resets, listens, diverted, .. } = next;
        let Self { asked, failed, drew, forgets_drawn, .. } = next;
        self.diverted.extend(diverted);
        self.plans.extend(plans);
        self.unknown |= unknown;
        self.changes.extend(changes);
        self.resets.extend(resets);
        self.listens.extend(listens);
        self.asked = asked.or(self.asked);
        self.failed |= failed;
        self.drew.extend(drew);
        self.forgets_drawn |= forgets_drawn;
    }

    /// What all of it from the plan at `from` on leaves on the connection.
    pub fn leaves(&self, from: usize) -> Leaves {
        let unknown = if self.unknown { Leaves::Lasting } else { Leaves::Nothing };
        let plans = self.plans.iter().skip(from);
        plans.map(|plan| plan.effects.leaves).fold(unknown, Leaves::max)
    }

    /// Whether any of it from the plan at `from` on is for the client's own connection alone.
    pub fn pins(&self, from: usize) -> bool {
        self.unknown || self.plans.iter().skip(from).any(|plan| effect::pins(plan))
    }

    /// Whether a part of it may hold although it has failed: of several statements one ended the
    /// transaction that they had in common.
    pub fn may_have_committed(&self) -> bool {
        self.plans.len() > 1 && self.plans.iter().any(|plan| effect::may_commit(plan))
    }

    /// Whether it may have changed data.
    pub fn may_have_written(&self) -> bool {
        self.unknown || self.plans.iter().any(|plan| effect::may_write(plan))
    }

    /// Whether a transaction may be open behind it that was not before.
    fn may_begin(&self) -> bool {
        self.unknown || self.plans.iter().any(|plan| effect::begins(plan))
    }

    /// Whether a transaction that was open before it may have ended behind it.
    fn may_end(&self) -> bool {
        self.unknown || self.plans.iter().any(|plan| effect::ends(plan))
    }
}

/// The rounds that are not answered, in the order of their messages.
#[derive(Debug, Default)]
#[cfg_attr(test, derive(Clone))]
pub struct Rounds {
    /// Those that went out up to their ends.
    whole: VecDeque<PendingRound>,
    /// The one behind them, whose Sync has not come.
    open: Option<PendingRound>,
}

impl Rounds {
    /// Whether all that the client has asked for is answered.
    pub fn is_empty(&self) -> bool {
        self.whole.is_empty() && self.open.is_none()
    }

    /// How many of them there are.
    pub fn len(&self) -> usize {
        self.iter().count()
    }

    /// Whether the last one goes on: its Sync has not come.
    pub fn is_within(&self) -> bool {
        self.open.is_some()
    }

    /// Whether all but the one that goes on are answered.
    pub fn is_first(&self) -> bool {
        self.whole.is_empty()
    }

    /// All of them, in the order in which they are answered.
    pub fn iter(&self) -> impl Iterator<Item = &PendingRound> {
        self.whole.iter().chain(&self.open)
    }

    /// The one that is answered next.
    pub fn front(&self) -> Option<&PendingRound> {
        self.whole.front().or(self.open.as_ref())
    }

    /// The one that is answered next.
    pub fn front_mut(&mut self) -> Option<&mut PendingRound> {
        self.whole.front_mut().or(self.open.as_mut())
    }

    /// The one that goes on, where there is one.
    pub fn open(&self) -> Option<&PendingRound> {
        self.open.as_ref()
    }

    /// The one that goes on; where none does, a new one begins.
    pub fn current(&mut self) -> &mut PendingRound {
        self.open.get_or_insert_default()
    }

    /// The one that goes on is whole as of now, or a new one which is.
    pub fn end(&mut self, now: Instant) {
        let mut round = self.open.take().unwrap_or_default();
        round.asked = Some(now);
        self.whole.push_back(round);
    }

    /// The text of the client's in whose place another one was sent, as the round that ended last.
    pub fn is_point(&mut self, text: &[u8]) {
        if let Some(round) = self.whole.back_mut() {
            round.point = Some(text.into());
        }
    }

    /// The server's ReadyForQuery ends the one in front, which is handed out.
    pub fn answered(&mut self) -> Option<PendingRound> {
        self.whole.pop_front().or_else(|| self.open.take())
    }

    /// An error came in the one in front.
    pub fn fail(&mut self) {
        if let Some(round) = self.front_mut() {
            round.failed = true;
        }
    }

    /// A Query at the end of the one in front is left out behind an error: the round and what
    /// follows it up to the Sync are one, which has failed.
    pub fn leave_out(&mut self) {
        self.answered();
        self.fail();
    }

    /// The server waits for the data of a COPY, with so many Syncs amid it: none of them has ended
    /// a round. A Query's has ended all the same, and an Execute's goes on.
    pub fn copy(&mut self, syncs: u64, of_query: bool) {
        for _ in 0..syncs {
            if of_query {
                self.whole.remove(1);
            } else if let Some(mut round) = self.whole.pop_front() {
                if let Some(next) = self.whole.front_mut() {
                    round.goes_on_with(std::mem::take(next));
                    *next = round;
                } else {
                    if let Some(next) = self.open.take() {
                        round.goes_on_with(next);
                    }
                    self.open = Some(round);
                }
            }
        }
    }

    /// Whether one of them may begin a transaction.
    pub fn may_begin(&self) -> bool {
        self.iter().any(PendingRound::may_begin)
    }

    /// Whether one of them may end a transaction.
    pub fn may_end(&self) -> bool {
        self.iter().any(PendingRound::may_end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::tests::plan;

    fn add(rounds: &mut Rounds, sql: &str) {
        rounds.current().plans.push(plan(sql));
    }

    fn lens(rounds: &Rounds) -> Vec<usize> {
        rounds.iter().map(|round| round.plans.len()).collect()
    }

    /// Whole rounds of so many statements each, and one that goes on.
    fn of(whole: &[usize], open: Option<usize>) -> Rounds {
        let mut rounds = Rounds::default();
        for statements in whole {
            (0..*statements).for_each(|_| add(&mut rounds, "SELECT 1"));
            rounds.end(Instant::now());
        }
        if let Some(statements) = open {
            rounds.current();
            (0..statements).for_each(|_| add(&mut rounds, "SELECT 1"));
        }
        rounds
    }

    #[test]
    fn a_round_goes_on_until_its_end_and_is_answered_in_its_turn() {
        let mut rounds = Rounds::default();
        assert!(rounds.is_empty() && rounds.is_first() && !rounds.is_within());
        assert!(rounds.answered().is_none());
        add(&mut rounds, "SELECT 1");
        add(&mut rounds, "SELECT 2");
        assert!(rounds.is_within() && rounds.is_first() && !rounds.is_empty());
        assert_eq!(rounds.open().map(|round| round.asked), Some(None));
        rounds.end(Instant::now());
        assert!(!rounds.is_within() && !rounds.is_first());
        // A Sync alone is a round of its own.
        rounds.end(Instant::now());
        add(&mut rounds, "SELECT 3");
        assert_eq!((lens(&rounds), rounds.len()), (vec![2, 0, 1], 3));
        let answered = rounds.answered().unwrap();
        assert!(answered.plans.len() == 2 && answered.asked.is_some());
        assert!(rounds.is_within() && !rounds.is_first());
        rounds.answered();
        assert!(rounds.is_within() && rounds.is_first());
        // Of a COPY that has failed a Sync amid its data ends the round that goes on.
        assert_eq!(rounds.answered().map(|round| round.plans.len()), Some(1));
        assert!(rounds.is_empty() && !rounds.is_within());
    }

    #[test]
    fn an_error_is_that_of_the_round_in_front() {
        let mut rounds = of(&[1, 1], Some(1));
        rounds.fail();
        assert!(rounds.iter().map(|round| round.failed).eq([true, false, false]));
        rounds.leave_out();
        assert!(rounds.iter().map(|round| round.failed).eq([true, false]));
        rounds.leave_out();
        assert!(rounds.iter().map(|round| round.failed).eq([true]) && rounds.is_within());
        rounds.leave_out();
        assert!(rounds.is_empty());
        rounds.fail();
        assert!(rounds.is_empty());
    }

    #[test]
    fn syncs_amid_the_data_of_a_copy_end_no_round() {
        let copied = |whole: &[usize], open: Option<usize>, syncs, of_query| {
            let mut rounds = of(whole, open);
            rounds.copy(syncs, of_query);
            (lens(&rounds), rounds.is_within())
        };
        // Of a Query: they are no rounds.
        assert_eq!(copied(&[1], None, 0, true), (vec![1], false));
        assert_eq!(copied(&[1, 0, 0, 2], Some(3), 2, true), (vec![1, 2, 3], true));
        assert_eq!(copied(&[1, 0], None, 1, true), (vec![1], false));
        // Of an Execute: what follows up to the first Sync behind the data is the same round.
        assert_eq!(copied(&[1], None, 1, false), (vec![1], true));
        assert_eq!(copied(&[1, 2], None, 1, false), (vec![3], false));
        assert_eq!(copied(&[1, 2, 4], None, 2, false), (vec![7], false));
        assert_eq!(copied(&[1, 2, 4], Some(8), 1, false), (vec![3, 4, 8], true));
        assert_eq!(copied(&[1], Some(2), 1, false), (vec![3], true));
        assert_eq!(copied(&[], Some(2), 0, false), (vec![2], true));
    }

    #[test]
    fn what_a_round_may_do_is_what_any_of_its_statements_may() {
        let of = |texts: &[&str]| {
            let mut rounds = Rounds::default();
            texts.iter().for_each(|sql| add(&mut rounds, sql));
            rounds
        };
        assert!(of(&["SELECT 1", "BEGIN"]).may_begin() && !of(&["COMMIT"]).may_begin());
        assert!(of(&["COMMIT", "SELECT 1"]).may_end() && !of(&["BEGIN"]).may_end());
        assert!(of(&["COMMIT AND CHAIN"]).may_begin() && of(&["COMMIT AND CHAIN"]).may_end());
        let mut unknown = PendingRound { unknown: true, ..PendingRound::default() };
        assert!(unknown.may_begin() && unknown.may_end() && unknown.may_have_written());
        assert!(unknown.pins(1) && unknown.leaves(1) == Leaves::Lasting);
        unknown.unknown = false;
        assert!(!unknown.may_begin() && !unknown.may_end() && !unknown.may_have_written());
        assert!(!unknown.pins(0) && unknown.leaves(0) == Leaves::Nothing);
        unknown.plans.push(plan("LISTEN a"));
        assert!(unknown.pins(0) && !unknown.pins(1) && !unknown.may_have_committed());
        unknown.plans.push(plan("COMMIT"));
        assert!(unknown.may_have_committed());
    }
}
