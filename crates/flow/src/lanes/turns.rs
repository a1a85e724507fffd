//! Those who wait for a lane, in their order.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fmt;
use std::rc::{Rc, Weak};
use std::task::{Context, Poll, Waker};
use std::time::Instant;

/// A line of those who wait.
#[derive(Default)]
pub(super) struct Turns(Rc<RefCell<TurnQueue>>);

/// Those who wait and were not called, by when they came.
#[derive(Default)]
struct TurnQueue {
    came: u64,
    line: BTreeMap<u64, Weak<Inner>>,
}

#[derive(Default)]
struct Inner {
    is_called: Cell<bool>,
    waker: RefCell<Option<Waker>>,
}

/// A place among those who wait for a lane. Whoever is called and goes without having used the
/// call hands it on.
pub struct Turn {
    number: u64,
    since: Instant,
    inner: Rc<Inner>,
    waiting: Rc<RefCell<TurnQueue>>,
}

impl Turns {
    /// A place at the end.
    pub(super) fn join(&self) -> Turn {
        let inner = Rc::default();
        let mut waiting = self.0.borrow_mut();
        let number = waiting.came;
        waiting.came += 1;
        waiting.line.insert(number, Rc::downgrade(&inner));
        Turn { number, since: Instant::now(), inner, waiting: Rc::clone(&self.0) }
    }

    /// Whether nobody waits for a turn.
    pub(super) fn is_empty(&self) -> bool {
        self.0.borrow().line.is_empty()
    }

    /// Calls the first `count` of those who wait.
    pub(super) fn call(&self, count: usize) {
        call(&self.0, count);
    }
}

fn call(waiting: &RefCell<TurnQueue>, count: usize) {
    for _ in 0..count {
        // Not borrowed while waking.
        let first = waiting.borrow_mut().line.pop_first();
        let Some((_, first)) = first else { return };
        let Some(first) = first.upgrade() else { continue };
        first.is_called.set(true);
        if let Some(waker) = first.waker.take() {
            waker.wake();
        }
    }
}

impl Turn {
    /// Ready once it is this one's turn.
    pub fn poll_called(&self, cx: &mut Context<'_>) -> Poll<()> {
        if self.inner.is_called.get() {
            return Poll::Ready(());
        }
        *self.inner.waker.borrow_mut() = Some(cx.waker().clone());
        Poll::Pending
    }

    /// When it began to wait, from which `failure` tells older reasons from newer ones.
    pub fn since(&self) -> Instant {
        self.since
    }

    /// Whether it is this one's turn.
    pub fn is_called(&self) -> bool {
        self.inner.is_called.get()
    }

    /// There was no room after all: waits on, before those who came later.
    pub fn wait_on(&self) {
        self.inner.is_called.set(false);
        let inner = Rc::downgrade(&self.inner);
        self.waiting.borrow_mut().line.insert(self.number, inner);
    }

    /// The call was used.
    pub fn done(self) {
        self.inner.is_called.set(false);
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.waiting.borrow_mut().line.remove(&self.number);
        if self.inner.is_called.get() {
            call(&self.waiting, 1);
        }
    }
}

impl fmt::Debug for Turn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Turn").field("is_called", &self.is_called()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::Turns;

    #[test]
    fn those_who_wait_are_called_in_their_order() {
        let turns = Turns::default();
        let (a, b, c, d) = (turns.join(), turns.join(), turns.join(), turns.join());
        turns.call(1);
        assert!(a.is_called() && !b.is_called());
        turns.call(1);
        b.wait_on();
        a.wait_on();
        turns.call(1);
        assert!(a.is_called() && !b.is_called(), "it was first before");
        a.done();
        assert!(!b.is_called());
        turns.call(1);
        drop(b);
        assert!(c.is_called(), "whoever goes hands the call on");
        c.done();
        drop(d);
        assert!(turns.is_empty(), "those who have gone wait no more");
    }
}
