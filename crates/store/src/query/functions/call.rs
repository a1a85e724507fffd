//! A call with its arguments checked, in the order and words of InfluxDB's `query/compile.go`.

use wire::influxql::ast::Expr;

use super::aggregate::Kind;
use super::transform::TransformKind;
use crate::refusal::QueryError;

/// The call of this name as the argument of an aggregate says that its field holds the results of
/// the aggregate, one of each group and window, and not the points that they come of. No text of a
/// query has it, since the parser gives names in lower case.
pub const RESULTS: &str = "RESULTS";

/// Where a call stands: what decides whether it is allowed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Setting {
    /// Whether the query has `GROUP BY time`.
    pub windows: bool,
    /// Whether it has that from the query around it only.
    pub inherited: bool,
    /// Whether `*` and regular expressions may be arguments: not within arithmetic.
    pub wildcards: bool,
    /// `LIMIT` of the query; 0 is without.
    pub limit: u64,
}

/// What a call does to its first argument.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Call {
    /// Makes one value of the points of a window, or chooses some. The argument is a reference,
    /// wildcard or regex; that of `count(distinct(x))` is `x`.
    Aggregate(Kind),
    /// Makes each point from those before it. The argument is a reference, wildcard or regex, or
    /// under `GROUP BY time` a call, to be checked for itself.
    Transform(TransformKind),
    /// `integral(x, unit)`.
    Integral {
        /// Nanoseconds of its unit.
        unit_ns: i64,
    },
}

fn fail<T>(why: impl Into<String>) -> Result<T, QueryError> {
    Err(QueryError(why.into()))
}

impl Call {
    /// The call of a function that is not of the mathematical ones. `DISTINCT x` is
    /// `distinct(x)`.
    ///
    /// # Errors
    /// When there is no such function, or its arguments are wrong.
    pub fn compile(name: &str, arguments: &[Expr], at: &Setting) -> Result<Self, QueryError> {
        match name {
            "percentile" => percentile(arguments, at),
            "sample" => sample(arguments, at),
            "distinct" => distinct(arguments).map(|()| Self::Aggregate(Kind::Distinct)),
            "top" | "bottom" => top(name, arguments, at),
            "integral" => integral(arguments, at),
            "derivative" | "non_negative_derivative" | "elapsed" => timed(name, arguments, at),
            "difference" | "non_negative_difference" | "cumulative_sum" => {
                plain_transform(name, arguments, at)
            }
            "moving_average" => moving_average(arguments, at),
            _ => aggregate(name, arguments, at),
        }
    }

    /// The fields and tags that `top` and `bottom` group by, and show, beside their argument.
    pub fn dimensions(&self, arguments: &[Expr]) -> Vec<String> {
        let Self::Aggregate(Kind::Top(_) | Kind::Bottom(_)) = self else { return Vec::new() };
        let between = arguments.get(1..arguments.len().saturating_sub(1)).unwrap_or_default();
        let name = |argument: &Expr| match argument {
            Expr::Reference { name, .. } => Some(name.clone()),
            _ => None,
        };
        between.iter().filter_map(name).collect()
    }
}

/// The argument of a function that takes a field.
fn symbol(name: &str, argument: Option<&Expr>, at: &Setting) -> Result<(), QueryError> {
    match argument {
        Some(Expr::Reference { .. }) => Ok(()),
        Some(Expr::Wildcard(_)) if at.wildcards => Ok(()),
        Some(Expr::Wildcard(_)) => fail(format!("unsupported expression with wildcard: {name}()")),
        Some(Expr::Regex(_)) if at.wildcards => Ok(()),
        Some(Expr::Regex(_)) => fail(format!("unsupported expression with regex field: {name}()")),
        _ => fail(format!("expected field argument in {name}()")),
    }
}

/// The argument of a transformation: a field, or under `GROUP BY time` a call.
fn nested(name: &str, argument: Option<&Expr>, at: &Setting) -> Result<(), QueryError> {
    match argument {
        Some(Expr::Call { .. }) if !at.windows => {
            fail(format!("{name} aggregate requires a GROUP BY interval"))
        }
        Some(Expr::Call { .. }) => Ok(()),
        _ if at.windows && !at.inherited => {
            fail(format!("aggregate function required inside the call to {name}"))
        }
        argument => symbol(name, argument, at),
    }
}

fn count(name: &str, arguments: &[Expr], expected: usize) -> Result<(), QueryError> {
    let got = arguments.len();
    if got == expected {
        return Ok(());
    }
    fail(format!("invalid number of arguments for {name}, expected {expected}, got {got}"))
}

fn one_or_two(name: &str, arguments: &[Expr]) -> Result<(), QueryError> {
    let got = arguments.len();
    if (1..=2).contains(&got) {
        return Ok(());
    }
    fail(format!(
        "invalid number of arguments for {name}, expected at least 1 but no more than 2, got {got}"
    ))
}

/// The unit of time in the second argument.
fn unit(arguments: &[Expr], wrong: impl Fn(&Expr) -> String) -> Result<Option<i64>, QueryError> {
    match arguments.get(1) {
        None => Ok(None),
        Some(Expr::Duration(unit)) if *unit > 0 => Ok(Some(*unit)),
        Some(unit @ Expr::Duration(_)) => {
            fail(format!("duration argument must be positive, got {unit}"))
        }
        Some(other) => fail(wrong(other)),
    }
}

