//! Connections that a client has for itself, at most one to each server.
//!
//! Each is a lane that nobody else has, over a connection of the pool. It is given back once its
//! service has undone what may be left on it; what ends in any other way is closed, and so is one
//! that a request [taints](Affinity::Taint).

use std::rc::Rc;
use std::time::{Duration, Instant};

use super::asking::{Pending, Stream};
use super::fabric::{Fabric, Leased, is_hung};
use super::ticket::Deliverer;
use super::{Client, Request, Service, Ticket, Unanswered};
use crate::answers::AnswerPlace;
use crate::lane::{self, Handle, Why};
use crate::lanes::ServerRecord as _;
use crate::pool::LeaseError;

/// What a client has of a connection to one server for itself.
pub(super) enum Lease<S: Service> {
    /// It waits for one.
    Opening,
    /// There is none for it.
    Failed(Unanswered<S::Error>),
    /// As before, and nobody has heard of it: whatever needs one is told.
    Refused(Unanswered<S::Error>),
    /// It has one, which is closed in the end where a request has tainted it.
    Held {
        handle: Handle<S::Protocol, Ticket<S>>,
        known: S::Record,
        in_flight: usize,
        is_tainted: bool,
    },
    /// It had one, which has ended.
    Lost,
}

/// What a client has for itself, by the servers. They are few: one, unless its service wants more.
pub(super) struct Leases<S: Service>(Vec<(usize, Lease<S>)>);

impl<S: Service> Default for Leases<S> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<S: Service> Leases<S> {
    pub(super) fn get(&self, server: usize) -> Option<&Lease<S>> {
        self.0.iter().find(|(of, _)| *of == server).map(|(_, lease)| lease)
    }

    fn get_mut(&mut self, server: usize) -> Option<&mut Lease<S>> {
        self.0.iter_mut().find(|(of, _)| *of == server).map(|(_, lease)| lease)
    }

    fn put(&mut self, server: usize, lease: Lease<S>) {
        match self.get_mut(server) {
            Some(before) => *before = lease,
            None => self.0.push((server, lease)),
        }
    }

    fn take(&mut self, server: usize) -> Option<Lease<S>> {
        let at = self.0.iter().position(|(of, _)| *of == server)?;
        Some(self.0.swap_remove(at).1)
    }

    /// Whether something is in flight on the connection to such a server.
    pub(super) fn is_busy(&self, is_such: impl Fn(usize) -> bool) -> bool {
        let is_busy = |lease: &Lease<S>| matches!(lease, Lease::Held { in_flight: 1.., .. });
        self.0.iter().any(|(of, lease)| is_busy(lease) && is_such(*of))
    }

    /// Ends those connections at once that are such.
    fn close_where(
        &self,
        is_such: impl Fn(usize, &Handle<S::Protocol, Ticket<S>>, &S::Record) -> bool,
    ) {
        for (server, lease) in &self.0 {
            if let Lease::Held { handle, known, .. } = lease
                && is_such(*server, handle, known)
            {
                handle.close();
            }
        }
    }
}

impl<S: Service> Client<S> {
    /// Takes a connection to a server for this client alone, behind all that it has asked there;
    /// `words` answer that. What it asks of that server from then on goes there.
    pub fn hold(self: &Rc<Self>, server: usize, words: Vec<u8>) {
        let place = self.line.borrow_mut().open();
        self.note(place, server);
        self.submit(Pending::Hold { place: Some(place), server, words });
    }

    /// As [`hold`](Self::hold), which answers nothing: what is asked behind it as
    /// [its own](Route::Own) hears where there is none.
    pub fn take(self: &Rc<Self>, server: usize) {
        self.submit(Pending::Hold { place: None, server, words: Vec::new() });
    }

