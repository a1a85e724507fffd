//! What one thread sends: its pacing, the request that each connection has, and whom to wake. What
//! came of requests is recorded elsewhere.

use std::task::{Context, Waker};
use std::time::{Duration, Instant};

use super::Stop;
use super::pacing::{ConnectionStep, Job, Pacing};

/// A connection, as the tasks of its thread see it.
#[derive(Debug)]
struct Slot {
    request: SlotRequest,
    /// Wakes the connection's task.
    waker: Option<Waker>,
}

/// The request of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SlotRequest {
    /// The connection waits for one, or is being opened.
    Free,
    /// The pacer gave it one, which its task has not sent yet.
    Assigned(Job),
    UnderWay {
        since: Instant,
        /// It has taken too long, or the run does not wait for it.
        is_expired: bool,
    },
}

/// How the pacer, which hands out requests, wakes.
#[derive(Debug)]
struct PacerAlarm {
    waker: Option<Waker>,
    /// When it wakes by itself.
    at: Instant,
}

/// What a thread has to send, and on which connections.
#[derive(Debug)]
pub struct Sending {
    pub pacing: Pacing,
    pub stop: Stop,
    slots: Vec<Slot>,
    pacer: PacerAlarm,
    /// Nothing more is sent.
    is_over: bool,
}

impl Sending {
    /// The connections are all taken for busy: each says when it is free.
    pub fn new(pacing: Pacing, connections: usize, stop: Stop, begin: Instant) -> Self {
        let slot = || Slot { request: SlotRequest::Free, waker: None };
        let pacer = PacerAlarm { waker: None, at: begin };
        let slots = (0..connections).map(|_| slot()).collect();
        Self { pacing, stop, slots, pacer, is_over: false }
    }

    /// Decides what a connection does that has been free `since`.
    pub fn freed(&mut self, connection: usize, since: Instant) -> ConnectionStep {
        if self.is_over {
            self.pacing.finish(connection, since);
            return ConnectionStep::End;
        }
        // Who stops a run has nothing more sent, and not only from the next tick on.
        let step = self.pacing.freed(connection, since, self.stop.is_asked());
        if self.has_work_for_pacer() {
            self.wake_pacer();
        }
        step
    }

    /// Gives a connection its request, and wakes it.
    pub fn assign(&mut self, connection: usize, job: Job) {
        self.slots[connection].request = SlotRequest::Assigned(job);
        self.wake(connection);
    }

    /// Takes the request that a connection was given while it waited.
    pub fn take_assigned(&mut self, connection: usize) -> Option<Job> {
        let SlotRequest::Assigned(job) = self.slots[connection].request else { return None };
        self.slots[connection].request = SlotRequest::Free;
        Some(job)
    }

    /// A connection has sent its request.
    pub fn begin(&mut self, connection: usize, since: Instant) {
        self.slots[connection].request = SlotRequest::UnderWay { since, is_expired: false };
    }

    /// A connection has its answer, or none will come.
    pub fn settle(&mut self, connection: usize) {
        self.slots[connection].request = SlotRequest::Free;
    }

    /// Whether nobody waits for the answer of a connection any longer.
    pub fn is_expired(&self, connection: usize) -> bool {
        matches!(self.slots[connection].request, SlotRequest::UnderWay { is_expired: true, .. })
    }

    /// Waits for a connection's answer until the next tick.
    pub fn extend(&mut self, connection: usize) {
        if let SlotRequest::UnderWay { is_expired, .. } = &mut self.slots[connection].request {
            *is_expired = false;
        }
    }

    /// Gives up requests that have been under way for too long; all of them where nobody waits.
    pub fn expire(&mut self, now: Instant, timeout: Duration, all: bool) {
        for slot in &mut self.slots {
            let mut is_late = false;
            if let SlotRequest::UnderWay { since, is_expired } = &mut slot.request {
                is_late = now.duration_since(*since) >= timeout;
                *is_expired |= is_late || all;
            }
            if let Some(waker) = slot.waker.as_ref().filter(|_| is_late || all) {
                waker.wake_by_ref();
            }
        }
    }

    /// Whether what follows on an answer is not sent any more.
    pub fn is_past_end(&self, now: Instant) -> bool {
        self.is_over || self.pacing.is_past_end(now)
    }

