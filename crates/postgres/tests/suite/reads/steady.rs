//! What the planner calls steady gives the same in every transaction.

use std::time::{Duration, Instant};

use postgres::plan::Plan;
use rig::postgres::rows;

use super::*;

/// Builtins by what they are called with, on `plain`.
const STEADY: [&str; 40] = [
    "count(*)",
    "sum(id)",
    "min(b)",
    "max(at)",
    "avg(id)",
    "string_agg(b, ',')",
    "array_agg(id)",
    "json_agg(b)",
    "jsonb_object_agg(b, id)",
    "upper(b)",
    "abs(id)",
    "length(b)",
    "substring(b from 1 for 2)",
    "trim(b)",
    "replace(b, 'x', 'y')",
    "concat(b, id)",
    "format('%s', b)",
    "array_to_string(array[1, 2], ',')",
    "json_build_object('id', id)",
    "to_jsonb(b)",
    "coalesce(b, 'x')",
    "nullif(id, 1)",
    "greatest(id, 2)",
    "case when id = 1 then 'x' else b end",
    "id = 1",
    "id in (1, 2)",
    "id between 1 and 2",
    "b like 'b%'",
    "b ~ '^b'",
    "at < '2024-02-01'",
    "at + interval '1 day' > d",
    "extract(year from at)",
    "date_trunc('month', at)",
    "date '2024-01-01' = d",
    "id::text || b",
    "row_number() over (order by id)",
    "array[id]",
    "exists (select 1)",
    "(select max(id) from plain)",
    "current_user",
];

/// Builtins that tell of the transaction, its time, its snapshot, its id or its settings, or that
/// could.
const UNSTEADY: [&str; 40] = [
    "now()",
    "pg_catalog.now()",
    "\"now\"()",
    "transaction_timestamp()",
    "statement_timestamp()",
    "clock_timestamp()",
    "timeofday()",
    "current_date",
    "current_time",
    "current_timestamp",
    "localtime",
    "localtimestamp",
    "CURRENT_TIMESTAMP - at",
    "age(at)",
    "age(at, '2024-01-01')",
    "to_char(at, 'YYYY')",
    "to_timestamp('x', 'YYYY')",
    "at::date",
    "b::timestamptz",
    "('no' || 'w')::timestamptz",
    "'now'::text::timestamptz",
    "cast(b as timestamp with time zone)",
    "date(at)",
    "current_setting('transaction_isolation')",
    "set_config('a.b', 'c', true)",
    "pg_current_snapshot()",
    "pg_snapshot_xmax(pg_current_snapshot())",
    "pg_current_xact_id()",
    "pg_current_xact_id_if_assigned()",
    "txid_current()",
    "txid_current_if_assigned()",
    "txid_current_snapshot()",
    "pg_visible_in_snapshot('1', pg_current_snapshot())",
    "pg_xact_status('1')",
    "pg_export_snapshot()",
    "pg_advisory_xact_lock(1)",
    "random()",
    "nextval('numbers')",
    "pg_is_in_recovery()",
    "jsonb_populate_record(null::plain, '{\"at\": \"now\"}')",
];

/// A server with the catalogue of `steady.sql`, and a planner that has its facts.
fn start() -> (Cluster, Planner) {
    let cluster = Cluster::start();
    cluster.sql(include_str!("steady.sql"));
    let facts = planner_of(&cluster);
    (cluster, facts)
}

fn planner_of(cluster: &Cluster) -> Planner {
    planner(probe::facts(&mut cluster.connect().unwrap()))
}

fn is_steady(planner: &mut Planner, sql: &str) -> bool {
    let Plan { kind, steady, .. } = &*planner.plan(sql.as_bytes(), Scope::default());
    assert!(!steady || *kind == Kind::Read, "{sql}");
    *steady
}

#[test]
fn builtins_that_tell_of_the_transaction_are_not_steady_and_others_are() {
    let (cluster, mut planner) = start();
    for (call, steady) in
        STEADY.iter().map(|call| (call, true)).chain(UNSTEADY.iter().map(|call| (call, false)))
    {
        for sql in [
            format!("select {call} from plain"),
            format!("select 1 from plain x, (select {call} from plain) y"),
        ] {
            assert_eq!(is_steady(&mut planner, &sql), steady, "{sql}");
            assert!(!is_steady(&mut planner, &format!("explain {sql}")), "explain {sql}");
        }
        if steady {
            cluster.sql(&format!("select {call} from plain"));
        }
    }
    assert!(!is_steady(&mut planner, "show transaction_isolation"));
}

