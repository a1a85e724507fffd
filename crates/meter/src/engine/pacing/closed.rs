//! A closed loop: each connection sends its next request when it has its answer, or after a time to
//! think.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use super::{ConnectionStep, Job, PacerStep};
use crate::chance::Chance;
use crate::engine::Think;
use crate::part::RunPart;

/// The numbers of requests of which there are only so many. Threads share the next number, so that
/// none is left when the first thread has no more.
#[derive(Debug, Clone)]
pub struct RequestLimit {
    pub next: Arc<AtomicU64>,
    pub requests: u64,
    /// Which of them are to be sent here.
    pub part: RunPart,
}

/// The numbers that a thread gives to its requests.
#[derive(Debug, Clone)]
pub enum Numbers {
    /// The thread's own number, and each that is `stride` further.
    Endless { next: u64, stride: u64 },
    /// Those that no other thread has taken.
    Limited { limit: RequestLimit, is_used_up: bool },
}

impl Numbers {
    /// The numbers of thread `thread` of `threads`.
    pub fn new(thread: u64, threads: u64, limit: Option<RequestLimit>) -> Self {
        match limit {
            None => Self::Endless { next: thread, stride: threads },
            Some(limit) => Self::Limited { limit, is_used_up: false },
        }
    }

    fn take(&mut self) -> Option<u64> {
        match self {
            Self::Endless { next, stride } => {
                let number = *next;
                *next += *stride;
                Some(number)
            }
            Self::Limited { limit, is_used_up } => {
                let taken = limit.next.fetch_add(1, Ordering::Relaxed);
                let number = taken.saturating_mul(limit.part.of()) + limit.part.index();
                *is_used_up |= number >= limit.requests;
                (number < limit.requests).then_some(number)
            }
        }
    }
}

/// A connection thinks from its last answer until it may send again. The set is in the order in
/// which that ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ThinkSpan {
    pub until: Instant,
    pub connection: usize,
    pub since: Instant,
}

/// Draws how long connections think.
#[derive(Debug, Clone)]
pub struct ThinkTimes {
    distribution: Think,
    chance: Chance,
    /// When the run begins.
    begin: Instant,
}

impl ThinkTimes {
    /// The draws of one thread, which no other one has.
    pub fn new(distribution: Think, thread: u64, begin: Instant) -> Self {
        Self { distribution, chance: Chance::of(u64::MAX, thread), begin }
    }

    /// Draws the think time of a connection that has been free `since`. At the begin users are
    /// somewhere in the middle of it, so that they do not go in step.
    fn draw(&mut self, connection: usize, since: Instant) -> ThinkSpan {
        let mut length = self.distribution.draw(&mut self.chance);
        if since <= self.begin {
            length = length.mul_f64(self.chance.share());
        }
        ThinkSpan { until: since + length, connection, since }
    }
}

/// The requests that a thread's connections send one after the other.
#[derive(Debug)]
pub struct ClosedLoop {
    connections: usize,
    end: Instant,
    numbers: Numbers,
    think_times: Option<ThinkTimes>,
    thinking: BTreeSet<ThinkSpan>,
    /// Since when each connection has been without a request that it could send, where there are
    /// only so many.
    finished: BTreeMap<usize, Instant>,
}

impl ClosedLoop {
    /// A loop of so many connections, which nothing is sent in from `end` on.
    pub fn new(
        connections: usize,
        end: Instant,
        numbers: Numbers,
        think_times: Option<ThinkTimes>,
    ) -> Self {
        let (thinking, finished) = (BTreeSet::new(), BTreeMap::new());
        Self { connections, end, numbers, think_times, thinking, finished }
    }

    /// Has a connection send at once, or think before. It sends no request that another could
    /// follow on where the time was over before it became free.
    pub fn freed(&mut self, connection: usize, since: Instant, is_stopped: bool) -> ConnectionStep {
        if let Some(think_times) = &mut self.think_times {
            // It was opened anew, and there is still nothing that it could send.
            if let Some(finished) = self.finished.get_mut(&connection) {
                *finished = since;
            } else {
                self.thinking.insert(think_times.draw(connection, since));
            }
            return ConnectionStep::Wait;
        }
        let is_over = is_stopped || since >= self.end;
        let number = if is_over { None } else { self.numbers.take() };
        match number {
            Some(number) => ConnectionStep::Send(Job { number, due: since, free: since }),
            None => {
                self.finish(connection, since);
                ConnectionStep::End
            }
        }
    }

    /// Ends the think time of the first connection that has thought for long enough.
    pub fn step(&mut self, now: Instant) -> PacerStep {
        let Some(span) = self.thinking.first().copied() else { return PacerStep::WaitForAnswer };
        if span.until > now {
            return PacerStep::SleepUntil(span.until);
        }
        self.thinking.pop_first();
        let ready = span.until;
        let job = self.numbers.take().map(|number| Job { number, due: ready, free: ready });
        if job.is_none() {
            self.finish(span.connection, ready);
        }
        PacerStep::EndThinking { span, job }
    }

    /// Ends the think time of a connection that is no longer open.
    pub fn withdraw(&mut self, connection: usize, now: Instant) -> Option<ThinkSpan> {
        if let Some(finished) = self.finished.get_mut(&connection) {
            *finished = now;
        }
        let span = *self.thinking.iter().find(|span| span.connection == connection)?;
        self.thinking.remove(&span);
        Some(ThinkSpan { until: now, ..span })
    }

    /// Takes note that there is nothing more that a connection could send.
    pub fn finish(&mut self, connection: usize, since: Instant) {
        if matches!(self.numbers, Numbers::Limited { .. }) {
            self.finished.insert(connection, since);
        }
    }

    /// Whether a connection has thought for long enough before that moment.
    pub fn ends_thinking_before(&self, alarm: Instant) -> bool {
        self.thinking.first().is_some_and(|span| span.until < alarm)
    }

    /// Whether nothing is sent any more at that moment.
    pub fn is_past_end(&self, now: Instant) -> bool {
        now >= self.end
    }

    /// Whether there were only so many requests, and each has its answer.
    pub fn is_used_up(&self) -> bool {
        matches!(self.numbers, Numbers::Limited { is_used_up: true, .. })
            && self.finished.len() == self.connections
    }

    /// Ends all think times; gives each, cut at the end.
    pub fn stop_thinking(&mut self, end: Instant) -> impl Iterator<Item = ThinkSpan> {
        let thinking = std::mem::take(&mut self.thinking);
        thinking.into_iter().map(move |span| ThinkSpan { until: end, ..span })
    }

    /// Since when each connection has had nothing to send.
    pub fn finished(&self) -> impl Iterator<Item = Instant> {
        self.finished.values().copied()
    }
}
