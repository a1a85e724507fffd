//! The connections of one key.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::fmt;
use std::rc::{Rc, Weak};
use std::time::{Duration, Instant};

use super::budget::Account;
use super::lease::{PooledConnection, Seat, Wait};
use super::{Counts, Figures, Lease, LeaseError, Opener, PoolState, Settings};

/// The connections of one key on one worker. Clones are the same group.
pub struct Group<S: Opener>(pub(super) Rc<Inner<S>>);

pub(super) struct Inner<S: Opener> {
    pub(super) key: S::Key,
    pub(super) pool: Weak<PoolState<S>>,
    pub(super) opener: Rc<S>,
    pub(super) counts: Counts,
    pub(super) accounts: Vec<Rc<Account>>,
    /// The newest is lent first, so that those beyond need come to be idle for long.
    pub(super) idle: RefCell<VecDeque<PooledConnection<S::Connection>>>,
    line: RefCell<VecDeque<Rc<Seat<S>>>>,
    /// Seats in line that nobody sits on any more.
    gone: Cell<usize>,
    pub(super) active: Cell<usize>,
    pub(super) opening: Cell<usize>,
    pub(super) generation: Cell<u64>,
    /// Why the last attempt to open a connection failed.
    pub(super) failure: RefCell<Option<Failure<S::Error>>>,
    pub(super) paused: Cell<bool>,
    pub(super) closed: Cell<bool>,
}

/// An attempt to open a connection failed.
pub(super) struct Failure<E> {
    pub(super) error: E,
    pub(super) is_final: bool,
    pub(super) at: Instant,
}

impl<S: Opener> Group<S> {
    pub(super) fn new(pool: &Rc<PoolState<S>>, key: S::Key, accounts: Vec<Rc<Account>>) -> Self {
        Self(Rc::new(Inner {
            key,
            pool: Rc::downgrade(pool),
            opener: Rc::clone(&pool.opener),
            counts: pool.counts.clone(),
            accounts,
            idle: RefCell::default(),
            line: RefCell::default(),
            gone: Cell::new(0),
            active: Cell::new(0),
            opening: Cell::new(0),
            generation: Cell::new(0),
            failure: RefCell::default(),
            paused: Cell::new(false),
            closed: Cell::new(false),
        }))
    }

    /// What its connections are alike for.
    pub fn key(&self) -> &S::Key {
        &self.0.key
    }

    /// A connection for one client: the idle one for which `prefer` gives most, of equal ones the
    /// one that was used last; else waits in line until `deadline`.
    ///
    /// # Errors
    /// There was none in time, or there can be none.
    pub async fn lease(
        &self,
        prefer: impl Fn(&S::Connection) -> u8,
        deadline: Instant,
    ) -> Result<Lease<S>, LeaseError<S::Error>> {
        if self.0.closed.get() {
            return Err(LeaseError::Closed);
        }
        if let Some(lease) = self.try_lease(prefer) {
            return Ok(lease);
        }
        if let Some(error) = self.refused() {
            return Err(LeaseError::Open(error));
        }
        let wait = Wait::new(self);
        let since = wait.since();
        let leased = tokio::time::timeout_at(deadline.into(), wait).await;
        let leased = leased.unwrap_or_else(|_| {
            let failure = self.0.failure.borrow();
            let error = failure.as_ref().map(|failure| failure.error.clone());
            Err(error.map_or(LeaseError::Late, LeaseError::Open))
        });
        leased.map(|lease| lease.waited_for(since.elapsed()))
    }

    /// Somebody has waited for so long, whatever came of it.
    pub(super) fn count_wait(&self, time: Duration) {
        self.0.counts.waited.observe(time);
    }

    /// Why there can be no connection, where that was found out just now.
    fn refused(&self) -> Option<S::Error> {
        let failure = self.0.failure.borrow();
        let failure = failure.as_ref().filter(|failure| failure.is_final && self.is_bare())?;
        let retry = self.settings()?.retry;
        let holds =
            failure.at.elapsed() < retry && !self.0.opener.may_be_let_in(&self.0.key, failure.at);
        holds.then(|| failure.error.clone())
    }

    /// Whether no connection is open.
    pub(super) fn is_bare(&self) -> bool {
        self.0.active.get() == 0 && self.0.idle.borrow().is_empty()
    }

    /// How its connections are kept; `None` once the pool is gone.
    pub(super) fn settings(&self) -> Option<Settings> {
        let pool = self.0.pool.upgrade()?;
        let all = pool.settings.borrow();
        Some(self.0.opener.settings(&self.0.key, &all))
    }

    /// As [`lease`](Self::lease), without waiting.
    pub fn try_lease(&self, prefer: impl Fn(&S::Connection) -> u8) -> Option<Lease<S>> {
        if self.0.paused.get() {
            return None;
        }
        loop {
            let mut kept = self.best(&prefer)?;
            // A connection that ended while it idled is no reason for an error.
            if self.0.opener.is_good(&mut kept.connection) {
                self.0.counts.waited.observe_ns(0);
                return Some(Lease::new(self.clone(), kept));
            }
            self.discard(kept);
        }
    }

