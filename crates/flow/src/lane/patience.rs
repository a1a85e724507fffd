//! How long others wait behind a reply that is not taken as fast as it comes.

use std::pin::Pin;
use std::task::Context;
use std::time::Duration;

use tokio::time::Sleep;

/// A lane's patience with those who take a reply slowly.
pub(super) struct Patience {
    limit: Duration,
    /// Ends the wait that is under way.
    until: Option<Pin<Box<Sleep>>>,
}

/// What is to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    /// Read on.
    Read,
    /// Read nothing: the task is woken when that changes.
    Wait,
    /// Others have waited long enough: read on, whatever becomes of the reply.
    Over,
}

impl Patience {
    pub(super) fn new(limit: Duration) -> Self {
        Self { limit, until: None }
    }

    #[inline]
    pub(super) fn is_none(&self) -> bool {
        self.limit.is_zero()
    }

    /// `is_taken`: what was read has been taken; `is_waited_for`: others wait behind it.
    pub(super) fn look(
        &mut self,
        is_taken: bool,
        is_waited_for: bool,
        cx: &mut Context<'_>,
    ) -> Outcome {
        if is_taken {
            self.until = None;
            return Outcome::Read;
        }
        if !is_waited_for {
            return Outcome::Wait;
        }
        let limit = self.limit;
        let until = self.until.get_or_insert_with(|| Box::pin(tokio::time::sleep(limit)));
        if until.as_mut().poll(cx).is_pending() {
            return Outcome::Wait;
        }
        self.until = None;
        Outcome::Over
    }
}
