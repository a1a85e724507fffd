mod kinds;
mod leaves;
mod point;
mod sequences;
mod steady;

use std::sync::Arc;

use super::*;

/// A catalogue in a few lines: names that are steady, that are safe, and that are not.
fn facts() -> Arc<Facts> {
    let steady = [
        ("isolation", "default"),
        ("function", "lower count sum left upper unnest substring numeric"),
        ("relation", "t u pg_class"),
        ("operator", "= <> < > <= >= + - * / || -> ->> ~~ @>"),
        ("type", "int4 text regclass t u pg_class date"),
    ];
    let safe = [
        ("function", "now generate_series"),
        ("attribute", "fickle_of"),
        ("relation", "fickle_view"),
        ("operator", "###"),
        ("type", "fickle_domain"),
    ];
    let bad = [
        (
            "function",
            "nextval currval lastval setval random my_volatile pg_advisory_lock set_config",
        ),
        ("attribute", "my_volatile"),
        ("relation", "bad_view"),
        ("operator", "@@@"),
        ("type", "bad_domain"),
    ];
    let mut rows = Vec::new();
    for (list, mark) in [(&steady, "steady"), (&safe, "safe"), (&bad, "unsafe")] {
        for (what, names) in list {
            for name in names.split(' ') {
                rows.push([what.as_bytes(), name.as_bytes(), mark.as_bytes()]);
            }
        }
    }
    rows.push([b"table", b"t", b"id;a,b"]);
    rows.push([b"table", b"u", b""]);
    rows.push([b"table", b"loud", b"id"]);
    rows.push([b"quiet", b"t", b"steady"]);
    rows.push([b"quiet", b"u", b"steady"]);
    for (name, mark) in [
        ("set_config pg_advisory_lock sets_it audited pg_settings", "some"),
        ("setseed in_perl", "lasting"),
    ] {
        rows.extend(name.split(' ').map(|name| [b"leaves", name.as_bytes(), mark.as_bytes()]));
    }
    rows.push([b"leaves_operator", b"@@@", b"some"]);
    rows.push([b"leaves_text", b"", b"some"]);
    rows.push([b"draws", b"t", b"id:t_id_seq"]);
    rows.push([b"end", b"", b""]);
    Arc::new(Facts::load(rows).unwrap())
}

pub(crate) fn plan(sql: &str) -> std::rc::Rc<Plan> {
    Planner::new(facts(), 100).plan(sql.as_bytes(), Scope::default())
}

#[track_caller]
fn reads(statements: &[&str]) {
    for sql in statements {
        let plan = plan(sql);
        assert_eq!((&plan.kind, plan.reason), (&Kind::Read, Reason::Proven), "{sql}");
    }
}

#[track_caller]
fn refused(statements: &[(&str, Reason)]) {
    for (sql, reason) in statements {
        let plan = plan(sql);
        assert_ne!(plan.kind, Kind::Read, "{sql}");
        assert_eq!(plan.reason, *reason, "{sql}");
    }
}

#[test]
fn plain_queries_are_reads() {
    reads(&[
        "SELECT 1",
        "select * from t where id = $1",
        "SELECT a, b AS from, count(*) FROM public.t x WHERE x.a IN (1, 2, 3) GROUP BY 1 LIMIT 5",
        "select t.a, u.b from t join u on t.id = u.id left join t v using (id), u w where 1 < 2;",
        "with x as (select 1), y (a) as materialized (select * from x) select * from y, x",
        "(select 1) union all (select a from t order by 1 limit 1)",
        "select exists (select 1 from t), array(select a from u), (select now())",
        "values (1, 2), (3, 4)",
        "table t",
        "select extract(year from a), substring(b from 1 for 2), trim(both from b) from t",
        "select a is distinct from b from t where a is not distinct from b",
        "select cast(a as numeric(10, 2)), a::int, a::text[], 'x'::regclass from t",
        "select a from (t join u on true) where b between 1 and 2",
        "select g.x from generate_series(1, 3) as g(x), lateral (select g.x) l, only (t)",
        "explain select 1",
        "explain (costs off, format json) select * from t",
        "select case when a = 1 then 'x' else 'y' end from t",
        "/* hello */ select 1 -- bye",
        "select coalesce(a, 1), nullif(a, 2), current_timestamp from t",
        "select * from rows from (generate_series(1, 2), unnest($1)) as z(a, b)",
    ]);
}

#[test]
fn what_is_not_proven_is_no_read() {
    use Reason::*;
    refused(&[
        ("select nextval('s')", VolatileFunction),
        ("select nextval /* x */ ('s')", VolatileFunction),
        ("select \"nextval\"('s')", VolatileFunction),
        ("select pg_catalog.NextVal('s')", VolatileFunction),
        ("select U&\"n\\0065xtval\" from t", OddText),
        ("select t.my_volatile from t", Attribute),
        ("select (t).my_volatile from t", Attribute),
        ("select * from t, my_volatile(1)", VolatileFunction),
        ("select * from t for update", RowLock),
        ("select * from t for no key update of t", RowLock),
        ("select * from (select * from t for share) x", RowLock),
        ("select * into v from t", Into),
        ("with x as (delete from t returning *) select * from x", DataChange),
        ("select * from bad_view", UnsafeRelation),
        ("select 1 as as from bad_view", UnsafeRelation),
        ("select * from t as x, bad_view", UnsafeRelation),
        ("select * from t join u on (t).where = 1, bad_view", UnsafeRelation),
        ("select 1 from (select 2 union select a from bad_view) x", UnsafeRelation),
        ("table bad_view", UnsafeRelation),
        ("select * from not_known", UnknownRelation),
        ("select not_known(1)", UnknownFunction),
        ("select 1 @@@ 2", VolatileOperator),
        ("select 1 operator(public.@@@) 2", VolatileOperator),
        ("select 1 <<>> 2", UnknownOperator),
        ("select '1'::bad_domain", UnsafeType),
        ("select bad_domain '1'", UnsafeType),
        ("select '1'::not_known", UnsafeType),
        ("explain analyze select 1", Explain),
        ("explain (analyze) select 1", Explain),
        ("explain insert into t values (1)", Explain),
        ("select 1; select 2", Several),
        ("show search_path", Show),
        ("select set_config('a', 'b', false)", SessionState),
    ]);
}

