//! An open loop: requests are due by a schedule, and the connection that has been free for longest
//! sends the next one. What is due waits in no queue, but in the schedule.

use std::collections::VecDeque;
use std::iter::Peekable;
use std::time::{Duration, Instant};

use super::{ConnectionStep, Job, PacerStep};
use crate::schedule::Due;

/// A request that is behind schedule by this much is sent by whichever connection is at hand.
const OVERDUE: Duration = Duration::from_micros(250);

/// The requests of one thread's schedule, and the connections that wait for them.
#[derive(Debug)]
pub struct OpenLoop {
    due: Peekable<Due>,
    /// When the schedule begins.
    begin: Instant,
    /// Connections that wait for a request; the one that has for longest is first.
    idle: VecDeque<FreeConnection>,
    /// The pacer waits for a connection to become free.
    is_blocked: bool,
}

#[derive(Debug, Clone, Copy)]
struct FreeConnection {
    connection: usize,
    since: Instant,
}

impl OpenLoop {
    /// A loop of so many connections, none of which is free yet.
    pub fn new(due: Due, begin: Instant, connections: usize) -> Self {
        let idle = VecDeque::with_capacity(connections);
        Self { due: due.peekable(), begin, idle, is_blocked: false }
    }

    /// Has a connection wait, unless a request is due that it may send at once: connections that
    /// have been free for longer are first, but their tasks may be kept from their turn by many
    /// answers that came together. A request that is overdue waits for none of them.
    pub fn freed(&mut self, connection: usize, since: Instant) -> ConnectionStep {
        let first = self.idle.front().map(|idle| idle.since);
        let patience = if first.is_some() { OVERDUE } else { Duration::ZERO };
        match self.peek() {
            Some((number, due)) if due + patience <= since => {
                self.due.next();
                // It stands in for the first that waits: what the send is late by is the
                // injector's.
                ConnectionStep::Send(Job { number, due, free: first.unwrap_or(since) })
            }
            _ => {
                self.idle.push_back(FreeConnection { connection, since });
                ConnectionStep::Wait
            }
        }
    }

    /// Gives the next request that is due to the connection that has been free for longest.
    pub fn step(&mut self, now: Instant) -> PacerStep {
        self.is_blocked = false;
        let Some((number, due)) = self.peek() else { return PacerStep::WaitForAnswer };
        if due > now {
            return PacerStep::SleepUntil(due);
        }
        let Some(FreeConnection { connection, since }) = self.idle.pop_front() else {
            self.is_blocked = true;
            return PacerStep::WaitForConnection;
        };
        self.due.next();
        PacerStep::Send { connection, job: Job { number, due, free: since } }
    }

    /// Takes back a connection that is no longer open.
    pub fn withdraw(&mut self, connection: usize) {
        self.idle.retain(|idle| idle.connection != connection);
    }

    /// Whether the pacer waited for a connection, and there is one.
    pub fn is_unblocked(&self) -> bool {
        self.is_blocked && !self.idle.is_empty()
    }

    /// Takes the next request that is due before the end and that nobody will send; gives its
    /// number and when it was due.
    pub fn take_unsent(&mut self, end: Instant) -> Option<(u64, Instant)> {
        let unsent = self.peek().filter(|(_, due)| *due < end)?;
        self.due.next();
        Some(unsent)
    }

    fn peek(&mut self) -> Option<(u64, Instant)> {
        let (number, at) = *self.due.peek()?;
        Some((number, self.begin + at))
    }
}
