//! What ends with a client's transaction.
//!
//! What outlives it, because rounds behind its end are under way by then, is in
//! [`sway`](super::sway).

use std::rc::Rc;
use std::time::Instant;

use super::rounds::PendingRound;
use crate::pipeline::effect;
use crate::pipeline::settings::Change;
use crate::plan::Plan;

/// Changes of settings that are followed in one transaction; past that the client keeps its server.
const CHANGES_MAX: usize = 256;

/// Whether a transaction is open, as of the last ReadyForQuery.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// No transaction is open.
    #[default]
    Closed,
    /// A transaction is open.
    Open {
        /// Since when, where that was asked for.
        since: Option<Instant>,
        /// When its first round went out, where a round of it was answered.
        first_round: Option<Instant>,
    },
}

/// What a transaction changes in the session's settings.
#[derive(Debug, PartialEq, Eq)]
#[cfg_attr(test, derive(Clone))]
enum SettingChanges {
    /// These, if it holds.
    Followed(Vec<Change>),
    /// What holds in the end only the server knows.
    Unfollowed {
        /// Whether anything was set in it.
        any: bool,
    },
}

impl Default for SettingChanges {
    fn default() -> Self {
        Self::Followed(Vec::new())
    }
}

impl SettingChanges {
    fn extend(&mut self, changes: Vec<Change>) {
        match self {
            Self::Followed(known) if known.len() + changes.len() > CHANGES_MAX => {
                *self = Self::Unfollowed { any: true };
            }
            Self::Followed(known) => known.extend(changes),
            Self::Unfollowed { any } => *any |= !changes.is_empty(),
        }
    }

    fn tangle(&mut self) {
        if let Self::Followed(changes) = self {
            *self = Self::Unfollowed { any: !changes.is_empty() };
        }
    }
}

/// What ends with a client's transaction.
#[derive(Debug, Default)]
#[cfg_attr(test, derive(Clone))]
pub struct Transaction {
    stage: Stage,
    changes: SettingChanges,
    /// Statements in it that change what the client listens to.
    listens: Vec<Rc<Plan>>,
    /// It may have changed data.
    writes: bool,
    /// It changes who may log in where, or with which settings.
    changes_logins: bool,
    /// The command that was completed last was a COMMIT.
    committed: bool,
}

/// What follows from a transaction's end.
#[derive(Debug, Default)]
pub struct TransactionEnd {
    /// What was changed holds.
    pub holds: bool,
    /// Changes of settings that hold.
    pub changes: Vec<Change>,
    /// What it has set is not followed: the client keeps its server.
    pub pins: bool,
    /// Statements that hold and change what the client listens to.
    pub listens: Vec<Rc<Plan>>,
    /// It may have changed data.
    pub wrote: bool,
    /// It has changed who may log in where, or with which settings.
    pub changed_logins: bool,
}

/// What a ReadyForQuery says of the transaction that the round in front of it stood in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TransactionTurn {
    /// It was open before that round.
    pub was_open: bool,
    /// When its first round went out, which is that one where it was not open.
    pub first_round: Option<Instant>,
}

impl Transaction {
    /// One that was begun here at `since`, and is open before its first round.
    pub fn begun(since: Instant) -> Self {
        let stage = Stage::Open { since: Some(since), first_round: None };
        Self { stage, ..Self::default() }
    }

    /// Whether one is open.
    pub fn is_open(&self) -> bool {
        self.stage != Stage::Closed
    }

    /// Since when one is open, which `now` says where nobody has asked before.
    pub fn since(&mut self, now: impl FnOnce() -> Instant) -> Option<Instant> {
        match &mut self.stage {
            Stage::Closed => None,
            Stage::Open { since, .. } => Some(*since.get_or_insert_with(now)),
        }
    }

    /// Whether it may have changed data.
    pub fn writes(&self) -> bool {
        self.writes
    }

