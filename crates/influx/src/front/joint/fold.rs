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
    First,
    Last,
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
            "first" => Self::First,
            "last" => Self::Last,
            _ => return None,
        })
    }

    /// Whether it chooses a point, whose time it has where it stands alone.
    fn is_selector(self) -> bool {
        matches!(self, Self::Min | Self::Max | Self::First | Self::Last)
    }

    /// What it is folded from.
    fn partials(self) -> &'static [(&'static str, Function)] {
        match self {
            Self::Count => &[("count", Self::Count)],
            Self::Sum => &[("sum", Self::Sum)],
            Self::Min => &[("min", Self::Min)],
            Self::Max => &[("max", Self::Max)],
            Self::Mean => &[("sum", Self::Sum), ("count", Self::Count)],
            Self::Spread => &[("min", Self::Min), ("max", Self::Max)],
            Self::First => &[("first", Self::First)],
            Self::Last => &[("last", Self::Last)],
        }
    }
}

/// The columns of a query, all of which can be folded.
///
/// # Errors
/// What can't be, in words.
pub fn columns(fields: &[Field], is_windowed: bool) -> Result<Vec<Fold>, &'static str> {
    let mut folds: Vec<Fold> = Vec::new();
    for field in fields {
        let Expr::Call { name, arguments } = &field.expr else {
            return Err("it asks for the points of several sets, or for what is computed of them");
        };
        let function = Function::named(name);
        let function = function.ok_or(
            "it has a function other than count, sum, min, max, mean, \
                                       spread, first and last",
        )?;
        let [argument @ Expr::Reference { .. }] = arguments.as_slice() else {
            return Err("a function of it is of more than one field");
        };
        let name = field.alias.clone().unwrap_or_else(|| name.clone());
        folds.push(Fold { name: unique(&folds, name), function, argument: argument.clone() });
    }
    let has_times = folds.len() == 1 && !is_windowed;
    let needs_times = |fold: &Fold| matches!(fold.function, Function::First | Function::Last);
    if !has_times && folds.iter().any(needs_times) {
        return Err("first() and last() lose their times within windows and beside other columns");
    }
    Ok(folds)
}

/// A name that no column before has (`influxql.SelectStatement.ColumnNames`).
fn unique(before: &[Fold], name: String) -> String {
    let is_taken = |name: &str| before.iter().any(|fold| fold.name == name);
    if !is_taken(&name) {
        return name;
    }
    let mut numbered = (1_u32..).map(|n| format!("{name}_{n}"));
    numbered.find(|name| !is_taken(name)).unwrap_or_default()
}

impl Fold {
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
                // Of one time the greater value.
                Function::First => more.0.cmp(&into.0).then(compare(&into.1, &more.1)).is_lt(),
                _ => into.0.cmp(&more.0).then(compare(&into.1, &more.1)).is_lt(),
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
            (Function::Mean, [(_, sum), (_, count)]) => {
                let (sum, count) = (float(sum), float(count));
                if count == 0.0 { Value::Null } else { number(sum / count) }
            }
            (Function::Spread, [(_, min), (_, max)]) => match (min.as_i64(), max.as_i64()) {
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
            Fill::Integer(value) => value.into(),
            Fill::Number(value) => number(value),
        }
    }
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
            _ => float(one).total_cmp(&float(other)),
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
