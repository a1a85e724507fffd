//! Statements that change something: they are records among the writes, and some writes need one.

use std::time::Duration;

use wire::influxql::{self, Change, Kind};

use super::{Admission, Refusal};
use crate::record;

/// How long a statement that a write needs may take on the embedded store.
const RUN_WAIT: Duration = Duration::from_secs(10);

impl Admission {
    /// Puts a statement that changes something into the journal; returns once it is acknowledged.
    /// All names that it makes or drops are in force from then on.
    ///
    /// # Errors
    /// Where the journal does not take it, or does not acknowledge it.
    pub async fn append_statement(
        &self,
        statement: &record::Statement<'_>,
        change: &Change,
    ) -> Result<(), Refusal> {
        let mut payload = Vec::new();
        record::put_statement(&mut payload, statement)?;
        let position =
            self.journal.append_from_anywhere(record::KIND_STATEMENT, 0, true, &[&payload]).await?;
        self.catalogue.apply(position, change);
        Ok(())
    }

    /// Runs a statement that a write needs; returns once names that it makes are in force.
    pub(super) async fn run(&self, text: &str) -> Result<(), Refusal> {
        let ticket = self.backends.statement();
        let record = record::Statement { id: ticket.id(), db: "", rp: "", params: "", text };
        self.append_statement(&record, &change_in(text)).await?;
        if let Some(embedded) = &self.embedded {
            ticket.wait_for(Some(embedded.name()), RUN_WAIT, Duration::ZERO).await;
        }
        Ok(())
    }
}

/// What a text of one statement changes, as far as names are concerned.
pub fn change_in(text: &str) -> Change {
    let statement = influxql::split(text).ok().and_then(|mut all| all.pop());
    match statement.map(|statement| statement.kind) {
        Some(Kind::Change(change)) => change,
        _ => Change::Other,
    }
}
