//! What a client sends, onto its server connection.

use std::rc::Rc;
use std::time::Instant;

use flow::workers::PARSE;
use wire::postgres::backend::Status;
use wire::postgres::frame::{self, Frame, FrameError, Header};
use wire::postgres::frontend::{Parse, put_flush, put_terminate};

use super::Relay;
use super::gate::Gate;
use super::hear::amid_copy;
use crate::client::AHEAD_MAX;
use crate::connection::Connection;
use crate::pipeline::compose::{Composer, Found};
use crate::pipeline::judgement::TextPlan;
use crate::pipeline::round::{HELD_MAX, Sending};
use crate::pipeline::script::{Admission, Expect, Fate, Script, Why};
use crate::pipeline::study::Study;
use crate::plan::{Kind, Plan};
use crate::session::inbox::INBOX_KEPT;
use crate::session::{End, Session};

/// A Query is held up to this length, so that it can be looked into; a longer one goes out as it
/// comes, and its client keeps its server connection.
const QUERY_HELD_MAX: usize = 4 * 1024 * 1024;
/// Answers that are under way at most; what more the client asks for waits.
const ANSWERS_MAX: usize = 16 * 1024;

impl Session {
    /// Puts what the client has sent onto the server connection, as far as it may go now.
    pub(super) fn feed(&mut self, relay: &mut Relay, server: &mut Connection) -> Result<(), End> {
        let front = Rc::clone(&self.front);
        let sending = relay.sending.as_ref().map_or(0, |sending| sending.rest().len());
        let _stage = front.worker.pulse.enter_sized(&PARSE, sending + self.inbox.len());
        relay.waits = false;
        if relay.elsewhere.is_some() {
            return Ok(());
        }
        while let Some(sending) = relay.sending.take().or_else(|| self.due(relay, server)) {
            if !self.feed_round(relay, server, sending)? {
                return Ok(());
            }
        }
        self.feed_inbox(relay, server)
    }

    /// What comes next of the rounds that stand in front of the inbox, once the server is to have
    /// it.
    fn due(&mut self, relay: &Relay, server: &Connection) -> Option<Sending> {
        if !relay.takes_more(self.pinned, server) {
            return None;
        }
        let repeat = self.repeats.pop_front().map(|repeat| repeat.round);
        repeat.or_else(|| self.next.take().map(|round| *round)).and_then(Sending::new)
    }

    /// Puts a round onto the server connection, as far as it may go now; whether all of it went.
    fn feed_round(
        &mut self,
        relay: &mut Relay,
        server: &mut Connection,
        mut sending: Sending,
    ) -> Result<bool, End> {
        while !sending.rest().is_empty() {
            let plan = sending.round.text_plan(&*self.database, self.environment.scope);
            let len = match self.has_to_wait_for_more(relay, server) {
                true => 0,
                false => self.message(relay, server, sending.rest(), plan)?,
            };
            if len == 0 {
                relay.sending = Some(sending);
                return Ok(false);
            }
            sending.sent += len;
        }
        Ok(true)
    }

    /// Puts what is in the inbox onto the server connection, as far as it may go now.
    fn feed_inbox(&mut self, relay: &mut Relay, server: &mut Connection) -> Result<(), End> {
        let inbox = std::mem::take(&mut self.inbox);
        let mut at = 0;
        let fed = loop {
            let rest = &inbox[at..];
            if relay.through > 0 {
                let n = relay.through.min(rest.len());
                if !relay.drops {
                    server.out.extend_from_slice(&rest[..n]);
                }
                relay.through -= n;
                at += n;
            }
            if self.has_to_wait_for_more(relay, server) {
                break Ok(());
            }
            match self.message(relay, server, &inbox[at..], None) {
                Ok(0) => break Ok(()),
                Ok(n) => {
                    at += n;
                    relay.study = Study::Nothing;
                }
                Err(end) => break Err(end),
            }
        };
        self.inbox = inbox;
        self.inbox.drain(..at);
        self.inbox.shrink_to(INBOX_KEPT);
        self.release_held();
        fed
    }

