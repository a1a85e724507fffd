//! The databases and retention policies of one backend, as it lists them. Pure.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use wire::influxql::{Change, duration_ns, quote_identifier};

/// The policy InfluxDB makes with a database when none is asked for.
const AUTOGEN: &str = "autogen";

/// A retention policy as `SHOW RETENTION POLICIES` describes it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Policy {
    /// How long points are kept, as `168h0m0s`; empty when it is not known, `0s` is for ever.
    #[serde(default)]
    pub duration: String,
    /// The span of a shard group, as `24h0m0s`; empty when it is not known.
    #[serde(default)]
    pub shard_duration: String,
    /// Replicas; 0 when it is not known.
    #[serde(default)]
    pub replicas: u64,
}

/// The retention policies of a database.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Policies {
    /// The name of the default policy; empty when there is none.
    pub default: String,
    /// Each policy by its name.
    pub policies: BTreeMap<String, Policy>,
}

/// The databases of a backend, by name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Listing {
    /// The retention policies of each database.
    pub databases: BTreeMap<String, Policies>,
}

impl Policies {
    fn set(&mut self, name: &str, default: bool) {
        self.policies.entry(name.to_owned()).or_default();
        if default {
            name.clone_into(&mut self.default);
        }
    }
}

impl Listing {
    /// What the listing becomes when the backend runs a statement.
    pub fn apply(&mut self, change: &Change) {
        match change {
            Change::CreateDatabase { name, policy } => {
                if let Entry::Vacant(new) = self.databases.entry(name.clone()) {
                    let policies = new.insert(Policies::default());
                    policies.set(policy.as_deref().unwrap_or(AUTOGEN), true);
                }
            }
            Change::DropDatabase { name } => {
                self.databases.remove(name);
            }
            Change::CreateRetentionPolicy { db, name, default }
            | Change::AlterRetentionPolicy { db, name, default } => {
                if let Some(policies) = self.databases.get_mut(db) {
                    policies.set(name, *default);
                }
            }
            Change::DropRetentionPolicy { db, name } => {
                if let Some(policies) = self.databases.get_mut(db) {
                    policies.policies.remove(name);
                    if policies.default == *name {
                        policies.default.clear();
                    }
                }
            }
            Change::Delete | Change::DropSeries | Change::Into | Change::Other => {}
        }
    }

    /// Adds what `other` has and this has not; what both have stays as it is here.
    pub fn unite(&mut self, other: &Listing) {
        for (name, theirs) in &other.databases {
            let ours = self.databases.entry(name.clone()).or_default();
            for (policy, described) in &theirs.policies {
                ours.policies.entry(policy.clone()).or_insert_with(|| described.clone());
            }
            if ours.default.is_empty() {
                ours.default.clone_from(&theirs.default);
            }
        }
    }

    /// The statements that make `db`, with the policies known here, on a backend that lacks
    /// it; with `rp`, that policy even if nothing is known about it. Each may run where it has run
    /// before.
    pub fn creation(&self, db: &str, rp: &str) -> Vec<String> {
        let unknown = Policies::default();
        let known = self.databases.get(db).unwrap_or(&unknown);
        let named = quote_identifier(db);
        let mut statements = vec![format!("CREATE DATABASE {named}")];
        let mut asked = BTreeMap::new();
        if !rp.is_empty() && !known.policies.contains_key(rp) && rp != AUTOGEN {
            asked.insert(rp.to_owned(), Policy::default());
        }
        for (name, policy) in known.policies.iter().chain(&asked) {
            let is_default = *name == known.default;
            if name == AUTOGEN && is_default && policy.is_for_ever() {
                continue;
            }
            let what = format!("RETENTION POLICY {} ON {named}", quote_identifier(name));
            let verb = if name == AUTOGEN { "ALTER" } else { "CREATE" };
            statements.push(format!("{verb} {what}{}", policy.clauses(is_default)));
        }
        statements
    }
}

impl Listing {
    /// The statements that have a server with this listing have the databases and policies of
    /// `wanted`; what those lack stays.
    pub fn changes_to(&self, wanted: &Listing) -> Vec<String> {
        let mut statements = Vec::new();
        for (db, policies) in &wanted.databases {
            let named = quote_identifier(db);
            let own = self.databases.get(db);
            if own.is_none() {
                statements.push(format!("CREATE DATABASE {named}"));
            }
            for (name, policy) in &policies.policies {
                let is_default = *name == policies.default;
                let there = own.and_then(|own| own.policies.get(name));
                if there == Some(policy)
                    && (!is_default || own.is_some_and(|of| of.default == *name))
                {
                    continue;
                }
                let is_there = there.is_some() || (own.is_none() && name == AUTOGEN);
                let verb = if is_there { "ALTER" } else { "CREATE" };
                let (name, clauses) = (quote_identifier(name), policy.clauses(is_default));
                statements.push(format!("{verb} RETENTION POLICY {name} ON {named}{clauses}"));
            }
        }
        statements
    }

