//! Which reads do not depend on the transaction that they run in.

use super::*;

fn is_steady(sql: &str) -> bool {
    let plan = plan(sql);
    assert!(!plan.steady || plan.kind == Kind::Read, "{sql}");
    plan.steady
}

#[test]
fn a_read_of_stored_rows_by_what_is_immutable_is_steady() {
    for sql in [
        "SELECT 1",
        "SELECT a, b AS from, count(*) FROM public.t x WHERE x.a IN (1, 2) GROUP BY 1 LIMIT 5",
        "select t.a from t join u using (id) where t.a between $1 and 3 and t.b like 'x%'",
        "with x as (select 1), y as (select lower(a) from x) select * from y, x, t",
        "values (1, 2)",
        "table t",
        "select case when a = 1 then coalesce(b, 'x') end, nullif(a, 1) from t",
        "select extract(year from a), substring(b from 1 for 2), trim(both from b) from t",
        "select '2024-01-01'::date, cast($1 as date), date '2024-01-01', a::int from t",
        "select sum(x.a) from (select a from t union all select b from u) x order by 1 desc",
        "select current_user, session_user, t.current_date, a as current_time from t",
        "select \"current_date\" from t",
    ] {
        assert!(is_steady(sql), "{sql}");
    }
}

#[test]
fn what_may_depend_on_the_transaction_is_not_steady() {
    for sql in [
        "select now()",
        "select 1 from t where a > now()",
        "select \"now\"()",
        "select current_date",
        "select a from t where b < LOCALTIMESTAMP",
        "select (select current_timestamp)",
        "select * from fickle_view",
        "select 1 from t, fickle_view v",
        "with x as (select now()) select * from x",
        "select 1 ### 2",
        "select 'x'::fickle_domain",
        "select fickle_domain 'x' from t",
        "select t.fickle_of from t",
        "select a::date from t",
        "select ('no' || 'w')::timestamp",
        "select 'now'::text::date",
        "select cast('no' || 'w' as date)",
        "select cast(a as date) from t",
        "select json_value(a, '$' returning date) from t",
        "explain select 1",
    ] {
        assert!(!is_steady(sql), "{sql}");
        assert_eq!(plan(sql).kind, Kind::Read, "{sql}");
    }
    for sql in ["show a", "insert into t values (1)", "select nextval('s')", "begin", ""] {
        assert!(!is_steady(sql), "{sql}");
    }
}

#[test]
fn nothing_is_steady_where_the_facts_do_not_say_so() {
    let is_steady = |rows: &[[&str; 3]], sql: &str| {
        let rows = rows.iter().map(|row| row.map(str::as_bytes));
        let facts = Arc::new(Facts::load(rows.chain([[&b"end"[..], b"", b""]])).unwrap());
        let plan = Planner::new(facts, 8).plan(sql.as_bytes(), Scope::default());
        assert_eq!(plan.kind, Kind::Read);
        plan.steady
    };
    let default = ["isolation", "default", "steady"];
    assert!(is_steady(&[default], "select 1"));
    assert!(!is_steady(&[["isolation", "default", "safe"]], "select 1"));
    assert!(!is_steady(&[], "select 1"), "nothing is said of the isolation");
    assert!(!is_steady(&[default, ["catalogue", "cast", "safe"]], "select 1"));
    assert!(!is_steady(&[["catalogue", "cast", "safe"], default], "select 1"));
    // In another encoding, or with other letters of one case, it is a name that is not found.
    let odd = ["type", "\u{e4}", "safe"];
    assert!(!is_steady(&[default, odd], "select a as \"\u{c4}\""));
    assert!(is_steady(&[default, odd], "select a as \"x\""));
    assert!(!Planner::new(Arc::new(Facts::none()), 8).plan(b"select 1", Scope::default()).steady);
}

#[test]
fn what_was_refuted_is_not_steady() {
    let mut planner = Planner::new(facts(), 100);
    let first = planner.plan(b"select lower('a')", Scope::default());
    assert!(first.steady);
    first.refute();
    assert!(!planner.plan(b"select lower('a')", Scope::default()).steady);
}

#[test]
fn a_word_for_a_time_is_seen_in_a_value() {
    for bytes in [
        &b"select 1 from t where a < 'now'"[..],
        b"select 'TODAY 10:00'::timestamp",
        b"select $$tomorrow$$::date",
        b"select '[yesterday,]'::daterange",
        b"\0\0\0\x03now",
        b"select E'\\x6eow'::timestamp",
        b"select U&'n!006fw' uescape '!'",
        b"select 'no'\n'w'",
        b"select 'no' -- x\r\x0b'w'",
    ] {
        assert!(names_moment(bytes), "{}", bytes.escape_ascii());
    }
    for bytes in [
        &b"select * from known where snow = 'nowhere' and b = ' ' and c in ('x',\n'y')"[..],
        b"update t set a = 'it''s', b = $1 -- never",
        b"",
    ] {
        assert!(!names_moment(bytes), "{}", bytes.escape_ascii());
    }
}