fn aggregate(name: &str, arguments: &[Expr], at: &Setting) -> Result<Call, QueryError> {
    let kind = match name {
        "count" => Kind::Count,
        "sum" => Kind::Sum,
        "mean" => Kind::Mean,
        "min" => Kind::Min,
        "max" => Kind::Max,
        "first" => Kind::First,
        "last" => Kind::Last,
        "spread" => Kind::Spread,
        "stddev" => Kind::Stddev,
        "median" => Kind::Median,
        "mode" => Kind::Mode,
        _ => return fail(format!("undefined function {name}()")),
    };
    count(name, arguments, 1)?;
    match arguments.first() {
        Some(Expr::Call { name, arguments }) if kind == Kind::Count && name == "distinct" => {
            distinct(arguments)?;
            return Ok(Call::Aggregate(Kind::CountDistinct));
        }
        Some(Expr::Call { name, arguments }) if name == RESULTS => {
            symbol(name, arguments.first(), at)?;
            return Ok(Call::Aggregate(kind.of_results()));
        }
        Some(Expr::Distinct(_)) if kind == Kind::Count => {
            return Ok(Call::Aggregate(Kind::CountDistinct));
        }
        argument => symbol(name, argument, at)?,
    }
    Ok(Call::Aggregate(kind))
}

fn distinct(arguments: &[Expr]) -> Result<(), QueryError> {
    match arguments {
        [] => fail("distinct function requires at least one argument"),
        [Expr::Reference { .. }] => Ok(()),
        [_] => fail("expected field argument in distinct()"),
        _ => fail("distinct function can only have one argument"),
    }
}

fn percentile(arguments: &[Expr], at: &Setting) -> Result<Call, QueryError> {
    count("percentile", arguments, 2)?;
    let percent = match arguments.get(1) {
        Some(Expr::Integer(percent)) => *percent as f64,
        Some(Expr::Number(percent)) => *percent,
        _ => return fail("expected float argument in percentile()"),
    };
    symbol("percentile", arguments.first(), at)?;
    Ok(Call::Aggregate(Kind::Percentile(percent)))
}

fn sample(arguments: &[Expr], at: &Setting) -> Result<Call, QueryError> {
    count("sample", arguments, 2)?;
    let size = match arguments.get(1) {
        Some(Expr::Integer(size)) if *size > 0 => size.unsigned_abs(),
        Some(Expr::Integer(size)) => {
            return fail(format!("sample window must be greater than 1, got {size}"));
        }
        _ => return fail("expected integer argument in sample()"),
    };
    symbol("sample", arguments.first(), at)?;
    Ok(Call::Aggregate(Kind::Sample(size)))
}

fn top(name: &str, arguments: &[Expr], at: &Setting) -> Result<Call, QueryError> {
    let [first, between @ .., last] = arguments else {
        let got = arguments.len();
        return fail(format!(
            "invalid number of arguments for {name}, expected at least 2, got {got}"
        ));
    };
    let Expr::Integer(limit) = last else {
        return fail(format!("expected integer as last argument in {name}(), found {last}"));
    };
    if *limit <= 0 {
        return fail(format!("limit ({limit}) in {name} function must be at least 1"));
    }
    let size = limit.unsigned_abs();
    if at.limit > 0 && size > at.limit {
        return fail(format!(
            "limit ({limit}) in {name} function can not be larger than the LIMIT ({}) in the \
             select statement",
            at.limit
        ));
    }
    if !matches!(first, Expr::Reference { .. }) {
        return fail(format!("expected first argument to be a field in {name}(), found {first}"));
    }
    for other in between {
        if !matches!(other, Expr::Reference { .. }) {
            return fail(format!("only fields or tags are allowed in {name}(), found {other}"));
        }
    }
    Ok(Call::Aggregate(if name == "top" { Kind::Top(size) } else { Kind::Bottom(size) }))
}

fn integral(arguments: &[Expr], at: &Setting) -> Result<Call, QueryError> {
    one_or_two("integral", arguments)?;
    let unit = unit(arguments, |_| "second argument must be a duration".to_owned())?;
    symbol("integral", arguments.first(), at)?;
    Ok(Call::Integral { unit_ns: unit.unwrap_or(1_000_000_000) })
}

fn timed(name: &str, arguments: &[Expr], at: &Setting) -> Result<Call, QueryError> {
    one_or_two(name, arguments)?;
    let wrong = |argument: &Expr| {
        format!("second argument to {name} must be a duration, got {}", argument.go_type())
    };
    let unit_ns = unit(arguments, wrong)?;
    nested(name, arguments.first(), at)?;
    Ok(Call::Transform(match name {
        "elapsed" => TransformKind::Elapsed { unit_ns: unit_ns.unwrap_or(1) },
        _ => TransformKind::Derivative { unit_ns, non_negative: name != "derivative" },
    }))
}

fn plain_transform(name: &str, arguments: &[Expr], at: &Setting) -> Result<Call, QueryError> {
    count(name, arguments, 1)?;
    nested(name, arguments.first(), at)?;
    Ok(Call::Transform(match name {
        "cumulative_sum" => TransformKind::CumulativeSum,
        _ => TransformKind::Difference { non_negative: name != "difference" },
    }))
}

fn moving_average(arguments: &[Expr], at: &Setting) -> Result<Call, QueryError> {
    count("moving_average", arguments, 2)?;
    let size = match arguments.get(1) {
        Some(Expr::Integer(size)) if *size > 1 => size.unsigned_abs(),
        Some(Expr::Integer(size)) => {
            return fail(format!("moving_average window must be greater than 1, got {size}"));
        }
        Some(other) => {
            let found = other.go_type();
            return fail(format!(
                "second argument for moving_average must be an integer, got {found}"
            ));
        }
        None => return fail("second argument for moving_average must be an integer"),
    };
    nested("moving_average", arguments.first(), at)?;
    Ok(Call::Transform(TransformKind::MovingAverage { size }))
}
