//! What there is to export.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use wire::influxql::quote_identifier;

use crate::exit::Failure;
use crate::remote::{Client, Series};

/// Policies and measurements of a database, and the statements that make it anew.
pub struct Plan {
    /// `CREATE DATABASE`, `CREATE RETENTION POLICY`.
    pub statements: Vec<String>,
    /// The policies that are exported.
    pub policies: Vec<String>,
    /// The measurements that are exported.
    pub measurements: Vec<String>,
}

/// What a field holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum FieldType {
    /// `1.5`; where a field has several types, InfluxDB selects the first of these.
    Float,
    /// `1i`.
    Integer,
    /// `1u`.
    Unsigned,
    /// `"text"`.
    String,
    /// `true`.
    Boolean,
}

impl Plan {
    /// Asks the server; `policy` and `measurements` say what of all there is.
    ///
    /// # Errors
    /// The server's, or there is no such policy.
    pub async fn make(
        client: &Client,
        db: &str,
        policy: Option<&str>,
        measurements: &[String],
    ) -> Result<Self, Failure> {
        let q = format!("SHOW RETENTION POLICIES ON {}", quote_identifier(db));
        let known = rows(client, &q, db).await?;
        let known: Vec<_> = known.into_iter().flat_map(|series| policies(&series)).collect();
        let chosen = known.iter().filter(|known| policy.is_none_or(|name| known.name == name));
        let policies: Vec<_> = chosen.clone().map(|known| known.name.clone()).collect();
        if policies.is_empty() {
            let name = policy.unwrap_or_default();
            return Err(Failure::other(format!("{db} has no retention policy {name:?}")));
        }
        let measurements = if measurements.is_empty() {
            let q = format!("SHOW MEASUREMENTS ON {}", quote_identifier(db));
            let found = rows(client, &q, db).await?;
            let found: BTreeSet<_> =
                found.iter().flat_map(|series| column(series, "name")).collect();
            found.into_iter().collect()
        } else {
            measurements.to_vec()
        };
        Ok(Self { statements: statements(db, chosen), policies, measurements })
    }
}

struct Policy {
    name: String,
    duration: String,
    shard_duration: String,
    replication: String,
    default: bool,
}

/// `CREATE DATABASE` makes the first policy, the others follow.
fn statements<'a>(db: &str, policies: impl Iterator<Item = &'a Policy>) -> Vec<String> {
    let db = quote_identifier(db);
    let mut policies: Vec<_> = policies.collect();
    policies.sort_by_key(|policy| !policy.default);
    let statement = |(at, policy): (usize, &&Policy)| {
        let Policy { name, duration, shard_duration, replication, default } = policy;
        let name = quote_identifier(name);
        let kept = format!(
            "DURATION {duration} REPLICATION {replication} SHARD DURATION {shard_duration}"
        );
        if at == 0 {
            return format!("CREATE DATABASE {db} WITH {kept} NAME {name}");
        }
        let default = if *default { " DEFAULT" } else { "" };
        format!("CREATE RETENTION POLICY {name} ON {db} {kept}{default}")
    };
    policies.iter().enumerate().map(statement).collect()
}

fn policies(series: &Series) -> Vec<Policy> {
    let all = |name: &str| column(series, name);
    let (names, durations) = (all("name"), all("duration"));
    let (shards, replications) = (all("shardGroupDuration"), all("replicaN"));
    let defaults = all("default");
    let at = |column: &[String], row: usize| column.get(row).cloned().unwrap_or_default();
    let policy = |row: usize| {
        let duration = at(&durations, row);
        Policy {
            name: at(&names, row),
            duration: if duration == "0s" { "INF".to_owned() } else { duration },
            shard_duration: at(&shards, row),
            replication: at(&replications, row),
            default: at(&defaults, row) == "true",
        }
    };
    (0..names.len()).map(policy).collect()
}

/// The types of a measurement's fields.
///
/// # Errors
/// The server's.
pub async fn field_types(
    client: &Client,
    db: &str,
    place: &str,
) -> Result<BTreeMap<String, FieldType>, Failure> {
    let found = rows(client, &format!("SHOW FIELD KEYS FROM {place}"), db).await?;
    let mut types = BTreeMap::new();
    for series in &found {
        let keys = column(series, "fieldKey");
        for (key, name) in keys.into_iter().zip(column(series, "fieldType")) {
            let found = match name.as_str() {
                "integer" => FieldType::Integer,
                "unsigned" => FieldType::Unsigned,
                "string" => FieldType::String,
                "boolean" => FieldType::Boolean,
                _ => FieldType::Float,
            };
            let first = types.entry(key).or_insert(found);
            *first = found.min(*first);
        }
    }
    Ok(types)
}

async fn rows(client: &Client, q: &str, db: &str) -> Result<Vec<Series>, Failure> {
    let answer = client.ask(q, db).await?;
    Ok(answer.results.into_iter().flat_map(|result| result.series).collect())
}

/// A column of a table as text.
fn column(series: &Series, name: &str) -> Vec<String> {
    let at = series.columns.iter().position(|column| column == name);
    let text = |row: &Vec<Value>| match at.and_then(|at| row.get(at)) {
        Some(Value::String(text)) => text.clone(),
        Some(value) => value.to_string(),
        None => String::new(),
    };
    series.values.iter().map(text).collect()
}
