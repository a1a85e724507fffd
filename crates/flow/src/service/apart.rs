//! What a client asks of nobody whose answers come in their order: it begins when all before it is
//! answered, and nothing behind it is looked at until it is answered itself.

use std::fmt;
use std::rc::Rc;

use super::asking::Pending;
use super::{Client, Service};
use crate::answers::AnswerPlace;

/// Begins what is done apart.
pub(super) type Begin = Box<dyn FnOnce()>;

/// Something that a client does apart. Dropped, it is answered by nothing.
pub struct Apart<S: Service> {
    client: Rc<Client<S>>,
    place: AnswerPlace,
}

impl<S: Service> Apart<S> {
    /// The client that does it.
    pub fn client(&self) -> &Rc<Client<S>> {
        &self.client
    }

    /// Ends it with this answer.
    pub fn answer(self, bytes: &[u8]) {
        self.client.fill(self.place, bytes, true);
    }

    /// Ends it with this answer, behind which its dialogue is [told](super::Dialogue::hears) what
    /// came of it before anything else is asked.
    pub fn done(self, outcome: S::Outcome, answer: &[u8]) {
        self.client.is_done(outcome);
        self.answer(answer);
    }

    /// Ends it with this message, which a client hears that does not
    /// [hear answers](Client::hears_answers), too.
    pub fn push(self, bytes: &[u8]) {
        let is_open = self.client.line.borrow().is_open(self.place);
        if is_open {
            self.client.push(bytes);
        }
    }
}

impl<S: Service> Drop for Apart<S> {
    fn drop(&mut self) {
        // After an answer this comes too late, and does nothing.
        self.client.fill(self.place, &[], true);
    }
}

impl<S: Service> fmt::Debug for Apart<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Apart").field("place", &self.place).finish_non_exhaustive()
    }
}

impl<S: Service> Client<S> {
    /// Has `begin` called once all that was asked before is answered; what comes later waits until
    /// what it was given is answered, or dropped.
    pub fn apart(self: &Rc<Self>, begin: impl FnOnce(Apart<S>) + 'static) {
        let place = self.line.borrow_mut().open();
        let apart = Apart { client: Rc::clone(self), place };
        let begin: Begin = Box::new(move || begin(apart));
        self.submit(Pending::Apart { place, begin: Some(begin) });
    }

    pub(super) fn apart_now(&self, place: AnswerPlace, begin: Option<Begin>) -> Option<Pending> {
        if self.line.borrow().requests().start < place.request {
            return Some(Pending::Apart { place, begin });
        }
        if let Some(begin) = begin {
            begin();
        }
        let is_open = self.line.borrow().is_open(place);
        is_open.then_some(Pending::Apart { place, begin: None })
    }
}
