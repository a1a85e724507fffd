//! What goes along with a request on a lane: whose it is.

use std::fmt;
use std::rc::{Rc, Weak};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use super::fabric::Fabric;
use super::sift::Sift;
use super::unread::MARK;
use super::{Again, Client, Judge, Request, Service, Took};
use crate::answers::AnswerPlace;
use crate::lane::{Fate, Owner};

/// Whose a request on a lane is, and what of its reply the client hears.
pub struct Ticket<S: Service> {
    client: Rc<Client<S>>,
    place: AnswerPlace,
    /// What is asked. It may be asked on another lane, unless it rides a lease: what was before it
    /// there is not elsewhere.
    request: Request,
    is_leased: bool,
    /// What it hears is the reply to an equal request of another client.
    is_shared: bool,
    hears: Hears,
    /// Bytes of the answer that its client was given.
    told: u64,
    /// With more of these the answer is too large to be kept until its client takes it.
    kept_max: u64,
}

/// What of a reply is for the client.
enum Hears {
    /// What comes, as it comes.
    All,
    /// That is seen by its first line.
    Line(Sift),
    /// Nothing: this is asked in its place.
    Again(Box<Again>),
    /// Nothing more: it has heard other words in its place.
    Instead,
}

impl<S: Service> Ticket<S> {
    /// Of a request on a lane that others share.
    pub(super) fn riding(client: &Rc<Client<S>>, place: AnswerPlace, request: Request) -> Self {
        Self::new(client, place, request, false)
    }

    /// Of a request on a client's own connection.
    pub(super) fn leased(client: &Rc<Client<S>>, place: AnswerPlace, request: Request) -> Self {
        Self::new(client, place, request, true)
    }

    fn new(client: &Rc<Client<S>>, place: AnswerPlace, request: Request, is_leased: bool) -> Self {
        let is_plain = request.judge == Judge::Client && request.unheard == 0;
        let hears = if is_plain { Hears::All } else { Hears::Line(Sift::new(request.unheard)) };
        Self {
            client: Rc::clone(client),
            place,
            request,
            is_leased,
            is_shared: false,
            hears,
            told: 0,
            kept_max: u64::MAX,
        }
    }

    pub(super) fn into_request(self) -> Option<Request> {
        Some(self.request)
    }

    /// A piece of the reply has come.
    #[inline]
    fn hear(&mut self, bytes: &[u8], is_last: bool) {
        if self.told == 0 && bytes.first() == Some(&b'-') && matches!(self.hears, Hears::All) {
            self.hears = Hears::Line(Sift::new(0));
        }
        match &mut self.hears {
            Hears::All => self.tell(bytes, is_last),
            Hears::Again(_) => {}
            Hears::Instead if is_last => self.client.fill(self.place, &[], true),
            Hears::Instead => {}
            Hears::Line(sift) => {
                let Some(seen) = sift.see(bytes, is_last) else { return };
                let line = seen.line();
                self.hears = if let Some(again) = self.judge(line) {
                    Hears::Again(Box::new(again))
                } else if let Some(words) = self.instead(line) {
                    self.tell(&words, is_last);
                    Hears::Instead
                } else {
                    self.tell(&seen.reply, is_last);
                    Hears::All
                };
            }
        }
    }

    #[inline]
    fn tell(&mut self, bytes: &[u8], is_last: bool) {
        if self.told == 0 {
            if !self.is_shared {
                self.client.fabric.service().begins(&self.request, bytes);
            }
            if !is_last {
                self.note_announced(bytes);
            }
        }
        self.told += bytes.len() as u64;
        self.client.fill(self.place, bytes, is_last);
    }

    /// An answer has begun that comes in pieces. Until it is seen to be larger than its client may
    /// leave unread, half of that is kept.
    #[cold]
    fn note_announced(&mut self, bytes: &[u8]) {
        let fabric = &self.client.fabric;
        let most = fabric.settings().spill as u64;
        let announced = fabric.service().announces(&self.request, bytes, most);
        self.kept_max = if announced.is_some_and(|len| len > most) { 0 } else { most / 2 };
    }

