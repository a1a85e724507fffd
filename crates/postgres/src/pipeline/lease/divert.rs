//! What a client with a server connection asks and the server does not get: LISTEN, UNLISTEN and
//! DEALLOCATE are kept from it from their Bind on.

use wire::postgres::backend::Status;
use wire::postgres::frame::Frame;
use wire::postgres::frontend::{Bind, Execute, tag};

use super::listening::{DivertedChange, ListenChange};
use super::machine::Lease;
use super::portals::{DivertedExecute, UNNAMED};
use super::sending::{Joining, Sending};
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
    /// What becomes of a message by what the server is not to get.
    pub(super) fn divert(&mut self, message: Frame<'_>, session: &mut impl Sending) -> Diverted {
        match (message.tag, self.portals.is_diverted(UNNAMED)) {
            // Of the unnamed portal, which the next Bind of it and the end of the transaction end.
            (tag::BIND, _) => {
                if message.body.first() == Some(&0) && !session.is_joining() {
                    self.divert_no_more(session);
                }
                self.divert_bind(message.body, session)
            }
            (tag::DESCRIBE, true) if message.body == UNNAMED_PORTAL => {
                Diverted::Done(Expect::Say(NO_DATA))
            }
            (tag::EXECUTE, true) => self.divert_execute(message.body, session),
            (tag::CLOSE, true) if message.body == UNNAMED_PORTAL => {
                self.divert_no_more(session);
                Diverted::No
            }
            (tag::SYNC | tag::QUERY, _) => {
                self.divert_no_more(session);
                Diverted::No
            }
            _ => Diverted::No,
        }
    }

    fn divert_execute(&mut self, body: &[u8], session: &mut impl Sending) -> Diverted {
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
                session.names().change(name.as_bytes(), None);
                Diverted::Done(Expect::Deallocate(DEALLOCATE))
            }
            None => Diverted::No,
        }
    }

    /// The unnamed portal is gone: what was not run is not done.
    fn divert_no_more(&mut self, session: &mut impl Sending) {
        if let Some(change) = self.portals.close_unnamed() {
            session.undo_listen(change);
        }
    }

    fn divert_bind(&mut self, body: &[u8], session: &mut impl Sending) -> Diverted {
        // Of the unnamed portal, which is run or forgotten.
        let is_unnamed = Bind::read(body).is_ok_and(|bind| bind.portal == UNNAMED);
        let bound = self.bound(body, session).filter(|_| is_unnamed);
        let Some((plan, _)) = bound else { return Diverted::No };
        if let Kind::Deallocate(Deallocate::Name(name)) = &plan.kind {
            return self.divert_deallocate(name, session);
        }
        if session.is_pinned() || self.is_open() || self.has_run() {
            return Diverted::No;
        }
        let joined = match session.listening(&plan) {
            None | Some(ListenChange::Discard) => return Diverted::No,
            Some(what @ ListenChange::NotTo(_)) => DivertedChange { what, joined: false },
            Some(ListenChange::To(channel)) => match session.join(&channel) {
                Joining::Waits => return Diverted::Waits,
                // The server is to listen itself.
                Joining::Refused => return Diverted::No,
                Joining::Confirmed { joined } => {
                    DivertedChange { what: ListenChange::To(channel), joined }
                }
            },
        };
        self.portals.divert_listen(joined);
        Diverted::Done(Expect::Say(BIND_COMPLETE))
    }

    fn divert_deallocate(&mut self, name: &str, session: &mut impl Sending) -> Diverted {
        if !self.rounds.is_first() {
            return Diverted::Waits;
        }
        if session.status() == Status::Failed || session.names().get(name.as_bytes()).is_none() {
            return Diverted::No;
        }
        self.portals.divert_deallocate(name);
        Diverted::Done(Expect::Say(BIND_COMPLETE))
    }
}
