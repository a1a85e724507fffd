//! What a message has to pass before it goes out: it may have to wait, be answered here, or be
//! refused.

use wire::postgres::backend::{Status, put_command_complete, put_ready_for_query};
use wire::postgres::frame::Frame;
use wire::postgres::frontend::{put_flush, tag};

use super::divert::Diverted;
use super::drawn::LastValues;
use super::endpoints::{BindLookup, Endpoints, MessageLookup};
use super::machine::Lease;
use super::note::Departure;
use crate::pipeline::compose::Holds;
use crate::pipeline::names::name_in;
use crate::pipeline::script::{Expect, Why};
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
    /// What becomes of a message, whatever it says, by what the server does with it.
    pub(super) fn heeds(&mut self, message: Frame<'_>, ends: &mut Endpoints<'_>) -> Gate {
        if ends.script.takes_data() && matches!(message.tag, tag::SYNC | tag::FLUSH) {
            // No round begins or ends by it: the server ignores it while it waits for data.
            ends.out.extend_from_slice(message.whole);
            if message.tag == tag::SYNC {
                ends.script.expect(Expect::Sync);
            }
            return Gate::Done;
        }
        if ends.script.is_skipping() && message.tag != tag::SYNC {
            // The server would ignore it, and so does what Weir knows.
            return Gate::Done;
        }
        if self.has_to_wait(message, ends) { Gate::Waits } else { Gate::Open }
    }

    /// What becomes of a message by what the server is not to get, and by the names in it.
    pub(super) fn passes(
        &mut self,
        message: Frame<'_>,
        bound: Option<&BindLookup>,
        ends: &mut Endpoints<'_>,
    ) -> Gate {
        match self.divert(message, bound, ends) {
            Diverted::No => self.is_as_prepared(message, ends),
            Diverted::Waits => Gate::Waits,
            Diverted::Refused(why) => {
                self.refuse_to_run(why, false, ends);
                Gate::Done
            }
            Diverted::Done(said) => {
                ends.script.expect(said);
                Gate::Done
            }
        }
    }

    /// A statement that the client has prepared before the catalogue changed is run if it is still
    /// what it was; where nobody knows, the server is asked.
    fn is_as_prepared(&mut self, message: Frame<'_>, ends: &mut Endpoints<'_>) -> Gate {
        let uses = matches!(message.tag, tag::BIND | tag::DESCRIBE);
        let Some(name) = name_in(message).filter(|_| uses) else { return Gate::Open };
        match self.compose(ends, |composer, _, _| composer.holds(name)) {
            Holds::Yes => Gate::Open,
            Holds::No => {
                self.refuse_to_run(Why::Changed, false, ends);
                Gate::Done
            }
            holds => {
                self.round();
                self.compose(ends, |composer, out, script| match holds {
                    Holds::Unheard => put_flush(out),
                    _ => composer.ask_shape(name, out, script),
                });
                Gate::Waits
            }
        }
    }

    /// What becomes of a Query or a Bind by what its statement does.
    pub(super) fn may_run(
        &mut self,
        message: Frame<'_>,
        lookup: &MessageLookup<'_>,
        ends: &mut Endpoints<'_>,
    ) -> Gate {
        let run = match lookup {
            MessageLookup::Query(query) => {
                match self.deallocates(&query.plan, ends) {
                    Gate::Open => {}
                    gate => return gate,
                }
                Some(&query.plan)
            }
            MessageLookup::Bind(bound) => bound.as_ref().map(|bound| &bound.plan),
            MessageLookup::Nothing | MessageLookup::Parse(_) => None,
        };
        if ends.script.takes_data() {
            return Gate::Open;
        }
        let Some(run) = run else {
            // What a client has prepared by a statement, and a function by its number.
            if matches!(message.tag, tag::BIND | tag::FUNCTION_CALL) {
                self.hide_prepared(ends);
            }
            return Gate::Open;
        };
        let is_query = message.tag == tag::QUERY;
        match self.last_values(run, ends.status) {
            LastValues::Own => {}
            LastValues::Forgotten => self.forget_drawn(is_query, ends),
            LastValues::Later => return Gate::Waits,
            LastValues::Refused => {
                self.refuse_to_run(Why::NotDrawn, is_query, ends);
                return Gate::Done;
            }
        }
        if run.effects.reaches_prepared {
            self.hide_prepared(ends);
        }
        Gate::Open
    }

    /// What becomes of a statement that is about to be run by the last values that it asks for.
    fn last_values(&self, plan: &Plan, status: Status) -> LastValues {
        if status == Status::Failed {
            return LastValues::Own;
        }
        let is_sole = self.is_pinned || self.options.is_pinned_by_mode;
        self.drawn.decide(plan, &self.rounds, is_sole, self.sway.is_swayed())
    }

    /// Puts in front of a statement that is about to be run what makes the values of others
    /// unknown: in front of a Query, or within a round of the extended protocol.
    fn forget_drawn(&mut self, is_query: bool, ends: &mut Endpoints<'_>) {
        if is_query && !self.rounds.is_within() {
            self.drawn.begin(true);
            ends.ask(FORGET_DRAWN);
            return ends.depart(Departure::ForgetsDrawn);
        }
        let sql = FORGET_DRAWN.as_bytes();
        self.compose(ends, |composer, out, script| composer.own(sql, out, script));
        self.round().forgets_drawn = true;
    }

    /// Has nothing prepared on the server that is not the client's by a statement of its own, in
    /// front of what may look at it, run it or take it away.
    pub(super) fn hide_prepared(&mut self, ends: &mut Endpoints<'_>) {
        self.compose(ends, |composer, out, script| composer.close_all(out, script));
    }

    /// Has a statement refused that its client may not run.
    pub(super) fn refuse_to_run(&mut self, why: Why, is_query: bool, ends: &mut Endpoints<'_>) {
        self.round();
        self.compose(ends, |composer, out, script| {
            composer.refuse_to_run(why, out, script);
            if is_query {
                composer.names.query();
                composer.names.next_round();
                composer.sync(out, script);
            }
        });
        if is_query {
            self.end_round(ends.session.now, &mut |departure| ends.depart(departure));
        }
    }

    /// Whether a message is about a name that may stand for something else by the time the server
    /// sees it.
    fn has_to_wait(&mut self, message: Frame<'_>, ends: &Endpoints<'_>) -> bool {
        self.forgets &= !ends.script.is_idle();
        if self.forgets {
            return matches!(message.tag, tag::PARSE | tag::BIND | tag::DESCRIBE | tag::CLOSE);
        }
        if ends.names.is_settled() {
            return false;
        }
        match name_in(message) {
            Some(b"") if message.tag == tag::PARSE => false,
            Some(name) => ends.names.is_unsure(name),
            None => false,
        }
    }

    /// `DEALLOCATE` of a statement that has another name on the server is answered here, once it
    /// is known whether a transaction has failed.
    fn deallocates(&mut self, plan: &Plan, ends: &mut Endpoints<'_>) -> Gate {
        let Kind::Deallocate(Deallocate::Name(name)) = &plan.kind else {
            return Gate::Open;
        };
        if self.rounds.is_within() || ends.script.takes_data() {
            return Gate::Open;
        }
        if !ends.script.is_idle() {
            return Gate::Waits;
        }
        if ends.status == Status::Failed || ends.names.get(name.as_bytes()).is_none() {
            return Gate::Open;
        }
        ends.names.set(name.as_bytes(), None);
        ends.names.query();
        self.begun = true;
        let mut out = Vec::new();
        put_command_complete(&mut out, "DEALLOCATE");
        put_ready_for_query(&mut out, ends.status);
        ends.depart(Departure::Tells(out));
        Gate::Done
    }
}
