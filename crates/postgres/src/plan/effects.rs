//! What a statement does to the server's session, and what its answer depends on there.

use wire::sql::Token;

use super::facts::Facts;
use super::kind::{Deallocate, Kind};
use super::leaves::{self, Leaves};
use super::names::{name, words_of};
use super::schema_change;
use super::sequences::{self, Sequences};
use super::setting::SettingChange;

/// What a statement does to the server's session, and what its answer depends on there.
#[derive(Clone, Debug, Default)]
pub struct Effects {
    /// What it may leave there beside what is followed.
    pub leaves: Leaves,
    /// It may use temporary tables, of which the server's process keeps buffers for good.
    pub uses_temporary: bool,
    /// What follows it may be read in another way than what came before: settings, the
    /// transaction's own ones, too, may be others, or whatever else belongs to the session.
    pub alters_session: bool,
    /// It changes who may log in where, or with which settings.
    pub changes_logins: bool,
    /// It may show, run or take away by name what the server has prepared, which is other
    /// clients', too: whatever is not proven to leave nothing may run a text that does.
    pub reaches_prepared: bool,
    /// What it has to do with sequences.
    pub sequences: Sequences,
}

impl Effects {
    /// Of a statement of this kind; and whether a text of the same normal form is sure to have the
    /// same.
    pub(super) fn of(kind: &Kind, tokens: &[Token<'_>], facts: &Facts) -> (Self, bool) {
        let leaves = leaves::of(kind, tokens, facts);
        let (sequences, keep) = sequences::find(kind, tokens, facts);
        let is_block = tokens.first().is_some_and(|first| first.is("do"));
        let shows = |token: &Token<'_>| {
            name(token).is_some_and(|name| facts.shows_prepared(&name))
                || (is_block && words_of(token).any(|word| facts.shows_prepared(&word)))
        };
        let effects = Self {
            leaves,
            uses_temporary: leaves::uses_temporary(kind, leaves, tokens, facts),
            alters_session: leaves != Leaves::Nothing || changes_settings(kind, tokens),
            changes_logins: matches!(kind, Kind::Ddl(_)) && schema_change::changes_logins(tokens),
            reaches_prepared: leaves != Leaves::Nothing
                || matches!(kind, Kind::Deallocate(Deallocate::Name(_)))
                || tokens.iter().any(shows),
            sequences,
        };
        (effects, keep)
    }

    /// Of a text that is not looked into, as far as these do not say more.
    pub(super) fn or_unknown(mut self, facts: &Facts) -> Self {
        self.leaves = self.leaves.max(leaves::of_text(facts));
        self.uses_temporary = true;
        self.alters_session = true;
        self.sequences.may_draw = true;
        self.sequences.may_ask = true;
        self.reaches_prepared = true;
        self
    }

    /// Adds those of another statement that is run after it.
    pub(super) fn add(&mut self, next: Self) {
        self.leaves = self.leaves.max(next.leaves);
        self.uses_temporary |= next.uses_temporary;
        self.changes_logins |= next.changes_logins;
        self.reaches_prepared |= next.reaches_prepared;
        if self.alters_session || next.alters_session {
            self.sequences.names_change();
        }
        self.sequences.add(next.sequences);
        self.alters_session |= next.alters_session;
    }
}

/// Whether what follows may be read with other settings, or beside other objects of the session's
/// own.
fn changes_settings(kind: &Kind, tokens: &[Token<'_>]) -> bool {
    match kind {
        Kind::Set(change) => !matches!(change, SettingChange::Transaction),
        Kind::Pins(_) | Kind::Discard(_) | Kind::Ddl(_) => true,
        _ => leaves::sets_locally(tokens),
    }
}
