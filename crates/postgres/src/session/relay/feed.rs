//! What a client sends, onto its server connection.

use std::ops::DerefMut;
use std::rc::Rc;
use std::time::Instant;

use flow::workers::PARSE;
use wire::postgres::backend::Status;
use wire::postgres::frame::Frame;
use wire::postgres::frontend::Parse;

use super::Relay;
use super::hear::amid_copy;
use crate::catalogue::Unsettled;
use crate::client::AHEAD_MAX;
use crate::connection::Connection;
use crate::pipeline::compose::{Composer, Found};
use crate::pipeline::judgement::TextPlan;
use crate::pipeline::lease::feed::InputEnd;
use crate::pipeline::lease::gate::FORGET_DRAWN;
use crate::pipeline::lease::listening::{DivertedChange, ListenChange};
use crate::pipeline::lease::note::{Departing, Departure};
use crate::pipeline::lease::pause::Pause;
use crate::pipeline::lease::sending::{Composing, Joining, Sending};
use crate::pipeline::names::Names;
use crate::pipeline::round::{OutgoingRound, Round};
use crate::pipeline::script::{Fate, Script};
use crate::pipeline::settings::{Reported, SessionSettings};
use crate::pipeline::spans::spans;
use crate::pipeline::statements::Statement;
use crate::pipeline::study::Study;
use crate::plan::Plan;
use crate::session::inbox::INBOX_KEPT;
use crate::session::listen::Confirming;
use crate::session::{End, Session};
use crate::settings::Mode;

/// A session whose messages go out on its server connection.
struct SendingSession<'a> {
    session: &'a mut Session,
    server: &'a mut Connection,
    unsettled: &'a mut Option<Unsettled>,
    study: &'a mut Study,
    confirming: &'a mut Confirming,
    /// The round that the messages are of, where it was cut.
    round: Option<&'a Round>,
}

impl Departing for SendingSession<'_> {
    fn settings(&self) -> &SessionSettings {
        &self.session.environment.settings
    }

    fn reported(&self) -> &Reported {
        &self.session.environment.told.begun
    }

    fn now(&self) -> Instant {
        Instant::now()
    }

    fn carry_out(&mut self, departure: Departure) {
        let Self { session, server, unsettled, .. } = self;
        match departure {
            Departure::Pins => session.pinned = true,
            Departure::Leaves(leaves) => server.leaves = server.leaves.max(leaves),
            Departure::UsesLocalBuffers => server.has_local_buffers = true,
            Departure::Draws => server.drew = true,
            Departure::NextEpoch => server.prepared.next_epoch(),
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
                server.ask(FORGET_DRAWN);
                server.drew = false;
            }
            Departure::GivesUp => server.broken = true,
        }
    }
}

impl Sending for SendingSession<'_> {
    fn message_max(&self) -> usize {
        self.session.front.settings().max_message.len()
    }

    fn is_pinned(&self) -> bool {
        self.session.pinned
    }

    fn is_pinned_by_mode(&self) -> bool {
        self.session.options.mode == Mode::Session
    }

    fn is_studied(&mut self, message: Frame<'_>) -> bool {
        self.study.of(message).is_ok()
    }

    fn forget_study(&mut self) {
        *self.study = Study::Nothing;
    }

    fn plan(&self, query: Frame<'_>) -> Rc<Plan> {
        match &*self.study {
            Study::Done(known) => self.session.plan_of(known),
            _ => match self.text_plan() {
                Some(known) => known.plan,
                None => self.session.plan(text(query)),
            },
        }
    }

    fn parts(&self, plan: &Plan, query: Frame<'_>) -> Option<Vec<Rc<Plan>>> {
        let spans = || match &*self.study {
            Study::Done(known) => known.spans.clone(),
            _ => spans(text(query), self.session.environment.scope.strings),
        };
        self.session.parts(plan, text(query), spans)
    }

    fn plan_of(&self, statement: &Statement) -> Rc<Plan> {
        self.session.database.plan_of(statement, self.session.environment.scope)
    }

    fn lifts(&self, plan: &Plan, query: Frame<'_>) -> bool {
        // An error's position would count in what Weir has made, as of its like in a batch.
        !plan.is_to_go_alone(Instant::now()) && self.session.lifts(plan, text(query))
    }

    fn listening(&mut self, plan: &Plan) -> Option<ListenChange> {
        self.session.listening(plan)
    }

    fn join(&mut self, channel: &str) -> Joining {
        self.session.join_beside(self.confirming, channel)
    }

    fn is_joining(&self) -> bool {
        matches!(self.confirming, Confirming::Waits { .. })
    }

    fn undo_listen(&mut self, change: DivertedChange) {
        self.session.divert_ended(&[change], false);
    }

    fn names(&self) -> impl DerefMut<Target = Names> + '_ {
        self.session.client.names()
    }

    fn tell(&self, said: &[u8]) {
        self.session.client.outlet.send(said);
    }

    fn status(&self) -> Status {
        self.server.status
    }

    fn is_full(&self) -> bool {
        self.server.unsent() > AHEAD_MAX
    }

    fn has_unsent(&self) -> bool {
        self.server.unsent() > 0
    }

    fn script(&mut self) -> &mut Script {
        &mut self.server.script
    }

    fn out(&mut self) -> &mut Vec<u8> {
        &mut self.server.out
    }

    fn compose<T>(
        &mut self,
        with: Composing<'_>,
        write: impl FnOnce(&mut Composer<'_>, &mut Vec<u8>, &mut Script) -> T,
    ) -> T {
        self.session.composer(with, self.server, write)
    }

    fn learn(&mut self, parse: Frame<'_>) {
        let Some(TextPlan { generation, scope, plan }) = self.text_plan() else { return };
        let Ok(parse) = Parse::read(parse.body) else { return };
        let names = self.session.client.names();
        let named = names.get(parse.name).filter(|named| *named.statement.sql == *parse.query);
        if let Some(named) = named {
            named.statement.learn(generation, scope, plan);
        }
    }

    fn compose_point(&mut self, with: Composing<'_>) {
        let session = &*self.session;
        session.composer(with, self.server, |composer, out, script| {
            let lifted = &session.front.draft.borrow().lifted;
            composer.point(lifted, false, Fate::Restore, out, script);
            composer.sync(out, script);
        });
        session.front.shared.metrics.points.inc();
    }
}

