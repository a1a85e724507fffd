use super::*;

fn of(sql: &str) -> Sequences {
    plan(sql).effects.sequences.clone()
}

#[test]
fn a_value_that_is_left_out_is_drawn() {
    let drawn = |sql: &str| {
        of(sql)
            .draws
            .iter()
            .map(|name| String::from_utf8_lossy(name).into_owned())
            .collect::<Vec<_>>()
    };
    for sql in [
        "insert into t (a) values (1)",
        "INSERT INTO s.t AS x (a, b) VALUES (1, 2) ON CONFLICT DO NOTHING",
        "insert into t default values returning id",
        "begin; insert into t (a) values (1)",
    ] {
        assert_eq!(drawn(sql), ["t_id_seq"], "{sql}");
    }
    for sql in [
        "insert into t (id, a) values (7, 1)",
        "insert into t values (1)",
        "insert into t (a) select 1 from u",
        "insert into u (a) values (1)",
        "update t set a = 1",
    ] {
        assert!(drawn(sql).is_empty(), "{sql}");
    }
    assert!(of("select nextval('x') as id").draws_any);
    assert!(!of("select nextval('x') from t").draws_any);
    assert!(!of("select 1").may_draw && of("select f() for update").may_draw);
}

#[test]
fn whose_last_value_is_asked_for_is_known_or_it_is_not() {
    let of_name = |name: &str, literal: &str| Asks::Of {
        sequence: Some(name.as_bytes()).filter(|name| !name.is_empty()).map(Box::from),
        literal: Some(literal.as_bytes()).filter(|text| !text.is_empty()).map(Box::from),
    };
    let t_id = || of_name("t_id_seq", "'t_id_seq'");
    for (sql, asks) in [
        ("select lastval()", vec![Asks::Any]),
        ("select currval('t_id_seq')", vec![t_id()]),
        (
            "select currval('public.T_ID_seq'::regclass)",
            vec![of_name("t_id_seq", "'public.T_ID_seq'")],
        ),
        ("select currval(pg_get_serial_sequence('t', 'id'))", vec![of_name("t_id_seq", "")]),
        ("select currval($1)", vec![of_name("", "")]),
        ("select currval('t_id' || '_seq')", vec![of_name("", "")]),
        ("insert into t (a) values (1); select currval('t_id_seq'), lastval()", vec![]),
        (
            "insert into t (a) values (1); select currval('u_id_seq')",
            vec![of_name("u_id_seq", "'u_id_seq'")],
        ),
        ("select nextval('s'), currval('s')", vec![]),
        ("begin; select nextval('s') as n; select currval('s')", vec![]),
        ("insert into t values (nextval('s'), 1); select currval('s')", vec![]),
        ("select currval('s'), nextval('s')", vec![of_name("s", "'s'")]),
        ("select nextval('s'); select currval('x.s')", vec![of_name("s", "'x.s'")]),
        (
            "select nextval('s'); set search_path = x; select currval('s')",
            vec![of_name("s", "'s'")],
        ),
        ("select case when false then nextval('s') end, currval('s')", vec![of_name("s", "'s'")]),
        ("select coalesce(1, nextval('s')), currval('s')", vec![of_name("s", "'s'")]),
        ("insert into v values (nextval('s')); select currval('s')", vec![of_name("s", "'s'")]),
        ("select currval('t_id_seq'); insert into t (a) values (1)", vec![t_id()]),
    ] {
        assert_eq!(of(sql).asks, asks, "{sql}");
    }
    let mut planner = Planner::new(facts(), 10);
    let mut asks =
        |sql: &str| planner.plan(sql.as_bytes(), Scope::default()).effects.sequences.asks.clone();
    assert_ne!(asks("select currval('a')"), asks("select currval('b')"), "of one form");
}

#[test]
fn what_only_keeps_a_question_asks_nothing_now() {
    for sql in [
        "create table x (id int default nextval('s'), n int default - currval('s'))",
        "create temporary table x (n bigint default lastval())",
        "alter table x alter n set default currval('s')",
        "create or replace view v as select currval('s')",
        "create function f() returns bigint language sql return currval('s')",
        "create rule r as on insert to x do also insert into y values (currval('s'))",
        "create policy p on x using (n > currval('s'))",
        "create domain d as bigint default currval('s')",
        "select 1; create table x (n int default currval('s')); select 1",
    ] {
        let sequences = of(sql);
        assert!(!sequences.asks.is_empty() && sequences.keeps_asking, "{sql}");
    }
    for sql in [
        "create table x as select currval('s')",
        "create table x (n) as values (currval('s'))",
        "create table x partition of y for values from (currval('s')) to (9)",
        "create materialized view v as select currval('s')",
        "create schema c create materialized view v as select currval('s')",
        "alter table x add n bigint default currval('s')",
        "alter table x alter n set default currval('s'), add m int default currval('s')",
        "alter table x alter n type bigint using currval('s')",
        "alter domain d add check (value > currval('s'))",
        "create table x (n int default currval('s')); select currval('s')",
        "select currval('s'); create table x (n int default currval('s'))",
        "select lastval()",
    ] {
        assert!(!of(sql).keeps_asking, "{sql}");
    }
    // Of a table that asks, facts that are older say nothing.
    let asking = "create table x (n int default currval('s'))";
    assert!(matches!(plan(asking).kind, Kind::Ddl(Unsettles::Changes)));
    assert!(matches!(plan("create table x (n int default 1)").kind, Kind::Ddl(Unsettles::Adds)));
}
