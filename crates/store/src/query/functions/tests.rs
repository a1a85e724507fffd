//! What InfluxDB answers, by example.

use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray, Float64Array, Int64Array, StringArray, UInt64Array};
use wire::influxql::ast::{Expr, Select, Statement};

use super::*;
use crate::math::Math;
use crate::query::window::Windows;
use crate::scan::TimeRange;
use crate::value::Value;

fn floats(values: &[f64]) -> ArrayRef {
    Arc::new(Float64Array::from(values.to_vec()))
}

fn integers(values: &[i64]) -> ArrayRef {
    Arc::new(Int64Array::from(values.to_vec()))
}

fn strings(values: &[&str]) -> ArrayRef {
    Arc::new(StringArray::from(values.to_vec()))
}

fn points(kind: Kind, times: &[i64], array: &ArrayRef) -> Vec<Point> {
    let column = Column::of(array.as_ref()).unwrap();
    let descending = times.first() > times.last();
    let mut accumulator = Aggregate::new(kind, column.kind(), descending).unwrap().start();
    accumulator.update(times, &column, 0..times.len(), 100);
    let mut points = Vec::new();
    accumulator.finish(&mut points);
    points
}

fn values(kind: Kind, array: &ArrayRef) -> Vec<Value> {
    let times: Vec<i64> = (0..array.len() as i64).collect();
    points(kind, &times, array).into_iter().map(|point| point.value).collect()
}

#[test]
fn sums_and_means_have_their_types_and_wrap() {
    let v = integers(&[1, 2, 4]);
    assert_eq!(values(Kind::Sum, &v), [Value::Integer(7)]);
    assert_eq!(values(Kind::Mean, &v), [Value::Float(7.0 / 3.0)]);
    assert_eq!(values(Kind::Count, &v), [Value::Integer(3)]);
    assert_eq!(values(Kind::Spread, &v), [Value::Integer(3)]);
    assert_eq!(values(Kind::Sum, &integers(&[i64::MAX, 1])), [Value::Integer(i64::MIN)]);
    assert_eq!(values(Kind::Spread, &integers(&[i64::MAX, i64::MIN])), [Value::Integer(-1)]);
    let unsigned: ArrayRef = Arc::new(UInt64Array::from(vec![u64::MAX, 2]));
    assert_eq!(values(Kind::Sum, &unsigned), [Value::Unsigned(1)]);
    assert_eq!(values(Kind::Count, &strings(&["a", "b"])), [Value::Integer(2)]);
}

#[test]
fn nothing_seen_gives_nothing() {
    let none: ArrayRef = Arc::new(Float64Array::from(vec![None, None]));
    for kind in [Kind::Count, Kind::Sum, Kind::Mean, Kind::Max, Kind::First, Kind::Stddev] {
        assert!(values(kind, &none).is_empty(), "{kind:?}");
    }
    for kind in [Kind::Median, Kind::Mode, Kind::Percentile(50.0), Kind::Top(3), Kind::Distinct] {
        assert!(values(kind, &none).is_empty(), "{kind:?}");
    }
}

#[test]
fn selectors_settle_ties_as_influxdb_does() {
    let v = integers(&[3, 7, 7, 1, 1]);
    let pick = |kind, times: &[i64]| {
        let point = points(kind, times, &v).remove(0);
        (point.time.unwrap(), point.value, point.token)
    };
    let ascending = [10, 20, 30, 40, 50];
    let descending = [50, 40, 30, 20, 10];
    assert_eq!(pick(Kind::Max, &ascending), (20, Value::Integer(7), 101));
    assert_eq!(pick(Kind::Max, &descending), (30, Value::Integer(7), 102));
    assert_eq!(pick(Kind::Min, &ascending), (40, Value::Integer(1), 103));
    assert_eq!(pick(Kind::First, &descending), (10, Value::Integer(1), 104));
    assert_eq!(pick(Kind::Last, &ascending), (50, Value::Integer(1), 104));
    assert_eq!(pick(Kind::Last, &[10, 20, 30, 30, 30]).1, Value::Integer(7));
    assert_eq!(pick(Kind::First, &[10, 10, 10, 20, 30]).1, Value::Integer(7));
}

