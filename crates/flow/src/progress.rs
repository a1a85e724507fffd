//! Closing connections that take too long, without a timer for each request.
//!
//! A front end says in which [`Phase`] its connection is; [`Stream`](crate::stream::Stream) notes
//! when bytes move; the worker looks at all its connections about once a second, a few at each
//! tick. A phase therefore ends up to a second and a half after its time.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::rc::Rc;
use std::task::Waker;
use std::time::{Duration, Instant};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use watch::metrics::{Counter, Registry};
use watch::units;

use crate::clock::{CoarseClock, TICK};

/// How long clients may take. `"0"` is for ever.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Timeouts {
    /// From the first byte of a request to the end of its header.
    pub header: units::Duration,
    /// Between two pieces of a body; see also `body-rate`.
    pub body: units::Duration,
    /// Bytes a second that a body must bring on average after its first `body` time. 0 is no such
    /// demand.
    pub body_rate: u64,
    /// While the client takes no byte of an answer.
    pub write: units::Duration,
    /// Between two requests, and before the first.
    pub idle: units::Duration,
    /// For the TLS handshake.
    pub handshake: units::Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            header: units::Duration::from_secs(10),
            body: units::Duration::from_secs(30),
            body_rate: 500,
            write: units::Duration::from_secs(30),
            idle: units::Duration::from_secs(300),
            handshake: units::Duration::from_secs(10),
        }
    }
}

/// What a connection is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// No request is under way. The next byte from the client begins one.
    Idle,
    /// The beginning of a request has been read, but not all of its header.
    Header,
    /// A request's body is being read.
    Body,
    /// The request is complete and its answer is being made; the client is not to blame.
    Serving,
}

/// Why a connection was closed for being slow. Reads and writes then fail with
/// [`TimedOut`](std::io::ErrorKind::TimedOut) and this inside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Slow {
    /// Nothing came for too long.
    Idle,
    /// The header took too long.
    Header,
    /// The body took too long.
    Body,
    /// The client did not take the answer.
    Write,
}

impl Slow {
    const ALL: [Self; 4] = [Self::Idle, Self::Header, Self::Body, Self::Write];

    /// The name in metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Header => "header",
            Self::Body => "body",
            Self::Write => "write",
        }
    }
}

impl fmt::Display for Slow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Idle => "the connection was idle for too long",
            Self::Header => "the client took too long to send a request's header",
            Self::Body => "the client took too long to send a request's body",
            Self::Write => "the client took too long to read the answer",
        })
    }
}

impl std::error::Error for Slow {}

/// The time limits of one listener's connections, and how many it closed for each.
#[derive(Debug, Clone)]
pub struct Limits {
    header: Option<Duration>,
    body: Option<Duration>,
    body_rate: u64,
    write: Option<Duration>,
    idle: Option<Duration>,
    closed: [Counter; 4],
}

impl Limits {
    /// The limits for the listener `name`, with `weir_connections_slow_total{listener,phase}`.
    pub fn new(name: &str, timeouts: &Timeouts, registry: &Registry) -> Self {
        let limit = |limit: units::Duration| Some(limit.get()).filter(|limit| !limit.is_zero());
        Self {
            header: limit(timeouts.header),
            body: limit(timeouts.body),
            body_rate: timeouts.body_rate,
            write: limit(timeouts.write),
            idle: limit(timeouts.idle),
            closed: Slow::ALL.map(|slow| {
                registry.counter(
                    "weir_connections_slow_total",
                    "Connections closed because the client took too long.",
                    &[("listener", name), ("phase", slow.name())],
                )
            }),
        }
    }
}

/// A worker's connections. Clones are the same connections.
#[derive(Clone)]
pub struct Connections(Rc<Table>);

struct Table {
    clock: CoarseClock,
    slots: RefCell<Slots>,
}

#[derive(Default)]
struct Slots {
    slots: Vec<Option<Rc<Slot>>>,
    free: Vec<usize>,
    /// Where the next part of the sweep begins.
    next: usize,
}

/// What is known of a connection.
struct Slot {
    limits: Rc<Limits>,
    clock: CoarseClock,
    phase: Cell<Phase>,
    /// When the phase began.
    since: Cell<Instant>,
    /// When bytes came last.
    read_at: Cell<Instant>,
    /// Bytes that came in this phase.
    received: Cell<u64>,
    /// Since when the client has taken nothing of what is to be written.
    blocked: Cell<Option<Instant>>,
    closed: Cell<Option<Slow>>,
    /// The task to wake when the connection is closed from here.
    waker: RefCell<Option<Waker>>,
}

/// Parts in which all connections are looked at.
const PARTS: usize = (1000 / TICK.as_millis()) as usize;

impl Connections {
    pub(crate) fn new(clock: CoarseClock) -> Self {
        Self(Rc::new(Table { clock, slots: RefCell::default() }))
    }

    /// Adds a connection, idle as of now.
    pub(crate) fn open(&self, limits: &Rc<Limits>) -> Opened {
        let now = self.0.clock.now();
        let slot = Rc::new(Slot {
            limits: Rc::clone(limits),
            clock: self.0.clock.clone(),
            phase: Cell::new(Phase::Idle),
            since: Cell::new(now),
            read_at: Cell::new(now),
            received: Cell::new(0),
            blocked: Cell::new(None),
            closed: Cell::new(None),
            waker: RefCell::new(None),
        });
        let index = self.0.slots.borrow_mut().put(Rc::clone(&slot));
        Opened { progress: Progress(slot), table: self.clone(), index }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        let slots = self.0.slots.borrow();
        slots.slots.len() - slots.free.len()
    }

