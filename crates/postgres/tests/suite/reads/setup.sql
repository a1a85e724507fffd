-- A catalogue full of traps. One statement ends with a semicolon at the end of a line.
create schema other;
create table trace (at timestamptz default now());
create sequence s;
create table t (id int primary key, a int, b text, c jsonb, d date, e numeric(10, 2), arr int[], ts timestamptz);
create table u (id int primary key, t_id int, note text, "Odd" int, "select" int, "from" int, "is" int, "not" int);
create table "Mixed Case" (id int);
insert into t select i, i, 'b' || i, '{"k": 1}', '2024-01-01', i, array[i], '2024-01-01' from generate_series(1, 5) i;
insert into u select i, i, 'n', i, i, i, i, i from generate_series(1, 5) i;

-- Volatile in each way that is seen afterwards: it writes, it sets, it locks.
create function vol_write(anyelement) returns anyelement language plpgsql as 'begin insert into trace default values; return $1; end';
create function vol_set() returns int language plpgsql as 'begin perform set_config(''work_mem'', ''77kB'', false); return 1; end';
create function vol_set1(int) returns int language plpgsql as 'begin perform set_config(''work_mem'', ''77kB'', false); return 1; end';
create function vol_lock() returns int language plpgsql as 'begin perform pg_advisory_lock(1); return 1; end';
create function vol_rows(int) returns setof int language plpgsql as 'begin perform vol_set(); return next 1; end';
create function "Vol Quoted"(int) returns int language plpgsql as 'begin return vol_set(); end';

-- Called as an attribute.
create function attr(t) returns int language plpgsql as 'begin return vol_set(); end';
create function attr_default(t, int default 1) returns int language plpgsql as 'begin return vol_set(); end';
create function attr_any(anyelement) returns int language plpgsql as 'begin return vol_set(); end';
create function attr_record(record) returns int language plpgsql as 'begin return vol_set(); end';
create function "where"(u) returns int language plpgsql as 'begin return vol_set(); end';
create function attr_variadic(variadic t[]) returns int language plpgsql as 'begin return vol_set(); end';

-- Shadows of builtins, in a schema of their own and with other arguments.
create function other.upper(text) returns text language plpgsql as 'begin perform public.vol_set(); return $1; end';
create function public.substring(t) returns text language plpgsql as 'begin perform public.vol_set(); return ''''; end';
create function public."coalesce"(int) returns int language plpgsql as 'begin return public.vol_set(); end';
create function public."values"(int) returns int language plpgsql as 'begin return public.vol_set(); end';
create function public.first(int) returns int language plpgsql as 'begin return public.vol_set(); end';
create function public."join"(int) returns int language plpgsql as 'begin return public.vol_set(); end';

-- Declared harmless, and not so.
create function lies_sql() returns int language sql stable as 'select vol_set()';
create function lies_body() returns int stable begin atomic select vol_set(); end;
create function lies_nextval() returns bigint language plpgsql stable as 'begin return nextval(''s''); end';
create function lies_dynamic() returns int language plpgsql stable as 'begin execute ''select vol_set()''; return 1; end';
create function by_default(int default vol_set()) returns int language sql immutable as 'select $1';
create function honest(int) returns int language sql immutable as 'select $1 + 1';
create function honest_rows(int) returns setof t language sql stable as 'select * from t where id = $1';

-- Aggregates are immutable by declaration, whatever their parts are.
create function vol_step(int, int) returns int language plpgsql as 'begin return vol_set(); end';
create aggregate vol_sum(int) (sfunc = vol_step, stype = int, initcond = '0');
create aggregate good_sum(int) (sfunc = int4pl, stype = int, initcond = '0');

-- Views, and what they call.
create view v_good as select id, lower(b) as b from t;
create view v_bad as select id, vol_set() as x from t;
create view v_deep as select * from (select id from v_bad) q;
create view v_next as select nextval('s') as n;
create view v_lock as select pg_try_advisory_lock(7) as l;
create materialized view m_good as select * from t;
create view v_rule as select id, a from t;
create rule v_rule_insert as on insert to v_rule do instead select vol_set();

-- Operators, types and casts.
create function vol_eq(int, text) returns boolean language plpgsql as 'begin return vol_set() = 1; end';
create operator @@@ (leftarg = int, rightarg = text, function = vol_eq);
create view v_operator as select id from t where id @@@ 'x';
create type pair as (x int, y int);
create function pair_eq(pair, pair) returns boolean language plpgsql as 'begin return vol_set() = 1; end';
create operator = (leftarg = pair, rightarg = pair, function = pair_eq);
create table pairs (id int, p pair);
insert into pairs values (1, (1, 2)), (2, (1, 2));
create type other_pair as (x int, y int);
create function to_int(other_pair) returns int language plpgsql as 'begin return vol_set(); end';
create cast (other_pair as int) with function to_int(other_pair) as implicit;
create table other_pairs (id int, p other_pair);
insert into other_pairs values (1, (1, 2));
create view v_cast as select p + 1 as n from other_pairs;
create function dom_check(int) returns boolean language plpgsql as 'begin return vol_set() = 1; end';
create domain dom as int check (dom_check(value));
create domain dom_good as int check (value > 0);
create domain dom_over as dom;
create table has_dom (id int, d dom);
create table has_dom_good (id int, d dom_good);
create type holds_dom as (id int, d dom);
create function takes_dom(dom) returns int language sql immutable as 'select 1';
create function gives_dom() returns dom language sql immutable as 'select 1';
create view v_dom as select id::dom as d from t;
create type mood as enum ('good', 'bad');
create table moods (id int, m mood);
insert into moods values (1, 'good');

-- Relations that are not on every server, or not as they look.
create unlogged table unlogged_t (id int);
create table parent (id int);
create unlogged table child () inherits (parent);
create foreign data wrapper nothing;
create server nowhere foreign data wrapper nothing;
create foreign table remote (id int) server nowhere;
create table parted (id int) partition by list (id);
create foreign table parted_remote partition of parted for values in (1) server nowhere;
create table guarded (id int);
insert into guarded values (1);
alter table guarded enable row level security;
create policy guard on guarded using (vol_set() = 1);
create view v_guarded as select id from guarded;
create table guarded_good (id int, owner name);
alter table guarded_good enable row level security;
create policy guard_good on guarded_good using (owner = current_user);

-- Everyone may do everything: policies hold for all but superusers.
grant all on schema public, other to public;
grant all on all tables in schema public to public;
grant all on all sequences in schema public to public;
