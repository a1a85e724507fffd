//! What a consumer is done with and may not commit yet: its places and counts, without the bytes.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tokio::sync::Notify;

use crate::outcome::Outcome;
use crate::position::{Counts, Position};

/// Steps nearer to one another than this many bytes become one, so that what is remembered of a
/// long way does not depend on how small the groups were.
const SPACING: u64 = 64 << 10;

/// A step of a cursor, computed by its consumer from the records it has read.
#[derive(Debug)]
pub(crate) struct Step {
    pub position: Position,
    pub group: Position,
    pub written_at: u64,
    /// When the first record after `position` was written, or somewhat earlier.
    pub oldest: u64,
    pub counts: Counts,
    pub done: Outcome,
    /// What was lost by damage on the way.
    pub lost: Counts,
}

impl Step {
    /// Goes on with the step that follows.
    pub fn join(&mut self, next: Step) {
        let (done, lost) = (self.done + next.done, self.lost + next.lost);
        *self = Step { done, lost, ..next };
    }
}

/// Steps that were taken and not committed, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Settled {
    marks: VecDeque<Mark>,
}

#[derive(Debug)]
struct Mark {
    /// Where the first of the steps joined in it ended.
    begin: Position,
    step: Step,
}

impl Settled {
    /// Remembers a step behind all others.
    pub fn push(&mut self, step: Step) {
        match self.marks.back_mut() {
            Some(last) if step.position.since(last.begin) < SPACING => last.step.join(step),
            _ => self.marks.push_back(Mark { begin: step.position, step }),
        }
    }

    /// Takes out the steps that end at or before a place, as one.
    pub fn take(&mut self, up_to: Position) -> Option<Step> {
        let mut taken: Option<Step> = None;
        while self.marks.front().is_some_and(|mark| mark.step.position <= up_to) {
            let Some(Mark { step, .. }) = self.marks.pop_front() else { break };
            match &mut taken {
                Some(before) => before.join(step),
                None => taken = Some(step),
            }
        }
        taken
    }

    pub fn clear(&mut self) {
        self.marks.clear();
    }

    /// Whether nothing waits to be committed.
    pub fn is_empty(&self) -> bool {
        self.marks.is_empty()
    }
}

/// A cursor that nothing but its own consumer moves; see [`Consumer::pin`](crate::Consumer::pin).
/// May be looked at by any thread at any time.
#[derive(Debug, Default)]
pub struct Pin {
    ahead: AtomicU64,
    wanted: AtomicBool,
    wake: Notify,
}

impl Pin {
    /// Bytes of records that were released and are not committed: what the journal must keep.
    pub fn ahead(&self) -> u64 {
        self.ahead.load(Ordering::Relaxed)
    }

    /// Waits until the journal needs the cursor to move, since it has no room left. One call for
    /// each time it says so.
    pub async fn wanted(&self) {
        while !self.wanted.swap(false, Ordering::AcqRel) {
            self.wake.notified().await;
        }
    }

    pub(crate) fn set_ahead(&self, bytes: u64) {
        self.ahead.store(bytes, Ordering::Relaxed);
    }

    pub(crate) fn want(&self) {
        self.wanted.store(true, Ordering::Release);
        self.wake.notify_one();
    }
}
