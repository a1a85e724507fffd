//! What a client sends, onto its server connection.

use std::rc::Rc;
use std::time::Instant;

use flow::workers::PARSE;
use wire::postgres::frame::Frame;
use wire::postgres::frontend::tag;

use super::Relay;
use super::hear::amid_copy;
use super::state::RoundInFront;
use crate::catalogue::Unsettled;
use crate::client::AHEAD_MAX;
use crate::connection::{Connection, LeasedState, ServerOutput};
use crate::notify::Listener;
use crate::pipeline::compose::StatementUse;
use crate::pipeline::lease::endpoints::{
    BindLookup, Endpoints, MessageLookup, QueryLookup, bound_statement,
};
use crate::pipeline::lease::feed::{InputEnd, Next};
use crate::pipeline::lease::machine::Lease;
use crate::pipeline::lease::note::{Departure, SessionFacts};
use crate::pipeline::lease::pause::Pause;
use crate::pipeline::round::{OutgoingRound, Round};
use crate::pipeline::spans::spans;
use crate::pipeline::study::Study;
use crate::session::inbox::INBOX_KEPT;
use crate::session::listen::{ChannelJoin, end_diverted};
use crate::session::{End, Session};

/// What messages change as they go out, beside what is written.
struct DepartingSession<'a> {
    session: &'a Session,
    server: LeasedState<'a>,
    listener: &'a mut Option<Box<Listener>>,
    unsettled: &'a mut Option<Unsettled>,
    joins: &'a mut Option<Box<str>>,
}

impl DepartingSession<'_> {
    /// Does what a message has to have done before it goes out.
    fn carry_out(&mut self, departure: Departure) {
        let Self { session, server, listener, unsettled, joins } = self;
        match departure {
            Departure::Leaves(leaves) => *server.leaves = (*server.leaves).max(leaves),
            Departure::UsesLocalBuffers => *server.has_local_buffers = true,
            Departure::Draws => *server.drew = true,
            // The lease has done so itself.
            Departure::NextEpoch => {}
            Departure::Unproven(reason) => session.front.shared.metrics.unproven(reason),
            Departure::Unsettles(how) => session.database.catalogue_changed(how),
            Departure::HoldsFacts => {
                unsettled.get_or_insert_with(|| session.database.unsettle());
            }
            Departure::RoundEnds(now) => {
                server.record.asked(now);
                let seen = session.client.seen();
                seen.asked.set(Some(now));
                seen.in_transaction.set(None);
            }
            Departure::ForgetsDrawn => {
                server.asks();
                *server.drew = false;
            }
            Departure::RunsPoint => session.front.shared.metrics.points.inc(),
            Departure::Tells(said) => session.client.outlet.send(&said),
            Departure::Joins(channel) => **joins = Some(channel),
            Departure::UndoesListen(change) => end_diverted(listener, &[change], false),
            Departure::GivesUp => *server.broken = true,
        }
    }
}

impl Session {
    /// Puts what the client has sent onto the server connection, as far as it may go now.
    pub(super) fn feed(&mut self, relay: &mut Relay, server: &mut Connection) -> Result<(), End> {
        let front = Rc::clone(&self.front);
        let sending = relay.in_front.outgoing().map_or(0, |sending| sending.rest().len());
        let _stage = front.worker.pulse.enter_sized(&PARSE, sending + self.inbox.len());
        loop {
            self.feed_once(relay, server)?;
            let Some(channel) = relay.joins.take() else { return Ok(()) };
            match self.join(&channel) {
                ChannelJoin::Ended { confirmed, joined } => relay.lease.joined(confirmed, joined),
                ChannelJoin::Waits(confirming) => {
                    relay.confirming = Some(confirming);
                    return Ok(());
                }
            }
        }
    }

    fn feed_once(&mut self, relay: &mut Relay, server: &mut Connection) -> Result<(), End> {
        if relay.in_front.is_handed_over() {
            relay.lease.pause = Pause::Nothing;
            return Ok(());
        }
        while let Some(mut sending) =
            relay.in_front.take_outgoing().or_else(|| self.due(relay, server))
        {
            let (round, rest) = (Some(&sending.round), sending.rest());
            let (len, fed) = self.put_out(relay, server, round, rest);
            sending.sent += len;
            if !sending.rest().is_empty() {
                relay.in_front = RoundInFront::GoesOut(sending);
                return fed;
            }
            fed?;
        }
        let inbox = std::mem::take(&mut self.inbox);
        let max = match &relay.commit {
            Some(commit) => commit.unsent,
            None => self.share_commit(relay, server, &inbox).unwrap_or(inbox.len()),
        };
        let (len, fed) = self.put_out(relay, server, None, &inbox[..max]);
        if let Some(commit) = &mut relay.commit {
            commit.unsent -= len;
        }
        self.inbox = inbox;
        self.inbox.drain(..len);
        self.inbox.shrink_to(INBOX_KEPT);
        self.release_held();
        fed
    }

