//! Calls whose results over several sets come of partial results.

use std::cmp::Ordering;

use serde_json::{Number, Value};
use wire::influxql::ast::{Expr, Field, Fill};

/// The functions whose partial results give the result over all sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Function {
    Count,
    Sum,
    Min,
    Max,
    Mean,
    Spread,
}

/// A column of an answer, and the call that it is of.
#[derive(Clone, Debug, PartialEq)]
pub struct Fold {
    pub name: String,
    function: Function,
    argument: Expr,
}

/// A partial result with the time of its row, nanoseconds since 1970.
pub type Partial = (i64, Value);

impl Function {
    fn named(name: &str) -> Option<Self> {
        Some(match name {
            "count" => Self::Count,
            "sum" => Self::Sum,
            "min" => Self::Min,
            "max" => Self::Max,
            "mean" => Self::Mean,
            "spread" => Self::Spread,
            _ => return None,
        })
    }

    /// Whether it chooses a point, whose time it has where it stands alone.
    fn is_selector(self) -> bool {
        matches!(self, Self::Min | Self::Max)
    }

    /// What it is folded from.
    fn partials(self) -> &'static [(&'static str, Function)] {
        match self {
            Self::Count => &[("count", Self::Count)],
            Self::Sum => &[("sum", Self::Sum)],
            Self::Min => &[("min", Self::Min)],
            Self::Max => &[("max", Self::Max)],
            // A sum would wrap around past int64.
            Self::Mean => &[("mean", Self::Mean), ("count", Self::Count)],
            // With itself, for the words in which it refuses a type.
            Self::Spread => &[("spread", Self::Spread), ("min", Self::Min), ("max", Self::Max)],
        }
    }
}

/// The columns of a query, all of which can be folded.
///
/// # Errors
/// What can't be, in words.
pub fn columns(fields: &[Field]) -> Result<Vec<Fold>, &'static str> {
    // A name that is given is kept; others are told apart from it (`SelectStatement.ColumnNames`).
    let mut taken: Vec<String> = fields.iter().filter_map(|field| field.alias.clone()).collect();
    let mut folds = Vec::with_capacity(fields.len());
    for field in fields {
        let other = || reason(&field.expr).unwrap_or(POINTS);
        let Expr::Call { name, arguments } = &field.expr else { return Err(other()) };
        let function = Function::named(name).ok_or_else(other)?;
        let [argument @ Expr::Reference { .. }] = arguments.as_slice() else {
            return Err("a function of it is of more than one field");
        };
        let name = field.alias.clone().unwrap_or_else(|| unique(&taken, name));
        taken.push(name.clone());
        folds.push(Fold { name, function, argument: argument.clone() });
    }
    Ok(folds)
}

const POINTS: &str = "it asks for the points of several sets, or for what is computed of them";

/// Why a column can't be made of partial results, in words; `None` where it can be computed of
/// them.
fn reason(expr: &Expr) -> Option<&'static str> {
    const OTHER: &str = "it has a function other than count, sum, min, max, mean and spread";
    const DISTINCT: &str = "distinct values come in the order of the times of their points";
    match expr {
        Expr::Reference { .. } | Expr::Wildcard(_) | Expr::Regex(_) => Some(POINTS),
        Expr::Distinct(_) => Some(DISTINCT),
        Expr::Paren(inner) => reason(inner),
        Expr::Binary { left, right, .. } => reason(left).or_else(|| reason(right)),
        Expr::Call { name, .. } if name == "distinct" => Some(DISTINCT),
        Expr::Call { name, .. } if Function::named(name).is_some() => None,
        Expr::Call { arguments, .. } => {
            let is_computed = |argument: &&Expr| {
                matches!(argument, Expr::Call { .. } | Expr::Binary { .. } | Expr::Paren(_))
            };
            arguments.iter().find(is_computed).map_or(Some(OTHER), reason)
        }
        _ => None,
    }
}

/// A name that no column has yet.
fn unique(taken: &[String], name: &str) -> String {
    let is_taken = |name: &String| taken.contains(name);
    let mut names = std::iter::once(name.to_owned())
        .chain((1_u32..).map(|n| format!("{name}_{n}")))
        .filter(|name| !is_taken(name));
    names.next().unwrap_or_default()
}

impl Fold {
    /// Whether another column has the same values.
    pub fn is_same_call(&self, other: &Self) -> bool {
        (self.function, &self.argument) == (other.function, &other.argument)
    }

    /// What each set is asked for this column.
    pub fn partials(&self) -> impl Iterator<Item = Expr> {
        self.function.partials().iter().map(|(name, _)| Expr::Call {
            name: (*name).to_owned(),
            arguments: vec![self.argument.clone()],
        })
    }