    /// Looks at the next part of the connections and closes what takes too long.
    pub(crate) fn sweep(&self) {
        let now = self.0.clock.now();
        let (mut at, end) = {
            let mut slots = self.0.slots.borrow_mut();
            let at = if slots.next < slots.slots.len() { slots.next } else { 0 };
            let end = slots.slots.len().min(at + slots.slots.len() / PARTS + 1);
            slots.next = end;
            (at, end)
        };
        while at < end {
            // Not borrowed while waking: a waker may drop a task, and with it a connection.
            let slot = self.0.slots.borrow().slots.get(at).and_then(Clone::clone);
            if let Some(slot) = slot {
                slot.check(now);
            }
            at += 1;
        }
    }
}

impl Slots {
    fn put(&mut self, slot: Rc<Slot>) -> usize {
        let free = self.free.pop();
        if let Some((index, place)) = free.and_then(|i| Some((i, self.slots.get_mut(i)?))) {
            *place = Some(slot);
            return index;
        }
        self.slots.push(Some(slot));
        self.slots.len() - 1
    }
}

/// A connection's place among [`Connections`], given back when this goes.
pub(crate) struct Opened {
    pub(crate) progress: Progress,
    table: Connections,
    index: usize,
}

impl Drop for Opened {
    fn drop(&mut self) {
        let mut slots = self.table.0.slots.borrow_mut();
        if let Some(slot) = slots.slots.get_mut(self.index) {
            *slot = None;
            slots.free.push(self.index);
        }
    }
}

impl Slot {
    fn check(&self, now: Instant) {
        if self.closed.get().is_some() {
            return;
        }
        if let Some(slow) = self.overdue(now) {
            self.closed.set(Some(slow));
            self.limits.closed[slow as usize].inc();
            let waker = self.waker.take();
            if let Some(waker) = waker {
                waker.wake();
            }
        }
    }

    fn overdue(&self, now: Instant) -> Option<Slow> {
        let over = |since: Instant, limit: Option<Duration>| {
            limit.is_some_and(|limit| now.saturating_duration_since(since) > limit)
        };
        let limits = &*self.limits;
        if self.blocked.get().is_some_and(|since| over(since, limits.write)) {
            return Some(Slow::Write);
        }
        match self.phase.get() {
            Phase::Idle => over(self.since.get(), limits.idle).then_some(Slow::Idle),
            Phase::Header => over(self.since.get(), limits.header).then_some(Slow::Header),
            Phase::Body => {
                let late = over(self.read_at.get(), limits.body)
                    || over(self.since.get(), self.body_limit());
                late.then_some(Slow::Body)
            }
            Phase::Serving => None,
        }
    }

    /// How long a body of so many bytes so far may take as a whole.
    fn body_limit(&self) -> Option<Duration> {
        let seconds = self.received.get().checked_div(self.limits.body_rate)?;
        Some(self.limits.body? + Duration::from_secs(seconds))
    }
}

/// What a front end says about its connection. Clones are for the same connection.
#[derive(Clone)]
pub struct Progress(Rc<Slot>);

impl Progress {
    /// The answer is complete, or at least handed over to be written: the next byte begins a
    /// request.
    pub fn idle(&self) {
        self.enter(Phase::Idle);
    }

    /// A request has begun. Reading the first byte after [`idle`](Self::idle) says the same.
    pub fn header(&self) {
        self.enter(Phase::Header);
    }

    /// The header is complete and the body is awaited.
    pub fn body(&self) {
        self.enter(Phase::Body);
    }

    /// The request is complete; the rest is up to us.
    pub fn serving(&self) {
        self.enter(Phase::Serving);
    }

    /// What the connection is doing.
    pub fn phase(&self) -> Phase {
        self.0.phase.get()
    }

    /// Why the connection was closed from here, if it was.
    pub fn closed(&self) -> Option<Slow> {
        self.0.closed.get()
    }

    fn enter(&self, phase: Phase) {
        let now = self.0.clock.now();
        self.0.phase.set(phase);
        self.0.since.set(now);
        self.0.read_at.set(now);
        self.0.received.set(0);
    }

    /// `bytes` came from the client.
    #[inline]
    pub(crate) fn read(&self, bytes: usize) {
        if bytes == 0 {
            return;
        }
        if self.0.phase.get() == Phase::Idle {
            self.enter(Phase::Header);
        }
        self.0.read_at.set(self.0.clock.now());
        self.0.received.set(self.0.received.get() + bytes as u64);
    }

    /// The client took something, or nothing waits for it.
    #[inline]
    pub(crate) fn wrote(&self) {
        self.0.blocked.set(None);
    }

    /// The client takes nothing now.
    #[inline]
    pub(crate) fn blocked(&self) {
        if self.0.blocked.get().is_none() {
            self.0.blocked.set(Some(self.0.clock.now()));
        }
    }

    /// Remembers whom to wake. Almost always it is the same task, and nothing is cloned.
    #[inline]
    pub(crate) fn park(&self, waker: &Waker) {
        let mut parked = self.0.waker.borrow_mut();
        if !parked.as_ref().is_some_and(|parked| parked.will_wake(waker)) {
            *parked = Some(waker.clone());
        }
    }
}

impl fmt::Debug for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Progress")
            .field("phase", &self.phase())
            .field("since", &self.0.since.get())
            .field("closed", &self.closed())
            .finish_non_exhaustive()
    }
}
