//! When two documents are the same answer.

use serde_json::Value;

/// How far two computed floats may be apart, as a share of the larger one.
const TOLERANCE: f64 = 1e-9;
/// What may be left of numbers that cancel each other out.
const LEFT: f64 = 1e-12;

/// Whether two answers are the same but for what computed floats may differ by.
pub fn is_same(theirs: &Value, ours: &Value) -> bool {
    match (theirs, ours) {
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| is_same(a, b))
        }
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| is_same(a, b)))
        }
        (Value::Number(a), Value::Number(b)) => {
            if a == b {
                return true;
            }
            let is_whole = (a.is_i64() || a.is_u64()) && (b.is_i64() || b.is_u64());
            let (Some(a), Some(b)) = (a.as_f64(), b.as_f64()) else { return false };
            let larger = a.abs().max(b.abs());
            !is_whole && ((a - b).abs() <= TOLERANCE * larger || larger <= LEFT)
        }
        (a, b) => a == b,
    }
}

/// A document with its series sorted, where their order says nothing.
pub fn sorted(mut document: Value) -> Value {
    for result in document["results"].as_array_mut().into_iter().flatten() {
        if let Some(series) = result.get_mut("series").and_then(Value::as_array_mut) {
            series.sort_by_key(|one| (one["name"].to_string(), one["tags"].to_string()));
        }
    }
    document
}

#[test]
fn computed_floats_may_differ_a_little_and_nothing_else() {
    let same = |a: &str, b: &str| {
        is_same(&serde_json::from_str(a).unwrap(), &serde_json::from_str(b).unwrap())
    };
    assert!(
        same("[0.30000000000000004, null]", "[0.3, null]") && same("[3.0000000000000004]", "[3]")
    );
    assert!(same(r#"{"a":[1e-15]}"#, r#"{"a":[0]}"#), "what is left of a sum");
    assert!(!same("[3]", "[4]") && !same("[1]", "[null]") && !same("[1,2]", "[1]"));
    assert!(!same("[1583848800000000001]", "[1583848800000000002]"));
    assert!(!same(r#"{"a":1}"#, r#"{"b":1}"#) && !same("[1.5]", "[1.6]"));
}