#[test]
fn what_users_made_is_steady_only_if_nothing_in_it_may_tell_of_the_transaction() {
    let (_cluster, mut planner) = start();
    for sql in [
        "select * from plain",
        "select * from parted",
        "select * from part",
        "table public.plain",
        "select * from stored",
        "with x as (select id from plain) select * from x",
        "select m, m = 'good' from moods where m in ('bad', 'good'::mood)",
        "select ms from moods where 'good' = any (ms)",
        "select 1::positive from counted",
        "select plus_one(id), total(id) from plain group by id",
        "select relname from pg_catalog.pg_class",
    ] {
        assert!(is_steady(&mut planner, sql), "{sql}");
    }
    for sql in [
        "select * from seen",
        "select * from plain join seen using (id)",
        "select * from guarded",
        "select * from remote",
        "select * from parted_far",
        "select * from pg_stat_activity",
        "select last_value from numbers",
        "select * from kept",
        "select * from dated",
        "select plain.age_of from plain",
        "select age_of(plain) from plain",
        "select calls_now()",
        "select says_immutable()",
        "select by_default()",
        "select by_word()",
        "select lower(b) from plain",
        "select at ### 1 from plain",
        "select at operator(public.###) 1 from plain",
        "select last_age(at) from plain",
        "select '2024-01-01'::past",
        "select past_day '2024-01-01'",
    ] {
        assert!(!is_steady(&mut planner, sql), "{sql}");
    }
}

#[test]
fn what_is_used_without_its_name_makes_nothing_steady_if_it_may_tell_of_the_transaction() {
    let cluster = Cluster::start();
    assert!(is_steady(&mut planner_of(&cluster), "select 1"));
    cluster.sql(
        "create function later(int) returns timestamptz language plpgsql stable
             as 'begin return now() + $1 * interval ''1 day''; end';
         create cast (int as timestamptz) with function later(int) as implicit",
    );
    let mut planner = planner_of(&cluster);
    assert!(!is_steady(&mut planner, "select 1"));
    assert_eq!(planner.plan(b"select 1", Scope::default()).kind, Kind::Read);
}

#[test]
fn nothing_is_steady_where_transactions_are_not_read_committed_by_default() {
    let cluster = Cluster::start();
    cluster.sql("create role someone");
    let look = || {
        let state = cluster.value(Facts::state_query());
        (is_steady(&mut planner_of(&cluster), "select 1"), state)
    };
    let database = cluster.value("select current_database()");
    let set = "set default_transaction_isolation = 'repeatable read'";
    let mut before = look();
    assert!(before.0);
    cluster.sql("alter role someone set work_mem = '5MB'");
    cluster.sql("create database other");
    cluster.sql(&format!("alter database other {set}"));
    assert_eq!(look().0, before.0);
    before = look();
    for (change, undo) in [
        (
            format!("alter database {database} {set}"),
            format!("alter database {database} reset all"),
        ),
        (format!("alter role someone {set}"), "alter role someone reset all".into()),
        (
            format!("alter role someone in database {database} {set}"),
            format!("alter role someone in database {database} reset all"),
        ),
        (format!("alter role all {set}"), "alter role all reset all".into()),
    ] {
        cluster.sql(&change);
        let after = look();
        assert!(!after.0, "{change}");
        assert_ne!(before.1, after.1, "{change}");
        cluster.sql(&undo);
        assert_eq!(look(), before, "{undo}");
    }
    // For all, in the server's configuration.
    cluster.sql(&format!("alter system {set}"));
    cluster.reload();
    wait(|| !look().0);
    assert_ne!(before.1, look().1);
    cluster.sql("alter system reset default_transaction_isolation");
    cluster.reload();
    wait(|| look() == before);
}

fn wait(holds: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !holds() {
        assert!(Instant::now() < end);
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Whatever the statement is: what is called steady gives in one transaction what it gives in
/// another one, which began earlier and has a snapshot.
#[test]
fn no_steady_read_gives_something_else_in_another_transaction() {
    let scene = Scene::start();
    let mut planner = planner(scene.facts());
    let mut client = scene.cluster.connect().unwrap();
    client.batch_execute("set statement_timeout = '5s'").unwrap();
    let mut other = scene.cluster.connect().unwrap();
    other.batch_execute("set statement_timeout = '5s'; begin; select 1 from t").unwrap();
    let (mut same, mut wrong) = (0, Vec::new());
    for sql in corpus::reads().chain(corpus::traps()).chain(generated::queries(3000)) {
        if !is_steady(&mut planner, &sql) {
            continue;
        }
        let outside = rows(&mut client, &sql);
        other.batch_execute("savepoint before").unwrap();
        let inside = rows(&mut other, &sql);
        other.batch_execute("rollback to before").unwrap();
        match (outside, inside) {
            (Ok(outside), Ok(inside)) if outside == inside => same += 1,
            (Ok(outside), Ok(inside)) => wrong.push(format!("{sql}: {outside:?} {inside:?}")),
            _ => {}
        }
    }
    assert!(wrong.is_empty(), "called steady:\n  {}", wrong.join("\n  "));
    assert!(same > 200, "only {same} ran: too few to say anything");
}
