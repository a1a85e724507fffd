use proptest::prelude::*;

use crate::influxql::ast::*;
use crate::influxql::{Params, parse};

fn again(text: &str) -> String {
    let read = |text: &str| parse(text, &Params::default());
    let statements = read(text).unwrap_or_else(|why| panic!("{text}: {why}"));
    let shown: Vec<_> = statements.iter().map(ToString::to_string).collect();
    let shown = shown.join("; ");
    assert_eq!(read(&shown).unwrap_or_else(|why| panic!("{shown}: {why}")), statements, "{text}");
    shown
}

#[test]
fn statements_are_shown_as_influxdb_shows_them() {
    for (text, shown) in [
        ("select  a,max( b )from m", "SELECT a, max(b) FROM m"),
        ("SELECT a FROM db..m, rp.m, db.rp./x\\/y/", "SELECT a FROM db..m, rp.m, db.rp./x\\/y/"),
        ("SELECT 1.50, 2.0, -3 FROM \"from\"", "SELECT 1.5, 2.0, -3 FROM \"from\""),
        ("SELECT -a FROM m", "SELECT -1 * a FROM m"),
        ("SELECT b / -a, b * +(c) FROM m", "SELECT b / -a, b * +(c) FROM m"),
        ("SELECT DISTINCT \"a b\" AS \"c\" FROM m", "SELECT DISTINCT \"a b\" AS c FROM m"),
        ("SELECT distinct(a::field), *::tag FROM m", "SELECT distinct(a::field), *::tag FROM m"),
        (
            "SELECT mean(a) INTO d.r.:measurement FROM (SELECT a FROM m) WHERE time>now()-90m \
             AND h=~/x/ GROUP BY time(60s,-1m), * fill(1.0) ORDER BY DESC LIMIT 1 SOFFSET 2 \
             tz('UTC')",
            "SELECT mean(a) INTO d.r.:MEASUREMENT FROM (SELECT a FROM m) WHERE time > now() - 90m \
             AND h =~ /x/ GROUP BY time(1m, -1m), * fill(1.0) ORDER BY time DESC LIMIT 1 SOFFSET 2 \
             TZ('UTC')",
        ),
        (
            "create retention policy p on d duration inf replication 1 shard duration 1d default",
            "CREATE RETENTION POLICY p ON d DURATION 0s REPLICATION 1 SHARD DURATION 1d DEFAULT",
        ),
        (
            "alter retention policy default on d replication 2 duration 48h",
            "ALTER RETENTION POLICY \"default\" ON d DURATION 2d REPLICATION 2",
        ),
        ("create database d with shard duration inf", "CREATE DATABASE d WITH SHARD DURATION INF"),
        ("create database d with name n", "CREATE DATABASE d WITH NAME n"),
        ("delete where a = 'it\\'s'", "DELETE WHERE a = 'it\\'s'"),
        ("drop series from m, /n/ where a!='x'", "DROP SERIES FROM m, /n/ WHERE a != 'x'"),
        (
            "show tag values exact cardinality on d from m with key in (a, \"b c\") group by x",
            "SHOW TAG VALUES EXACT CARDINALITY ON d FROM m WITH KEY IN (a, \"b c\") GROUP BY x",
        ),
        (
            "show measurements on d with measurement =~ /a/ limit 5",
            "SHOW MEASUREMENTS ON d WITH MEASUREMENT =~ /a/ LIMIT 5",
        ),
        (
            "explain analyze select a from m; kill query 5",
            "EXPLAIN ANALYZE SELECT a FROM m; KILL QUERY 5",
        ),
    ] {
        assert_eq!(again(text), shown);
    }
}

#[test]
fn a_long_chain_comes_back() {
    again(&format!("SELECT a FROM m WHERE a = 1{}", " OR a = 1 AND b = 2".repeat(1_000)));
}

fn name() -> impl Strategy<Value = String> {
    prop_oneof!["[a-z]{1,4}", "(?s)[^\0\r]{1,5}", Just("select".to_owned()), Just("A".to_owned())]
}

fn regex() -> impl Strategy<Value = Regex> {
    prop_oneof!["[a-z/.]{1,6}", "\\^\\([a-z|]{1,5}\\)\\$"].prop_map(Regex)
}

