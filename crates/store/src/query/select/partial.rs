//! A `SELECT` over the results of its aggregates: other servers bring these, and functions of
//! them, arithmetic, `fill()` and limits are worked out here.

use wire::influxql::ast::{Cast, Dimension, Expr, MeasurementName, Select, Source, TimeOffset};

use super::compile::{self, Compiled};
use super::expressions::{is_literal, is_math};
use super::plan::earlier;
use super::reads::relieve;
use crate::query::functions::aggregate::Kind;
use crate::query::functions::call::{Call, RESULTS, Setting};
use crate::refusal::QueryError;
use crate::scan::TimeRange;

/// An aggregate of a statement, whose results are brought.
#[derive(Clone, Debug, PartialEq)]
pub struct PartialCall {
    /// What it does with the values of the field.
    pub kind: Kind,
    /// The field that it takes.
    pub field: String,
    /// The times that it reads: those asked for, and the windows before them that the functions
    /// around it need.
    pub range: TimeRange,
}

/// A statement of aggregates of one measurement and of what is computed of them.
#[derive(Clone, Debug, PartialEq)]
pub struct PartialSelect {
    /// The aggregates, each once, however often the statement has it.
    pub calls: Vec<PartialCall>,
    /// What is executed on points that have the results of the calls, each in the field that
    /// [`result_name`](Self::result_name) tells.
    pub select: Select,
    /// Whether the answer has `GROUP BY time()`.
    pub is_windowed: bool,
    /// Whether a value of a window is made of those of other windows, too.
    pub is_transformed: bool,
}

impl PartialSelect {
    /// Of a statement whose `now()` is `now_ns`; `None` where it has columns that are not
    /// aggregates, or computed of aggregates, of a field of one measurement.
    ///
    /// # Errors
    /// What InfluxDB finds wrong with the statement before it looks for points.
    pub fn of(select: &Select, now_ns: i64) -> Result<Option<Self>, QueryError> {
        let compiled = compile::compile(select, now_ns)?;
        let is_one = match &select.sources[..] {
            [Source::Measurement(of)] => matches!(of.name, MeasurementName::Name(_)),
            _ => false,
        };
        let is_told = |of: &Dimension| match of {
            // `now()` of those that are asked is another one.
            Dimension::Time { offset, .. } => *offset != TimeOffset::Now,
            Dimension::Other(_) => false,
            Dimension::Tag(_) | Dimension::Wildcard(_) | Dimension::Regex(_) => true,
        };
        if !is_one || select.target.is_some() || !select.dimensions.iter().all(is_told) {
            return Ok(None);
        }
        let mut rest = select.clone();
        relieve(&mut rest, &compiled);
        let mut found =
            PartialCalls { compiled: &compiled, calls: Vec::new(), is_transformed: false };
        for field in &mut rest.fields {
            let is_time = matches!(&field.expr, Expr::Reference { name, .. } if name == "time");
            if !is_time && found.replace(&mut field.expr).is_none() {
                return Ok(None);
            }
        }
        let PartialCalls { calls, is_transformed, .. } = found;
        let is_windowed = compiled.interval.duration != 0;
        Ok(Some(Self { calls, select: rest, is_windowed, is_transformed }))
    }

    /// The name of the field that has the results of the call at a place. No written point has
    /// one of such a name.
    pub fn result_name(at: usize) -> String {
        format!("result\n{at}")
    }
}

/// The aggregates that were found so far.
struct PartialCalls<'a> {
    compiled: &'a Compiled,
    calls: Vec<PartialCall>,
    is_transformed: bool,
}

impl PartialCalls<'_> {
    /// Puts the results of aggregates in their places; `None` where something else reads points.
    fn replace(&mut self, expr: &mut Expr) -> Option<()> {
        match expr {
            Expr::Paren(inner) => self.replace(inner),
            Expr::Binary { left, right, .. } => {
                self.replace(left)?;
                self.replace(right)
            }
            Expr::Call { name, arguments } if is_math(name) => {
                arguments.iter_mut().try_for_each(|argument| self.replace(argument))
            }
            Expr::Call { .. } => self.call(expr, self.compiled.time),
            other => (is_literal(other) && !matches!(other, Expr::Regex(_))).then_some(()),
        }
    }

    /// The same of a call that reads these times.
    fn call(&mut self, expr: &mut Expr, range: TimeRange) -> Option<()> {
        let Expr::Call { name, arguments } = expr else { return None };
        let duration = self.compiled.interval.duration;
        let at = Setting { windows: duration != 0, inherited: true, wildcards: false, limit: 0 };
        match Call::compile(name, arguments, &at).ok()? {
            Call::Aggregate(kind) => {
                let field = field_of(kind, arguments)?;
                let call = PartialCall { kind, field, range };
                let known = self.calls.iter().position(|known| *known == call);
                let at = known.unwrap_or(self.calls.len());
                if at == self.calls.len() {
                    self.calls.push(call);
                }
                let name = PartialSelect::result_name(at);
                let result = Expr::Reference { name, cast: Some(Cast::AnyField) };
                *arguments = vec![Expr::Call { name: RESULTS.to_owned(), arguments: vec![result] }];
                Some(())
            }
            Call::Transform(kind) => {
                self.is_transformed = true;
                let by = duration.saturating_mul(kind.extra_windows());
                let range = earlier(range, by, self.compiled.select.descending);
                self.call(arguments.first_mut()?, range)
            }
            Call::Integral { .. } => None,
        }
    }
}