#[test]
fn update_says_which_row_is_held() {
    let array = floats(&[1.0, 5.0, 2.0]);
    let column = Column::of(array.as_ref()).unwrap();
    let mut max = Aggregate::new(Kind::Max, FieldType::Float, false).unwrap().start();
    assert_eq!(max.update(&[1, 2, 3], &column, 0..3, 0), Some(1));
    assert_eq!(max.update(&[4, 5, 6], &column, 0..3, 0), None);
    assert!(!max.push(7, &Value::Float(4.0), 0));
    assert!(max.push(0, &Value::Float(5.0), 9));
    let mut other = Aggregate::new(Kind::Max, FieldType::Float, false).unwrap().start();
    other.push(9, &Value::Integer(6), 7);
    assert!(max.merge(other));
}

#[test]
fn booleans_and_strings_are_picked_too() {
    let flags: ArrayRef = Arc::new(BooleanArray::from(vec![false, true, true, false]));
    assert_eq!(values(Kind::Max, &flags), [Value::Boolean(true)]);
    assert_eq!(values(Kind::Min, &flags), [Value::Boolean(false)]);
    assert_eq!(values(Kind::Mode, &flags), [Value::Boolean(true)]);
    assert_eq!(points(Kind::First, &[1, 1, 1, 1], &flags)[0].value, Value::Boolean(false));
    assert_eq!(points(Kind::Last, &[1, 1, 1, 1], &flags)[0].value, Value::Boolean(true));
    let words = strings(&["b", "a", "b"]);
    assert_eq!(values(Kind::Last, &words), [Value::String("b".into())]);
    assert_eq!(values(Kind::Mode, &words), [Value::String("b".into())]);
    assert_eq!(
        values(Kind::Distinct, &words),
        [Value::String("b".into()), Value::String("a".into())]
    );
    assert_eq!(values(Kind::CountDistinct, &words), [Value::Integer(2)]);
}

#[test]
fn order_statistics() {
    assert_eq!(values(Kind::Median, &integers(&[5, 1, 4, 2])), [Value::Float(3.0)]);
    assert_eq!(values(Kind::Median, &floats(&[5.0, 1.0, 4.5])), [Value::Float(4.5)]);
    let v = integers(&[50, 10, 40, 20, 30]);
    for (percent, expected) in [(20.0, Some(10)), (50.0, Some(30)), (100.0, Some(50)), (9.0, None)]
    {
        let found = values(Kind::Percentile(percent), &v);
        assert_eq!(found, expected.map(Value::Integer).into_iter().collect::<Vec<_>>());
    }
    assert!(values(Kind::Percentile(101.0), &integers(&[1; 100])).is_empty());
    // The most frequent; where all are single the least.
    assert_eq!(values(Kind::Mode, &integers(&[3, 1, 2])), [Value::Integer(1)]);
    assert_eq!(values(Kind::Mode, &integers(&[2, 2, 1, 1, 3])), [Value::Integer(2)]);
}

#[test]
fn deviation_of_one_is_no_number() {
    let found = values(Kind::Stddev, &floats(&[4.0]));
    assert!(matches!(found[..], [Value::Float(v)] if v.is_nan()));
    assert_eq!(values(Kind::Stddev, &integers(&[1, 3])), [Value::Float(2f64.sqrt())]);
}

#[test]
fn top_is_in_order_of_time_and_takes_the_earliest_of_equals() {
    let v = integers(&[5, 9, 9, 1, 5, 9]);
    let times = [10, 20, 30, 40, 50, 60];
    let tops: Vec<_> = points(Kind::Top(3), &times, &v).iter().map(|p| p.time.unwrap()).collect();
    assert_eq!(tops, [20, 30, 60]);
    let tops = points(Kind::Top(4), &times, &v);
    assert_eq!((tops[0].time, tops[0].token), (Some(10), 100));
    let bottoms = points(Kind::Bottom(2), &times, &v);
    assert_eq!(bottoms.iter().map(|p| p.time.unwrap()).collect::<Vec<_>>(), [10, 40]);
    assert_eq!(points(Kind::Top(u64::MAX), &times, &v).len(), 6);
}