    /// As [`free`](Self::free), which answers nothing; behind a request that is still coming, once
    /// it has come.
    pub fn release(self: &Rc<Self>, server: usize) {
        if let Some(stream) = &mut *self.stream.borrow_mut()
            && stream.server == server
        {
            stream.frees = true;
            return;
        }
        self.submit(Pending::Free { place: None, server, words: Vec::new() });
    }

    /// Gives the connection to a server back once what was asked there is answered; `words` answer
    /// that.
    pub fn free(self: &Rc<Self>, server: usize, words: Vec<u8>) {
        let place = self.line.borrow_mut().open();
        self.submit(Pending::Free { place: Some(place), server, words });
    }

    /// Whether it has a connection for itself, or waits for one.
    pub fn is_holding(&self) -> bool {
        self.is_holding_where(|_| true)
    }

    pub(super) fn is_holding_where(&self, is_such: impl Fn(usize) -> bool) -> bool {
        let is_there = |(server, lease): &(usize, Lease<S>)| {
            matches!(lease, Lease::Opening | Lease::Held { .. }) && is_such(*server)
        };
        let waits =
            |what: &Pending| matches!(what, Pending::Hold { server, .. } if is_such(*server));
        self.leases.borrow().0.iter().any(is_there) || self.pending.borrow().iter().any(waits)
    }

    /// Looks at what is known of the connections that it has for itself and waits on for what
    /// others do.
    pub fn where_it_waits<T>(&self, look: impl Fn(&S::Record) -> T) -> Vec<T> {
        let leases = self.leases.borrow();
        let waits = leases.0.iter().filter(|_| self.waits_for_others());
        let known = waits.filter_map(|(_, lease)| match lease {
            Lease::Held { known, in_flight: 1.., .. } => Some(known),
            _ => None,
        });
        known.map(look).collect()
    }

    /// Asks a request that is too large for a lane: its bytes are its beginning, and the next
    /// `rest` bytes of the client follow them, by the connection to its server that the client has
    /// [taken](Self::take).
    pub fn stream(self: &Rc<Self>, mut request: Request, rest: u64) {
        let server = request.server;
        let place = self.line.borrow_mut().open();
        request.came = Some(self.note(place, server));
        request.rest = rest;
        *self.stream.borrow_mut() = Some(Stream { left: rest, frees: false, server, place });
        self.submit(Pending::Begin { place, request });
    }

    /// Whether bytes of a request are still to come.
    pub(super) fn is_streaming(&self) -> bool {
        self.stream.borrow().is_some()
    }

    /// Takes bytes of the request that is still coming: how many. 0 where the server has to take
    /// some first; the client is woken then.
    pub(super) fn feed(self: &Rc<Self>, bytes: &[u8]) -> usize {
        let mut stream = self.stream.borrow_mut();
        let Some(of) = &mut *stream else { return 0 };
        let n = usize::try_from(of.left).unwrap_or(usize::MAX).min(bytes.len());
        if self.line.borrow().is_open(of.place) {
            if !self.pending.borrow().is_empty() {
                return 0;
            }
            if let Some(Lease::Held { handle, .. }) = self.leases.borrow().get(of.server) {
                if !handle.may_grow() {
                    handle.want_room();
                    return 0;
                }
                let is_last = of.left == n as u64;
                handle
                    .grow(is_last, |out| out.extend_from_slice(bytes.get(..n).unwrap_or_default()));
            }
        }
        // What nobody waits for any more is left out.
        of.left -= n as u64;
        if of.left == 0 {
            let (frees, server) = (of.frees, of.server);
            *stream = None;
            drop(stream);
            if frees {
                self.release(server);
            }
        }
        n
    }

    /// The rest of a request whose bytes are still coming never comes. What was sent of it is half
    /// a request, so the connection is good for nothing more.
    pub(super) fn break_off(self: &Rc<Self>) {
        let Some(Stream { place, server, frees, .. }) = self.stream.take() else { return };
        let is_it = |what: &Pending| matches!(what, Pending::Begin { .. });
        let has_begun = !self.pending.borrow().iter().any(is_it);
        // Nobody is left to hear of it, and what was asked before is answered still.
        self.fill(place, &[], true);
        if has_begun {
            if let Some(Lease::Held { handle, .. }) = self.leases.borrow_mut().take(server) {
                handle.close();
            }
        } else if frees {
            self.release(server);
        }
    }

