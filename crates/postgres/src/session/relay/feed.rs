//! What a client sends, onto its server connection.

use std::rc::Rc;
use std::time::Instant;

use wire::postgres::backend::{Status, put_command_complete, put_ready_for_query};
use wire::postgres::message;

use super::{AHEAD_MAX, HEADER, Relay};
use crate::plan::{Deallocate, Kind, Plan, Unsettles};
use crate::server::Connection;
use crate::session::compose::Composer;
use crate::session::listen::Diverted;
use crate::session::round::{HELD_MAX, header, string};
use crate::session::script::{Expect, Fate};
use crate::session::{End, Session, effect};

/// A Query is held up to this length, so that it can be looked into; a longer one goes out as it
/// comes, and its client keeps its server connection.
const QUERY_HELD_MAX: usize = 4 * 1024 * 1024;

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
            // The server waits for more of the round as well: what came before the goodbye is done
            // or undone there, as it would be without Weir.
            b'X' if relay.within || relay.copying => {
                message(&mut server.out, b'X', |_| {});
                relay.leaving = true;
                return Ok(bytes.len());
            }
            // What was sent before it is answered first.
            b'X' if !relay.rounds.is_empty() || server.unsent() > 0 => {
                relay.leaving = true;
                return Ok(0);
            }
            b'X' => return Err(End::Terminated),
            b'Q' | b'P' | b'B' | b'D' | b'E' | b'C' | b'S' | b'H' | b'F' | b'd' | b'c' | b'f' => {}
            _ => return Err(End::unknown_message(tag)),
        }
        let Some(whole) = bytes.get(..len) else {
            let held_max = if tag == b'Q' { QUERY_HELD_MAX } else { HELD_MAX };
            let streams = matches!(tag, b'd' | b'Q' | b'F') && len > held_max;
            return Ok(if streams { self.begin_long(relay, server, tag, bytes, len) } else { 0 });
        };
        let body = &whole[HEADER..];
        if tag == b'S' && relay.copying {
            // The server ignores it while it waits for data.
            server.out.extend_from_slice(whole);
            return Ok(len);
        }
        match self.divert(relay, tag, body) {
            Diverted::No => {}
            Diverted::Waits => return Ok(0),
            Diverted::Done(said) => {
                server.script.expect(Expect::Say(said));
                return Ok(len);
            }
        }
        self.note(relay, server, tag, body);
        if tag == b'Q' && self.deallocates(relay, body, server) {
            return Ok(len);
        }
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
            database: &self.database,
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
            self.note_unknown(relay, server);
            server.script.expect(Expect::Query(Fate::Pass));
        }
        server.out.extend_from_slice(bytes);
        relay.through = len - bytes.len();
        bytes.len()
    }

    /// Takes note of what a message will change.
    fn note(&mut self, relay: &mut Relay, server: &Connection, tag: u8, body: &[u8]) {
        let plan = match tag {
            b'Q' => {
                let sql = body.strip_suffix(&[0]).unwrap_or(body);
                let plan = self.plan(sql);
                let was_pinned = self.pinned;
                self.note_plan(relay, &plan);
                if let Some(parts) = self.parts(&plan, sql) {
                    self.pinned = was_pinned || parts.iter().any(|part| effect::pins(part));
                    let round = relay.round();
                    round.changes.extend(parts.iter().filter_map(effect::change));
                    round.listens.extend(parts.into_iter().filter(effect::listens));
                }
                self.asked(relay, server);
                return;
            }
            b'F' => return self.note_unknown(relay, server),
            b'S' => {
                self.asked(relay, server);
                return;
            }
            b'P' | b'D' | b'C' | b'E' | b'H' => {
                relay.round();
                return;
            }
            // What is bound counts as run: any portal may be, now or later in the transaction.
            b'B' => self.bound(body),
            b'c' | b'f' => {
                relay.copying = false;
                return;
            }
            _ => return,
        };
        relay.round();
        match plan {
            Some(plan) => self.note_plan(relay, &plan),
            None => relay.round().unknown = true,
        }
    }

    /// A round that is not looked into: it may have done anything.
    fn note_unknown(&mut self, relay: &mut Relay, server: &Connection) {
        self.pinned = true;
        self.database.catalogue_changed(Unsettles::Changes);
        relay.unsettled.get_or_insert_with(|| self.database.unsettle());
        relay.round().unknown = true;
        self.asked(relay, server);
    }

    /// The round is whole: the server has it from now on.
    fn asked(&self, relay: &mut Relay, server: &Connection) {
        let now = Instant::now();
        relay.round().asked = Some(now);
        relay.within = false;
        server.record.asked(now);
        self.client.seen().asked.set(Some(now));
    }

    /// `DEALLOCATE` of statements that have other names on the server; whether it was dealt with.
    fn deallocates(&mut self, relay: &mut Relay, body: &[u8], server: &mut Connection) -> bool {
        let sql = body.strip_suffix(&[0]).unwrap_or(body);
        let plan = self.plan(sql);
        let name = match &plan.kind {
            Kind::Deallocate(Deallocate::Name(name)) => name,
            Kind::Deallocate(Deallocate::All) => {
                self.names.clear();
                server.prepared.doubt_all();
                return false;
            }
            _ => return false,
        };
        let Some(named) = self.names.remove(name.as_bytes()) else { return false };
        let number = named.statement.number;
        if server.prepared.is_sure(number) {
            server.prepared.forget(number);
            message(&mut server.out, b'Q', |out| {
                out.extend_from_slice(format!("DEALLOCATE weir_{number}\0").as_bytes());
            });
            server.script.expect(Expect::Query(Fate::Pass));
            return true;
        }
        // This server does not have it; one with more under way says so itself.
        if !server.script.is_idle() || server.status == Status::Failed {
            return false;
        }
        relay.rounds.pop_back();
        let mut out = Vec::new();
        put_command_complete(&mut out, "DEALLOCATE");
        put_ready_for_query(&mut out, server.status);
        self.client.outlet.send(&out);
        true
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
        round.listens.extend(Some(plan.clone()).filter(effect::listens));
    }

    /// The plan of the statement that a Bind names.
    pub(in crate::session) fn bound(&self, body: &[u8]) -> Option<Rc<Plan>> {
        let (_, rest) = string(body)?;
        let (name, _) = string(rest)?;
        let named = self.names.get(name)?;
        Some(named.statement.plan(&self.database, self.scope))
    }
}
