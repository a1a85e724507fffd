use store::query::context::{Context, Limits};
use store::query::encode::{self, Format};
use wire::influxql::ast::{Select, Statement};

use super::documents::Documents;
use super::*;
use crate::front::live::RowBounds;
use crate::placement::QueryScope;

const SCOPE: QueryScope<'_> = QueryScope { db: "db", now_ns: 1_000 };

fn select(sql: &str) -> Select {
    let parsed = wire::influxql::parse(sql, &wire::influxql::Params::default()).unwrap();
    match parsed.into_iter().next() {
        Some(Statement::Select(select)) => *select,
        other => panic!("{sql}: {other:?}"),
    }
}

fn plan(sql: &str) -> FetchPlan {
    FetchPlan::of(&select(sql), SCOPE).unwrap()
}

#[test]
fn members_are_asked_for_the_points_alone() {
    for (sql, wanted) in [
        (
            "SELECT percentile(v, 90) FROM m WHERE host = 'a' AND time >= 5 GROUP BY time(10ns)",
            "SHOW RETENTION POLICIES ON db; SHOW FIELD KEYS ON db FROM m; \
             SELECT v::field FROM m WHERE time >= 5 AND time <= 1000 AND (host = 'a') GROUP BY *",
        ),
        (
            "SELECT * FROM other.rp./m/ ORDER BY time DESC LIMIT 3",
            "SHOW RETENTION POLICIES ON other; SHOW FIELD KEYS ON other FROM rp./m/; \
             SHOW TAG KEYS ON other FROM rp./m/; \
             SELECT *::field FROM other.rp./m/ GROUP BY * ORDER BY time DESC LIMIT 3",
        ),
        (
            "SELECT max(x) FROM (SELECT v AS x FROM m WHERE w > 1) WHERE time < 9",
            "SHOW RETENTION POLICIES ON db; SHOW FIELD KEYS ON db FROM m; \
             SELECT v::field FROM m WHERE time <= 8 AND (w > 1) GROUP BY *",
        ),
        ("SELECT host::tag FROM m", "SHOW RETENTION POLICIES ON db"),
    ] {
        assert_eq!(plan(sql).text(), wanted, "{sql}");
    }
    let nowhere = QueryScope { db: "", now_ns: 0 };
    let error = FetchPlan::of(&select("SELECT v FROM m"), nowhere).unwrap_err();
    assert_eq!(error, "database name required");
}

/// A member's answer to [`plan`] of a query of `v` in `m`.
fn member(of: &str, points: &str) -> Documents {
    Documents::of_text(&format!(
        "{{\"results\":[{{\"statement_id\":0,\"series\":[{{\"columns\":[\"name\",\"duration\",\
         \"shardGroupDuration\",\"replicaN\",\"default\"],\"values\":[[\"autogen\",\"0s\",\
         \"168h0m0s\",1,true]]}}]}}]}}\n\
         {{\"results\":[{{\"statement_id\":1,\"series\":[{{\"name\":\"m\",\
         \"columns\":[\"fieldKey\",\"fieldType\"],\"values\":[[\"v\",\"{of}\"]]}}]}}]}}\n{points}"
    ))
}

fn points(host: &str, rows: &str) -> String {
    format!(
        "{{\"results\":[{{\"statement_id\":2,\"series\":[{{\"name\":\"m\",\"tags\":{{\"host\":\
         \"{host}\",\"rack\":\"\"}},\"columns\":[\"time\",\"v\"],\"values\":{rows}}}]}}]}}\n"
    )
}

/// What the executor answers on members' answers.
fn answer(sql: &str, members: Vec<Documents>, rows_max: u64, limits: Limits) -> String {
    streamed_answer(sql, members, Vec::new(), (RowBounds { rows_max, held_max: 100 }, limits))
}