/// What stands alone, and so may be anywhere in an expression.
fn operand() -> BoxedStrategy<Expr> {
    let cast = prop::option::of(prop::sample::select(vec![
        Cast::Float,
        Cast::Integer,
        Cast::Unsigned,
        Cast::String,
        Cast::Boolean,
        Cast::Tag,
        Cast::AnyField,
    ]));
    let leaf = prop_oneof![
        (name(), cast).prop_map(|(name, cast)| Expr::Reference { name, cast }),
        Just(Expr::Wildcard(None)),
        Just(Expr::Wildcard(Some(WildcardKind::Field))),
        any::<f64>().prop_filter("finite", |value| value.is_finite()).prop_map(Expr::Number),
        any::<i64>().prop_map(Expr::Integer),
        (i64::MIN.unsigned_abs()..).prop_map(Expr::Unsigned),
        "(?s)[^\0\r]{0,6}".prop_map(Expr::String),
        any::<bool>().prop_map(Expr::Boolean),
        (-i64::MAX..).prop_map(Expr::Duration),
        name().prop_map(Expr::Distinct),
    ];
    leaf.prop_recursive(4, 24, 3, |inner| {
        prop_oneof![
            expression(inner.clone()).prop_map(|inner| Expr::Paren(Box::new(inner))),
            ("[a-z_]{1,6}", prop::collection::vec(expression(inner), 0..3))
                .prop_map(|(name, arguments)| Expr::Call { name, arguments }),
        ]
    })
    .boxed()
}

/// A product of sums, as the parser builds it without brackets.
fn expression(operand: BoxedStrategy<Expr>) -> BoxedStrategy<Expr> {
    let product =
        (operand.clone(), prop::option::of(operand)).prop_map(|(left, right)| match right {
            Some(right) => binary(Op::Divide, left, right),
            None => left,
        });
    let sums = prop::collection::vec(product, 1..3);
    let sums = sums.prop_map(|all| all.into_iter().reduce(|l, r| binary(Op::Add, l, r)).unwrap());
    sums.boxed()
}

fn binary(op: Op, left: Expr, right: Expr) -> Expr {
    Expr::Binary { op, left: Box::new(left), right: Box::new(right) }
}

fn condition() -> impl Strategy<Value = Expr> {
    let sum = || expression(operand());
    let comparison = prop_oneof![
        (sum(), sum()).prop_map(|(left, right)| binary(Op::GreaterOrEqual, left, right)),
        (sum(), regex()).prop_map(|(left, regex)| binary(
            Op::NotEqualRegex,
            left,
            Expr::Regex(regex)
        )),
    ];
    prop::collection::vec(comparison, 1..4)
        .prop_map(|all| all.into_iter().reduce(|l, r| binary(Op::And, l, r)).unwrap())
}

fn measurement() -> impl Strategy<Value = Measurement> {
    let name = prop_oneof![
        name().prop_map(MeasurementName::Name),
        regex().prop_map(MeasurementName::Regex)
    ];
    (prop::option::of(self::name()), prop::option::of(self::name()), name)
        .prop_map(|(db, policy, name)| Measurement { db, policy, name })
        .prop_filter("a regex behind `db..` is not a regex", |measurement| {
            let Measurement { db, policy, name } = measurement;
            db.is_none() || policy.is_some() || matches!(name, MeasurementName::Name(_))
        })
}

fn select() -> impl Strategy<Value = Select> {
    let alias = prop::option::of(name());
    let field = (expression(operand()), alias).prop_map(|(expr, alias)| Field { expr, alias });
    let tag = name().prop_filter("not a tag", |name| !name.eq_ignore_ascii_case("time"));
    let dimension = prop_oneof![
        tag.prop_map(Dimension::Tag),
        regex().prop_map(Dimension::Regex),
        Just(Dimension::Wildcard(None)),
        Just(Dimension::Wildcard(Some(WildcardKind::Tag))),
        Just(Dimension::Wildcard(Some(WildcardKind::Field))),
        (1..i64::MAX, -i64::MAX..).prop_map(|(interval_ns, offset_ns)| Dimension::Time {
            interval_ns,
            offset: TimeOffset::Duration(offset_ns),
        }),
    ];
    let fill = prop_oneof![
        Just(Fill::Null),
        Just(Fill::Linear),
        any::<i64>().prop_map(Fill::Integer),
        Just(Fill::Number(0.5))
    ];
    let clauses = (
        prop::collection::vec(dimension, 0..3),
        fill,
        (any::<bool>(), any::<bool>()),
        0..i64::MAX.unsigned_abs(),
        prop::option::of("(?s)[^\0\r]{0,6}"),
    );
    let fields = prop::collection::vec(field, 1..3);
    let sources = prop::collection::vec(measurement().prop_map(Source::Measurement), 1..3);
    (fields, sources, prop::option::of(condition()), clauses).prop_map(
        |(fields, sources, condition, (dimensions, fill, order, limit, timezone))| Select {
            fields,
            sources,
            condition,
            dimensions,
            fill,
            descending: order.0 && order.1,
            ordered: order.0,
            limit,
            timezone,
            ..Select::default()
        },
    )
}

proptest! {
    #[test]
    fn what_is_shown_is_read_back(inner in select(), outer in select()) {
        let mut outer = outer;
        outer.sources.push(Source::Subquery(Box::new(inner)));
        let statement = Statement::Select(Box::new(outer));
        let read = parse(&statement.to_string(), &Params::default());
        prop_assert_eq!(read.as_deref(), Ok(&[statement.clone()][..]), "{}", statement);
    }
}