    fn is_too_large(&self) -> bool {
        self.told > self.kept_max
    }

    /// Bytes that its client may leave untaken before no more is read.
    #[inline]
    fn mark(&self) -> usize {
        if self.is_too_large() {
            return usize::try_from(self.kept_max).unwrap_or(usize::MAX).max(MARK);
        }
        // On its own connection nobody waits behind it.
        if self.is_leased { MARK } else { self.client.mark() }
    }

    /// What is to be asked in its place, by the first line of its reply.
    fn judge(&self, line: &[u8]) -> Option<Again> {
        if self.request.judge == Judge::Client {
            return None;
        }
        let again = self.client.fabric.service().again(&self.request, line)?;
        self.client.takes(self.place, &again).then_some(again)
    }

    /// What its client hears in the place of an error.
    fn instead(&self, line: &[u8]) -> Option<Vec<u8>> {
        let is_error = line.first() == Some(&b'-');
        is_error.then(|| self.client.fabric.service().instead(&self.request, line)).flatten()
    }

    /// The reply is whole, as of this moment, after the server had the request for so long.
    #[inline]
    fn answered(&mut self, ran: Duration, now: Instant) {
        self.is_off();
        match std::mem::replace(&mut self.hears, Hears::All) {
            Hears::Again(again) => {
                let sent = (self.request.server, self.is_leased);
                return self.client.ask_instead(self.place, *again, sent);
            }
            Hears::All | Hears::Line(_) | Hears::Instead => {
                self.client.overtakes(self.place, self.request.about())
            }
        }
        let queued = |came| now.saturating_duration_since(came).saturating_sub(ran);
        let queued = self.request.came.map(queued);
        let took = Took {
            queued,
            ran,
            bytes: self.told,
            is_leased: self.is_leased,
            is_shared: self.is_shared,
            client: self.client.id(),
        };
        self.client.fabric.service().answered(&self.request, took);
    }

    /// It is on no connection any more.
    #[inline]
    fn is_off(&self) {
        if self.is_leased {
            self.client.left_lease(self.request.server);
        } else {
            self.client.left_lane(self.request.server);
        }
    }

    /// It had joined another request, of whose reply it hears nothing.
    fn apart(self) {
        // Nothing of it was sent.
        self.orphaned(Fate::Unsent);
    }

    /// The connection has ended before the reply was whole.
    pub(super) fn orphaned(self, fate: Fate) {
        self.is_off();
        let of = (self.request.server, self.request.about());
        if let Hears::Again(again) = self.hears {
            return self.client.ask_instead(self.place, *again, (of.0, self.is_leased));
        }
        let asked = (!self.is_leased).then_some(self.request);
        self.client.orphaned(self.place, fate, asked, of);
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
    /// The client that does not take its reply as fast as it comes, and what it may leave untaken.
    slow: Option<(Rc<Client<S>>, usize)>,
    /// What the client of the last reply may.
    mark: usize,
    /// The client whose replies, of those that one read has brought in a row, go out together: a
    /// pipeline's answers are one system call instead of one each.
    gathering: Option<Rc<Client<S>>>,
    /// When the bytes came that are being handed over.
    heard: Instant,
    /// Nobody waits for the answer at the head any more.
    is_unheard: bool,
    /// Whose own connection it is; `None` of one that is shared.
    of: Option<Weak<Client<S>>>,
    /// The last of those that are answered, in the client's order.
    answered: Option<AnswerPlace>,
}

impl<S: Service> Deliverer<S> {
    pub(super) fn new(fabric: &Rc<Fabric<S>>, server: usize, of: Option<&Rc<Client<S>>>) -> Self {
        let of = of.map(Rc::downgrade);
        let fabric = Rc::downgrade(fabric);
        let (slow, gathering, heard) = (None, None, Instant::now());
        let (mark, is_unheard, answered) = (MARK, false, None);
        Self { fabric, server, slow, mark, gathering, heard, is_unheard, of, answered }
    }

