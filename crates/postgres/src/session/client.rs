//! What a client's own task and the lanes that answer it share.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::SystemTime;

use flow::outlet::Outlet;
use wire::postgres::backend::{self, Status};
use wire::postgres::{Refusal, sqlstate};

use crate::backends::Backend;
use crate::notify::{Mailbox, Overflow};
use crate::server::CancelKey;

/// Where a request that got no answer is asked again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Again {
    /// Wherever it fits.
    Same,
    /// On the primary, or on another server if it was there.
    Elsewhere,
}

/// A request that is to be asked again.
#[derive(Debug)]
pub struct Repeat {
    /// The request, as the client sent it.
    pub request: Rc<[u8]>,
    /// How often it was asked.
    pub attempts: u8,
    /// Where.
    pub again: Again,
}

/// A server connection whose statement can be cancelled.
#[derive(Debug, Clone)]
pub struct Target {
    /// The server.
    pub backend: Arc<Backend>,
    /// What it wants to see.
    pub key: CancelKey,
}

/// What the console shows of a client.
#[derive(Debug)]
pub struct About {
    /// The user that logged in.
    pub user: Arc<str>,
    /// The database, as the client named it.
    pub database: Arc<str>,
    /// Where it comes from; `None` is a Unix socket.
    pub peer: Option<SocketAddr>,
    /// When it logged in.
    pub connected: SystemTime,
    /// As it was at the start.
    pub application_name: Box<str>,
}

/// A client's connection.
pub struct Client {
    /// Its socket.
    pub outlet: Outlet,
    /// Its number in this process, by which it is cancelled and killed.
    pub id: i32,
    about: OnceCell<About>,
    /// Requests on lanes that are not answered yet.
    in_flight: Cell<u32>,
    /// Those that are to be asked again, in their order.
    repeats: RefCell<VecDeque<Repeat>>,
    /// Its task waits until nothing is in flight; it is not woken for an answer otherwise.
    settling: Cell<bool>,
    /// A cancel was asked for what is in flight.
    cancel: Cell<bool>,
    /// The server connection it has for itself, to cancel what runs there.
    leased: RefCell<Option<Target>>,
    /// It is to be closed, with these words.
    killed: RefCell<Option<Refusal>>,
    /// What was notified on channels that Weir listens to for it; `None` until it listens.
    mailbox: OnceCell<Arc<Mailbox>>,
    /// Its task, when it waits for one of these to change.
    waker: Cell<Option<Waker>>,
}

impl Client {
    /// A client that has asked for nothing.
    pub fn new(outlet: Outlet, id: i32) -> Rc<Self> {
        Rc::new(Self {
            outlet,
            id,
            about: OnceCell::new(),
            in_flight: Cell::new(0),
            repeats: RefCell::default(),
            settling: Cell::new(false),
            cancel: Cell::new(false),
            leased: RefCell::default(),
            killed: RefCell::default(),
            mailbox: OnceCell::new(),
            waker: Cell::new(None),
        })
    }

    /// Says who it is; only the first time counts.
    pub fn introduce(&self, about: About) {
        let _ = self.about.set(about);
    }

    /// Who it is, once it has logged in.
    pub fn about(&self) -> Option<&About> {
        self.about.get()
    }

    /// A request was put on a lane.
    #[inline]
    pub fn asked(&self) {
        if self.in_flight.get() == 0 {
            self.cancel.set(false);
        }
        self.in_flight.set(self.in_flight.get() + 1);
    }

    /// A request on a lane was answered.
    #[inline]
    pub fn answered(&self) {
        self.in_flight.set(self.in_flight.get().saturating_sub(1));
        // The reply has ended and the next one has not begun.
        let is_over = self.has_mail() && self.tell_mail().is_err();
        if self.in_flight.get() == 0 && (self.settling.get() || self.is_killed() || is_over) {
            self.wake();
        }
    }

    /// Requests on lanes that are not answered yet.
    #[inline]
    pub fn in_flight(&self) -> u32 {
        self.in_flight.get()
    }

    /// A request's reply was withheld, or never came: its task asks again.
    pub fn again(&self, request: Rc<[u8]>, attempts: u8, again: Again) {
        self.in_flight.set(self.in_flight.get().saturating_sub(1));
        if self.wants_cancel() {
            return self.say_cancelled();
        }
        self.repeats.borrow_mut().push_back(Repeat { request, attempts, again });
        self.wake();
    }

    /// The next request that is to be asked again.
    pub fn repeat(&self) -> Option<Repeat> {
        self.repeats.borrow_mut().pop_front()
    }