    /// A command was completed, as its tag says. A transaction that is prepared keeps its settings,
    /// too (`xact.c`).
    pub fn completed(&mut self, tag: &[u8]) {
        self.committed |= matches!(tag, b"COMMIT" | b"PREPARE TRANSACTION");
    }

    /// A ReadyForQuery says whether one is open, behind a round that went out at `asked`.
    pub fn turn(&mut self, is_open: bool, asked: Option<Instant>) -> TransactionTurn {
        let (since, first) = match self.stage {
            Stage::Closed => (None, None),
            Stage::Open { since, first_round } => (since, first_round),
        };
        let turn = TransactionTurn { was_open: self.is_open(), first_round: first.or(asked) };
        self.stage = match is_open {
            true => Stage::Open { since, first_round: turn.first_round },
            false => Stage::Closed,
        };
        turn
    }

    /// Adds what a round of it was answered to have done.
    pub fn add(&mut self, round: &mut PendingRound) {
        self.writes |= round.may_have_written();
        self.changes_logins |= round.plans.iter().any(|plan| plan.effects.changes_logins);
        if round.plans.len() > 1
            || round.failed
            || round.plans.iter().any(|plan| effect::tangles(plan))
        {
            self.changes.tangle();
        }
        if !round.failed {
            self.changes.extend(std::mem::take(&mut round.changes));
            self.listens.append(&mut round.listens);
        } else if round.may_have_committed() {
            // What was set before that holds. It is tangled, so the client keeps its server.
            self.changes.extend(std::mem::take(&mut round.changes));
        }
    }

