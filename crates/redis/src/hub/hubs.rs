//! The hubs of a worker, one for each account that has been subscribed to anything.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

use super::{Hub, Limits, Name};
use crate::commands::Kind;
use crate::fleet::{Fleet, View};
use crate::servers::accounts::Account;

/// All hubs of a worker.
pub struct Hubs {
    fleet: Arc<Fleet>,
    limits: Cell<Limits>,
    /// By the accounts' numbers.
    all: RefCell<HashMap<u64, Rc<Hub>>>,
}

impl Hubs {
    /// No hub yet; one is made at the first subscription.
    pub fn new(fleet: Arc<Fleet>, limits: Limits) -> Self {
        Self { fleet, limits: Cell::new(limits), all: RefCell::default() }
    }

    /// That of an account.
    pub fn of(&self, account: &Account) -> Rc<Hub> {
        let mut all = self.all.borrow_mut();
        let hub = all.entry(account.id()).or_insert_with(|| {
            Hub::new(Arc::clone(&self.fleet), account.login().clone(), self.limits.get())
        });
        Rc::clone(hub)
    }

    /// No client of an account is there any more.
    pub fn give_up(&self, account: &Account) {
        self.all.borrow_mut().remove(&account.id());
    }

    /// Has other limits hold from now on.
    pub fn set_limits(&self, limits: Limits) {
        self.limits.set(limits);
        self.each(|hub| hub.set_limits(limits));
    }

    /// The servers are others now.
    pub fn are_others(&self, view: &View) {
        self.each(|hub| hub.are_others(view));
    }

    /// Channels may be with other servers now.
    pub fn is_placed_anew(&self, is_at: impl Fn(Kind, &[u8], usize) -> bool) {
        self.each(|hub| hub.is_placed_anew(&is_at));
    }

    /// How many clients of this worker are subscribed to this, whoever they are.
    pub fn count(&self, kind: Kind, name: &[u8]) -> usize {
        self.all.borrow().values().map(|hub| hub.count(kind, name)).sum()
    }

    /// The patterns that clients of this worker are subscribed to.
    pub fn patterns(&self) -> HashSet<Name> {
        self.all.borrow().values().flat_map(|hub| hub.patterns()).collect()
    }

    fn each(&self, what: impl Fn(&Hub)) {
        // Not borrowed meanwhile: a client that is closed may look here.
        let all: Vec<_> = self.all.borrow().values().cloned().collect();
        all.iter().for_each(|hub| what(hub));
    }
}

impl fmt::Debug for Hubs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hubs").field("all", &self.all.borrow().len()).finish_non_exhaustive()
    }
}
