use super::*;

#[test]
fn what_names_its_row_by_a_key_or_brings_rows_is_a_point_statement() {
    for sql in [
        "select c from t where id = 5",
        "SELECT x.*, \"B\" FROM public.t AS x WHERE x.id=-5 AND c <> 'x' LIMIT 1;",
        "select c from t where b = 'x' and a = 1 and d is not null and e is null",
        "select c from T z where \"id\" = $1 and c > 4.5",
        "update t set k = k + 1 where id = 7",
        "update only_alias_is_not_followed set k = 1 where id = 7",
        "update t x set k = -1, c = 'it''s', d = now(), e = default, f = case when a then b end, \
         g = a.b * 2 where x.id = 7",
        "delete from t where id = 7 and c = 1",
        "insert into t values (1, 'a', null, -3, lower(c), default)",
        "insert into public.u (a, b) values (1, 'a'), (2, 'b')",
        "insert into t (id) values (1) on conflict do nothing",
        "insert into t (id) values (1) on conflict (id) do update set k = t.k + 1, c = excluded.c",
    ] {
        assert_eq!(plan(sql).is_point, !sql.contains("only_alias"), "{sql}");
    }
}

#[test]
fn what_a_server_may_plan_in_two_ways_is_none() {
    for sql in [
        "select c from t where id > 5",
        "select c from t where a = 5",
        "select c from t where id = 5 or c = 1",
        "select c from t where id in (5, 6)",
        "select c from t where id = 5 and c like 'x%'",
        "select c from t where id = 5 order by c",
        "select c from t, u where id = 5",
        "select c from t join u on true where id = 5",
        "select 1, c from t where id = 5",
        "select c from u where id = 5",
        "select c from pg_class where id = 5",
        "select c from t where id = 5 union select c from t where id = 6",
        "update u set k = 1 where id = 5",
        "update t set k = 1",
        "update t set k = (select 1) where id = 5",
        "update t set (k, c) = (1, 2) where id = 5",
        "delete from t using u where t.id = 5",
        "insert into t select * from u",
        "insert into t default values",
        "insert into not_known values (1)",
        "insert into t values (1) on conflict (id) where a = 1 do nothing",
        "update t set k = u.k from u where t.id = 5",
        "update t set k = t.k + 1 from u where t.id = 5",
        "update t set d = extract(year from e) where id = 5",
        "update t set c.f = 1 where id = 5",
    ] {
        assert!(!plan(sql).is_point, "{sql}");
    }
}

#[test]
fn a_name_that_the_server_cuts_off_makes_none() {
    let name = "a".repeat(64);
    assert!(!plan(&format!("select {name} from t where id = 5")).is_point);
    assert!(plan(&format!("select {} from t where id = 5", &name[1..])).is_point);
}

#[test]
fn constants_whose_place_gives_them_no_type_make_none() {
    for sql in [
        "update t set c = concat('a', 1) where id = 5",
        "update t set d = date '2020-01-01' where id = 5",
        "update t set d = now() - interval '1 day' where id = 5",
        "update t set d = '1'::int where id = 5",
        "update t set d = cast(x as numeric(10, 2)) where id = 5",
        "update t set d = current_timestamp(3) where id = 5",
        "update t set d = 'a' || c where id = 5",
        "update t set d = array[1, 2] where id = 5",
        "update t set d = 1 c where id = 5",
        "select c from t where id = date '2020-01-01'",
        "insert into t values (date '2020-01-01')",
        "insert into t values ()",
        "update t set k = 1 where id = 5 returning k",
        "insert into t values (1) returning id",
        "insert into t values (1) on conflict (id) do update set k = excluded.k returning id",
        "insert into t values (1) on conflict (id) do update set k = 1 + k returning *",
        "insert into t values (1) on conflict (id) do update set k = excluded.k RETURNING (id)",
        "with x as (select 1) select c from t where id = 5",
    ] {
        assert!(!plan(sql).is_point, "{sql}");
    }
}

#[test]
fn what_runs_code_of_users_or_sees_its_transaction_is_not_for_a_batch() {
    let now = std::time::Instant::now();
    let may_batch = |sql: &str| plan(sql).may_batch(now);
    for sql in [
        "update t set k = k + 1, d = now(), e = current_timestamp where id = 5",
        "delete from t where a = 1 and b = 2",
        "insert into u values (1, 'a'), (2, default)",
        "insert into t (id) values ($1) on conflict (id) do update set k = excluded.k",
    ] {
        assert!(may_batch(sql), "{sql}");
    }
    for sql in [
        "update loud set k = 1 where id = 5",
        "insert into loud values (1)",
        "select c from t where id = 5",
        "update t set k = lower(c) where id = 5",
        "update t set k = my_volatile(c) where id = 5",
        "update t set k = t.my_volatile where id = 5",
        "update t set k = a @@@ b where id = 5",
        "update t set k = 1 where id = 5 and xmin = 3",
        "update t set k = 1 where id > 5",
    ] {
        assert!(!may_batch(sql), "{sql}");
    }
    let plan = plan("delete from t where id = 1");
    plan.goes_alone(now);
    assert!(!plan.may_batch(now) && plan.may_batch(now + std::time::Duration::from_millis(1)));
}
