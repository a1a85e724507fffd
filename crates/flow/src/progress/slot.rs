//! What is known of one connection.

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;
use std::task::Waker;
use std::time::{Duration, Instant};

use super::busiest::Look;
use super::{Limits, Phase, Slow};
use crate::clock::CoarseClock;

/// How long, at the rate that is demanded, what a body has brought may take to come again: it is
/// held in memory meanwhile.
const BODY_HELD: Duration = Duration::from_secs(600);
/// The least time of which bytes are counted as a rate.
const LOOK_MIN: Duration = Duration::from_millis(900);

/// One connection's phase and times. On one thread, so plain cells do.
pub(super) struct Slot {
    limits: Rc<Limits>,
    clock: CoarseClock,
    phase: Cell<Phase>,
    /// When the phase began.
    since: Cell<Instant>,
    /// When bytes came last in this phase, and how many in all.
    read_at: Cell<Instant>,
    received: Cell<u64>,
    /// By when a body must bring more.
    due: Cell<Option<Instant>>,
    /// Since when the client has taken nothing of what is to be written.
    blocked: Cell<Option<Instant>>,
    /// How long it may go on taking nothing.
    patience: Cell<Duration>,
    closed: Cell<Option<Slow>>,
    /// Whether somebody wants to know if the client has gone, and whether it has.
    watched: Cell<bool>,
    left: Cell<bool>,
    /// The task to wake when the connection is closed from here.
    waker: RefCell<Option<Waker>>,
    traffic: Traffic,
}

/// What operators see of a connection.
struct Traffic {
    /// Where the client comes from, but over a Unix socket.
    address: Option<SocketAddr>,
    user: RefCell<Option<Box<str>>>,
    /// Bytes from the client, and to it.
    bytes: Cell<[u64; 2]>,
    /// Since when the client has heard nothing, where it has asked for something.
    asked: Cell<Option<Instant>>,
    /// When it was looked at last, how many bytes there were, and what was seen.
    looked: Cell<(Instant, [u64; 2], Look)>,
}

impl Traffic {
    fn add(&self, received: usize, sent: usize) {
        let [all_received, all_sent] = self.bytes.get();
        self.bytes.set([all_received + received as u64, all_sent + sent as u64]);
    }

    /// Bytes in both directions since it was looked at last.
    fn since_look(&self) -> [u64; 2] {
        let ([received, sent], (_, before, _)) = (self.bytes.get(), self.looked.get());
        [received - before[0], sent - before[1]]
    }
}

impl Slot {
    pub(super) fn new(limits: Rc<Limits>, clock: CoarseClock, address: Option<SocketAddr>) -> Self {
        let now = clock.now();
        let traffic = Traffic {
            address,
            user: RefCell::default(),
            bytes: Cell::default(),
            asked: Cell::new(None),
            looked: Cell::new((now, [0; 2], Look::default())),
        };
        Self {
            traffic,
            patience: Cell::new(limits.write.unwrap_or(Duration::MAX)),
            limits,
            clock,
            phase: Cell::new(Phase::Idle),
            since: Cell::new(now),
            read_at: Cell::new(now),
            received: Cell::new(0),
            due: Cell::new(None),
            blocked: Cell::new(None),
            closed: Cell::new(None),
            watched: Cell::new(false),
            left: Cell::new(false),
            waker: RefCell::new(None),
        }
    }

    pub(super) fn limits(&self) -> &Limits {
        &self.limits
    }

    pub(super) fn address(&self) -> Option<SocketAddr> {
        self.traffic.address
    }

    pub(super) fn user(&self) -> Option<String> {
        self.traffic.user.borrow().as_deref().map(str::to_owned)
    }

    pub(super) fn set_user(&self, user: Option<&str>) {
        let mut known = self.traffic.user.borrow_mut();
        if known.as_deref() != user {
            *known = user.map(Box::from);
        }
    }