    /// Closes connections that it has for itself where their servers hang: what waits for one to
    /// be given back would wait for ever. So does it where a server has left for long enough.
    pub(super) fn look_at_leases(&self, now: Instant, hung: Duration) {
        let is_patient = self.is_streaming() || self.waits_for_others();
        self.leases.borrow().close_where(|server, handle, _| {
            self.fabric.is_to_end(server, now) || !is_patient && is_hung(handle, now, hung)
        });
    }

    /// Closes connections that it has for itself where their servers are not what they were.
    pub(super) fn close_outdated_leases(&self) {
        self.leases.borrow().close_where(|_, _, known| !known.is_current());
    }

    pub(super) fn leased(&self, server: usize) -> Option<Handle<S::Protocol, Ticket<S>>> {
        match self.leases.borrow().get(server) {
            Some(Lease::Held { handle, .. }) => Some(handle.clone()),
            _ => None,
        }
    }

    pub(super) fn lease_has_one_more(&self, server: usize, taints: bool) {
        let mut leases = self.leases.borrow_mut();
        if let Some(Lease::Held { in_flight, is_tainted, .. }) = leases.get_mut(server) {
            *in_flight += 1;
            *is_tainted |= taints;
        }
    }

    pub(super) fn left_lease(&self, server: usize) {
        if let Some(Lease::Held { in_flight, .. }) = self.leases.borrow_mut().get_mut(server) {
            *in_flight = in_flight.saturating_sub(1);
        }
        if !self.pending.borrow().is_empty() {
            self.wake();
        }
    }

    pub(super) fn hold_now(
        self: &Rc<Self>,
        place: Option<AnswerPlace>,
        server: usize,
        words: Vec<u8>,
    ) -> Option<Pending> {
        if self.is_riding(server) {
            return Some(Pending::Hold { place, server, words });
        }
        let mut leases = self.leases.borrow_mut();
        match leases.take(server) {
            Some(held @ Lease::Held { .. }) => {
                leases.put(server, held);
                drop(leases);
                if let Some(place) = place {
                    self.fill(place, &words, true);
                }
                None
            }
            Some(Lease::Failed(why)) => {
                // Of a request that comes in pieces it is the request that is told.
                let place = place.or_else(|| Some(self.stream.borrow().as_ref()?.place));
                if place.is_none() {
                    leases.put(server, Lease::Refused(why.clone()));
                }
                drop(leases);
                if let Some(place) = place {
                    self.give_up(place, &why);
                }
                None
            }
            before => {
                leases.put(server, Lease::Opening);
                drop(leases);
                if !matches!(before, Some(Lease::Opening)) {
                    tokio::task::spawn_local(run(Rc::clone(self), server));
                }
                Some(Pending::Hold { place, server, words })
            }
        }
    }

    pub(super) fn free_now(
        &self,
        place: Option<AnswerPlace>,
        server: usize,
        words: Vec<u8>,
    ) -> Option<Pending> {
        let mut leases = self.leases.borrow_mut();
        if matches!(leases.get(server), Some(Lease::Held { in_flight: 1.., .. } | Lease::Opening)) {
            return Some(Pending::Free { place, server, words });
        }
        match leases.take(server) {
            Some(Lease::Held { handle, is_tainted: true, .. }) => handle.close(),
            Some(Lease::Held { handle, .. }) => handle.quarantine(),
            _ => {}
        }
        drop(leases);
        if let Some(place) = place {
            self.fill(place, &words, true);
        }
        None
    }