impl SendingSession<'_> {
    /// What is known of the only text in the round that goes out.
    fn text_plan(&self) -> Option<TextPlan> {
        self.round?.text_plan(&*self.session.database, self.session.environment.scope)
    }
}

impl Session {
    /// Puts what the client has sent onto the server connection, as far as it may go now.
    pub(super) fn feed(&mut self, relay: &mut Relay, server: &mut Connection) -> Result<(), End> {
        let front = Rc::clone(&self.front);
        let sending = relay.sending.as_ref().map_or(0, |sending| sending.rest().len());
        let _stage = front.worker.pulse.enter_sized(&PARSE, sending + self.inbox.len());
        if relay.elsewhere.is_some() {
            relay.lease.pause = Pause::Nothing;
            return Ok(());
        }
        while let Some(mut sending) = relay.sending.take().or_else(|| self.due(relay, server)) {
            let (round, rest) = (Some(&sending.round), sending.rest());
            let (len, fed) = self.put_out(relay, server, round, rest);
            sending.sent += len;
            if !sending.rest().is_empty() {
                relay.sending = Some(sending);
                return fed;
            }
            fed?;
        }
        let inbox = std::mem::take(&mut self.inbox);
        let (len, fed) = self.put_out(relay, server, None, &inbox);
        self.inbox = inbox;
        self.inbox.drain(..len);
        self.inbox.shrink_to(INBOX_KEPT);
        self.release_held();
        fed
    }

    /// What comes next of the rounds that stand in front of the inbox, once the server is to have
    /// it.
    fn due(&mut self, relay: &Relay, server: &Connection) -> Option<OutgoingRound> {
        if !relay.takes_more(self.pinned, server) {
            return None;
        }
        let repeat = self.repeats.pop_front().map(|repeat| repeat.round);
        repeat.or_else(|| self.next.take().map(|round| *round)).and_then(OutgoingRound::new)
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
        let Relay { lease, unsettled, study, confirming, .. } = relay;
        let session =
            &mut SendingSession { session: self, server, unsettled, study, confirming, round };
        let (len, fed) = lease.feed(messages, session);
        let fed = fed.map_err(|end| match end {
            InputEnd::Goodbye => End::Terminated,
            InputEnd::TooLong { tag, len } => End::too_large(tag, len),
            InputEnd::Unknown(tag) => End::unknown_message(tag),
            InputEnd::AmidCopy => End::Refused(amid_copy()),
        });
        (len, fed)
    }

    /// Has messages written for the server connection.
    pub(super) fn composer<T>(
        &self,
        with: Composing<'_>,
        server: &mut Connection,
        write: impl FnOnce(&mut Composer<'_>, &mut Vec<u8>, &mut Script) -> T,
    ) -> T {
        let mut composer = Composer {
            names: &mut self.client.names(),
            statements: &self.front.statements,
            prepared: &mut server.prepared,
            fresh: with.fresh,
            changes: self.database.changes(),
            has_failed: server.status == Status::Failed,
            may_have_failed: with.may_have_failed,
            found: Found::default(),
        };
        let written = write(&mut composer, &mut server.out, &mut server.script);
        self.database.count_found(&composer.found);
        written
    }
}

/// The text of a Query.
fn text(query: Frame<'_>) -> &[u8] {
    query.body.strip_suffix(&[0]).unwrap_or(query.body)
}
