//! What a text of several statements does to the session, statement by statement.
//!
//! Drivers reset a session in one text (`SELECT pg_advisory_unlock_all(); CLOSE ALL; UNLISTEN *;
//! RESET ALL`) each time it goes back to their pool: that must not bind it to its server's
//! connection.

use std::ops::Range;
use std::rc::Rc;

use wire::sql::{Strings, Token, statements};

use super::Session;
use super::way::ROUTE;
use crate::plan::{Contains, Kind, Plan, SettingChange};

/// Tokens of a statement about the session that are looked at.
const TOKENS_MAX: usize = 64;
/// Statements about the session that are looked at; more of them are not followed in one
/// transaction.
const SPANS_MAX: usize = 256;

/// Where those of a text's statements are that are about the session; `None`: one of them is too
/// long to be looked at, or there are too many.
pub(super) fn spans(sql: &[u8], strings: Strings) -> Option<Vec<Range<usize>>> {
    let mut spans = Vec::new();
    let mut statements = statements(sql, strings);
    let mut tokens: Vec<Token<'_>> = Vec::new();
    while statements.next_into(&mut tokens, TOKENS_MAX) {
        let [first, .., last] = &tokens[..] else { continue };
        if !first.is_any(&["set", "reset", "listen", "unlisten"]) {
            continue;
        }
        if tokens.len() > TOKENS_MAX || spans.len() == SPANS_MAX {
            return None;
        }
        spans.push(first.start..last.start + last.text.len());
    }
    Some(spans)
}

impl Session {
    /// Those of several statements that change settings, or what is listened to. `None`: the plan
    /// of the whole is all that is known. They hold together or not at all, so a text that begins
    /// or ends transactions of its own is none of these. The server reads the whole text before it
    /// runs any of it. `spans`: where they are.
    pub(super) fn parts(
        &self,
        whole: &Plan,
        sql: &[u8],
        spans: impl FnOnce() -> Option<Vec<Range<usize>>>,
    ) -> Option<Vec<Rc<Plan>>> {
        let Kind::Several(contains) = whole.kind else { return None };
        let unknown = Contains::TRANSACTION.with(Contains::PINS);
        if contains.has(unknown) || !contains.has(Contains::SET.with(Contains::LISTEN)) {
            return None;
        }
        let mut parts = Vec::new();
        for span in spans()? {
            let part = self.plan(sql.get(span)?);
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
