//! Texts that grow in one way each: reading them takes time in proportion to their length. What is
//! quadratic takes a minute or more for these.

use std::time::{Duration, Instant};

use wire::influxql::{self, Param, Params};
use wire::line::{self, Options, Precision};

/// Bytes of each text.
const LONG: usize = 256 << 10;
/// A hundred times what it takes, in a debug build on a busy machine.
const LIMIT: Duration = Duration::from_secs(20);

/// `before`, as many pieces as make it long, and `after`.
fn grown(before: &str, piece: impl Fn(usize) -> String, after: &str) -> String {
    let mut text = before.to_owned();
    let mut n = 0;
    while text.len() < LONG {
        text.push_str(&piece(n));
        n += 1;
    }
    text + after
}

fn same(piece: &str) -> impl Fn(usize) -> String + '_ {
    move |_| piece.to_owned()
}

#[test]
fn lines_are_read_in_linear_time() {
    let tags = (0..4000).map(|n| format!(",t{n}=x")).collect::<String>();
    for (what, body) in [
        ("fields", grown("m a=1", |n| format!(",f{n}=1"), " 1\n")),
        ("the same field", grown("m a=1", same(",a=1"), " 1\n")),
        ("fields named time", grown("m a=1", same(",time=1"), " 1\n")),
        ("odd fields", grown("m a=1", |n| format!(",f\\ {n}=\"x\\\\\""), " 1\n")),
        ("strings with more behind", grown("m a=1", same(",b=\"x\"y"), " 1\n")),
        ("tags", format!("m{tags} f=1 1\n").repeat(LONG / tags.len())),
        ("a long name", grown("m", same("n"), " f=1 1\n")),
        ("escapes", grown("m", same("\\,"), " f=1 1\n")),
        ("lines", grown("", |n| format!("m f={n} {n}\n"), "")),
        ("bad lines", grown("", same("m\n"), "")),
        ("comments", grown("", same("#\n"), "")),
        ("blank lines", grown("", same("\n"), "")),
        ("open quotes", grown("", same("m f=\"x 1\n"), "")),
        ("quotes and backslashes", grown("m f=\"", same("\\\"\n"), "\" 1\n")),
        ("one open quote", grown("m f=\"", same("\nm f=1 1"), "")),
        ("backslashes", grown("m f=1 1\n", same("\\\n"), "")),
        ("points named time", grown("", same("m,time=x f=1 1\n"), "")),
        ("blanks", grown("m", same(" "), "f=1 1\n")),
        ("digits", grown("m f=1", same("1"), " 1\n")),
        ("digits of a time", grown("m f=1 1", same("1"), "\n")),
    ] {
        let begun = Instant::now();
        let (now_ns, stamp) = (0, &[]);
        let options = Options { precision: Precision::Nanosecond, now_ns, stamp, unsigned: true };
        let mut out = Vec::new();
        line::normalise(body.as_bytes(), &options, &mut out);
        for record in line::points(&out) {
            if let Some(point) = line::read(record) {
                point.fields.for_each(drop);
                line::tag_pairs(point.series).for_each(drop);
            }
        }
        assert!(begun.elapsed() < LIMIT, "{what}: {:?}", begun.elapsed());
    }
}

#[test]
fn queries_are_read_in_linear_time() {
    let deep = |open: &str, close: &str| open.repeat(5000) + &close.repeat(5000);
    for (what, text) in [
        ("statements", grown("", same("SELECT f FROM m;"), "")),
        ("semicolons", grown("", same(";"), "")),
        ("statements that change", grown("", same("DROP MEASUREMENT m;"), "")),
        ("passwords", grown("", same("SET PASSWORD FOR u = 'x';"), "")),
        ("fields", grown("SELECT a", |n| format!(",f{n}"), " FROM m")),
        ("aliases", grown("SELECT a", |n| format!(",f AS f{n}"), " FROM m")),
        ("measurements", grown("SELECT f FROM a", |n| format!(",m{n}"), "")),
        ("databases", grown("SELECT f FROM a", |n| format!(",d{n}.p.m"), "")),
        ("sub-queries", grown("SELECT f FROM a", same(",(SELECT f FROM m)"), "")),
        ("conditions", grown("SELECT f FROM m WHERE a=1", same(" OR a=1"), "")),
        ("sums", grown("SELECT 1", same("+1"), " FROM m")),
        ("arguments", grown("SELECT max(f", same(",1"), ") FROM m")),
        ("dimensions", grown("SELECT f FROM m GROUP BY a", |n| format!(",t{n}"), "")),
        ("a long name", grown("SELECT \"", same("n"), "\" FROM m")),
        ("escapes", grown("SELECT \"", same("\\\""), "\" FROM m")),
        ("a name with dots", grown("SELECT a", same(".a"), " FROM m")),
        ("a long string", grown("SELECT f FROM m WHERE a='", same("x"), "'")),
        ("a long pattern", grown("SELECT f FROM m WHERE a=~/", same("x|"), "/")),
        ("an open pattern", grown("SELECT f FROM m WHERE a=~/", same("(x"), "")),
        ("an open string", grown("SELECT f FROM m WHERE a='", same("x"), "")),
        ("open comments", grown("SELECT f FROM m ", same("/*"), "")),
        ("comments", grown("SELECT f FROM m ", same("/**/"), "")),
        ("blanks", grown("SELECT", same(" "), "f FROM m")),
        ("newlines", grown("SELECT", same("\r\n"), "f FROM m x")),
        ("a duration", grown("SELECT f FROM m WHERE time > now() - 1s", same("1s"), "")),
        ("a number", grown("SELECT f FROM m WHERE a = 1", same("1"), "")),
        ("signs", grown("SELECT ", same("-"), "1 FROM m")),
        ("times", grown("SELECT f FROM m WHERE time > now()", same(" OR time < now()"), "")),
        ("parentheses", format!("SELECT {} FROM m", deep("(", ")"))),
        ("calls", format!("SELECT {} FROM m", deep("f(", ")"))),
        ("sub-queries in each other", deep("SELECT f FROM (", ")")),
        ("grants", grown("GRANT ALL ON ", same("a"), " TO u")),
        ("tag keys", grown("SHOW TAG VALUES WITH KEY IN (a", |n| format!(",k{n}"), ")")),
    ] {
        let begun = Instant::now();
        if let Ok(statements) = influxql::split(&text) {
            for statement in &statements {
                statement.databases();
            }
        }
        if let Ok(statements) = influxql::parse(&text, &Params::default()) {
            for statement in &statements {
                assert!(!statement.to_string().is_empty());
            }
        }
        influxql::freeze_now(&text, 0);
        influxql::redact(&text);
        assert!(begun.elapsed() < LIMIT, "{what}: {:?}", begun.elapsed());
    }
}

#[test]
fn a_long_parameter_is_not_copied_without_end() {
    let mut params = Params::default();
    params.insert("p", Param::String("x".repeat(1 << 20)));
    let text = grown("SELECT f FROM m WHERE a=$p", same(" OR a=$p"), "");
    let why = influxql::parse(&text, &params).expect_err("34 GB");
    let expected = "error parsing query: bound parameters stand for too much text";
    assert_eq!(why.to_string(), expected);
    assert!(influxql::parse("SELECT f FROM m WHERE a=$p OR b=$p", &params).is_ok());
    params.insert("p", Param::String("x".repeat(20)));
    assert!(influxql::parse(&text, &params).is_ok());
}
