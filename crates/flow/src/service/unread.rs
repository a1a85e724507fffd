//! Answers that a client leaves unread while others wait behind them.

use std::task::{Context, Poll};

use super::{Client, Service};

/// From so many bytes on that a client has not taken, its lane reads no more of its reply.
pub(super) const MARK: usize = 64 * 1024;

/// What is kept for a client that has not taken its answers while others waited behind them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Keeps {
    Nothing,
    /// Its answers, until it has taken them.
    Answers {
        /// Bytes of them from which on it is waited for again.
        mark: usize,
        /// It asks nothing more before it has taken some.
        holds_back: bool,
    },
}

impl<S: Service> Client<S> {
    /// Others have waited long enough for it to take its answers: half of what it may leave unread
    /// is kept before they wait once more, and then all of it.
    pub(super) fn keep_answers(&self) {
        self.keeps.set(match self.keeps.get() {
            Keeps::Nothing => Keeps::Answers { mark: self.half_unread(), holds_back: false },
            Keeps::Answers { holds_back, .. } => Keeps::Answers { mark: usize::MAX, holds_back },
        });
    }

    /// Bytes of its answers that it may leave untaken before its lane reads no more of them.
    #[inline]
    pub(super) fn mark(&self) -> usize {
        match self.keeps.get() {
            Keeps::Answers { mark, .. } if self.outlet.spilled() > MARK => mark.max(MARK),
            Keeps::Answers { .. } | Keeps::Nothing => MARK,
        }
    }

    /// Whether so much is kept for it that it is to take some before it asks on.
    #[inline]
    pub(super) fn holds_back(&self) -> bool {
        let Keeps::Answers { mark, .. } = self.keeps.get() else { return false };
        let holds_back = self.outlet.spilled() > self.half_unread();
        if holds_back {
            self.keeps.set(Keeps::Answers { mark, holds_back });
        }
        holds_back
    }

    /// Ready once it has taken so much of what is kept that it may ask on, or all of it.
    #[inline]
    pub(super) fn poll_takes_kept(&self, cx: &mut Context<'_>) -> Poll<()> {
        let (below, then) = match self.keeps.get() {
            Keeps::Nothing => return Poll::Pending,
            Keeps::Answers { mark, holds_back: true } => {
                (self.half_unread(), Keeps::Answers { mark, holds_back: false })
            }
            Keeps::Answers { .. } => (MARK, Keeps::Nothing),
        };
        if self.outlet.poll_drained(cx, below).is_pending() {
            return Poll::Pending;
        }
        self.keeps.set(then);
        Poll::Ready(())
    }

    fn half_unread(&self) -> usize {
        self.outlet.spill_max() / 2
    }
}
