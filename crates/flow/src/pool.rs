//! Server connections that are lent to one client at a time.
//!
//! A pool belongs to one worker; what it shares with those of other workers are [`Budget`]s. It
//! never opens a connection on the way of a request that could do with one that is idle, and
//! never lets anybody overtake who waits for the same connections.
//!
//! The one path: [`Pool::group`] finds the connections of a key; [`Group::lease`] gives the idle
//! one that suits best, else waits in line while connections are opened by tasks of their own;
//! [`Lease::give_back`] hands the connection to the first in line, or lets it idle.

mod budget;
mod group;
mod keep;
mod lease;
mod open;
#[cfg(test)]
mod tests;

use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt;
use std::hash::Hash;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use watch::metrics::{Counter, Histogram, Registry};

use budget::Account;
pub use budget::Budget;
pub use group::Group;
pub use lease::{Lease, Tenure};

/// Whose connections a pool lends.
pub trait Opener: 'static {
    /// What connections are alike for.
    type Key: Clone + Eq + Hash + 'static;
    /// A server connection that is logged in and can be lent.
    type Connection: 'static;
    /// Why there is none. All that wait hear of it.
    type Error: Clone + 'static;

    /// Opens a connection, in a task of its own.
    fn open(
        self: Rc<Self>,
        key: Self::Key,
    ) -> impl Future<Output = Result<Self::Connection, OpenError<Self::Error>>> + 'static;

    /// The budgets that a connection of `key` counts towards. Asked once for a group.
    fn budgets(&self, key: &Self::Key) -> Vec<Budget>;

    /// Whether an idle connection is still good: the server may have closed it meanwhile. Asked
    /// before each lease, so it must be cheap.
    fn is_good(&self, connection: &mut Self::Connection) -> bool {
        let _ = connection;
        true
    }

    /// How connections of `key` are kept, where that is not as it is for `all`.
    fn settings(&self, key: &Self::Key, all: &Settings) -> Settings {
        let _ = key;
        all.clone()
    }

    /// Whether what was refused at `at` for good may be let in by now.
    fn may_be_let_in(&self, key: &Self::Key, at: Instant) -> bool {
        let _ = (key, at);
        false
    }

    /// Another worker has none that counts where those of `key` do, and waits: one that is lent for
    /// long, as to a lane, is to come back soon. Whether one is.
    fn give_up_one(&self, key: &Self::Key) -> bool {
        let _ = key;
        false
    }

    /// Somebody waits for a connection that counts where those of `key` do, and none is free: one
    /// that is lent for long, and that nobody has used for `unused`, as to a lane without a
    /// request, is to come back. Whether one is.
    fn give_up_unused(&self, key: &Self::Key, unused: Duration) -> bool {
        let _ = (key, unused);
        false
    }

    /// A connection that the pool is done with: says goodbye, or simply drops it.
    fn close(&self, connection: Self::Connection) {
        drop(connection);
    }
}

/// A connection could not be opened.
#[derive(Debug, Clone)]
pub struct OpenError<E> {
    /// Why it failed, as those who wait are told.
    pub error: E,
    /// Whether another attempt would fail as well: a wrong password, a database that does not
    /// exist. Those who wait are told at once when nothing else is open.
    pub is_final: bool,
}

/// Why there is no lease.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LeaseError<E> {
    /// No connection came free in time.
    #[error("no server connection came free in time")]
    Late,
    /// None could be opened, and none came free in time.
    #[error("no server connection could be opened")]
    Open(E),
    /// The pool was closed.
    #[error("server connections are being closed")]
    Closed,
}

/// How a group's connections are kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Connections of one group on this worker.
    pub size_max: usize,
    /// Connections that are opened at a time: a server forks a process for each.
    pub opening_max: usize,
    /// Connections that are kept open for a group that was ever used.
    pub idle_min: usize,
    /// How long a connection may idle beyond `idle_min`.
    pub idle_time: Option<Duration>,
    /// How old a connection may become. Each ends at its own time in the last tenth, so that they
    /// do not all end at once.
    pub age: Option<Duration>,
    /// The waits after failures to open: the first at most, and all at most.
    pub backoff: (Duration, Duration),
    /// After a failure that is final, for how long nobody tries again where nothing is open: those
    /// who ask meanwhile hear of it at once.
    pub retry: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            size_max: usize::MAX,
            opening_max: 4,
            idle_min: 0,
            idle_time: Some(Duration::from_secs(600)),
            age: Some(Duration::from_secs(3600)),
            backoff: (Duration::from_millis(50), Duration::from_secs(1)),
            retry: Duration::ZERO,
        }
    }
}

/// Where a pool counts. Those of several pools may be the same.
#[derive(Debug, Clone, Default)]
pub struct Counts {
    /// How long leases were waited for, those that were not included.
    pub waited: Histogram,
    /// Connections that were opened and are ready for use.
    pub opened: Counter,
    /// Connections closed for any reason.
    pub closed: Counter,
    /// Attempts to open one that failed.
    pub failed: Counter,
}

impl Counts {
    /// The counts of a pool under these labels: how long leases were waited for as the histogram
    /// `waited`, which has its own help, and three counters `PREFIX_opened_total`,
    /// `PREFIX_closed_total` and `PREFIX_failed_total` of `connections`, as "Server connections".
    pub fn register(
        registry: &Registry,
        waited: (&str, &str),
        prefix: &str,
        connections: &str,
        labels: &[(&str, &str)],
    ) -> Self {
        let count = |what: &str, became: &str| {
            let help = format!("{connections} that {became}.");
            registry.counter(&format!("{prefix}_{what}_total"), &help, labels)
        };
        Self {
            waited: registry.histogram(waited.0, waited.1, labels),
            opened: count("opened", "were opened"),
            closed: count("closed", "were closed"),
            failed: count("failed", "could not be opened"),
        }
    }
}

