//! What a statement does to the session and to the servers, once it has been run.

use std::rc::Rc;

use crate::pipeline::settings::Change;
use crate::plan::{Contains, Deallocate, Discard, Kind, Plan, SettingChange, Unsettles};

/// Whether it may have changed data.
pub fn may_write(plan: &Plan) -> bool {
    match &plan.kind {
        kind if kind.is_harmless() => false,
        Kind::Set(_)
        | Kind::Discard(_)
        | Kind::Deallocate(_)
        | Kind::Listen(_)
        | Kind::Unlisten(_)
        | Kind::CopyOut { may_write: false } => false,
        Kind::Several(contains) => contains.has(Contains::WRITES),
        _ => true,
    }
}

/// Whether it leaves something on its server connection that cannot be carried to another.
pub fn pins(plan: &Plan) -> bool {
    match &plan.kind {
        Kind::Pins(_) | Kind::Listen(_) => true,
        Kind::Set(SettingChange::Characteristics) => true,
        Kind::Several(contains) => {
            contains.has(Contains::PINS.with(Contains::SET).with(Contains::LISTEN))
        }
        _ => false,
    }
}

/// Whether it changes what the session listens to.
pub fn listens(plan: &Rc<Plan>) -> bool {
    matches!(plan.kind, Kind::Listen(_) | Kind::Unlisten(_) | Kind::Discard(Discard::All))
}

/// Whether it frees the server connection of all that a session has left on it.
pub fn unpins(plan: &Plan) -> bool {
    matches!(plan.kind, Kind::Discard(Discard::All))
}

/// Whether all prepared statements are gone after it, or may be.
pub fn forgets(plan: &Plan) -> bool {
    match &plan.kind {
        Kind::Discard(Discard::All) | Kind::Deallocate(Deallocate::All) => true,
        Kind::Several(contains) => contains.has(Contains::FORGETS),
        _ => false,
    }
}

/// Whether settings that were changed before it in the transaction may be others after it.
pub fn tangles(plan: &Plan) -> bool {
    match &plan.kind {
        Kind::RollbackTo | Kind::Commit { chain: true } | Kind::Rollback { chain: true } => true,
        Kind::Several(contains) => contains.has(Contains::TRANSACTION),
        _ => false,
    }
}

/// Whether it ends the transaction, or goes back in it: what was set for it alone is not any more.
pub fn ends(plan: &Plan) -> bool {
    match &plan.kind {
        Kind::Commit { .. } | Kind::Rollback { .. } | Kind::RollbackTo => true,
        Kind::PrepareTransaction => true,
        Kind::Several(contains) => contains.has(Contains::TRANSACTION),
        _ => false,
    }
}

/// Whether a transaction may be open behind it that was not before.
pub fn begins(plan: &Plan) -> bool {
    match &plan.kind {
        Kind::Begin(_) | Kind::Commit { chain: true } | Kind::Rollback { chain: true } => true,
        Kind::Several(contains) => contains.has(Contains::TRANSACTION),
        _ => false,
    }
}

/// Whether what ran before it in one round may be committed by it: nothing can take that back. A
/// procedure may commit, and what runs in no transaction's block commits at once (`postgres.c`,
/// `finish_xact_command`).
pub fn may_commit(plan: &Plan) -> bool {
    !matches!(
        &plan.kind,
        Kind::Empty
            | Kind::Read
            | Kind::Begin(_)
            | Kind::Rollback { .. }
            | Kind::Savepoint
            | Kind::Release
            | Kind::RollbackTo
            | Kind::Set(_)
            | Kind::Deallocate(_)
            | Kind::Listen(_)
            | Kind::Unlisten(_)
            | Kind::Notify
            | Kind::CopyIn
            | Kind::CopyOut { .. }
            | Kind::Write
    )
}

/// What it does to the catalogue.
pub fn unsettles(plan: &Plan) -> Unsettles {
    match &plan.kind {
        Kind::Ddl(how) => *how,
        Kind::Several(contains) if contains.has(Contains::CODE) => Unsettles::Code,
        Kind::Several(contains) if contains.has(Contains::CHANGES) => Unsettles::Changes,
        Kind::Several(contains) if contains.has(Contains::ADDS) => Unsettles::Adds,
        _ => Unsettles::Nothing,
    }
}

/// What it changes in the session's settings.
pub fn change(plan: &Rc<Plan>) -> Option<Change> {
    match &plan.kind {
        Kind::Set(SettingChange::Session { name, value: Some(value) }) => {
            Some(Change::Set(name.to_string(), value.to_string()))
        }
        Kind::Set(SettingChange::Session { name, value: None } | SettingChange::Reset { name }) => {
            Some(Change::Reset(name.to_string()))
        }
        Kind::Set(SettingChange::ResetAll) | Kind::Discard(Discard::All) => Some(Change::ResetAll),
        _ => None,
    }
}
