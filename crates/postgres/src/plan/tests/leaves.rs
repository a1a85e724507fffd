use super::*;

fn leaves(sql: &str) -> Leaves {
    plan(sql).effects.leaves
}

#[test]
fn what_is_proven_leaves_nothing() {
    for sql in [
        "select * from t where id = 1 for update",
        "select nextval('t_id_seq')",
        "insert into t (a, b) values (1, lower('x')) returning id",
        "with x as (insert into t values (1) returning id) select * from x",
        "update t set a = a + 1 where id = 3",
        "delete from t where a = random()",
        "copy t from stdin",
        "begin",
        "rollback to a",
        "show timezone",
        "lock table t",
        "declare c cursor for select * from t",
        "set timezone = 'utc'",
        "select set_config('app.x', $1, true)",
        "explain analyze select * from t",
    ] {
        assert_eq!(leaves(sql), Leaves::Nothing, "{sql}");
    }
}

#[test]
fn whatever_is_named_may_leave_something() {
    for sql in [
        "select sets_it()",
        "insert into audited values (1)",
        "update u set a = 1 from audited x",
        "select (x).sets_it from t x for update",
        "select 1 @@@ 2 from t for update",
        "update pg_settings set setting = 'x'",
        "select set_config('app.x', $1, $2)",
        "select not_known(1)",
        "select U&\"x\" from t",
        "explain analyze create temp table x as select 1",
        "do 'begin end'",
        "create table x (a int)",
        "insert into t values (1); select sets_it()",
        "analyze t",
        "vacuum",
        "something new",
    ] {
        assert_eq!(leaves(sql), Leaves::Some, "{sql}");
    }
    for sql in [
        "select setseed(0.5)",
        "do 'begin perform in_perl(); end'",
        "do 'begin perform setseed(0.5); end'",
        "select 1; select in_perl()",
        "load 'x'",
        "select dblink_connect('a', 'b')",
    ] {
        assert_eq!(leaves(sql), Leaves::Lasting, "{sql}");
    }
}

#[test]
fn without_facts_nothing_but_control_is_proven() {
    let mut planner = Planner::new(Arc::new(Facts::none()), 10);
    let mut of = |sql: &str| planner.plan(sql.as_bytes(), Scope::default()).effects.leaves;
    assert_eq!(of("insert into t values (1)"), Leaves::Lasting);
    assert_eq!((of("begin"), of("set timezone = 'utc'")), (Leaves::Nothing, Leaves::Nothing));
    let mut planner = Planner::new(Arc::new(facts().forgotten(Unsettles::Changes)), 10);
    let known = planner.plan(b"insert into t values (1)", Scope::default()).effects.leaves;
    assert_eq!(known, Leaves::Some, "what outlasts DISCARD ALL there was none of");
    let mut planner = Planner::new(Arc::new(facts().forgotten(Unsettles::Code)), 10);
    let known = planner.plan(b"insert into t values (1)", Scope::default()).effects.leaves;
    assert_eq!(known, Leaves::Lasting, "a function may be new that opens a connection");
    let several = planner.plan(b"create extension dblink; select 1", Scope::default());
    assert!(matches!(several.kind, Kind::Several(all) if all.has(Contains::CODE)));
}

#[test]
fn what_changes_settings_alters_session_what_follows() {
    for sql in [
        "set local timezone = 'utc'",
        "set timezone = 'utc'",
        "select set_config('app.x', $1, true)",
        "select sets_it()",
        "discard all",
        "create temp table x (a int)",
        "select 1; set local a.b = 1",
    ] {
        assert!(plan(sql).effects.alters_session, "{sql}");
    }
    for sql in
        ["insert into t values (1)", "select 1", "begin", "commit", "set transaction read only"]
    {
        assert!(!plan(sql).effects.alters_session, "{sql}");
    }
}

#[test]
fn what_is_known_to_leave_something_else_uses_no_temporary_tables() {
    let uses = |sql: &str| plan(sql).effects.uses_temporary;
    for sql in [
        "insert into t values (1)",
        "drop table t",
        "alter table t add b int",
        "select pg_advisory_lock(1)",
        "select pg_try_advisory_lock(1) from t",
    ] {
        assert!(!uses(sql), "{sql}");
    }
    for sql in [
        "create temp table x (a int)",
        "select pg_advisory_lock(1), sets_it()",
        "select sets_it()",
        "select not_known(1)",
        "do 'begin end'",
        "insert into t values (1); select sets_it()",
        "explain analyze create temp table x as select 1",
        "set search_path = 'pg_temp'",
        "execute p",
        "something new",
    ] {
        assert!(uses(sql), "{sql}");
    }
}
