//! Queries over a small store, with what a real InfluxDB answers them.

use std::ops::ControlFlow;

use wire::influxql::ast::Statement;
use wire::influxql::{Params, parse};

use super::run;
use crate::query::context::Context;
use crate::query::results::{Message, Rows, Sink, Value};
use crate::store::testing::TestStore;

/// Takes rows and shows them as InfluxDB's JSON does.
#[derive(Default)]
struct Taken(Vec<serde_json::Value>);

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

impl Sink for Taken {
    fn rows(&mut self, rows: Rows) -> ControlFlow<()> {
        let mut series = serde_json::json!({
            "name": rows.name,
            "columns": rows.columns.to_vec(),
            "values": rows.values.iter().map(|row| row.iter().map(json).collect()).collect::<Vec<serde_json::Value>>(),
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
    let mut taken = Taken::default();
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
