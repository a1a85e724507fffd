//! Writes a `SHOW` statement as InfluxQL text.

use std::fmt::{Display, Formatter, Result};

use super::{List, Name, clause, count, list};
use crate::influxql::ast::{
    Cardinality, KeyMatch, Measurement, MeasurementName, Show, ShowClauses, Source,
};

impl Display for Show {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.write_str("SHOW ")?;
        match self {
            Self::Databases => f.write_str("DATABASES"),
            Self::RetentionPolicies { db } => {
                f.write_str("RETENTION POLICIES")?;
                clause(f, "ON", db.as_deref().map(Name))
            }
            Self::Measurements(clauses) => {
                f.write_str("MEASUREMENTS")?;
                clause(f, "ON", clauses.db.as_deref().map(Name))?;
                for source in &clauses.sources {
                    let regex = matches!(
                        source,
                        Source::Measurement(Measurement { name: MeasurementName::Regex(_), .. })
                    );
                    let op = if regex { "=~" } else { "=" };
                    write!(f, " WITH MEASUREMENT {op} {source}")?;
                }
                tail(f, clauses)
            }
            Self::Series(clauses) => whole(f, "SERIES", clauses),
            Self::TagKeys(clauses) => whole(f, "TAG KEYS", clauses),
            Self::TagValues(clauses) => whole(f, "TAG VALUES", clauses),
            Self::FieldKeys(clauses) => whole(f, "FIELD KEYS", clauses),
            Self::Cardinality { what, exact, clauses, dimensions } => {
                f.write_str(match what {
                    Cardinality::Series => "SERIES",
                    Cardinality::Measurement => "MEASUREMENT",
                    Cardinality::TagKey => "TAG KEY",
                    Cardinality::TagValues => "TAG VALUES",
                    Cardinality::FieldKey => "FIELD KEY",
                })?;
                f.write_str(if *exact { " EXACT CARDINALITY" } else { " CARDINALITY" })?;
                head(f, clauses)?;
                clause(f, "WHERE", clauses.condition.as_ref())?;
                list(f, "GROUP BY", dimensions)?;
                count(f, "LIMIT", clauses.limit)?;
                count(f, "OFFSET", clauses.offset)
            }
            Self::Queries => f.write_str("QUERIES"),
            Self::ContinuousQueries => f.write_str("CONTINUOUS QUERIES"),
            Self::Users => f.write_str("USERS"),
            Self::Grants => f.write_str("GRANTS"),
            Self::Subscriptions => f.write_str("SUBSCRIPTIONS"),
            Self::Shards => f.write_str("SHARDS"),
            Self::ShardGroups => f.write_str("SHARD GROUPS"),
            Self::Stats => f.write_str("STATS"),
            Self::Diagnostics => f.write_str("DIAGNOSTICS"),
        }
    }
}

fn whole(f: &mut Formatter<'_>, what: &str, clauses: &ShowClauses) -> Result {
    f.write_str(what)?;
    head(f, clauses)?;
    tail(f, clauses)
}

fn head(f: &mut Formatter<'_>, clauses: &ShowClauses) -> Result {
    clause(f, "ON", clauses.db.as_deref().map(Name))?;
    list(f, "FROM", &clauses.sources)?;
    clause(f, "WITH KEY", clauses.key.as_ref())
}

fn tail(f: &mut Formatter<'_>, clauses: &ShowClauses) -> Result {
    clause(f, "WHERE", clauses.condition.as_ref())?;
    if clauses.descending {
        f.write_str(" ORDER BY time DESC")?;
    }
    count(f, "LIMIT", clauses.limit)?;
    count(f, "OFFSET", clauses.offset)?;
    count(f, "SLIMIT", clauses.series_limit)?;
    count(f, "SOFFSET", clauses.series_offset)
}

impl Display for KeyMatch {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            Self::Equal(key) => write!(f, "= {}", Name(key)),
            Self::NotEqual(key) => write!(f, "!= {}", Name(key)),
            Self::Regex(regex) => write!(f, "=~ {regex}"),
            Self::NotRegex(regex) => write!(f, "!~ {regex}"),
            Self::In(keys) => {
                let keys: Vec<_> = keys.iter().map(|key| Name(key)).collect();
                write!(f, "IN ({})", List(&keys))
            }
        }
    }
}
