//! One answer about the schema, of those of several sets.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};
use wire::influxql::ast::ShowClauses;

/// The series of one name and with the same tags, of all sets.
struct Joined {
    head: Map<String, Value>,
    rows: Vec<Vec<Value>>,
}

/// The union of what sets answer to a statement without limits, in InfluxDB's order, within the
/// limits that the statement has; their sum where they are counts. The first error is the answer.
pub fn union(parts: Vec<Value>, clauses: &ShowClauses, is_count: bool) -> Value {
    let mut joined: Vec<Joined> = Vec::new();
    for mut part in parts {
        if part.get("error").is_some() {
            return part;
        }
        let series = part.get_mut("series").map(Value::take);
        let Some(Value::Array(series)) = series else { continue };
        for one in series {
            let Value::Object(mut head) = one else { continue };
            let rows = head.remove("values").unwrap_or_default();
            let rows = rows.as_array().into_iter().flatten();
            let rows = rows.map(|row| row.as_array().cloned().unwrap_or_default());
            match joined.iter_mut().find(|of| of.head == head) {
                Some(of) => of.rows.extend(rows),
                None => joined.push(Joined { head, rows: rows.collect() }),
            }
        }
    }
    joined.sort_by_cached_key(|of| {
        let text = |key: &str| of.head.get(key).map(Value::to_string).unwrap_or_default();
        (text("name"), text("tags"))
    });
    let limited = joined.into_iter().filter_map(|mut of| {
        of.rows = if is_count { summed(&of.rows) } else { distinct(of.rows) };
        of.rows = within(of.rows, clauses.offset, clauses.limit);
        (!of.rows.is_empty()).then(|| {
            of.head.insert("values".to_owned(), json!(of.rows));
            Value::Object(of.head)
        })
    });
    let series = within(limited.collect(), clauses.series_offset, clauses.series_limit);
    if series.is_empty() { json!({}) } else { json!({ "series": series }) }
}

/// Each row once, in the order of its texts.
fn distinct(rows: Vec<Vec<Value>>) -> Vec<Vec<Value>> {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let mut seen = BTreeSet::new();
    let mut keyed: Vec<(Vec<String>, Vec<Value>)> = Vec::new();
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
fn summed(rows: &[Vec<Value>]) -> Vec<Vec<Value>> {
    let Some(width) = rows.iter().map(Vec::len).max() else { return Vec::new() };
    let of = |column: usize| rows.iter().filter_map(move |row| row.get(column)?.as_i64());
    vec![(0..width).map(|column| json!(of(column).sum::<i64>())).collect()]
}

/// What is left behind an offset, as many as there may be; 0 is without a limit.
fn within<T>(list: Vec<T>, offset: u64, limit: u64) -> Vec<T> {
    let number = |of: u64| usize::try_from(of).unwrap_or(usize::MAX);
    let limit = if limit == 0 { usize::MAX } else { number(limit) };
    list.into_iter().skip(number(offset)).take(limit).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

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
