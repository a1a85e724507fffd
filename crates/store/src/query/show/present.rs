//! Conditions as InfluxDB evaluates them on what a series has (`influxql.EvalBool`). Unlike for the
//! index, a tag that is absent is not an empty one: whatever it is compared with, the comparison is
//! false.

use std::sync::Arc;

use wire::influxql::ast::Expr;

use super::super::expr::{Compiled, Division};
use crate::refusal::QueryError;
use crate::value::Value;

/// A condition, made ready to be evaluated for many series.
pub(super) struct Present {
    names: Vec<String>,
    condition: Compiled,
}

impl Present {
    /// # Errors
    /// When a regular expression is none.
    pub(super) fn new(condition: &Expr) -> Result<Self, QueryError> {
        let mut names: Vec<String> = Vec::new();
        let mut slot = |expr: &Expr| {
            let Expr::Reference { name, .. } = expr else { return None };
            names.iter().position(|known| known == name).or_else(|| {
                names.push(name.clone());
                Some(names.len() - 1)
            })
        };
        let condition = Compiled::new(condition, &mut slot, Division::Integer)?;
        Ok(Self { names, condition })
    }

    /// Whether it says anything of a name.
    pub(super) fn names(&self, name: &str) -> bool {
        self.names.iter().any(|known| known == name)
    }

    /// Whether it holds where names have these values.
    pub(super) fn holds(&self, value: impl Fn(&str) -> Option<Arc<str>>) -> bool {
        let value = |name: &String| value(name).map_or(Value::Null, Value::String);
        let values: Vec<Value> = self.names.iter().map(value).collect();
        self.condition.row(&values) == Value::Boolean(true)
    }
}
