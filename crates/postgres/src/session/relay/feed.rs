//! What a client sends, onto its server connection.

use std::rc::Rc;
use std::time::Instant;

use wire::postgres::backend::{Status, put_command_complete, put_ready_for_query};
use wire::postgres::frame::{self, Frame, FrameError, Header};
use wire::postgres::frontend::{Bind, put_flush, put_terminate, tag};

use super::{AHEAD_MAX, Relay};
use crate::plan::{Deallocate, Kind, Plan, Unsettles};
use crate::server::Connection;
use crate::session::compose::{Composer, Found};
use crate::session::listen::Diverted;
use crate::session::round::{Cut, HELD_MAX, cut};
use crate::session::script::{Expect, Fate, Script};
use crate::session::summary::{Summary, name_in, summarise};
use crate::session::{End, Session, effect};

/// A Query is held up to this length, so that it can be looked into; a longer one goes out as it
/// comes, and its client keeps its server connection.
const QUERY_HELD_MAX: usize = 4 * 1024 * 1024;
/// Answers that are under way at most; what more the client asks for waits.
const ANSWERS_MAX: usize = 16 * 1024;

/// Who forgets a statement.
enum Deallocated {
    /// The server is asked.
    There,
    /// Nobody yet: it waits for answers.
    Later,
    /// It was dealt with.
    Here,
}

