//! Rows of the answer, from the points of calls or from what is read
//! (`IteratorScanner` in InfluxDB's `query/iterator.gen.go.tmpl`).

use std::iter::Peekable;

use wire::influxql::ast::Fill;

use super::merged::{Row, Rows};
use super::plan::{Output, Plan};
use super::points::Point;
use crate::query::expr::cast;
use crate::schema::FieldType;
use crate::value::Value;

/// Makes the rows of one group.
#[derive(Debug)]
pub(super) struct Scanner {
    /// The values of the calls, then of the columns beside them. They stay from row to row where
    /// the fill says so.
    symbols: Vec<Value>,
    /// What stands where there is no value; `None` is what stood there before.
    defaults: Option<Vec<Value>>,
    /// Whether rows need no computation: the columns are what was read, in this order.
    places: Option<Vec<usize>>,
    /// Whether rows are what was read, each value once and null where it was null.
    as_read: bool,
}

impl Scanner {
    /// A scanner for the rows of one group.
    pub(super) fn new(plan: &Plan, fill: Fill) -> Self {
        let number = match fill {
            Fill::Integer(number) => Value::Integer(number),
            Fill::Number(number) => Value::Float(number),
            _ => Value::Null,
        };
        let default = |kind: &Option<FieldType>| default_as(&number, *kind);
        let defaults = plan.kinds.iter().map(default).collect();
        let places = plan.outputs.iter().map(|output| match output {
            Output::Value(at) => Some(*at),
            Output::Computed(_) => None,
        });
        let places: Option<Vec<usize>> = places.collect();
        let once = places.as_ref().is_some_and(|places| {
            let mut seen = places.clone();
            seen.sort_unstable();
            seen.dedup();
            seen.len() == places.len()
        });
        let null = number == Value::Null && fill != Fill::Previous;
        Self {
            symbols: vec![Value::Null; plan.kinds.len()],
            defaults: (fill != Fill::Previous).then_some(defaults),
            as_read: once && null && plan.is_raw(),
            places,
        }
    }

    fn set(&mut self, at: usize, value: Value) {
        let Some(symbol) = self.symbols.get_mut(at) else { return };
        if value != Value::Null {
            *symbol = value;
        } else if let Some(defaults) = &self.defaults {
            *symbol = defaults.get(at).cloned().unwrap_or(Value::Null);
        }
    }

    fn row(&self, plan: &Plan) -> Vec<Value> {
        match &self.places {
            Some(places) => {
                // There is room for the time, which is put before them.
                let mut row = Vec::with_capacity(places.len() + 1);
                let value = |at: &usize| self.symbols.get(*at).cloned().unwrap_or(Value::Null);
                row.extend(places.iter().map(value));
                row
            }
            None => {
                let value = |output: &Output| match output {
                    Output::Value(at) => self.symbols.get(*at).cloned().unwrap_or(Value::Null),
                    Output::Computed(formula) => formula.row(&self.symbols),
                };
                plan.outputs.iter().map(value).collect()
            }
        }
    }

    /// The row of what was read.
    pub(super) fn raw(&mut self, plan: &Plan, (time, mut values): Row) -> Row {
        if self.as_read {
            let mut value = |at: &usize| {
                plan.beside
                    .get(*at)
                    .and_then(|at| values.get_mut(*at))
                    .map(|value| std::mem::replace(value, Value::Null))
            };
            let places = self.places.iter().flatten();
            let mut row = Vec::with_capacity(plan.outputs.len() + 1);
            row.extend(places.map(|at| value(at).unwrap_or(Value::Null)));
            return (time, row);
        }
        for (symbol, at) in plan.beside.iter().enumerate() {
            self.set(symbol, values.get(*at).cloned().unwrap_or(Value::Null));
        }
        (time, self.row(plan))
    }

    /// The next row of what the calls gave; those that have no point then are filled.
    pub(super) fn next<I: Iterator<Item = Point>>(
        &mut self,
        plan: &Plan,
        calls: &mut [Peekable<I>],
        descending: bool,
    ) -> Option<Row> {
        let times = calls.iter_mut().filter_map(|call| call.peek().map(|point| point.time));
        let time = if descending { times.max() } else { times.min() }?;
        for at in 0..calls.len() {
            let is_typed = plan.is_typed.get(at).is_some_and(|is_typed| *is_typed);
            let Some(call) = calls.get_mut(at).filter(|_| is_typed) else { continue };
            let point = call.next_if(|point| point.time == time);
            let (value, beside) = match point {
                Some(point) => (point.value, point.beside),
                None => (Value::Null, None),
            };
            self.set(at, value);
            for place in 0..plan.beside.len() + plan.written_tags {
                let value = beside.as_ref().and_then(|row| row.get(place).cloned());
                self.set(plan.calls.len() + place, value.unwrap_or(Value::Null));
            }
        }
        Some((time, self.row(plan)))
    }
}

/// A number of `fill()` where a column has no value: text and truths take it as it is.
fn default_as(number: &Value, kind: Option<FieldType>) -> Value {
    match kind {
        Some(kind @ (FieldType::Float | FieldType::Integer | FieldType::Unsigned)) => {
            cast(number, kind)
        }
        _ => number.clone(),
    }
}

/// `LIMIT` and `OFFSET` of rows as they are read; nothing is read past them.
pub(super) fn limited(rows: Rows<'_>, limit: u64, offset: u64) -> Rows<'_> {
    let skip = usize::try_from(offset).unwrap_or(usize::MAX);
    let take = usize::try_from(limit).ok().filter(|take| *take > 0).unwrap_or(usize::MAX);
    if skip == 0 && take == usize::MAX {
        return rows;
    }
    Box::new(rows.skip(skip).take(take))
}
