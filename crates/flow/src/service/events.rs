//! What a client's dialogue is told of what it has asked.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use super::client::count_of;
use super::{Client, Request, Service};
use crate::answers::{AnswerPlace, Join, NotedAnswer};

/// What has become of something that a dialogue has asked.
#[derive(Debug)]
pub enum ClientEvent<S: Service> {
    /// A step, as [`Affinity::Step`](super::Affinity::Step) has it, was not sent, nor will be. Told
    /// before the dialogue is asked for the next request, whatever is not answered yet: what it
    /// asks from then on is sent behind nothing.
    StepNotSent,
    /// A request that was noted is answered, and all before it are; or it has no answer.
    Answered(NotedAnswer),
    /// What was done [apart](super::Apart) has come to this.
    Done(S::Outcome),
}

/// What a client's dialogue has to be told, or will have to.
pub(super) struct Events<S: Service> {
    /// How many events there are, or will be.
    due: Cell<usize>,
    has_unsent_step: Cell<bool>,
    outcomes: RefCell<VecDeque<S::Outcome>>,
}

impl<S: Service> Default for Events<S> {
    fn default() -> Self {
        let (due, has_unsent_step) = (Cell::new(0), Cell::new(false));
        Self { due, has_unsent_step, outcomes: RefCell::default() }
    }
}

impl<S: Service> Events<S> {
    /// There will be one.
    pub(super) fn is_due(&self) {
        self.due.set(self.due.get() + 1);
    }

    /// Whether there are any, or will be.
    #[inline]
    pub(super) fn are_due(&self) -> bool {
        self.due.get() > 0
    }

    pub(super) fn note_unsent_step(&self) {
        if !self.has_unsent_step.replace(true) {
            self.is_due();
        }
    }

    pub(super) fn add_outcome(&self, outcome: S::Outcome) {
        self.outcomes.borrow_mut().push_back(outcome);
        self.is_due();
    }

    /// The next one; `answered` gives that of a noted request. Nothing is done apart before all
    /// that was asked earlier is answered, so outcomes are behind these.
    #[inline]
    pub(super) fn take(
        &self,
        answered: impl FnOnce() -> Option<NotedAnswer>,
    ) -> Option<ClientEvent<S>> {
        if self.due.get() == 0 {
            return None;
        }
        let event = if self.has_unsent_step.take() {
            Some(ClientEvent::StepNotSent)
        } else if let Some(answer) = answered() {
            Some(ClientEvent::Answered(answer))
        } else {
            self.outcomes.borrow_mut().pop_front().map(ClientEvent::Done)
        };
        self.due.set(self.due.get().saturating_sub(usize::from(event.is_some())));
        event
    }
}

impl<S: Service> Client<S> {
    /// As [`ask`](Self::ask); its dialogue, which knows it by `mark`, is
    /// [told](super::Dialogue::hears), too, what became of it.
    pub fn ask_noted(self: &Rc<Self>, mut request: Request, mark: u64) {
        let place = self.line.borrow_mut().open();
        self.notes(place, mark);
        self.note_of(place, &mut request);
        self.submit_if_held(place, request);
    }

    /// Has its dialogue told of what becomes of a request that is asked now.
    fn notes(&self, place: AnswerPlace, mark: u64) {
        self.line.borrow_mut().note(place, mark);
        self.events.is_due();
    }

    /// As [`ask_parts`](Self::ask_parts) and [`ask_noted`](Self::ask_noted).
    pub fn ask_parts_noted(self: &Rc<Self>, parts: Vec<Request>, join: Join, mark: u64) {
        let place = self.line.borrow_mut().open_parts(count_of(&parts), join);
        self.notes(place, mark);
        self.submit_parts(place, parts);
    }

    /// Nothing of a request was sent, nor will be.
    pub(super) fn is_not_sent(&self, request: &Request) {
        if request.route.is_step() {
            self.events.note_unsent_step();
        }
    }

    /// What its dialogue is to be told next.
    #[inline]
    pub(super) fn takes_event(&self) -> Option<ClientEvent<S>> {
        self.events.take(|| self.line.borrow_mut().take_noted())
    }

    /// What was done apart has come to this.
    pub(super) fn is_done(&self, outcome: S::Outcome) {
        self.events.add_outcome(outcome);
    }
}
