//! What a text of several statements does to the session, statement by statement.
//!
//! Drivers reset a session in one text (`SELECT pg_advisory_unlock_all(); CLOSE ALL; UNLISTEN *;
//! RESET ALL`) each time it goes back to their pool: that must not bind it to its server's
//! connection.

use std::rc::Rc;

use wire::sql::{Token, statements};

use super::Session;
use super::way::ROUTE;
use crate::plan::{Contains, Kind, Plan, SettingChange};

/// Tokens of a statement about the session that are looked at.
const TOKENS_MAX: usize = 64;
impl Session {
    /// Those of several statements that change settings, or what is listened to. `None`: the plan
    /// of the whole is all that is known. They hold together or not at all, so a text that begins
    /// or ends transactions of its own is none of these. The server reads the whole text before it
    /// runs any of it.
    pub(super) fn parts(&self, whole: &Plan, sql: &[u8]) -> Option<Vec<Rc<Plan>>> {
        let Kind::Several(contains) = whole.kind else { return None };
        let unknown = Contains::TRANSACTION.with(Contains::PINS);
        if contains.has(unknown) || !contains.has(Contains::SET.with(Contains::LISTEN)) {
            return None;
        }
        let mut parts = Vec::new();
        let mut statements = statements(sql, self.scope.strings);
        let mut tokens: Vec<Token<'_>> = Vec::new();
        while statements.next_into(&mut tokens, TOKENS_MAX) {
            let [first, .., last] = &tokens[..] else { continue };
            if !first.is_any(&["set", "reset", "listen", "unlisten"]) {
                continue;
            }
            if tokens.len() > TOKENS_MAX {
                return None;
            }
            let at = |text: &[u8]| (text.as_ptr() as usize).checked_sub(sql.as_ptr() as usize);
            let part = self.plan(sql.get(at(first.text)?..at(last.text)? + last.text.len())?);
            match &part.kind {
                Kind::Set(SettingChange::Session { name, .. } | SettingChange::Reset { name })
                    if &**name == ROUTE =>
                {
                    return None;
                }
                _ => parts.push(part),
            }
        }
        Some(parts)
    }
}
