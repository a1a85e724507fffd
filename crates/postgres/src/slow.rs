//! The log of slow statements, without their literals.

use std::borrow::Cow;
use std::rc::Rc;
use std::time::Duration;

use watch::slow::SlowLimit;

use crate::database::Database;
use crate::plan::Plan;

/// How much of a statement is logged.
const STATEMENT_CHARS_MAX: usize = 1_000;

/// A round that was slow.
pub struct Slow<'a> {
    /// Its client's database.
    pub database: &'a Database,
    /// The user on the server.
    pub user: &'a str,
    /// The backend's name.
    pub backend: &'a str,
    /// How it went there: `lane` or `lease`.
    pub way: &'static str,
    /// Its statements.
    pub plans: &'a [Rc<Plan>],
}

/// Logs a round that has run for so long, if that is long.
#[inline]
pub fn note<'a>(limit: &SlowLimit, ran: Duration, of: impl FnOnce() -> Slow<'a>) {
    if limit.is_slow(ran) {
        of().tell(ran);
    }
}

impl Slow<'_> {
    #[cold]
    fn tell(&self, ran: Duration) {
        let Self { user, backend, way, .. } = self;
        let statement: Vec<_> = self.plans.iter().map(|plan| form(plan)).collect();
        let statement: String = statement.join("; ").chars().take(STATEMENT_CHARS_MAX).collect();
        let (database, seconds) = (&*self.database.name, ran.as_secs_f64());
        tracing::warn!(database, user, backend, way, seconds, statement, "a slow statement");
    }
}

/// A statement without its literals.
fn form(plan: &Plan) -> Cow<'_, str> {
    let text = plan.form().map(String::from_utf8_lossy);
    text.unwrap_or(Cow::Borrowed("(a statement that is too long, or not understood)"))
}
