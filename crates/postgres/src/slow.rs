//! The log of slow statements, without their literals, and a list of which take the most time.

use std::borrow::Cow;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use watch::slow::SlowLimit;

use crate::database::Database;
use crate::plan::Plan;

/// How much of a statement is logged.
const STATEMENT_CHARS_MAX: usize = 1_000;
/// How much of a statement is listed.
const LISTED_CHARS_MAX: usize = 200;
/// Forms that are kept, and those that are shown of them.
const KEPT_MAX: usize = 200;
const SHOWN_MAX: usize = 10;

/// What becomes of a slow statement of one worker: from when on it is slow, and where it is noted.
#[derive(Debug, Clone, Default)]
pub struct SlowNotes {
    /// A round that takes as long is slow; none is where the limit is zero.
    pub limit: SlowLimit,
    /// The list of all workers.
    pub forms: SlowForms,
}

/// A round that was slow.
pub struct Slow<'a> {
    /// The database that the client is connected to.
    pub database: &'a Database,
    /// The user on the server.
    pub user: &'a str,
    /// The backend's name in the settings.
    pub backend: &'a str,
    /// How it went there: `lane`, `lease` or `batch`.
    pub way: &'static str,
    /// The plans of its statements, in order.
    pub plans: &'a [Rc<Plan>],
}

/// Notes a round that has run for so long, if that is long.
#[inline]
pub fn note<'a>(notes: &SlowNotes, ran: Duration, of: impl FnOnce() -> Slow<'a>) {
    if notes.limit.is_slow(ran) {
        of().tell(ran, &notes.forms);
    }
}

impl Slow<'_> {
    #[cold]
    fn tell(&self, ran: Duration, forms: &SlowForms) {
        let Self { user, backend, way, .. } = self;
        let statement: Vec<_> = self.plans.iter().map(|plan| form(plan)).collect();
        let statement: String = statement.join("; ").chars().take(STATEMENT_CHARS_MAX).collect();
        let (database, seconds) = (&*self.database.name, ran.as_secs_f64());
        tracing::warn!(database, user, backend, way, seconds, statement, "a slow statement");
        forms.add(database, &statement, seconds);
    }
}

/// A statement without its literals.
fn form(plan: &Plan) -> Cow<'_, str> {
    let text = plan.form().map(String::from_utf8_lossy);
    text.unwrap_or(Cow::Borrowed("(a statement that is too long, or not understood)"))
}

/// Slow statements that differ in literals alone.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SlowForm {
    /// The database, as clients name it.
    pub database: String,
    /// The beginning of the statement, without literals.
    pub statement: String,
    /// How often it was slow.
    pub count: u64,
    /// How long these took together, in seconds.
    pub total_seconds: f64,
    /// How long the longest took, in seconds.
    pub max_seconds: f64,
}

/// The forms of slow statements since the start. At the limit a new one takes the place of that
/// which took the least time. Clones are the same list.
#[derive(Debug, Clone, Default)]
pub struct SlowForms(Arc<Mutex<HashMap<(String, String), SlowForm>>>);

impl SlowForms {
    fn add(&self, database: &str, statement: &str, seconds: f64) {
        let statement: String = statement.chars().take(LISTED_CHARS_MAX).collect();
        let mut kept = self.0.lock();
        let key = (database.to_owned(), statement.clone());
        if kept.len() >= KEPT_MAX && !kept.contains_key(&key) {
            let least =
                kept.iter().min_by(|(_, a), (_, b)| a.total_seconds.total_cmp(&b.total_seconds));
            let least = least.map(|(key, _)| key.clone());
            least.and_then(|least| kept.remove(&least));
        }
        let form = kept.entry(key).or_insert_with(|| SlowForm {
            database: database.to_owned(),
            statement,
            ..SlowForm::default()
        });
        form.count += 1;
        form.total_seconds += seconds;
        form.max_seconds = form.max_seconds.max(seconds);
    }

    /// Those that took the most time, the first of them first.
    pub fn shown(&self) -> Vec<SlowForm> {
        let mut all: Vec<SlowForm> = self.0.lock().values().cloned().collect();
        all.sort_by(|a, b| b.total_seconds.total_cmp(&a.total_seconds));
        all.truncate(SHOWN_MAX);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::{KEPT_MAX, SHOWN_MAX, SlowForms};

    #[test]
    fn forms_that_took_the_most_time_are_shown_and_kept() {
        let forms = SlowForms::default();
        forms.add("app", "SELECT $1", 1.0);
        forms.add("app", "SELECT $1", 3.0);
        forms.add("other", "SELECT $1", 2.0);
        let shown = forms.shown();
        let figures =
            shown.iter().map(|of| (&*of.database, of.count, of.total_seconds, of.max_seconds));
        assert_eq!(figures.collect::<Vec<_>>(), [("app", 2, 4.0, 3.0), ("other", 1, 2.0, 2.0)]);
        for n in 0..2 * KEPT_MAX {
            forms.add("app", &format!("SELECT {n}{}", "x".repeat(n)), 0.1);
        }
        assert!(forms.0.lock().len() <= KEPT_MAX);
        let shown = forms.shown();
        assert_eq!((shown.len(), shown[0].count, &*shown[1].database), (SHOWN_MAX, 2, "other"));
        assert!(shown.iter().all(|of| of.statement.len() <= super::LISTED_CHARS_MAX));
    }
}
