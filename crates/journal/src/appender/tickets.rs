//! Many records that one task waits for.

use std::collections::VecDeque;
use std::task::{Context, Poll, ready};

use crate::appender::{Appender, Ticket};
use crate::error::AckError;

/// Records of one [`Appender`] in their order, each with what belongs to it: one task waits for
/// all of them, and is woken once for all that are acknowledged together.
#[derive(Debug)]
pub struct Tickets<T> {
    queue: VecDeque<WaitingRecord<T>>,
}

#[derive(Debug)]
struct WaitingRecord<T> {
    ticket: Ticket,
    /// The period since which it has waited, once that is known.
    since: Option<u64>,
    what: T,
}

impl<T> Tickets<T> {
    /// A queue without records.
    pub fn new() -> Self {
        Self { queue: VecDeque::new() }
    }

    /// How many records wait.
    pub fn waiting(&self) -> usize {
        self.queue.len()
    }

    /// Adds a record, the newest of the appender.
    pub fn push(&mut self, ticket: Ticket, what: T) {
        self.queue.push_back(WaitingRecord { ticket, since: None, what });
    }

    /// What is known of the oldest record: that it is as safe as `ack` promises, or that it cannot
    /// be said to be. `None` where no record is left.
    pub fn poll_next(
        &mut self,
        appender: &Appender,
        cx: &Context<'_>,
    ) -> Poll<Option<(T, Result<(), AckError>)>> {
        self.note_time(appender);
        let Some(first) = self.queue.front_mut() else {
            return Poll::Ready(None);
        };
        let settled = ready!(appender.poll_settled(first.ticket, &mut first.since, cx));
        Poll::Ready(self.queue.pop_front().map(|first| (first.what, settled)))
    }

    /// The time counts for all from when they came, not from when they come to be the oldest.
    fn note_time(&mut self, appender: &Appender) {
        if self.queue.back().is_some_and(|last| last.since.is_none()) {
            let period = appender.period();
            let new = self.queue.iter_mut().rev().take_while(|waiting| waiting.since.is_none());
            new.for_each(|waiting| waiting.since = Some(period));
        }
    }
}

impl<T> Default for Tickets<T> {
    fn default() -> Self {
        Self::new()
    }
}
