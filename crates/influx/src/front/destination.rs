//! Where the points of a write go: the names of the request, resolved by whoever keeps the points.

use std::sync::Arc;
use std::time::Duration;

use store::catalogue::Target;
use wire::influxql::{self, Change, Kind};

use super::answer::{self, Answer};
use super::gateway::Gateway;
use crate::catalogue::Lookup;
use crate::embedded::{Embedded, Named};
use crate::record;

/// How long a statement that a write needs may take on the embedded store.
const MAKE_WAIT: Duration = Duration::from_secs(10);

/// Where points go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Destination {
    /// The retention policy; empty where the default is not known.
    pub policy: Arc<str>,
    /// What it is to the embedded store, where there is one.
    pub target: Option<Target>,
}

/// Where points go, or why nowhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Resolved {
    /// There.
    To(Destination),
    /// Nobody has the database.
    NoDatabase,
    /// Nobody has the retention policy in the database.
    NoPolicy,
}

impl From<Lookup> for Resolved {
    fn from(lookup: Lookup) -> Self {
        match lookup {
            Lookup::Policy(policy) => Self::To(Destination { policy, target: None }),
            Lookup::NoDatabase => Self::NoDatabase,
            Lookup::NoPolicy => Self::NoPolicy,
        }
    }
}

impl From<Named> for Resolved {
    fn from(named: Named) -> Self {
        match named {
            Named::Both(policy, target) => Self::To(Destination { policy, target: Some(target) }),
            Named::NoDatabase => Self::NoDatabase,
            Named::NoPolicy => Self::NoPolicy,
        }
    }
}

impl Gateway {
    /// What is known of the names of a write at this moment.
    ///
    /// # Errors
    /// 503 while the embedded store is starting: it does not know all names yet.
    pub(super) fn lookup(&self, db: &str, rp: &str) -> Result<Resolved, Answer> {
        let live = self.live();
        let rp = if rp.is_empty() { &live.settings.default_retention_policy } else { rp };
        match self.backends.embedded() {
            None => Ok(self.catalogue.lookup(db, rp).into()),
            Some(embedded) => {
                embedded.started().map_err(|e| answer::unavailable(&e.to_string(), 1))?;
                Ok(embedded.lookup(db, rp).into())
            }
        }
    }

    /// Where a write to `db` and `rp` goes: asks the backends afresh about a name that is not
    /// known, and makes what is to be made.
    ///
    /// # Errors
    /// The answer, where the names cannot be known or made now.
    pub(super) async fn resolve(&self, db: &str, rp: &str) -> Result<Resolved, Answer> {
        let known = self.lookup(db, rp)?;
        if matches!(known, Resolved::To(_)) {
            return Ok(known);
        }
        let live = self.live();
        let auto_create = live.settings.auto_create_database;
        let rp =
            if rp.is_empty() { live.settings.default_retention_policy.clone() } else { rp.into() };
        drop(live);
        let elsewhere = self.catalogue.resolve(db, &rp).await;
        let embedded = self.backends.embedded();
        let creation = match (&elsewhere, embedded) {
            (Lookup::Policy(_), None) => return Ok(elsewhere.into()),
            // Another backend has it, so this one is to have it too.
            (Lookup::Policy(_), Some(_)) => self.catalogue.snapshot().creation(db, &rp),
            (Lookup::NoDatabase, _) if auto_create && known == Resolved::NoDatabase => {
                vec![create_database(db)]
            }
            _ => return Ok(known),
        };
        let _one_at_a_time = self.creating.lock().await;
        for statement in creation {
            if matches!(self.lookup(db, &rp)?, Resolved::To(_)) {
                break;
            }
            self.make(&statement).await?;
        }
        self.lookup(db, &rp)
    }

    /// Runs a statement that a write needs; returns once names that it makes are in force.
    ///
    /// # Errors
    /// The answer, where the journal does not take it.
    pub(super) async fn make(&self, text: &str) -> Result<(), Answer> {
        let ticket = self.backends.statement();
        let record = record::Statement { id: ticket.id(), db: "", rp: "", params: "", text };
        let change = influxql::split(text).ok().and_then(|mut all| all.pop());
        let change = match change.map(|statement| statement.kind) {
            Some(Kind::Change(change)) => change,
            _ => Change::Other,
        };
        self.append_statement(&record, &change).await?;
        if let Some(embedded) = self.backends.embedded() {
            ticket.wait_for(Some(embedded.name()), MAKE_WAIT, Duration::ZERO).await;
        }
        Ok(())
    }

    /// The store within this process, once it knows everything that was acknowledged.
    ///
    /// # Errors
    /// 503 while it is starting.
    pub(super) fn embedded(&self) -> Result<Option<&Arc<Embedded>>, Answer> {
        let embedded = self.backends.embedded();
        if let Some(embedded) = embedded {
            embedded.started().map_err(|e| answer::unavailable(&e.to_string(), 1))?;
        }
        Ok(embedded)
    }
}

/// The statement that makes a database.
pub fn create_database(db: &str) -> String {
    format!("CREATE DATABASE {}", influxql::quote_identifier(db))
}
