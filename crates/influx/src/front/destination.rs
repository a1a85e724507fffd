//! Where the points of a write go, by the settings: which policy is the default, and whether a
//! database that nobody has is made.

use std::sync::Arc;

use super::answer::Answer;
use super::gateway::Gateway;
use crate::admission::{Destination, NameError, Refusal};
use crate::embedded::Embedded;

impl Gateway {
    /// What is known of the names of a write at this moment; see
    /// [`Admission::find`](crate::admission::Admission::find).
    pub(super) fn find<'a>(&self, db: &'a str, rp: &str) -> Result<Destination<'a>, NameError> {
        let live = self.live();
        self.admission.find(db, live.writes.policy(rp))
    }

    /// As [`find`](Self::find), with time for names that are not known; see
    /// [`Admission::resolve`](crate::admission::Admission::resolve).
    pub(super) async fn resolve<'a>(
        &self,
        db: &'a str,
        rp: &str,
    ) -> Result<Destination<'a>, NameError> {
        match self.find(db, rp) {
            Err(NameError::NoDatabase | NameError::NoPolicy) => {}
            known => return known,
        }
        let auto_create = self.live().writes.auto_create;
        self.admission.resolve(db, &self.policy(rp), auto_create).await
    }

    /// As [`find`](Self::find), with the database made where it is missing, as InfluxDB makes that
    /// of a UDP port.
    pub(super) async fn create_and_find<'a>(
        &self,
        db: &'a str,
        rp: &str,
    ) -> Result<Destination<'a>, NameError> {
        self.admission.create_and_find(db, &self.policy(rp)).await
    }

    /// The policy of a name; that of the settings where there is none.
    fn policy(&self, rp: &str) -> String {
        self.live().writes.policy(rp).to_owned()
    }

    /// The store within this process, once it knows everything that was acknowledged.
    ///
    /// # Errors
    /// 503 while it is starting.
    pub(super) fn embedded(&self) -> Result<Option<&Arc<Embedded>>, Answer> {
        let embedded = self.deliveries.embedded.as_ref();
        if let Some(embedded) = embedded {
            embedded.started().map_err(|starting| self.refused(&Refusal::Starting(starting)))?;
        }
        Ok(embedded)
    }
}
