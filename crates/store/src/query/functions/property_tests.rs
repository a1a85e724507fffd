//! For any columns: the vectorised way, the parts merged, and one point after another agree with
//! what is plainly written down.

use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array, Int64Array};
use proptest::prelude::*;

use super::*;
use crate::value::Value;

const KINDS: [Kind; 17] = [
    Kind::Count,
    Kind::CountDistinct,
    Kind::Sum,
    Kind::Mean,
    Kind::Min,
    Kind::Max,
    Kind::First,
    Kind::Last,
    Kind::Spread,
    Kind::Stddev,
    Kind::Median,
    Kind::Mode,
    Kind::Percentile(50.0),
    Kind::Percentile(95.0),
    Kind::Distinct,
    Kind::Top(4),
    Kind::Bottom(3),
];

fn finish(accumulator: Accumulator) -> Vec<Point> {
    let mut points = Vec::new();
    accumulator.finish(&mut points);
    points
}

/// Equal, floats to within rounding.
fn same(a: &[Point], b: &[Point]) -> bool {
    let value = |a: &Value, b: &Value| match (a, b) {
        (Value::Float(a), Value::Float(b)) if a.is_nan() => b.is_nan(),
        (Value::Float(a), Value::Float(b)) => (a - b).abs() <= 1e-9 * a.abs().max(1.0),
        (a, b) => a == b,
    };
    let point =
        |a: &Point, b: &Point| a.time == b.time && a.token == b.token && value(&a.value, &b.value);
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| point(a, b))
}

fn plain(kind: Kind, rows: &[(i64, i64)]) -> Option<Value> {
    let values: Vec<i64> = rows.iter().map(|row| row.1).collect();
    let mean = values.iter().sum::<i64>() as f64 / values.len() as f64;
    let mut sorted = values.clone();
    sorted.sort_unstable();
    let (least, most) = (*sorted.first()?, *sorted.last()?);
    Some(match kind {
        Kind::Count => Value::Integer(values.len() as i64),
        Kind::CountDistinct => {
            sorted.dedup();
            Value::Integer(sorted.len() as i64)
        }
        Kind::Sum => Value::Integer(values.iter().sum()),
        Kind::Mean => Value::Float(mean),
        Kind::Min => Value::Integer(least),
        Kind::Max => Value::Integer(most),
        Kind::First => Value::Integer(rows.iter().min_by_key(|row| row.0)?.1),
        Kind::Last => Value::Integer(rows.iter().max_by_key(|row| row.0)?.1),
        Kind::Spread => Value::Integer(most - least),
        Kind::Median => {
            let (low, high) = (sorted[(sorted.len() - 1) / 2], sorted[sorted.len() / 2]);
            Value::Float((low + high) as f64 / 2.0)
        }
        Kind::Stddev => {
            let squares: f64 = values.iter().map(|v| (*v as f64 - mean).powi(2)).sum();
            Value::Float((squares / (values.len() as f64 - 1.0)).sqrt())
        }
        _ => return None,
    })
}

fn column() -> impl Strategy<Value = Vec<Option<i64>>> {
    let value = prop_oneof![3 => (-9i64..9).prop_map(Some), 1 => Just(None)];
    prop_oneof![
        prop::collection::vec(value, 0..80),
        prop::collection::vec((-99i64..99).prop_map(Some), 0..300),
    ]
}

fn arrays(values: &[Option<i64>]) -> [ArrayRef; 2] {
    let floats = values.iter().map(|v| v.map(|v| v as f64));
    [Arc::new(Int64Array::from(values.to_vec())), Arc::new(floats.collect::<Float64Array>())]
}

proptest! {
    #[test]
    fn one_update_many_updates_pushes_and_merges_agree(
        values in column(),
        cut in 0usize..300,
        descending in any::<bool>(),
    ) {
        let mut times: Vec<i64> = (0..values.len() as i64).map(|at| at * 10 - 50).collect();
        if descending {
            times.reverse();
        }
        let len = values.len();
        let cut = cut.min(len);
        for array in arrays(&values) {
            let column = Column::of(array.as_ref()).unwrap();
            for kind in KINDS {
                let aggregate = Aggregate::new(kind, column.kind(), descending).unwrap();
                let mut whole = aggregate.start();
                whole.update(&times, &column, 0..len, 0);
                let whole = finish(whole);

                let (mut first, mut second) = (aggregate.start(), aggregate.start());
                first.update(&times, &column, 0..cut, 0);
                second.update(&times, &column, cut..len, 0);
                first.merge(second);
                let merged = finish(first);
                prop_assert!(same(&whole, &merged), "{kind:?}: {whole:?} {merged:?}");

                let mut single = aggregate.start();
                for (at, time) in times.iter().enumerate() {
                    single.push(*time, &column.value(at), at as u64);
                }
                let single = finish(single);
                prop_assert!(same(&whole, &single), "{kind:?}: {whole:?} {single:?}");
            }
        }
    }

    #[test]
    fn the_vectorised_way_is_the_plain_one(values in column()) {
        let times: Vec<i64> = (0..values.len() as i64).collect();
        let rows: Vec<(i64, i64)> =
            times.iter().zip(&values).filter_map(|(t, v)| Some((*t, (*v)?))).collect();
        let array: ArrayRef = Arc::new(Int64Array::from(values));
        let column = Column::of(array.as_ref()).unwrap();
        for kind in KINDS {
            let Some(expected) = plain(kind, &rows) else { continue };
            let mut accumulator = Aggregate::new(kind, FieldType::Integer, false).unwrap().start();
            accumulator.update(&times, &column, 0..times.len(), 0);
            let mut found = finish(accumulator);
            let expected = Point { value: expected, ..found[0].clone() };
            found.truncate(1);
            let is_same = same(&found, std::slice::from_ref(&expected));
            prop_assert!(is_same, "{kind:?}: {found:?} {expected:?}");
        }
    }

    #[test]
    fn tops_are_the_first_of_all_sorted(values in column(), n in 1u64..20) {
        let times: Vec<i64> = (0..values.len() as i64).collect();
        let mut rows: Vec<(i64, i64)> =
            times.iter().zip(&values).filter_map(|(t, v)| Some((*t, (*v)?))).collect();
        rows.sort_by_key(|(time, value)| (-value, *time));
        rows.truncate(n as usize);
        rows.sort_unstable();
        let mut top = Aggregate::new(Kind::Top(n), FieldType::Integer, false).unwrap().start();
        for (at, value) in values.iter().enumerate() {
            let value = value.map_or(Value::Null, Value::Integer);
            top.push(times[at], &value, 0);
        }
        let found: Vec<_> = finish(top).into_iter().map(|p| (p.time.unwrap(), p.value)).collect();
        let expected: Vec<_> = rows.into_iter().map(|(t, v)| (t, Value::Integer(v))).collect();
        prop_assert_eq!(found, expected);
    }
}
