//! One row and a whole column answer alike, and as InfluxDB does.

use arrow_array::{BooleanArray, Float64Array, Int64Array, StringArray, UInt64Array};
use proptest::prelude::*;
use wire::influxql::ast::Statement;

use super::*;
use crate::query::functions::Column;
use crate::schema::FieldType;

/// Slots 0 to 5 are `f`, `i`, `u`, `s`, `b` and the tag `t`.
const NAMES: [&str; 6] = ["f", "i", "u", "s", "b", "t"];

fn compiled(text: &str, division: Division) -> Compiled {
    let query = format!("SELECT x FROM m WHERE {text}");
    let parsed = wire::influxql::parse(&query, &wire::influxql::Params::default()).unwrap();
    let Some(Statement::Select(select)) = parsed.into_iter().next() else { panic!("{query}") };
    let mut slot = |expr: &Expr| match expr {
        Expr::Reference { name, .. } => NAMES.iter().position(|known| known == name),
        _ => None,
    };
    Compiled::new(&select.condition.unwrap(), &mut slot, division).unwrap()
}

fn row() -> Vec<Value> {
    vec![
        Value::Float(2.5),
        Value::Integer(-7),
        Value::Unsigned(3),
        Value::String("abc".into()),
        Value::Boolean(true),
        Value::String("east".into()),
    ]
}

#[test]
fn operations_have_influxdbs_types() {
    for (text, division, expected) in [
        ("i / 2", Division::Float, Value::Float(-3.5)),
        ("i / 2", Division::Integer, Value::Integer(-3)),
        ("i / 0", Division::Float, Value::Float(0.0)),
        ("i / 0", Division::Integer, Value::Integer(0)),
        ("f / 0", Division::Float, Value::Float(0.0)),
        ("u / 2", Division::Float, Value::Unsigned(1)),
        ("i % 4", Division::Float, Value::Integer(-3)),
        ("i % 0", Division::Float, Value::Integer(0)),
        ("f % 2", Division::Float, Value::Float(0.5)),
        ("i + f", Division::Float, Value::Float(-4.5)),
        ("i & 5", Division::Float, Value::Integer(1)),
        ("i | 8", Division::Float, Value::Integer(-7)),
        ("i ^ 1", Division::Float, Value::Integer(-8)),
        ("b & false", Division::Float, Value::Boolean(false)),
        ("b ^ false", Division::Float, Value::Boolean(true)),
        ("f & 1", Division::Float, Value::Null),
        ("s + 'x'", Division::Float, Value::Null),
        ("gone + 1", Division::Float, Value::Null),
        ("u + i", Division::Float, Value::Unsigned(3u64.wrapping_sub(7))),
        ("abs(i) * 2", Division::Float, Value::Integer(14)),
        ("9223372036854775807 + 1 + i - i", Division::Float, Value::Integer(i64::MIN)),
    ] {
        assert_eq!(compiled(text, division).row(&row()), expected, "{text}");
    }
}

#[test]
fn conditions_are_true_or_not() {
    for (text, expected) in [
        ("f > 2 AND i < 0", true),
        ("i > u", false),
        ("u > i", true),
        ("i = -7.0", true),
        ("s = 'abc' AND t = 'east'", true),
        ("s =~ /^a.c$/ AND t !~ /west/", true),
        ("i =~ /7/", false),
        ("s != 5", false),
        ("s < 'b'", false),
        ("gone = 1 OR b = true", true),
        ("gone != 1", false),
        ("gone = ''", false),
        ("gone = false", true),
        ("b", true),
        ("b = s", false),
        ("f", false),
        ("floor(f) = 2", true),
        ("(i + 7) / 2 = 0", true),
    ] {
        let condition = compiled(text, Division::Integer);
        let found = condition.row(&row()) == Value::Boolean(true);
        assert_eq!(found, expected, "{text}");
        let slots: Vec<_> = row().into_iter().map(Input::Scalar).collect();
        let column = condition.column(&slots, 3);
        assert_eq!(at(&column, 2) == Value::Boolean(true), expected, "{text} as column");
    }
}

