//! What a message has to pass before it goes out: it may have to wait, be answered here, or be
//! refused.

use std::rc::Rc;

use wire::postgres::backend::{Status, put_command_complete, put_ready_for_query};
use wire::postgres::frame::Frame;
use wire::postgres::frontend::{Bind, put_flush, tag};

use super::divert::Diverted;
use super::drawn::LastValues;
use super::machine::Lease;
use super::note::Departure;
use super::sending::Sending;
use crate::pipeline::compose::Holds;
use crate::pipeline::names::name_in;
use crate::pipeline::script::{Expect, Why};
use crate::pipeline::statements::Statement;
use crate::plan::{Deallocate, Kind, Plan};

/// What makes unknown what others have drawn from sequences.
pub const FORGET_DRAWN: &str = "DISCARD SEQUENCES";

/// What becomes of a message.
pub enum Gate {
    /// The message goes on.
    Open,
    /// It waits for what the server says.
    Waits,
    /// It was dealt with.
    Done,
}

impl Lease {
    /// What becomes of a message by what is under way, and by the names in it.
    pub(super) fn passes(&mut self, message: Frame<'_>, session: &mut impl Sending) -> Gate {
        if session.script().takes_data() && matches!(message.tag, tag::SYNC | tag::FLUSH) {
            // No round begins or ends by it: the server ignores it while it waits for data.
            session.out().extend_from_slice(message.whole);
            if message.tag == tag::SYNC {
                session.script().expect(Expect::Sync);
            }
            return Gate::Done;
        }
        if session.script().is_skipping() && message.tag != tag::SYNC {
            // The server would ignore it, and so does what Weir knows.
            return Gate::Done;
        }
        if self.has_to_wait(message, session) {
            return Gate::Waits;
        }
        match self.divert(message, session) {
            Diverted::No => self.is_as_prepared(message, session),
            Diverted::Waits => Gate::Waits,
            Diverted::Refused(why) => {
                self.refuse_to_run(why, false, session);
                Gate::Done
            }
            Diverted::Done(said) => {
                session.script().expect(said);
                Gate::Done
            }
        }
    }

    /// A statement that the client has prepared before the catalogue changed is run if it is still
    /// what it was; where nobody knows, the server is asked.
    fn is_as_prepared(&mut self, message: Frame<'_>, session: &mut impl Sending) -> Gate {
        let uses = matches!(message.tag, tag::BIND | tag::DESCRIBE);
        let Some(name) = name_in(message).filter(|_| uses) else { return Gate::Open };
        match self.compose(session, |composer, _, _| composer.holds(name)) {
            Holds::Yes => Gate::Open,
            Holds::No => {
                self.refuse_to_run(Why::Changed, false, session);
                Gate::Done
            }
            holds => {
                self.round();
                self.compose(session, |composer, out, script| match holds {
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
        message: Frame<'_>,
        plan: Option<&Rc<Plan>>,
        session: &mut impl Sending,
    ) -> Gate {
        if let Some(plan) = plan {
            match self.deallocates(plan, session) {
                Gate::Open => {}
                gate => return gate,
            }
        }
        let run = match message.tag {
            tag::BIND => self.bound(message.body, session).map(|(plan, _)| plan),
            _ => plan.cloned(),
        };
        if session.script().takes_data() {
            return Gate::Open;
        }
        let Some(run) = run else {
            // What a client has prepared by a statement, and a function by its number.
            if matches!(message.tag, tag::BIND | tag::FUNCTION_CALL) {
                self.hide_prepared(session);
            }
            return Gate::Open;
        };
        let is_query = message.tag == tag::QUERY;
        match self.last_values(&run, session) {
            LastValues::Own => {}
            LastValues::Forgotten => self.forget_drawn(is_query, session),
            LastValues::Later => return Gate::Waits,
            LastValues::Refused => {
                self.refuse_to_run(Why::NotDrawn, is_query, session);
                return Gate::Done;
            }
        }
        if run.effects.reaches_prepared {
            self.hide_prepared(session);
        }
        Gate::Open
    }

    /// The statement that a Bind names, and its plan.
    pub(super) fn bound(
        &self,
        body: &[u8],
        session: &impl Sending,
    ) -> Option<(Rc<Plan>, Rc<Statement>)> {
        let bind = Bind::read(body).ok()?;
        let statement = session.names().get(bind.statement)?.statement.clone();
        Some((session.plan_of(&statement), statement))
    }

    /// What becomes of a statement that is about to be run by the last values that it asks for.
    fn last_values(&self, plan: &Plan, session: &impl Sending) -> LastValues {
        if session.status() == Status::Failed {
            return LastValues::Own;
        }
        let is_sole = session.is_pinned() || session.is_pinned_by_mode();
        self.drawn.decide(plan, &self.rounds, is_sole, self.sway.is_swayed())
    }

    /// Puts in front of a statement that is about to be run what makes the values of others
    /// unknown: in front of a Query, or within a round of the extended protocol.
    fn forget_drawn(&mut self, is_query: bool, session: &mut impl Sending) {
        if is_query && !self.rounds.is_within() {
            self.drawn.begin(true);
            return session.carry_out(Departure::ForgetsDrawn);
        }
        let sql = FORGET_DRAWN.as_bytes();
        self.compose(session, |composer, out, script| composer.own(sql, out, script));
        self.round().forgets_drawn = true;
    }

    /// Has nothing prepared on the server that is not the client's by a statement of its own, in
    /// front of what may look at it, run it or take it away.
    pub(super) fn hide_prepared(&mut self, session: &mut impl Sending) {
        self.compose(session, |composer, out, script| composer.close_all(out, script));
    }

    /// Has a statement refused that its client may not run.
    pub(super) fn refuse_to_run(&mut self, why: Why, is_query: bool, session: &mut impl Sending) {
        self.round();
        self.compose(session, |composer, out, script| {
            composer.refuse_to_run(why, out, script);
            if is_query {
                composer.names.query();
                composer.names.next_round();
                composer.sync(out, script);
            }
        });
        if is_query {
            self.end_round(session);
        }
    }

    /// Whether a message is about a name that may stand for something else by the time the server
    /// sees it.
    fn has_to_wait(&mut self, message: Frame<'_>, session: &mut impl Sending) -> bool {
        self.forgets &= !session.script().is_idle();
        if self.forgets {
            return matches!(message.tag, tag::PARSE | tag::BIND | tag::DESCRIBE | tag::CLOSE);
        }
        let names = session.names();
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
    fn deallocates(&mut self, plan: &Plan, session: &mut impl Sending) -> Gate {
        let Kind::Deallocate(Deallocate::Name(name)) = &plan.kind else {
            return Gate::Open;
        };
        if self.rounds.is_within() || session.script().takes_data() {
            return Gate::Open;
        }
        if !session.script().is_idle() {
            return Gate::Waits;
        }
        let status = session.status();
        if status == Status::Failed || session.names().get(name.as_bytes()).is_none() {
            return Gate::Open;
        }
        session.names().set(name.as_bytes(), None);
        session.names().query();
        self.begun = true;
        let mut out = Vec::new();
        put_command_complete(&mut out, "DEALLOCATE");
        put_ready_for_query(&mut out, status);
        session.tell(&out);
        Gate::Done
    }
}
