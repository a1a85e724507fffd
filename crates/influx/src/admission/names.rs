//! Where the points of a write go: the names of the request, found by whoever keeps the points.

use std::sync::Arc;

use store::catalogue::Target;
use wire::influxql;

use super::{Admission, Refusal};
use crate::catalogue::{Catalogue, Lookup};
use crate::embedded::{Embedded, Starting};
use crate::placement::DATABASE;

/// Where the points of a write go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Destination<'a> {
    /// The database's name, as the request gives it.
    pub db: &'a str,
    /// The retention policy; empty where the default is not known.
    pub policy: Arc<str>,
    /// What it is to the embedded store, where there is one.
    pub target: Option<Target>,
}

/// Why points go nowhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NameError {
    /// Nobody has the database.
    NoDatabase,
    /// Nobody has the retention policy in the database.
    NoPolicy,
    /// The names can't be known, or made, at this moment.
    Refused(Refusal),
}

impl From<Refusal> for NameError {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl From<Starting> for NameError {
    fn from(starting: Starting) -> Self {
        Self::Refused(starting.into())
    }
}

/// Who knows databases and retention policies.
pub trait Names {
    /// Where points to these names go, as far as is known at this moment; an empty policy is the
    /// default one.
    ///
    /// # Errors
    /// What there is no destination for.
    fn find<'a>(&self, db: &'a str, policy: &str) -> Result<Destination<'a>, NameError>;
}

impl Names for Catalogue {
    fn find<'a>(&self, db: &'a str, policy: &str) -> Result<Destination<'a>, NameError> {
        destination_by(self.lookup(db, policy), db)
    }
}

impl Names for Embedded {
    fn find<'a>(&self, db: &'a str, policy: &str) -> Result<Destination<'a>, NameError> {
        self.started()?;
        let catalogue = self.store().catalogue();
        let database = catalogue.database(db).ok_or(NameError::NoDatabase)?;
        let named = database.policy(Some(policy)).ok_or(NameError::NoPolicy)?;
        let target = catalogue.resolve(db, policy).ok_or(NameError::NoPolicy)?;
        Ok(Destination { db, policy: named.name.as_str().into(), target: Some(target) })
    }
}

fn destination_by(lookup: Lookup, db: &str) -> Result<Destination<'_>, NameError> {
    match lookup {
        Lookup::Policy(policy) => Ok(Destination { db, policy, target: None }),
        Lookup::NoDatabase => Err(NameError::NoDatabase),
        Lookup::NoPolicy => Err(NameError::NoPolicy),
    }
}

/// What is done about names that are not known, once the backends have been asked afresh.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MissingNames {
    /// A backend has them, and no store has to.
    AreElsewhere,
    /// The store is to have what another backend has.
    AreCopied,
    /// The database is made.
    AreCreated,
    /// Nothing is done: they are missing.
    StayMissing,
}

impl MissingNames {
    /// Decides from what is `missing` here and what the backends know.
    fn decide(missing: &NameError, elsewhere: &Lookup, has_store: bool, auto_create: bool) -> Self {
        match elsewhere {
            Lookup::Policy(_) if has_store => Self::AreCopied,
            Lookup::Policy(_) => Self::AreElsewhere,
            Lookup::NoDatabase if auto_create && *missing == NameError::NoDatabase => {
                Self::AreCreated
            }
            Lookup::NoDatabase | Lookup::NoPolicy => Self::StayMissing,
        }
    }
}

impl Admission {
    /// As [`Names::find`] of the embedded store, or of the catalogue where there is none.
    ///
    /// # Errors
    /// What there is no destination for; [`Refusal::Starting`] while the store does not know all.
    pub fn find<'a>(&self, db: &'a str, policy: &str) -> Result<Destination<'a>, NameError> {
        match &self.embedded {
            None if self.is_hidden(db) => Err(NameError::NoDatabase),
            None => self.catalogue.find(db, policy),
            Some(embedded) => embedded.find(db, policy),
        }
    }

    /// Whether a database is the one that a cluster's table stands in.
    fn is_hidden(&self, db: &str) -> bool {
        db == DATABASE && self.backends.placement().table().is_some()
    }

    /// As [`find`](Self::find), with time: asks the backends afresh about names that are not
    /// known, and makes what is to be made, a database that nobody has with `auto_create` only.
    ///
    /// # Errors
    /// As [`find`](Self::find), and where the journal does not take what makes the names.
    pub async fn resolve<'a>(
        &self,
        db: &'a str,
        policy: &str,
        auto_create: bool,
    ) -> Result<Destination<'a>, NameError> {
        let missing = match self.find(db, policy) {
            Err(missing @ (NameError::NoDatabase | NameError::NoPolicy)) => missing,
            known => return known,
        };
        if self.is_hidden(db) {
            return Err(missing);
        }
        let elsewhere = self.catalogue.resolve(db, policy).await;
        let has_store = self.embedded.is_some();
        match MissingNames::decide(&missing, &elsewhere, has_store, auto_create) {
            MissingNames::AreElsewhere => destination_by(elsewhere, db),
            MissingNames::AreCopied => {
                let creation = self.catalogue.snapshot().creation(db, policy);
                self.create(db, policy, &creation).await
            }
            MissingNames::AreCreated => self.create_and_find(db, policy).await,
            MissingNames::StayMissing => Err(missing),
        }
    }

    /// Makes the database, whoever else has it, unless it is there by now.
    ///
    /// # Errors
    /// As [`resolve`](Self::resolve).
    pub async fn create_and_find<'a>(
        &self,
        db: &'a str,
        policy: &str,
    ) -> Result<Destination<'a>, NameError> {
        let create = format!("CREATE DATABASE {}", influxql::quote_identifier(db));
        self.create(db, policy, &[create]).await
    }

    async fn create<'a>(
        &self,
        db: &'a str,
        policy: &str,
        statements: &[String],
    ) -> Result<Destination<'a>, NameError> {
        let _one_at_a_time = self.creating.lock().await;
        for statement in statements {
            match self.find(db, policy) {
                Err(NameError::NoDatabase | NameError::NoPolicy) => self.run(statement).await?,
                known => return known,
            }
        }
        self.find(db, policy)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_made_where_another_backend_has_them_or_nobody_and_it_is_wanted() {
        use MissingNames::{AreCopied, AreCreated, AreElsewhere, StayMissing};
        let policy = || Lookup::Policy("autogen".into());
        let (no_db, no_policy) = (NameError::NoDatabase, NameError::NoPolicy);
        for (missing, elsewhere, has_store, auto_create, decision) in [
            (&no_db, policy(), false, true, AreElsewhere),
            (&no_db, policy(), true, false, AreCopied),
            (&no_policy, policy(), true, false, AreCopied),
            (&no_db, Lookup::NoDatabase, false, true, AreCreated),
            (&no_db, Lookup::NoDatabase, true, true, AreCreated),
            (&no_db, Lookup::NoDatabase, true, false, StayMissing),
            // The store has the database, so that only its policy could be made.
            (&no_policy, Lookup::NoDatabase, true, true, StayMissing),
            (&no_policy, Lookup::NoPolicy, true, true, StayMissing),
            (&no_db, Lookup::NoPolicy, true, true, StayMissing),
        ] {
            let decided = MissingNames::decide(missing, &elsewhere, has_store, auto_create);
            let case = format!("{missing:?} {elsewhere:?} {has_store} {auto_create}");
            assert_eq!(decided, decision, "{case}");
        }
    }
}
