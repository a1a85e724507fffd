//! Who has the machine: most tests share it, those that measure have it for themselves.
//!
//! These let all others go first, so that none of those waits for the longest of them to end: they
//! come together at the end of a run whose threads are more than they are.

use std::cell::{Cell, RefCell};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

/// How many tests share the machine: most of them wait, for servers and for time to pass.
const SHARING_MAX: usize = 5;

#[derive(Debug)]
struct Users {
    sharing: usize,
    is_one_alone: bool,
}

static USERS: Mutex<Users> = Mutex::new(Users { sharing: 0, is_one_alone: false });
static CHANGED: Condvar = Condvar::new();

thread_local! {
    /// The share of the test that this thread runs; it ends with the thread.
    static SHARE: RefCell<Option<Share>> = const { RefCell::new(None) };
    /// Whether the test of this thread has the machine for itself.
    static IS_ALONE: Cell<bool> = const { Cell::new(false) };
}

/// A test uses the machine beside others until this is dropped.
#[derive(Debug)]
struct Share;

impl Drop for Share {
    fn drop(&mut self) {
        users().sharing -= 1;
        CHANGED.notify_all();
    }
}

/// Nobody else uses the machine until this is dropped.
#[derive(Debug)]
pub struct Alone;

impl Drop for Alone {
    fn drop(&mut self) {
        IS_ALONE.set(false);
        users().is_one_alone = false;
        CHANGED.notify_all();
    }
}

fn users() -> MutexGuard<'static, Users> {
    USERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Lets the test of this thread use the machine beside others, from now to its end.
///
/// The threads that a test has started have no name and belong to its share.
pub(crate) fn share() {
    let is_test = thread::current().name().is_some();
    if !is_test || IS_ALONE.get() || SHARE.with_borrow(Option::is_some) {
        return;
    }
    let is_closed = |users: &mut Users| users.is_one_alone || users.sharing >= SHARING_MAX;
    let users = CHANGED.wait_while(users(), is_closed);
    users.unwrap_or_else(PoisonError::into_inner).sharing += 1;
    SHARE.set(Some(Share));
}

/// Waits until no other test uses the machine, and keeps them away from then on: for a test that
/// measures time or memory. Comes before anything that the test starts.
#[must_use]
pub fn alone() -> Alone {
    drop(SHARE.take());
    let is_used = |users: &mut Users| users.is_one_alone || users.sharing > 0;
    let users = CHANGED.wait_while(users(), is_used);
    users.unwrap_or_else(PoisonError::into_inner).is_one_alone = true;
    IS_ALONE.set(true);
    Alone
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
    use std::thread;
    use std::time::Duration;

    use super::{SHARING_MAX, alone, share};

    /// Both kinds in one test, since the machine is one.
    #[test]
    fn whoever_is_alone_has_nobody_beside_it() {
        static SHARING: AtomicUsize = AtomicUsize::new(0);
        static IS_ONE_ALONE: AtomicBool = AtomicBool::new(false);
        let test = |n: usize| {
            let run = move || {
                let measures = n.is_multiple_of(3);
                let _alone = measures.then(alone);
                share();
                if measures {
                    assert!(!IS_ONE_ALONE.swap(true, Ordering::SeqCst));
                    assert_eq!(SHARING.load(Ordering::SeqCst), 0);
                    thread::sleep(Duration::from_millis(2));
                    IS_ONE_ALONE.store(false, Ordering::SeqCst);
                } else {
                    assert!(SHARING.fetch_add(1, Ordering::SeqCst) < SHARING_MAX);
                    assert!(!IS_ONE_ALONE.load(Ordering::SeqCst));
                    thread::sleep(Duration::from_millis(2));
                    SHARING.fetch_sub(1, Ordering::SeqCst);
                }
            };
            thread::Builder::new().name(format!("test {n}")).spawn(run).unwrap()
        };
        let tests: Vec<_> = (0..60).map(test).collect();
        tests.into_iter().for_each(|test| test.join().unwrap());
    }
}
