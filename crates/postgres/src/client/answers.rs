//! What a client asks on a lane, and what it hears of it: each request has a place, and one that is
//! not answered is taken back, to be asked again by its client's task.

use std::collections::VecDeque;

use flow::answers::{Filled, Place, Verdict};
use flow::lane::Fate;
use wire::postgres::{Refusal, sqlstate};

use super::{Client, OUT_OF_STEP};
use crate::pipeline::round::Round;

/// Where a request that got no answer is asked again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Again {
    /// On any server that it fits.
    Same,
    /// Wherever it fits, by itself: it had joined an equal read, and heard nothing of that.
    Alone,
    /// On the primary, or on another server if it was there.
    Elsewhere,
    /// Nowhere: its client has had it cancelled.
    Cancelled,
    /// Nowhere: it was asked as often as it may be.
    Lost,
}

/// A request that is to be asked again.
#[derive(Debug)]
pub struct Repeat {
    /// The request, as its client sent it.
    pub round: Round,
    /// Where it is asked.
    pub again: Again,
}

impl Client {
    /// A place for a request that is put on a lane.
    #[inline]
    pub fn asks(&self) -> Place {
        let mut line = self.line.borrow_mut();
        if line.is_empty() {
            self.cancel.set(false);
        }
        line.open()
    }

    /// The request was put on no lane after all.
    pub fn asks_not(&self, place: Place) {
        // Nothing of it was told.
        let _ = self.line.borrow_mut().give_up(place, &[], |bytes| self.outlet.send(bytes));
    }

    /// Pieces of an answer have come; `is_last`: all of it.
    #[inline]
    pub fn hears(&self, place: Place, pieces: &[&[u8]], is_last: bool) {
        let send = |pieces: &[&[u8]]| match pieces {
            [piece] => self.outlet.send(piece),
            _ => self.outlet.send_parts(pieces),
        };
        let filled = self.line.borrow_mut().fill_all(place, pieces, is_last, send);
        if matches!(filled, Filled::Over | Filled::TooLarge) {
            self.kill(Refusal::fatal(sqlstate::INTERNAL_ERROR, OUT_OF_STEP));
        }
    }

    /// A request on a lane was answered. `within`: in a transaction, where no mail is told.
    #[inline]
    pub fn answered(&self, within: bool) {
        // The reply has ended and the next one has not begun.
        let may_tell = self.has_mail() && !within && !self.has_repeats();
        let is_over = may_tell && self.tell_mail().is_err();
        if self.in_flight() == 0 && (self.settling.get() || self.is_called() || is_over) {
            self.wake();
        }
    }

    /// Requests on a lane that are not answered yet.
    #[inline]
    pub fn in_flight(&self) -> usize {
        self.line.borrow().len()
    }

    /// A request is not answered: its task asks it again once nothing is in flight, and so it does
    /// with those behind it.
    pub fn again(&self, place: Place, repeat: Repeat) {
        if self.line.borrow_mut().take_back(place, |bytes| self.outlet.send(bytes)).is_err() {
            return self.cut_within_reply();
        }
        let again = if self.wants_cancel() { Again::Cancelled } else { repeat.again };
        self.repeats.borrow_mut().push_back(Repeat { again, ..repeat });
        self.answered(false);
    }

    /// Whether a request is behind one that is to be asked again, so that it is, too.
    #[inline]
    pub fn is_held(&self, place: Place) -> bool {
        self.line.borrow().is_held(place)
    }

    /// What is to become of a request whose lane has ended before its reply did. Reads alone ride
    /// lanes, so that each may be asked again.
    pub fn orphaned(&self, place: Place, fate: Fate) -> Verdict {
        self.line.borrow_mut().orphaned(place, fate, true)
    }

    /// The requests that are to be asked again, in their order.
    pub fn repeats(&self) -> VecDeque<Repeat> {
        self.repeats.take()
    }

    /// Whether any request is to be asked again.
    #[inline]
    pub fn has_repeats(&self) -> bool {
        !self.repeats.borrow().is_empty()
    }

    /// A reply broke off within a message: what follows could not be told from it.
    pub fn cut_within_reply(&self) {
        self.line.borrow_mut().clear();
        self.outlet.close();
        self.answered(false);
    }
}