    /// Whether nothing more is sent.
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    /// Sends nothing more from now on, and wakes all connections, so that they end.
    pub fn end(&mut self) {
        self.is_over = true;
        (0..self.slots.len()).for_each(|connection| self.wake(connection));
    }

    /// Remembers whom to wake for a connection.
    pub fn listen(&mut self, connection: usize, cx: &Context<'_>) {
        listen(&mut self.slots[connection].waker, cx);
    }

    fn wake(&self, connection: usize) {
        if let Some(waker) = &self.slots[connection].waker {
            waker.wake_by_ref();
        }
    }

    /// The pacer wakes by itself then.
    pub fn set_alarm(&mut self, at: Instant) {
        self.pacer.at = at;
    }

    /// Remembers whom to wake for the pacer.
    pub fn listen_as_pacer(&mut self, cx: &Context<'_>) {
        listen(&mut self.pacer.waker, cx);
    }

    /// Whether the pacer is to go on before its alarm.
    pub fn has_work_for_pacer(&self) -> bool {
        self.pacing.has_work_before(self.pacer.at) || self.pacing.is_used_up()
    }

    /// Wakes the pacer before its alarm.
    pub fn wake_pacer(&self) {
        if let Some(waker) = &self.pacer.waker {
            waker.wake_by_ref();
        }
    }
}

fn listen(waker: &mut Option<Waker>, cx: &Context<'_>) {
    match waker {
        Some(waker) => waker.clone_from(cx.waker()),
        none => *none = Some(cx.waker().clone()),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::task::{Context, Wake, Waker};
    use std::time::{Duration, Instant};

    use super::Sending;
    use crate::engine::Stop;
    use crate::engine::pacing::{ClosedLoop, ConnectionStep, Numbers, Pacing};

    const SECOND: Duration = Duration::from_secs(1);

    #[derive(Default)]
    struct WakeCounter(AtomicU64);

    impl Wake for WakeCounter {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// A closed loop of two connections; each counts how often it is woken.
    fn sending(begin: Instant) -> (Sending, [Arc<WakeCounter>; 2]) {
        let closed = ClosedLoop::new(2, begin + SECOND, Numbers::new(0, 1, None), None);
        let mut sending = Sending::new(Pacing::Closed(closed), 2, Stop::default(), begin);
        let counters = [0, 1].map(|connection| {
            let counter = Arc::<WakeCounter>::default();
            let waker = Waker::from(Arc::clone(&counter));
            sending.listen(connection, &Context::from_waker(&waker));
            counter
        });
        (sending, counters)
    }

    fn woken(counters: &[Arc<WakeCounter>; 2]) -> [u64; 2] {
        [0, 1].map(|connection: usize| counters[connection].0.load(Ordering::Relaxed))
    }

    #[test]
    fn a_request_that_has_taken_too_long_expires_and_no_other_one_does() {
        let begin = Instant::now();
        let (mut sending, counters) = sending(begin);
        sending.begin(0, begin);
        sending.begin(1, begin + SECOND / 2);
        sending.expire(begin + SECOND, SECOND, false);
        assert_eq!((sending.is_expired(0), sending.is_expired(1)), (true, false));
        assert_eq!(woken(&counters), [1, 0]);
        // Something has come that is not read yet: it has until the next tick.
        sending.extend(0);
        assert!(!sending.is_expired(0));
        sending.settle(0);
        sending.expire(begin + 2 * SECOND, SECOND, true);
        assert_eq!((sending.is_expired(0), sending.is_expired(1)), (false, true));
    }

    #[test]
    fn a_connection_that_waits_takes_what_it_was_given_once() {
        let begin = Instant::now();
        let (mut sending, counters) = sending(begin);
        let ConnectionStep::Send(job) = sending.freed(1, begin) else { panic!() };
        sending.assign(1, job);
        assert_eq!((sending.take_assigned(0), sending.take_assigned(1)), (None, Some(job)));
        assert_eq!((sending.take_assigned(1), woken(&counters)), (None, [0, 1]));
    }

    #[test]
    fn when_it_is_over_all_connections_end() {
        let begin = Instant::now();
        let (mut sending, counters) = sending(begin);
        assert!(!sending.is_past_end(begin));
        sending.end();
        assert!(sending.is_over() && sending.is_past_end(begin));
        assert_eq!((sending.freed(0, begin), woken(&counters)), (ConnectionStep::End, [1, 1]));
    }
}
