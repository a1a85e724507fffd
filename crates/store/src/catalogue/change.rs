//! Statements that change the catalogue, with InfluxDB's rules and words
//! (`services/meta/{client,data}.go`).

use wire::influxql::ast::{PolicySpec, Statement};

use super::{Catalogue, Database, Policy};
use crate::refusal::QueryError;

const HOUR_NS: i64 = 3_600_000_000_000;
const DAY_NS: i64 = 24 * HOUR_NS;
/// Bytes of a name (`MaxNameLen`).
const NAME_BYTES_MAX: usize = 255;
/// The name of the policy that a database begins with.
const FIRST_POLICY: &str = "autogen";

/// The span of a partition where nothing is said (`shardGroupDuration`).
fn usual_partition_ns(duration_ns: i64) -> i64 {
    if duration_ns == 0 || duration_ns >= 180 * DAY_NS {
        7 * DAY_NS
    } else if duration_ns >= 2 * DAY_NS {
        DAY_NS
    } else {
        HOUR_NS
    }
}

/// `normalisedShardDuration`: at least an hour.
fn partition_ns(said: i64, duration_ns: i64) -> i64 {
    match said {
        0 => usual_partition_ns(duration_ns),
        said => said.max(HOUR_NS),
    }
}

fn error<T>(text: impl Into<String>) -> Result<T, QueryError> {
    Err(QueryError(text.into()))
}

fn policy_not_found<T>(name: &str) -> Result<T, QueryError> {
    error(format!("retention policy not found: {name}"))
}

fn database_not_found<T>(name: &str) -> Result<T, QueryError> {
    error(format!("database not found: {name}"))
}

fn check_duration(spec: &PolicySpec) -> Result<(), QueryError> {
    match spec.duration_ns {
        Some(duration) if duration != 0 && duration < HOUR_NS => {
            error("retention policy duration must be at least 1h0m0s")
        }
        _ => Ok(()),
    }
}

/// A policy as `spec` describes it.
fn policy(id: u64, spec: &PolicySpec) -> Result<Policy, QueryError> {
    let name = spec.name.clone().unwrap_or_else(|| FIRST_POLICY.to_owned());
    let duration_ns = spec.duration_ns.unwrap_or(0);
    let replication = spec.replication.unwrap_or(1);
    if name.is_empty() {
        return error("retention policy name required");
    }
    if name.len() > NAME_BYTES_MAX {
        return error("name too long");
    }
    if replication < 1 {
        return error("replication factor must be greater than 0");
    }
    let partition_ns = partition_ns(spec.shard_duration_ns.unwrap_or(0), duration_ns);
    if duration_ns > 0 && duration_ns < partition_ns {
        return error("retention policy duration must be greater than the shard duration");
    }
    Ok(Policy { id, name, duration_ns, partition_ns, replication, default: false })
}

impl Database {
    fn make_default(&mut self, name: &str) {
        for policy in &mut self.policies {
            policy.default = policy.name == name;
        }
    }
}

impl Catalogue {
    /// Whether `statement` is one for [`change`](Self::change).
    pub(crate) fn is_changed_by(statement: &Statement) -> bool {
        matches!(
            statement,
            Statement::CreateDatabase { .. }
                | Statement::DropDatabase(_)
                | Statement::CreateRetentionPolicy { .. }
                | Statement::AlterRetentionPolicy { .. }
                | Statement::DropRetentionPolicy { .. }
        )
    }

    /// Runs a statement that stands at `position` in the journal.
    ///
    /// # Errors
    /// In InfluxDB's words, where it refuses; then nothing has changed.
    pub(crate) fn change(
        &mut self,
        position: u64,
        statement: &Statement,
    ) -> Result<(), QueryError> {
        match statement {
            Statement::CreateDatabase { name, policy } => {
                self.create_database(position, name, policy.as_ref())
            }
            Statement::DropDatabase(name) => {
                self.databases.remove(name);
                Ok(())
            }
            Statement::CreateRetentionPolicy { db, policy } => {
                self.create_policy(position, db, policy)
            }
            Statement::AlterRetentionPolicy { db, policy } => self.alter_policy(db, policy),
            Statement::DropRetentionPolicy { db, name } => {
                if let Some(database) = self.databases.get_mut(db) {
                    database.policies.retain(|policy| policy.name != *name);
                }
                Ok(())
            }
            _ => error("the statement does not change the catalogue"),
        }
    }

    fn create_database(
        &mut self,
        position: u64,
        name: &str,
        spec: Option<&PolicySpec>,
    ) -> Result<(), QueryError> {
        if name.is_empty() {
            return error("database name required");
        }
        if name.len() > NAME_BYTES_MAX {
            return error("name too long");
        }
        let said = spec.cloned().unwrap_or_default();
        check_duration(&said)?;
        let Some(database) = self.databases.get_mut(name) else {
            let first = Policy { default: true, ..policy(position, &said)? };
            let database = Database { id: position, policies: vec![first] };
            self.databases.insert(name.to_owned(), database);
            return Ok(());
        };
        if spec.is_none() {
            return Ok(());
        }
        let wanted = policy(position, &said)?;
        if database.policies.is_empty() {
            database.policies.push(Policy { default: true, ..wanted });
            return Ok(());
        }
        let matches = |known: &Policy| {
            known.default
                && said.duration_ns.is_none_or(|duration| duration == known.duration_ns)
                && said.replication.is_none_or(|replication| replication == known.replication)
                && known.partition_ns == wanted.partition_ns
        };
        if database.policy(Some(&wanted.name)).is_some_and(matches) {
            return Ok(());
        }
        error("retention policy conflicts with an existing policy")
    }

    fn create_policy(
        &mut self,
        position: u64,
        db: &str,
        spec: &PolicySpec,
    ) -> Result<(), QueryError> {
        check_duration(spec)?;
        let wanted = policy(position, spec)?;
        let Some(database) = self.databases.get_mut(db) else {
            return database_not_found(db);
        };
        if let Some(known) = database.policy(Some(&wanted.name)) {
            let same = known.replication == wanted.replication
                && known.duration_ns == wanted.duration_ns
                && known.partition_ns == wanted.partition_ns;
            return match (same, spec.default && !known.default) {
                (false, _) => error("retention policy already exists"),
                (true, true) => error("retention policy conflicts with an existing policy"),
                (true, false) => Ok(()),
            };
        }
        let name = wanted.name.clone();
        database.policies.push(wanted);
        if spec.default {
            database.make_default(&name);
        }
        Ok(())
    }

    fn alter_policy(&mut self, db: &str, spec: &PolicySpec) -> Result<(), QueryError> {
        let name = spec.name.as_deref().unwrap_or_default();
        let Some(database) = self.databases.get_mut(db) else {
            return database_not_found(db);
        };
        let Some(policy) = database.policies.iter_mut().find(|policy| policy.name == name) else {
            return policy_not_found(name);
        };
        check_duration(spec)?;
        let duration_ns = spec.duration_ns.unwrap_or(policy.duration_ns);
        let least = spec.shard_duration_ns.unwrap_or(policy.partition_ns);
        let touched = spec.duration_ns.is_some() || spec.shard_duration_ns.is_some();
        if touched && duration_ns > 0 && duration_ns < least {
            return error("retention policy duration must be greater than the shard duration");
        }
        policy.duration_ns = duration_ns;
        if let Some(replication) = spec.replication {
            policy.replication = replication;
        }
        if let Some(said) = spec.shard_duration_ns {
            policy.partition_ns = partition_ns(said, duration_ns);
        }
        if spec.default {
            database.make_default(name);
        }
        Ok(())
    }
}