    /// The same databases and policies, which drop nothing.
    pub fn kept_for_ever(&self) -> Self {
        let mut kept = self.clone();
        for policy in kept.databases.values_mut().flat_map(|of| of.policies.values_mut()) {
            "0s".clone_into(&mut policy.duration);
        }
        kept
    }
}

impl Policy {
    /// How long points are kept; `None` for ever, or where nobody knows.
    pub fn duration_ns(&self) -> Option<i64> {
        duration_ns(&self.duration).filter(|duration_ns| *duration_ns > 0)
    }

    /// Whether points stay in it.
    pub fn is_for_ever(&self) -> bool {
        self.duration.is_empty() || self.duration == "0s"
    }

    fn clauses(&self, default: bool) -> String {
        let duration = if self.is_for_ever() { "INF" } else { &self.duration };
        let mut text = format!(" DURATION {duration} REPLICATION {}", self.replicas.max(1));
        if !self.shard_duration.is_empty() && self.shard_duration != "0s" {
            text.push_str(" SHARD DURATION ");
            text.push_str(&self.shard_duration);
        }
        if default {
            text.push_str(" DEFAULT");
        }
        text
    }
}

/// The rows of each statement's first series in an answer of `/query`; each row by column name.
///
/// # Errors
/// The words of the first error in it, or what is wrong with its form.
fn rows(answer: &Value) -> Result<Vec<Vec<BTreeMap<&str, &Value>>>, String> {
    if let Some(error) = answer.get("error").and_then(Value::as_str) {
        return Err(error.to_owned());
    }
    let results = answer.get("results").and_then(Value::as_array);
    let results = results.ok_or("the answer to SHOW has no results")?;
    let mut all = Vec::with_capacity(results.len());
    for result in results {
        if let Some(error) = result.get("error").and_then(Value::as_str) {
            return Err(error.to_owned());
        }
        all.push(first_series(result).unwrap_or_default());
    }
    Ok(all)
}

fn first_series(result: &Value) -> Option<Vec<BTreeMap<&str, &Value>>> {
    let series = result.get("series")?.as_array()?.first()?;
    let columns = series.get("columns")?.as_array()?;
    let values = series.get("values")?.as_array()?;
    let rows = values.iter().filter_map(Value::as_array).map(|row| {
        let names = columns.iter().filter_map(Value::as_str);
        names.zip(row).collect()
    });
    Some(rows.collect())
}

/// The names in an answer to `SHOW DATABASES`.
///
/// # Errors
/// The backend's words, or what is wrong with the answer.
pub fn database_names(answer: &Value) -> Result<Vec<String>, String> {
    let rows = rows(answer)?;
    let names = rows.first().into_iter().flatten();
    let names = names.filter_map(|row| row.get("name")?.as_str());
    Ok(names.map(str::to_owned).collect())
}

/// The policies in an answer to `SHOW RETENTION POLICIES ON` for each of `names` in turn.
///
/// # Errors
/// The backend's words, or what is wrong with the answer.
pub fn policies(names: &[String], answer: &Value) -> Result<Vec<(String, Policies)>, String> {
    let rows = rows(answer)?;
    if rows.len() != names.len() {
        return Err(format!("{} answers to {} SHOW statements", rows.len(), names.len()));
    }
    let of = |rows: Vec<BTreeMap<&str, &Value>>| {
        let mut policies = Policies::default();
        for row in rows {
            let text = |column: &str| row.get(column).and_then(|value| value.as_str());
            let Some(name) = text("name") else { continue };
            let owned = |column: &str| text(column).unwrap_or_default().to_owned();
            let policy = Policy {
                duration: owned("duration"),
                shard_duration: owned("shardGroupDuration"),
                replicas: row.get("replicaN").and_then(|value| value.as_u64()).unwrap_or(0),
            };
            policies.policies.insert(name.to_owned(), policy);
            if row.get("default").and_then(|value| value.as_bool()) == Some(true) {
                name.clone_into(&mut policies.default);
            }
        }
        policies
    };
    Ok(names.iter().cloned().zip(rows.into_iter().map(of)).collect())
}

#[cfg(test)]
#[path = "listing_tests.rs"]
mod tests;
