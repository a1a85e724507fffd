//! The partial results of members become the results of all sets, one of each group and window, on
//! which the rest of a query runs.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use store::QueryError;
use store::query::functions::Kind;
use store::query::select::{PartialCall, PartialSelect};
use store::schema::FieldType;
use wire::influxql::ast::MeasurementName;
use wire::line;

use super::documents::{ResultPart, SeriesPart};
use super::held::{HeldMemory, too_many};
use super::partials::{PartialStatement, Partials};
use super::schema::refused;

/// About how many bytes a row takes while it is held, and each result of it.
const ROW_BYTES: usize = 128;
const RESULT_BYTES: usize = 64;

/// A number of a field or of a result.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Number {
    Integer(i64),
    Float(f64),
}

/// What is known of the result of an aggregate.
#[derive(Clone, Debug, PartialEq)]
enum Merged {
    Count(i64),
    Distinct(BTreeSet<String>),
    Sum(Number),
    Mean(Number, i64),
    /// The value that a selector picks, and its time.
    Picked(Number, i64),
    Spread(Number, Number),
}

/// The results of a row, which has a place for each call of its statement.
#[derive(Debug, Default)]
struct MergedRow {
    time_ns: i64,
    results: Vec<Option<Merged>>,
}

/// The results of calls of one group and window, as a point.
pub(super) struct ResultPoint {
    /// The time, within those that the calls read.
    pub time_ns: i64,
    /// The places of calls, and their results.
    pub values: Vec<(usize, line::Value<'static>)>,
}

/// The tags of a group, none of them empty.
type Group = BTreeMap<String, String>;

/// The results of all members so far.
pub(super) struct Merging<'a> {
    partials: &'a Partials,
    /// The type of the field of each call.
    types: Vec<FieldType>,
    /// By group, statement and window.
    rows: BTreeMap<Group, BTreeMap<(usize, i64), MergedRow>>,
    count: u64,
    rows_max: u64,
}

/// Whether the results of a function over a field can be put together of partial ones. Others are
/// errors in the words of the executor, or need numbers that are told apart from integers.
pub(super) fn is_certain(kind: Kind, of: FieldType) -> bool {
    match kind {
        Kind::Count | Kind::CountDistinct => true,
        _ => matches!(of, FieldType::Float | FieldType::Integer),
    }
}

impl<'a> Merging<'a> {
    /// Of no member so far. The types are those of the calls' fields.
    pub fn new(partials: &'a Partials, types: Vec<FieldType>, rows_max: u64) -> Self {
        Self { partials, types, rows: BTreeMap::new(), count: 0, rows_max }
    }

    /// Takes what a member says to the statement at a place.
    ///
    /// # Errors
    /// That there is too much of it, or that it can't be read.
    pub fn take(
        &mut self,
        at: usize,
        result: &ResultPart,
        held: &mut HeldMemory,
    ) -> Result<(), QueryError> {
        let Some(statement) = self.partials.statements.get(at) else { return Ok(()) };
        for series in &result.series {
            self.count += series.values.len() as u64;
            if self.count > self.rows_max {
                return Err(too_many(self.rows_max));
            }
            held.grow(self.take_series(at, statement, series)?)?;
        }
        Ok(())
    }

    /// Takes the rows of a group; gives about how many bytes more are held for them.
    fn take_series(
        &mut self,
        at: usize,
        statement: &PartialStatement,
        series: &SeriesPart,
    ) -> Result<usize, QueryError> {
        let tags = series.tags.iter().filter(|(_, value)| !value.is_empty());
        let group: Group = tags.map(|(key, value)| (key.clone(), value.clone())).collect();
        let rows = self.rows.entry(group).or_default();
        let mut bytes = 0;
        for values in &series.values {
            let Some(time_ns) = values.first().and_then(Value::as_i64) else {
                return Err(unreadable());
            };
            let window = if self.partials.is_one_window { 0 } else { time_ns };
            let row = rows.entry((at, window)).or_insert_with(|| {
                bytes += ROW_BYTES + statement.calls.len() * RESULT_BYTES;
                MergedRow { time_ns, results: vec![None; statement.calls.len()] }
            });
            for ((call, columns), known) in statement.calls.iter().zip(&mut row.results) {
                let (Some(kind), Some(of)) =
                    (self.partials.calls.get(*call).map(|call| call.kind), self.types.get(*call))
                else {
                    continue;
                };
                let values: Vec<&Value> =
                    columns.iter().filter_map(|column| values.get(*column)).collect();
                if values.len() != columns.len() {
                    return Err(unreadable());
                }
                if let Some(new) = Merged::of(kind, &values, *of, time_ns)? {
                    bytes += add(kind, known, new);
                }
            }
        }
        Ok(bytes)
    }

    /// The calls whose results these are.
    pub fn calls(&self) -> impl Iterator<Item = &PartialCall> {
        self.partials.calls.iter()
    }

    /// The points that have the results, by group.
    pub fn points(&self) -> impl Iterator<Item = (&Group, ResultPoint)> {
        self.rows.iter().flat_map(move |(group, rows)| {
            let points = rows.iter().filter_map(|((at, _), row)| self.point(*at, row));
            points.map(move |point| (group, point))
        })
    }

    /// The point of a row of the statement at a place.
    fn point(&self, at: usize, row: &MergedRow) -> Option<ResultPoint> {
        let statement = self.partials.statements.get(at)?;
        let results = statement.calls.iter().zip(&row.results);
        let values = results.filter_map(|((call, _), result)| Some((*call, result.as_ref()?)));
        let values = values.filter_map(|(call, result)| Some((call, result.value()?))).collect();
        // A point that was picked has its own time where it stands alone.
        let picked = row.results.iter().find_map(|result| match result {
            Some(Merged::Picked(_, time_ns)) => Some(*time_ns),
            _ => None,
        });
        // The first window may begin before the times that are asked for.
        let time_ns = picked.unwrap_or(row.time_ns);
        let time_ns = time_ns.clamp(statement.range.min, statement.range.max);
        Some(ResultPoint { time_ns, values })
    }
}