    /// What has happened in the last second or so; the bytes of it are counted.
    pub(super) fn look(&self, now: Instant) -> Look {
        let Traffic { bytes, asked, looked, .. } = &self.traffic;
        let (at, _, last) = looked.get();
        let passed = now.saturating_duration_since(at);
        if passed < LOOK_MIN {
            return last;
        }
        let since = |asked: Instant| now.saturating_duration_since(asked).as_secs_f64();
        let passed_on = self.traffic.since_look();
        self.limits.count_bytes(passed_on);
        let rate = passed_on.iter().sum::<u64>() as f64 / passed.as_secs_f64();
        let look = Look { rate, waiting: asked.get().map_or(0.0, since) };
        looked.set((now, bytes.get(), look));
        look
    }

    #[inline]
    pub(super) fn answered(&self, bytes: usize) {
        self.traffic.add(0, bytes);
        self.traffic.asked.set(None);
    }

    pub(super) fn phase(&self) -> Phase {
        self.phase.get()
    }

    pub(super) fn watch(&self, watched: bool) {
        self.watched.set(watched);
        self.left.set(false);
    }

    #[inline]
    pub(super) fn is_watched(&self) -> bool {
        self.watched.get() && !self.left.get()
    }

    pub(super) fn leave(&self) {
        self.left.set(true);
    }

    pub(super) fn client_left(&self) -> bool {
        self.left.get()
    }

    pub(super) fn closed(&self) -> Option<Slow> {
        self.closed.get()
    }

    pub(super) fn enter(&self, phase: Phase) {
        let now = self.clock.now();
        self.phase.set(phase);
        self.since.set(now);
        self.read_at.set(now);
        self.received.set(0);
        match phase {
            Phase::Body => self.due.set(self.body_limit(now)),
            Phase::Idle => self.patience.set(self.write_limit()),
            Phase::Header | Phase::Serving => {}
        }
    }

    fn write_limit(&self) -> Duration {
        self.limits.write.unwrap_or(Duration::MAX)
    }

    /// The latest moment by which a body must bring more, whatever it has brought.
    fn body_limit(&self, now: Instant) -> Option<Instant> {
        let limit = self.limits.body.filter(|_| self.limits.body_rate > 0)?;
        now.checked_add(limit)
    }

    #[inline]
    pub(super) fn read(&self, bytes: usize) {
        if bytes == 0 {
            return;
        }
        if self.phase.get() == Phase::Idle {
            self.enter(Phase::Header);
        }
        let now = self.clock.now();
        self.traffic.add(bytes, 0);
        if self.traffic.asked.get().is_none() {
            self.traffic.asked.set(Some(now));
        }
        self.read_at.set(now);
        self.received.set(self.received.get() + bytes as u64);
        if let Some(due) = self.due.get().filter(|_| self.phase.get() == Phase::Body) {
            let rate = self.limits.body_rate.max(self.received.get() / BODY_HELD.as_secs());
            // What came early does not count for later than one that begins now may take.
            self.due.set(self.body_limit(now).map(|latest| latest.min(due + worth(bytes, rate))));
        }
    }

    #[inline]
    pub(super) fn wrote(&self) {
        if self.blocked.take().is_some() {
            self.patience.set(self.write_limit());
        }
    }

    /// Only the time for which it has taken nothing counts against a client.
    #[inline]
    pub(super) fn took(&self, bytes: usize) {
        self.answered(bytes);
        let rate = self.limits.answer_rate;
        if rate == 0 {
            return self.wrote();
        }
        let (since, limit) = (self.blocked.take(), self.write_limit());
        let patience = self.patience.get();
        if since.is_some() || patience < limit {
            let waited = since.map(|since| self.clock.now().saturating_duration_since(since));
            let left = patience.saturating_sub(waited.unwrap_or_default());
            self.patience.set(left.saturating_add(worth(bytes, rate)).min(limit));
        }
    }