#[test]
fn samples_are_rows_in_order_of_time() {
    let v = integers(&[1, 2, 3, 4, 5, 6, 7, 8]);
    let times = [1, 2, 3, 4, 5, 6, 7, 8];
    let drawn = points(Kind::Sample(3), &times, &v);
    assert_eq!(drawn.len(), 3);
    assert!(drawn.windows(2).all(|pair| pair[0].time < pair[1].time));
    assert!(drawn.iter().all(|p| p.value == Value::Integer(p.time.unwrap())));
    assert_eq!(points(Kind::Sample(100), &times, &v).len(), 8);
}

#[test]
fn types_that_a_function_does_not_take_are_named_as_influxdb_does() {
    let error = Aggregate::new(Kind::Mean, FieldType::String, false).unwrap_err();
    assert_eq!(error.to_string(), "unsupported mean iterator type: *query.stringInterruptIterator");
    let kind = TransformKind::MovingAverage { size: 2 };
    let error = Transform::new(kind, FieldType::Boolean, None, false).unwrap_err();
    let words = "unsupported moving average iterator type: *query.booleanInterruptIterator";
    assert_eq!(error.to_string(), words);
    assert!(Aggregate::new(Kind::Max, FieldType::String, false).is_err());
    assert!(Aggregate::new(Kind::Max, FieldType::Boolean, false).is_ok());
}