impl Session {
    /// Puts what the client has sent onto the server connection, as far as it may go now.
    pub(super) fn feed(&mut self, relay: &mut Relay, server: &mut Connection) -> Result<(), End> {
        let inbox = std::mem::take(&mut self.inbox);
        relay.waits = false;
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
            if relay.through > 0
                || !relay.takes_more(self.pinned)
                || relay.full
                || self.has_to_hear(relay, server)
            {
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

    /// Whether so many answers are under way that no more are asked for. A server keeps them until
    /// it is told to send them, or has many.
    fn has_to_hear(&self, relay: &mut Relay, server: &mut Connection) -> bool {
        relay.waits = server.script.under_way() >= ANSWERS_MAX;
        if relay.waits && relay.within && !relay.flushed {
            put_flush(&mut server.out);
        }
        relay.flushed = relay.waits;
        relay.waits
    }

    /// Puts one message, or the beginning of a long one, onto the server connection; how many bytes
    /// that took, 0 while it is not whole.
    fn message(
        &mut self,
        relay: &mut Relay,
        server: &mut Connection,
        bytes: &[u8],
    ) -> Result<usize, End> {
        let max = self.front.settings().max_message.len();
        let Header { tag, len } = match frame::header(bytes, max) {
            Ok(Some(header)) => header,
            Ok(None) => return Ok(0),
            Err(FrameError::TooLong { len, .. }) => return Err(End::too_large(bytes[0], len)),
            Err(FrameError::TooShort) => return Err(End::unknown_message(bytes[0])),
        };
        match tag {
            b'X' => return farewell(relay, server, bytes),
            b'Q' | b'P' | b'B' | b'D' | b'E' | b'C' | b'S' | b'H' | b'F' | b'd' | b'c' | b'f' => {}
            _ => return Err(End::unknown_message(tag)),
        }
        let Some(whole) = bytes.get(..len) else {
            let held_max = if tag == b'Q' { QUERY_HELD_MAX } else { HELD_MAX };
            let streams = matches!(tag, b'd' | b'Q' | b'F') && len > held_max;
            return Ok(if streams { self.begin_long(relay, server, tag, bytes, len) } else { 0 });
        };
        let message = Frame { tag, body: &whole[frame::HEADER_BYTES..], whole };
        if tag == b'S' && relay.copying {
            // The server ignores it while it waits for data.
            server.out.extend_from_slice(whole);
            return Ok(len);
        }
        if server.script.is_skipping() && tag != b'S' {
            // The server would ignore it, and so does what Weir knows.
            return Ok(len);
        }
        if self.has_to_wait(relay, server, message) {
            relay.waits = true;
            return Ok(0);
        }
        match self.divert(relay, server.status, message) {
            Diverted::No => {}
            Diverted::Waits => {
                relay.waits = true;
                return Ok(0);
            }
            Diverted::Done(said) => {
                server.script.expect(said);
                return Ok(len);
            }
        }
        let sql = message.body.strip_suffix(&[0]).unwrap_or(message.body);
        let plan = (tag == b'Q').then(|| self.plan(sql));
        match plan.as_deref().map(|plan| self.deallocates(relay, plan, server)) {
            Some(Deallocated::Later) => {
                relay.waits = true;
                return Ok(0);
            }
            Some(Deallocated::Here) => return Ok(len),
            Some(Deallocated::There) | None => {}
        }
        let is_point = plan.as_deref().is_some_and(|plan| self.is_point(relay, server, plan, sql));
        match plan {
            Some(plan) => self.note_query(relay, server, &plan, sql),
            None => self.note(relay, server, tag, message.body),
        }
        self.compose(relay, server, message, is_point)?;
        Ok(len)
    }

    /// Whether a Query is sent as a point statement. Not a read: the server would not tell what it
    /// reads under another result than the one it was prepared with, and the transaction fails by
    /// that. Nor where its names and its strings may mean something else than they do to others.
    fn is_point(&self, relay: &Relay, server: &Connection, plan: &Plan, sql: &[u8]) -> bool {
        matches!(plan.kind, Kind::Write)
            && !relay.within
            && !relay.copying
            && !relay.strays
            && server.status != Status::Failed
            && self.lifts(plan, sql)
    }

    /// Puts a whole message onto the server connection.
    fn compose(
        &mut self,
        relay: &mut Relay,
        server: &mut Connection,
        message: Frame<'_>,
        is_point: bool,
    ) -> Result<(), End> {
        let composed = self.composer(relay, server, |composer, out, script| {
            if !is_point {
                return composer.message(message, out, script);
            }
            composer.point(&self.front.draft.borrow().lifted, false, out, script);
            composer.sync(out, script);
            self.front.gateway.metrics.points.inc();
            Ok(())
        });
        composed.map_err(End::malformed)?;
        if message.tag == b'E' && relay.bound_forgets {
            relay.forgets = true;
            // What follows waits for its answer.
            put_flush(&mut server.out);
        }
        Ok(())
    }

    /// Has messages written for the server connection.
    pub(super) fn composer<T>(
        &self,
        relay: &mut Relay,
        server: &mut Connection,
        write: impl FnOnce(&mut Composer<'_>, &mut Vec<u8>, &mut Script) -> T,
    ) -> T {
        let mut composer = Composer {
            names: &mut self.client.names(),
            statements: &self.front.statements,
            prepared: &mut server.prepared,
            fresh: &mut relay.fresh,
            changes: self.database.changes(),
            has_failed: server.status == Status::Failed,
            found: Found::default(),
        };
        let written = write(&mut composer, &mut server.out, &mut server.script);
        composer.found.count(&self.database);
        written
    }

    /// Whether the round at the start of the inbox is one change of data that goes out with a Sync
    /// behind it, so that what is put in front of it has its answer with it.
    pub(super) fn begins_with_change(&self) -> bool {
        let is_change = |plan: &Plan| matches!(plan.kind, Kind::Write);
        match cut(&self.inbox, usize::MAX) {
            Cut::Query(len) => {
                let sql = &self.inbox[frame::HEADER_BYTES..len - 1];
                let plan = self.plan(sql);
                is_change(&plan) && self.lifts(&plan, sql)
            }
            Cut::Extended(len) => {
                let round = &self.inbox[..len];
                let names = self.client.names();
                let summary = summarise(round, &names, &self.database, self.scope);
                matches!(summary, Summary::One(plan, _) if is_change(&plan))
            }
            _ => false,
        }
    }

    /// Whether a message is about a name that may stand for something else by the time the server
    /// sees it.
    fn has_to_wait(&self, relay: &mut Relay, server: &Connection, message: Frame<'_>) -> bool {
        relay.forgets &= !server.script.is_idle();
        if relay.forgets {
            return matches!(message.tag, b'P' | b'B' | b'D' | b'C');
        }
        let names = self.client.names();
        if names.is_settled() {
            return false;
        }
        match name_in(message) {
            Some(b"") if message.tag == tag::PARSE => false,
            Some(name) => names.is_unsure(name),
            None => false,
        }
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
        if tag != b'd' && !server.script.is_skipping() {
            self.note_unknown(relay, server);
            if tag == b'Q' {
                self.client.names().query();
            }
            server.script.expect(Expect::Query(Fate::Pass));
        }
        server.out.extend_from_slice(bytes);
        relay.through = len - bytes.len();
        bytes.len()
    }

    /// Takes note of what a Query will change.
    fn note_query(&mut self, relay: &mut Relay, server: &Connection, plan: &Rc<Plan>, sql: &[u8]) {
        let was_pinned = self.pinned;
        self.note_plan(relay, plan);
        if let Some(parts) = self.parts(plan, sql) {
            self.pinned = was_pinned || parts.iter().any(|part| effect::pins(part));
            parts.iter().for_each(|part| self.note_change(relay, part));
            relay.round().listens.extend(parts.into_iter().filter(effect::listens));
        }
        relay.forgets |= effect::forgets(plan);
        self.asked(relay, server);
    }

    /// Takes note of what another message will change.
    fn note(&mut self, relay: &mut Relay, server: &Connection, tag: u8, body: &[u8]) {
        match tag {
            b'F' => self.note_unknown(relay, server),
            b'S' => {
                self.asked(relay, server);
                relay.bound_forgets = false;
            }
            b'P' | b'D' | b'C' | b'E' | b'H' => {
                relay.round();
            }
            b'B' => {
                // What is bound counts as run: any portal may be, now or later in the transaction.
                let plan = self.bound(body);
                relay.bound_forgets = plan.as_deref().is_some_and(effect::forgets);
                match plan {
                    Some(plan) => self.note_plan(relay, &plan),
                    None => relay.round().unknown = true,
                }
            }
            b'c' | b'f' => relay.copying = false,
            _ => {}
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

    /// `DEALLOCATE` of a statement that has another name on the server is answered here, once it
    /// is known whether a transaction has failed.
    fn deallocates(&self, relay: &mut Relay, plan: &Plan, server: &Connection) -> Deallocated {
        let Kind::Deallocate(Deallocate::Name(name)) = &plan.kind else {
            return Deallocated::There;
        };
        if relay.within || relay.copying {
            return Deallocated::There;
        }
        if !server.script.is_idle() {
            return Deallocated::Later;
        }
        let mut names = self.client.names();
        if server.status == Status::Failed || names.get(name.as_bytes()).is_none() {
            return Deallocated::There;
        }
        names.set(name.as_bytes(), None);
        names.query();
        relay.begun = true;
        let mut out = Vec::new();
        put_command_complete(&mut out, "DEALLOCATE");
        put_ready_for_query(&mut out, server.status);
        self.client.outlet.send(&out);
        Deallocated::Here
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
        self.note_change(relay, plan);
        relay.strays |= effect::strays(plan);
        let round = relay.round();
        round.plans.push(plan.clone());
        round.listens.extend(Some(plan.clone()).filter(effect::listens));
    }

    /// Takes note of what a statement changes in the settings.
    fn note_change(&self, relay: &mut Relay, plan: &Rc<Plan>) {
        let Some(change) = effect::change(plan) else { return };
        relay.resets |= !self.settings.begun_with(&change).is_empty();
        relay.round().changes.push(change);
    }

    /// The plan of the statement that a Bind names.
    pub(in crate::session) fn bound(&self, body: &[u8]) -> Option<Rc<Plan>> {
        let bind = Bind::read(body).ok()?;
        let names = self.client.names();
        let named = names.get(bind.statement)?;
        Some(named.statement.plan(&self.database, self.scope))
    }
}

/// The client says goodbye; how many bytes of what it sent are dealt with by that.
fn farewell(relay: &mut Relay, server: &mut Connection, bytes: &[u8]) -> Result<usize, End> {
    if relay.within || relay.copying {
        // The server waits for more of the round as well: what came before the goodbye is done or
        // undone there, as it would be without Weir.
        put_terminate(&mut server.out);
        relay.leaving = true;
        return Ok(bytes.len());
    }
    if !relay.rounds.is_empty() || server.unsent() > 0 {
        // What was sent before it is answered first.
        relay.leaving = true;
        return Ok(0);
    }
    Err(End::Terminated)
}