    #[inline]
    fn gather(&mut self, client: &Rc<Client<S>>) {
        if self.gathering.as_ref().is_some_and(|of| Rc::ptr_eq(of, client)) {
            return;
        }
        self.send_gathered();
        if client.outlet.gather() {
            self.gathering = Some(Rc::clone(client));
        }
    }

    #[inline]
    fn send_gathered(&mut self) {
        let Some(client) = self.gathering.take() else { return };
        client.outlet.send_gathered();
        if client.outlet.spilled() > self.mark {
            self.slow = Some((client, self.mark));
        }
    }
}

impl<S: Service> Owner<Ticket<S>> for Deliverer<S> {
    #[inline]
    fn heard(&mut self, now: Instant) {
        self.heard = now;
    }

    #[inline]
    fn reply(&mut self, ticket: &mut Ticket<S>, bytes: &[u8], last: Option<Duration>) {
        self.gather(&ticket.client);
        ticket.hear(bytes, last.is_some());
        let client = &ticket.client;
        self.is_unheard = last.is_none() && !client.line.borrow().is_open(ticket.place);
        self.mark = ticket.mark();
        if client.outlet.spilled() > self.mark {
            self.slow = Some((Rc::clone(client), self.mark));
        } else {
            self.slow.take_if(|(slow, _)| Rc::ptr_eq(slow, client));
        }
        if let Some(ran) = last {
            // One that was asked again may be answered behind others that came later.
            self.answered = self.answered.max(Some(ticket.place));
            ticket.answered(ran, self.heard);
            if let Some(fabric) = self.fabric.upgrade() {
                fabric.answered(ran);
            }
        }
    }

    fn shared(&mut self, ticket: &mut Ticket<S>, bytes: &[u8], ran: Duration) {
        self.gather(&ticket.client);
        ticket.is_shared = true;
        ticket.hear(bytes, true);
        self.mark = ticket.mark();
        ticket.answered(ran, self.heard);
    }

    fn apart(&mut self, ticket: Ticket<S>) {
        ticket.apart();
    }

    #[inline]
    fn handed_over(&mut self) {
        self.send_gathered();
    }

    fn aside(&mut self, bytes: &[u8]) {
        // On a connection of its own it is for that client, as a push of RESP3 is. The answer
        // before it may wait for those of other servers.
        match self.of.as_ref().and_then(Weak::upgrade) {
            Some(client) => client.push_behind(self.answered, bytes),
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

    fn poll_taken(&mut self, head: Option<&Ticket<S>>, cx: &mut Context<'_>) -> Poll<()> {
        let Some((slow, mark)) = &self.slow else { return Poll::Ready(()) };
        // It holds back nothing but its own reply.
        let is_its_own = head.is_some_and(|ticket| Rc::ptr_eq(&ticket.client, slow));
        if is_its_own && !slow.is_over() && slow.outlet.poll_drained(cx, *mark).is_pending() {
            return Poll::Pending;
        }
        self.slow = None;
        Poll::Ready(())
    }

    fn are_of_one(&self, one: &Ticket<S>, other: &Ticket<S>) -> bool {
        Rc::ptr_eq(&one.client, &other.client)
    }

    fn is_too_large(&self, ticket: &Ticket<S>) -> bool {
        ticket.is_too_large()
    }

    fn is_heard(&self) -> bool {
        !self.is_unheard
    }

    fn kept(&mut self) {
        if let Some((slow, _)) = self.slow.take() {
            slow.keep_answers();
        }
    }

    fn out_of_patience(&mut self) {
        if let Some((slow, _)) = self.slow.take() {
            slow.close();
        }
    }
}
