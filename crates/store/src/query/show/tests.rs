//! What influxd 1.6.7 answers to the same.

use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};

use crate::query::context::Context;
use crate::query::encode::{Format, new};
use crate::testing::TestStore;
use wire::influxql::ast::{Show, ShowClauses, Statement};

fn store() -> TestStore {
    let store = TestStore::with(concat!(
        "cpu,core=0,host=a,region=eu usage=1,count=1i 1577836800000000000\n",
        "cpu,core=0,host=d usage=2 1577836800000000000\n",
        "cpu,core=1,host=b,region=eu usage=3,note=\"x\" 1577836810000000000\n",
        "cpu,host=c,region=us usage=4,ok=true 1577836820000000000\n",
        "mem,host=a free=1 1577836800000000000\n",
        "mem,host=b used=2i 1609459200000000000\n",
        "floats v=1 1577836800000000000\n",
        "odd\\ name\\,x,tag\\ key\\==a\\ b v=1 1577836800000000000\n",
    ));
    let policy = wire::influxql::ast::PolicySpec {
        name: Some("r2".to_owned()),
        duration_ns: Some(0),
        ..Default::default()
    };
    store.change(&Statement::CreateRetentionPolicy { db: "db".to_owned(), policy });
    store.write_to("db", "r2", "only2,host=z w=1 1577836800000000000\n");
    store
}

/// The document of an answer, without what is around the series.
pub(super) fn answer(store: &TestStore, query: &str) -> String {
    answer_in(store, query, "db")
}

fn answer_in(store: &TestStore, query: &str, db: &str) -> String {
    let statements = wire::influxql::parse(query, &Default::default()).unwrap();
    let all = Arc::new(Mutex::new(Vec::new()));
    let into = Arc::clone(&all);
    let take = move |piece: bytes::Bytes| {
        into.lock().unwrap().extend_from_slice(&piece);
        ControlFlow::Continue(())
    };
    let mut encoder = new(Format::default(), Box::new(take));
    let context = Context::new(db, 1_700_000_000_000_000_000);
    crate::query::run(&store.store, &statements, &context, &mut *encoder, &mut |_| Ok(()));
    let text = String::from_utf8(all.lock().unwrap().clone()).unwrap();
    let text = text.trim_end().strip_prefix("{\"results\":[{\"statement_id\":0").unwrap();
    let text = text.strip_suffix("}]}").unwrap();
    text.trim_start_matches(',').to_owned()
}

/// The values of the only series of an answer.
fn values(store: &TestStore, query: &str) -> String {
    let text = answer(store, query);
    let (_, values) = text.split_once("\"values\":").unwrap_or(("", "none}]"));
    values.strip_suffix("}]").unwrap_or(values).to_owned()
}