    #[inline]
    pub(super) fn blocked(&self) {
        if self.blocked.get().is_none() {
            self.blocked.set(Some(self.clock.now()));
        }
    }

    /// Remembers whom to wake. Almost always it is the same task, and nothing is cloned.
    #[inline]
    pub(super) fn park(&self, waker: &Waker) {
        let mut parked = self.waker.borrow_mut();
        if !parked.as_ref().is_some_and(|parked| parked.will_wake(waker)) {
            *parked = Some(waker.clone());
        }
    }

    /// Closes the connection if it is overdue.
    pub(super) fn check(&self, now: Instant) {
        if self.closed.get().is_some() {
            return;
        }
        if let Some(slow) = self.overdue(now) {
            self.close(slow);
        }
    }

    /// Closes the connection, and wakes the task that is to hear of it.
    pub(super) fn close(&self, slow: Slow) {
        self.closed.set(Some(slow));
        self.limits.closed[slow as usize].inc();
        let parked = self.waker.take();
        if let Some(parked) = parked {
            parked.wake();
        }
    }

    fn overdue(&self, now: Instant) -> Option<Slow> {
        let over = |since: Instant, limit: Option<Duration>| {
            limit.is_some_and(|limit| now.saturating_duration_since(since) > limit)
        };
        let limits = &*self.limits;
        let patience = limits.write.map(|_| self.patience.get());
        if self.blocked.get().is_some_and(|since| over(since, patience)) {
            return Some(Slow::Write);
        }
        let since = self.since.get();
        match self.phase.get() {
            Phase::Idle => over(since, limits.idle).then_some(Slow::Idle),
            Phase::Header => over(since, limits.header).then_some(Slow::Header),
            Phase::Body => {
                let late = self.due.get().is_some_and(|due| now > due);
                (late || over(self.read_at.get(), limits.body)).then_some(Slow::Body)
            }
            Phase::Serving => None,
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.limits.count_bytes(self.traffic.since_look());
    }
}

/// How long so many bytes may take at a rate of bytes a second.
fn worth(bytes: usize, rate: u64) -> Duration {
    Duration::from_nanos((bytes as u64).saturating_mul(1_000_000_000) / rate.max(1))
}

#[cfg(test)]
mod tests {
    use super::Slot;
    use crate::clock::CoarseClock;
    use crate::progress::{Limits, Phase, Slow, Timeouts};
    use std::rc::Rc;
    use std::time::Duration;
    use watch::metrics::Registry;

    fn slot() -> (Slot, CoarseClock) {
        let clock = CoarseClock::new();
        let timeouts = Timeouts { idle: units::Duration::from_secs(300), ..Timeouts::default() };
        let limits = Limits::new("test", &timeouts, &Registry::new());
        (Slot::new(Rc::new(limits), clock.clone(), None), clock)
    }

    fn after(clock: &CoarseClock, seconds: u64) {
        clock.set(clock.now() + Duration::from_secs(seconds));
    }

    fn overdue(slot: &Slot, clock: &CoarseClock) -> Option<Slow> {
        slot.overdue(clock.now())
    }

    #[test]
    fn each_phase_has_its_time() {
        let (slot, clock) = slot();
        after(&clock, 300);
        assert_eq!(overdue(&slot, &clock), None);
        after(&clock, 1);
        assert_eq!(overdue(&slot, &clock), Some(Slow::Idle));

        slot.read(1);
        assert_eq!(slot.phase(), Phase::Header);
        after(&clock, 6);
        slot.read(1);
        after(&clock, 5);
        assert_eq!(overdue(&slot, &clock), Some(Slow::Header), "bytes now and then do not help");

        slot.enter(Phase::Serving);
        after(&clock, 100_000);
        assert_eq!(overdue(&slot, &clock), None);
        slot.enter(Phase::Idle);
        assert_eq!(overdue(&slot, &clock), None);
    }

