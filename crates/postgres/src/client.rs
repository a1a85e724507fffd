//! What a client's own task and the lanes that answer it share.

mod answers;

use std::cell::{Cell, OnceCell, RefCell, RefMut};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Instant, SystemTime};

pub use answers::{Again, Repeat};
use flow::answers::Line;
use flow::outlet::Outlet;
use wire::postgres::backend::{self, Status};
use wire::postgres::{Refusal, sqlstate};

use crate::connection::Record;
use crate::database::Database;
use crate::notify::{Mailbox, Overflow};
use crate::pipeline::names::{Limits, Names};
use crate::pipeline::script::{Outcome, Why};
use crate::server::CancelKey;

/// While so much waits to be sent to one side, nothing is read from the other.
pub const AHEAD_MAX: usize = 256 * 1024;

/// What a client hears whose answers could be taken for those to other questions.
pub const OUT_OF_STEP: &str = "terminating connection because its answers are out of step";

/// A server connection whose statement can be cancelled.
#[derive(Debug, Clone)]
pub struct Target {
    /// The connection, which counts the cancels that are on their way.
    pub record: Rc<Record>,
    /// What its server wants to see.
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
    /// Where it came to; `None` is a Unix socket.
    pub local: Option<SocketAddr>,
    /// When it logged in.
    pub connected: SystemTime,
    /// As it was at the start.
    pub application_name: Box<str>,
}

/// What the console shows of what a client does.
#[derive(Debug, Default)]
pub struct ClientActivity {
    /// When its last statement came.
    pub asked: Cell<Option<Instant>>,
    /// Since when its statement waits for a server.
    pub waits: Cell<Option<Instant>>,
    /// Since when it asks for nothing, where a transaction of its own is open meanwhile.
    pub in_transaction: Cell<Option<Instant>>,
    /// Prepared statements that it has.
    pub prepared: Cell<usize>,
    /// A commit of it is done, and its answer waits until that is confirmed.
    pub unconfirmed: Cell<bool>,
    /// Why it keeps its server connection beyond a transaction; empty where it doesn't.
    pub pinned: Cell<&'static str>,
}

/// A client's connection: what it has in flight, and what its task is woken for.
pub struct Client {
    pub outlet: Outlet,
    /// Its number in this process, by which it is cancelled and killed.
    pub id: i32,
    about: OnceCell<About>,
    database: OnceCell<Rc<Database>>,
    seen: ClientActivity,
    /// The client's names for its prepared statements.
    names: RefCell<Names>,
    /// The places of its requests on a lane. All else is asked, and answered, while there is none.
    line: RefCell<Line>,
    /// Requests that were taken back and are to be asked again, in their order.
    repeats: RefCell<VecDeque<Repeat>>,
    /// Its task waits until nothing is in flight; it is not woken for an answer otherwise.
    settling: Cell<bool>,
    /// A cancel was asked for what is in flight.
    cancel: Cell<bool>,
    /// The transaction that no server has heard of has failed.
    failed: Cell<bool>,
    /// The server connection it has for itself, to cancel what runs there.
    leased: RefCell<Option<Target>>,
    /// It is to be closed, with these words.
    killed: RefCell<Option<Refusal>>,
    /// What was notified on channels that Weir listens to for it; `None` until it listens.
    mailbox: OnceCell<Arc<Mailbox>>,
    /// It is to be closed when it does nothing, with these words.
    parting: RefCell<Option<Refusal>>,
    /// Its task, when it waits for one of these to change.
    waker: Cell<Option<Waker>>,
}

