//! Rows of a member's answer as lines for another one, with the type that each field has. Pure.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde_json::{Map, Value};
use wire::line::{push_measurement, push_name, push_string, push_tag};

/// The types of numbers; JSON does not tell `1` from `1i`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NumberType {
    Float,
    Integer,
    Unsigned,
}

/// Which types of numbers each field of a measurement has anywhere.
pub type FieldTypes = BTreeMap<String, BTreeSet<NumberType>>;

/// A table of an answer.
#[derive(Debug, Default, Deserialize)]
pub struct RowTable {
    #[serde(default)]
    pub tags: Map<String, Value>,
    #[serde(default)]
    pub columns: Vec<String>,
    #[serde(default)]
    pub values: Vec<Vec<Value>>,
}

/// Writes the rows of one slice as lines.
#[derive(Debug)]
pub struct RowLines {
    measurement: Vec<u8>,
    types: BTreeMap<String, NumberType>,
}

/// The types in an answer to `SHOW FIELD KEYS` of one measurement; a field without numbers has
/// none.
pub fn read_field_types(answer: &Value) -> FieldTypes {
    let rows = answer.pointer("/results/0/series/0/values").and_then(Value::as_array);
    let mut types = FieldTypes::new();
    for row in rows.into_iter().flatten() {
        let Some(name) = row.get(0).and_then(Value::as_str) else { continue };
        let found = types.entry(name.to_owned()).or_default();
        match row.get(1).and_then(Value::as_str) {
            Some("float") => drop(found.insert(NumberType::Float)),
            Some("integer") => drop(found.insert(NumberType::Integer)),
            Some("unsigned") => drop(found.insert(NumberType::Unsigned)),
            _ => {}
        }
    }
    types
}

/// The number that is an integer's largest, where a field is one; a float's next is another.
pub const LARGEST: i64 = i64::MAX;

/// What a field that has several types elsewhere gives for `f * 0 + LARGEST`: an integer keeps all
/// its digits, a float does not. `None` where it is an integer at one time and unsigned at another,
/// which nothing tells apart.
pub fn type_by_digits(of: &BTreeSet<NumberType>, sum: Option<&Value>) -> Option<NumberType> {
    let is_whole = sum.is_none_or(|sum| sum.as_i64() == Some(LARGEST));
    let mut whole = of.iter().copied().filter(|of| *of != NumberType::Float);
    match (is_whole, whole.next(), whole.next()) {
        (true, Some(_), Some(_)) => None,
        (true, Some(found), None) => Some(found),
        _ => Some(NumberType::Float),
    }
}

impl RowLines {
    /// Of a measurement whose fields have these types in the slice. What it has no type for is
    /// left out: it came after the types were asked for.
    pub fn new(name: &str, types: BTreeMap<String, NumberType>) -> Self {
        let mut measurement = Vec::new();
        push_measurement(&mut measurement, name);
        Self { measurement, types }
    }

    /// Appends a table's rows, of which the first column is the time in nanoseconds; gives how many
    /// lines that makes.
    pub fn push(&self, table: &RowTable, out: &mut Vec<u8>) -> u64 {
        let mut head = self.measurement.clone();
        for (key, value) in &table.tags {
            // A series without a tag of the others is in the group where that is empty.
            if let Some(value) = value.as_str().filter(|value| !value.is_empty()) {
                push_tag(&mut head, key, value);
            }
        }
        let field = |name: &String| {
            let mut key = Vec::new();
            push_name(&mut key, name);
            Some((key, *self.types.get(name)?))
        };
        let fields: Vec<_> = table.columns.iter().skip(1).map(field).collect();
        let mut lines = 0;
        for row in &table.values {
            let Some((Value::Number(time), values)) = row.split_first() else { continue };
            let start = out.len();
            out.extend_from_slice(&head);
            let mut between = b' ';
            for (field, value) in fields.iter().zip(values) {
                let Some((key, kind)) = field else { continue };
                if !value.is_null() {
                    out.push(between);
                    out.extend_from_slice(key);
                    out.push(b'=');
                    push_value(out, value, *kind);
                    between = b',';
                }
            }
            if between == b' ' {
                out.truncate(start);
                continue;
            }
            out.extend_from_slice(format!(" {time}\n").as_bytes());
            lines += 1;
        }
        lines
    }
}

fn push_value(out: &mut Vec<u8>, value: &Value, kind: NumberType) {
    match value {
        Value::String(text) => push_string(out, text),
        Value::Number(number) => {
            out.extend_from_slice(number.to_string().as_bytes());
            match kind {
                NumberType::Float => {}
                NumberType::Integer => out.push(b'i'),
                NumberType::Unsigned => out.push(b'u'),
            }
        }
        other => out.extend_from_slice(other.to_string().as_bytes()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn rows_become_lines_with_types_and_escapes() {
        let table = json!({
            "tags": { "host": "a b", "none": "", "k=": "c,d" },
            "columns": ["time", "f", "i", "s", "b", "u v", "later"],
            "values": [
                [1_700_000_000_000_000_001_i64, 1, -5, "q\"\\ \n", true, 7, 1],
                [2, null, null, null, null, null, 2],
                [3, 0.1, null, null, false, 18_446_744_073_709_551_615_u64, null],
            ],
        });
        let types = [
            ("f", NumberType::Float),
            ("i", NumberType::Integer),
            ("s", NumberType::Float),
            ("b", NumberType::Float),
            ("u v", NumberType::Unsigned),
        ];
        let types = types.map(|(name, of)| (name.to_owned(), of)).into();
        let mut out = Vec::new();
        let table: RowTable = serde_json::from_value(table).unwrap();
        assert_eq!(RowLines::new("m ,x", types).push(&table, &mut out), 2);
        let head = r"m\ \,x,host=a\ b,k\==c\,d";
        let first = "f=1,i=-5i,s=\"q\\\"\\\\ \n\",b=true,u\\ v=7u 1700000000000000001";
        let third = r"f=0.1,b=false,u\ v=18446744073709551615u 3";
        let expected = format!("{head} {first}\n{head} {third}\n");
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    #[test]
    fn types_are_read_and_told_apart_by_their_digits() {
        let shown = json!({ "results": [{ "series": [{ "values": [
            ["f", "float"], ["x", "float"], ["x", "integer"], ["x", "string"], ["s", "boolean"],
        ] }] }] });
        let types = read_field_types(&shown);
        assert_eq!(types["f"], BTreeSet::from([NumberType::Float]));
        assert!(types["s"].is_empty());
        let both = &types["x"];
        let sum = |text: &str| serde_json::from_str::<Value>(text).unwrap();
        let exact = sum("9223372036854775807");
        assert_eq!(type_by_digits(both, Some(&exact)), Some(NumberType::Integer));
        let rounded = sum("9223372036854776000");
        assert_eq!(type_by_digits(both, Some(&rounded)), Some(NumberType::Float));
        assert_eq!(
            type_by_digits(both, Some(&sum("9.223372036854776e18"))),
            Some(NumberType::Float)
        );
        let whole = BTreeSet::from([NumberType::Integer, NumberType::Unsigned]);
        assert_eq!(type_by_digits(&whole, Some(&exact)), None);
        let unsigned = BTreeSet::from([NumberType::Float, NumberType::Unsigned]);
        assert_eq!(type_by_digits(&unsigned, Some(&exact)), Some(NumberType::Unsigned));
    }
}