    /// It has ended, and nothing of it is left here. Where it was not open before its last round,
    /// what was changed holds if that has not `failed`; else a COMMIT tells.
    pub fn end(&mut self, was_open: bool, failed: bool) -> TransactionEnd {
        let ended = std::mem::take(self);
        let holds = if was_open { ended.committed } else { !failed };
        let (changes, pins) = match ended.changes {
            SettingChanges::Followed(changes) if holds => (changes, false),
            SettingChanges::Followed(_) => (Vec::new(), false),
            SettingChanges::Unfollowed { any } => (Vec::new(), any),
        };
        let listens = if holds { ended.listens } else { Vec::new() };
        let (wrote, changed_logins) = (ended.writes, ended.changes_logins);
        TransactionEnd { holds, changes, pins, listens, wrote, changed_logins }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::plan::tests::plan;

    fn set(name: &str) -> Change {
        Change::Set(name.into(), "1".into())
    }

    /// A round of these statements, which changes these settings.
    fn round(texts: &[&str], settings: &[&str], failed: bool) -> PendingRound {
        let plans: Vec<_> = texts.iter().map(|sql| plan(sql)).collect();
        let changes = settings.iter().map(|name| set(name)).collect();
        let listens = plans.iter().filter(|plan| effect::listens(plan)).cloned().collect();
        PendingRound { plans, changes, listens, failed, ..PendingRound::default() }
    }

    /// What is left of a transaction of these rounds; it was open before the last one, or not.
    fn end(rounds: Vec<PendingRound>, was_open: bool, commits: bool) -> TransactionEnd {
        let mut transaction = Transaction::default();
        let failed = rounds.last().is_some_and(|round| round.failed);
        for mut round in rounds {
            transaction.add(&mut round);
        }
        if commits {
            transaction.completed(b"INSERT 0 1");
            transaction.completed(b"COMMIT");
        }
        let end = transaction.end(was_open, failed);
        let again = transaction.end(true, false);
        assert!(again.changes.is_empty() && again.listens.is_empty() && !again.holds);
        assert!(!again.pins && !again.wrote && !again.changed_logins, "something is left");
        end
    }

    #[test]
    fn a_transaction_is_open_from_a_ready_for_query_to_another() {
        let begun = Instant::now();
        let later = |s| begun + Duration::from_secs(s);
        let mut transaction = Transaction::default();
        assert!(!transaction.is_open() && transaction.since(|| begun).is_none());
        let turn = transaction.turn(true, Some(later(1)));
        assert_eq!(turn, TransactionTurn { was_open: false, first_round: Some(later(1)) });
        assert!(transaction.is_open());
        assert_eq!(transaction.since(|| later(2)), Some(later(2)));
        assert_eq!(transaction.since(|| later(3)), Some(later(2)));
        let turn = transaction.turn(false, Some(later(4)));
        assert_eq!(turn, TransactionTurn { was_open: true, first_round: Some(later(1)) });
        assert!(!transaction.is_open());
        transaction.turn(true, None);
        assert_eq!(transaction.since(|| later(5)), Some(later(5)), "it is another one");
        let mut transaction = Transaction::begun(begun);
        assert!(transaction.is_open());
        assert_eq!(transaction.since(|| later(1)), Some(begun));
        let turn = transaction.turn(false, Some(later(1)));
        assert_eq!(turn, TransactionTurn { was_open: true, first_round: Some(later(1)) });
    }

    #[test]
    fn settings_hold_with_the_round_or_with_the_commit() {
        let one = || round(&["SET a = 1"], &["a"], false);
        assert_eq!(end(vec![one()], false, false).changes, [set("a")]);
        assert_eq!(end(vec![one(), one()], true, true).changes, [set("a"), set("a")]);
        let undone = end(vec![one()], true, false);
        assert!(!undone.holds && undone.changes.is_empty() && !undone.pins);
        let failed = end(vec![round(&["SET a = 1"], &["a"], true)], false, false);
        assert!(!failed.holds && failed.changes.is_empty() && !failed.pins);
    }

    #[test]
    fn what_is_not_followed_has_the_client_keep_its_server_if_anything_was_set() {
        let set_a = || round(&["SET a = 1"], &["a"], false);
        let back = || round(&["ROLLBACK TO b"], &[], false);
        for rounds in [vec![set_a(), back()], vec![back(), set_a()]] {
            let ended = end(rounds, true, true);
            assert!(ended.pins && ended.changes.is_empty() && ended.holds);
        }
        assert!(!end(vec![back()], true, true).pins);
        // Two statements in one round: which of them held is not known.
        assert!(end(vec![round(&["SET a = 1", "SELECT 1"], &["a"], false)], false, false).pins);
        // A round that has failed behind a part that may have been committed.
        assert!(end(vec![round(&["SET a = 1", "VACUUM"], &["a"], true)], false, false).pins);
        assert!(!end(vec![round(&["SET a = 1", "SELECT 1"], &["a"], true)], false, false).pins);
        let many = round(&["SET a = 1"], &["a"; CHANGES_MAX], false);
        assert_eq!(end(vec![many], true, true).changes.len(), CHANGES_MAX);
        let many = round(&["SET a = 1"], &["a"; CHANGES_MAX], false);
        assert!(end(vec![many, set_a()], true, true).pins);
    }

    #[test]
    fn channels_are_listened_to_if_it_holds() {
        let listen = |failed| round(&["LISTEN a"], &[], failed);
        assert_eq!(end(vec![listen(false)], true, true).listens.len(), 1);
        assert_eq!(end(vec![listen(false)], true, false).listens.len(), 0);
        assert_eq!(end(vec![listen(true)], true, true).listens.len(), 0);
    }

    #[test]
    fn what_it_wrote_and_whose_logins_it_changed_is_told_whether_it_holds_or_not() {
        let mut transaction = Transaction::default();
        transaction.add(&mut round(&["BEGIN"], &[], false));
        assert!(!transaction.writes());
        transaction.add(&mut round(&["ALTER ROLE a LOGIN"], &[], false));
        transaction.add(&mut round(&["INSERT INTO t VALUES (1)"], &[], true));
        assert!(transaction.writes());
        let ended = transaction.end(true, true);
        assert!(ended.wrote && ended.changed_logins && !ended.holds);
        assert!(!transaction.writes());
    }
}
