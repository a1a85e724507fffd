//! Those who wait for an acknowledgement, in the order of their records, and the one task per
//! worker that wakes them.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use crate::core::{Core, lock};
use crate::error::AckError;
use crate::inlet::Inlet;

/// A timeout is checked so many times within its length, which is how exact it is.
const PERIODS: u64 = 8;

/// A FIFO of wakers. The time is counted in periods of the pump's one timer, so that neither a
/// timer nor a reading of the clock is needed per request.
#[derive(Debug, Default)]
pub(crate) struct Waiters {
    queue: VecDeque<Waiter>,
    period: u64,
    /// The pump's timer rests.
    idle: bool,
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
    fn register(&mut self, number: u64, since: Option<u64>, waker: &Waker) -> u64 {
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

    /// The period that the time is counted by.
    pub fn period(&self) -> u64 {
        self.period
    }

    /// Forgets the waker of a waiter that has gone; the pump passes over its place.
    fn leave(&mut self, number: u64) {
        let at = self.queue.partition_point(|waiter| waiter.number < number);
        if let Some(waiter) = self.queue.get_mut(at).filter(|w| w.number == number) {
            waiter.waker = None;
        }
    }

    /// Moves the wakers of all waiters up to a number to `ready`.
    fn take_up_to(&mut self, number: u64, ready: &mut Vec<Waker>) {
        while self.queue.front().is_some_and(|w| w.number <= number) {
            ready.extend(self.queue.pop_front().and_then(|waiter| waiter.waker));
        }
    }

    /// Ends a period, and moves the wakers of those whose time is up to `ready`.
    fn tick(&mut self, ready: &mut Vec<Waker>) {
        self.period += 1;
        let period = self.period;
        while self.queue.front().is_some_and(|w| overdue(w.since, period)) {
            ready.extend(self.queue.pop_front().and_then(|waiter| waiter.waker));
        }
    }
}

/// A waiter came somewhere within its first period, so that one is not counted.
fn overdue(since: u64, period: u64) -> bool {
    period.saturating_sub(since) > PERIODS
}

/// Waits for the acknowledgement of one record.
pub(crate) async fn wait(
    core: &Arc<Core>,
    inlet: &Arc<Inlet>,
    number: u64,
) -> Result<(), AckError> {
    let _left = Left { inlet, number };
    let mut since = None;
    poll_fn(|context| poll(core, inlet, number, &mut since, context)).await
}

/// Looks whether a record is acknowledged, and leaves the waker where it is not; `since` is the
/// period in which this was first asked, kept for the next time.
pub(crate) fn poll(
    core: &Arc<Core>,
    inlet: &Arc<Inlet>,
    number: u64,
    since: &mut Option<u64>,
    context: &Context<'_>,
) -> Poll<Result<(), AckError>> {
    if inlet.acknowledged() >= number {
        return Poll::Ready(Ok(()));
    }
    let mut waiters = lock(&inlet.waiters);
    if since.is_some_and(|since| overdue(since, waiters.period)) {
        core.metrics.ack_timeouts.inc();
        return Poll::Ready(Err(AckError::Timeout));
    }
    let registered = waiters.register(number, *since, context.waker());
    since.get_or_insert(registered);
    if std::mem::take(&mut waiters.idle) {
        inlet.pump.notify_one();
    }
    drop(waiters);
    // Looked at again after registering: the journal thread may have come in between.
    if inlet.acknowledged() >= number {
        return Poll::Ready(Ok(()));
    }
    if let Some(refusal) = core.gate.refusal() {
        return Poll::Ready(Err(refusal));
    }
    if core.is_stopped() {
        return Poll::Ready(Err(AckError::Closed));
    }
    if !inlet.pumping.swap(true, Ordering::AcqRel) {
        tokio::spawn(pump(core.clone(), inlet.clone()));
    }
    Poll::Pending
}

/// Takes the waiter out of the queue when its future is dropped, done or not.
struct Left<'a> {
    inlet: &'a Inlet,
    number: u64,
}

impl Drop for Left<'_> {
    fn drop(&mut self) {
        if self.inlet.acknowledged() < self.number {
            lock(&self.inlet.waiters).leave(self.number);
        }
    }
}

/// Lets the next waiter start the pump again, should its runtime be shut down.
struct Pumping(Arc<Inlet>);

impl Drop for Pumping {
    fn drop(&mut self) {
        self.0.pumping.store(false, Ordering::Release);
    }
}

/// Wakes waiters when the journal thread says so, and those whose time is up. A task of its own
/// on the worker's runtime: the journal thread then wakes one task a group, and no connection
/// that is not polled can hold up the others.
async fn pump(core: Arc<Core>, inlet: Arc<Inlet>) {
    let pumping = Pumping(inlet);
    let inlet = &pumping.0;
    let period = core.settings.ack_timeout.get() / PERIODS as u32;
    let mut tick = tokio::time::interval(period.max(Duration::from_millis(1)));
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut ready = Vec::new();
    let mut idle = false;
    loop {
        let ticked = tokio::select! {
            biased;
            () = inlet.pump.notified() => false,
            _ = tick.tick(), if !idle => true,
        };
        let mut waiters = lock(&inlet.waiters);
        waiters.take_up_to(inlet.acknowledged(), &mut ready);
        if ticked {
            waiters.tick(&mut ready);
        }
        // No timer runs when a whole period has passed without anyone waiting; the next one to
        // come then wakes the pump.
        idle = waiters.queue.is_empty() && (ticked || idle);
        waiters.idle = idle;
        let over = core.is_stopped() || core.gate.poisoned().is_some();
        if over || core.gate.refusal().is_some() {
            waiters.take_up_to(u64::MAX, &mut ready);
        }
        drop(waiters);
        for waker in ready.drain(..) {
            waker.wake();
        }
        if over || inlet.abandoned.load(Ordering::Acquire) {
            return;
        }
    }
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
