use proptest::prelude::*;

use super::*;
use crate::influxql::ast::*;

fn one(text: &str) -> Statement {
    let mut statements =
        parse(text, &Params::default()).unwrap_or_else(|why| panic!("{text}: {why}"));
    assert_eq!(statements.len(), 1, "{text}");
    statements.remove(0)
}

fn select(text: &str) -> Select {
    match one(text) {
        Statement::Select(select) => *select,
        other => panic!("{other:?}"),
    }
}

fn why(text: &str) -> String {
    parse(text, &Params::default()).unwrap_err().to_string()
}

fn name(name: &str) -> Expr {
    Expr::Reference { name: name.to_owned(), cast: None }
}

fn binary(op: Op, left: Expr, right: Expr) -> Expr {
    Expr::Binary { op, left: Box::new(left), right: Box::new(right) }
}

#[test]
fn a_query_of_grafana() {
    let select = select(
        "SELECT mean(\"usage\") AS \"m\", max(a) / 2 FROM \"db\".\"rp\".\"cpu\" \
         WHERE (\"host\" =~ /^(a|b\\/c)$/) AND time >= now() - 6h \
         GROUP BY time(1m, -5s), \"host\", /^x/, * fill(previous) ORDER BY time DESC \
         LIMIT 10 OFFSET 2 SLIMIT 3 SOFFSET 4 tz('Europe/Berlin')",
    );
    assert_eq!(select.fields[0].alias.as_deref(), Some("m"));
    let usage = Expr::Call { name: "mean".to_owned(), arguments: vec![name("usage")] };
    assert_eq!(select.fields[0].expr, usage);
    let max = Expr::Call { name: "max".to_owned(), arguments: vec![name("a")] };
    assert_eq!(select.fields[1].expr, binary(Op::Divide, max, Expr::Integer(2)));
    let from = Source::Measurement(Measurement {
        db: Some("db".to_owned()),
        policy: Some("rp".to_owned()),
        name: MeasurementName::Name("cpu".to_owned()),
    });
    assert_eq!(select.sources, [from]);
    let host = Expr::Regex(Regex("^(a|b/c)$".to_owned()));
    let host = Expr::Paren(Box::new(binary(Op::EqualRegex, name("host"), host)));
    let now = Expr::Call { name: "now".to_owned(), arguments: Vec::new() };
    let since = binary(Op::Subtract, now, Expr::Duration(6 * 3_600_000_000_000));
    let since = binary(Op::GreaterOrEqual, name("time"), since);
    assert_eq!(select.condition, Some(binary(Op::And, host, since)));
    let windows = Dimension::Time {
        interval_ns: 60_000_000_000,
        offset: TimeOffset::Duration(-5_000_000_000),
    };
    let regex = Dimension::Regex(Regex("^x".to_owned()));
    let dimensions = [windows, Dimension::Tag("host".to_owned()), regex, Dimension::Wildcard(None)];
    assert_eq!(select.dimensions, dimensions);
    assert_eq!(select.fill, Fill::Previous);
    assert!(select.descending);
    assert_eq!((select.limit, select.offset), (10, 2));
    assert_eq!((select.series_limit, select.series_offset), (3, 4));
    assert_eq!(select.timezone.as_deref(), Some("Europe/Berlin"));
}

#[test]
fn operations_bind_as_in_influxdb() {
    let of = |text: &str| select(&format!("SELECT a FROM m WHERE {text}")).condition.unwrap();
    let (a, b, c) = (|| name("a"), || name("b"), || name("c"));
    let tighter = binary(Op::Add, a(), binary(Op::Multiply, b(), c()));
    assert_eq!(of("a + b * c"), tighter);
    let left = binary(Op::Subtract, binary(Op::Subtract, a(), b()), c());
    assert_eq!(of("a - b - c"), left);
    let or = binary(Op::Or, a(), binary(Op::And, b(), c()));
    assert_eq!(of("a or b and c"), or);
    let negated = binary(Op::Multiply, Expr::Integer(-1), a());
    assert_eq!(of("-a"), negated);
    assert_eq!(of("-9223372036854775808"), Expr::Integer(i64::MIN));
    assert_eq!(of("9223372036854775808"), Expr::Unsigned(9_223_372_036_854_775_808));
}

#[test]
fn parameters_take_the_place_of_tokens() {
    let json = r#"{"m":{"identifier":"my m"},"r":{"regex":"a/b"},"s":"x","i":-5,"f":1.0,
        "b":true,"d":{"duration":"90s"},"n":{"duration":60000000000},"bad":null,"w":{"x":1}}"#;
    let params = Params::from_json(json).unwrap();
    let text = "SELECT $i, $f, $b FROM $m WHERE h =~ $r AND s = $s GROUP BY time($d, $n)";
    let written = "SELECT -5, 1.0, true FROM \"my m\" WHERE h =~ /a\\/b/ AND s = 'x' \
                   GROUP BY time(90s, 1m)";
    let bound = parse(text, &params).unwrap();
    assert_eq!(bound, parse(written, &Params::default()).unwrap());
    let error = |text: &str| parse(text, &params).unwrap_err().to_string();
    assert_eq!(error("SELECT $x FROM m"), "error parsing query: missing parameter: x");
    assert_eq!(error("SELECT $ FROM m"), "error parsing query: empty bound parameter");
    let bad = "error parsing query: unable to bind parameter with type <nil>";
    assert_eq!(error("SELECT $bad FROM m"), bad);
    assert_eq!(error("SELECT $w FROM m"), "error parsing query: unknown bind object type: x");
    assert!(Params::from_json("[1]").is_err());
    assert!(Params::from_json("").is_ok());
}

#[test]
fn depth_has_a_limit_and_length_has_none() {
    for (open, close) in [("(", ")"), ("f(", ")"), ("-(", ")")] {
        let text = format!("SELECT {}a{} FROM m", open.repeat(100_000), close.repeat(100_000));
        assert!(why(&text).contains("nested more than 100 levels"), "{open}");
    }
    let text = "SELECT a FROM (".repeat(50_000);
    assert!(why(&text).contains("nested more than 100 levels"));
    let text = format!("SELECT a FROM m WHERE a = 1{}", " OR a = 1".repeat(100_000));
    assert!(select(&text).condition.is_some());
    let text = format!("SELECT a{} FROM m", " + a".repeat(100_000));
    assert!(why(&text).contains("more than 400 levels"), "{}", why(&text));
}

proptest! {
    #[test]
    fn any_text_is_parsed_or_refused(text in "(?s).{0,60}") {
        drop(parse(&text, &Params::default()));
    }

    #[test]
    fn any_tokens_are_parsed_or_refused(words in prop::collection::vec(prop::sample::select(vec![
        "SELECT", "FROM", "WHERE", "GROUP BY", "time(", "fill(", "tz(", ")", "(", ",", ".", "::",
        "a", "\"b", "'c'", "/d/", "/", "*", "-", "--", "/*", "*/", "=~", "=", "1", "1.", "1m", "$p",
        "$", "\\", "\n", " ", "INTO", "SHOW", "TAG", "VALUES", "WITH", "KEY", "IN", "AND", "µ", ";",
    ]), 0..14)) {
        drop(parse(&words.concat(), &Params::default()));
        drop(parse(&words.join(" "), &Params::default()));
    }
}