/// The name and the type of the field that has the results of the call at a place, of a field of a
/// type.
pub(super) fn result_field(at: usize, kind: Kind, of: FieldType) -> (String, FieldType) {
    (PartialSelect::result_name(at), kind.output(of))
}

/// The name of the only measurement that is read.
pub(super) fn measurement_name(of: &MeasurementName) -> &str {
    match of {
        MeasurementName::Name(name) => name,
        MeasurementName::Regex(_) | MeasurementName::Same => "",
    }
}

fn unreadable() -> QueryError {
    refused("the partial results of a set cannot be read")
}

impl Merged {
    /// Of the columns of one member's row; `None` where it had no points.
    fn of(
        kind: Kind,
        values: &[&Value],
        of: FieldType,
        time_ns: i64,
    ) -> Result<Option<Self>, QueryError> {
        if values.iter().any(|value| value.is_null()) {
            return Ok(None);
        }
        let number = |value: &Value| Number::of(value, of).ok_or_else(unreadable);
        let count = |value: &Value| value.as_i64().ok_or_else(unreadable);
        Ok(Some(match (kind, values) {
            (Kind::Count, [value]) => match count(value)? {
                0 => return Ok(None),
                points => Self::Count(points),
            },
            (Kind::CountDistinct, [value]) => Self::Distinct([key(value, of)].into()),
            (Kind::Sum, [sum]) => Self::Sum(number(sum)?),
            (Kind::Mean, [sum, points]) => Self::Mean(number(sum)?, count(points)?),
            (Kind::Min | Kind::Max, [value]) => Self::Picked(number(value)?, time_ns),
            (Kind::Spread, [min, max]) => Self::Spread(number(min)?, number(max)?),
            _ => return Ok(None),
        }))
    }

    /// The result; `None` where there is none.
    fn value(&self) -> Option<line::Value<'static>> {
        Some(match self {
            Self::Count(points) => line::Value::Integer(*points),
            Self::Distinct(values) => line::Value::Integer(i64::try_from(values.len()).ok()?),
            Self::Sum(number) | Self::Picked(number, _) => number.value(),
            Self::Mean(sum, points) => line::Value::Float(sum.float() / *points as f64),
            Self::Spread(Number::Integer(min), Number::Integer(max)) => {
                line::Value::Integer(max.wrapping_sub(*min))
            }
            Self::Spread(min, max) => line::Value::Float(max.float() - min.float()),
        })
    }
}

/// Adds a member's part of a result; gives how many bytes more are held for it.
fn add(kind: Kind, known: &mut Option<Merged>, new: Merged) -> usize {
    let Some(known) = known else {
        *known = Some(new);
        return 0;
    };
    match (known, new) {
        (Merged::Count(known), Merged::Count(new)) => *known = known.wrapping_add(new),
        (Merged::Distinct(known), Merged::Distinct(new)) => {
            let bytes: usize = new.iter().map(|value| value.len() + RESULT_BYTES).sum();
            known.extend(new);
            return bytes;
        }
        (Merged::Sum(known), Merged::Sum(new)) => *known = known.plus(new),
        (Merged::Mean(sum, points), Merged::Mean(new, more)) => {
            (*sum, *points) = (sum.plus(new), points.wrapping_add(more));
        }
        (Merged::Picked(known, known_ns), Merged::Picked(new, new_ns)) => {
            let is_better = if kind == Kind::Max { known.less(new) } else { new.less(*known) };
            let is_equal = !known.less(new) && !new.less(*known);
            // Of equal points the earliest one counts.
            if is_better || is_equal && new_ns < *known_ns {
                (*known, *known_ns) = (new, new_ns);
            }
        }
        (Merged::Spread(min, max), Merged::Spread(new_min, new_max)) => {
            *min = if new_min.less(*min) { new_min } else { *min };
            *max = if max.less(new_max) { new_max } else { *max };
        }
        // All parts of a result are of one function.
        _ => {}
    }
    0
}

impl Number {
    fn of(value: &Value, of: FieldType) -> Option<Self> {
        match of {
            FieldType::Integer => value.as_i64().map(Self::Integer),
            _ => value.as_f64().map(Self::Float),
        }
    }

    fn value(self) -> line::Value<'static> {
        match self {
            Self::Integer(value) => line::Value::Integer(value),
            Self::Float(value) => line::Value::Float(value),
        }
    }

    fn float(self) -> f64 {
        match self {
            Self::Integer(value) => value as f64,
            Self::Float(value) => value,
        }
    }

    /// The sum; whole numbers wrap around, as those of one server.
    fn plus(self, other: Self) -> Self {
        match (self, other) {
            (Self::Integer(one), Self::Integer(other)) => Self::Integer(one.wrapping_add(other)),
            _ => Self::Float(self.float() + other.float()),
        }
    }

    fn less(self, other: Self) -> bool {
        match (self, other) {
            (Self::Integer(one), Self::Integer(other)) => one < other,
            _ => self.float() < other.float(),
        }
    }
}

/// What tells a value apart from others of its field. Zeros are equal, whatever their signs are.
fn key(value: &Value, of: FieldType) -> String {
    match (of, value.as_f64()) {
        (FieldType::Float, Some(number)) => (number + 0.0).to_bits().to_string(),
        _ => value.as_str().map_or_else(|| value.to_string(), str::to_owned),
    }
}
