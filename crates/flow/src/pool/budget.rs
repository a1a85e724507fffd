//! How many connections there may be, over all workers, and how they come to whom needs them.
//!
//! A pool that is stuck at a budget says so there; the other pools hear of it and close what they
//! do not need, or what is beyond their share. Whoever waits is woken when a connection is closed.

use std::cell::Cell;
use std::collections::VecDeque;
use std::fmt;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::limit::{Limit, Permit};

/// For how long a pool may be stuck before others go below their share, where there are fewer
/// connections than workers.
const PATIENCE: Duration = Duration::from_millis(100);

/// A limit on connections that workers share. Clones are the same budget.
#[derive(Clone)]
pub struct Budget(Arc<BudgetState>);

struct BudgetState {
    limit: Limit,
    /// How many pools are stuck here.
    wanted: AtomicUsize,
    /// How many of them have no connection at all.
    starving: AtomicUsize,
    /// Since when, in milliseconds of `epoch`.
    since: AtomicU64,
    epoch: Instant,
    /// Locked when a pool comes, gets stuck, or lets go while another is stuck; never by a lease
    /// that finds a connection.
    pools: Mutex<Pools>,
}

#[derive(Default)]
struct Pools {
    /// All that count here. An index is a pool's number.
    all: Vec<Weak<Notify>>,
    /// Those that are stuck, in the order in which they came to be.
    stuck: VecDeque<usize>,
}

impl Budget {
    /// As many connections as `limit` allows.
    pub fn new(limit: Limit) -> Self {
        Self(Arc::new(BudgetState {
            limit,
            wanted: AtomicUsize::new(0),
            starving: AtomicUsize::new(0),
            since: AtomicU64::new(0),
            epoch: Instant::now(),
            pools: Mutex::default(),
        }))
    }

    /// How many there are and may be.
    pub fn limit(&self) -> &Limit {
        &self.0.limit
    }

    /// Changes how many there may be; those who wait hear of it.
    pub fn set_max(&self, max: usize) {
        if self.0.limit.max() != max {
            self.0.limit.set_max(max);
            self.tell_all();
        }
    }

    /// How many pools wait here for others to let go.
    pub fn wanted(&self) -> usize {
        self.0.wanted.load(Ordering::Relaxed)
    }

    /// A pool's number here; that of one that is gone is used again.
    fn join(&self, pool: &Arc<Notify>) -> usize {
        let mut pools = self.0.pools.lock();
        let pool = Arc::downgrade(pool);
        let gone = pools.all.iter().position(|pool| pool.strong_count() == 0);
        match gone.and_then(|at| Some((at, pools.all.get_mut(at)?))) {
            Some((at, place)) => {
                *place = pool;
                at
            }
            None => {
                pools.all.push(pool);
                pools.all.len() - 1
            }
        }
    }

    fn tell_all(&self) {
        let pools = self.0.pools.lock();
        pools.all.iter().filter_map(Weak::upgrade).for_each(|pool| pool.notify_one());
    }

    fn pools(&self) -> usize {
        self.0.pools.lock().all.iter().filter(|pool| pool.strong_count() > 0).count().max(1)
    }

    fn want(&self, pool: usize) {
        let mut pools = self.0.pools.lock();
        pools.stuck.push_back(pool);
        if self.0.wanted.fetch_add(1, Ordering::Relaxed) == 0 {
            self.note_since();
        }
        drop(pools);
        self.tell_all();
    }

    /// Whoever else waits has the patience of one who has just begun: the connection that became
    /// free would be taken away again at once.
    fn want_no_more(&self, pool: usize) {
        let mut pools = self.0.pools.lock();
        pools.stuck.retain(|stuck| *stuck != pool);
        self.note_since();
        self.0.wanted.fetch_sub(1, Ordering::Relaxed);
        drop(pools);
        self.tell_all();
    }

    /// Moves a pool that got something behind the others that wait.
    fn had_turn(&self, pool: usize) {
        let mut pools = self.0.pools.lock();
        pools.stuck.retain(|stuck| *stuck != pool);
        pools.stuck.push_back(pool);
        self.note_since();
    }

    fn is_first(&self, pool: usize) -> bool {
        self.0.pools.lock().stuck.front() == Some(&pool)
    }

    fn note_since(&self) {
        let since = self.0.epoch.elapsed().as_millis() as u64;
        self.0.since.store(since, Ordering::Relaxed);
    }

    fn is_urgent(&self) -> bool {
        let since = Duration::from_millis(self.0.since.load(Ordering::Relaxed));
        self.0.epoch.elapsed().saturating_sub(since) > PATIENCE
    }
}

impl PartialEq for Budget {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl fmt::Debug for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Budget")
            .field("limit", &self.0.limit)
            .field("wanted", &self.wanted())
            .finish_non_exhaustive()
    }
}

