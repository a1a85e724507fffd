//! Aggregates and selectors: from the points of a group and window to one value, or some.

use std::fmt;
use std::ops::Range;

use super::choose::{Sample, Top};
use super::collect::{Distinct, Median, Mode, Percentile, Stddev};
use super::column::Column;
use super::element::Text;
use super::pick::{Pick, Rule};
use super::reduce::{Count, CountDistinct, Mean, Spread, State, Sum};
use super::unsupported;
use crate::refusal::QueryError;
use crate::schema::FieldType;
use crate::value::Value;

/// Which aggregate or selector.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// `count(x)`.
    Count,
    /// `count(distinct(x))`.
    CountDistinct,
    /// `count(RESULTS(x))`: the sum of counts. See [`RESULTS`](super::call::RESULTS).
    CountOfResults,
    /// `sum(x)`; whole numbers wrap.
    Sum,
    /// `mean(x)`.
    Mean,
    /// `min(x)`.
    Min,
    /// `max(x)`.
    Max,
    /// `first(x)`.
    First,
    /// `last(x)`.
    Last,
    /// `spread(x)`.
    Spread,
    /// `stddev(x)`.
    Stddev,
    /// `median(x)`.
    Median,
    /// `mode(x)`.
    Mode,
    /// `percentile(x, p)`.
    Percentile(f64),
    /// `distinct(x)`.
    Distinct,
    /// `top(x, n)`.
    Top(u64),
    /// `bottom(x, n)`.
    Bottom(u64),
    /// `sample(x, n)`.
    Sample(u64),
}

impl Kind {
    /// Its name in a query.
    pub fn name(self) -> &'static str {
        match self {
            Self::Count | Self::CountDistinct | Self::CountOfResults => "count",
            Self::Sum => "sum",
            Self::Mean => "mean",
            Self::Min => "min",
            Self::Max => "max",
            Self::First => "first",
            Self::Last => "last",
            Self::Spread => "spread",
            Self::Stddev => "stddev",
            Self::Median => "median",
            Self::Mode => "mode",
            Self::Percentile(_) => "percentile",
            Self::Distinct => "distinct",
            Self::Top(_) => "top",
            Self::Bottom(_) => "bottom",
            Self::Sample(_) => "sample",
        }
    }

    /// Whether it gives a point that was written rather than a value made of several: alone in a
    /// query without windows it keeps its time, and fields and tags may be selected beside it.
    pub fn is_selector(self) -> bool {
        match self {
            Self::Min | Self::Max | Self::First | Self::Last => true,
            Self::Percentile(_) | Self::Top(_) | Self::Bottom(_) | Self::Sample(_) => true,
            Self::Count | Self::CountDistinct | Self::CountOfResults => false,
            Self::Sum | Self::Mean | Self::Spread => false,
            Self::Stddev | Self::Median | Self::Mode | Self::Distinct => false,
        }
    }

    /// Whether it gives any number of points, which keep their times also in windows (but those
    /// of `distinct`), and is never filled.
    pub fn is_many(self) -> bool {
        matches!(self, Self::Distinct | Self::Top(_) | Self::Bottom(_) | Self::Sample(_))
    }

    /// What makes the value of a window of the one result that the function has there.
    pub(super) fn of_results(self) -> Self {
        match self {
            Self::Count | Self::CountDistinct => Self::CountOfResults,
            Self::Spread => Self::Sum,
            other => other,
        }
    }

    /// The type of its values over those of another type.
    pub fn output(self, input: FieldType) -> FieldType {
        match self {
            Self::Count | Self::CountDistinct | Self::CountOfResults => FieldType::Integer,
            Self::Mean | Self::Stddev | Self::Median => FieldType::Float,
            _ => input,
        }
    }
}

/// A call of an aggregate or selector with the type of its argument.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Aggregate {
    kind: Kind,
    input: FieldType,
    descending: bool,
}

impl Aggregate {
    /// A call over points that are answered newest first or not.
    ///
    /// # Errors
    /// When the function takes no such type.
    pub fn new(kind: Kind, input: FieldType, descending: bool) -> Result<Self, QueryError> {
        let text = input == FieldType::String;
        let number = !text && input != FieldType::Boolean;
        let taken = match kind {
            Kind::Count | Kind::CountDistinct | Kind::First | Kind::Last => true,
            Kind::Mode | Kind::Distinct | Kind::Sample(_) => true,
            Kind::Min | Kind::Max => !text,
            Kind::Sum | Kind::Mean | Kind::Spread | Kind::Stddev | Kind::Median => number,
            Kind::CountOfResults => input == FieldType::Integer,
            Kind::Percentile(_) | Kind::Top(_) | Kind::Bottom(_) => number,
        };
        if taken {
            Ok(Self { kind, input, descending })
        } else {
            Err(unsupported(kind.name(), input))
        }
    }

    /// Which function it computes.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The type of its argument.
    pub fn input(&self) -> FieldType {
        self.input
    }

    /// The type of its values.
    pub fn output(&self) -> FieldType {
        self.kind.output(self.input)
    }