    /// Whether the client's next message is not to go out now.
    fn has_to_wait_for_more(&self, relay: &mut Relay, server: &mut Connection) -> bool {
        relay.full = server.unsent() > AHEAD_MAX;
        relay.through > 0
            || !relay.takes_more(self.pinned, server)
            || relay.full
            || self.has_to_hear(relay, server)
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
    /// that took, 0 while it is not whole. `text_plan`: what is known of the text in it already.
    fn message(
        &mut self,
        relay: &mut Relay,
        server: &mut Connection,
        bytes: &[u8],
        text_plan: Option<TextPlan>,
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
        if !goes_beside_copy(relay, server, tag)? {
            return Ok(0);
        }
        let Some(whole) = bytes.get(..len) else {
            let held_max = if tag == b'Q' { QUERY_HELD_MAX } else { HELD_MAX };
            let streams = matches!(tag, b'd' | b'Q' | b'F') && len > held_max;
            return Ok(if streams { self.begin_long(relay, server, tag, bytes, len) } else { 0 });
        };
        let message = Frame { tag, body: &whole[frame::HEADER_BYTES..], whole };
        match self.passes(relay, server, message) {
            Gate::Open => {}
            Gate::Waits => {
                relay.waits = true;
                return Ok(0);
            }
            Gate::Done => return Ok(len),
        }
        let Ok(known) = relay.study.of(message) else { return Ok(0) };
        let sql = message.body.strip_suffix(&[0]).unwrap_or(message.body);
        let plan = (tag == b'Q').then(|| match (&known, &text_plan) {
            (Some(known), _) => self.plan_of(known),
            (None, Some(known)) => known.plan.clone(),
            (None, None) => self.plan(sql),
        });
        match self.may_run(relay, server, message, plan.as_ref()) {
            Gate::Open => {}
            Gate::Waits => {
                relay.waits = true;
                return Ok(0);
            }
            Gate::Done => return Ok(len),
        }
        let is_point = plan.as_deref().is_some_and(|plan| self.is_point(relay, server, plan, sql));
        match plan {
            Some(plan) => self.note_query(relay, server, &plan, sql, known.as_deref()),
            // What it changes it changes behind its own statement's being prepared.
            None if tag == b'B' => {
                self.compose(relay, server, message, is_point);
                self.note(relay, server, tag, message.body);
                return Ok(len);
            }
            None => self.note(relay, server, tag, message.body),
        }
        self.compose(relay, server, message, is_point);
        if let (b'P', Some(known)) = (tag, text_plan) {
            self.learn(message.body, known);
        }
        Ok(len)
    }

    /// What was looked up of the text of a statement that the client has just prepared is known of
    /// the statement from now on.
    fn learn(&self, body: &[u8], TextPlan { generation, scope, plan }: TextPlan) {
        let Ok(parse) = Parse::read(body) else { return };
        let names = self.client.names();
        let named = names.get(parse.name).filter(|named| *named.statement.sql == *parse.query);
        if let Some(named) = named {
            named.statement.learn(generation, scope, plan);
        }
    }

    /// Whether a Query is sent as a point statement. Not a read: the server would not tell what it
    /// reads under another result than the one it was prepared with, and the transaction fails by
    /// that. Nor where its names and its strings may mean something else than they do to others, or
    /// its like has just failed in a batch: an error's position would count in what Weir has made.
    fn is_point(&self, relay: &Relay, server: &Connection, plan: &Plan, sql: &[u8]) -> bool {
        matches!(plan.kind, Kind::Write)
            && !relay.within
            && !server.script.takes_data()
            && !relay.swayed
            && server.status != Status::Failed
            && !plan.is_to_go_alone(Instant::now())
            && self.lifts(plan, sql)
    }

    /// Puts a whole message onto the server connection.
    fn compose(
        &mut self,
        relay: &mut Relay,
        server: &mut Connection,
        message: Frame<'_>,
        is_point: bool,
    ) {
        if let Some(round) = relay.rounds.back_mut().filter(|_| is_point) {
            round.point = Some(message.body.strip_suffix(&[0]).unwrap_or(message.body).into());
        }
        let composed = self.composer(relay, server, |composer, out, script| {
            if !is_point {
                return composer.message(message, out, script);
            }
            let lifted = &self.front.draft.borrow().lifted;
            composer.point(lifted, false, Fate::Restore, out, script);
            composer.sync(out, script);
            self.front.shared.metrics.points.inc();
            Ok(())
        });
        if composed.is_err() {
            // As a server says it, which goes on behind the next Sync.
            self.refuse_to_run(relay, server, Why::Malformed, false);
            return;
        }
        if message.tag == b'E' && relay.bound_forgets {
            relay.forgets = true;
            // What follows waits for its answer.
            put_flush(&mut server.out);
        }
    }

    /// Has messages written for the server connection.
    pub(super) fn composer<T>(
        &self,
        relay: &mut Relay,
        server: &mut Connection,
        write: impl FnOnce(&mut Composer<'_>, &mut Vec<u8>, &mut Script) -> T,
    ) -> T {
        let may_have_failed = relay.may_have_failed();
        let mut composer = Composer {
            names: &mut self.client.names(),
            statements: &self.front.statements,
            prepared: &mut server.prepared,
            fresh: &mut relay.fresh,
            changes: self.database.changes(),
            has_failed: server.status == Status::Failed,
            may_have_failed,
            found: Found::default(),
        };
        let written = write(&mut composer, &mut server.out, &mut server.script);
        self.database.count_found(&composer.found);
        written
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
        // What the server would leave out goes nowhere.
        relay.drops = server.script.is_skipping();
        if tag != b'd' && !relay.drops {
            self.note_unknown(relay, server);
            self.hide_prepared(relay, server);
            if tag == b'Q' {
                self.client.names().query();
            }
            server.script.expect(Expect::Query(Fate::Pass));
        }
        if !relay.drops {
            server.out.extend_from_slice(bytes);
        }
        relay.through = len - bytes.len();
        bytes.len()
    }
}

/// Whether a message of this kind may go out now, a COPY being under way or not.
fn goes_beside_copy(relay: &mut Relay, server: &mut Connection, tag: u8) -> Result<bool, End> {
    let admission = server.script.admits(tag);
    let was_flushed = std::mem::replace(&mut relay.copy_flushed, admission == Admission::Later);
    match admission {
        Admission::Now => Ok(true),
        Admission::Later => {
            // Without a Sync behind the data the server keeps its answer to an Execute.
            if !was_flushed {
                put_flush(&mut server.out);
            }
            relay.waits = true;
            Ok(false)
        }
        Admission::Never => Err(End::Refused(amid_copy())),
    }
}

/// The client says goodbye; how many bytes of what it sent are dealt with by that.
fn farewell(relay: &mut Relay, server: &mut Connection, bytes: &[u8]) -> Result<usize, End> {
    if relay.within || server.script.takes_data() {
        // The server waits for more of the round as well: what came before the goodbye is done or
        // undone there, as it would be without Weir.
        put_terminate(&mut server.out);
        server.broken = true;
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
