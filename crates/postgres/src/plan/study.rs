//! Long texts, looked into on another thread: a worker would stand still for that long.

use wire::sql::{Directive, directive};

use super::facts::Facts;
use super::planner::{Plan, Scope};
use super::statement::{self, Classified};

/// What a text is, ready to be made a plan of on any thread.
pub struct Studied {
    classified: Classified,
    directive: Option<Directive>,
}

impl Studied {
    /// Looks into `sql`, a query without its final zero byte. In proportion to its length.
    #[must_use]
    pub fn of(sql: &[u8], scope: Scope, facts: &Facts) -> Self {
        let classified = statement::classify_text(sql, scope, facts);
        Self { classified, directive: directive(sql) }
    }

    /// Its plan, which is kept by nobody: no normal form is made of it.
    #[must_use]
    pub fn plan(self) -> Plan {
        Plan::new(self.classified.found, self.directive, std::rc::Rc::default())
    }
}