/// A group at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Figures {
    /// Connections that are lent.
    pub active: usize,
    /// Connections that are not.
    pub idle: usize,
    /// Connections that are being opened.
    pub opening: usize,
    /// Those who wait for one.
    pub waiting: usize,
    /// How long the first of them has waited.
    pub longest: Duration,
}

impl Figures {
    /// Whether somebody waits, and nothing is there or on its way that could be for them.
    pub fn is_short(&self) -> bool {
        self.waiting > 0 && self.idle == 0 && self.opening == 0
    }
}

/// A worker's server connections. Clones are the same pool.
pub struct Pool<S: Opener>(Rc<PoolState<S>>);

struct PoolState<S: Opener> {
    opener: Rc<S>,
    settings: RefCell<Settings>,
    counts: Counts,
    groups: RefCell<HashMap<S::Key, Group<S>>>,
    accounts: RefCell<Vec<Rc<Account>>>,
    /// Tells the pool's own task that something changed at a budget.
    changed: Arc<Notify>,
}

impl<S: Opener> Pool<S> {
    /// A pool without connections. Needs the worker's runtime: a local task looks after it until
    /// it is dropped.
    pub fn new(opener: Rc<S>, settings: Settings, counts: Counts) -> Self {
        let changed = Arc::new(Notify::new());
        let shared = Rc::new(PoolState {
            opener,
            settings: RefCell::new(settings),
            counts,
            groups: RefCell::default(),
            accounts: RefCell::default(),
            changed: Arc::clone(&changed),
        });
        tokio::task::spawn_local(keep::run(Rc::downgrade(&shared), changed));
        Self(shared)
    }

    /// The connections of a key. Whoever leases often keeps this.
    pub fn group(&self, key: &S::Key) -> Group<S> {
        if let Some(group) = self.0.groups.borrow().get(key) {
            return group.clone();
        }
        let accounts = self.0.opener.budgets(key);
        let accounts = accounts.into_iter().map(|budget| self.0.account(budget)).collect();
        let group = Group::new(&self.0, key.clone(), accounts);
        self.0.groups.borrow_mut().insert(key.clone(), group.clone());
        group
    }

    /// See [`Group::lease`].
    ///
    /// # Errors
    /// As of `Group::lease`.
    pub async fn lease(
        &self,
        key: &S::Key,
        prefer: impl Fn(&S::Connection) -> u8,
        deadline: Instant,
    ) -> Result<Lease<S>, LeaseError<S::Error>> {
        self.group(key).lease(prefer, deadline).await
    }

    /// All groups there are.
    pub fn groups(&self) -> Vec<Group<S>> {
        self.0.groups.borrow().values().cloned().collect()
    }

    /// Closes the idle connections of a key, and forgets it where there are no others and nobody
    /// waits for one. Whether it is forgotten.
    pub fn forget(&self, key: &S::Key) -> bool {
        let Some(group) = self.0.groups.borrow().get(key).cloned() else { return true };
        group.close_idle();
        let figures = group.figures();
        let is_over = figures.active + figures.opening + figures.waiting == 0;
        if is_over {
            self.0.groups.borrow_mut().remove(key);
        }
        is_over
    }

    /// Looks at once whether those who wait can have what came to be idle.
    pub fn look(&self) {
        self.0.changed.notify_one();
    }

    /// Closes all connections that are open now, those that are lent once they are given back.
    pub fn reconnect(&self) {
        self.groups().iter().for_each(Group::reconnect);
    }

    /// Closes connections that idle.
    pub fn close_idle(&self) {
        self.groups().iter().for_each(Group::close_idle);
    }

    /// Lends nothing any more: those who wait are told, and what is given back is closed.
    pub fn close(&self) {
        self.groups().iter().for_each(Group::close);
    }

    /// Changes the settings for what is opened, lent and kept from now on.
    pub fn set_settings(&self, settings: Settings) {
        self.0.settings.replace(settings);
        self.0.changed.notify_one();
    }
}

impl<S: Opener> PoolState<S> {
    /// This pool's share of a budget.
    fn account(&self, budget: Budget) -> Rc<Account> {
        let mut accounts = self.accounts.borrow_mut();
        if let Some(account) = accounts.iter().find(|account| account.is_of(&budget)) {
            return Rc::clone(account);
        }
        let account = Rc::new(Account::open(budget, &self.changed));
        accounts.push(Rc::clone(&account));
        account
    }

    /// Closes the connection of this pool that counts towards `account` and idles for longest.
    fn give_way(&self, account: &Rc<Account>) -> bool {
        let groups: Vec<_> = self.groups.borrow().values().cloned().collect();
        let of_account = groups.iter().filter(|group| group.counts_towards(account));
        let idle = of_account.filter_map(|group| Some((group.idle_since()?, group)));
        let longest = idle.min_by_key(|(since, _)| *since);
        longest.is_some_and(|(_, group)| group.close_one_idle())
    }
}

impl<S: Opener> Clone for Pool<S> {
    fn clone(&self) -> Self {
        Self(Rc::clone(&self.0))
    }
}

impl<S: Opener> fmt::Debug for Pool<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool").field("groups", &self.0.groups.borrow().len()).finish()
    }
}
