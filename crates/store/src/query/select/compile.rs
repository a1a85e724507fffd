//! What can be said of a `SELECT` before its schema is known: InfluxDB's `query/compile.go`.

use wire::influxql::ast::{self, Dimension, Expr, Fill, Select, Source};

use super::calls;
use super::dimensions;
use super::expressions::{is_literal, is_math, walk};
use crate::condition::{self, Constants, reduce};
use crate::math::Math;
use crate::query::timezone::Zone;
use crate::query::window::{MAX_TIME, MIN_TIME};
use crate::refusal::QueryError;
use crate::scan::TimeRange;
use crate::value::Value;

/// The windows of `GROUP BY time()`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Interval {
    /// Nanoseconds of a window; 0 is one window for all.
    pub(super) duration: i64,
    /// Nanoseconds by which they begin later.
    pub(super) offset: i64,
}

/// A statement that was found sound, with its time and windows.
#[derive(Clone, Debug)]
pub(super) struct Compiled {
    /// The statement: `time` taken out of the fields, `DISTINCT` a call, literals folded. Its
    /// condition has no time in it any more.
    pub(super) select: Select,
    /// The times asked for.
    pub(super) time: TimeRange,
    /// The windows of `GROUP BY time()`.
    pub(super) interval: Interval,
    /// The column name of the time.
    pub(super) time_name: String,
    /// The time zone, where one is set.
    pub(super) zone: Option<Zone>,
    /// Those of `FROM` that are sub-queries, at the places of their sources.
    pub(super) subqueries: Vec<Option<Compiled>>,
}

impl Compiled {
    /// The times that it reads: those asked for, and the windows before them of which the first
    /// values of some functions are made (`ExtraIntervals`).
    pub(super) fn times_read(&self) -> TimeRange {
        let mut windows = 0;
        for field in &self.select.fields {
            walk(&field.expr, &mut |expr| {
                windows = windows.max(windows_before(expr));
                true
            });
        }
        let by = windows.saturating_mul(self.interval.duration);
        match self.select.descending {
            true => TimeRange { max: self.time.max.saturating_add(by), ..self.time },
            false => TimeRange { min: self.time.min.saturating_sub(by), ..self.time },
        }
    }
}

/// How many windows before the first one a call has InfluxDB look for shards in.
pub(super) fn windows_before(expr: &Expr) -> i64 {
    let Expr::Call { name, arguments } = expr else { return 0 };
    match (name.as_str(), arguments.get(1)) {
        ("moving_average", Some(Expr::Integer(windows))) => (*windows).max(0),
        (
            "derivative"
            | "non_negative_derivative"
            | "difference"
            | "non_negative_difference"
            | "elapsed"
            | "cumulative_sum",
            _,
        ) => 1,
        _ => 0,
    }
}

/// What is being learnt of a statement.
#[derive(Debug)]
pub(super) struct Compiler {
    pub(super) interval: Interval,
    pub(super) inherited_interval: bool,
    only_selectors: bool,
    has_distinct: bool,
    has_auxiliary: bool,
    calls: usize,
    fields: usize,
    pub(super) limit: u64,
    top_bottom: Option<String>,
}

/// What a statement takes over from the one around it.
#[derive(Clone, Copy)]
struct Outer {
    time: TimeRange,
    interval: Interval,
    descending: bool,
}

/// Compiles a statement.
///
/// # Errors
/// What InfluxDB finds wrong with it, in its words.
pub(super) fn compile(select: &Select, now_ns: i64) -> Result<Compiled, QueryError> {
    compile_within(select, now_ns, None)
}

fn compile_within(
    select: &Select,
    now_ns: i64,
    outer: Option<Outer>,
) -> Result<Compiled, QueryError> {
    let mut select = select.clone();
    let unknown = |error: QueryError| QueryError(format!("error parsing query: {error}"));
    let zone = select.timezone.as_deref().map(Zone::named).transpose().map_err(unknown)?;
    let clock = zone.as_ref().map(Zone::zone);
    let condition = condition::split(select.condition.as_ref(), now_ns, clock)?;
    if let Some(rest) = &condition.rest {
        calls::validate_condition(rest)?;
    }
    let bounds = condition.time;
    select.condition = condition.rest;

    let mut compiler = Compiler::new(select.limit);
    compiler.dimensions(&mut select.dimensions, now_ns)?;
    let last = if compiler.interval.duration != 0 { now_ns } else { MAX_TIME };
    let mut time = TimeRange {
        min: bounds.min.unwrap_or(MIN_TIME).max(MIN_TIME),
        max: bounds.max.unwrap_or(last).min(MAX_TIME),
    };
    if let Some(outer) = outer {
        if select.ordered && select.descending != outer.descending {
            let what = "subqueries must be ordered in the same direction as the query itself";
            return Err(error(what));
        }
        select.descending = outer.descending;
        time = time.intersect(outer.time);
        if compiler.interval.duration == 0 && outer.interval.duration != 0 {
            compiler.interval = outer.interval;
            compiler.inherited_interval = true;
        }
    }

    let time_name = compiler.fields(&mut select)?;
    compiler.validate(&select)?;

    let inner = Outer { time, interval: compiler.interval, descending: select.descending };
    let subqueries = select.sources.iter().map(|source| match source {
        Source::Measurement(_) => Ok(None),
        Source::Subquery(select) => compile_within(select, now_ns, Some(inner)).map(Some),
    });
    let subqueries = subqueries.collect::<Result<Vec<_>, _>>()?;
    Ok(Compiled { select, time, interval: compiler.interval, time_name, zone, subqueries })
}