    /// For the points of one group and window.
    pub fn start(&self) -> Accumulator {
        macro_rules! numbers {
            ($state:ident :: $new:ident ( $($argument:expr),* )) => {
                match self.input {
                    FieldType::Integer => boxed($state::<i64>::$new($($argument),*)),
                    FieldType::Unsigned => boxed($state::<u64>::$new($($argument),*)),
                    _ => boxed($state::<f64>::$new($($argument),*)),
                }
            };
        }
        macro_rules! all {
            ($state:ident :: $new:ident ( $($argument:expr),* )) => {
                match self.input {
                    FieldType::String => boxed($state::<Text>::$new($($argument),*)),
                    FieldType::Boolean => boxed($state::<bool>::$new($($argument),*)),
                    _ => numbers!($state::$new($($argument),*)),
                }
            };
        }
        let state = match self.kind {
            Kind::Count => boxed(Count::default()),
            Kind::CountDistinct => all!(CountDistinct::new()),
            Kind::Sum | Kind::CountOfResults => numbers!(Sum::new()),
            Kind::Mean => numbers!(Mean::new()),
            Kind::Min => all!(Pick::new(Rule::Min)),
            Kind::Max => all!(Pick::new(Rule::Max)),
            Kind::First => all!(Pick::new(Rule::First)),
            Kind::Last => all!(Pick::new(Rule::Last)),
            Kind::Spread => numbers!(Spread::new()),
            Kind::Stddev => numbers!(Stddev::new()),
            Kind::Median => numbers!(Median::new()),
            Kind::Mode => all!(Mode::new()),
            Kind::Percentile(percent) => numbers!(Percentile::new(percent)),
            Kind::Distinct => all!(Distinct::new(self.descending)),
            Kind::Top(n) => numbers!(Top::new(n, false, self.descending)),
            Kind::Bottom(n) => numbers!(Top::new(n, true, self.descending)),
            Kind::Sample(n) => all!(Sample::new(n, self.descending)),
        };
        Accumulator { state, input: self.input }
    }
}

fn boxed(state: impl State + 'static) -> Box<dyn State> {
    Box::new(state)
}

/// A point that a function gives.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// The time of the point chosen; `None` for a value made of several, which has the time of
    /// its window.
    pub time: Option<i64>,
    /// The value; a float may be NaN, which is shown as null but never filled.
    pub value: Value,
    /// For a selector: the token of the row chosen.
    pub token: u64,
}

/// What a function has seen of the points of one group and window.
pub struct Accumulator {
    state: Box<dyn State>,
    input: FieldType,
}

impl fmt::Debug for Accumulator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Accumulator").field("input", &self.input).finish_non_exhaustive()
    }
}

impl Accumulator {
    /// Takes some rows of a chunk. Nulls are passed over; numbers of another type are cast.
    ///
    /// `token` is that of the column's row 0, whatever it may mean to the caller, and row `i` has
    /// `token + i`. A selector of one point gives the row of the point that it now holds, if that
    /// is one of these.
    pub fn update(
        &mut self,
        times: &[i64],
        column: &Column<'_>,
        rows: Range<usize>,
        token: u64,
    ) -> Option<usize> {
        let end = rows.end.min(times.len()).min(column.len());
        let rows = rows.start.min(end)..end;
        self.state.update(times, column, rows, token)
    }

    /// Counts points that it does not see; only `count` does.
    pub fn add_count(&mut self, count: u64) {
        self.state.add_count(count);
    }

    /// The point that a selector of one point holds.
    pub fn held(&self) -> Option<(Value, i64)> {
        self.state.held()
    }

    /// Takes one point; null is passed over. True where a selector of one point now holds it.
    pub fn push(&mut self, time: i64, value: &Value, token: u64) -> bool {
        let mut update = |column: Column<'_>| {
            let times = std::slice::from_ref(&time);
            self.state.update(times, &column, 0..1, token).is_some()
        };
        match value {
            Value::Null => false,
            Value::Float(v) => update(Column::Float(std::slice::from_ref(v), None)),
            Value::Integer(v) | Value::Time(v) => {
                update(Column::Integer(std::slice::from_ref(v), None))
            }
            Value::Unsigned(v) => update(Column::Unsigned(std::slice::from_ref(v), None)),
            Value::String(v) => update(Column::String(&arrow_array::StringArray::from(vec![&**v]))),
            Value::Boolean(v) => {
                update(Column::Boolean(&arrow_array::BooleanArray::from(vec![*v])))
            }
        }
    }

    /// Takes what another one of the same call has seen; what came earlier in the order of series
    /// and times should be the receiver. True where a selector of one point now holds the
    /// other's.
    pub fn merge(&mut self, mut other: Self) -> bool {
        self.state.merge(other.state.as_mut())
    }

    /// Appends the points that come of it, in the order of the answer; none where there is
    /// nothing to show.
    pub fn finish(mut self, into: &mut Vec<Point>) {
        self.state.finish(into);
    }

    /// Bytes of memory it holds, about.
    pub fn bytes(&self) -> usize {
        std::mem::size_of::<Self>() + self.state.bytes()
    }
}
