//! What goes along with a request on a lane: whose it is.

use std::fmt;
use std::rc::{Rc, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use super::fabric::Fabric;
use super::{Client, Request, Service};
use crate::answers::Place;
use crate::lane::{Fate, Owner};

/// From so many bytes on that a client has not taken, its lane reads no more of its reply.
const MARK: usize = 64 * 1024;

/// A request's companion.
pub struct Ticket<S: Service> {
    client: Rc<Client<S>>,
    place: Place,
    server: usize,
    /// The request, to be asked on another lane; none of what rides a lease.
    request: Option<Request>,
    is_leased: bool,
}

impl<S: Service> Ticket<S> {
    /// Of a request on a lane that others share.
    pub(super) fn riding(client: &Rc<Client<S>>, place: Place, request: Request) -> Self {
        let (client, server) = (Rc::clone(client), request.server);
        Self { client, place, server, request: Some(request), is_leased: false }
    }

    /// Of a request on a client's own connection: what was before it there is not elsewhere.
    pub(super) fn leased(client: &Rc<Client<S>>, place: Place, server: usize) -> Self {
        Self { client: Rc::clone(client), place, server, request: None, is_leased: true }
    }

    pub(super) fn into_request(self) -> Option<Request> {
        self.request
    }

    /// The reply is whole.
    #[inline]
    fn answered(&self) {
        if self.is_leased { self.client.left_lease() } else { self.client.left_lane(self.server) }
    }

    /// The connection has ended before the reply was whole.
    pub(super) fn orphaned(self, fate: Fate) {
        self.answered();
        self.client.orphaned(self.place, fate, self.request, self.server);
    }
}

impl<S: Service> fmt::Debug for Ticket<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ticket").field("place", &self.place).finish_non_exhaustive()
    }
}

/// Hands the replies of one lane to their clients.
pub(super) struct Deliverer<S: Service> {
    fabric: Weak<Fabric<S>>,
    server: usize,
    /// The client that does not take its reply as fast as it comes.
    slow: Option<Rc<Client<S>>>,
    /// Nobody waits for the answer at the head any more.
    is_unheard: bool,
    /// Whose own connection it is; `None` of one that is shared.
    of: Option<Weak<Client<S>>>,
}

impl<S: Service> Deliverer<S> {
    pub(super) fn new(fabric: &Rc<Fabric<S>>, server: usize, of: Option<&Rc<Client<S>>>) -> Self {
        let of = of.map(Rc::downgrade);
        let fabric = Rc::downgrade(fabric);
        Self { fabric, server, slow: None, is_unheard: false, of }
    }
}

impl<S: Service> Owner<Ticket<S>> for Deliverer<S> {
    #[inline]
    fn reply(&mut self, ticket: &mut Ticket<S>, bytes: &[u8], last: Option<Duration>) {
        let client = &ticket.client;
        client.fill(ticket.place, bytes, last.is_some());
        self.is_unheard = last.is_none() && !client.line.borrow().is_open(ticket.place);
        if client.outlet.spilled() > MARK {
            self.slow = Some(Rc::clone(client));
        }
        if let Some(ran) = last {
            ticket.answered();
            if let Some(fabric) = self.fabric.upgrade() {
                fabric.answered(ran);
            }
        }
    }

    fn aside(&mut self, bytes: &[u8]) {
        // On a connection of its own it is for that client, as a push of RESP3 is.
        match self.of.as_ref().and_then(Weak::upgrade) {
            Some(client) => client.push(bytes),
            None => tracing::debug!(server = self.server, "a message for no request on a lane"),
        }
    }

    fn room(&mut self) {
        match self.of.as_ref().and_then(Weak::upgrade) {
            Some(client) => client.wake(),
            None => {
                if let Some(fabric) = self.fabric.upgrade() {
                    fabric.group(self.server).room(1);
                }
            }
        }
    }

    fn poll_taken(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(slow) = &self.slow else { return Poll::Ready(()) };
        if !slow.is_over() && slow.outlet.poll_drained(cx, MARK).is_pending() {
            return Poll::Pending;
        }
        self.slow = None;
        Poll::Ready(())
    }

    fn are_of_one(&self, one: &Ticket<S>, other: &Ticket<S>) -> bool {
        Rc::ptr_eq(&one.client, &other.client)
    }

    fn is_heard(&self) -> bool {
        !self.is_unheard
    }

    fn out_of_patience(&mut self) {
        if let Some(slow) = self.slow.take() {
            slow.close();
        }
    }
}
