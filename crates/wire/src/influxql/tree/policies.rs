//! Databases and their retention policies (`influxql/parser.go`).

use super::{Parser, out_of_range};
use crate::influxql::ast::{PolicySpec, Statement};
use crate::influxql::reader::Result;
use crate::influxql::token::TokenKind;

impl Parser<'_> {
    /// What follows `CREATE DATABASE`.
    pub(super) fn create_database(&mut self) -> Result<Statement> {
        let name = self.ident()?;
        if !self.accept("WITH") {
            return Ok(Statement::CreateDatabase { name, policy: None });
        }
        self.one_of(&["DURATION", "NAME", "REPLICATION", "SHARD"])?;
        self.unscan();
        let mut policy = PolicySpec::default();
        if self.accept("DURATION") {
            policy.duration_ns = Some(self.duration()?);
        }
        if self.accept("REPLICATION") {
            policy.replication = Some(self.replication()?);
        }
        if self.accept("SHARD") {
            self.expect("DURATION")?;
            policy.shard_duration_ns = Some(self.duration()?).filter(|said| *said != 0);
        }
        if self.accept("NAME") {
            policy.name = Some(self.ident()?).filter(|name| !name.is_empty());
        }
        Ok(Statement::CreateDatabase { name, policy: Some(policy) })
    }

    /// What follows `CREATE RETENTION`.
    pub(super) fn create_policy(&mut self) -> Result<Statement> {
        self.expect("POLICY")?;
        let name = Some(self.ident()?);
        self.expect("ON")?;
        let db = self.ident()?;
        self.expect("DURATION")?;
        let duration_ns = Some(self.duration()?);
        self.expect("REPLICATION")?;
        let replication = Some(self.replication()?);
        let shard_duration_ns = match self.accept("SHARD") {
            true => Some(self.shard_duration()?).filter(|said| *said != 0),
            false => None,
        };
        let default = self.accept("DEFAULT");
        let policy = PolicySpec { name, duration_ns, replication, shard_duration_ns, default };
        Ok(Statement::CreateRetentionPolicy { db, policy })
    }

    pub(super) fn alter_policy(&mut self) -> Result<Statement> {
        const OPTIONS: [&str; 4] = ["DURATION", "REPLICATION", "SHARD", "DEFAULT"];
        self.expect("RETENTION")?;
        self.expect("POLICY")?;
        let name = if self.accept("DEFAULT") { "default".to_owned() } else { self.ident()? };
        self.expect("ON")?;
        let db = self.ident()?;
        let mut policy = PolicySpec { name: Some(name), ..PolicySpec::default() };
        let mut found: Vec<&str> = Vec::new();
        loop {
            let next = self.take();
            let Some(option) = OPTIONS.iter().find(|option| next.is(option)) else {
                if found.is_empty() {
                    return Err(self.unexpected(&next, &OPTIONS));
                }
                self.unscan();
                return Ok(Statement::AlterRetentionPolicy { db, policy });
            };
            if found.contains(option) {
                return Err(self.wrong(&next, &format!("found duplicate {option} option")));
            }
            found.push(option);
            match *option {
                "DURATION" => policy.duration_ns = Some(self.duration()?),
                "REPLICATION" => policy.replication = Some(self.replication()?),
                "SHARD" => policy.shard_duration_ns = Some(self.shard_duration()?),
                _default => policy.default = true,
            }
        }
    }

    fn shard_duration(&mut self) -> Result<i64> {
        self.expect("DURATION")?;
        let next = self.take();
        if next.is("INF") {
            return Err(self.wrong(&next, "invalid duration INF for shard duration"));
        }
        self.unscan();
        self.duration()
    }

    fn replication(&mut self) -> Result<u64> {
        let found = self.take();
        if found.kind != TokenKind::Integer {
            return Err(self.unexpected(&found, &["integer"]));
        }
        let Ok(count) = found.value.parse::<i64>() else {
            return Err(self.wrong(&found, &out_of_range("Atoi", &found.value)));
        };
        match u64::try_from(count) {
            Ok(count) if (1..=i32::MAX.unsigned_abs().into()).contains(&count) => Ok(count),
            _ => {
                let why = format!("invalid value {count}: must be 1 <= n <= {}", i32::MAX);
                Err(self.wrong(&found, &why))
            }
        }
    }
}
