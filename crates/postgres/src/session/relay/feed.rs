//! What a client sends, onto its server connection.

use std::ops::DerefMut;
use std::rc::Rc;
use std::time::Instant;

use flow::workers::PARSE;
use wire::postgres::backend::Status;
use wire::postgres::frame::{self, Frame};

use super::Relay;
use super::hear::amid_copy;
use crate::catalogue::Unsettled;
use crate::client::AHEAD_MAX;
use crate::connection::Connection;
use crate::pipeline::compose::{Composer, Found};
use crate::pipeline::lease::feed::InputEnd;
use crate::pipeline::lease::gate::FORGET_DRAWN;
use crate::pipeline::lease::listening::{DivertedChange, ListenChange};
use crate::pipeline::lease::note::{Departing, Departure};
use crate::pipeline::lease::sending::{Composing, Joining, Sending};
use crate::pipeline::names::Names;
use crate::pipeline::round::{Cut, cut};
use crate::pipeline::script::{Fate, Script};
use crate::pipeline::settings::{Reported, SessionSettings};
use crate::pipeline::statements::Statement;
use crate::plan::{Kind, Plan};
use crate::session::listen::Confirming;
use crate::session::parts::spans;
use crate::session::study::Study;
use crate::session::summary::{Summary, summarise};
use crate::session::{End, Session};
use crate::settings::Mode;

/// A session whose messages go out on its server connection.
struct SendingSession<'a> {
    session: &'a mut Session,
    server: &'a mut Connection,
    unsettled: &'a mut Option<Unsettled>,
    study: &'a mut Study,
    confirming: &'a mut Confirming,
}

impl Departing for SendingSession<'_> {
    fn settings(&self) -> &SessionSettings {
        &self.session.settings
    }

    fn reported(&self) -> &Reported {
        &self.session.told.begun
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
        self.session.mode == Mode::Session
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
            _ => self.session.plan(text(query)),
        }
    }

    fn parts(&self, plan: &Plan, query: Frame<'_>) -> Option<Vec<Rc<Plan>>> {
        let spans = || match &*self.study {
            Study::Done(known) => known.spans.clone(),
            _ => spans(text(query), self.session.scope.strings),
        };
        self.session.parts(plan, text(query), spans)
    }

    fn plan_of(&self, statement: &Statement) -> Rc<Plan> {
        self.session.database.plan_of(statement, self.session.scope)
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

impl Session {
    /// Puts what the client has sent onto the server connection, as far as it may go now.
    pub(super) fn feed(&mut self, relay: &mut Relay, server: &mut Connection) -> Result<(), End> {
        let front = Rc::clone(&self.front);
        let _stage = front.worker.pulse.enter_sized(&PARSE, self.inbox.len());
        let inbox = std::mem::take(&mut self.inbox);
        let Relay { lease, unsettled, study, confirming, .. } = relay;
        let session =
            &mut SendingSession { session: &mut *self, server, unsettled, study, confirming };
        let (len, fed) = lease.feed(&inbox, session);
        self.inbox = inbox;
        self.inbox.drain(..len);
        self.inbox.shrink_to(0);
        self.release_held();
        fed.map_err(|end| match end {
            InputEnd::Goodbye => End::Terminated,
            InputEnd::TooLong { tag, len } => End::too_large(tag, len),
            InputEnd::Unknown(tag) => End::unknown_message(tag),
            InputEnd::AmidCopy => End::Refused(amid_copy()),
        })
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
}

/// The text of a Query.
fn text(query: Frame<'_>) -> &[u8] {
    query.body.strip_suffix(&[0]).unwrap_or(query.body)
}
