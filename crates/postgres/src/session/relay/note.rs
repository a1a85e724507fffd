//! What is done of a message before it goes out, in front of its bytes.

use std::rc::Rc;
use std::time::Instant;

use wire::postgres::frame::Frame;
use wire::postgres::frontend::{Bind, tag};

use super::Relay;
use crate::catalogue::Unsettled;
use crate::connection::Connection;
use crate::pipeline::lease::note::{BoundStatement, Departing, Departure};
use crate::pipeline::settings::{Reported, SessionSettings};
use crate::pipeline::spans::spans;
use crate::pipeline::statements::Statement;
use crate::pipeline::study::LongText;
use crate::plan::Plan;
use crate::session::Session;

/// A session whose message goes out on its server connection.
struct SendingSession<'a> {
    session: &'a mut Session,
    server: &'a mut Connection,
    unsettled: &'a mut Option<Unsettled>,
}

impl Departing for SendingSession<'_> {
    fn settings(&self) -> &SessionSettings {
        &self.session.environment.settings
    }

    fn reported(&self) -> &Reported {
        &self.session.environment.told.begun
    }

    fn carry_out(&mut self, departure: Departure) {
        let Self { session, server, unsettled } = self;
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
        }
    }
}

impl Session {
    /// Takes note of what a Query will change.
    pub(super) fn note_query(
        &mut self,
        relay: &mut Relay,
        server: &mut Connection,
        plan: &Rc<Plan>,
        sql: &[u8],
        known: Option<&LongText>,
    ) {
        let spans = || match known {
            Some(known) => known.spans.clone(),
            None => spans(sql, self.environment.scope.strings),
        };
        let parts = self.parts(plan, sql, spans);
        let Relay { lease, unsettled, .. } = relay;
        let session = &mut SendingSession { session: self, server, unsettled };
        lease.note_query(plan, sql, parts, Instant::now(), session);
    }

    /// Takes note of what another message will change.
    pub(super) fn note(&mut self, relay: &mut Relay, server: &mut Connection, message: Frame<'_>) {
        let bound = match message.tag {
            tag::BIND => self.bound(message.body),
            _ => None,
        };
        let bound = bound.as_ref().map(|(plan, of)| BoundStatement { plan, sql: &of.sql });
        let Relay { lease, unsettled, .. } = relay;
        let session = &mut SendingSession { session: self, server, unsettled };
        lease.note(message, bound, Instant::now, session);
    }

    /// A round that is not looked into: it may do anything.
    pub(super) fn note_unknown(&mut self, relay: &mut Relay, server: &mut Connection) {
        let Relay { lease, unsettled, .. } = relay;
        let session = &mut SendingSession { session: self, server, unsettled };
        lease.note_unknown(Instant::now(), session);
    }

    /// The round is whole: the server has it from now on.
    pub(super) fn asked(&mut self, relay: &mut Relay, server: &mut Connection) {
        let Relay { lease, unsettled, .. } = relay;
        let session = &mut SendingSession { session: self, server, unsettled };
        lease.end_round(Instant::now(), session);
    }

    /// The statement that a Bind names, and its plan.
    pub(in crate::session) fn bound(&self, body: &[u8]) -> Option<(Rc<Plan>, Rc<Statement>)> {
        let bind = Bind::read(body).ok()?;
        let names = self.client.names();
        let named = names.get(bind.statement)?;
        Some((
            self.database.plan_of(&named.statement, self.environment.scope),
            named.statement.clone(),
        ))
    }
}