#[test]
fn transaction_control_is_known_by_its_exact_forms() {
    let begin = |sql: &str| match &plan(sql).kind {
        Kind::Begin(form) => Some(*form),
        _ => None,
    };
    for sql in ["BEGIN", "begin work;", "begin transaction", "start transaction"] {
        assert!(begin(sql).is_some_and(|form| form.is_plain()), "{sql}");
    }
    let form = begin("begin isolation level repeatable read, read only not deferrable").unwrap();
    assert_eq!(form.isolation, Some(Isolation::RepeatableRead));
    assert_eq!((form.read_only, form.deferrable), (Some(true), Some(false)));
    assert_eq!(begin("begin nonsense"), None);
    assert_eq!(begin("begin read only,"), None);
    assert_eq!(plan("end").kind, Kind::Commit { chain: false });
    assert_eq!(plan("commit and chain").kind, Kind::Commit { chain: true });
    assert_eq!(plan("abort and no chain").kind, Kind::Rollback { chain: false });
    assert_eq!(plan("rollback to x").kind, Kind::RollbackTo);
    assert_eq!(plan("release savepoint x").kind, Kind::Release);
    assert_eq!(plan("commit prepared 'x'").kind, Kind::Other);
    assert_eq!(plan("prepare transaction 'x'").kind, Kind::PrepareTransaction);
}

#[test]
fn settings_are_read_with_their_values() {
    let set = |sql: &str| plan(sql).kind.clone();
    let session = |name: &str, value: &str| {
        Kind::Set(SettingChange::Session { name: name.into(), value: Some(value.into()) })
    };
    assert_eq!(set("SET Statement_Timeout = -5"), session("statement_timeout", "'-5'"));
    assert_eq!(
        set("set search_path to a, \"B\", 'c''d'"),
        session("search_path", "'a', 'B', 'c''d'")
    );
    assert_eq!(set("set weir.route = 'primary'"), session("weir.route", "'primary'"));
    assert_eq!(set("set time zone 'UTC'"), session("timezone", "'UTC'"));
    assert_eq!(set("set names 'utf8'"), session("client_encoding", "'utf8'"));
    assert_eq!(set("set local x.y = 1"), Kind::Set(SettingChange::Local { name: "x.y".into() }));
    assert_eq!(set("set local.y = 1"), session("local.y", "'1'"));
    assert_eq!(set("set local role x"), Kind::Set(SettingChange::Local { name: "role".into() }));
    assert_eq!(set("set role x"), Kind::Pins(Pin::Role));
    assert_eq!(set("set session authorization x"), Kind::Pins(Pin::Role));
    assert_eq!(set("set search_path = pg_temp"), Kind::Pins(Pin::Temporary));
    assert_eq!(set("set x = E'a\\'b'"), Kind::Pins(Pin::Setting));
    assert_eq!(set("set transaction read only"), Kind::Set(SettingChange::Transaction));
    assert_eq!(set("reset all"), Kind::Set(SettingChange::ResetAll));
    assert_eq!(set("reset X"), Kind::Set(SettingChange::Reset { name: "x".into() }));
}

#[test]
fn what_was_refuted_is_no_read_any_more_whatever_the_facts_say() {
    let mut planner = Planner::new(facts(), 100);
    let kind = |planner: &mut Planner, sql: &str| {
        let plan = planner.plan(sql.as_bytes(), Scope::default());
        (plan.kind.clone(), plan.reason)
    };
    planner.plan(b"SELECT lower('a')", Scope::default()).refute();
    let refuted = (Kind::Other, Reason::Refuted);
    assert_eq!(kind(&mut planner, "SELECT lower('b')"), refuted);
    assert_eq!(kind(&mut planner, "SELECT upper('b')").0, Kind::Read);
    planner.plan(b"SELECT upper('a')", Scope::default()).refute();
    planner.set_facts(facts());
    assert_eq!(kind(&mut planner, "SELECT lower('c')"), refuted);
    assert_eq!(kind(&mut planner, "SELECT upper('c')"), refuted);
    planner.plan(b"INSERT INTO t VALUES (1)", Scope::default()).refute();
    assert_eq!(kind(&mut planner, "INSERT INTO t VALUES (2)").0, Kind::Write);
    // Of no more than plans.
    for n in 0..1000 {
        planner.plan(format!("SELECT 1 AS a{n}").as_bytes(), Scope::default()).refute();
        planner.plan(format!("SELECT 1 AS a{n}").as_bytes(), Scope::default());
    }
    assert!(planner.refuted() <= 100, "{}", planner.refuted());
}
