//! Bringing back what a session began with.
//!
//! A server was opened bare: once the client has reset a setting that its session began with, Weir
//! gives it to the server anew, by one Query for each such change, and the client hears the end of
//! its round behind that. What the client asks next waits: it would be read without, should the
//! server refuse it.

use std::collections::VecDeque;

use crate::pipeline::settings::Setting;

/// How far the server is with getting back what the session began with.
#[derive(Debug, Default, PartialEq, Eq)]
#[cfg_attr(test, derive(Clone))]
pub enum Restore {
    /// There is nothing to bring back.
    #[default]
    Nothing,
    /// A statement was sent after which there will be, if its round holds.
    Awaited,
    /// These are to be asked for, one Query each.
    Wanted(Restores),
    /// The server was asked for one, and the others follow.
    UnderWay(Restores),
}

/// What is to be brought back, and what waits for it.
#[derive(Debug, Default, PartialEq, Eq)]
#[cfg_attr(test, derive(Clone))]
pub struct Restores {
    queries: VecDeque<Vec<Setting>>,
    /// What the client hears behind them.
    held: Vec<u8>,
}

/// What is to be done next.
#[derive(Debug, PartialEq, Eq)]
pub enum RestoreStep {
    /// The server is asked for these.
    Ask(Vec<Setting>),
    /// The client hears what was held.
    Tell(Vec<u8>),
}

impl Restore {
    /// A statement goes out after which there will be something to bring back.
    pub fn await_round(&mut self) {
        if *self == Self::Nothing {
            *self = Self::Awaited;
        }
    }

    /// Whether the client's next round may go out: whatever was asked is answered, as
    /// `is_answered` says, or the client keeps the connection behind it.
    pub fn lets_pass(&self, is_answered: bool, keeps: bool) -> bool {
        match self {
            Self::Nothing | Self::Wanted(_) => is_answered || keeps,
            Self::Awaited => is_answered,
            Self::UnderWay(_) => false,
        }
    }

    /// A round was answered; `is_last`: no other is under way.
    pub fn round_answered(&mut self, is_last: bool) {
        if *self == Self::Awaited && is_last {
            *self = Self::Nothing;
        }
    }

    /// The round has held that has reset these: they are asked for together.
    pub fn want(&mut self, begun: Vec<Setting>) {
        if !begun.is_empty() {
            self.change(|restores| restores.queries.push_back(begun));
        }
    }

    /// What is to be done next, unless the server is to answer first.
    pub fn next(&mut self) -> Option<RestoreStep> {
        let Self::Wanted(restores) = self else { return None };
        match restores.queries.pop_front() {
            Some(begun) => {
                *self = Self::UnderWay(std::mem::take(restores));
                Some(RestoreStep::Ask(begun))
            }
            None => Some(self.take_held()).filter(|held| !held.is_empty()).map(RestoreStep::Tell),
        }
    }

    /// The server was asked for something, or to undo that.
    pub fn ask(&mut self) {
        *self = Self::UnderWay(match std::mem::take(self) {
            Self::Nothing | Self::Awaited => Restores::default(),
            Self::Wanted(restores) | Self::UnderWay(restores) => restores,
        });
    }

    /// The server has answered a question of Weir's own; whether one of these is under way still.
    pub fn own_answered(&mut self, is_restoring: bool) {
        if let Self::UnderWay(restores) = self
            && !is_restoring
        {
            *self = Self::Wanted(std::mem::take(restores));
        }
    }

    /// Whether the server is asked for something now, of which the client hears what it changes.
    pub fn is_under_way(&self) -> bool {
        matches!(self, Self::UnderWay(_))
    }

    /// Keeps what the client is to hear behind all that is brought back; false where it hears it
    /// now.
    pub fn hold(&mut self, bytes: &[u8]) -> bool {
        match self {
            Self::Nothing | Self::Awaited => false,
            Self::Wanted(restores) | Self::UnderWay(restores) => {
                restores.held.extend_from_slice(bytes);
                true
            }
        }
    }

    /// The server did not bring back these, which were asked for together: they are asked for one
    /// by one. The one that was asked for alone is returned.
    pub fn refuse(&mut self, mut begun: Vec<Setting>) -> Option<Setting> {
        if begun.len() == 1 {
            return begun.pop();
        }
        self.change(|restores| {
            for setting in begun.into_iter().rev() {
                restores.queries.push_front(vec![setting]);
            }
        });
        None
    }

