//! The log of slow statements, without their literals.

use std::rc::Rc;
use std::time::Duration;

use super::{Database, Front};
use crate::plan::Plan;

/// How much of a statement is logged.
const STATEMENT_CHARS_MAX: usize = 1_000;

impl Front {
    /// Logs statements that have run for so long, if that is long.
    #[inline]
    pub fn note_slow(&self, database: &Database, user: &str, plans: &[Rc<Plan>], ran: Duration) {
        let limit = self.settings().slow_statement.get();
        if ran >= limit && !limit.is_zero() {
            tell(database, user, plans, ran);
        }
    }
}

#[cold]
fn tell(database: &Database, user: &str, plans: &[Rc<Plan>], ran: Duration) {
    let statement: Vec<String> = plans.iter().map(|plan| database.form(plan)).collect();
    let statement: String = statement.join("; ").chars().take(STATEMENT_CHARS_MAX).collect();
    let (database, seconds) = (&*database.name, ran.as_secs_f64());
    tracing::warn!(database, user, seconds, statement, "a slow statement");
}

impl Database {
    /// A statement without its literals. Only plans that are kept have that; a search through them
    /// costs nothing beside a statement that is slow.
    fn form(&self, plan: &Rc<Plan>) -> String {
        let planner = self.planner.borrow();
        let mut kept = planner.plans().filter(|(_, known)| Rc::ptr_eq(known, plan));
        match kept.next() {
            Some((form, _)) => String::from_utf8_lossy(form).into_owned(),
            None => "(a statement that is not kept)".to_owned(),
        }
    }
}
