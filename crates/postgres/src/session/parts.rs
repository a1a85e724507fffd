//! What a text of several statements does to the session, statement by statement.
//!
//! Drivers reset a session in one text (`SELECT pg_advisory_unlock_all(); CLOSE ALL; UNLISTEN *;
//! RESET ALL`) each time it goes back to their pool: that must not bind it to its server's
//! connection.

use std::ops::Range;
use std::rc::Rc;

use super::Session;
use super::way::ROUTE;
use crate::plan::{Contains, Kind, Plan, SettingChange};

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
