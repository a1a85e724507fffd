//! One answer about the schema, of those of several sets.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};
use wire::influxql::ast::{Show, ShowClauses};

use super::rows::{SeriesName, series_of, within};

type Row = Vec<Value>;

/// How the answers to a statement about the schema come together.
#[derive(Clone, Debug, PartialEq)]
pub struct SchemaQuery {
    clauses: ShowClauses,
    is_count: bool,
}

impl SchemaQuery {
    /// What each set is asked, without limits, and how their answers come together; `None` where a
    /// statement is about something else.
    pub fn of(show: &Show) -> Option<(String, Self)> {
        let mut show = show.clone();
        let is_count = matches!(show, Show::Cardinality { .. });
        let clauses = match &mut show {
            Show::Measurements(clauses)
            | Show::Series(clauses)
            | Show::TagKeys(clauses)
            | Show::TagValues(clauses)
            | Show::FieldKeys(clauses)
            | Show::Cardinality { clauses, .. } => clauses,
            _ => return None,
        };
        let without = ShowClauses {
            limit: 0,
            offset: 0,
            series_limit: 0,
            series_offset: 0,
            ..clauses.clone()
        };
        let clauses = std::mem::replace(clauses, without);
        Some((show.to_string(), Self { clauses, is_count }))
    }

    /// The union of what sets answer to a statement without limits, in InfluxDB's order, within the
    /// limits that the statement has; their sum where they are counts. The first error is the
    /// answer.
    pub fn answer(&self, parts: Vec<Value>) -> Value {
        let all = match series_of(parts) {
            Ok(all) => all,
            Err(error) => return error,
        };
        let mut joined: BTreeMap<SeriesName, (Map<String, Value>, Vec<Row>)> = BTreeMap::new();
        for mut series in all {
            let rows = series.remove("values").unwrap_or_default();
            let rows = rows.as_array().into_iter().flatten();
            let rows = rows.map(|row| row.as_array().cloned().unwrap_or_default());
            let name = SeriesName::of(&series);
            joined.entry(name).or_insert_with(|| (series, Vec::new())).1.extend(rows);
        }
        let clauses = &self.clauses;
        let limited = joined.into_values().filter_map(|(mut series, rows)| {
            let rows = if self.is_count { summed(&rows) } else { distinct(rows) };
            let rows = within(rows, clauses.offset, clauses.limit);
            (!rows.is_empty()).then(|| {
                series.insert("values".to_owned(), json!(rows));
                Value::Object(series)
            })
        });
        let series = within(limited.collect(), clauses.series_offset, clauses.series_limit);
        if series.is_empty() { json!({}) } else { json!({ "series": series }) }
    }
}

/// Each row once, in the order of its texts.
fn distinct(rows: Vec<Row>) -> Vec<Row> {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let mut seen = BTreeSet::new();
    let mut keyed: Vec<(Vec<String>, Row)> = Vec::new();
    for row in rows {
        let key: Vec<String> = row.iter().map(text).collect();
        if seen.insert(key.clone()) {
            keyed.push((key, row));
        }
    }
    keyed.sort_by(|(one, _), (other, _)| one.cmp(other));
    keyed.into_iter().map(|(_, row)| row).collect()
}

/// One row of the sums of all rows.
fn summed(rows: &[Row]) -> Vec<Row> {
    let Some(width) = rows.iter().map(Vec::len).max() else { return Vec::new() };
    let of = |column: usize| rows.iter().filter_map(move |row| row.get(column)?.as_i64());
    vec![(0..width).map(|column| json!(of(column).sum::<i64>())).collect()]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn union(parts: Vec<Value>, clauses: &ShowClauses, is_count: bool) -> Value {
        SchemaQuery { clauses: clauses.clone(), is_count }.answer(parts)
    }

    fn series(name: &str, rows: &[&[&str]]) -> Value {
        json!({ "series": [{ "name": name, "columns": ["key", "value"], "values": rows }] })
    }

    #[test]
    fn what_several_sets_have_is_there_once_and_in_order() {
        let parts = vec![
            json!({}),
            series("n", &[&["host", "b"]]),
            series("m", &[&["host", "b"], &["host", "d"]]),
            series("m", &[&["host", "a"], &["host", "b"], &["dc", "z"]]),
        ];
        let m: &[&[&str]] = &[&["dc", "z"], &["host", "a"], &["host", "b"], &["host", "d"]];
        let all = union(parts.clone(), &ShowClauses::default(), false);
        assert_eq!(all["series"][0], series("m", m)["series"][0]);
        assert_eq!(all["series"][1], series("n", &[&["host", "b"]])["series"][0]);
        let limits = ShowClauses { limit: 2, offset: 1, ..ShowClauses::default() };
        assert_eq!(union(parts.clone(), &limits, false), series("m", &m[1..3]));
        let limits = ShowClauses { series_offset: 1, series_limit: 1, ..ShowClauses::default() };
        assert_eq!(union(parts, &limits, false), series("n", &[&["host", "b"]]));
    }

    #[test]
    fn counts_are_summed_and_an_error_is_the_answer() {
        let count = |n: i64| json!({ "series": [{ "columns": ["count"], "values": [[n]] }] });
        let clauses = ShowClauses::default();
        assert_eq!(union(vec![count(2), json!({}), count(3)], &clauses, true), count(5));
        let error = json!({ "error": "database not found: x" });
        assert_eq!(union(vec![count(2), error.clone()], &clauses, true), error);
        assert_eq!(union(vec![json!({})], &clauses, false), json!({}));
    }
}
