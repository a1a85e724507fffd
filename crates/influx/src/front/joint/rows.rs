//! The series of an answer and their rows, put together of those of several sets.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use serde_json::{Map, Value, json};
use wire::influxql;
use wire::influxql::ast::{Fill, Select};

use super::fold::{Fold, Partial};
use super::{Epoch, is_window};

/// The name and the tags of a series, by which series are told apart and put in order.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct SeriesName {
    name: String,
    tags: BTreeMap<String, String>,
}

impl SeriesName {
    pub fn of(series: &Map<String, Value>) -> Self {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let tags = series.get("tags").and_then(Value::as_object);
        let tags = tags.into_iter().flatten().map(|(key, value)| (key.clone(), text(value)));
        Self { name: series.get("name").map(text).unwrap_or_default(), tags: tags.collect() }
    }
}

/// What is left behind an offset, as many as there may be; 0 is without a limit.
pub fn within<T>(list: Vec<T>, offset: u64, limit: u64) -> Vec<T> {
    let number = |of: u64| usize::try_from(of).unwrap_or(usize::MAX);
    let limit = if limit == 0 { usize::MAX } else { number(limit) };
    list.into_iter().skip(number(offset)).take(limit).collect()
}

/// The series of all sets' answers to one statement.
///
/// # Errors
/// The first error among them, or one that says that an answer is not whole; as a result.
pub fn series_of(parts: Vec<Value>) -> Result<Vec<Map<String, Value>>, Value> {
    let mut all = Vec::new();
    for mut part in parts {
        if part.get("error").is_some() {
            return Err(part);
        }
        let mut series = part.get_mut("series").map(Value::take);
        for one in series.iter_mut().flat_map(Value::as_array_mut).flatten() {
            let Value::Object(series) = one.take() else { continue };
            if series.get("partial") == Some(&Value::Bool(true)) {
                return Err(json!({ "error": "the answer of a set is not whole: max-row-limit" }));
            }
            all.push(series);
        }
    }
    Ok(all)
}

/// How the rows of a query come together.
#[derive(Clone, Debug, PartialEq)]
pub struct Rows {
    is_windowed: bool,
    is_descending: bool,
    fill: Fill,
    /// Offset and limit, of the rows of a series and of series.
    rows: (u64, u64),
    series: (u64, u64),
}

/// The partial results of a row, by column.
type PartialRow = Vec<Partial>;

/// A series as it is told, and its rows by their times.
type PartialSeries = (Map<String, Value>, BTreeMap<i64, PartialRow>);

impl Rows {
    pub fn of(select: &Select) -> Self {
        Self {
            is_windowed: select.dimensions.iter().any(is_window),
            is_descending: select.descending,
            fill: select.fill,
            rows: (select.offset, select.limit),
            series: (select.series_offset, select.series_limit),
        }
    }

    /// The answer where each series is of one set.
    pub fn joined(&self, parts: Vec<Value>, epoch: Epoch) -> Value {
        let mut all = match series_of(parts) {
            Ok(all) => all,
            Err(error) => return error,
        };
        for series in &mut all {
            let rows = series.get_mut("values").and_then(Value::as_array_mut);
            for row in rows.into_iter().flatten() {
                if let Some(time) = row.get_mut(0) {
                    *time = epoch.value(time.as_i64().unwrap_or_default());
                }
            }
        }
        let keyed = all.into_iter().map(|series| (SeriesName::of(&series), series));
        self.answer(keyed.collect())
    }

