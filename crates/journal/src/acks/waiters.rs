//! Those who wait for an acknowledgement, in the order of their records.

use std::collections::VecDeque;
use std::task::Waker;

/// A timeout is checked so many times within its length, which is how exact it is.
pub(crate) const PERIODS: u64 = 8;

/// A FIFO of wakers. The time is counted in periods of the pump's one timer, so that neither a
/// timer nor a reading of the clock is needed per request.
#[derive(Debug, Default)]
pub(crate) struct Waiters {
    queue: VecDeque<Waiter>,
    period: u64,
    /// The pump's timer rests.
    pub idle: bool,
}

#[derive(Debug)]
struct Waiter {
    number: u64,
    since: u64,
    waker: Option<Waker>,
}

impl Waiters {
    /// Puts a waker in its place in the order of numbers; almost always that is the end. A number
    /// that is there already gets the newer waker. Gives the period since which it has waited:
    /// this one where it is not said.
    pub fn register(&mut self, number: u64, since: Option<u64>, waker: &Waker) -> u64 {
        let at = match self.queue.back() {
            Some(last) if last.number >= number => {
                self.queue.partition_point(|waiter| waiter.number < number)
            }
            _ => self.queue.len(),
        };
        if let Some(waiter) = self.queue.get_mut(at).filter(|w| w.number == number) {
            waiter.waker = Some(waker.clone());
            return waiter.since;
        }
        let since = since.unwrap_or(self.period);
        self.queue.insert(at, Waiter { number, since, waker: Some(waker.clone()) });
        since
    }

    /// Whether nobody waits any more.
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// The period that the time is counted by.
    pub fn period(&self) -> u64 {
        self.period
    }

    /// Forgets the waker of a waiter that has gone; the pump passes over its place.
    pub fn leave(&mut self, number: u64) {
        let at = self.queue.partition_point(|waiter| waiter.number < number);
        if let Some(waiter) = self.queue.get_mut(at).filter(|w| w.number == number) {
            waiter.waker = None;
        }
    }

    /// Moves the wakers of all waiters up to a number to `ready`.
    pub fn take_up_to(&mut self, number: u64, ready: &mut Vec<Waker>) {
        while self.queue.front().is_some_and(|w| w.number <= number) {
            ready.extend(self.queue.pop_front().and_then(|waiter| waiter.waker));
        }
    }

    /// Ends a period, and moves the wakers of those whose time is up to `ready`.
    pub fn tick(&mut self, ready: &mut Vec<Waker>) {
        self.period += 1;
        let period = self.period;
        while self.queue.front().is_some_and(|w| overdue(w.since, period)) {
            ready.extend(self.queue.pop_front().and_then(|waiter| waiter.waker));
        }
    }
}

/// A waiter came somewhere within its first period, so that one is not counted.
pub(crate) fn overdue(since: u64, period: u64) -> bool {
    period.saturating_sub(since) > PERIODS
}

#[cfg(test)]
mod tests {
    use super::{PERIODS, Waiters};
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::sync::{Arc, Mutex};
    use std::task::{Wake, Waker};

    struct Log(u64, Arc<Mutex<Vec<u64>>>, AtomicU64);

    impl Wake for Log {
        fn wake(self: Arc<Self>) {
            self.2.fetch_add(1, Ordering::Relaxed);
            self.1.lock().unwrap().push(self.0);
        }
    }

    fn woken(waiters: &mut Waiters, up_to: u64, log: &Mutex<Vec<u64>>) -> Vec<u64> {
        let mut ready = Vec::new();
        waiters.take_up_to(up_to, &mut ready);
        ready.into_iter().for_each(Waker::wake);
        std::mem::take(&mut log.lock().unwrap())
    }

    #[test]
    fn waiters_are_woken_in_the_order_of_their_records() {
        let log = Arc::new(Mutex::new(Vec::new()));
        let waker = |n| Waker::from(Arc::new(Log(n, log.clone(), AtomicU64::new(0))));
        let mut waiters = Waiters::default();
        for number in [3, 1, 2, 5, 4, 2] {
            waiters.register(number, None, &waker(number));
        }
        waiters.leave(3);
        assert_eq!(woken(&mut waiters, 4, &log), [1, 2, 4]);
        assert!(woken(&mut waiters, 4, &log).is_empty());
        assert_eq!(woken(&mut waiters, 9, &log), [5]);
    }

    #[test]
    fn a_waiter_has_its_whole_time() {
        let mut waiters = Waiters::default();
        let mut ready = Vec::new();
        waiters.tick(&mut ready);
        waiters.register(1, None, Waker::noop());
        for _ in 0..PERIODS {
            waiters.tick(&mut ready);
            assert!(ready.is_empty());
        }
        waiters.register(2, None, Waker::noop());
        waiters.tick(&mut ready);
        assert_eq!(ready.len(), 1);
    }
}
