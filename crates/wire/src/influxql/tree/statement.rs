//! Which statement it is (`influxql/parse_tree.go`), and the small ones.

use super::select::Target;
use super::{Parser, at_start};
use crate::influxql::ast::{Selection, Source, Statement};
use crate::influxql::parser::{CREATED, DROPPED, VERBS};
use crate::influxql::reader::Result;

impl Parser<'_> {
    pub(super) fn statement(&mut self) -> Result<Statement> {
        match self.one_of(&VERBS)? {
            "SELECT" => self.select(Target::Optional).map(Box::new).map(Statement::Select),
            "EXPLAIN" => self.explain(),
            "SHOW" => self.show().map(Statement::Show),
            "CREATE" => self.create(),
            "DROP" => self.drop_what(),
            "ALTER" => self.alter_policy(),
            "DELETE" => self.selection().map(Statement::Delete),
            "SET" => self.set_password(),
            "KILL" => self.kill(),
            "GRANT" => self.privilege("GRANT", "TO"),
            _revoke => self.privilege("REVOKE", "FROM"),
        }
    }

    fn create(&mut self) -> Result<Statement> {
        match self.one_of(&CREATED)? {
            "DATABASE" => self.create_database(),
            "RETENTION" => self.create_policy(),
            "USER" => self.create_user(),
            "CONTINUOUS" => self.create_continuous_query(),
            _subscription => self.create_subscription(),
        }
    }

    fn drop_what(&mut self) -> Result<Statement> {
        match self.one_of(&DROPPED)? {
            "DATABASE" => self.ident().map(Statement::DropDatabase),
            "MEASUREMENT" => self.ident().map(Statement::DropMeasurement),
            "RETENTION" => {
                self.expect("POLICY")?;
                let name = self.ident()?;
                self.expect("ON")?;
                Ok(Statement::DropRetentionPolicy { name, db: self.ident()? })
            }
            "SERIES" => self.selection().map(Statement::DropSeries),
            "USER" => self.ident().map(|_| Statement::Unserved("DROP USER")),
            "SHARD" => self.unsigned().map(|_| Statement::Unserved("DROP SHARD")),
            "CONTINUOUS" => {
                self.expect("QUERY")?;
                self.ident()?;
                self.expect("ON")?;
                self.ident().map(|_| Statement::Unserved("DROP CONTINUOUS QUERY"))
            }
            _subscription => {
                self.subscription()?;
                Ok(Statement::Unserved("DROP SUBSCRIPTION"))
            }
        }
    }

    fn explain(&mut self) -> Result<Statement> {
        let analyze = self.accept("ANALYZE");
        self.expect("SELECT")?;
        let select = Box::new(self.select(Target::Optional)?);
        Ok(Statement::Explain { analyze, select })
    }

    fn kill(&mut self) -> Result<Statement> {
        self.expect("QUERY")?;
        let id = self.unsigned()?;
        if self.accept("ON") {
            self.ident()?;
        }
        Ok(Statement::KillQuery(id))
    }

    /// What follows `DELETE` or `DROP SERIES`.
    fn selection(&mut self) -> Result<Selection> {
        let first = self.take();
        self.unscan();
        let sources = self.optional_sources()?;
        let mut why = None;
        for source in &sources {
            let Source::Measurement(measurement) = source else { continue };
            if measurement.db.is_some() {
                why = Some("database not supported");
            }
            if measurement.policy.is_some() {
                why = Some("retention policy not supported");
            }
        }
        if let Some(why) = why {
            return at_start(why);
        }
        self.deletes = true;
        let condition = self.condition();
        self.deletes = false;
        let condition = condition?;
        if sources.is_empty() && condition.is_none() {
            return Err(self.unexpected(&first, &["FROM", "WHERE"]));
        }
        Ok(Selection { sources, condition })
    }
}