/// The same, where members may be asked once more.
fn streamed_answer(
    sql: &str,
    members: Vec<Documents>,
    again: Vec<Documents>,
    (bounds, limits): (RowBounds, Limits),
) -> String {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let mut context = Context::new("db", SCOPE.now_ns);
    context.cancel = store::query::context::Cancel::new(&limits);
    let plan = plan(sql);
    let fetch = match runtime.block_on(gather(&plan, members, bounds, &context)) {
        Ok(FetchOutcome::Held(points)) => Fetch::Held(Box::new(plan.select().clone()), points),
        Ok(FetchOutcome::Streamed(raw)) => {
            let (cancel, control) = (&context.cancel, runtime.handle());
            let points = |member| MemberPoints::of(member, &raw, cancel, control);
            let members = again.into_iter().map(points).collect();
            Fetch::Streamed(raw, members)
        }
        Ok(FetchOutcome::ByPoints) => panic!("{sql} is asked by points"),
        Err(error) => Fetch::Failed(error),
    };
    written(fetch, &context)
}

/// The answer as it is written.
fn written(fetch: Fetch, context: &Context) -> String {
    let (sender, pieces) = std::sync::mpsc::channel();
    let out: encode::Out = Box::new(move |bytes| {
        let _ = sender.send(bytes);
        std::ops::ControlFlow::Continue(())
    });
    let mut encoder = encode::new(Format::default(), out);
    let run = fetch.run(0, context, encoder.as_mut());
    assert!(futures_util::FutureExt::now_or_never(run).is_some(), "it is held up by nothing");
    let _ = encoder.finish();
    assert_eq!(context.cancel.memory(), 0, "memory is given back");
    drop(encoder);
    pieces.iter().map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).collect()
}

fn merged_plan(sql: &str) -> Option<FetchPlan> {
    plan(sql).merged(&select(sql), SCOPE)
}

#[test]
fn members_are_asked_for_partial_results_where_these_are_enough() {
    let schema = "SHOW RETENTION POLICIES ON db; SHOW FIELD KEYS ON db FROM m; ";
    for (sql, wanted) in [
        (
            "SELECT mean(v) * 2, count(v) FROM m WHERE host = 'a' AND time >= 5 \
             GROUP BY time(10ns), host fill(linear) SLIMIT 2",
            "SELECT sum(v) AS p0, count(v) AS p1 FROM m WHERE time >= 5 AND time <= 1000 AND \
             (host = 'a') GROUP BY time(10ns), host fill(none)",
        ),
        (
            "SELECT derivative(spread(v)), count(distinct(w)) FROM m WHERE time >= 50 \
             GROUP BY time(10ns)",
            "SELECT distinct(w) AS p0 FROM m WHERE time >= 50 AND time <= 1000 \
             GROUP BY time(10ns) fill(none); \
             SELECT min(v) AS p0, max(v) AS p1 FROM m WHERE time >= 40 AND time <= 1000 \
             GROUP BY time(10ns) fill(none)",
        ),
        // A window that is among the first of all is among the first of a set.
        (
            "SELECT max(v) + 1 FROM m WHERE time >= 50 GROUP BY time(1h) LIMIT 3 OFFSET 2",
            "SELECT max(v) AS p0 FROM m WHERE time >= 50 AND time <= 1000 \
             GROUP BY time(1h) fill(none) LIMIT 5",
        ),
        (
            "SELECT cumulative_sum(sum(v)) FROM m WHERE time >= 50 GROUP BY time(1h) LIMIT 3",
            "SELECT sum(v) AS p0 FROM m WHERE time >= 50 AND time <= 1000 \
             GROUP BY time(1h) fill(none)",
        ),
        ("SELECT 1 + max(v) FROM m", "SELECT max(v) AS p0 FROM m"),
    ] {
        assert_eq!(merged_plan(sql).unwrap().text(), format!("{schema}{wanted}"), "{sql}");
    }
    for sql in ["SELECT max(v), host FROM m", "SELECT distinct(v) FROM m", "SELECT v FROM m"] {
        assert_eq!(merged_plan(sql), None, "{sql}");
    }
    // Points are asked for as if there had been no partial results.
    let sql = "SELECT mean(v) * 2 FROM m";
    assert_eq!(merged_plan(sql).unwrap().by_points(), plan(sql));
}

/// A member's answer to a plan of one statement about partial results.
fn parts(of: &str, rows: &str) -> Documents {
    let points = points("a", rows).replace("\"v\"]", "\"p0\",\"p1\"]");
    member(of, &points)
}

