//! Databases and retention policies: which names there are, and which ids they stand for.

mod change;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A retention policy of a database.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Policy {
    /// The journal position of the statement that made it; never used again for another one.
    pub id: u64,
    /// Its name, unique in its database.
    pub name: String,
    /// Nanoseconds that points are kept; 0 is for ever.
    pub duration_ns: i64,
    /// Nanoseconds of one partition.
    pub partition_ns: i64,
    /// `REPLICATION`, kept to be shown.
    pub replication: u64,
    /// Whether it is the default of its database.
    pub default: bool,
}

/// A database with its retention policies.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Database {
    /// The journal position of the statement that made it; never used again for another one.
    pub id: u64,
    /// Its retention policies, the oldest first.
    pub policies: Vec<Policy>,
}

/// All databases of the store.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Catalogue {
    /// Each database by its name.
    pub databases: BTreeMap<String, Database>,
}

/// Which database and policy a record is for.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Ids {
    /// The id of the database: [`Database::id`].
    pub db: u64,
    /// The id of the policy: [`Policy::id`].
    pub policy: u64,
}

/// What the names of a write stand for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    /// The ids, for the record.
    pub ids: Ids,
    /// Nanoseconds that points are kept; 0 is for ever.
    pub duration_ns: i64,
}

impl Database {
    /// The policy of a name; `None` or empty is the default one.
    pub fn policy(&self, name: Option<&str>) -> Option<&Policy> {
        match name {
            None | Some("") => self.policies.iter().find(|policy| policy.default),
            Some(name) => self.policies.iter().find(|policy| policy.name == name),
        }
    }
}

impl Catalogue {
    /// The database of a name.
    pub fn database(&self, name: &str) -> Option<&Database> {
        self.databases.get(name)
    }

    /// What a database and a policy (empty: the default one) stand for.
    pub fn resolve(&self, db: &str, policy: &str) -> Option<Target> {
        let database = self.database(db)?;
        let policy = database.policy(Some(policy))?;
        let ids = Ids { db: database.id, policy: policy.id };
        Some(Target { ids, duration_ns: policy.duration_ns })
    }

    /// The policy of an id, with its database.
    pub fn by_id(&self, ids: Ids) -> Option<&Policy> {
        let database = self.databases.values().find(|database| database.id == ids.db)?;
        database.policies.iter().find(|policy| policy.id == ids.policy)
    }

    /// All policies with their ids.
    pub fn policies(&self) -> impl Iterator<Item = (Ids, &Policy)> {
        self.databases.values().flat_map(|database| {
            let ids = |policy: &Policy| Ids { db: database.id, policy: policy.id };
            database.policies.iter().map(move |policy| (ids(policy), policy))
        })
    }
}
