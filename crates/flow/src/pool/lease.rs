//! A connection that is lent, and waiting for one.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use super::budget::BudgetShare;
use super::{Group, LeaseError, Opener};

/// A connection and what the pool knows of it.
pub(super) struct PooledConnection<C> {
    pub(super) connection: C,
    /// When it is too old.
    pub(super) ends: Option<Instant>,
    pub(super) idle_since: Instant,
    pub(super) generation: u64,
    pub(super) held: Vec<BudgetShare>,
}

/// A connection that one client has for itself. Dropping it closes the connection.
pub struct Lease<S: Opener> {
    group: Group<S>,
    /// Taken when it ends.
    kept: Option<PooledConnection<S::Connection>>,
    waited: Duration,
}

impl<S: Opener> Lease<S> {
    pub(super) fn new(group: Group<S>, kept: PooledConnection<S::Connection>) -> Self {
        group.lent(1);
        Self { group, kept: Some(kept), waited: Duration::ZERO }
    }

    pub(super) fn waited_for(mut self, waited: Duration) -> Self {
        self.waited = waited;
        self
    }

    /// How long it was waited for.
    pub fn waited(&self) -> Duration {
        self.waited
    }

    /// Gives the connection back, as good as it was: in between two transactions, with nothing
    /// unread.
    pub fn give_back(mut self) {
        if let Some(kept) = self.kept.take() {
            self.group.lent(-1);
            self.group.put_back(kept);
        }
    }

    /// Whether the connection is to be given back when it can be: it is too old, or of a former
    /// generation.
    pub fn is_outdated(&self) -> bool {
        self.kept.as_ref().is_none_or(|kept| self.group.is_outdated(kept, Instant::now()))
    }

    /// The group it is from.
    pub fn group(&self) -> &Group<S> {
        &self.group
    }

    /// Takes the connection out of the pool for good, for a lane. It counts as lent until the
    /// tenure goes.
    pub fn into_parts(mut self) -> Option<(S::Connection, Tenure<S>)> {
        let kept = self.kept.take()?;
        let tenure = Tenure { group: self.group.clone(), held: kept.held };
        Some((kept.connection, tenure))
    }
}

// The connection is there until `self` is taken.
impl<S: Opener> Deref for Lease<S> {
    type Target = S::Connection;

    fn deref(&self) -> &S::Connection {
        match &self.kept {
            Some(kept) => &kept.connection,
            None => unreachable!("a lease that was taken apart is gone"),
        }
    }
}

impl<S: Opener> DerefMut for Lease<S> {
    fn deref_mut(&mut self) -> &mut S::Connection {
        match &mut self.kept {
            Some(kept) => &mut kept.connection,
            None => unreachable!("a lease that was taken apart is gone"),
        }
    }
}

impl<S: Opener> Drop for Lease<S> {
    fn drop(&mut self) {
        if let Some(kept) = self.kept.take() {
            self.group.lent(-1);
            self.group.discard(kept);
        }
    }
}

impl<S: Opener> fmt::Debug for Lease<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lease").finish_non_exhaustive()
    }
}

/// The room that a connection takes which has left the pool.
pub struct Tenure<S: Opener> {
    group: Group<S>,
    held: Vec<BudgetShare>,
}

impl<S: Opener> Drop for Tenure<S> {
    fn drop(&mut self) {
        self.group.lent(-1);
        self.held.clear();
        self.group.closed_one();
    }
}

impl<S: Opener> fmt::Debug for Tenure<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tenure").finish_non_exhaustive()
    }
}

/// A place in the line.
pub(super) struct Seat<S: Opener> {
    pub(super) since: Instant,
    waker: RefCell<Option<Waker>>,
    outcome: RefCell<Option<Outcome<S>>>,
    /// Nobody sits here any more.
    gone: Cell<bool>,
}

type Outcome<S> =
    Result<PooledConnection<<S as Opener>::Connection>, LeaseError<<S as Opener>::Error>>;

impl<S: Opener> Seat<S> {
    pub(super) fn is_gone(&self) -> bool {
        self.gone.get()
    }

    /// Ends the wait with a connection or with why there is none.
    pub(super) fn call(&self, outcome: Outcome<S>) {
        self.outcome.replace(Some(outcome));
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

/// Waits in line for a connection.
pub(super) struct Wait<S: Opener> {
    group: Group<S>,
    seat: Rc<Seat<S>>,
    /// Whether it is over: the seat is out of the line.
    over: bool,
}

impl<S: Opener> Wait<S> {
    pub(super) fn new(group: &Group<S>) -> Self {
        let seat = Rc::new(Seat {
            since: Instant::now(),
            waker: RefCell::default(),
            outcome: RefCell::default(),
            gone: Cell::new(false),
        });
        group.queue(Rc::clone(&seat));
        Self { group: group.clone(), seat, over: false }
    }

    pub(super) fn since(&self) -> Instant {
        self.seat.since
    }
}

impl<S: Opener> Future for Wait<S> {
    type Output = Result<Lease<S>, LeaseError<S::Error>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let outcome = self.seat.outcome.take();
        match outcome {
            Some(outcome) => {
                self.over = true;
                Poll::Ready(outcome.map(|kept| Lease::new(self.group.clone(), kept)))
            }
            None => {
                self.seat.waker.replace(Some(cx.waker().clone()));
                Poll::Pending
            }
        }
    }
}

impl<S: Opener> Drop for Wait<S> {
    /// The wait counts however it ends. A connection that came too late goes to the next in line.
    fn drop(&mut self) {
        self.group.count_wait(self.seat.since.elapsed());
        self.seat.gone.set(true);
        match self.seat.outcome.take() {
            Some(Ok(kept)) => self.group.put_back(kept),
            None if !self.over => self.group.left_line(),
            _ => {}
        }
    }
}
