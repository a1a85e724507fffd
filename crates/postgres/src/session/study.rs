//! Long statements, looked into away from the worker while their client waits.

use std::rc::Rc;

use super::{End, Session};
use crate::pipeline::study::{LongText, Study, look};
use crate::plan::Plan;

impl Session {
    /// Looks into the message of `len` bytes at the start of the inbox.
    pub(super) async fn study(&mut self, len: usize) -> Result<Study, End> {
        let (generation, facts) = self.database.facts();
        let scope = self.environment.scope;
        // Nobody else has it meanwhile, and it is too long to be copied.
        let inbox = std::mem::take(&mut self.inbox);
        let looked = self.front.shared.study(move || {
            let looked = look(inbox.get(..len).unwrap_or_default(), scope, &facts);
            (inbox, looked)
        });
        let Some((inbox, looked)) = looked.await else { return Err(End::Gone) };
        self.inbox = inbox;
        let kept = looked.map(|text| text.keep(generation, scope, &self.front.statements));
        Ok(kept.map_or(Study::Unreadable, |text| Study::Done(Rc::new(text))))
    }

    /// What is known of a long statement by now.
    pub(super) fn plan_of(&self, known: &LongText) -> Rc<Plan> {
        let facts = || self.database.facts().1;
        known.plan(self.database.generation(), self.environment.scope, facts)
    }
}