impl Compiler {
    fn new(limit: u64) -> Self {
        Self {
            interval: Interval::default(),
            inherited_interval: false,
            only_selectors: true,
            has_distinct: false,
            has_auxiliary: false,
            calls: 0,
            fields: 0,
            limit,
            top_bottom: None,
        }
    }

    fn dimensions(&mut self, dimensions: &mut [Dimension], now_ns: i64) -> Result<(), QueryError> {
        for dimension in dimensions {
            match dimension {
                Dimension::Other(expr) => *dimension = dimensions::other(expr)?,
                Dimension::Tag(name) if name.eq_ignore_ascii_case("time") => {
                    return Err(dimensions::without_arguments());
                }
                _ => {}
            }
            if let Dimension::Time { interval_ns, offset } = dimension {
                if self.interval.duration != 0 {
                    return Err(error("multiple time dimensions not allowed"));
                }
                let duration = (*interval_ns).max(0);
                let offset = dimensions::shift(*offset, duration, now_ns);
                self.interval = Interval { duration, offset };
            }
        }
        Ok(())
    }

    /// Compiles the fields, takes the time out of them and gives its column's name.
    fn fields(&mut self, select: &mut Select) -> Result<String, QueryError> {
        let mut time_name = "time".to_owned();
        let into = select.target.is_some();
        let mut fields = Vec::with_capacity(select.fields.len());
        for mut field in std::mem::take(&mut select.fields) {
            if matches!(&field.expr, Expr::Reference { name, .. } if name == "time") {
                if let Some(alias) = field.alias {
                    time_name = alias;
                }
                continue;
            }
            field.expr = unwrapped(folded(&field.expr));
            self.fields += 1;
            self.expression(&field.expr, &mut true, into)?;
            field.expr = distinct_to_call(field.expr);
            fields.push(field);
        }
        select.fields = fields;
        Ok(time_name)
    }

    /// Checks an expression; `wildcards` says whether `*` may stand in it.
    pub(super) fn expression(
        &mut self,
        expr: &Expr,
        wildcards: &mut bool,
        into: bool,
    ) -> Result<(), QueryError> {
        match expr {
            Expr::Reference { .. } => {
                self.has_auxiliary = true;
                Ok(())
            }
            Expr::Wildcard(_) if !*wildcards => {
                Err(error("unable to use wildcard in a binary expression"))
            }
            Expr::Regex(_) if !*wildcards => {
                Err(error("unable to use regex in a binary expression"))
            }
            Expr::Wildcard(_) | Expr::Regex(_) => {
                self.has_auxiliary = true;
                Ok(())
            }
            Expr::Call { name, arguments } if is_math(name) => {
                let two = matches!(name.as_str(), "atan2" | "pow" | "log");
                calls::check_math(name, arguments, two)?;
                let mut inner = arguments.iter().filter(|argument| !is_literal(argument));
                inner.try_for_each(|one| self.expression(one, wildcards, into))
            }
            Expr::Call { .. } => {
                self.calls += 1;
                self.call(expr, wildcards, into)
            }
            Expr::Distinct(_) => {
                self.calls += 1;
                self.note_distinct();
                Ok(())
            }
            Expr::Binary { left, right, .. } => {
                *wildcards = false;
                match (is_literal(left), is_literal(right)) {
                    (true, true) => {
                        Err(error("cannot perform a binary expression on two literals"))
                    }
                    (true, false) => self.expression(right, wildcards, into),
                    (false, true) => self.expression(left, wildcards, into),
                    (false, false) => {
                        self.expression(left, wildcards, into)?;
                        self.expression(right, wildcards, into)
                    }
                }
            }
            Expr::Paren(inner) => self.expression(inner, wildcards, into),
            _ => Err(error("field must contain at least one variable")),
        }
    }

    /// Notes that something other than a selector is asked for.
    pub(super) fn note_aggregate(&mut self) {
        self.only_selectors = false;
    }