/// What the executor answers on what partial results come to; `None` where points are needed.
fn merged_answer(sql: &str, members: Vec<Documents>, bounds: RowBounds) -> Option<String> {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let context = Context::new("db", SCOPE.now_ns);
    let plan = merged_plan(sql).unwrap();
    let fetch = match runtime.block_on(gather(&plan, members, bounds, &context)) {
        Ok(FetchOutcome::Held(points)) => Fetch::Held(Box::new(plan.select().clone()), points),
        Ok(FetchOutcome::ByPoints) => return None,
        Ok(FetchOutcome::Streamed(_)) => panic!("{sql} has no points"),
        Err(error) => Fetch::Failed(error),
    };
    Some(written(fetch, &context))
}

#[test]
fn a_query_runs_on_what_partial_results_come_to() {
    let bounds = RowBounds { rows_max: 10, held_max: 0 };
    let of = |of: &str, sql: &str, one: &str, other: &str| {
        let members = vec![parts(of, one), parts(of, other)];
        let answer = merged_answer(sql, members, bounds).unwrap();
        answer.split_once("\"values\":").map_or(answer.clone(), |(_, rows)| rows.to_owned())
    };
    let windows = "FROM m WHERE time >= 5 AND time < 40 GROUP BY time(10ns)";
    let time = |ns: u32| format!("\"1970-01-01T00:00:00{}Z\"", nanoseconds(ns));
    // The first window begins before the time that is asked for; the mean counts the points.
    let means =
        of("float", &format!("SELECT mean(v) * 2 {windows}"), "[[0,6,3],[20,1,1]]", "[[0,4,1]]");
    let wanted = [(0, "5"), (10, "null"), (20, "2"), (30, "null")];
    let rows = wanted.map(|(ns, value)| format!("[{},{value}]", time(ns))).join(",");
    assert!(means.starts_with(&format!("[{rows}]")), "{means}");
    // Windows without points have none to count.
    let counts = of("string", &format!("SELECT count(v) + 1 {windows}"), "[[10,2]]", "[[10,1]]");
    let rows = [(0, 1), (10, 4), (20, 1), (30, 1)];
    let rows = rows.map(|(ns, value)| format!("[{},{value}]", time(ns))).join(",");
    assert!(counts.starts_with(&format!("[{rows}]")), "{counts}");
    // Of equal points the earliest counts, and has its own time.
    let largest = of("integer", "SELECT max(v) / 2 FROM m", "[[7,3]]", "[[3,3]]");
    assert!(largest.starts_with(&format!("[[{},1.5]]", time(3))), "{largest}");
    let spread = of("integer", "SELECT spread(v) + 0 FROM m", "[[0,-4,3]]", "[[0,1,9]]");
    assert!(spread.starts_with(&format!("[[{},13]]", time(0))), "{spread}");
    let sum = of("integer", "SELECT sum(v) + 0 FROM m", "[[0,9223372036854775807]]", "[[0,2]]");
    assert!(sum.contains(",-9223372036854775807]"), "whole numbers wrap around: {sum}");
    let distinct = of(
        "float",
        "SELECT count(distinct(v)) FROM m",
        "[[0,1],[0,-0.0],[0,2.5]]",
        "[[0,0],[0,2.5],[0,3]]",
    );
    assert!(distinct.starts_with(&format!("[[{},4]]", time(0))), "{distinct}");
}

#[test]
fn where_partial_results_are_not_certain_points_are_asked_for() {
    let bounds = RowBounds { rows_max: 2, held_max: 0 };
    let sql = "SELECT sum(v) + 1 FROM m";
    let answer = |sql: &str, one: &str, other: &str| {
        let members = vec![parts(one, "[[0,1],[1,1]]"), parts(other, "[[0,2]]")];
        merged_answer(sql, members, bounds)
    };
    assert_eq!(answer(sql, "integer", "float"), None);
    assert_eq!(answer(sql, "string", "string"), None);
    assert_eq!(answer(sql, "unsigned", "unsigned"), None);
    assert_eq!(answer("SELECT count(v) + 1 FROM m", "integer", "string"), None);
    assert_eq!(answer("SELECT sum(w) + 1 FROM m", "integer", "integer"), None);
    let refused = "{\"results\":[{\"statement_id\":2,\"error\":\"no such iterator\"}]}\n";
    assert_eq!(merged_answer(sql, vec![member("float", refused)], bounds), None);
    let over = answer(sql, "float", "float").unwrap();
    assert!(over.contains("more than 2 points"), "{over}");
    let torn = merged_answer(sql, vec![parts("float", "[[0,\"x\"]]")], bounds).unwrap();
    assert!(torn.contains("cannot be read"), "{torn}");
}

