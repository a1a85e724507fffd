//! What a pool does by itself: ends connections whose time has come, keeps some open, and lets
//! others have what it does not need.

use std::cmp::Reverse;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use super::budget::Account;
use super::{Group, Opener, PoolState, Settings};

/// How often it looks, and how often while somebody waits for what others have.
const TURN: Duration = Duration::from_secs(1);
const TURN_WANTED: Duration = Duration::from_millis(50);

/// Looks after a pool until that is gone.
pub(super) async fn run<S: Opener>(pool: Weak<PoolState<S>>, changed: Arc<Notify>) {
    let mut pause = TURN;
    loop {
        // Whether the time was over or something changed, it is looked at all.
        let _ = tokio::time::timeout(pause, changed.notified()).await;
        let Some(pool) = pool.upgrade() else { return };
        pause = turn(&pool);
    }
}

fn turn<S: Opener>(pool: &Rc<PoolState<S>>) -> Duration {
    let now = Instant::now();
    let accounts = pool.accounts.borrow().clone();
    let mut groups: Vec<_> = pool.groups.borrow().values().cloned().collect();
    if !accounts.is_empty() {
        // Whoever has waited for longest is first to have what there is room for.
        groups.sort_by_key(|group| Reverse(group.figures().longest));
    }
    accounts.iter().for_each(|account| account.look_anew());
    let mut hurry = false;
    for group in &groups {
        if let Some(settings) = group.settings() {
            group.end_overdue(&settings, now);
        }
        hurry |= group.make_way(now);
        group.open_more();
    }
    for account in accounts.iter().filter(|account| account.feeds()) {
        hurry = true;
        // One is enough, of a group whose own clients wait for least.
        for group in groups.iter().rev().filter(|group| group.counts_towards(account)) {
            if group.gives_up_one() {
                break;
            }
        }
    }
    for account in &accounts {
        hurry |= account.settle();
    }
    for account in accounts.iter().filter(|account| account.is_waited_for()) {
        hurry = true;
        // One is enough here, too.
        for group in groups.iter().rev().filter(|group| group.counts_towards(account)) {
            if group.gives_up_unused() {
                break;
            }
        }
    }
    drop(groups);
    pool.groups.borrow_mut().retain(|_, group| !group.is_unused());
    if hurry { TURN_WANTED } else { TURN }
}

impl<S: Opener> Group<S> {
    /// Closes idle connections that are too old, or idle for too long.
    fn end_overdue(&self, settings: &Settings, now: Instant) {
        let count = self.0.active.get() + self.0.idle.borrow().len();
        let mut spare = count.saturating_sub(settings.idle_min);
        let mut overdue = Vec::new();
        // The oldest is last.
        let mut at = self.0.idle.borrow().len();
        while at > 0 {
            at -= 1;
            let mut idle = self.0.idle.borrow_mut();
            let Some(kept) = idle.get(at) else { break };
            let idled = now.saturating_duration_since(kept.idle_since);
            let too_long = spare > 0 && settings.idle_time.is_some_and(|limit| idled > limit);
            if too_long || self.is_outdated(kept, now) {
                spare = spare.saturating_sub(1);
                overdue.extend(idle.remove(at));
            }
        }
        overdue.into_iter().for_each(|kept| self.discard(kept));
    }

    /// Closes idle connections that another pool waits for: at once what is beyond this pool's
    /// share, the rest when it has not been used for a moment. Whether there is more to come.
    fn make_way(&self, now: Instant) -> bool {
        for account in &self.0.accounts {
            while account.is_wanted() {
                let Some(since) = self.idle_since() else { break };
                let idled = now.saturating_duration_since(since);
                if !account.is_owed() && idled < TURN_WANTED {
                    return true;
                }
                self.close_one_idle();
            }
        }
        false
    }

    /// Has a connection that is lent for long come back soon, unless one idles that can be closed.
    fn gives_up_one(&self) -> bool {
        self.idle_since().is_none() && self.0.opener.give_up_one(&self.0.key)
    }

    /// Has a connection that is lent for long and not used come back, unless one idles that can be
    /// closed.
    fn gives_up_unused(&self) -> bool {
        self.idle_since().is_none() && self.0.opener.give_up_unused(&self.0.key, TURN_WANTED)
    }

    /// Since when the connection idles that was not used for longest.
    pub(super) fn idle_since(&self) -> Option<Instant> {
        self.0.idle.borrow().back().map(|kept| kept.idle_since)
    }

    /// Closes the idle connection that was not used for longest; false where none idles.
    pub(super) fn close_one_idle(&self) -> bool {
        let kept = self.0.idle.borrow_mut().pop_back();
        kept.map(|kept| self.discard(kept)).is_some()
    }

    pub(super) fn counts_towards(&self, account: &Rc<Account>) -> bool {
        self.0.accounts.iter().any(|own| Rc::ptr_eq(own, account))
    }

    /// Whether nobody has it but the pool, and nothing is in it.
    fn is_unused(&self) -> bool {
        let figures = self.figures();
        Rc::strong_count(&self.0) == 1
            && figures.active + figures.idle + figures.opening + figures.waiting == 0
    }
}