    /// Nothing is brought back any more: what the client hears now.
    pub fn take_held(&mut self) -> Vec<u8> {
        match std::mem::take(self) {
            Self::Nothing | Self::Awaited => Vec::new(),
            Self::Wanted(restores) | Self::UnderWay(restores) => restores.held,
        }
    }

    /// Changes what is to be brought back; where nothing was, it is wanted from now on.
    fn change(&mut self, change: impl FnOnce(&mut Restores)) {
        match self {
            Self::Wanted(restores) | Self::UnderWay(restores) => change(restores),
            Self::Nothing | Self::Awaited => {
                let mut restores = Restores::default();
                change(&mut restores);
                *self = Self::Wanted(restores);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(names: &[&str]) -> Vec<Setting> {
        let setting = |name: &&str| Setting { name: (*name).into(), sql: format!("SET {name};") };
        names.iter().map(setting).collect()
    }

    /// Whether it lets pass what comes behind answers, and what comes behind rounds under way of a
    /// client that keeps its connection, and of one that does not.
    fn passes(restore: &Restore) -> [bool; 3] {
        [
            restore.lets_pass(true, false),
            restore.lets_pass(false, true),
            restore.lets_pass(false, false),
        ]
    }

    #[test]
    fn behind_what_resets_the_next_round_waits_until_that_is_answered() {
        let mut restore = Restore::default();
        assert_eq!(passes(&restore), [true, true, false]);
        restore.await_round();
        restore.await_round();
        assert_eq!((&restore, passes(&restore)), (&Restore::Awaited, [true, false, false]));
        assert!(!restore.hold(b"row") && restore.next().is_none());
        restore.round_answered(false);
        assert_eq!(restore, Restore::Awaited);
        // It has failed, so that nothing was reset.
        restore.round_answered(true);
        restore.want(Vec::new());
        assert_eq!((&restore, passes(&restore)), (&Restore::Nothing, [true, true, false]));
    }

    #[test]
    fn what_was_reset_is_brought_back_in_its_order_and_told_behind_that() {
        let mut restore = Restore::Awaited;
        restore.round_answered(true);
        restore.want(settings(&["a", "b"]));
        restore.want(settings(&["c"]));
        assert!(!restore.is_under_way() && restore.hold(b"rea") && restore.hold(b"dy"));
        assert_eq!(restore.next(), Some(RestoreStep::Ask(settings(&["a", "b"]))));
        assert!(restore.is_under_way() && restore.next().is_none());
        assert_eq!(passes(&restore), [false; 3]);
        restore.await_round();
        restore.round_answered(true);
        restore.own_answered(true);
        assert!(restore.is_under_way(), "another question of Weir's was answered");
        restore.own_answered(false);
        assert_eq!(restore.next(), Some(RestoreStep::Ask(settings(&["c"]))));
        restore.own_answered(false);
        assert_eq!(passes(&restore), [true, true, false]);
        assert_eq!(restore.next(), Some(RestoreStep::Tell(b"ready".to_vec())));
        assert_eq!((restore.next(), restore), (None, Restore::Nothing));
    }

    #[test]
    fn what_is_refused_together_is_asked_for_one_by_one_before_the_others() {
        let mut restore = Restore::default();
        restore.want(settings(&["a", "b"]));
        restore.want(settings(&["c"]));
        restore.next();
        assert_eq!(restore.refuse(settings(&["a", "b"])), None);
        // Within a transaction, what came of it is undone first.
        restore.ask();
        restore.own_answered(false);
        assert_eq!(restore.next(), Some(RestoreStep::Ask(settings(&["a"]))));
        assert_eq!(restore.refuse(settings(&["a"])).map(|of| of.name), Some("a".into()));
        restore.own_answered(false);
        for name in ["b", "c"] {
            assert_eq!(restore.next(), Some(RestoreStep::Ask(settings(&[name]))));
            restore.own_answered(false);
        }
        assert_eq!((restore.next(), restore), (None, Restore::Nothing));
    }

    #[test]
    fn what_was_held_is_told_at_once_where_nothing_is_brought_back_any_more() {
        let mut restore = Restore::default();
        restore.want(settings(&["a"]));
        assert!(restore.hold(b"ready"));
        restore.next();
        assert_eq!((restore.take_held(), &restore), (b"ready".to_vec(), &Restore::Nothing));
        assert_eq!(restore.take_held(), b"");
        // The answer that settles it may come behind the refusal.
        assert_eq!(restore.refuse(settings(&["a", "b"])), None);
        assert_eq!(restore.next(), Some(RestoreStep::Ask(settings(&["a"]))));
        restore.ask();
        assert!(restore.is_under_way());
    }
}
