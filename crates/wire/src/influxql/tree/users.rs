//! Users and their rights (`influxql/parser.go`): read to their end and not kept.

use super::Parser;
use crate::influxql::ast::Statement;
use crate::influxql::reader::Result;

impl Parser<'_> {
    /// What follows `CREATE USER`.
    pub(super) fn create_user(&mut self) -> Result<Statement> {
        self.ident()?;
        self.expect("WITH")?;
        self.expect("PASSWORD")?;
        self.string()?;
        if self.accept("WITH") {
            self.expect("ALL")?;
            self.expect("PRIVILEGES")?;
        }
        Ok(Statement::Unserved("CREATE USER"))
    }

    pub(super) fn set_password(&mut self) -> Result<Statement> {
        self.expect("PASSWORD")?;
        self.expect("FOR")?;
        self.ident()?;
        self.expect("=")?;
        self.string()?;
        Ok(Statement::Unserved("SET PASSWORD"))
    }

    /// What follows `GRANT` (`link` is `TO`) or `REVOKE` (`FROM`): without a database only for
    /// all privileges.
    pub(super) fn privilege(
        &mut self,
        verb: &'static str,
        link: &'static str,
    ) -> Result<Statement> {
        let right = self.take();
        let all = right.is("ALL");
        if !all && !right.is("READ") && !right.is("WRITE") {
            return Err(self.unexpected(&right, &["READ", "WRITE", "ALL [PRIVILEGES]"]));
        }
        if all {
            self.accept("PRIVILEGES");
        }
        let next = self.take();
        if next.is("ON") {
            self.ident()?;
            self.expect(link)?;
        } else if !all {
            return Err(self.unexpected(&next, &["ON"]));
        } else if !next.is(link) {
            return Err(self.unexpected(&next, &["ON", link]));
        }
        self.ident()?;
        Ok(Statement::Unserved(verb))
    }
}
