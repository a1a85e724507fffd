//! Closing connections that take too long, without a timer for each request.
//!
//! A front end says in which [`Phase`] its connection is; [`Stream`](crate::stream::Stream) notes
//! when bytes move; the worker looks at all its connections about once a second, a few at each
//! tick. A phase therefore ends up to a second and a half after its time.

mod busiest;
mod connections;
mod slot;

use std::fmt;
use std::rc::Rc;
use std::task::Waker;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use watch::metrics::{Counter, Registry};

pub use busiest::{Busiest, ClientFigures};
pub(crate) use connections::ConnectionEntry;
pub use connections::Connections;
use slot::Slot;

/// How long clients may take. `"0"` is for ever.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Timeouts {
    /// From the first byte of a request to the end of its header.
    pub header: units::Duration,
    /// Between two pieces of a body; see also `body-rate`.
    pub body: units::Duration,
    /// Bytes a second that a body must bring on average over any `body` time, however fast it
    /// began; and no less than a six-hundredth of what it has brought, so that the larger it is
    /// the sooner it comes to an end. 0 demands none.
    pub body_rate: u64,
    /// While the client takes no byte of an answer.
    pub write: units::Duration,
    /// Bytes a second that a client must take of an answer on average over any `write` time for
    /// which it keeps Weir waiting. 0 demands none.
    pub answer_rate: u64,
    /// Between two requests, and before the first. Closing an idle connection races with the
    /// client's next request, so the default is for ever.
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
            answer_rate: 10_000,
            idle: units::Duration::from_secs(0),
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
    /// The client left more of its answers waiting than there may be, however short the time.
    Spill,
}

impl Slow {
    const ALL: [Self; 5] = [Self::Idle, Self::Header, Self::Body, Self::Write, Self::Spill];

    /// The name in metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Header => "header",
            Self::Body => "body",
            Self::Write => "write",
            Self::Spill => "spill",
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
            Self::Spill => "the client left too much of its answers unread",
        })
    }
}

impl std::error::Error for Slow {}

/// The time limits of one listener's connections, and how many it closed for each.
#[derive(Debug, Clone)]
pub struct Limits {
    name: String,
    header: Option<Duration>,
    body: Option<Duration>,
    body_rate: u64,
    write: Option<Duration>,
    answer_rate: u64,
    idle: Option<Duration>,
    handshake: Option<Duration>,
    closed: [Counter; 5],
    /// Bytes from clients, and to them.
    bytes: [Counter; 2],
}

impl Limits {
    /// The limits for the listener `name`, with `weir_connections_slow_total{listener,phase}`
    /// and `weir_connections_bytes_total{listener,direction}`.
    pub fn new(name: &str, timeouts: &Timeouts, registry: &Registry) -> Self {
        let limit = |limit: units::Duration| Some(limit.get()).filter(|limit| !limit.is_zero());
        Self {
            name: name.to_owned(),
            header: limit(timeouts.header),
            body: limit(timeouts.body),
            body_rate: timeouts.body_rate,
            write: limit(timeouts.write),
            answer_rate: timeouts.answer_rate,
            idle: limit(timeouts.idle),
            handshake: limit(timeouts.handshake),
            closed: Slow::ALL.map(|slow| {
                registry.counter(
                    "weir_connections_slow_total",
                    "Connections closed because the client took too long, by phase: idle, \
                     header, body, write, or spill for answers left unread.",
                    &[("listener", name), ("phase", slow.name())],
                )
            }),
            bytes: ["in", "out"].map(|direction| {
                registry.counter(
                    "weir_connections_bytes_total",
                    "Bytes from clients (in) and to them (out), counted once a second and when a \
                     connection closes.",
                    &[("listener", name), ("direction", direction)],
                )
            }),
        }
    }

    fn count_bytes(&self, passed: [u64; 2]) {
        self.bytes.iter().zip(passed).filter(|(_, of)| *of > 0).for_each(|(all, of)| all.add(of));
    }
}

/// What a front end says about its connection. Clones are for the same connection.
#[derive(Clone)]
pub struct Progress(Rc<Slot>);

impl Progress {
    /// The answer is complete, or at least handed over to be written: the next byte begins a
    /// request.
    pub fn idle(&self) {
        self.0.enter(Phase::Idle);
    }

    /// A request has begun. Reading the first byte after [`idle`](Self::idle) says the same.
    pub fn header(&self) {
        self.0.enter(Phase::Header);
    }

    /// The header is complete and the body is awaited.
    pub fn body(&self) {
        self.0.enter(Phase::Body);
    }

    /// The request is complete; the rest is up to us.
    pub fn serving(&self) {
        self.0.enter(Phase::Serving);
    }

    /// Who the client is, where it has logged in: operators see it.
    pub fn set_user(&self, user: Option<&str>) {
        self.0.set_user(user);
    }

    /// So many bytes are on their way to the client.
    #[inline]
    pub fn answered(&self, bytes: usize) {
        self.0.answered(bytes);
    }

    /// Begins or ends to watch whether the client goes away while its answer is being made. Each
    /// time the connection is polled it is looked, so whoever wants to know polls now and then.
    pub fn watch_client(&self, watched: bool) {
        self.0.watch(watched);
    }

    /// Whether the client was seen to have ended its side since it is watched.
    pub fn client_left(&self) -> bool {
        self.0.client_left()
    }

    /// How long a TLS handshake may take.
    pub(crate) fn handshake(&self) -> Option<Duration> {
        self.0.limits().handshake
    }

    pub(crate) fn is_watched(&self) -> bool {
        self.0.is_watched()
    }

    pub(crate) fn left(&self) {
        self.0.leave();
    }

    /// What the connection is doing.
    pub fn phase(&self) -> Phase {
        self.0.phase()
    }

    /// Why the connection was closed from here, if it was.
    pub fn closed(&self) -> Option<Slow> {
        self.0.closed()
    }

    /// Closes the connection from here, unless it is.
    pub(crate) fn close(&self, slow: Slow) {
        if self.closed().is_none() {
            self.0.close(slow);
        }
    }

    /// `bytes` came from the client.
    #[inline]
    pub(crate) fn read(&self, bytes: usize) {
        self.0.read(bytes);
    }

    /// The client took something, or nothing waits for it.
    #[inline]
    pub(crate) fn wrote(&self) {
        self.0.wrote();
    }

    /// The client took so many bytes.
    #[inline]
    pub(crate) fn took(&self, bytes: usize) {
        self.0.took(bytes);
    }

    /// The client takes nothing now.
    #[inline]
    pub(crate) fn blocked(&self) {
        self.0.blocked();
    }

    /// Remembers whom to wake when the connection is closed from here.
    #[inline]
    pub fn park(&self, waker: &Waker) {
        self.0.park(waker);
    }
}

impl fmt::Debug for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Progress")
            .field("phase", &self.phase())
            .field("closed", &self.closed())
            .finish_non_exhaustive()
    }
}
