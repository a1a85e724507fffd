//! What ends a client's stay on its server connection, but for the client itself.

use std::io;

use wire::postgres::{Refusal, Severity, sqlstate};

use super::Relay;
use crate::connection::{Connection, is_refused_for_good, refusal_of};
use crate::pipeline::lease::client::CloseOrder;
use crate::pipeline::lease::loss::Loss;
use crate::pipeline::lease::refused_restore::AfterRefusal;
use crate::session::{End, Session};

/// What a client hears whose statement may have changed data.
pub(in crate::session) const OUTCOME_UNKNOWN: &str = "the server connection broke before the \
    statement was answered: whether it took effect is not known";

impl Session {
    /// What ends the two at once.
    pub(super) fn check(&mut self, relay: &mut Relay, server: &mut Connection) -> Result<(), End> {
        if relay.lease.rounds.is_empty() {
            relay.lease.reply.is_over();
        }
        if let Some(body) = server.own_error.take() {
            // What the client sent behind it has run without it, or not at all.
            server.broken = true;
            // A COMMIT behind it has undone all, which it says in its tag alone.
            self.unconfirmed = None;
            let refusal = refusal_of(&body);
            return Err(End::Refused(Refusal { severity: Severity::Fatal, ..refusal }));
        }
        let order = match self.client.is_killed() {
            true => CloseOrder::AtOnce,
            false => CloseOrder::OnceIdle,
        };
        if !relay.lease.closes(order) {
            return Ok(());
        }
        self.client.parting().map_or(Ok(()), |refusal| Err(End::Refused(refusal)))
    }

    /// Where the server has not brought back something of what the session began with, one by one
    /// it tells what that is, and the session has it no longer. Whether the two part.
    pub(super) fn parts_unrestored(
        &mut self,
        relay: &mut Relay,
        server: &mut Connection,
    ) -> Result<bool, End> {
        let Some((begun, body)) = server.not_restored.take() else { return Ok(false) };
        let refusal = refusal_of(&body);
        let refused = relay.lease.refuse_restore(begun, is_refused_for_good(&refusal));
        if refused.undoes {
            server.ask_to_undo_restore();
        }
        if let Some(setting) = refused.dropped {
            match relay.lease.is_open() {
                true => self.environment.settings.not_begun_with(&setting.name),
                false => drop(self.environment.settings.refused(&setting.name)),
            }
            self.tell_refused(vec![(setting.name, refusal.clone())]);
        }
        match refused.then {
            AfterRefusal::GoesOn => Ok(false),
            AfterRefusal::Parts(held) => {
                server.broken = true;
                self.client.outlet.send(&held);
                Ok(true)
            }
            AfterRefusal::Closes => {
                server.broken = true;
                Err(End::Refused(Refusal { severity: Severity::Fatal, ..refusal }))
            }
        }
    }

    /// The server is gone, or said what it was not asked.
    pub(super) fn server_gone(
        &mut self,
        relay: &mut Relay,
        server: &mut Connection,
        error: Option<io::Error>,
    ) -> Result<(), End> {
        server.broken = true;
        self.client.names().undo_all();
        let why = error.map_or_else(|| "it closed the connection".to_owned(), |e| e.to_string());
        tracing::warn!(backend = server.backend.name(), why, "a server connection is gone");
        let wrote = relay.lease.may_have_written();
        let (code, what) = match wrote && !relay.lease.rounds.is_empty() {
            true => (sqlstate::OUTCOME_UNKNOWN, OUTCOME_UNKNOWN),
            false => (sqlstate::CONNECTION_FAILURE, "the server connection broke"),
        };
        let loss = relay.lease.lose();
        if wrote && !matches!(loss, Loss::HandOver(_)) {
            self.last_write = self.front.backends.note_write();
        }
        match loss {
            Loss::HandOver(round) => self.hand_over(&mut relay.in_front, round),
            Loss::Unnoticed => {}
            Loss::Dismissed => return Err(End::Gone),
            Loss::Closed => return Err(End::Refused(Refusal::fatal(code, what))),
            Loss::Failed(rounds) => {
                (0..rounds).for_each(|_| self.refuse(&Refusal::error(code, what)));
            }
        }
        Ok(())
    }
}
