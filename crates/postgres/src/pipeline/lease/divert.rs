//! What a client with a server connection asks and the server does not get: LISTEN, UNLISTEN and
//! DEALLOCATE are kept from it from their Bind on.

use wire::postgres::backend::Status;
use wire::postgres::frame::Frame;
use wire::postgres::frontend::{Bind, Execute, tag};

use super::endpoints::{BindLookup, Endpoints};
use super::listening::{ChannelRequest, DivertedChange, ListenChange};
use super::machine::Lease;
use super::note::Departure;
use super::portals::{DivertedExecute, UNNAMED};
use crate::pipeline::script::{Expect, Why};
use crate::plan::{Deallocate, Kind};

/// The unnamed portal, as Describe and Close have it.
const UNNAMED_PORTAL: &[u8] = b"P\0";
const BIND_COMPLETE: &[u8] = b"2\0\0\0\x04";
const NO_DATA: &[u8] = b"n\0\0\0\x04";
const DEALLOCATE: &[u8] = b"C\0\0\0\x0fDEALLOCATE\0";

/// What becomes of a client's message.
pub enum Diverted {
    /// The server gets it.
    No,
    /// It waits for a channel to be listened to.
    Waits,
    /// Weir does it; what the client hears.
    Done(Expect),
    /// The client hears why it is not done.
    Refused(Why),
}

impl Lease {
    /// What becomes of a message by what the server is not to get; `bound`: what a Bind names.
    pub(super) fn divert(
        &mut self,
        message: Frame<'_>,
        bound: Option<&BindLookup>,
        ends: &mut Endpoints<'_>,
    ) -> Diverted {
        match (message.tag, self.portals.is_diverted(UNNAMED)) {
            // Of the unnamed portal, which the next Bind of it and the end of the transaction end.
            (tag::BIND, _) => {
                if message.body.first() == Some(&0) && self.channel != ChannelRequest::Asked {
                    self.divert_no_more(ends);
                }
                self.divert_bind(message.body, bound, ends)
            }
            (tag::DESCRIBE, true) if message.body == UNNAMED_PORTAL => {
                Diverted::Done(Expect::Say(NO_DATA))
            }
            (tag::EXECUTE, true) => self.divert_execute(message.body, ends),
            (tag::CLOSE, true) if message.body == UNNAMED_PORTAL => {
                self.divert_no_more(ends);
                Diverted::No
            }
            (tag::SYNC | tag::QUERY, _) => {
                self.divert_no_more(ends);
                Diverted::No
            }
            _ => Diverted::No,
        }
    }

    fn divert_execute(&mut self, body: &[u8], ends: &mut Endpoints<'_>) -> Diverted {
        let Ok(run) = Execute::read(body) else { return Diverted::No };
        match self.portals.execute_diverted(run.portal) {
            Some(DivertedExecute::HasRun) => Diverted::Refused(Why::HasRun),
            Some(DivertedExecute::Listen(change)) => {
                let completed = change.what.completed();
                // It is Weir's own matter, and holds if the round does.
                self.round().diverted.push(change);
                Diverted::Done(Expect::Say(completed))
            }
            Some(DivertedExecute::Deallocate(name)) => {
                ends.names.change(name.as_bytes(), None);
                Diverted::Done(Expect::Deallocate(DEALLOCATE))
            }
            None => Diverted::No,
        }
    }

    /// The unnamed portal is gone: what was not run is not done.
    fn divert_no_more(&mut self, ends: &mut Endpoints<'_>) {
        if let Some(change) = self.portals.close_unnamed() {
            ends.depart(Departure::UndoesListen(change));
        }
    }

    fn divert_bind(
        &mut self,
        body: &[u8],
        bound: Option<&BindLookup>,
        ends: &mut Endpoints<'_>,
    ) -> Diverted {
        // Of the unnamed portal, which is run or forgotten.
        let is_unnamed = || Bind::read(body).is_ok_and(|bind| bind.portal == UNNAMED);
        let Some(bound) = bound.filter(|_| is_unnamed()) else { return Diverted::No };
        if let Kind::Deallocate(Deallocate::Name(name)) = &bound.plan.kind {
            return self.divert_deallocate(name, ends);
        }
        if self.is_pinned || self.is_open() || self.has_run() {
            return Diverted::No;
        }
        let (what, joined) = match &bound.listening {
            None | Some(ListenChange::Discard) => return Diverted::No,
            Some(what @ ListenChange::NotTo(_)) => (what.clone(), false),
            Some(what @ ListenChange::To(channel)) => match self.join(channel, ends) {
                Ok(joined) => (what.clone(), joined),
                Err(diverted) => return diverted,
            },
        };
        self.portals.divert_listen(DivertedChange { what, joined });
        Diverted::Done(Expect::Say(BIND_COMPLETE))
    }

    /// Joins a channel for the client, or looks what came of that: whether the client did not
    /// listen to it before, or else what becomes of its message.
    fn join(&mut self, channel: &str, ends: &mut Endpoints<'_>) -> Result<bool, Diverted> {
        match self.channel {
            ChannelRequest::Nothing => {
                self.channel = ChannelRequest::Asked;
                ends.depart(Departure::Joins(channel.into()));
                Err(Diverted::Waits)
            }
            ChannelRequest::Asked => Err(Diverted::Waits),
            ChannelRequest::Answered { confirmed, joined } => {
                self.channel = ChannelRequest::Nothing;
                if confirmed {
                    return Ok(joined);
                }
                // The server is to listen itself.
                let what = ListenChange::To(channel.into());
                ends.depart(Departure::UndoesListen(DivertedChange { what, joined: true }));
                Err(Diverted::No)
            }
        }
    }

    fn divert_deallocate(&mut self, name: &str, ends: &Endpoints<'_>) -> Diverted {
        if !self.rounds.is_first() {
            return Diverted::Waits;
        }
        if ends.status == Status::Failed || ends.names.get(name.as_bytes()).is_none() {
            return Diverted::No;
        }
        self.portals.divert_deallocate(name);
        Diverted::Done(Expect::Say(BIND_COMPLETE))
    }
}
