//! What a message has to pass before it goes out: it may have to wait, be answered here, or be
//! refused.

use std::rc::Rc;

use wire::postgres::backend::{Status, put_command_complete, put_ready_for_query};
use wire::postgres::frame::Frame;
use wire::postgres::frontend::{put_flush, tag};

use super::Relay;
use crate::connection::Connection;
use crate::pipeline::compose::Holds;
use crate::pipeline::lease::drawn::LastValues;
use crate::pipeline::names::name_in;
use crate::pipeline::script::{Expect, Why};
use crate::plan::{Deallocate, Kind, Plan};
use crate::session::Session;
use crate::session::listen::Diverted;

/// What becomes of a message.
pub(super) enum Gate {
    /// It goes on.
    Open,
    /// It waits for what the server says.
    Waits,
    /// It was dealt with.
    Done,
}

impl Session {
    /// What becomes of a message by what is under way, and by the names in it.
    pub(super) fn passes(
        &mut self,
        relay: &mut Relay,
        server: &mut Connection,
        message: Frame<'_>,
    ) -> Gate {
        if server.script.takes_data() && matches!(message.tag, tag::SYNC | tag::FLUSH) {
            // No round begins or ends by it: the server ignores it while it waits for data.
            server.out.extend_from_slice(message.whole);
            if message.tag == tag::SYNC {
                server.script.expect(Expect::Sync);
            }
            return Gate::Done;
        }
        if server.script.is_skipping() && message.tag != tag::SYNC {
            // The server would ignore it, and so does what Weir knows.
            return Gate::Done;
        }
        if self.has_to_wait(relay, server, message) {
            return Gate::Waits;
        }
        match self.divert(relay, server.status, message) {
            Diverted::No => self.is_as_prepared(relay, server, message),
            Diverted::Waits => Gate::Waits,
            Diverted::Refused(why) => {
                self.refuse_to_run(relay, server, why, false);
                Gate::Done
            }
            Diverted::Done(said) => {
                server.script.expect(said);
                Gate::Done
            }
        }
    }

    /// A statement that the client has prepared before the catalogue changed is run if it is still
    /// what it was; where nobody knows, the server is asked.
    fn is_as_prepared(
        &mut self,
        relay: &mut Relay,
        server: &mut Connection,
        message: Frame<'_>,
    ) -> Gate {
        let uses = matches!(message.tag, tag::BIND | tag::DESCRIBE);
        let Some(name) = name_in(message).filter(|_| uses) else { return Gate::Open };
        match self.composer(relay, server, |composer, _, _| composer.holds(name)) {
            Holds::Yes => Gate::Open,
            Holds::No => {
                self.refuse_to_run(relay, server, Why::Changed, false);
                Gate::Done
            }
            holds => {
                relay.lease.round();
                self.composer(relay, server, |composer, out, script| match holds {
                    Holds::Unheard => put_flush(out),
                    _ => composer.ask_shape(name, out, script),
                });
                Gate::Waits
            }
        }
    }

    /// What becomes of a Query, which has this plan, or of a Bind by what the statement does.
    pub(super) fn may_run(
        &mut self,
        relay: &mut Relay,
        server: &mut Connection,
        message: Frame<'_>,
        plan: Option<&Rc<Plan>>,
    ) -> Gate {
        if let Some(plan) = plan {
            match self.deallocates(relay, plan, server) {
                Gate::Open => {}
                gate => return gate,
            }
        }
        let run = match message.tag {
            tag::BIND => self.bound(message.body).map(|(plan, _)| plan),
            _ => plan.cloned(),
        };
        if server.script.takes_data() {
            return Gate::Open;
        }
        let Some(run) = run else {
            // What a client has prepared by a statement, and a function by its number.
            if matches!(message.tag, tag::BIND | tag::FUNCTION_CALL) {
                self.hide_prepared(relay, server);
            }
            return Gate::Open;
        };
        let is_query = message.tag == tag::QUERY;
        match self.last_values(relay, &run, server.status) {
            LastValues::Own => {}
            LastValues::Forgotten => self.forget_drawn(relay, server, is_query),
            LastValues::Later => return Gate::Waits,
            LastValues::Refused => {
                self.refuse_to_run(relay, server, Why::NotDrawn, is_query);
                return Gate::Done;
            }
        }
        if run.effects.reaches_prepared {
            self.hide_prepared(relay, server);
        }
        Gate::Open
    }

    /// Has nothing prepared on the server that is not the client's by a statement of its own, in
    /// front of what may look at it, run it or take it away.
    pub(super) fn hide_prepared(&self, relay: &mut Relay, server: &mut Connection) {
        self.composer(relay, server, |composer, out, script| composer.close_all(out, script));
    }

    /// Has a statement refused that its client may not run.
    pub(super) fn refuse_to_run(
        &mut self,
        relay: &mut Relay,
        server: &mut Connection,
        why: Why,
        is_query: bool,
    ) {
        relay.lease.round();
        self.composer(relay, server, |composer, out, script| {
            composer.refuse_to_run(why, out, script);
            if is_query {
                composer.names.query();
                composer.names.next_round();
                composer.sync(out, script);
            }
        });
        if is_query {
            self.asked(relay, server);
        }
    }

    /// Whether a message is about a name that may stand for something else by the time the server
    /// sees it.
    fn has_to_wait(&self, relay: &mut Relay, server: &Connection, message: Frame<'_>) -> bool {
        relay.lease.forgets &= !server.script.is_idle();
        if relay.lease.forgets {
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

    /// `DEALLOCATE` of a statement that has another name on the server is answered here, once it
    /// is known whether a transaction has failed.
    fn deallocates(&self, relay: &mut Relay, plan: &Plan, server: &Connection) -> Gate {
        let Kind::Deallocate(Deallocate::Name(name)) = &plan.kind else {
            return Gate::Open;
        };
        if relay.lease.rounds.is_within() || server.script.takes_data() {
            return Gate::Open;
        }
        if !server.script.is_idle() {
            return Gate::Waits;
        }
        let mut names = self.client.names();
        if server.status == Status::Failed || names.get(name.as_bytes()).is_none() {
            return Gate::Open;
        }
        names.set(name.as_bytes(), None);
        names.query();
        relay.lease.begun = true;
        let mut out = Vec::new();
        put_command_complete(&mut out, "DEALLOCATE");
        put_ready_for_query(&mut out, server.status);
        self.client.outlet.send(&out);
        Gate::Done
    }
}
