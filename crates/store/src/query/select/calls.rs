//! Which calls may stand where, and what they say of the statement.

use wire::influxql::ast::Expr;

use super::compile::Compiler;
use super::expressions::{is_math, ranking_columns};
use crate::query::functions::aggregate::Kind;
use crate::query::functions::call::{Call, Setting};
use crate::query::functions::text;
use crate::refusal::QueryError;

impl Compiler {
    /// Checks a call that is not a math function.
    pub(super) fn call(
        &mut self,
        expr: &Expr,
        wildcards: &mut bool,
        into: bool,
    ) -> Result<(), QueryError> {
        let Expr::Call { name, arguments } = expr else { return Ok(()) };
        if let Some(other) = self.top_bottom().as_ref().filter(|_| is_ranking(name)) {
            return Err(not_combined(other));
        }
        let call = Call::compile(name, arguments, &self.setting(*wildcards))?;
        if matches!(arguments.first(), Some(Expr::Wildcard(_) | Expr::Regex(_))) {
            self.note_aggregate();
        }
        match call {
            Call::Aggregate(Kind::Distinct) => self.note_distinct(),
            Call::Aggregate(Kind::Top(_) | Kind::Bottom(_)) => {
                if !into {
                    ranking_columns(expr).iter().for_each(|_| self.note_auxiliary());
                }
                *self.top_bottom() = Some(name.clone());
            }
            Call::Aggregate(kind) if kind.is_selector() => {}
            Call::Aggregate(_) | Call::Integral { .. } => self.note_aggregate(),
            Call::Transform(_) => {
                self.note_aggregate();
                match arguments.first() {
                    // Only the outermost distinct() must stand alone.
                    Some(Expr::Call { name, arguments }) if name == "distinct" => {
                        Call::compile(name, arguments, &self.setting(*wildcards))?;
                    }
                    Some(inner @ Expr::Call { .. }) => self.expression(inner, wildcards, into)?,
                    _ => {}
                }
            }
        }
        Ok(())
    }

    fn setting(&self, wildcards: bool) -> Setting {
        Setting {
            windows: self.interval.duration != 0,
            inherited: self.inherited_interval,
            wildcards,
            limit: self.limit,
        }
    }
}

fn is_ranking(name: &str) -> bool {
    matches!(name, "top" | "bottom")
}

/// That `top()` or `bottom()` stands beside another function.
pub(super) fn not_combined(name: &str) -> QueryError {
    QueryError(format!("selector function {name}() cannot be combined with other functions"))
}

/// Checks the number of arguments of a math function.
///
/// # Errors
/// When it is another.
pub(super) fn check_math(name: &str, arguments: &[Expr], two: bool) -> Result<(), QueryError> {
    let (expected, got) = (if two { 2 } else { 1 }, arguments.len());
    if got == expected {
        return Ok(());
    }
    let text = format!("invalid number of arguments for {name}, expected {expected}, got {got}");
    Err(QueryError(text))
}

/// Checks the calls in a condition: only math functions may stand there.
///
/// # Errors
/// When there is another one, or the number of its arguments is wrong.
pub(super) fn validate_condition(expr: &Expr) -> Result<(), QueryError> {
    match expr {
        Expr::Binary { left, right, .. } => {
            validate_condition(left)?;
            validate_condition(right)
        }
        Expr::Call { name, arguments } => {
            if !is_math(name) {
                return Err(QueryError(format!(
                    "invalid function call in condition: {}",
                    text(expr)
                )));
            }
            // InfluxDB forgets the second argument of log() here.
            check_math(name, arguments, matches!(name.as_str(), "atan2" | "pow"))?;
            arguments.iter().try_for_each(validate_condition)
        }
        _ => Ok(()),
    }
}
