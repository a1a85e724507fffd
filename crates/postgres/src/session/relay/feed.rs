//! What a client sends, onto its server connection.

use std::rc::Rc;
use std::time::Instant;

use super::{AHEAD_MAX, HEADER, Relay};
use crate::plan::{Plan, Unsettles};
use crate::server::Connection;
use crate::session::compose::Composer;
use crate::session::listen::Diverted;
use crate::session::round::{HELD_MAX, header, string};
use crate::session::script::{Expect, Fate};
use crate::session::{End, Session, effect};

impl Session {
    /// Puts what the client has sent onto the server connection, as far as it may go now.
    pub(super) fn feed(&mut self, relay: &mut Relay, server: &mut Connection) -> Result<(), End> {
        let inbox = std::mem::take(&mut self.inbox);
        let mut at = 0;
        let fed = loop {
            let rest = &inbox[at..];
            if relay.through > 0 {
                let n = relay.through.min(rest.len());
                server.out.extend_from_slice(&rest[..n]);
                relay.through -= n;
                at += n;
            }
            relay.full = server.unsent() > AHEAD_MAX;
            if relay.through > 0 || !relay.takes_more(self.pinned) || relay.full {
                break Ok(());
            }
            match self.message(relay, server, &inbox[at..]) {
                Ok(0) => break Ok(()),
                Ok(n) => at += n,
                Err(end) => break Err(end),
            }
        };
        self.inbox = inbox;
        self.inbox.drain(..at);
        self.inbox.shrink_to(0);
        fed
    }

    /// Puts one message, or the beginning of a long one, onto the server connection; how many bytes
    /// that took, 0 while it is not whole.
    fn message(
        &mut self,
        relay: &mut Relay,
        server: &mut Connection,
        bytes: &[u8],
    ) -> Result<usize, End> {
        let Some((tag, len)) = header(bytes) else { return Ok(0) };
        if len < HEADER || len > self.front.settings().max_message.len() {
            return Err(End::too_large(tag, len));
        }
        match tag {
            b'X' => return Err(End::Terminated),
            b'Q' | b'P' | b'B' | b'D' | b'E' | b'C' | b'S' | b'H' | b'F' | b'd' | b'c' | b'f' => {}
            _ => return Err(End::unknown_message(tag)),
        }
        let Some(whole) = bytes.get(..len) else {
            let streams = matches!(tag, b'd' | b'Q' | b'F') && len > HELD_MAX;
            return Ok(if streams { self.begin_long(relay, server, tag, bytes, len) } else { 0 });
        };
        let body = &whole[HEADER..];
        if tag == b'E' {
            match self.divert(relay) {
                Diverted::No => {}
                Diverted::Waits => return Ok(0),
                Diverted::Done(said) => {
                    server.script.expect(Expect::Say(said));
                    return Ok(len);
                }
            }
        }
        self.note(relay, tag, body);
        let mut composer = Composer {
            names: &mut self.names,
            statements: &self.front.statements,
            prepared: &mut server.prepared,
            fresh: &mut relay.fresh,
            changes: self.database.changes(),
            needed: None,
            parsed: false,
            again: self.again,
            names_max: self.names_max,
        };
        let composed = composer.message(tag, body, whole, &mut server.out, &mut server.script);
        composed.map_err(End::fault)?;
        if matches!(tag, b'S' | b'Q') {
            self.again = false;
        }
        Ok(len)
    }

    /// A message that is too long to be held goes out as it comes. What a statement of such length
    /// does is not looked into.
    fn begin_long(
        &mut self,
        relay: &mut Relay,
        server: &mut Connection,
        tag: u8,
        bytes: &[u8],
        len: usize,
    ) -> usize {
        if tag != b'd' {
            let round = relay.round();
            round.unknown = true;
            relay.within = false;
            server.script.expect(Expect::Query(Fate::Pass));
        }
        server.out.extend_from_slice(bytes);
        relay.through = len - bytes.len();
        bytes.len()
    }

    /// Takes note of what a message will change.
    fn note(&mut self, relay: &mut Relay, tag: u8, body: &[u8]) {
        let plan = match tag {
            b'Q' => {
                let sql = body.strip_suffix(&[0]).unwrap_or(body);
                let plan = self.plan(sql);
                let listens = self.listening_parts(&plan, sql);
                self.note_plan(relay, &plan);
                relay.round().listens = listens;
                relay.round().asked = Some(Instant::now());
                relay.within = false;
                return;
            }
            b'F' => {
                relay.round().unknown = true;
                relay.within = false;
                return;
            }
            b'S' => {
                relay.round().asked = Some(Instant::now());
                relay.within = false;
                return;
            }
            b'P' | b'D' | b'C' | b'H' => {
                relay.round();
                return;
            }
            b'B' => self.bound(body),
            b'E' => self.executed.take(),
            b'c' | b'f' => {
                relay.copying = false;
                return;
            }
            _ => return,
        };
        relay.round();
        if tag == b'B' {
            self.executed = plan;
        } else if let Some(plan) = plan {
            self.note_plan(relay, &plan);
            relay.round().listens.extend(self.listening_parts(&plan, b""));
        }
    }

    fn note_plan(&mut self, relay: &mut Relay, plan: &Rc<Plan>) {
        self.pinned |= effect::pins(plan);
        self.front.gateway.metrics.unproven(plan.reason);
        if effect::unsettles(plan) == Unsettles::Changes {
            // Before the server knows of it and until its transaction has ended, so that no proof
            // rests on what it changes.
            self.database.catalogue_changed(Unsettles::Changes);
            relay.unsettled.get_or_insert_with(|| self.database.unsettle());
        }
        let change = effect::change(plan);
        let round = relay.round();
        round.plans.push(plan.clone());
        round.changes.extend(change);
    }

    /// The plan of the statement that a Bind names.
    fn bound(&self, body: &[u8]) -> Option<Rc<Plan>> {
        let (_, rest) = string(body)?;
        let (name, _) = string(rest)?;
        let named = self.names.get(name)?;
        Some(named.statement.plan(&self.database, self.scope))
    }
}