    /// The answer where sets have partial results of a series.
    pub fn folded(&self, parts: Vec<Value>, folds: &[Fold], epoch: Epoch) -> Value {
        let all = match series_of(parts) {
            Ok(all) => all,
            Err(error) => return error,
        };
        let mut found: BTreeMap<SeriesName, PartialSeries> = BTreeMap::new();
        // Without windows a group has one row, whatever its time is.
        let has_own_time = !self.is_windowed && matches!(folds, [fold] if fold.is_selector());
        for mut series in all {
            let values = series.remove("values").unwrap_or_default();
            let (_, rows) =
                found.entry(SeriesName::of(&series)).or_insert_with(|| (series, BTreeMap::new()));
            for row in values.as_array().into_iter().flatten() {
                let (time, row) = partial_row(row);
                let key = if has_own_time { 0 } else { time };
                let added = match rows.entry(key) {
                    Entry::Occupied(mut there) => add(folds, there.get_mut(), &row),
                    Entry::Vacant(free) => {
                        free.insert(row);
                        Ok(())
                    }
                };
                if let Err(words) = added {
                    return json!({ "error": words });
                }
            }
        }
        let series = found.into_iter().map(|(name, (mut series, rows))| {
            let mut values = self.filled(folds, rows, epoch);
            if self.is_descending {
                values.reverse();
            }
            let names = folds.iter().map(|fold| fold.name.as_str());
            let columns: Vec<&str> = std::iter::once("time").chain(names).collect();
            series.insert("columns".to_owned(), json!(columns));
            series.insert("values".to_owned(), json!(within(values, self.rows.0, self.rows.1)));
            (name, series)
        });
        self.answer(series.collect())
    }

    /// Time and values of each row, those of windows without points included, in the order of time.
    fn filled(
        &self,
        folds: &[Fold],
        rows: BTreeMap<i64, PartialRow>,
        epoch: Epoch,
    ) -> Vec<Vec<Value>> {
        let mut before: Vec<Option<Value>> = vec![None; folds.len()];
        let mut filled = Vec::with_capacity(rows.len());
        for (key, row) in rows {
            // A point that was chosen has its own time.
            let time = row.first().map_or(key, |(time, _)| *time);
            let mut at = 0;
            let values = folds.iter().zip(&mut before).map(|(fold, before)| {
                let partials = row.get(at..at + fold.width()).unwrap_or_default();
                at += fold.width();
                match fold.value(partials) {
                    Value::Null if self.is_windowed && self.fill != Fill::None => {
                        fold.filled(self.fill, before.as_ref())
                    }
                    value => {
                        *before = Some(value.clone());
                        value
                    }
                }
            });
            filled.push(std::iter::once(epoch.value(time)).chain(values).collect());
        }
        filled
    }

    /// Series that have rows, in order; of each name as many as there may be, the first by their
    /// tags also where the answer is in descending order.
    fn answer(&self, mut all: Vec<(SeriesName, Map<String, Value>)>) -> Value {
        let has_rows = |series: &Map<String, Value>| {
            series.get("values").and_then(Value::as_array).is_some_and(|rows| !rows.is_empty())
        };
        all.retain(|(_, series)| has_rows(series));
        all.sort_by(|(one, _), (other, _)| one.cmp(other));
        let (offset, limit) = self.series;
        let mut limited: Vec<Value> = Vec::with_capacity(all.len());
        for of_name in all.chunk_by(|(one, _), (other, _)| one.name == other.name) {
            let series = of_name.iter().map(|(_, series)| Value::Object(series.clone()));
            limited.extend(within(series.collect(), offset, limit));
        }
        if self.is_descending {
            limited.reverse();
        }
        if limited.is_empty() { json!({}) } else { json!({ "series": limited }) }
    }
}

/// A row's time and partial results.
fn partial_row(row: &Value) -> (i64, PartialRow) {
    let values = row.as_array().map(Vec::as_slice).unwrap_or_default();
    let time = values.first().and_then(Value::as_i64).unwrap_or_default();
    let partials = values.iter().skip(1).map(|value| (time, value.clone()));
    (time, partials.collect())
}

fn add(folds: &[Fold], into: &mut PartialRow, row: &PartialRow) -> Result<(), &'static str> {
    let mut at = 0;
    for fold in folds {
        let range = at..at + fold.width();
        at = range.end;
        let (Some(into), Some(row)) = (into.get_mut(range.clone()), row.get(range)) else {
            return Err("the answer of a set has other columns than it was asked for");
        };
        fold.add(into, row)?;
    }
    Ok(())
}

impl Epoch {
    /// A time as the client has asked for it.
    fn value(self, time_ns: i64) -> Value {
        match self {
            Self::Text => influxql::rfc3339_short(time_ns).into(),
            Self::Units(unit) => (time_ns / unit).into(),
        }
    }
}