impl Client {
    /// A client that has asked for nothing.
    pub fn new(outlet: Outlet, id: i32, limits: Limits) -> Rc<Self> {
        Rc::new(Self {
            outlet,
            id,
            about: OnceCell::new(),
            database: OnceCell::new(),
            seen: ClientActivity::default(),
            names: RefCell::new(Names::new(limits)),
            // It keeps to one lane at a time, so that none of its answers waits for another one.
            line: RefCell::new(Line::new(0)),
            repeats: RefCell::default(),
            settling: Cell::new(false),
            cancel: Cell::new(false),
            failed: Cell::new(false),
            leased: RefCell::default(),
            killed: RefCell::default(),
            mailbox: OnceCell::new(),
            parting: RefCell::default(),
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

    /// It has entered a database; only the first time counts.
    pub fn enter(&self, database: Rc<Database>) {
        let _ = self.database.set(database);
    }

    /// The database that it has entered.
    #[inline]
    pub fn database(&self) -> Option<&Database> {
        self.database.get().map(|database| &**database)
    }

    /// What the console shows of what it does.
    #[inline]
    pub fn seen(&self) -> &ClientActivity {
        &self.seen
    }

    /// Its prepared statements; not to be held while anybody is waited for.
    #[inline]
    pub fn names(&self) -> RefMut<'_, Names> {
        self.names.borrow_mut()
    }

    /// What became of its next message that changes a name, for good.
    pub fn named(&self, outcome: Outcome) {
        let mut names = self.names();
        names.heard(outcome);
        names.settle();
    }

    /// What it hears where Weir has a message refused.
    pub fn refused(&self, why: Why) -> Vec<u8> {
        let names = self.names();
        let refusal = match why {
            Why::Taken => {
                let name = String::from_utf8_lossy(names.next_name());
                let what = format!("prepared statement \"{name}\" already exists");
                Refusal::error(sqlstate::DUPLICATE_PREPARED_STATEMENT, what)
            }
            Why::TooMany => Refusal::error(sqlstate::PROGRAM_LIMIT, "too many prepared statements")
                .hint("Close some, or raise postgres.max-prepared-statements."),
            Why::TooLarge => {
                let what = "the text of all prepared statements is too long";
                Refusal::error(sqlstate::PROGRAM_LIMIT, what)
                    .hint("Close some, or raise postgres.max-prepared-bytes.")
            }
            // As a server says it (`plancache.c`); pgjdbc prepares anew by the function's name.
            Why::Changed => {
                let what = "cached plan must not change result type";
                let refusal = Refusal::error(sqlstate::FEATURE_NOT_SUPPORTED, what);
                refusal.routine("RevalidateCachedQuery")
            }
            Why::Malformed => {
                Refusal::error(sqlstate::PROTOCOL_VIOLATION, "invalid message format")
            }
            Why::HasRun => Refusal::error(sqlstate::NOT_IN_STATE, "portal \"\" cannot be run"),
            Why::NotDrawn => {
                let what =
                    "the last value drawn from this sequence is not known to be this client's";
                Refusal::error(sqlstate::NOT_IN_STATE, what).hint(
                    "Use RETURNING, draw and ask in one transaction, or set last-values = \"keep\" \
                     for the user or the database.",
                )
            }
        };
        let mut out = Vec::new();
        refusal.encode(&mut out);
        out
    }

    /// Whether its task has something to do beside reading, once nothing is in flight.
    fn is_called(&self) -> bool {
        self.has_repeats() || self.is_killed() || self.parting.borrow().is_some()
    }

    /// Answers a round with an error, after which the client may go on, in a transaction or not.
    pub fn refuse(&self, refusal: &Refusal, status: Status) {
        let mut out = Vec::new();
        refusal.encode(&mut out);
        backend::put_ready_for_query(&mut out, status);
        self.outlet.send(&out);
    }

    /// Whether its transaction, of which no server has heard, has failed.
    #[inline]
    pub fn has_failed(&self) -> bool {
        self.failed.get()
    }

    pub fn set_failed(&self, failed: bool) {
        self.failed.set(failed);
    }

    /// A cancel request came.
    pub fn cancel(&self) {
        if self.in_flight() > 0 || self.seen.waits.get().is_some() {
            self.cancel.set(true);
        }
        self.wake();
    }

    /// It has a server connection for itself, or none.
    pub fn set_leased(&self, target: Option<Target>) {
        *self.leased.borrow_mut() = target;
    }

    /// Its statement waits for a server until the guard goes.
    pub fn waits(self: &Rc<Self>, since: Instant) -> ServerWait {
        if self.in_flight() == 0 {
            // One that came before is not for this one.
            self.cancel.set(false);
        }
        self.seen.waits.set(Some(since));
        ServerWait(self.clone())
    }

    /// Ready when the statement that waits for a server is not to: it was cancelled, or its client
    /// is to be closed.
    pub fn poll_called_off(&self, cx: &mut Context<'_>) -> Poll<CalledOff> {
        if self.is_killed() || self.outlet.is_closed() {
            return Poll::Ready(CalledOff::Closed);
        }
        if self.wants_cancel() {
            return Poll::Ready(CalledOff::Cancelled);
        }
        self.park(cx);
        Poll::Pending
    }

    /// The server connection that it has for itself.
    pub fn leased(&self) -> Option<Target> {
        self.leased.borrow().clone()
    }

    /// Whether a cancel was asked for what is in flight.
    pub fn wants_cancel(&self) -> bool {
        self.cancel.get()
    }

    /// Closes the client with these words once it has had its answers and no transaction is open.
    pub fn part(&self, refusal: Refusal) {
        *self.parting.borrow_mut() = Some(refusal);
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

    /// Why it is to be closed, once it may be.
    pub fn parting(&self) -> Option<Refusal> {
        self.killed().or_else(|| self.parting.borrow().clone())
    }

    /// Closes the client with these words, whatever it is doing on a server connection of its own.
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

    /// Ready when nothing is in flight any more.
    pub fn poll_settled(&self, cx: &mut Context<'_>) -> Poll<()> {
        let settled = self.in_flight() == 0;
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
        if self.in_flight() == 0 && self.is_called() {
            return Poll::Ready(());
        }
        self.park(cx);
        Poll::Pending
    }

    /// Ready when it was killed, or is to part and `may_part`.
    pub fn poll_killed(&self, cx: &mut Context<'_>, may_part: bool) -> Poll<()> {
        if self.is_killed() || (may_part && self.parting.borrow().is_some()) {
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

    /// Has its task look at what has changed.
    pub fn wake(&self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

/// Shows that a client's statement waits for a server, until this is dropped.
pub struct ServerWait(Rc<Client>);

impl Drop for ServerWait {
    fn drop(&mut self) {
        self.0.seen.waits.set(None);
        // One that came too late is not for what it asks next.
        self.0.cancel.set(false);
    }
}

/// Why a statement need not wait for a server any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CalledOff {
    /// Its client has had it cancelled.
    Cancelled,
    /// Its client is closed, or is to be.
    Closed,
}
