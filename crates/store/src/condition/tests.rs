use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray, Float64Array, Int64Array, StringArray, UInt64Array};
use wire::influxql::ast::{Expr, Op, Regex};

use super::*;
use crate::predicate::TagPredicate;
use crate::series::{Series, SeriesId};

fn name(text: &str) -> Expr {
    Expr::Reference { name: text.to_owned(), cast: None }
}

fn text(text: &str) -> Expr {
    Expr::String(text.to_owned())
}

fn op(op: Op, left: Expr, right: Expr) -> Expr {
    Expr::Binary { op, left: Box::new(left), right: Box::new(right) }
}

fn split_at_1000(condition: &Expr) -> Result<Condition, String> {
    split(Some(condition), 1_000, None).map_err(|error| error.0)
}

fn series(tags: &[(&str, &str)]) -> Series {
    let tags = tags.iter().map(|(k, v)| (Arc::from(*k), Arc::from(*v))).collect();
    Series { id: SeriesId(0), tags }
}

#[test]
fn time_is_taken_out_on_both_sides() {
    let after = op(Op::GreaterOrEqual, name("TIME"), text("1970-01-01T00:00:00.0000001Z"));
    let now = Expr::Call { name: "now".to_owned(), arguments: vec![] };
    let before = op(Op::Greater, now, name("time"));
    let tag = op(Op::Equal, name("host"), text("a"));
    let all = op(Op::And, op(Op::And, after, tag.clone()), before);
    let condition = split_at_1000(&all).unwrap();
    assert_eq!(condition.time, TimeBounds { min: Some(100), max: Some(999) });
    assert_eq!(condition.rest, Some(tag));
}

#[test]
fn time_under_or_narrows_the_whole() {
    let after = op(Op::Greater, name("time"), Expr::Integer(5));
    let tag = op(Op::Equal, name("host"), text("a"));
    let condition = split_at_1000(&op(Op::Or, after, tag.clone())).unwrap();
    assert_eq!(condition.time.min, Some(6));
    assert_eq!(condition.rest, Some(tag));
}

#[test]
fn a_condition_that_is_always_true_is_none() {
    let one = op(Op::Equal, Expr::Integer(1), Expr::Integer(1));
    assert_eq!(split_at_1000(&one).unwrap(), Condition::default());
    assert_eq!(split(None, 0, None).unwrap(), Condition::default());
    assert_eq!(TimeBounds::default().range(), TimeRange { min: TIME_MIN, max: TIME_MAX });
}

#[test]
fn errors_are_worded_as_influxdb_does() {
    let error = |with| split_at_1000(&op(Op::Greater, name("time"), with)).unwrap_err();
    assert_eq!(error(text("2020-01-01 00:00")), "invalid timestamp string");
    assert_eq!(error(text("9999-12-31")), "time 9999-12-31T00:00:00Z overflows time literal");
    assert_eq!(error(text("1000-12-31")), "time 1000-12-31T00:00:00Z underflows time literal");
    let types = "invalid operation: time and *influxql.StringLiteral are not compatible";
    assert_eq!(error(text("abc")), types);
    let types = "invalid operation: time and *influxql.VarRef are not compatible";
    assert_eq!(error(name("host")), types);
    let unequal = op(Op::NotEqual, name("time"), Expr::Integer(3));
    assert_eq!(split_at_1000(&unequal).unwrap_err(), "invalid time comparison operator: !=");
    let error = split_at_1000(&name("host")).unwrap_err();
    assert_eq!(error, "invalid condition expression: host");
}

fn filter(condition: &Expr) -> Filter {
    read(TagReading::Value, condition)
}

fn read(reading: TagReading, condition: &Expr) -> Filter {
    Filter::of("cpu", Some(condition), reading, &|name| name.starts_with('f')).unwrap()
}

#[test]
fn tags_alone_are_decided_by_series() {
    let unequal = filter(&op(Op::NotEqual, name("host"), text("a")));
    assert!(matches!(&unequal.tags, TagPredicate::NotEqual(key, _) if key == "host"));
    assert!(unequal.fields.is_empty());
    assert!(matches!(unequal.series(&series(&[])), RowFilter::All));

    let ordered = filter(&op(Op::Less, name("host"), text("b")));
    assert!(matches!(ordered.tags, TagPredicate::And(..)), "nothing matches");

    let regex = filter(&op(Op::EqualRegex, name("host"), Expr::Regex(Regex("^$".to_owned()))));
    assert!(matches!(regex.tags, TagPredicate::Match(..)));

    let same = filter(&op(Op::Equal, name("a"), name("b")));
    assert!(matches!(same.series(&series(&[("a", "x"), ("b", "x")])), RowFilter::All));
    assert!(matches!(same.series(&series(&[])), RowFilter::None));
    let other = filter(&op(Op::Equal, name("_name"), text("mem")));
    assert!(matches!(other.tags, TagPredicate::And(..)), "nothing matches");
}

