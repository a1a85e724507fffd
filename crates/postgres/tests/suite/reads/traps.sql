-- Statements that write, lock, set or pin in some way, or may. None of them is a proven read.
-- One to a line; ¶ stands for the end of a line inside one.
select vol_set()
select public.vol_set()
select "vol_set"()
select VOL_SET ( )
select vol_set/* a comment */()
select vol_set -- a comment ¶()
select U&"vol\005fset"()
select u&"vol!005fset" uescape '!' ()
select * from vol_set()
select * from t, vol_rows(1)
select * from t, lateral vol_rows(t.id) as r(x)
select * from rows from (vol_rows(1), vol_rows(2)) as r(a, b)
select * from t join vol_rows(1) v on true
select * from t where vol_set() = 1
select * from t order by vol_set1(id)
select * from t group by id having vol_set() = 1
select * from t limit vol_set()
select * from t offset vol_set() fetch first 1 row only
select count(*) filter (where vol_set() = 1) from t
select sum(a) over (order by vol_set1(a)) from t
select sum(a) over w from t window w as (order by vol_set1(a))
select distinct on (vol_set1(a)) a from t
select case when vol_set() = 1 then 1 end
select coalesce(null, vol_set())
select array[vol_set()]
select array(select vol_set())
select exists (select vol_set())
select 1 in (select vol_set())
select (select vol_set())
select row(vol_set())
select (vol_set()) + 1
select -vol_set()
select not (vol_set() = 1)
select $1 from (values (vol_set())) v(x)
values (vol_set())
values (1), (vol_set())
(select vol_set())
((select 1) union (select vol_set()))
select 1 union all select vol_set()
with x as (select vol_set() as n) select * from x
with recursive x(n) as (select 1 union all select vol_set1(n) from x where n < 2) select * from x
with x as materialized (select vol_set() as n) select * from x
explain analyze select vol_set()
explain (analyze, costs off) select vol_set()
explain (analyze on) select vol_set()
explain (analyze true) select vol_set()
explain analyse select vol_set()
explain analyze verbose select vol_set()
explain (verbose, analyze 1) select vol_set()
explain analyze select * from t
explain analyze delete from t
explain delete from t
explain execute x
select "Vol Quoted"(1)
select public."Vol Quoted" (1)
select vol_write(1)
select vol_lock()
select vol_sum(a) from t
select vol_sum(a) over () from t
select attr(t) from t
select t.attr from t
select (t).attr from t
select (t.*).attr from t
select x.attr from t as x
select x.attr_default from t x
select x.attr_any from t x
select x.attr_record from t x
select x.attr_variadic from t x
select u.where from u
select u."where" from u
select (u)."where" from u
select (array(select t from t))[1].attr
select (select t from t limit 1).attr
select x.attr, x.id from (select t.* from t) x
select (row(1, 2)).attr_record
select ($1::t).attr
select "t"."attr" from t
select t . attr from t
select t /* x */ . /* y */ attr from t
select public.t.attr from t
select upper('x')
select other.upper('x')
select substring(t) from t
select substring('abc' from 1 for 2)
select public."coalesce"(1)
select "coalesce"(1)
select public.coalesce(1)
select public.values(1)
select "values"(1)
select first(1)
select public.first(1)
select pg_is_in_recovery()
select set_config('a.b', 'c', $1)
select public.join(1)
select "join"(1)
select lies_sql()
select lies_body()
select lies_nextval()
select lies_dynamic()
select * from v_bad
select id from v_bad
select * from v_deep
table v_bad
select * from public.v_bad
select * from "v_bad"
select * from only v_bad
select * from only (v_bad)
select * from V_BAD
select * from t, v_bad
select * from t as x, v_bad
select * from t x (a, b), v_bad
select * from t x join v_bad y on x.id = y.id
select * from (t cross join v_bad)
select * from ((t cross join v_bad))
select * from t natural join v_bad
select * from (select * from v_bad) x
select * from t where exists (select 1 from v_bad)
select * from t where id in (select id from v_bad)
select * from t where id = any (select id from v_bad)
select (select x from v_bad limit 1)
select array(table v_bad)
select 1 as from, 2 from v_bad
select 1 as as from v_bad
select 1 as as, 2 as where from v_bad
select t.from from u as t, v_bad
select u.select, u.from from u, v_bad
select u."select" from u join t on (u).from = 1, v_bad
select * from u join t on u.from = t.id, v_bad
select * from u join t on u.select = t.id join v_bad on true
select distinct from v_bad
select from v_bad
select all from v_bad
select 1 is distinct from 2 from v_bad
select extract(year from d) from t, v_bad
select trim(both from b) from t, v_bad
select * from t union select * from v_bad
select 1 union table v_bad
select 1 except (table v_bad)
select 1 intersect all select x from v_bad
with x as (table v_bad) select * from x
with v_bad as (select 1) select * from public.v_bad
with v_bad as (select 1) select * from v_bad
select * from x, (with x as (select 1) select * from x) y
select * from v_next
select * from v_lock
select * from v_operator
select * from v_cast
select * from v_dom
select id @@@ 'x' from t
select id operator(public.@@@) 'x' from t
select 1 @@@'x'
select 1@@@-- c¶'x'
select p = p from pairs
select * from pairs a join pairs b using (p)
select distinct p from pairs
select p from pairs
select '(1,2)'::pair = '(1,2)'::pair
select row(1, 2)::pair = row(1, 2)::pair
select cast(row(1, 2) as pair) = row(1, 2)
select pair '(1,2)' = row(1, 2)
select p + 1 from other_pairs
select row(1, 2)::other_pair + 1
select '1'::dom
select 1::dom
select 1::public.dom
select 1::"dom"
select 1 :: dom
select cast(1 as dom)
select cast(1 as public.dom)
select dom '1'
select dom(1)
select '{1}'::dom[]
select '{1}'::_dom
select array[1]::dom[]
select '1'::dom_over
select '(1,2)'::holds_dom
select row(1, 2)::has_dom
select jsonb_populate_record(null::has_dom, '{"id": 1, "d": 2}')
select * from json_to_record('{"d": 1}') as x(d dom)
select * from jsonb_to_recordset('[{"d": 1}]') as x(d dom, e int)
select * from has_dom
select takes_dom(1)
select gives_dom()
select domain_in('1', 1, -1)
select array_in('{1}', 16384, -1)
select * from unlogged_t
select * from parent
select * from remote
select * from parted
select * from guarded
select * from not_there
select not_there(1)
select 1 <<<>>> 2
select 1::not_there
select nextval('s')
select nextval('s'::regclass)
select pg_catalog.nextval('s')
select setval('s', 1)
select currval('s')
select lastval()
select random()
select setseed(0.5)
select clock_timestamp()
select pg_sleep(0)
select txid_current()
select pg_current_xact_id()
select pg_notify('a', 'b')
select pg_advisory_lock(1)
select pg_advisory_lock_shared(1)
select pg_try_advisory_lock(1)
select pg_advisory_xact_lock(1)
select pg_advisory_unlock_all()
select set_config('work_mem', '66kB', false)
select set_config('work_mem', '66kB', true)
select pg_catalog.set_config('trap.x', 'y', false)
select * from set_config('work_mem', '66kB', false)
select lo_create(0)
select lo_creat(-1)
select lo_from_bytea(0, 'x')
select loread(1, 2)
select pg_export_snapshot()
select pg_terminate_backend(0)
select pg_cancel_backend(0)
select pg_reload_conf()
select pg_stat_reset()
select pg_switch_wal()
select pg_create_restore_point('x')
select pg_logical_emit_message(false, 'x', 'y')
select pg_logical_emit_message(true, 'x', 'y')
select query_to_xml('select vol_set()', true, true, '')
select query_to_xml_and_xmlschema('select vol_set()', true, true, '')
select table_to_xml('v_bad', true, true, '')
select schema_to_xml('public', true, true, '')
select database_to_xml(true, true, '')
select cursor_to_xml('c', 1, true, true, '')
select * from ts_stat('select ''a''::tsvector from v_bad')
select ts_rewrite('a'::tsquery, 'select ''a''::tsquery, ''b''::tsquery from v_bad')
select * from pg_locks
select * from pg_sequences
select * from t tablesample system (10)
select * from t tablesample bernoulli (vol_set())
select * from t for update
select * from t for no key update
select * from t for share
select * from t for key share
select * from t for update of t nowait
select * from t for update skip locked
select * from (select * from t for update) x
select (select id from t limit 1 for update)
with x as (select * from t for update) select * from x
select * into made from t
select * into table made from t
select 1 as a into made
select 1 into made
select * into temp made_temp from t
select * into temporary table made_temp from t
select * into unlogged made from t
with x as (select 1) select * into made from x
with x as (insert into t (id) values (100) returning *) select * from x
with x as (update t set a = 1 returning *) select * from x
with x as (delete from t returning *) select * from x
with x as (select 1), y as (delete from t returning 1) select * from x
with x as (with y as (delete from t returning 1) select * from y) select * from x
with x as (delete from t) table u
select * from (with x as (delete from t returning 1) select * from x) y
with x as (select 1) insert into t (id) select 101
with x as (select 1) delete from t
insert into t (id) values (102)
update t set a = 2
delete from t
merge into t using u on t.id = u.id when matched then delete
truncate t
copy t to stdout
copy (delete from t returning *) to stdout
copy t from stdin
create table made (id int)
create temp table made_temp (id int)
create table made as select 1
create view made as select 1
create index on t (a)
drop table t
alter table t add column z int
analyze t
vacuum t
cluster t
refresh materialized view m_good
reindex table t
checkpoint
lock table t
lock t in access share mode
listen a
unlisten *
notify a
do 'begin perform vol_set(); end'
do $$begin perform vol_set(); end$$
call vol_set()
prepare p as select 1
execute p
deallocate p
declare c cursor for select 1
declare c cursor with hold for select 1
fetch c
close c
load 'plpgsql'
discard all
discard temp
set work_mem = '55kB'
set local work_mem = '55kB'
set role postgres
reset all
set session authorization default
begin
start transaction
commit
rollback
savepoint a
release a
show work_mem
show all
select 1; select 2
select 1; select vol_set()
select 1;;select vol_set()
; select 1; delete from t
select $a$ ; $a$; select vol_set()
select 'a\'; select vol_set(); --'
select E'a\''; select vol_set(); --'
select /* /* */ */ vol_set()
select 1 /* */; /* */ delete from t
select 1 + + vol_set()
select a.vol_set() from t a
select vol_set(), * from t
select t.*, vol_set() from t
select * from t where (id, a) = (1, vol_set())
select * from t where id between 1 and vol_set()
select * from t where b like vol_set()::text
select * from t where b similar to vol_set()::text
select ts at time zone vol_set()::text from t
select xmlelement(name a, vol_set())
select grouping(a), vol_set() from t group by rollup (a)
select * from xmltable('/a' passing (select vol_set()::text::xml) columns x int)
select cast(vol_set() as text)
select vol_set()::text
select (vol_set())::text
select (array[1,2])[vol_set()]
select t.arr[vol_set()] from t
select t.arr[1:vol_set()] from t
select interval '1' day * vol_set()
select date '2024-01-01' + vol_set()
select 'a' collate "C", vol_set()
select 1 where vol_set() = 1
select nullif(vol_set(), 1), greatest(vol_set(), 2)
select honest(vol_set())
select honest((select vol_set()))
select honest($1 := vol_set())
select * from honest_rows(vol_set())
select json_build_object('a', vol_set())
select row_to_json(x) from (select vol_set()) x
select string_agg(vol_set()::text, ',' order by vol_set()) from t
select percentile_cont(0.5) within group (order by vol_set()) from t
select overlay('abc' placing 'x' from vol_set())
select position(vol_set()::text in 'abc')
select trim(leading vol_set()::text from 'abc')
select extract(year from now() + interval '1 day' * vol_set())
select pg_temp.f()
select * from pg_temp.x
select 1 from pg_temp_3.x
select 1::pg_temp.x
select current_schema()
select by_default()
select x.is distinct from u x, v_bad
select u.is distinct from u, v_bad
select (select count(*) from t join u on u.not is distinct from 1, v_bad)
select (select 1 from t join u on percentile_cont(0.5) within group (order by o.id) > 0, v_bad limit 1) from t o
select * from t join u on collation for (t.b) is null, v_bad
select * from v_guarded
select 1 select, 2 from v_bad
select 1 distinct from v_bad
select 1 join from v_bad
select * from t join u on t.id is not distinct from u.id, v_bad