/// The field that an aggregate takes, where it takes one and its results can be brought.
fn field_of(kind: Kind, arguments: &[Expr]) -> Option<String> {
    let argument = match (kind, arguments) {
        (Kind::CountDistinct, [Expr::Call { arguments, .. }]) => arguments.first()?,
        (Kind::CountDistinct, [argument]) => argument,
        (Kind::Count | Kind::Sum | Kind::Mean, [argument]) => argument,
        (Kind::Min | Kind::Max | Kind::Spread, [argument]) => argument,
        _ => return None,
    };
    match argument {
        Expr::Reference { name, cast: None | Some(Cast::AnyField) } => Some(name.clone()),
        Expr::Distinct(name) => Some(name.clone()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use wire::influxql::ast::Statement;

    use super::*;

    fn of(sql: &str) -> Option<PartialSelect> {
        let parsed = wire::influxql::parse(sql, &wire::influxql::Params::default()).unwrap();
        let Some(Statement::Select(select)) = parsed.first() else { panic!("{sql}") };
        PartialSelect::of(select, 1_000).unwrap()
    }

    fn calls(sql: &str) -> Vec<(Kind, String, (i64, i64))> {
        let call = |call: PartialCall| (call.kind, call.field, (call.range.min, call.range.max));
        of(sql).unwrap().calls.into_iter().map(call).collect()
    }

    #[test]
    fn aggregates_are_found_wherever_they_stand() {
        let windows = "FROM m WHERE time >= 100 AND time < 200 GROUP BY time(10ns)";
        let v = || "v".to_owned();
        let (plain, earlier, twice) = ((100, 199), (90, 199), (80, 199));
        for (fields, wanted) in [
            ("mean(v) * 2", vec![(Kind::Mean, v(), plain)]),
            (
                "sum(v) / count(v) + abs(sum(v) - 1)",
                vec![(Kind::Sum, v(), plain), (Kind::Count, v(), plain)],
            ),
            (
                "derivative(mean(v), 1s), mean(v)",
                vec![(Kind::Mean, v(), earlier), (Kind::Mean, v(), plain)],
            ),
            ("difference(moving_average(max(v), 3))", vec![(Kind::Max, v(), twice)]),
            ("cumulative_sum(spread(v))", vec![(Kind::Spread, v(), plain)]),
            ("count(distinct(v)), count(DISTINCT v)", vec![(Kind::CountDistinct, v(), plain)]),
        ] {
            assert_eq!(calls(&format!("SELECT {fields} {windows}")), wanted, "{fields}");
        }
        let newest = format!("SELECT elapsed(min(v)) {windows} ORDER BY time DESC");
        assert_eq!(calls(&newest), [(Kind::Min, v(), (100, 209))]);
        // `now()` is where windows end that have no end.
        assert_eq!(calls("SELECT 2 * sum(v) FROM m GROUP BY time(1s)")[0].2.1, 1_000);
    }

    #[test]
    fn what_reads_points_otherwise_is_left() {
        for sql in [
            "SELECT v FROM m",
            "SELECT max(v), host FROM m",
            "SELECT first(v) FROM m",
            "SELECT mean(v) + median(v) FROM m",
            "SELECT distinct(v) FROM m",
            "SELECT difference(v) FROM m",
            "SELECT integral(v) FROM m",
            "SELECT mean(*) FROM m",
            "SELECT sum(v::integer) FROM m",
            "SELECT 2 * mean(v) FROM m, n",
            "SELECT 2 * mean(v) FROM /m/",
            "SELECT 2 * mean(v) FROM (SELECT v FROM m)",
            "SELECT mean(v) FROM m WHERE time > 5 GROUP BY time(1s, now())",
            "SELECT mean(v) INTO n FROM m",
        ] {
            assert_eq!(of(sql), None, "{sql}");
        }
    }
}
