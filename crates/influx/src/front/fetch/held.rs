//! What a query over several sets holds, and what it hears at a limit of that.

use store::QueryError;
use store::query::context::Cancel;

/// What makes a query smaller.
const SMALLER: &str = "its points lie in several sets and are read from them all \
    (influx.cluster.{limit}): limit its time, say the tags and the fields that it needs, or ask \
    for count, sum, min, max, mean, spread, of which each set has its part";

pub(super) fn too_many(rows_max: u64) -> QueryError {
    let smaller = SMALLER.replace("{limit}", "rows-max");
    QueryError(format!("the query needs more than {rows_max} points; {smaller}"))
}

/// What points take of a query's memory, given back when this goes.
pub struct HeldMemory {
    cancel: Cancel,
    bytes: usize,
}

impl HeldMemory {
    /// Nothing so far, of a query's memory.
    pub fn none(cancel: &Cancel) -> Self {
        Self { cancel: cancel.clone(), bytes: 0 }
    }

    /// Takes more.
    ///
    /// # Errors
    /// That the query has as much as it may, and what makes it smaller.
    pub fn grow(&mut self, bytes: usize) -> Result<(), QueryError> {
        self.cancel.reserve(bytes).map_err(|error| {
            QueryError(format!("{}; {}", error.0, SMALLER.replace("{limit}", "query-memory")))
        })?;
        self.bytes += bytes;
        Ok(())
    }

    /// Gives all of it back.
    pub fn clear(&mut self) {
        self.cancel.release(std::mem::take(&mut self.bytes));
    }
}

impl Drop for HeldMemory {
    fn drop(&mut self) {
        self.clear();
    }
}