    /// Notes a `distinct()` that is not an argument.
    pub(super) fn note_distinct(&mut self) {
        self.has_distinct = true;
        self.only_selectors = false;
    }

    /// Notes a column that a function adds.
    pub(super) fn note_auxiliary(&mut self) {
        self.fields += 1;
        self.has_auxiliary = true;
    }

    /// The `top()` or `bottom()` that was met before.
    pub(super) fn top_bottom(&mut self) -> &mut Option<String> {
        &mut self.top_bottom
    }

    fn validate(&self, select: &Select) -> Result<(), QueryError> {
        if self.fields == 0 {
            return Err(error("at least 1 non-time field must be queried"));
        }
        if let Some(name) = self.top_bottom.as_ref().filter(|_| self.calls > 1) {
            return Err(calls::not_combined(name));
        }
        if self.calls == 0 {
            match select.fill {
                Fill::None => return Err(error("fill(none) must be used with a function")),
                Fill::Linear => return Err(error("fill(linear) must be used with a function")),
                _ => {}
            }
            if self.interval.duration != 0 && !self.inherited_interval {
                return Err(error("GROUP BY requires at least one aggregate function"));
            }
        }
        if self.has_distinct && (self.calls != 1 || self.has_auxiliary) {
            return Err(error(
                "aggregate function distinct() cannot be combined with other functions or fields",
            ));
        }
        if self.has_auxiliary && !self.only_selectors {
            return Err(error("mixing aggregate and non-aggregate queries is not supported"));
        }
        if self.has_auxiliary && self.calls > 1 {
            return Err(error(
                "mixing multiple selector functions with tags or fields is not supported",
            ));
        }
        Ok(())
    }
}

/// An error in plain words.
pub(super) fn error(text: &str) -> QueryError {
    QueryError(text.to_owned())
}

/// An expression with everything folded that is known without looking at points.
fn folded(expr: &Expr) -> Expr {
    const NOTHING: Constants<'_> = Constants { now_ns: None, zone: None };
    match expr {
        Expr::Binary { op, left, right } => {
            let (left, right) = (Box::new(folded(left)), Box::new(folded(right)));
            reduce(&Expr::Binary { op: *op, left, right }, NOTHING)
        }
        Expr::Paren(inner) => reduce(&Expr::Paren(Box::new(folded(inner))), NOTHING),
        Expr::Call { name, arguments } => {
            let arguments: Vec<Expr> = arguments.iter().map(folded).collect();
            known_result(name, &arguments)
                .unwrap_or_else(|| Expr::Call { name: name.clone(), arguments })
        }
        other => other.clone(),
    }
}

/// The value of a math function of literals.
fn known_result(name: &str, arguments: &[Expr]) -> Option<Expr> {
    let math = Math::named(name).filter(|math| math.arguments() == arguments.len())?;
    let value = |argument: &Expr| match argument {
        Expr::Number(value) => Some(Value::Float(*value)),
        Expr::Integer(value) => Some(Value::Integer(*value)),
        Expr::Unsigned(value) => Some(Value::Unsigned(*value)),
        _ => None,
    };
    let values = arguments.iter().map(value).collect::<Option<Vec<Value>>>()?;
    match math.call(&values) {
        Value::Float(value) => Some(Expr::Number(value)),
        Value::Integer(value) => Some(Expr::Integer(value)),
        Value::Unsigned(value) => Some(Expr::Unsigned(value)),
        _ => None,
    }
}

/// Brackets around all of an expression say nothing.
fn unwrapped(expr: Expr) -> Expr {
    if let Expr::Paren(inner) = expr { *inner } else { expr }
}

/// `DISTINCT x` as `distinct(x)`, at the top and as an argument.
fn distinct_to_call(expr: Expr) -> Expr {
    match expr {
        Expr::Distinct(name) => {
            let argument = Expr::Reference { name, cast: None };
            Expr::Call { name: "distinct".to_owned(), arguments: vec![argument] }
        }
        Expr::Call { name, arguments } => {
            let arguments = arguments.into_iter().map(distinct_to_call).collect();
            Expr::Call { name, arguments }
        }
        Expr::Binary { op, left, right } => Expr::Binary {
            op,
            left: Box::new(distinct_to_call(*left)),
            right: Box::new(distinct_to_call(*right)),
        },
        Expr::Paren(inner) => Expr::Paren(Box::new(distinct_to_call(*inner))),
        other => other,
    }
}

/// The measurements a statement writes and reads, those of its sub-queries with them.
pub(super) fn measurements(select: &Select) -> Vec<&ast::Measurement> {
    let mut found: Vec<&ast::Measurement> = select.target.iter().collect();
    for source in &select.sources {
        match source {
            Source::Measurement(one) => found.push(one),
            Source::Subquery(inner) => found.extend(measurements(inner)),
        }
    }
    found
}
