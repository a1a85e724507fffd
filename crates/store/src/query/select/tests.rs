//! Queries over a small store, with what a real InfluxDB answers them.

use std::ops::ControlFlow;

use wire::influxql::ast::Statement;
use wire::influxql::{Params, parse};

use super::run;
use crate::query::context::{Cancel, Context, Limits};
use crate::query::results::{Message, Rows, Sink};
use crate::store::testing::TestStore;
use crate::value::Value;

/// Takes rows and shows them as InfluxDB's JSON does.
#[derive(Default)]
struct CollectedSeries(Vec<serde_json::Value>);

fn json(value: &Value) -> serde_json::Value {
    match value {
        Value::Null => serde_json::Value::Null,
        Value::Float(value) => serde_json::json!(value),
        Value::Integer(value) | Value::Time(value) => serde_json::json!(value),
        Value::Unsigned(value) => serde_json::json!(value),
        Value::String(text) => serde_json::json!(&**text),
        Value::Boolean(value) => serde_json::json!(value),
    }
}

impl Sink for CollectedSeries {
    fn rows(&mut self, rows: Rows) -> ControlFlow<()> {
        let values: Vec<serde_json::Value> =
            rows.values.iter().map(|row| row.iter().map(json).collect()).collect();
        let mut series = serde_json::json!({
            "name": rows.name,
            "columns": rows.columns.to_vec(),
            "values": values,
        });
        if !rows.tags.is_empty() {
            let tags = rows.tags.iter().map(|(tag, value)| (tag.clone(), value.clone().into()));
            series["tags"] = serde_json::Value::Object(tags.collect());
        }
        self.0.push(series);
        ControlFlow::Continue(())
    }

    fn message(&mut self, _: Message) {}
}

fn ask(store: &TestStore, text: &str, pool: bool) -> serde_json::Value {
    let statements = match parse(text, &Params::default()) {
        Ok(statements) => statements,
        Err(error) => {
            return serde_json::json!({ "error": error.to_string() });
        }
    };
    let mut taken = CollectedSeries::default();
    let mut context = Context::new("db", now());
    if pool {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(3).build().unwrap();
        context.pool = Some(std::sync::Arc::new(pool));
    }
    for statement in &statements {
        if let Statement::Select(select) = statement
            && let Err(error) = run(&store.snapshot(), select, &context, &mut taken)
        {
            return serde_json::json!({ "error": error.0 });
        }
    }
    serde_json::json!({ "series": taken.0 })
}

/// For comparing by hand: `LINES` is a file of points, `QUERIES` one of queries, a line each.
#[test]
#[ignore = "a tool, not a test"]
fn answer_queries_of_a_file() {
    let lines = std::fs::read_to_string(std::env::var("LINES").unwrap()).unwrap();
    let queries = std::fs::read_to_string(std::env::var("QUERIES").unwrap()).unwrap();
    let store = TestStore::with(&lines);
    let pool = std::env::var("POOL").is_ok();
    let mut out = String::new();
    for query in queries.lines().filter(|line| !line.is_empty()) {
        let answer = ask(&store, query, pool);
        out.push_str(&format!("{}\n", serde_json::json!({ "q": query, "a": answer })));
    }
    std::fs::write(std::env::var("ANSWERS").unwrap(), out).unwrap();
}

fn now() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    i64::try_from(since.as_nanos()).unwrap()
}

const POINTS: &str = include_str!("answers/points.lp");

