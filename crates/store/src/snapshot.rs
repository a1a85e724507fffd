//! The store at one moment.

use std::sync::Arc;

use crate::catalogue::{Catalogue, Policy};
use crate::data::State;
use crate::notices::{Notices, some};
use crate::view::PolicyView;

/// A name that is not known.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// There is no such database.
    #[error("database not found: {0}")]
    Database(String),
    /// No such retention policy.
    #[error("retention policy not found: {0}")]
    Policy(String),
}

/// The store at one moment: nothing that is applied later is seen through it.
#[derive(Clone, Debug)]
pub struct Snapshot {
    state: State,
    notices: Notices,
}

impl Snapshot {
    pub(crate) fn new(state: State) -> Self {
        Self { state, notices: Notices::default() }
    }

    /// The same, for an answer that says what is missing from it.
    pub fn noting(mut self, notices: &Notices) -> Self {
        self.notices = notices.clone();
        self
    }

    /// Databases and policies as they are at this moment.
    pub fn catalogue(&self) -> &Catalogue {
        &self.state.catalogue
    }

    /// The names of all databases, sorted.
    pub fn databases(&self) -> Vec<String> {
        self.state.catalogue.databases.keys().cloned().collect()
    }

    /// A database's retention policies as they are listed: the oldest first.
    ///
    /// # Errors
    /// When there is no such database.
    pub fn policies(&self, db: &str) -> Result<Vec<Policy>, NameError> {
        let database = self.state.catalogue.database(db);
        let database = database.ok_or_else(|| NameError::Database(db.to_owned()))?;
        Ok(database.policies.clone())
    }

    /// The data of one retention policy; `None` is the database's default.
    ///
    /// # Errors
    /// When a name is not known.
    pub fn policy(&self, db: &str, policy: Option<&str>) -> Result<PolicyView, NameError> {
        let database = self.state.catalogue.database(db);
        let database = database.ok_or_else(|| NameError::Database(db.to_owned()))?;
        let unknown = || NameError::Policy(policy.unwrap_or_default().to_owned());
        let policy = database.policy(policy).ok_or_else(unknown)?;
        let data = self.state.policies.get(&policy.id).ok_or_else(unknown)?;
        let files = self.state.version.policies.get(&policy.id).map(Arc::clone);
        Ok(PolicyView::new(Arc::clone(data), files, self.notices.clone()))
    }

    /// All that can't be read and is missing from answers, in words; not what was accepted.
    pub fn missing(&self) -> Vec<String> {
        let policies = self.state.version.policies.values();
        let mut missing: Vec<_> = policies.flat_map(|of| &of.missing).collect();
        missing.sort_unstable_by_key(|missing| missing.file);
        some(missing.iter().map(|missing| &*missing.text))
    }
}