    /// What comes next of the rounds that stand in front of the inbox, once the server is to have
    /// it.
    fn due(&mut self, relay: &Relay, server: &Connection) -> Option<OutgoingRound> {
        if relay.commit.is_some() || !relay.takes_more(server) {
            return None;
        }
        self.ahead.next().and_then(OutgoingRound::new)
    }

    /// Puts messages onto the server connection, as far as they may go now, which are of this round
    /// where it was cut; how many bytes of them are dealt with.
    fn put_out(
        &mut self,
        relay: &mut Relay,
        server: &mut Connection,
        round: Option<&Round>,
        messages: &[u8],
    ) -> (usize, Result<(), End>) {
        let Relay { lease, unsettled, study, joins, fed_at, .. } = relay;
        if !messages.is_empty() {
            *fed_at = Instant::now();
        }
        let mut listener = self.listener.take();
        let session = &*self;
        let (output, server) = server.output();
        let listening = &mut listener;
        let mut departing =
            DepartingSession { session, server, listener: listening, unsettled, joins };
        let mut names = session.client.names();
        let ServerOutput { script, out, sent, prepared, status } = output;
        let mut ends = Endpoints {
            session: SessionFacts {
                now: *fed_at,
                settings: &session.environment.settings,
                reported: &session.environment.told.begun,
            },
            names: &mut names,
            statements: &session.front.statements,
            changes: session.database.changes(),
            message_max: session.front.settings().max_message.len(),
            script,
            out,
            sent,
            unsent_max: AHEAD_MAX,
            prepared,
            status,
            found: StatementUse::default(),
            departures: &mut |departure| departing.carry_out(departure),
        };
        let put = session.put_messages(lease, study, round, messages, &mut ends);
        session.database.count_found(&ends.found);
        drop(names);
        self.listener = listener;
        put
    }

    fn put_messages(
        &self,
        lease: &mut Lease,
        study: &mut Study,
        round: Option<&Round>,
        messages: &[u8],
        ends: &mut Endpoints<'_>,
    ) -> (usize, Result<(), End>) {
        let mut at = 0;
        loop {
            let message = match lease.next(&messages[at..], ends) {
                Ok(Next::Message(message)) => message,
                Ok(Next::Goes(len)) => {
                    at += len;
                    *study = Study::Nothing;
                    continue;
                }
                Ok(Next::Pauses) => return (at, Ok(())),
                Err(end) => return (at, Err(why(end))),
            };
            if study.of(message).is_err() {
                lease.pause = Pause::Nothing;
                return (at, Ok(()));
            }
            let (mut lookup, is_point) = self.look_up(message, lease, study, round, ends);
            let draft = self.front.draft.borrow();
            if let MessageLookup::Query(query) = &mut lookup {
                query.point = is_point.then_some(&draft.lifted);
            }
            if !lease.take(message, lookup, ends) {
                return (at, Ok(()));
            }
            at += message.whole.len();
            *study = Study::Nothing;
        }
    }

    /// What is known of a whole message that is studied; whether it is a point statement, whose
    /// values were lifted into the draft.
    fn look_up<'d>(
        &self,
        message: Frame<'_>,
        lease: &Lease,
        study: &Study,
        round: Option<&Round>,
        ends: &Endpoints<'_>,
    ) -> (MessageLookup<'d>, bool) {
        let scope = self.environment.scope;
        // Of the only text in the round that goes out.
        let known = || round?.text_plan(&*self.database, scope);
        let lookup = match message.tag {
            tag::PARSE => MessageLookup::Parse(known()),
            tag::BIND => MessageLookup::Bind(bound_statement(message, ends.names).map(|of| {
                let plan = self.database.plan_of(&of, scope);
                BindLookup { listening: self.listening(&plan), statement: of, plan }
            })),
            tag::QUERY => {
                let sql = text(message);
                let plan = match study {
                    Study::Done(known) => self.plan_of(known),
                    _ => known().map_or_else(|| self.plan(sql), |known| known.plan),
                };
                let spans = || match study {
                    Study::Done(known) => known.spans.clone(),
                    _ => spans(sql, scope.strings),
                };
                let parts = self.parts(&plan, sql, spans);
                // An error's position would count in what Weir has made, as of its like in a batch.
                let is_point = lease.takes_point(&plan, ends)
                    && !plan.is_to_go_alone(ends.session.now)
                    && self.lifts(&plan, sql);
                return (MessageLookup::Query(QueryLookup { plan, parts, point: None }), is_point);
            }
            _ => MessageLookup::Nothing,
        };
        (lookup, false)
    }
}

/// Why a client that sends no more is closed.
fn why(end: InputEnd) -> End {
    match end {
        InputEnd::Goodbye => End::Terminated,
        InputEnd::TooLong { tag, len } => End::too_large(tag, len),
        InputEnd::Unknown(tag) => End::unknown_message(tag),
        InputEnd::AmidCopy => End::Refused(amid_copy()),
    }
}

/// The text of a Query.
fn text(query: Frame<'_>) -> &[u8] {
    query.body.strip_suffix(&[0]).unwrap_or(query.body)
}
