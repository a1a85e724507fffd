//! Statements that are neither `SELECT` nor `SHOW`, as text.

use std::fmt::{Display, Formatter, Result};

use super::{Name, clause, list};
use crate::influxql::ast::{PolicySpec, Selection, Statement};
use crate::influxql::duration;

impl Display for Statement {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            Self::Select(select) => select.fmt(f),
            Self::Explain { analyze: false, select } => write!(f, "EXPLAIN {select}"),
            Self::Explain { analyze: true, select } => write!(f, "EXPLAIN ANALYZE {select}"),
            Self::Show(show) => show.fmt(f),
            Self::Delete(selection) => write!(f, "DELETE{selection}"),
            Self::DropSeries(selection) => write!(f, "DROP SERIES{selection}"),
            Self::DropMeasurement(name) => write!(f, "DROP MEASUREMENT {}", Name(name)),
            Self::CreateDatabase { name, policy } => {
                write!(f, "CREATE DATABASE {}", Name(name))?;
                let Some(policy) = policy else { return Ok(()) };
                f.write_str(" WITH")?;
                numbers(f, policy)?;
                if *policy == PolicySpec::default() {
                    // Something must be said.
                    f.write_str(" SHARD DURATION INF")?;
                }
                clause(f, "NAME", policy.name.as_deref().map(Name))
            }
            Self::DropDatabase(name) => write!(f, "DROP DATABASE {}", Name(name)),
            Self::CreateRetentionPolicy { db, policy } => on(f, "CREATE", db, policy),
            Self::AlterRetentionPolicy { db, policy } => on(f, "ALTER", db, policy),
            Self::DropRetentionPolicy { db, name } => {
                write!(f, "DROP RETENTION POLICY {} ON {}", Name(name), Name(db))
            }
            Self::KillQuery(id) => write!(f, "KILL QUERY {id}"),
            Self::Unserved(words) => f.write_str(words),
        }
    }
}

impl Display for Selection {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        list(f, "FROM", &self.sources)?;
        clause(f, "WHERE", self.condition.as_ref())
    }
}

fn on(f: &mut Formatter<'_>, verb: &str, db: &str, policy: &PolicySpec) -> Result {
    let name = policy.name.as_deref().unwrap_or_default();
    write!(f, "{verb} RETENTION POLICY {} ON {}", Name(name), Name(db))?;
    numbers(f, policy)?;
    if policy.default { f.write_str(" DEFAULT") } else { Ok(()) }
}

fn numbers(f: &mut Formatter<'_>, policy: &PolicySpec) -> Result {
    clause(f, "DURATION", policy.duration_ns.map(duration::format))?;
    clause(f, "REPLICATION", policy.replication)?;
    clause(f, "SHARD DURATION", policy.shard_duration_ns.map(duration::format))
}