/// Numbers are the same where they differ by no more than rounding.
fn same(a: &serde_json::Value, b: &serde_json::Value) -> bool {
    use serde_json::Value::{Array, Number, Object};
    match (a, b) {
        (Number(a), Number(b)) => {
            let (a, b) = (a.as_f64().unwrap(), b.as_f64().unwrap());
            (a - b).abs() <= 1e-9 * a.abs().max(b.abs())
        }
        (Array(a), Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        (Object(a), Object(b)) => {
            a.len() == b.len() && a.iter().all(|(k, a)| b.get(k).is_some_and(|b| same(a, b)))
        }
        _ => a == b,
    }
}

#[test]
fn queries_are_answered_as_influxdb_answers_them() {
    let store = TestStore::with(POINTS);
    let mut lines = include_str!("answers/influxdb.txt").lines().filter(|line| !line.is_empty());
    let mut count = 0;
    while let (Some(query), Some(answer)) = (lines.next(), lines.next()) {
        let wanted: serde_json::Value = serde_json::from_str(answer).unwrap();
        for pool in [false, true] {
            let given = ask(&store, query, pool);
            assert!(same(&wanted, &given), "{query}\n{wanted}\n{given}");
        }
        count += 1;
    }
    assert!(count > 50);
}

#[test]
fn what_is_selected_into_is_written_as_points() {
    struct RecordingTarget(std::sync::Mutex<String>);
    impl crate::query::context::Target for RecordingTarget {
        fn write(&self, db: &str, rp: &str, lines: Vec<u8>) -> Result<(), String> {
            let lines = String::from_utf8(lines).unwrap();
            self.0.lock().unwrap().push_str(&format!("{db}.{rp}\n{lines}"));
            Ok(())
        }
    }
    let store = TestStore::with(POINTS);
    let into = std::sync::Arc::new(RecordingTarget(std::sync::Mutex::default()));
    let mut context = Context::new("db", now());
    context.into = Some(std::sync::Arc::clone(&into) as _);
    let text = "select mean(usage), last(note) into \"other\".\"p\".:measurement from cpu \
                where time >= 0 and time < 2m group by time(1m), host";
    let statements = parse(text, &Params::default()).unwrap();
    let Statement::Select(select) = &statements[0] else { panic!("{statements:?}") };
    let mut taken = CollectedSeries::default();
    let error = run(&store.snapshot(), select, &context, &mut taken).unwrap_err();
    assert_eq!(error.0, "database not found: other");

    let text = text.replace("\"other\".\"p\".:measurement", "\"a b\"");
    let statements = parse(&text, &Params::default()).unwrap();
    let Statement::Select(select) = &statements[0] else { panic!("{statements:?}") };
    run(&store.snapshot(), select, &context, &mut taken).unwrap();
    assert_eq!(taken.0[0]["values"], serde_json::json!([[0, 3]]));
    let written = into.0.lock().unwrap();
    let wanted = "db.\na\\ b,host=a mean=2,last=\"up\" 0\na\\ b,host=a mean=5 60000000000\n\
                  a\\ b,host=b mean=3,last=\"so\" 0\n";
    assert_eq!(*written, wanted);
}

#[test]
fn limits_are_kept() {
    let store = TestStore::with(POINTS);
    let asked = |text: &str, limits: Limits| {
        let mut context = Context::new("db", now());
        context.cancel = Cancel::new(&limits);
        context.limits = limits;
        let statements = parse(text, &Params::default()).unwrap();
        let Statement::Select(select) = &statements[0] else { panic!("{statements:?}") };
        run(&store.snapshot(), select, &context, &mut CollectedSeries::default())
            .map_err(|error| error.0)
    };
    let series = Limits { max_select_series: 2, ..Limits::default() };
    let text = asked("select usage from cpu", series).unwrap_err();
    assert_eq!(text, "max-select-series limit exceeded: (3/2)");
    let buckets = Limits { max_select_buckets: 3, ..Limits::default() };
    let windows = "select mean(usage) from cpu where time >= 0 and time < 4m group by time(1m)";
    let text = asked(windows, buckets).unwrap_err();
    assert_eq!(text, "max-select-buckets limit exceeded: (4/3)");
    let points = Limits { max_select_point: 3, ..Limits::default() };
    assert!(asked("select usage from cpu", points.clone()).is_err());
    assert!(asked("select usage from cpu where host = 'a'", points).is_ok());
}

#[test]
fn filled_windows_are_not_held_and_end_with_the_query() {
    /// Has enough after a few rows.
    struct Few(usize, Cancel);
    impl Sink for Few {
        fn rows(&mut self, rows: Rows) -> ControlFlow<()> {
            self.0 += rows.values.len();
            self.1.end();
            ControlFlow::Continue(())
        }
        fn message(&mut self, _: Message) {}
    }
    let store = TestStore::with(POINTS);
    let mut context = Context::new("db", now());
    let limits = Limits { memory: units::Size::from_mib(1), ..Limits::default() };
    context.cancel = Cancel::new(&limits);
    for fill in ["fill(0)", "fill(null) limit 3", "fill(null)"] {
        context.cancel = Cancel::new(&limits);
        let text = format!(
            "select mean(usage), max(idle) from cpu where time < 9000d group by time(1u) {fill}"
        );
        let statements = parse(&text, &Params::default()).unwrap();
        let Statement::Select(select) = &statements[0] else { panic!("{statements:?}") };
        let mut few = Few(0, context.cancel.clone());
        let result = run(&store.snapshot(), select, &context, &mut few);
        assert!(few.0 <= 10_000 && (few.0 == 3) == fill.ends_with('3'), "{}", few.0);
        assert!(result.is_err() && context.cancel.is_ended());
    }
}

#[test]
fn groups_of_one_series_each_are_those_asked_for_one_by_one() {
    let line = |n: u64| format!("m,host=h{} f={n},s=\"t{n}\" {}\n", n % 70, n / 70 * 10);
    let store = TestStore::with(&(0..700).map(line).collect::<String>());
    store.store.flush().unwrap();
    store.write(&(600..900).map(line).collect::<String>());
    store.write("m,host=alone g=1 5\n");
    for rest in ["", " ORDER BY time DESC", " LIMIT 3", " OFFSET 2", " SLIMIT 5 SOFFSET 3"] {
        for condition in ["time < 90", "f > 300 AND f < 600", "host != 'h5' AND time >= 80"] {
            let groups = format!("SELECT f, s FROM m WHERE {condition} GROUP BY *{rest}");
            let all = ask(&store, &groups, true);
            let all = all["series"].as_array().unwrap();
            assert!(!all.is_empty(), "{groups}");
            for one in all {
                let host = one["tags"]["host"].as_str().unwrap();
                let rest = rest.split(" SLIMIT").next().unwrap();
                let alone = format!(
                    "SELECT f, s FROM m WHERE {condition} AND host = '{host}' GROUP BY *{rest}"
                );
                assert_eq!(&ask(&store, &alone, false)["series"][0], one, "{groups}");
            }
        }
    }
    let whole = ask(&store, "SELECT count(f) FROM (SELECT f FROM m GROUP BY *)", true);
    assert_eq!(whole, ask(&store, "SELECT count(f) FROM m", true));
    let groups = ask(&store, "SELECT f FROM m GROUP BY *", true);
    assert_eq!(groups["series"].as_array().unwrap().len(), 70);
}

#[test]
fn the_first_of_many_fields_is_each_fields_own() {
    let fields = |of: &dyn Fn(usize) -> String| (0..70).map(of).collect::<Vec<_>>().join(",");
    let all = fields(&|at| format!("f{at:02}={at}.5"));
    let later = fields(&|at| format!("f{at:02}={at}.25"));
    let store = TestStore::with(&format!("m,h=a {all} 10\nm,h=b {all} 20\nm,h=a {later} 30\n"));
    let values = |query: &str, of: usize| {
        let answer = ask(&store, query, false);
        answer["series"][of]["values"][0].as_array().unwrap()[1..].to_vec()
    };
    for (function, tag, of) in [("first", "a", 0), ("last", "a", 0), ("last", "b", 1)] {
        let many = values(&format!("SELECT {function}(*) FROM m GROUP BY h"), of);
        let one = |at: usize| {
            values(&format!("SELECT {function}(f{at:02}) FROM m WHERE h = '{tag}'"), 0)[0].clone()
        };
        assert_eq!(many, (0..70).map(one).collect::<Vec<_>>(), "{function} of {tag}");
    }
}
