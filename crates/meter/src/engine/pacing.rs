//! Decides which connection of a thread sends which request, and when. It has no sockets, reads no
//! clock and records nothing: moments come in, and decisions come out.

mod closed;
mod open;
#[cfg(test)]
mod tests;

use std::time::Instant;

pub use closed::{ClosedLoop, Numbers, RequestLimit, ThinkSpan, ThinkTimes};
pub use open::OpenLoop;

/// A request that a connection is to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Job {
    /// No other request of the run has this number.
    pub number: u64,
    /// When the schedule has it; in a closed loop, when its connection was ready to send.
    pub due: Instant,
    /// Since when a connection has been free to send it.
    pub free: Instant,
}

/// What a connection does that has become free.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConnectionStep {
    Send(Job),
    /// The pacer will give it a request.
    Wait,
    /// No request is left for it.
    End,
}

/// What the pacer, which hands out requests, does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PacerStep {
    /// The connection has waited for longest, and sends the request.
    Send { connection: usize, job: Job },
    /// The connection has thought for long enough. It sends the request, if one was left.
    EndThinking { span: ThinkSpan, job: Option<Job> },
    /// Nothing is due before that moment.
    SleepUntil(Instant),
    /// A request is due, and every connection is busy.
    WaitForConnection,
    /// Nothing becomes due unless an answer comes.
    WaitForAnswer,
}

/// How a thread paces its requests.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "a thread has one, which is never moved")]
pub enum Pacing {
    /// A schedule says when each request is due, whatever the server does.
    Open(OpenLoop),
    /// Each connection sends when it has its answer and has thought.
    Closed(ClosedLoop),
}

impl Pacing {
    /// Decides what a connection does that has been free `since`. Whoever `is_stopped` sends
    /// nothing more in a closed loop; an open one is ended by the pacer.
    pub fn freed(&mut self, connection: usize, since: Instant, is_stopped: bool) -> ConnectionStep {
        match self {
            Self::Open(open) => open.freed(connection, since),
            Self::Closed(closed) => closed.freed(connection, since, is_stopped),
        }
    }

    /// Decides what the pacer does now. It asks again until the answer is to wait.
    pub fn step(&mut self, now: Instant) -> PacerStep {
        match self {
            Self::Open(open) => open.step(now),
            Self::Closed(closed) => closed.step(now),
        }
    }

    /// Takes back a connection that waits, since the server has closed it. Gives its think time,
    /// which ends now.
    pub fn withdraw(&mut self, connection: usize, now: Instant) -> Option<ThinkSpan> {
        match self {
            Self::Open(open) => {
                open.withdraw(connection);
                None
            }
            Self::Closed(closed) => closed.withdraw(connection, now),
        }
    }

    /// Takes note that a connection sends nothing more, since the run is over.
    pub fn finish(&mut self, connection: usize, since: Instant) {
        match self {
            Self::Open(_) => {}
            Self::Closed(closed) => closed.finish(connection, since),
        }
    }

    /// Whether the pacer has something to do before `alarm`, for which it has set its alarm.
    pub fn has_work_before(&self, alarm: Instant) -> bool {
        match self {
            Self::Open(open) => open.is_unblocked(),
            Self::Closed(closed) => closed.ends_thinking_before(alarm),
        }
    }

    /// Whether the time is over in which requests follow on answers. In an open loop a user's
    /// further steps go on until the pacer has ended the run.
    pub fn is_past_end(&self, now: Instant) -> bool {
        match self {
            Self::Open(_) => false,
            Self::Closed(closed) => closed.is_past_end(now),
        }
    }

    /// Whether there were only so many requests, and each has its answer.
    pub fn is_used_up(&self) -> bool {
        match self {
            Self::Open(_) => false,
            Self::Closed(closed) => closed.is_used_up(),
        }
    }
}
