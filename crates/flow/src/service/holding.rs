//! What a client holds of the memory that there is for all clients together: requests that are on
//! their way, what has come of the next, and answers that wait or are not taken.
//!
//! What is little is not counted, since how many clients there are is limited: so a request and its
//! answer cost nothing here, unless they are large or many.

use std::rc::Rc;

use super::{Client, Request, Service, Unanswered};

/// What is below this is little; shares grow in steps of it.
const LITTLE: usize = 16 << 10;

impl<S: Service> Client<S> {
    /// Counts the bytes of a request for as long as it is anywhere; false where there is no room.
    #[inline]
    pub(super) fn holds_request(&self, request: &mut Request) -> bool {
        request.bytes.len() < LITTLE || request.held.is_some() || self.holds_large(request)
    }

    /// Whether there is memory for a request, whose bytes are counted from then on; where there is
    /// none, the client hears that in its place. For what takes a connection before it is asked.
    pub fn has_room_for(&self, request: &mut Request) -> bool {
        let has_room = self.holds_request(request);
        if !has_room {
            let place = self.line.borrow_mut().open();
            self.give_up(place, &Unanswered::OutOfMemory);
        }
        has_room
    }

    #[cold]
    fn holds_large(&self, request: &mut Request) -> bool {
        let share = self.share.borrow().other(request.bytes.len());
        request.held = share.map(Rc::new);
        request.held.is_some()
    }

    /// Counts what it holds beside its requests, of which so many bytes are of the next request; a
    /// client for which there is no room is ended.
    #[inline]
    pub(super) fn count_held(&self, inbox: Option<usize>) {
        if let Some(inbox) = inbox {
            self.inbox.set(inbox);
        }
        let held = self.inbox.get() + self.line.borrow().waiting() + self.outlet.spilled();
        if held >= LITTLE || self.share.borrow().bytes() > 0 {
            self.count_large(held);
        }
    }

    #[cold]
    fn count_large(&self, held: usize) {
        let wanted = if held < LITTLE { 0 } else { held.next_multiple_of(LITTLE) };
        let mut share = self.share.borrow_mut();
        let before = share.bytes();
        let more = wanted.saturating_sub(before);
        share.shrink_to(wanted.min(before));
        let has_room = more == 0 || share.grow(more);
        drop(share);
        if has_room || self.parting().is_some() {
            return;
        }
        // Whoever does not take what it was sent hears nothing more, and gives that up at once.
        match self.outlet.spilled() {
            0 => self.end_with(&Unanswered::OutOfMemory),
            _ => self.close(),
        }
    }
}