#[test]
fn tags_and_fields_under_or_are_decided_by_both() {
    let tag = op(Op::Equal, name("host"), text("a"));
    let field = op(Op::Greater, name("f"), Expr::Integer(1));
    let either = filter(&op(Op::Or, tag.clone(), field.clone()));
    assert!(matches!(either.tags, TagPredicate::All));
    assert_eq!(either.fields, ["f"]);
    assert!(matches!(either.series(&series(&[("host", "a")])), RowFilter::All));
    let rows = either.series(&series(&[("host", "b")]));
    let column: ArrayRef = Arc::new(Float64Array::from(vec![Some(1.0), None, Some(1.5)]));
    let kept: Vec<bool> = rows.keep(3, &[Some(column)]).iter().collect();
    assert_eq!(kept, [false, false, true]);
    assert_eq!(rows.keep(3, &[None]).count_set_bits(), 0);

    let both = filter(&op(Op::And, tag, field));
    assert!(matches!(both.tags, TagPredicate::Equal(..)));
    assert!(matches!(both.series(&series(&[("host", "b")])), RowFilter::None));
}

/// The rows of some columns `f0`, `f1` ... that match.
fn kept(condition: &Expr, columns: Vec<ArrayRef>) -> Vec<bool> {
    let filter = filter(condition);
    let len = columns[0].len();
    let columns: Vec<_> = filter
        .fields
        .iter()
        .map(|name| name[1..].parse::<usize>().ok().and_then(|at| columns.get(at).cloned()))
        .collect();
    filter.series(&series(&[("host", "a")])).keep(len, &columns).iter().collect()
}

#[test]
fn values_are_compared_across_types() {
    let integers: ArrayRef = Arc::new(Int64Array::from(vec![Some(-1), Some(3), None]));
    let unsigneds: ArrayRef = Arc::new(UInt64Array::from(vec![Some(1), Some(3), Some(u64::MAX)]));
    let less = op(Op::Less, name("f0"), name("f1"));
    assert_eq!(kept(&less, vec![integers.clone(), unsigneds.clone()]), [true, false, false]);
    let greater = op(Op::Greater, name("f1"), name("f0"));
    assert_eq!(kept(&greater, vec![integers.clone(), unsigneds]), [true, false, false]);
    let half = op(Op::Divide, name("f0"), Expr::Integer(2));
    let one = op(Op::Equal, half, Expr::Integer(1));
    assert_eq!(kept(&one, vec![integers.clone()]), [false, true, false]);
    let unequal = op(Op::NotEqual, name("f0"), Expr::Integer(3));
    assert_eq!(kept(&unequal, vec![integers.clone()]), [true, false, false], "null is not unequal");
    let words = op(Op::NotEqual, name("f0"), text("x"));
    assert_eq!(kept(&words, vec![integers]), [false; 3], "other types are never unequal");
}

#[test]
fn strings_booleans_and_tags_are_compared() {
    let strings: ArrayRef = Arc::new(StringArray::from(vec![Some("a"), Some("b"), None]));
    let equal = op(Op::Equal, name("f0"), name("host"));
    assert_eq!(kept(&equal, vec![strings.clone()]), [true, false, false]);
    let matched = op(Op::NotEqualRegex, name("f0"), Expr::Regex(Regex("a".to_owned())));
    assert_eq!(kept(&matched, vec![strings]), [false, true, false]);
    let booleans: ArrayRef = Arc::new(BooleanArray::from(vec![Some(true), Some(false), None]));
    let off = op(Op::Equal, name("f0"), Expr::Boolean(false));
    assert_eq!(kept(&off, vec![booleans]), [false, true, false], "null is not false");
}

#[test]
fn fields_are_cast_and_calculated_with() {
    let floats: ArrayRef = Arc::new(Float64Array::from(vec![Some(-1.9), Some(1.9), None]));
    let cast = Some(wire::influxql::ast::Cast::Integer);
    let whole = Expr::Reference { name: "f0".to_owned(), cast };
    let one = op(Op::Equal, whole, Expr::Integer(1));
    assert_eq!(kept(&one, vec![floats.clone()]), [false, true, false]);
    let size = Expr::Call { name: "abs".to_owned(), arguments: vec![name("f0")] };
    let large = op(Op::Greater, size, Expr::Number(1.5));
    assert_eq!(kept(&large, vec![floats]), [true, true, false]);
}
