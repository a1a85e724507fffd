//! A request that joins an equal one of another client.
//!
//! It does so only while nothing else of its client is under way, and what its client asks behind
//! it waits until it is answered: else it would read behind the client's own later write where it
//! has to be asked again by itself.

use std::cell::Cell;

use super::{Client, Service};
use crate::answers::AnswerPlace;

/// Which of a client's requests has joined another.
#[derive(Debug, Default)]
pub(super) struct JoinedRequest {
    /// The last one that has.
    last: Cell<Option<u64>>,
    /// The last one that was sent while nothing else was under way. Its other parts, where it has
    /// several, are under way then, and are none of that.
    alone: Cell<Option<u64>>,
}

impl JoinedRequest {
    /// A request has joined another.
    pub(super) fn note(&self, place: AnswerPlace) {
        self.last.set(Some(place.request));
    }
}

impl<S: Service> Client<S> {
    /// Whether a request may join an equal one now.
    pub(super) fn may_join(&self, place: AnswerPlace) -> bool {
        // What it has not taken yet is read no faster than it takes it, which holds for its own
        // requests only.
        if self.outlet.spilled() > 0 {
            return false;
        }
        if self.joined.alone.get() == Some(place.request) {
            return true;
        }
        let is_first = self.line.borrow().requests().start == place.request;
        let is_under_way =
            !self.ridden.borrow().is_empty() || self.leases.borrow().is_busy(|_| true);
        let is_alone = is_first && !is_under_way;
        if is_alone {
            self.joined.alone.set(Some(place.request));
        }
        is_alone
    }

    /// Whether something waits behind a request that has joined another and is not answered.
    #[inline]
    pub(super) fn is_behind_joined(&self, place: Option<AnswerPlace>) -> bool {
        let Some(joined) = self.joined.last.get() else { return false };
        let head = self.line.borrow().requests().start;
        head <= joined && place.is_none_or(|place| place.request > joined)
    }
}
