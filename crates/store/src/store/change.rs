//! Statements that change the store.

use std::sync::Arc;

use wire::influxql::ast::Statement;

use super::Store;
use crate::catalogue::Catalogue;
use crate::refusal::QueryError;

impl Store {
    /// Runs a statement that ends at `end` in the journal: those that create, alter or drop
    /// databases and retention policies, and `DROP MEASUREMENT`, `DROP SERIES` and `DELETE`.
    /// Called as [`apply_points`](Self::apply_points) is; one that has been applied already
    /// changes nothing. `db` and `rp` are those of the request.
    ///
    /// # Errors
    /// In InfluxDB's words, where it refuses; then nothing has changed.
    pub fn apply_change(
        &self,
        end: u64,
        statement: &Statement,
        db: &str,
        rp: &str,
        now_ns: i64,
    ) -> Result<(), QueryError> {
        if self.progress.has_applied(end) {
            return Ok(());
        }
        let _ = rp;
        let result = if Catalogue::is_changed_by(statement) {
            self.change_catalogue(end, statement)
        } else {
            self.delete(end, statement, db, now_ns)
        };
        self.progress.note_applied(end);
        result
    }

    fn change_catalogue(&self, end: u64, statement: &Statement) -> Result<(), QueryError> {
        let mut catalogue = Catalogue::clone(&self.catalogue.load());
        catalogue.change(end, statement)?;
        let catalogue = Arc::new(catalogue);
        self.lock().take_catalogue(Arc::clone(&catalogue));
        self.forget_spellings();
        // First the catalogue: who sees that claims were forgotten looks at it again.
        self.catalogue.store(Arc::clone(&catalogue));
        self.claims.keep(&catalogue);
        if matches!(statement, Statement::DropDatabase(_) | Statement::DropRetentionPolicy { .. }) {
            self.background.want_flush();
        }
        Ok(())
    }
}