fn call(text: &str, setting: Setting) -> Result<Call, String> {
    let query = format!("SELECT {text} FROM m");
    let parsed = wire::influxql::parse(&query, &wire::influxql::Params::default()).unwrap();
    let Some(Statement::Select(select)) = parsed.into_iter().next() else { panic!("{query}") };
    let Select { fields, .. } = *select;
    match fields.into_iter().next().map(|field| field.expr) {
        Some(Expr::Call { name, arguments }) => {
            Call::compile(&name, &arguments, &setting).map_err(|error| error.to_string())
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn arguments_are_checked_in_influxdbs_words() {
    let plain = Setting { wildcards: true, ..Setting::default() };
    let windows = Setting { windows: true, ..plain };
    let good = |text| call(text, plain).unwrap();
    assert_eq!(good("mean(v)"), Call::Aggregate(Kind::Mean));
    assert_eq!(good("count(distinct(v))"), Call::Aggregate(Kind::CountDistinct));
    assert_eq!(good("percentile(v, 90)"), Call::Aggregate(Kind::Percentile(90.0)));
    assert_eq!(good("integral(v)"), Call::Integral { unit_ns: 1_000_000_000 });
    let derivative =
        TransformKind::Derivative { unit_ns: Some(60_000_000_000), non_negative: true };
    assert_eq!(good("non_negative_derivative(v, 1m)"), Call::Transform(derivative));
    for (text, setting, words) in [
        ("foo(v)", plain, "undefined function foo()"),
        ("mean(v, 1)", plain, "invalid number of arguments for mean, expected 1, got 2"),
        ("mean(1)", plain, "expected field argument in mean()"),
        ("mean(*)", Setting::default(), "unsupported expression with wildcard: mean()"),
        ("percentile(v, 'a')", plain, "expected float argument in percentile()"),
        ("sample(v, 0)", plain, "sample window must be greater than 1, got 0"),
        ("top(v, 0)", plain, "limit (0) in top function must be at least 1"),
        (
            "top(v, 9)",
            Setting { limit: 5, ..plain },
            "limit (9) in top function can not be larger than the LIMIT (5) in the select \
             statement",
        ),
        ("derivative(mean(v))", plain, "derivative aggregate requires a GROUP BY interval"),
        ("difference(v)", windows, "aggregate function required inside the call to difference"),
        (
            "elapsed(v, 5)",
            plain,
            "second argument to elapsed must be a duration, got *influxql.IntegerLiteral",
        ),
        ("moving_average(v, 1)", plain, "moving_average window must be greater than 1, got 1"),
        ("distinct(mean(v))", plain, "expected field argument in distinct()"),
    ] {
        assert_eq!(call(text, setting).unwrap_err(), words, "{text}");
    }
}

fn transformed(kind: TransformKind, input: FieldType, of: &[(i64, Value)]) -> Vec<(i64, Value)> {
    let mut stream = Transform::new(kind, input, None, false).unwrap().start();
    of.iter().filter_map(|(time, value)| stream.push(*time, value)).collect()
}

#[test]
fn transformations_pass_over_nulls_and_repeated_times() {
    let s = 1_000_000_000;
    let of = [
        (s, Value::Integer(10)),
        (2 * s, Value::Null),
        (3 * s, Value::Integer(4)),
        (3 * s, Value::Integer(9)),
        (5 * s, Value::Integer(8)),
    ];
    let run = |kind| transformed(kind, FieldType::Integer, &of);
    let derivative = |non_negative| TransformKind::Derivative { unit_ns: None, non_negative };
    assert_eq!(run(derivative(false)), [(3 * s, Value::Float(-3.0)), (5 * s, Value::Float(2.0))]);
    assert_eq!(run(derivative(true)), [(5 * s, Value::Float(2.0))]);
    let difference = TransformKind::Difference { non_negative: false };
    assert_eq!(run(difference), [(3 * s, Value::Integer(-6)), (5 * s, Value::Integer(4))]);
    let elapsed = TransformKind::Elapsed { unit_ns: s };
    assert_eq!(
        run(elapsed).into_iter().map(|(_, v)| v).collect::<Vec<_>>(),
        [Value::Integer(2), Value::Integer(0), Value::Integer(2)]
    );
    assert_eq!(run(TransformKind::CumulativeSum).last(), Some(&(5 * s, Value::Integer(31))));
    let average = run(TransformKind::MovingAverage { size: 3 });
    assert_eq!(average, [(3 * s, Value::Float(23.0 / 3.0)), (5 * s, Value::Float(7.0))]);
}

#[test]
fn integral_cuts_at_windows() {
    let s = 1_000_000_000;
    let windows = Windows::new(10 * s, 0, None, TimeRange { min: 0, max: 30 * s });
    let run = |input, of: &[(i64, Value)]| {
        let mut integral = Integral::new(s, input, windows.clone(), false).unwrap();
        let mut out: Vec<_> = of.iter().filter_map(|(t, v)| integral.push(*t, v)).collect();
        out.extend(integral.finish());
        out
    };
    let of = [(5 * s, Value::Float(2.0)), (15 * s, Value::Float(4.0))];
    assert_eq!(run(FieldType::Float, &of), [(0, Value::Float(12.5)), (10 * s, Value::Float(17.5))]);
    assert_eq!(run(FieldType::Float, &of[..1]), [(0, Value::Float(0.0))]);
}

#[test]
fn mathematics() {
    let call = |name, value: Value| Math::named(name).unwrap().call(&[value]);
    assert_eq!(call("floor", Value::Float(-1.5)), Value::Float(-2.0));
    assert_eq!(call("floor", Value::Integer(3)), Value::Integer(3));
    assert_eq!(call("abs", Value::Integer(i64::MIN)), Value::Integer(i64::MIN));
    assert_eq!(call("round", Value::Float(-2.5)), Value::Float(-3.0));
    assert_eq!(call("log10", Value::Integer(1000)), Value::Float(3.0));
    assert_eq!(call("log2", Value::Float(0.125)), Value::Float(-3.0));
    assert_eq!(call("sqrt", Value::Unsigned(9)), Value::Float(3.0));
    assert_eq!(call("sin", Value::String("x".into())), Value::Null);
    let pow = Math::Pow.call(&[Value::Integer(2), Value::Float(10.0)]);
    assert_eq!(pow, Value::Float(1024.0));
    assert_eq!(Math::Log.call(&[Value::Integer(8), Value::Null]), Value::Null);
}