    pub(super) fn begin_now(
        self: &Rc<Self>,
        place: AnswerPlace,
        request: Request,
    ) -> Option<Pending> {
        let server = request.server;
        let Some(handle) = self.leased(server) else {
            self.give_up(place, &Unanswered::LeaseLost { server });
            return None;
        };
        let (head, now) = (request.bytes.clone(), Instant::now());
        let waited = request.waited(now);
        let taints = request.route.taints();
        let ticket = Ticket::leased(self, place, request);
        let write = |out: &mut Vec<u8>| out.extend_from_slice(&head);
        if let Err(full) = handle.push(ticket, 1, now, write) {
            return full.0.into_request().map(|request| Pending::Begin { place, request });
        }
        handle.grow(false, |_| ());
        self.lease_has_one_more(server, taints);
        self.has_sent(place, waited);
        None
    }

    /// Why what needs a connection of the client's own has none.
    pub(super) fn without_lease(&self, server: usize) -> Unanswered<S::Error> {
        match self.leases.borrow().get(server) {
            Some(Lease::Refused(why)) => why.clone(),
            _ => Unanswered::LeaseLost { server },
        }
    }

    /// The server to which a connection has ended that it had for itself; each once.
    pub(super) fn takes_loss(&self) -> Option<usize> {
        let all = &mut self.leases.borrow_mut().0;
        let at = all.iter().position(|(_, lease)| matches!(lease, Lease::Lost))?;
        Some(all.swap_remove(at).0)
    }

    /// Closes the connections that it has for itself.
    pub(super) fn abandon_leases(&self) {
        self.leases.take().close_where(|_, _, _| true);
    }
}

/// Takes a connection for a client, runs it for as long as the client has it, and gives it back.
async fn run<S: Service>(client: Rc<Client<S>>, server: usize) {
    let fabric = Rc::clone(&client.fabric);
    let deadline = Instant::now() + fabric.settings().timeout;
    // It is another's once the connection is given back or closed.
    let permit = fabric.permit(server, deadline).await;
    if client.is_over() {
        return;
    }
    let leased = match permit {
        Some(_) => fabric.lease(server, deadline).await.map_err(|error| match error {
            LeaseError::Open(error) => Unanswered::Unreachable { server, error },
            LeaseError::Late | LeaseError::Closed => {
                Unanswered::Late { server, may_have_run: false }
            }
        }),
        None => Err(Unanswered::NoLease { server }),
    };
    if client.is_over() {
        return;
    }
    let leased = match leased {
        Ok(leased) => leased,
        Err(why) => {
            client.leases.borrow_mut().put(server, Lease::Failed(why));
            return client.wake();
        }
    };
    let (protocol, known) = fabric.service().known(leased.connection());
    let deliverer = Deliverer::new(&fabric, server, Some(&client));
    let (limits, scratch) = (fabric.settings().lane, fabric.scratch());
    let (handle, driver) = lane::start(leased, protocol, limits, scratch, deliverer);
    let held = Lease::Held { handle: handle.clone(), known, in_flight: 0, is_tainted: false };
    client.leases.borrow_mut().put(server, held);
    client.wake();
    let ended = driver.await;
    let is_held = client.leased(server).is_some_and(|held| held.is(&handle));
    if is_held {
        client.leases.borrow_mut().put(server, Lease::Lost);
        fabric.broke(server);
    }
    for orphan in ended.orphans {
        orphan.ticket.orphaned(orphan.fate);
    }
    client.wake();
    if matches!(ended.why, Why::Drained) {
        give_back(&fabric, ended.io).await;
    }
}

async fn give_back<S: Service>(fabric: &Rc<Fabric<S>>, mut leased: Leased<S>) {
    let service = Rc::clone(fabric.service());
    let restored = service.restore(leased.connection_mut());
    let limit = fabric.settings().timeout;
    if tokio::time::timeout(limit, restored).await == Ok(true) {
        leased.give_back();
    }
}
