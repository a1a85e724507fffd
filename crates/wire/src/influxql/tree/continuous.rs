//! Continuous queries and subscriptions (`influxql/parser.go`): read to their end and not kept.

use super::select::Target;
use super::{Parser, unplaced};
use crate::influxql::ast::{Dimension, Expr, Select, Statement};
use crate::influxql::duration;
use crate::influxql::reader::Result;
use crate::influxql::token::TokenKind;

impl Parser<'_> {
    /// What follows `CREATE CONTINUOUS`.
    pub(super) fn create_continuous_query(&mut self) -> Result<Statement> {
        self.expect("QUERY")?;
        self.ident()?;
        self.expect("ON")?;
        self.ident()?;
        let mut horizon_ns = 0;
        let mut every_ns = 0;
        if self.accept("RESAMPLE") {
            every_ns = self.resample("EVERY")?;
            horizon_ns = self.resample("FOR")?;
            if every_ns == 0 && horizon_ns == 0 {
                let next = self.take();
                return Err(self.unexpected(&next, &["EVERY", "FOR"]));
            }
        }
        self.expect("BEGIN")?;
        self.expect("SELECT")?;
        let select = self.select(Target::Required)?;
        let interval = interval_ns(&select);
        if aggregates(&select) && !matches!(interval, Ok(1..)) {
            self.unscan();
            self.unscan();
            let last = self.take();
            let mut expected = vec!["GROUP BY time(...)"];
            expected.extend(interval.err());
            return Err(self.unexpected(&last, &expected));
        }
        self.expect("END")?;
        let least_ns = match interval {
            Ok(interval_ns) => every_ns.max(interval_ns),
            Err(why) => return unplaced(why),
        };
        if horizon_ns != 0 && horizon_ns < least_ns {
            return unplaced(&format!(
                "FOR duration must be >= GROUP BY time duration: must be a minimum of {}, got {}",
                duration::format(least_ns),
                duration::format(horizon_ns)
            ));
        }
        Ok(Statement::Unserved("CREATE CONTINUOUS QUERY"))
    }

    /// The duration behind `word`, if that is next.
    fn resample(&mut self, word: &'static str) -> Result<i64> {
        if !self.accept(word) {
            return Ok(0);
        }
        let found = self.take();
        if found.kind != TokenKind::Duration {
            return Err(self.unexpected(&found, &["duration"]));
        }
        duration::parse(&found.value).map_err(|why| self.wrong(&found, &why))
    }

    pub(super) fn create_subscription(&mut self) -> Result<Statement> {
        self.subscription()?;
        self.expect("DESTINATIONS")?;
        self.one_of(&["ALL", "ANY"])?;
        self.string()?;
        while self.accept(",") {
            self.string()?;
        }
        Ok(Statement::Unserved("CREATE SUBSCRIPTION"))
    }

    /// `name ON db.policy`.
    pub(super) fn subscription(&mut self) -> Result<()> {
        self.ident()?;
        self.expect("ON")?;
        self.ident()?;
        let dot = self.scanner.scan();
        if !dot.is(".") {
            return Err(self.unexpected(&dot, &["."]));
        }
        self.ident().map(drop)
    }
}

/// Whether anything in what is selected is a call.
fn aggregates(select: &Select) -> bool {
    fn calls(expr: &Expr) -> bool {
        match expr {
            Expr::Call { .. } => true,
            Expr::Binary { left, right, .. } => calls(left) || calls(right),
            Expr::Paren(inner) => calls(inner),
            _ => false,
        }
    }
    select.fields.iter().any(|field| calls(&field.expr))
}

/// The interval of `GROUP BY time()`; 0 without.
fn interval_ns(select: &Select) -> std::result::Result<i64, &'static str> {
    for dimension in &select.dimensions {
        match dimension {
            Dimension::Time { interval_ns, .. } => return Ok(*interval_ns),
            Dimension::Other(Expr::Call { name, arguments }) if name == "time" => {
                return match arguments.as_slice() {
                    [Expr::Duration(interval_ns)] | [Expr::Duration(interval_ns), _] => {
                        Ok(*interval_ns)
                    }
                    [_] | [_, _] => Err("time dimension must have duration argument"),
                    _ => Err("time dimension expected 1 or 2 arguments"),
                };
            }
            _ => {}
        }
    }
    Ok(0)
}
