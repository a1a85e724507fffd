//! What may be answered otherwise than by one server, and why: `docs/cluster.md`.

use serde_json::{Map, Value};

use super::same::is_same;
use crate::influxql::script::{Action, Expected, Step};

/// Queries of the files: their text, and why.
const DIFFERENT: [(&str, &str); 6] = [
    ("SELECT spread(note) FROM cpu", "members are asked for min() and max(), which refuse it"),
    ("SELECT sum(v) FROM ints", "a sum past int64 is an error"),
    ("SELECT sum(x), spread(x) FROM big WHERE time < 2s", "a sum past int64 is an error"),
    ("SELECT mean(v) FROM ints", "a mean does not wrap around"),
    ("SELECT a, c FROM sparse WHERE c != 'c4'", "a set without the field takes it for a tag"),
    ("SELECT w FROM clash WHERE v = 'tagged'", "a set without the field takes it for a tag"),
];
/// The words of an error where the sets have a field as different types.
const TYPES: &str = "of several types";

/// Whether a difference is meant; `by_chance` where a query was made by chance, which no file says
/// anything of.
pub fn is_meant(step: &Step, (theirs, ours): (&Value, &Value), by_chance: bool) -> bool {
    let Action::Query(text) = &step.action else { return false };
    // Where the store differs, and the file says why, a query may be run by its executor.
    let is_listed = matches!(step.expected, Expected::Different(_))
        || DIFFERENT.iter().any(|(query, _)| text.starts_with(query));
    // Groups are counted that have points of the times asked for.
    let counts_groups = || text.contains("SLIMIT") || text.contains("SOFFSET");
    // What stands for all names stands for those of other times or fewer sets, too.
    let has_pattern = || text.contains('*') || text.contains('/');
    // A set whose points have no such field takes it for a tag.
    let tells_from_text = || text.contains("s != '");
    let has_types = || ours["results"][0]["error"].as_str().is_some_and(|e| e.contains(TYPES));
    // A set whose points have no such field has nothing to fill.
    let fills = || text.contains("fill(") && is_same(theirs, &filled(theirs, ours));
    is_listed
        || has_types()
        || by_chance && fills()
        || by_chance && (counts_groups() || tells_from_text())
        || by_chance && has_pattern() && {
            // A selector that stands alone has the time of its point.
            let skipped = usize::from(text.contains("(/") || text.contains("(*)"));
            is_same(&without_empty(theirs, skipped), &without_empty(ours, skipped))
        }
}

/// Our document with their numbers where it has no value.
fn filled(theirs: &Value, ours: &Value) -> Value {
    match (theirs, ours) {
        (Value::Number(_), Value::Null) => theirs.clone(),
        (Value::Array(all), Value::Array(own)) if all.len() == own.len() => {
            all.iter().zip(own).map(|(theirs, ours)| filled(theirs, ours)).collect()
        }
        (Value::Object(all), Value::Object(own)) => {
            let of = |(key, ours): (&String, &Value)| {
                (key.clone(), all.get(key).map_or_else(|| ours.clone(), |of| filled(of, ours)))
            };
            Value::Object(own.iter().map(of).collect())
        }
        _ => ours.clone(),
    }
}

/// A document without its first columns, and without columns and tags that are empty wherever they
/// are.
fn without_empty(document: &Value, skipped: usize) -> Value {
    let mut document = document.clone();
    let results = document["results"].as_array_mut().into_iter().flatten();
    let series = results.filter_map(|result| result.get_mut("series")?.as_array_mut());
    for series in series.flatten() {
        let mut tags = series["tags"].take();
        if let Some(tags) = tags.as_object_mut() {
            tags.retain(|_, value| value != "");
        }
        let is_none = tags.as_object().is_none_or(Map::is_empty);
        series["tags"] = if is_none { Value::Null } else { tags };
        let rows = series["values"].as_array().cloned().unwrap_or_default();
        let is_empty = |value: &Value| value.is_null() || value == "";
        let has_any = |at: usize| rows.iter().any(|row| row.get(at).is_some_and(|v| !is_empty(v)));
        let of_columns = |all: &Value| -> Value {
            let numbered = all.as_array().into_iter().flatten().enumerate();
            let shown = numbered.filter(|(at, _)| *at >= skipped && has_any(*at));
            shown.map(|(_, one)| one.clone()).collect()
        };
        for part in ["columns", "values"] {
            let all = series[part].as_array().cloned().unwrap_or_default();
            series[part] = match part {
                "columns" => of_columns(&Value::Array(all)),
                _ => all.iter().map(of_columns).collect(),
            };
        }
    }
    document
}

#[test]
fn a_column_that_a_set_does_not_know_is_not_filled() {
    let of = |value: Value| serde_json::json!({ "results": [{ "series": [{ "values": value }] }] });
    let theirs = of(serde_json::json!([[1, 0, 2], [2, 0, 3]]));
    let ours = of(serde_json::json!([[1, null, 2], [2, null, 3]]));
    let step = Step::query("SELECT max(v), max(w) FROM m GROUP BY time(1m), host fill(0)");
    assert!(is_meant(&step, (&theirs, &ours), true) && !is_meant(&step, (&ours, &theirs), true));
    let other = of(serde_json::json!([[1, null, 2], [2, null, 4]]));
    assert!(!is_meant(&step, (&theirs, &other), true));
    assert!(!is_meant(&Step::query("SELECT max(v) FROM m"), (&theirs, &ours), true));
}

#[test]
fn columns_and_tags_without_values_may_be_there_or_not() {
    let of = |tags: &str, columns: &str, values: &str| -> Value {
        let text = format!(
            "{{\"results\":[{{\"series\":[{{\"tags\":{tags},\"columns\":{columns},\
             \"values\":{values}}}]}}]}}"
        );
        serde_json::from_str(&text).unwrap()
    };
    let short = of(r#"{"a":"x"}"#, r#"["time","v"]"#, r#"[[1,null],[2,3]]"#);
    let long = of(r#"{"a":"x","b":""}"#, r#"["time","u","v"]"#, r#"[[1,null,null],[2,"",3]]"#);
    let other = of(r#"{"a":"x"}"#, r#"["time","u","v"]"#, r#"[[1,null,null],[2,4,3]]"#);
    let step = Step::query("SELECT * FROM m");
    assert!(is_meant(&step, (&short, &long), true) && !is_meant(&step, (&short, &long), false));
    assert!(!is_meant(&step, (&short, &other), true));
    let untagged = of("{}", r#"["time","v"]"#, r#"[[1,null],[2,3]]"#);
    let empty = of(r#"{"e":""}"#, r#"["time","v"]"#, r#"[[1,null],[2,3]]"#);
    assert!(is_meant(&step, (&empty, &untagged), true));
    let later = of(r#"{"a":"x"}"#, r#"["time","u","v"]"#, r#"[[5,null,null],[6,null,3]]"#);
    assert!(!is_meant(&step, (&short, &later), true));
    assert!(is_meant(&Step::query("SELECT last(/v/) FROM m"), (&short, &later), true));
    assert!(!is_meant(&Step::query("SELECT v FROM m"), (&short, &long), true));
}
