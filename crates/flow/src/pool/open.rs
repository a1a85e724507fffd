//! Opening connections, in tasks of their own.

use std::rc::Rc;
use std::time::Instant;

use rand::Rng as _;
use tokio::task::spawn_local;

use super::budget::BudgetShare;
use super::group::Failure;
use super::lease::PooledConnection;
use super::{Group, LeaseError, OpenError, Opener, PoolState, Settings};
use crate::backoff::Backoff;

/// Connections end at their own time in this part of their age.
const JITTER: f64 = 0.1;

impl<S: Opener> Group<S> {
    /// Opens as many connections as there are those in line without one under way, or as are to
    /// be kept open, and as limits allow.
    pub(super) fn open_more(&self) {
        let Some(pool) = self.0.pool.upgrade() else { return };
        let Some(settings) = self.settings() else { return };
        // Counted: a runtime that is being shut down drops what is spawned at once.
        for _ in 0..settings.opening_max.max(1) {
            if !self.wants_more(&settings) {
                return;
            }
            let Some(held) = self.room(&pool) else { return };
            spawn_local(Opening::new(self.clone()).run(held, settings.clone()));
        }
    }

    fn wants_more(&self, settings: &Settings) -> bool {
        let inner = &*self.0;
        if inner.paused.get() || inner.closed.get() {
            return false;
        }
        let opening = inner.opening.get();
        let all = inner.active.get() + inner.idle.borrow().len() + opening;
        // While attempts fail, one at a time finds out when they no longer do.
        let failing = inner.failure.borrow().is_some();
        let most = if failing { 1 } else { settings.opening_max.max(1) };
        let wanted = self.waiting() > opening || all < settings.idle_min;
        wanted && opening < most && all < settings.size_max
    }

    /// A place in each budget. Idle connections of this pool make way for those in line.
    fn room(&self, pool: &Rc<PoolState<S>>) -> Option<Vec<BudgetShare>> {
        let in_line = self.waiting() > 0;
        let mut all = Vec::with_capacity(self.0.accounts.len());
        for account in &self.0.accounts {
            let mut held = account.take();
            if held.is_none() && in_line && pool.give_way(account) {
                held = account.take();
            }
            match held {
                Some(held) => all.push(held),
                None => {
                    all.into_iter().for_each(BudgetShare::forget);
                    if in_line {
                        account.refuse();
                    }
                    return None;
                }
            }
        }
        Some(all)
    }
}

/// An attempt to open a connection, counted for as long as it is one.
struct Opening<S: Opener>(Group<S>);

impl<S: Opener> Opening<S> {
    fn new(group: Group<S>) -> Self {
        group.0.opening.set(group.0.opening.get() + 1);
        Self(group)
    }

    /// Tries until there is a connection or nobody waits for one.
    async fn run(self, mut held: Vec<BudgetShare>, settings: Settings) {
        let group = self.0.clone();
        let inner = &*group.0;
        let mut backoff = Backoff::new(settings.backoff.0, settings.backoff.1);
        loop {
            let generation = inner.generation.get();
            let opened = Rc::clone(&inner.opener).open(group.key().clone()).await;
            match opened {
                Ok(connection) => {
                    inner.counts.opened.inc();
                    inner.failure.replace(None);
                    drop(self);
                    let ends = ends(&settings);
                    let idle_since = Instant::now();
                    group.provide(PooledConnection {
                        connection,
                        ends,
                        idle_since,
                        generation,
                        held,
                    });
                    return group.open_more();
                }
                Err(failure) => {
                    drop(held);
                    group.failed(failure);
                }
            }
            // The line is looked at before and after the wait, so that an attempt which nobody
            // waits for ends at once.
            if group.waiting() == 0 {
                return;
            }
            backoff.wait().await;
            let Some(pool) = inner.pool.upgrade() else { return };
            let room = (group.waiting() > 0).then(|| group.room(&pool)).flatten();
            let Some(room) = room else { return };
            held = room;
        }
    }
}

impl<S: Opener> Group<S> {
    fn failed(&self, failure: OpenError<S::Error>) {
        self.0.counts.failed.inc();
        let OpenError { error, is_final } = failure;
        if is_final && self.is_bare() {
            self.fail_all(&LeaseError::Open(error.clone()));
        }
        self.0.failure.replace(Some(Failure { error, is_final, at: Instant::now() }));
    }
}

impl<S: Opener> Drop for Opening<S> {
    fn drop(&mut self) {
        self.0.0.opening.set(self.0.0.opening.get() - 1);
    }
}

fn ends(settings: &Settings) -> Option<Instant> {
    let part = 1.0 - rand::rng().random_range(0.0..JITTER);
    Instant::now().checked_add(settings.age?.mul_f64(part))
}