    /// Whether any request is to be asked again.
    #[inline]
    pub fn has_repeats(&self) -> bool {
        !self.repeats.borrow().is_empty()
    }

    /// A reply broke off within a message: what follows could not be told from it.
    pub fn cut_within_reply(&self) {
        self.in_flight.set(self.in_flight.get().saturating_sub(1));
        self.outlet.close();
        self.wake();
    }

    /// A read failed everywhere it was asked.
    pub fn lost(&self) {
        let refusal = Refusal::error(
            sqlstate::CONNECTION_FAILURE,
            "the server connection broke while the statement was running",
        );
        self.refuse(&refusal);
        self.answered();
    }

    /// Answers a round with an error, after which the client may go on.
    pub fn refuse(&self, refusal: &Refusal) {
        let mut out = Vec::new();
        refusal.encode(&mut out);
        backend::put_ready_for_query(&mut out, Status::Idle);
        self.outlet.send(&out);
    }

    /// A cancel request came.
    pub fn cancel(&self) {
        if self.in_flight.get() > 0 {
            self.cancel.set(true);
        }
        self.wake();
    }

    /// It has a server connection for itself, or none.
    pub fn set_leased(&self, target: Option<Target>) {
        *self.leased.borrow_mut() = target;
    }

    /// The server connection that it has for itself.
    pub fn leased(&self) -> Option<Target> {
        self.leased.borrow().clone()
    }

    /// Whether a cancel was asked for what is in flight.
    pub fn wants_cancel(&self) -> bool {
        self.cancel.get()
    }

    fn say_cancelled(&self) {
        self.refuse(&Refusal::error(
            sqlstate::QUERY_CANCELED,
            "canceling statement due to user request",
        ));
        self.wake();
    }

    /// Where notifications for it are put, which it has from now on.
    pub fn mailbox(&self) -> Arc<Mailbox> {
        self.mailbox.get_or_init(Arc::default).clone()
    }

    /// Whether notifications wait for it.
    #[inline]
    pub fn has_mail(&self) -> bool {
        self.mailbox.get().is_some_and(|mailbox| mailbox.waits())
    }

    /// The same; its task is woken when one comes later.
    #[inline]
    pub fn poll_mail(&self, cx: &Context<'_>) -> bool {
        self.mailbox.get().is_some_and(|mailbox| mailbox.poll_waits(cx))
    }

    /// Whether more notifications came than may wait for it.
    pub fn is_overrun(&self) -> bool {
        self.mailbox.get().is_some_and(|mailbox| mailbox.is_over())
    }

    /// Sends the notifications that wait; only where no reply is under way.
    ///
    /// # Errors
    /// More came than may wait: the client is to be closed.
    pub fn tell_mail(&self) -> Result<(), Overflow> {
        let Some(mailbox) = self.mailbox.get() else { return Ok(()) };
        for message in mailbox.take()? {
            self.outlet.send(&message);
        }
        Ok(())
    }

    /// Closes the client with these words as soon as nothing is in flight.
    pub fn kill(&self, refusal: Refusal) {
        *self.killed.borrow_mut() = Some(refusal);
        self.wake();
    }

    /// Why it is to be closed.
    pub fn killed(&self) -> Option<Refusal> {
        self.killed.borrow().clone()
    }

    /// Whether it is to be closed; cheaper than [`killed`](Self::killed).
    pub fn is_killed(&self) -> bool {
        self.killed.borrow().is_some()
    }

    /// Ready when nothing is in flight any more, or something is to be asked again.
    pub fn poll_settled(&self, cx: &mut Context<'_>) -> Poll<()> {
        let settled = self.in_flight.get() == 0 || self.has_repeats();
        self.settling.set(!settled);
        if settled {
            return Poll::Ready(());
        }
        self.park(cx);
        Poll::Pending
    }

    /// Ready when its task has something to do beside reading.
    #[inline]
    pub fn poll_called(&self, cx: &mut Context<'_>) -> Poll<()> {
        if self.has_repeats() || (self.is_killed() && self.in_flight.get() == 0) {
            return Poll::Ready(());
        }
        self.park(cx);
        Poll::Pending
    }

    #[inline]
    fn park(&self, cx: &mut Context<'_>) {
        let parked = self.waker.take().filter(|parked| parked.will_wake(cx.waker()));
        self.waker.set(Some(parked.unwrap_or_else(|| cx.waker().clone())));
    }

    fn wake(&self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}
