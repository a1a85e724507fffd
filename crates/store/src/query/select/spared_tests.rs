//! What is known without reading says the same as the points.

use std::fmt::Write as _;
use std::ops::ControlFlow;

use wire::influxql::ast::Statement;
use wire::influxql::{Params, parse};

use super::run;
use crate::query::context::{Cancel, Context, Limits};
use crate::query::results::{Message, Rows, Sink};
use crate::refusal::QueryError;
use crate::store::testing::TestStore;

#[derive(Default)]
struct CollectedRows(Vec<String>);

impl Sink for CollectedRows {
    fn rows(&mut self, rows: Rows) -> ControlFlow<()> {
        self.0.push(format!("{:?} {:?}", rows.tags, rows.values));
        ControlFlow::Continue(())
    }

    fn message(&mut self, _: Message) {}
}

/// The answer, for which so many points may be read.
fn ask(store: &TestStore, query: &str, points: u64) -> Result<Vec<String>, QueryError> {
    let statements = parse(query, &Params::default()).unwrap();
    let mut context = Context::new("db", 1 << 60);
    context.limits = Limits { max_select_point: points, ..Limits::default() };
    context.cancel = Cancel::new(&context.limits);
    let mut taken = CollectedRows::default();
    for statement in &statements {
        let Statement::Select(select) = statement else { panic!("{query}") };
        run(&store.snapshot(), select, &context, &mut taken)?;
    }
    Ok(taken.0)
}

/// Numbers that are anything but in order.
fn noise(n: i64) -> i64 {
    (n.wrapping_mul(0x9e37_79b9_7f4a_7c15_u64 as i64) >> 40) % 100_000
}

/// Points `from..to` of host h, `more` added to their values; each 64th lacks some fields, and the
/// times are steady or not.
fn lines(h: u32, points: std::ops::Range<i64>, more: i64) -> String {
    let mut text = String::new();
    for n in points {
        let time = n * 1_000 + if h == 0 { 0 } else { noise(n).abs() % 900 };
        let value = noise(n + i64::from(h)) + more;
        let _ = write!(text, "m,h={h} z=1i,s=\"{value}\",i={value}i");
        if n % 64 != 3 {
            let _ = write!(text, ",f={value}.5,u={}u,b={}", value.abs(), value % 2 == 0);
        }
        let _ = writeln!(text, " {time}");
    }
    text
}

const CALLS: [&str; 11] = [
    "max(i)",
    "min(i)",
    "count(i)",
    "max(f)",
    "min(u), count(u)",
    "max(i), min(i), count(i)",
    "count(s)",
    "count(b)",
    "max(b)",
    "max(f), s, h",
    "min(f), max(i)",
];

const TIMES: [&str; 5] = [
    "",
    "time >= 4000000 AND time < 21000000",
    "time > 12000005 AND time <= 12007500",
    "time >= 200000000",
    "h = '1' AND time < 16000000",
];

const REST: [&str; 4] =
    ["", " GROUP BY h", " ORDER BY time DESC", " GROUP BY time(7ms) FILL(none) LIMIT 9"];

/// Asks in many ways, each beside a query that has to read all.
fn compare(store: &TestStore) {
    for (at, call) in CALLS.iter().enumerate() {
        for (times, rest) in TIMES.iter().zip(REST.iter().cycle().skip(at)) {
            let (only, and) = if times.is_empty() { ("", "") } else { (" WHERE ", " AND ") };
            let spared = format!("SELECT {call} FROM m{only}{times}{rest}");
            let whole = format!("SELECT {call} FROM m WHERE z = 1{and}{times}{rest}");
            assert_eq!(ask(store, &spared, 0), ask(store, &whole, 0), "{spared}");
        }
    }
}

fn all(range: std::ops::Range<i64>, more: i64) -> String {
    lines(0, range.clone(), more) + &lines(1, range, more)
}

#[test]
fn what_is_not_read_changes_no_answer() {
    let store = TestStore::new();
    store.write(&all(0..17_000, 0));
    compare(&store);
    store.store.flush().unwrap();
    compare(&store);
    // Neighbours that share times at their edges, with points that are written again.
    store.write(&all(16_900..26_000, 1));
    store.store.flush().unwrap();
    compare(&store);
    // Greatest values that are written again as smaller ones, in files and in memory.
    store.write(&all(5_000..5_100, 500_000));
    store.store.flush().unwrap();
    store.write(&all(4_990..5_090, 0));
    compare(&store);
    store.store.flush().unwrap();
    store.run("DELETE FROM m WHERE time >= 5095000 AND time < 9000000").unwrap();
    compare(&store);
    store.run("DELETE FROM m WHERE h = '1' AND time >= 20000000").unwrap();
    store.write(&all(25_000..25_010, -500_000));
    compare(&store);
    store.store.flush().unwrap();
    store.store.compact().unwrap();
    compare(&store.reopened());
}

#[test]
fn statistics_spare_reading() {
    let store = TestStore::new();
    store.write(&lines(0, 0..60_000, 0));
    store.store.flush().unwrap();
    let read = |query: &str, points: u64| ask(&store, query, points).map(|rows| rows.len());
    assert_eq!(read("SELECT count(i) FROM m", 1), Ok(1));
    assert_eq!(read("SELECT count(s) FROM m WHERE time >= 5000000 AND time < 44000000", 1), Ok(1));
    assert_eq!(read("SELECT count(f) FROM m", 1), Ok(1));
    assert_eq!(read("SELECT max(i), count(i) FROM m", 10_000), Ok(1));
    assert_eq!(read("SELECT min(f), s FROM m GROUP BY h", 10_000), Ok(1));
    // Each of these has to read all.
    for query in [
        "SELECT mean(i) FROM m",
        "SELECT max(i), sum(i) FROM m",
        "SELECT count(s) FROM m WHERE z = 1",
    ] {
        assert!(read(query, 50_000).is_err(), "{query}");
    }
    // What was deleted, or lies in two files, has to be counted.
    store.run("DELETE FROM m WHERE time >= 1000000 AND time < 2000000").unwrap();
    assert!(read("SELECT count(i) FROM m", 1).is_err());
    assert_eq!(read("SELECT count(i) FROM m", 10_000), Ok(1));
    store.write(&lines(0, 50_000..50_001, 0));
    assert!(read("SELECT count(i) FROM m", 10_000).is_err());
    assert_eq!(read("SELECT count(i) FROM m", 20_000), Ok(1));
    assert_eq!(read("SELECT max(i) FROM m", 10_000), Ok(1));
}