#[test]
fn columns_are_cast_as_values_are() {
    let floats: ArrayRef = Arc::new(Float64Array::from(vec![Some(1.9), None, Some(-1.9)]));
    let cast = cast_array(&floats, FieldType::Integer).unwrap();
    let column = Column::of(cast.as_ref()).unwrap();
    let values: Vec<_> = (0..3).map(|at| column.value(at)).collect();
    assert_eq!(values, [Value::Integer(1), Value::Null, Value::Integer(-1)]);
    assert!(cast_array(&floats, FieldType::String).is_none());
}

fn operand() -> impl Strategy<Value = String> {
    prop_oneof![
        prop::sample::select(vec!["f", "i", "u", "s", "b", "t", "gone"]).prop_map(str::to_owned),
        (-4i64..9).prop_map(|v| v.to_string()),
        prop::sample::select(vec!["1.5", "0.0", "'abc'", "'east'", "true", "false"])
            .prop_map(str::to_owned),
    ]
}

fn expression() -> impl Strategy<Value = String> {
    let op = prop::sample::select(vec![
        "+", "-", "*", "/", "%", "&", "|", "^", "=", "!=", "<", "<=", ">", ">=", "AND", "OR",
    ]);
    operand().prop_recursive(3, 12, 2, move |inner| {
        prop_oneof![
            4 => (inner.clone(), op.clone(), inner.clone())
                .prop_map(|(a, op, b)| format!("({a} {op} {b})")),
            1 => (prop::sample::select(vec!["s", "t", "f"]), prop::sample::select(vec!["=~", "!~"]))
                .prop_map(|(a, op)| format!("({a} {op} /a.*[ct]/)")),
            1 => inner.prop_map(|a| format!("abs({a})")),
        ]
    })
}

type Row = (Option<f64>, Option<i64>, Option<u64>, Option<&'static str>, Option<bool>);

fn rows() -> impl Strategy<Value = Vec<Row>> {
    let row = (
        prop::option::of(prop::sample::select(vec![-1.5, 0.0, 1.0, 2.5])),
        prop::option::of(-3i64..5),
        prop::option::of(0u64..5),
        prop::option::of(prop::sample::select(vec!["", "abc", "east", "at"])),
        prop::option::of(any::<bool>()),
    );
    prop::collection::vec(row, 1..70)
}

fn slots(rows: &[Row]) -> Vec<Input> {
    vec![
        Input::Array(Arc::new(rows.iter().map(|row| row.0).collect::<Float64Array>())),
        Input::Array(Arc::new(rows.iter().map(|row| row.1).collect::<Int64Array>())),
        Input::Array(Arc::new(rows.iter().map(|row| row.2).collect::<UInt64Array>())),
        Input::Array(Arc::new(rows.iter().map(|row| row.3).collect::<StringArray>())),
        Input::Array(Arc::new(rows.iter().map(|row| row.4).collect::<BooleanArray>())),
        Input::Scalar(Value::String("east".into())),
    ]
}

fn at(input: &Input, row: usize) -> Value {
    match input {
        Input::Null => Value::Null,
        Input::Scalar(value) => value.clone(),
        Input::Array(array) => Column::of(array.as_ref()).unwrap().value(row),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn columns_agree_with_rows(text in expression(), rows in rows(), whole in any::<bool>()) {
        let division = if whole { Division::Integer } else { Division::Float };
        let expression = compiled(&format!("({text})"), division);
        let slots = slots(&rows);
        let column = expression.column(&slots, rows.len());
        for row in 0..rows.len() {
            let values: Vec<_> = slots.iter().map(|slot| at(slot, row)).collect();
            let expected = expression.row(&values);
            let found = at(&column, row);
            let nan = |value: &Value| matches!(value, Value::Float(v) if v.is_nan());
            let alike = nan(&found) && nan(&expected);
            prop_assert!(alike || found == expected, "{text}: {found:?} {expected:?}");
        }
    }
}
