//! The series of an answer and their rows, put together of those of several sets.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};
use store::query::timezone::Zone;
use wire::influxql;
use wire::influxql::ast::{Fill, Select};

use super::fold::{Fold, Partial};
use super::{Epoch, is_every_tag, is_wildcard, is_window};

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

impl SeriesName {
    /// The name by which InfluxDB orders groups where it counts them: the keys of the tags that
    /// are there, then their values.
    fn group(&self) -> String {
        let there = || self.tags.iter().filter(|(_, value)| !value.is_empty());
        let keys = there().map(|(key, _)| key.as_str());
        keys.chain(there().map(|(_, value)| value.as_str())).collect::<Vec<_>>().join("|")
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
    /// Whether `*` or a pattern stands for the columns, which are those of all sets together.
    has_all_columns: bool,
    /// The same of the tags by which series are told apart.
    has_all_tags: bool,
    fill: Fill,
    /// What times are told in, where they are told as text.
    zone: Option<Zone>,
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
            has_all_columns: select.fields.iter().any(|field| is_wildcard(&field.expr)),
            has_all_tags: select.dimensions.iter().any(is_every_tag),
            fill: select.fill,
            zone: select.timezone.as_deref().and_then(|name| Zone::named(name).ok()),
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
        if self.has_all_tags {
            unite_tags(&mut all);
        }
        if self.has_all_columns {
            unite_columns(&mut all);
        }
        for series in &mut all {
            let rows = series.get_mut("values").and_then(Value::as_array_mut);
            for row in rows.into_iter().flatten() {
                if let Some(time) = row.get_mut(0) {
                    *time = epoch.value(time.as_i64().unwrap_or_default(), self.zone.as_ref());
                }
            }
        }
        let keyed = all.into_iter().map(|series| (SeriesName::of(&series), series));
        self.answer(keyed.collect())
    }

    /// The answer where sets have partial results of a series.
    pub fn folded(&self, parts: Vec<Value>, folds: &[Fold], epoch: Epoch) -> Value {
        let mut all = match series_of(parts) {
            Ok(all) => all,
            Err(error) => return error,
        };
        if self.has_all_tags {
            unite_tags(&mut all);
        }
        let mut found: BTreeMap<SeriesName, PartialSeries> = BTreeMap::new();
        // Without windows a group has one row, whatever its time is.
        let is_alone = folds.first().is_some_and(|first| {
            first.is_selector() && folds.iter().all(|fold| fold.is_same_call(first))
        });
        let has_own_time = !self.is_windowed && is_alone;
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
            filled.push(
                std::iter::once(epoch.value(time, self.zone.as_ref())).chain(values).collect(),
            );
        }
        filled
    }

    /// The groups of a name that `SLIMIT` and `SOFFSET` leave. An offset alone leaves none
    /// (`LimitTagSets` in InfluxDB's `query/iterator.go`).
    fn kept<'a>(&self, names: impl Iterator<Item = &'a SeriesName>) -> BTreeSet<String> {
        let groups: BTreeSet<String> = names.map(SeriesName::group).collect();
        let number = |of: u64| usize::try_from(of).unwrap_or(usize::MAX);
        match self.series {
            (0, 0) => groups,
            (offset, limit) => {
                groups.into_iter().skip(number(offset)).take(number(limit)).collect()
            }
        }
    }

    /// Series that have rows, in order; of each name as many as there may be, the first by their
    /// tags also where the answer is in descending order.
    fn answer(&self, mut all: Vec<(SeriesName, Map<String, Value>)>) -> Value {
        let has_rows = |series: &Map<String, Value>| {
            series.get("values").and_then(Value::as_array).is_some_and(|rows| !rows.is_empty())
        };
        all.retain(|(_, series)| has_rows(series));
        all.sort_by(|(one, _), (other, _)| one.cmp(other));
        let mut limited: Vec<Value> = Vec::with_capacity(all.len());
        for of_name in all.chunk_by(|(one, _), (other, _)| one.name == other.name) {
            let kept = self.kept(of_name.iter().map(|(name, _)| name));
            let series = of_name.iter().filter(|(name, _)| kept.contains(&name.group()));
            limited.extend(series.map(|(_, series)| Value::Object(series.clone())));
        }
        if self.is_descending {
            limited.reverse();
        }
        if limited.is_empty() { json!({}) } else { json!({ "series": limited }) }
    }
}

/// Gives each series all tag keys that any has, as one server would; empty where it has none.
fn unite_tags(all: &mut [Map<String, Value>]) {
    let of = |series: &Map<String, Value>| SeriesName::of(series).tags;
    let keys: BTreeSet<String> = all.iter().flat_map(|series| of(series).into_keys()).collect();
    for series in all.iter_mut().filter(|_| !keys.is_empty()) {
        let known = of(series);
        let value = |key: &String| known.get(key).cloned().unwrap_or_default().into();
        let tags: Map<String, Value> = keys.iter().map(|key| (key.clone(), value(key))).collect();
        series.insert("tags".to_owned(), Value::Object(tags));
    }
}

/// Gives each series all columns that any has, in the order that `*` has them.
fn unite_columns(all: &mut [Map<String, Value>]) {
    let names = |series: &Map<String, Value>| -> Vec<String> {
        let columns = series.get("columns").and_then(Value::as_array);
        let text = |name: &Value| name.as_str().unwrap_or_default().to_owned();
        columns.into_iter().flatten().map(text).collect()
    };
    let lists: Vec<Vec<String>> = all.iter().map(names).collect();
    if lists.windows(2).all(|pair| matches!(pair, [one, other] if one == other)) {
        return;
    }
    // The time's column stands before those that `*` is for.
    let others: BTreeSet<String> =
        lists.iter().flat_map(|list| list.iter().skip(1).cloned()).collect();
    for (series, list) in all.iter_mut().zip(lists) {
        let places: Vec<Option<usize>> =
            others.iter().map(|name| list.iter().skip(1).position(|own| own == name)).collect();
        let columns = list.first().cloned().into_iter().chain(others.iter().cloned());
        series.insert("columns".to_owned(), json!(columns.collect::<Vec<_>>()));
        let rows = series.get_mut("values").and_then(Value::as_array_mut);
        for row in rows.into_iter().flatten().filter_map(Value::as_array_mut) {
            let value = |place: &Option<usize>| {
                place.and_then(|place| row.get(place + 1)).cloned().unwrap_or_default()
            };
            let values: Vec<Value> =
                row.first().cloned().into_iter().chain(places.iter().map(value)).collect();
            *row = values;
        }
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
    fn value(self, time_ns: i64, zone: Option<&Zone>) -> Value {
        match self {
            Self::Text => text_within(time_ns, zone).into(),
            Self::Units(unit) => (time_ns / unit).into(),
        }
    }
}

/// A time as Go prints it within a zone.
fn text_within(time_ns: i64, zone: Option<&Zone>) -> String {
    let offset_ns = zone.map_or(0, |zone| zone.offset_ns(time_ns));
    let local = time_ns.saturating_add(offset_ns);
    let offset = offset_ns / 1_000_000_000;
    let mut text = influxql::rfc3339_short(local);
    if offset != 0 && text.pop() == Some('Z') {
        let (sign, minutes) = (if offset < 0 { '-' } else { '+' }, offset.abs() / 60);
        text.push_str(&format!("{sign}{:02}:{:02}", minutes / 60, minutes % 60));
    }
    text
}
