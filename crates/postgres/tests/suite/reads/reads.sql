-- Statements that must be proven: what applications send.
-- One to a line; ¶ stands for the end of a line inside one.
select 1;
select 'a', 1.5, null, true, $1
select * from t where id = 1
select * from t where id = $1
select id, a, b from t where id = $1 and a > 2 order by b desc nulls last limit 10 offset 5
select "id", t."b" from "public"."t" as "t" where "t"."id" = 1
select t0.id as t0_id from t as t0 left outer join u as u0 on u0.t_id = t0.id where t0.id in (1, 2, 3)
select count(*) from t
select count(distinct a), sum(a), avg(e), min(d), max(ts), string_agg(b, ',' order by b) from t group by a having count(*) > 0
select exists (select 1 from t where id = 1)
select id from t where exists (select from u where u.t_id = t.id)
select * from t where id = any ($1::int[])
select * from t where id = any (array[1, 2])
select * from t where b like 'b%' or b ilike 'B%' or b ~ '^b'
select * from t where d between '2024-01-01' and current_date
select * from t where c->>'k' = '1' and c @> '{"k": 1}'
select c #>> '{k}', c ? 'k' from t
select lower(b), length(b), b || 'x', coalesce(a, 0), nullif(a, 1) from t
select now(), current_timestamp, current_date, localtime
select extract(epoch from ts), date_trunc('day', ts), ts at time zone 'UTC' from t
select cast(a as text), a::bigint, e::numeric(10, 2), b::varchar(10), d::timestamp with time zone from t
select case a when 1 then 'x' else 'y' end, case when a > 1 then 1 end from t
select * from (select id from t) x join lateral (select * from u where u.t_id = x.id) y on true
select * from (values (1, 'a'), (2, 'b')) as v(id, name)
select * from unnest(array[1, 2], array['a', 'b']) as x(a, b)
select * from generate_series(1, 3) g
select g.x from generate_series(1, 3) with ordinality as g(x, n)
with x as (select id from t) select * from x join u using (id)
with recursive n(i) as (select 1 union all select i + 1 from n where i < 3) select * from n
with a as (select 1 as x), b (y) as (select x from a) select * from a, b
select id from t union select id from u
(select id from t order by id limit 1) union all (select id from u order by id limit 1)
select row_number() over (partition by a order by b), lag(a) over w from t window w as (order by id)
select rank() over (order by a rows between unbounded preceding and current row) from t
select percentile_cont(0.5) within group (order by a) from t
select count(*) filter (where a > 1) from t
select a, b, grouping(a) from t group by grouping sets ((a), (b), ())
select a from t group by rollup (a)
select distinct on (a) a, b from t order by a, id
select * from t where (id, a) in ((1, 1), (2, 2))
select * from t where id is not distinct from a and b is distinct from 'x'
select trim(both from b), overlay(b placing 'x' from 1), position('b' in b) from t
select json_build_object('id', id), to_jsonb(t), row_to_json(t.*), jsonb_agg(a) over () from t
select arr[1], arr[1:2], array_length(arr, 1) from t
select array(select id from t order by id)
select u."Odd", u."select", u.from from u
select "Mixed Case".id from "Mixed Case"
select honest(1), good_sum(a) from t
select * from honest_rows(1)
select * from v_good
select * from m_good
select * from guarded_good
select * from has_dom_good
select m from moods
select m = 'good'::mood from moods
select 'good'::mood
select 1::dom_good
select last_value from s
select relname from pg_class where oid = 't'::regclass
select c.relname, n.nspname from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
select * from pg_catalog.pg_type where typname = 'int4'
select version()
select pg_catalog.version()
select current_database(), current_user, session_user, current_setting('server_version')
select pg_backend_pid()
select to_regclass('t'), format_type(23, null), pg_get_viewdef('v_good'::regclass)
select md5(b), encode(b::bytea, 'hex') from t
values (1, 2), (3, 4)
table t
table only t
explain select * from t
explain (costs off, verbose) select * from t
explain (format json) select 1
explain verbose select 1
/* app: x */ select 1
/* weir: replica */ select 1
-- hello ¶select 1
select/**/1
SELECT ID FROM T WHERE ID=1
select 1 as from, 2 as select, 3 as into
select 1 as "into"
select t.id "update" from t
select E'a\'b', U&'\0061', b'1', x'ff', $q$a'b$q$, 'a''b'
select -1, +1, - - 1, 2^3, 5 % 2, 1 <> 2, 1 != 2, 1 <= 2
select interval '1 day', interval '1' hour, date '2024-01-01', timestamp '2024-01-01 00:00'
select b collate "C" from t order by b collate "C"
select * from t for read only
select * from t order by id fetch first 2 rows only
select * from t order by id fetch first 2 rows with ties
select greatest(1, 2), least(1, 2)
select * from t natural join u
select * from t cross join u
select * from t full outer join u on t.id = u.id
select * from t x right join u y using (id)
select * from (t join u on t.id = u.t_id) where t.id = 1
select xmlelement(name a, 1), xmlforest(1 as a)
select to_tsvector('english', b) @@ to_tsquery('english', 'b') from t
select ts_rank(to_tsvector(b), plainto_tsquery('b')) from t
select sum(a) from t where ts > now() - interval '1 day'
select generate_series(1, 3)
select (select max(id) from t), (t).id from t
select (c->'k')::int from t
select * from t where not (a = 1) and b is not null and a isnull is false
select * from information_schema.tables limit 1
select table_name from information_schema.columns where table_name = 't'