    #[test]
    fn a_body_must_neither_pause_nor_trickle() {
        let (slot, clock) = slot();
        slot.enter(Phase::Body);
        after(&clock, 31);
        assert_eq!(overdue(&slot, &clock), Some(Slow::Body));

        slot.enter(Phase::Body);
        let bytes_in_29_seconds = |bytes: usize| {
            after(&clock, 29);
            slot.read(bytes);
            overdue(&slot, &clock)
        };
        assert_eq!(bytes_in_29_seconds(20_000), None);
        assert_eq!(bytes_in_29_seconds(100), None);
        assert_eq!(bytes_in_29_seconds(100), Some(Slow::Body));

        slot.enter(Phase::Body);
        for _ in 0..20 {
            assert_eq!(bytes_in_29_seconds(15_000), None);
        }
    }

    #[test]
    fn a_fast_start_buys_no_idling() {
        let (slot, clock) = slot();
        slot.enter(Phase::Body);
        // At the rate that is demanded they would last for fourteen hours.
        slot.read(25_000_000);
        let bytes_in_20_seconds = |bytes: usize| {
            after(&clock, 20);
            slot.read(bytes);
            overdue(&slot, &clock)
        };
        assert_eq!(bytes_in_20_seconds(1), None);
        assert_eq!(bytes_in_20_seconds(1), Some(Slow::Body));

        // The demanded rate is too slow for what is held.
        slot.enter(Phase::Body);
        slot.read(25_000_000);
        let slow = (0..100).find_map(|_| {
            after(&clock, 1);
            slot.read(500);
            overdue(&slot, &clock)
        });
        assert_eq!(slow, Some(Slow::Body));
        slot.enter(Phase::Body);
        slot.read(20_000_000);
        for _ in 0..100 {
            after(&clock, 1);
            slot.read(50_000);
            assert_eq!(overdue(&slot, &clock), None);
        }
    }

    #[test]
    fn a_client_that_takes_a_few_bytes_at_a_time_is_cut_off() {
        let (slot, clock) = slot();
        let taking = |bytes: usize| {
            slot.enter(Phase::Idle);
            slot.enter(Phase::Serving);
            (0..100).find_map(|_| {
                slot.blocked();
                after(&clock, 10);
                let slow = overdue(&slot, &clock);
                slot.took(bytes);
                slow
            })
        };
        assert_eq!(taking(1_000), Some(Slow::Write));
        assert_eq!(taking(100_000), None);
        // For what is not ready yet nobody is to blame.
        slot.enter(Phase::Idle);
        slot.enter(Phase::Serving);
        for _ in 0..100 {
            slot.blocked();
            slot.took(1_000);
            after(&clock, 100);
            assert_eq!(overdue(&slot, &clock), None);
        }
    }

    #[test]
    fn a_client_waits_from_its_first_byte_to_its_answer() {
        let (slot, clock) = slot();
        let look = || slot.look(clock.now());
        after(&clock, 2);
        assert_eq!((look().rate, look().waiting), (0.0, 0.0));
        slot.read(100);
        after(&clock, 2);
        slot.read(100);
        after(&clock, 2);
        let seen = look();
        assert_eq!((seen.rate, seen.waiting), (50.0, 4.0));
        slot.answered(300);
        after(&clock, 1);
        let seen = look();
        assert_eq!((seen.rate, seen.waiting), (300.0, 0.0));
        assert_eq!(look().rate, 300.0, "the same second");
        assert_eq!(slot.user(), None);
        slot.set_user(Some("ada"));
        assert_eq!(slot.user().as_deref(), Some("ada"));
    }

    #[test]
    fn an_answer_must_be_taken_in_any_phase() {
        let (slot, clock) = slot();
        slot.enter(Phase::Serving);
        slot.blocked();
        after(&clock, 20);
        slot.blocked();
        after(&clock, 11);
        assert_eq!(overdue(&slot, &clock), Some(Slow::Write));
        slot.wrote();
        assert_eq!(overdue(&slot, &clock), None);
    }
}
