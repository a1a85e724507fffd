//! What is judged of a round by its text, and for how long that holds.

use std::rc::Rc;

use super::names::Names;
use super::statements::Statement;
use super::summary::{Summarised, Summary, summarise};
use crate::plan::{Plan, Scope};

/// Who says what texts are, by facts of some generation.
pub trait Plans {
    /// The plan of a text that is read in this scope.
    fn plan(&self, sql: &[u8], scope: Scope) -> Rc<Plan>;
    /// The plan of a prepared statement, for text that is read in this scope.
    fn plan_of(&self, statement: &Statement, scope: Scope) -> Rc<Plan>;
    /// Whether values of these types (as in Parse, from their number on) can be read without
    /// calling anything that writes.
    fn are_harmless(&self, types: &[u8]) -> bool;
    /// Which facts plans are made by; it changes with them.
    fn generation(&self) -> u64;
}

/// What a judgement rests on beside the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Basis {
    generation: u64,
    scope: Scope,
    /// The version of the client's names.
    names: u64,
}

/// What was looked up of a text.
#[derive(Debug, Clone)]
pub struct TextPlan {
    /// The generation of the facts that it was made by.
    pub generation: u64,
    /// How the text was read.
    pub scope: Scope,
    /// What the text is.
    pub plan: Rc<Plan>,
}

/// What a round was judged to be.
#[derive(Debug, Clone)]
pub struct Judgement {
    basis: Basis,
    summarised: Summarised,
}

impl Judgement {
    /// Looks into a round of the extended protocol of a session whose text is read in `scope`.
    pub fn of_extended(
        round_bytes: &[u8],
        names: &Names,
        plans: &impl Plans,
        scope: Scope,
    ) -> Self {
        // Before the plans: should the facts change meanwhile, it does not hold.
        let basis = Basis { generation: plans.generation(), scope, names: names.version() };
        Self { basis, summarised: summarise(round_bytes, names, plans, scope) }
    }

    /// Looks into the text of a Query.
    pub fn of_query(sql: &[u8], names: &Names, plans: &impl Plans, scope: Scope) -> Self {
        let basis = Basis { generation: plans.generation(), scope, names: names.version() };
        let summarised = Summarised::of_query(plans.plan(sql, scope));
        Self { basis, summarised }
    }

    /// Whether it need not be made again. What follows from the text is kept for as long as the
    /// scope that it is read in and the facts stay the same. What something else moves is looked up
    /// again: a plan that a server has refuted, and what a name of the client's stands for. Where a
    /// round goes is no judgement and is asked each time: how quick its statement is, who else
    /// waits, whether its client is in a transaction or keeps its server.
    pub fn holds(&self, names: &Names, plans: &impl Plans, scope: Scope) -> bool {
        let Basis { generation, scope: read_in, names: version } = self.basis;
        let rests_on_names = self.summarised.rests_on_names;
        generation == plans.generation()
            && read_in == scope
            && (!rests_on_names || version == names.version())
            && !self.summarised.is_refuted()
    }

    /// What the round comes to.
    pub fn summary(&self) -> &Summary {
        &self.summarised.summary
    }

    /// The plan of the only text that the round itself has, as long as that holds for whoever
    /// reads it in this scope, whatever names stand for by now.
    pub fn text_plan(&self, plans: &impl Plans, scope: Scope) -> Option<TextPlan> {
        let Basis { generation, scope: read_in, .. } = self.basis;
        let plan = self.summarised.text_plan.as_ref().filter(|plan| !plan.is_refuted())?;
        let is_current = generation == plans.generation() && read_in == scope;
        is_current.then(|| TextPlan { generation, scope, plan: plan.clone() })
    }
}

#[cfg(test)]
#[path = "judgement_tests.rs"]
mod tests;