/// The part of a second, as a time is written.
fn nanoseconds(ns: u32) -> String {
    let digits = format!(".{ns:09}");
    digits.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[test]
fn a_query_runs_on_the_points_of_all_members() {
    let members = || {
        vec![
            member("float", &(points("a", "[[1,4],[5,1.5]]") + &points("c", "[[2,null]]"))),
            member("float", &points("b", "[[3,2]]")),
        ]
    };
    let all = answer("SELECT v, host FROM m", members(), 10, Limits::default());
    let first = r#"["1970-01-01T00:00:00.000000001Z",4,"a"]"#;
    assert!(all.contains(first) && all.contains(r#",2,"b"]"#), "{all}");
    assert!(all.find("\"b\"") < all.rfind("\"a\""), "by time: {all}");
    let median = answer("SELECT median(v) FROM m", members(), 10, Limits::default());
    assert!(median.contains("[\"1970-01-01T00:00:00Z\",2]"), "{median}");
}

#[test]
fn a_type_is_the_first_of_those_that_members_have() {
    let members = || {
        vec![member("integer", &points("a", "[[1,4]]")), member("float", &points("b", "[[2,1.5]]"))]
    };
    let sum = answer("SELECT sum(v) FROM m", members(), 10, Limits::default());
    assert!(sum.contains(",5.5]"), "{sum}");
}

#[test]
fn of_several_kinds_of_values_the_first_is_taken_unless_the_query_names_one() {
    let members = |of: &str, rows: &str| {
        vec![member(of, &points("a", rows)), member("string", &points("b", "[[2,\"x\"]]"))]
    };
    let both = || members("float", "[[1,1.5]]");
    let first = answer("SELECT v FROM m", both(), 10, Limits::default());
    assert!(first.contains("1.5") && !first.contains("\"x\""), "{first}");
    let named = answer("SELECT v::string FROM m", members("float", "[]"), 10, Limits::default());
    assert!(named.contains("\"x\""), "{named}");
    // The field is a float at other times.
    let failed = answer("SELECT v FROM m", members("float", "[]"), 10, Limits::default());
    assert!(failed.contains("of several types: name one"), "{failed}");
}

#[test]
fn limits_and_broken_answers_are_errors() {
    let two = || vec![member("float", &points("a", "[[1,4],[5,1.5]]"))];
    let over = answer("SELECT v FROM m", two(), 1, Limits::default());
    assert!(over.contains("more than 1 points") && over.contains("limit its time"), "{over}");
    let limits = Limits { memory: units::Size::from_bytes(8), ..Limits::default() };
    let over = answer("SELECT median(v) FROM m", two(), 10, limits);
    assert!(over.contains("memory limit") && over.contains("query-memory"), "{over}");
    let error = "{\"results\":[{\"statement_id\":2,\"error\":\"no luck\"}]}\n";
    let failed = answer("SELECT v FROM m", vec![member("float", error)], 10, Limits::default());
    assert!(failed.contains("no luck"), "{failed}");
    let cut = points("a", "[[1,4]]").replace("}]}]}\n", "}],\"partial\":true}]}\n");
    let failed = answer("SELECT v FROM m", vec![member("float", &cut)], 10, Limits::default());
    assert!(failed.contains("broke off"), "{failed}");
    let failed = answer("SELECT v FROM m", vec![member("float", "{\"res")], 10, Limits::default());
    assert!(failed.contains("cannot be read"), "{failed}");
}

#[test]
fn texts_and_damaged_rows_are_read_as_they_are() {
    let rows = r#"[[1,"a \\ \" b"],["x","lost"],[2],[],[3,7]]"#;
    let members = vec![member("string", &points("a", rows))];
    let all = answer("SELECT v FROM m", members, 10, Limits::default());
    assert!(all.contains(r#""a \\ \" b""#) && !all.contains("lost"), "{all}");
}

#[test]
fn points_that_pass_through_are_asked_for_in_the_order_of_the_answer() {
    let text = |sql: &str| {
        let mut schema = store::Gathered::default();
        schema.add_policy("db", "autogen", 3600, true);
        let policy = schema.policy("db", "").unwrap();
        schema.add_field(policy, "m", ("v", store::schema::FieldType::Integer)).unwrap();
        schema.add_tag_key(policy, "m", "host").unwrap();
        let context = Context::new("db", SCOPE.now_ns);
        let raw = store::query::select::RawSelect::of(&schema.snapshot(), &select(sql), &context);
        plan(sql).streamed_text(&raw.unwrap().unwrap())
    };
    assert_eq!(
        text("SELECT * FROM m WHERE time > 5 AND v > 1 LIMIT 3 OFFSET 2"),
        "SELECT host::tag, v::integer FROM m WHERE time >= 6 AND (v > 1) LIMIT 5"
    );
    assert_eq!(
        text("SELECT v / 2 FROM m GROUP BY * ORDER BY time DESC"),
        "SELECT v::integer FROM m GROUP BY host ORDER BY time DESC"
    );
    let of_groups = plan("SELECT v FROM m GROUP BY *").at_once().unwrap();
    assert_eq!(of_groups.streaming(), Streaming::AtOnce);
    let schema = "SHOW RETENTION POLICIES ON db; SHOW FIELD KEYS ON db FROM m; \
                  SHOW TAG KEYS ON db FROM m";
    assert_eq!(of_groups.text(), schema);
    assert_eq!(plan("SELECT max(v) FROM m GROUP BY *").at_once(), None);
}

#[test]
fn many_points_pass_through_in_the_order_of_time() {
    let many = || member("float", &points("a", "[[1,4],[2,4],[3,4],[4,4]]"));
    let part = |rows: &str, partial: &str| {
        format!(
            "{{\"results\":[{{\"statement_id\":0,\"series\":[{{\"name\":\"m\",\"columns\":\
             [\"time\",\"v\"],\"values\":{rows}{partial}}}]{partial}}}]}}\n"
        )
    };
    let partial = ",\"partial\":true";
    let again = |last: &str| {
        let one = part("[[1,4],[5,1.5]]", partial) + &part("[[7,null],[\"x\",1],[8,2]]", last);
        let other = part("[[3,9],[6,7]]", "");
        vec![Documents::of_text(&one), Documents::of_text(&other)]
    };
    let limits = || (RowBounds { rows_max: 10, held_max: 3 }, Limits::default());
    let sql = "SELECT v FROM m";
    let all = streamed_answer(sql, vec![many()], again(""), limits());
    let times: Vec<&str> = all.split("00000000").skip(1).map(|rest| &rest[..5]).collect();
    assert_eq!(times, ["1Z\",4", "3Z\",9", "5Z\",1", "6Z\",7", "7Z\",n", "8Z\",2"], "{all}");
    let cut = streamed_answer(sql, vec![many()], again(partial), limits());
    assert!(cut.contains("broke off"), "{cut}");
    let limited = streamed_answer("SELECT v FROM m LIMIT 2", vec![many()], again(""), limits());
    assert!(limited.contains("3Z") && !limited.contains("5Z"), "{limited}");
    // A tag that the schema at hand does not know is one all the same.
    let tagged = part("[[1,\"r1\",4]]", "").replace("\"v\"]", "\"rack\",\"v\"]");
    let again = vec![Documents::of_text(&tagged)];
    let tagged = streamed_answer("SELECT v, rack FROM m", vec![many()], again, limits());
    assert!(tagged.contains("4,\"r1\"]"), "{tagged}");
    // As few points as are held are put in order by the executor.
    let few = member("float", &points("a", "[[1,4]]"));
    assert!(streamed_answer(sql, vec![few], Vec::new(), limits()).contains("1Z\",4]"));
}

#[test]
fn a_member_has_begun_once_its_first_document_is_here() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let begun = |text: &str| {
        let mut documents = Documents::of_text(text);
        let begun = runtime.block_on(documents.begin());
        begun.map(|()| runtime.block_on(documents.next()).map(|next| next.map(|of| of.len())))
    };
    assert_eq!(begun("{\"results\":[{}]}\n{\"results\":[]}\n"), Ok(Ok(Some(1))));
    assert_eq!(begun("{\"results\":[{},{}]}"), Ok(Ok(Some(2))));
    assert_eq!(begun(""), Err("it answered nothing".to_owned()));
}