    fn best(
        &self,
        prefer: &impl Fn(&S::Connection) -> u8,
    ) -> Option<PooledConnection<S::Connection>> {
        let mut idle = self.0.idle.borrow_mut();
        let mut best: Option<(usize, u8)> = None;
        for (at, kept) in idle.iter().enumerate() {
            let score = prefer(&kept.connection);
            if best.is_none_or(|(_, most)| score > most) {
                best = Some((at, score));
            }
            if score == u8::MAX {
                break;
            }
        }
        idle.remove(best?.0)
    }

    /// What is going on.
    pub fn figures(&self) -> Figures {
        let line = self.0.line.borrow();
        let first = line.iter().find(|seat| !seat.is_gone());
        Figures {
            active: self.0.active.get(),
            idle: self.0.idle.borrow().len(),
            opening: self.0.opening.get(),
            waiting: self.waiting(),
            longest: first.map_or(Duration::ZERO, |seat| seat.since.elapsed()),
        }
    }

    /// Lends nothing until it is called with false. Those who ask meanwhile wait in line.
    pub fn pause(&self, paused: bool) {
        self.0.paused.set(paused);
        while !paused && !self.0.line.borrow().is_empty() {
            let Some(kept) = self.0.idle.borrow_mut().pop_front() else { break };
            self.put_back(kept);
        }
        self.open_more();
    }

    /// Closes the connections that are open now, those that are lent once they are given back.
    pub fn reconnect(&self) {
        self.0.generation.set(self.0.generation.get() + 1);
        self.close_idle();
    }

    /// Closes the connections that idle.
    pub fn close_idle(&self) {
        while self.close_one_idle() {}
    }

    /// Lends nothing any more.
    pub fn close(&self) {
        self.0.closed.set(true);
        self.reconnect();
        self.fail_all(&LeaseError::Closed);
    }

    /// Tells everybody in line that there will be no connection.
    pub(super) fn fail_all(&self, why: &LeaseError<S::Error>) {
        let line = std::mem::take(&mut *self.0.line.borrow_mut());
        self.0.gone.set(0);
        line.iter().filter(|seat| !seat.is_gone()).for_each(|seat| seat.call(Err(why.clone())));
    }

    pub(super) fn lent(&self, more: isize) {
        self.0.active.set(self.0.active.get().saturating_add_signed(more));
    }

    /// A connection that nobody uses: for the first in line, for another worker, or idle.
    pub(super) fn put_back(&self, kept: PooledConnection<S::Connection>) {
        let owed = self.0.accounts.iter().any(|account| account.is_owed());
        if owed { self.discard(kept) } else { self.provide(kept) }
    }

    /// A connection for the first in line, or idle.
    pub(super) fn provide(&self, mut kept: PooledConnection<S::Connection>) {
        let now = Instant::now();
        if self.is_outdated(&kept, now) {
            return self.discard(kept);
        }
        if !self.0.paused.get()
            && let Some(seat) = self.first_in_line()
        {
            return seat.call(Ok(kept));
        }
        kept.idle_since = now;
        self.0.idle.borrow_mut().push_front(kept);
        if self.0.accounts.iter().any(|account| account.is_wanted()) {
            self.notify();
        }
    }

    pub(super) fn is_outdated(&self, kept: &PooledConnection<S::Connection>, now: Instant) -> bool {
        kept.generation != self.0.generation.get()
            || self.0.closed.get()
            || kept.ends.is_some_and(|ends| ends <= now)
    }

    /// Closes a connection, and opens another if somebody waits.
    pub(super) fn discard(&self, kept: PooledConnection<S::Connection>) {
        let PooledConnection { connection, held, .. } = kept;
        self.0.opener.close(connection);
        drop(held);
        self.closed_one();
    }

    /// There is room for another one.
    pub(super) fn closed_one(&self) {
        self.0.counts.closed.inc();
        if !self.0.line.borrow().is_empty() {
            self.open_more();
        }
    }

    fn first_in_line(&self) -> Option<Rc<Seat<S>>> {
        let mut line = self.0.line.borrow_mut();
        loop {
            let seat = line.pop_front()?;
            if !seat.is_gone() {
                return Some(seat);
            }
            self.0.gone.set(self.0.gone.get().saturating_sub(1));
        }
    }

    pub(super) fn queue(&self, seat: Rc<Seat<S>>) {
        self.0.line.borrow_mut().push_back(seat);
        self.open_more();
    }

    /// Somebody in line has gone. Their seats are taken out when they are the most.
    pub(super) fn left_line(&self) {
        let mut line = self.0.line.borrow_mut();
        self.0.gone.set(self.0.gone.get() + 1);
        if self.0.gone.get() > line.len() / 2 {
            line.retain(|seat| !seat.is_gone());
            self.0.gone.set(0);
        }
    }

    pub(super) fn waiting(&self) -> usize {
        self.0.line.borrow().len() - self.0.gone.get()
    }

    /// Has the pool's own task look at it.
    fn notify(&self) {
        if let Some(pool) = self.0.pool.upgrade() {
            pool.changed.notify_one();
        }
    }
}

impl<S: Opener> Clone for Group<S> {
    fn clone(&self) -> Self {
        Self(Rc::clone(&self.0))
    }
}

impl<S: Opener> fmt::Debug for Group<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.figures().fmt(f)
    }
}