#[test]
fn databases_and_policies() {
    let store = store();
    let databases = r#""series":[{"name":"databases","columns":["name"],"values":[["db"]]}]"#;
    assert_eq!(answer(&store, "SHOW DATABASES"), databases);
    let policies = values(&store, "SHOW RETENTION POLICIES ON db");
    let expected = r#"[["autogen","0s","168h0m0s",1,true],["r2","0s","168h0m0s",1,false]]"#;
    assert_eq!(policies, expected);
    let unknown = answer(&store, "SHOW RETENTION POLICIES ON nowhere");
    assert_eq!(unknown, r#""error":"database not found: nowhere""#);
}

#[test]
fn measurements_with_their_clauses() {
    let store = store();
    let names = |clauses: &str| values(&store, &format!("SHOW MEASUREMENTS {clauses}"));
    let all = r#"[["cpu"],["floats"],["mem"],["odd name,x"],["only2"]]"#;
    assert_eq!(names(""), all);
    assert_eq!(names("WITH MEASUREMENT =~ /^[cm]/ LIMIT 1 OFFSET 1"), r#"[["mem"]]"#);
    assert_eq!(names("WHERE host = 'a'"), r#"[["cpu"],["mem"]]"#);
    assert_eq!(names("WHERE host != 'a'"), r#"[["only2"]]"#);
    assert_eq!(names("WHERE host = 'a' AND region = 'eu'"), r#"[["cpu"]]"#);
    assert_eq!(names("WHERE nothing = 'a'"), "none");
    let error = |clauses: &str| answer(&store, &format!("SHOW MEASUREMENTS {clauses}"));
    assert_eq!(error("WHERE usage > 5"), r#""error":"invalid tag comparison operator""#);
    let time = r#""error":"SHOW MEASUREMENTS doesn't support time in WHERE clause""#;
    assert_eq!(error("WHERE time > 0"), time);
    assert_eq!(
        error("WHERE host = 1"),
        r#""error":"right side of '=' must be a tag value string""#
    );
    assert_eq!(error("ON nowhere"), "");
    assert_eq!(answer_in(&store, "SHOW MEASUREMENTS", ""), r#""error":"database name required""#);
}

#[test]
fn tag_keys_with_their_clauses() {
    let store = store();
    let keys = |clauses: &str| values(&store, &format!("SHOW TAG KEYS {clauses}"));
    assert_eq!(keys("FROM cpu"), r#"[["core"],["host"],["region"]]"#);
    assert_eq!(keys("FROM cpu LIMIT 1 OFFSET 1"), r#"[["host"]]"#);
    assert_eq!(keys("FROM cpu WHERE host = 'd'"), r#"[["core"],["host"]]"#);
    assert_eq!(keys("FROM cpu WHERE host = 'nobody'"), "none");
    assert_eq!(keys("FROM floats"), "none");
    assert_eq!(keys("FROM only2"), r#"[["host"]]"#);
    assert_eq!(keys("FROM cpu WHERE time > now()"), "none");
    let error = answer(&store, "SHOW TAG KEYS FROM cpu WHERE usage > 50");
    assert_eq!(error, r#""error":"invalid tag comparison operator""#);
}

#[test]
fn tag_values_with_their_clauses() {
    let store = store();
    let of = |clauses: &str| values(&store, &format!("SHOW TAG VALUES {clauses}"));
    let hosts = r#"[["host","a"],["host","b"],["host","c"],["host","d"]]"#;
    assert_eq!(of("FROM cpu WITH KEY = host"), hosts);
    let some = r#"[["core","0"],["core","1"],["region","eu"],["region","us"]]"#;
    assert_eq!(of("FROM cpu WITH KEY != host"), some);
    assert_eq!(of("FROM cpu WITH KEY IN (region, core, nothing)"), some);
    let limited = r#"[["host","b"],["host","c"]]"#;
    assert_eq!(of("FROM cpu WITH KEY = host LIMIT 2 OFFSET 1"), limited);
    let filtered = r#"[["host","c"],["host","d"]]"#;
    assert_eq!(of("FROM cpu WITH KEY = host WHERE region != 'eu'"), filtered);
    assert_eq!(of("FROM cpu WITH KEY = host WHERE usage = 5"), hosts);
    assert_eq!(of("FROM cpu WITH KEY = host WHERE core = region"), "none");
    assert_eq!(of("WITH KEY = host WHERE _name = 'mem'"), r#"[["host","a"],["host","b"]]"#);
    let each = answer(&store, "SHOW TAG VALUES FROM cpu, mem WITH KEY = host LIMIT 1");
    let expected = concat!(
        r#""series":[{"name":"cpu","columns":["key","value"],"values":[["host","a"]]},"#,
        r#"{"name":"mem","columns":["key","value"],"values":[["host","a"]]}]"#
    );
    assert_eq!(each, expected);
}

#[test]
fn field_keys_and_series() {
    let store = store();
    let keys = values(&store, "SHOW FIELD KEYS FROM cpu LIMIT 2 OFFSET 1");
    assert_eq!(keys, r#"[["note","string"],["ok","boolean"]]"#);
    assert_eq!(values(&store, "SHOW FIELD KEYS FROM only2"), "none");
    assert_eq!(values(&store, "SHOW FIELD KEYS FROM r2.only2"), r#"[["w","float"]]"#);
    let series = |clauses: &str| values(&store, &format!("SHOW SERIES {clauses}"));
    let of_cpu = concat!(
        r#"[["cpu,core=0,host=a,region=eu"],["cpu,core=0,host=d"],"#,
        r#"["cpu,core=1,host=b,region=eu"],["cpu,host=c,region=us"]]"#
    );
    assert_eq!(series("FROM cpu"), of_cpu);
    assert_eq!(series("FROM \"odd name,x\""), r#"[["odd\\ name\\,x,tag\\ key\\==a\\ b"]]"#);
    assert_eq!(series("FROM only2"), "none");
    assert_eq!(series("FROM r2.only2"), r#"[["only2,host=z"]]"#);
    assert_eq!(series("FROM r2.cpu"), "none");
    assert_eq!(series("LIMIT 2 OFFSET 4"), r#"[["floats"],["mem,host=a"]]"#);
    assert_eq!(series("WHERE host = 'a'"), r#"[["cpu,core=0,host=a,region=eu"],["mem,host=a"]]"#);
    assert_eq!(series("FROM cpu WHERE time > 0"), of_cpu);
    assert_eq!(series("FROM mem WHERE time > '2020-06-01'"), r#"[["mem,host=b"]]"#);
    assert_eq!(series("FROM cpu WHERE time > 0 AND usage > 3"), "none");
    let error = answer(&store, "SHOW SERIES FROM db.nope.cpu");
    assert_eq!(error, r#""error":"retention policy not found: nope""#);
}

#[test]
fn show_with_a_time_names_what_is_in_the_partitions_of_that_time() {
    let day = 86_400_000_000_000_i64;
    let lines = [(5, "a"), (12, "b"), (19, "c")]
        .map(|(at, host)| format!("m,host={host},{host}=x v=1 {}\n", at * day));
    let store = TestStore::with(&lines.concat());
    let of = |query: &str| values(&store, query);
    let hosts = "SHOW TAG VALUES WITH KEY = host WHERE time";
    assert_eq!(of(&format!("{hosts} > 13d")), r#"[["host","b"],["host","c"]]"#);
    assert_eq!(of(&format!("{hosts} > 13d AND time < 14d")), r#"[["host","b"]]"#);
    assert_eq!(of(&format!("{hosts} > 13d AND b = 'x'")), r#"[["host","b"]]"#);
    assert_eq!(of(&format!("{hosts} > 30d")), "none");
    assert_eq!(of("SHOW TAG KEYS WHERE time > 18d"), r#"[["c"],["host"]]"#);
    assert_eq!(of("SHOW TAG KEYS FROM m WHERE time < 18d AND b = 'x'"), r#"[["b"],["host"]]"#);
    assert_eq!(of("SHOW SERIES WHERE time < 4d + 1s"), r#"[["m,a=x,host=a"]]"#);
    let groups = answer(&store, "SELECT v FROM m WHERE time > 13d AND time < 20d GROUP BY *");
    assert!(groups.contains(r#""tags":{"b":"","c":"x","host":"c"}"#), "{groups}");
}

#[test]
fn cardinalities_are_exact() {
    let store = store();
    let estimate = r#""series":[{"columns":["cardinality estimation"],"values":[[9]]}]"#;
    assert_eq!(answer(&store, "SHOW SERIES CARDINALITY"), estimate);
    assert_eq!(values(&store, "SHOW MEASUREMENT CARDINALITY"), "[[5]]");
    assert_eq!(values(&store, "SHOW SERIES CARDINALITY ON nowhere"), "[[0]]");
    let of_cpu = r#""series":[{"name":"cpu","columns":["count"],"values":[[4]]}]"#;
    assert_eq!(answer(&store, "SHOW SERIES EXACT CARDINALITY FROM cpu"), of_cpu);
    assert_eq!(values(&store, "SHOW MEASUREMENT EXACT CARDINALITY"), "[[4]]");
    assert_eq!(values(&store, "SHOW TAG KEY CARDINALITY FROM cpu"), "[[3]]");
    assert_eq!(values(&store, "SHOW TAG VALUES CARDINALITY FROM cpu WITH KEY IN (host)"), "[[4]]");
    assert_eq!(values(&store, "SHOW FIELD KEY CARDINALITY FROM cpu"), "[[4]]");
    let grouped = answer(&store, "SHOW SERIES EXACT CARDINALITY FROM mem GROUP BY host");
    assert!(grouped.contains(r#""tags":{"host":"a"},"columns":["count"],"values":[[1]]"#));
    let error = answer(&store, "SHOW TAG KEY CARDINALITY WHERE time > 0");
    let time = "SHOW TAG KEY EXACT CARDINALITY doesn't support time in WHERE clause";
    assert_eq!(error, format!("\"error\":\"{time}\""));
}

#[test]
fn what_the_store_does_not_have_is_empty() {
    let store = store();
    let users = r#""series":[{"columns":["user","admin"]}]"#;
    assert_eq!(answer(&store, "SHOW USERS"), users);
    assert_eq!(answer(&store, "SHOW SUBSCRIPTIONS"), "");
    let queries = r#""series":[{"name":"db","columns":["name","query"]}]"#;
    assert_eq!(answer(&store, "SHOW CONTINUOUS QUERIES"), queries);
    assert_eq!(answer(&store, "KILL QUERY 9"), r#""error":"no such query id: 9""#);
    let refused = answer(&store, "CREATE USER x WITH PASSWORD 'x'");
    assert!(refused.contains("the embedded store has no users"), "{refused}");
    let clauses = ShowClauses::default();
    assert_eq!(super::pieces(&Show::TagKeys(clauses)), crate::query::encode::Pieces::Series);
}

#[test]
fn a_get_that_changes_something_is_told_so() {
    let store = store();
    let statements =
        wire::influxql::parse("SELECT * INTO x FROM cpu", &Default::default()).unwrap();
    let mut context = Context::new("db", 0);
    context.get = true;
    let shown =
        crate::query::normalise::normalised(&statements[0], &store.store.snapshot(), &context);
    let message = crate::query::ddl::deprecated(&shown).unwrap().text;
    let expected = "deprecated use of 'SELECT * INTO db.autogen.x FROM db.autogen.cpu' in a read \
                    only context, please use a POST request instead";
    assert_eq!(message, expected);
    let refused = answer(&store, "SELECT * FROM _series");
    let expected = "unable to use system source '_series': use SHOW SERIES instead";
    assert_eq!(refused, format!("\"error\":\"{expected}\""));
}
