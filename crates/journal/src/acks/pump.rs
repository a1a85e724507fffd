//! Waiting for an acknowledgement, and the one task a worker that wakes those who do.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Duration;

use super::Acks;
use super::queue::AppendQueue;
use super::waiters::{PERIODS, overdue};
use crate::error::AckError;

impl Acks {
    /// Waits for the acknowledgement of one record. The future may be dropped at any time. Must be
    /// awaited on a tokio runtime with its timer enabled.
    pub async fn wait(
        self: &Arc<Self>,
        queue: &Arc<AppendQueue>,
        number: u64,
    ) -> Result<(), AckError> {
        let _waiter = WaiterGuard { queue, number };
        let mut since = None;
        poll_fn(|context| self.poll(queue, number, &mut since, context)).await
    }

    /// Looks whether a record is acknowledged, and leaves the waker where it is not; `since` is
    /// the period in which this was first asked, kept for the next time.
    pub fn poll(
        self: &Arc<Self>,
        queue: &Arc<AppendQueue>,
        number: u64,
        since: &mut Option<u64>,
        context: &Context<'_>,
    ) -> Poll<Result<(), AckError>> {
        if queue.acknowledged() >= number {
            return Poll::Ready(Ok(()));
        }
        let mut waiters = queue.waiters();
        if since.is_some_and(|since| overdue(since, waiters.period())) {
            self.timeouts.inc();
            return Poll::Ready(Err(AckError::Timeout));
        }
        let registered = waiters.register(number, *since, context.waker());
        since.get_or_insert(registered);
        if std::mem::take(&mut waiters.idle) {
            queue.wake_pump();
        }
        drop(waiters);
        // Looked at again after registering: the journal thread may have come in between.
        if queue.acknowledged() >= number {
            return Poll::Ready(Ok(()));
        }
        if let Some(refusal) = self.gate.refusal() {
            return Poll::Ready(Err(refusal));
        }
        if self.is_stopped() {
            return Poll::Ready(Err(AckError::Closed));
        }
        if !queue.pumping.swap(true, Ordering::AcqRel) {
            tokio::spawn(pump(self.clone(), queue.clone()));
        }
        Poll::Pending
    }
}

/// Takes the waiter out of the queue when its future is dropped, done or not.
struct WaiterGuard<'a> {
    queue: &'a AppendQueue,
    number: u64,
}

impl Drop for WaiterGuard<'_> {
    fn drop(&mut self) {
        if self.queue.acknowledged() < self.number {
            self.queue.waiters().leave(self.number);
        }
    }
}

/// Lets the next waiter start the pump again, should its runtime be shut down.
struct Pumping(Arc<AppendQueue>);

impl Drop for Pumping {
    fn drop(&mut self) {
        self.0.pumping.store(false, Ordering::Release);
    }
}

/// Wakes waiters when the journal thread says so, and those whose time is up. A task of its own
/// on the worker's runtime: the journal thread then wakes one task a group, and no connection
/// that is not polled can hold up the others.
async fn pump(acks: Arc<Acks>, queue: Arc<AppendQueue>) {
    let pumping = Pumping(queue);
    let queue = &pumping.0;
    let period = acks.timeout / PERIODS as u32;
    let mut tick = tokio::time::interval(period.max(Duration::from_millis(1)));
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut ready = Vec::new();
    let mut idle = false;
    loop {
        let ticked = tokio::select! {
            biased;
            () = queue.pump.notified() => false,
            _ = tick.tick(), if !idle => true,
        };
        let mut waiters = queue.waiters();
        waiters.take_up_to(queue.acknowledged(), &mut ready);
        if ticked {
            waiters.tick(&mut ready);
        }
        // No timer runs when a whole period has passed without anyone waiting; the next one to
        // come then wakes the pump.
        idle = waiters.is_empty() && (ticked || idle);
        waiters.idle = idle;
        let over = acks.is_stopped() || acks.gate.poisoned().is_some();
        if over || acks.gate.refusal().is_some() {
            waiters.take_up_to(u64::MAX, &mut ready);
        }
        drop(waiters);
        for waker in ready.drain(..) {
            waker.wake();
        }
        if over || queue.is_abandoned() {
            return;
        }
    }
}