/// One pool's share of a budget.
#[derive(Debug)]
pub(super) struct Account {
    budget: Budget,
    /// The pool's number there.
    pool: usize,
    /// Connections of this pool that count here.
    own: Cell<usize>,
    stuck: Cell<bool>,
    /// It waits without any connection.
    starving: Cell<bool>,
    /// Whether a group found no room here since [`Account::look_anew`].
    refused: Cell<bool>,
}

impl Account {
    pub(super) fn open(budget: Budget, pool: &Arc<Notify>) -> Self {
        let pool = budget.join(pool);
        let (own, stuck, starving, refused) = Default::default();
        Self { budget, pool, own, stuck, starving, refused }
    }

    pub(super) fn is_of(&self, budget: &Budget) -> bool {
        self.budget == *budget
    }

    /// Room for one connection. While another waits, a pool with its share takes none, and where
    /// there are fewer connections than pools it is the turn of who waits for longest.
    pub(super) fn take(self: &Rc<Self>) -> Option<BudgetShare> {
        if self.is_wanted() {
            let others_turn = self.is_scarce() && !self.budget.is_first(self.pool);
            if others_turn || self.own.get() >= self.share() {
                return None;
            }
        }
        let permit = self.budget.0.limit.take()?;
        self.own.set(self.own.get() + 1);
        self.starve(false);
        if self.stuck.get() {
            self.budget.had_turn(self.pool);
        }
        Some(BudgetShare { account: Rc::clone(self), permit: Some(permit), tells: true })
    }

    /// Says that this pool can not open a connection that is waited for.
    pub(super) fn refuse(&self) {
        self.refused.set(true);
        self.starve(self.own.get() == 0);
        if !self.stuck.replace(true) {
            self.budget.want(self.pool);
        }
    }

    fn starve(&self, starves: bool) {
        let starving = &self.budget.0.starving;
        match (self.starving.replace(starves), starves) {
            (false, true) => drop(starving.fetch_add(1, Ordering::Relaxed)),
            (true, false) => drop(starving.fetch_sub(1, Ordering::Relaxed)),
            _ => {}
        }
    }

    /// Forgets who was refused; those who still are say so before [`settle`](Self::settle).
    pub(super) fn look_anew(&self) {
        self.refused.set(false);
    }

    /// Takes back that this pool waits if nobody was refused. Whether the pool waits.
    pub(super) fn settle(&self) -> bool {
        if !self.refused.get() && self.stuck.replace(false) {
            self.starve(false);
            self.budget.want_no_more(self.pool);
        }
        self.stuck.get()
    }

    /// This pool's part of the budget while others wait. Rounded up, or the last connection would
    /// go back and forth.
    fn share(&self) -> usize {
        self.budget.0.limit.max().div_ceil(self.budget.pools())
    }

    /// Whether another pool waits for one of ours to be closed.
    #[inline]
    pub(super) fn is_wanted(&self) -> bool {
        let wanted = self.budget.wanted();
        wanted > usize::from(self.stuck.get())
    }

    /// Whether any pool waits, this one or another, and all connections there may be are there: one
    /// that was given up already is soon had by whoever waits.
    pub(super) fn is_waited_for(&self) -> bool {
        let limit = &self.budget.0.limit;
        self.budget.wanted() > 0 && limit.used() >= limit.max()
    }

    /// Whether another pool waits that has no connection at all, and this one can do with one less,
    /// or is to take turns with it: even one that is used by many is given up then.
    pub(super) fn feeds(&self) -> bool {
        let starving = self.budget.0.starving.load(Ordering::Relaxed);
        starving > usize::from(self.starving.get()) && (self.own.get() > 1 || self.is_owed())
    }

    /// Whether another pool waits and this one has more than its share: even a connection that is
    /// waited for here is to be closed then. Where there are fewer connections than pools they
    /// take turns.
    #[inline]
    pub(super) fn is_owed(&self) -> bool {
        if !self.is_wanted() {
            return false;
        }
        self.own.get() > self.share() || (self.is_scarce() && self.budget.is_urgent())
    }

    fn is_scarce(&self) -> bool {
        self.budget.0.limit.max() < self.budget.pools()
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        self.refused.set(false);
        self.settle();
    }
}

/// A connection's place in a budget, given back when this goes.
#[derive(Debug)]
pub(super) struct BudgetShare {
    account: Rc<Account>,
    permit: Option<Permit>,
    tells: bool,
}

impl BudgetShare {
    /// Gives the place back without waking those who wait, since it was not for want of it that
    /// there is no connection: two pools would wake one another for ever.
    pub(super) fn forget(mut self) {
        self.tells = false;
    }
}

impl Drop for BudgetShare {
    fn drop(&mut self) {
        self.account.own.set(self.account.own.get() - 1);
        self.permit = None;
        if self.tells && self.account.budget.wanted() > 0 {
            self.account.budget.tell_all();
        }
    }
}