    /// Of how many partial results it comes.
    pub fn width(&self) -> usize {
        self.function.partials().len()
    }

    /// Whether the row of this column alone has the time of the point that it chooses.
    pub fn is_selector(&self) -> bool {
        self.function.is_selector()
    }

    /// Whether its values are floats whatever the field is.
    pub fn is_float(&self) -> bool {
        self.function == Function::Mean
    }

    /// Folds a set's partial results of a row into those of the sets before.
    ///
    /// # Errors
    /// The sum is past int64, in words.
    pub fn add(&self, sum: &mut [Partial], more: &[Partial]) -> Result<(), &'static str> {
        if self.function == Function::Mean {
            add_mean(sum, more);
            return Ok(());
        }
        for ((into, more), (_, function)) in sum.iter_mut().zip(more).zip(self.function.partials())
        {
            if more.1.is_null() {
                continue;
            }
            if into.1.is_null() {
                *into = more.clone();
                continue;
            }
            let is_better = match function {
                Function::Count | Function::Sum => {
                    into.1 = added(&into.1, &more.1).ok_or("a sum is past int64")?;
                    continue;
                }
                Function::Min => compare(&more.1, &into.1).then(more.0.cmp(&into.0)).is_lt(),
                Function::Max => compare(&into.1, &more.1).then(more.0.cmp(&into.0)).is_lt(),
                // It comes of the others.
                Function::Mean | Function::Spread => false,
            };
            if is_better {
                *into = more.clone();
            }
        }
        Ok(())
    }

    /// The value of a row, of its partial results; null where there were no points.
    pub fn value(&self, partials: &[Partial]) -> Value {
        match (self.function, partials) {
            (Function::Mean, [(_, mean), _]) => mean.clone(),
            (Function::Spread, [_, (_, min), (_, max)]) => match (min.as_i64(), max.as_i64()) {
                (Some(min), Some(max)) => max.wrapping_sub(min).into(),
                _ if min.is_null() || max.is_null() => Value::Null,
                _ => number(float(max) - float(min)),
            },
            // There are no points where there are none to count.
            (Function::Count, [(_, count)]) if count.as_i64() == Some(0) => Value::Null,
            (_, [(_, value)]) => value.clone(),
            _ => Value::Null,
        }
    }

    /// What a window without points has, in its place among those in the order of time.
    pub fn filled(&self, fill: Fill, before: Option<&Value>) -> Value {
        match fill {
            Fill::Null | Fill::None | Fill::Linear if self.function == Function::Count => 0.into(),
            Fill::Null | Fill::None | Fill::Linear => Value::Null,
            Fill::Previous => before.cloned().unwrap_or_default(),
            Fill::Integer(value) if self.is_float() => number(value as f64),
            Fill::Integer(value) => value.into(),
            Fill::Number(value) => number(value),
        }
    }
}

/// The mean of several, each of a number of points.
fn add_mean(sum: &mut [Partial], more: &[Partial]) {
    let ([(_, mean), (_, count)], [(_, other), (_, others)]) = (sum, more) else { return };
    let (known, new) = (float(count), float(others));
    if new == 0.0 || other.is_null() {
        return;
    }
    if known == 0.0 || mean.is_null() {
        mean.clone_from(other);
        count.clone_from(others);
        return;
    }
    let all = known + new;
    *mean = number((float(mean) * known + float(other) * new) / all);
    *count = added(count, others).unwrap_or_else(|| number(all));
}

/// The sum; `None` where whole numbers have none.
fn added(one: &Value, other: &Value) -> Option<Value> {
    match (one.as_i64(), other.as_i64()) {
        (Some(one), Some(other)) => one.checked_add(other).map(Value::from),
        _ => Some(number(float(one) + float(other))),
    }
}

fn compare(one: &Value, other: &Value) -> Ordering {
    match (one, other) {
        (Value::String(one), Value::String(other)) => one.cmp(other),
        (Value::Bool(one), Value::Bool(other)) => one.cmp(other),
        _ => match (one.as_i64(), other.as_i64()) {
            (Some(one), Some(other)) => one.cmp(&other),
            // Zeros are equal, whatever their signs are; NaN does not come as JSON.
            _ => float(one).partial_cmp(&float(other)).unwrap_or(Ordering::Equal),
        },
    }
}

fn float(value: &Value) -> f64 {
    value.as_f64().unwrap_or_default()
}

/// A float as InfluxDB writes it: without a point where it is whole.
fn number(value: f64) -> Value {
    const WHOLE_MAX: f64 = 9_007_199_254_740_992.0;
    if value.fract() == 0.0 && value.abs() < WHOLE_MAX {
        return Value::from(value as i64);
    }
    Number::from_f64(value).map_or(Value::Null, Value::Number)
}
