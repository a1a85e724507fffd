-- What of a database's catalogue is harmless to a read. Three columns: what it is, its name, and
-- what all that bear the name are; of a table, its keys as 'a;b,c'. Something is unsafe if it is volatile, or if it depends, by
-- however many steps, on what is. What is safe is steady besides if it can't depend on the
-- transaction either, as now() does.
with recursive
spaces as materialized (
    select oid from pg_catalog.pg_namespace where nspname !~ '^pg_(temp|toast)'
),
-- Functions that run text or relations which they are given by name, whatever they are declared as;
-- and input functions that take the number of a type as an argument.
runners(source) as (
    values ('table_to_xml'), ('table_to_xmlschema'), ('table_to_xml_and_xmlschema'),
        ('schema_to_xml'), ('schema_to_xmlschema'), ('schema_to_xml_and_xmlschema'),
        ('database_to_xml'), ('database_to_xmlschema'), ('database_to_xml_and_xmlschema'),
        ('query_to_xml'), ('query_to_xmlschema'), ('query_to_xml_and_xmlschema'),
        ('cursor_to_xml'), ('cursor_to_xmlschema'),
        ('ts_stat1'), ('ts_stat2'), ('tsquery_rewrite_query'),
        ('pg_input_is_valid'), ('pg_input_error_info'),
        ('array_in'), ('record_in'), ('domain_in'), ('range_in'), ('multirange_in'),
        ('crosstab'), ('crosstab_hash'), ('connectby_text'), ('connectby_text_serial'),
        ('xpath_table')
),
-- Builtins say of themselves whether they are safe in a parallel worker, and those that are not
-- change the transaction (txid_current is "stable"). A user's function says so only if told to.
volatile(oid) as materialized (
    select p.oid
    from pg_catalog.pg_proc p join pg_catalog.pg_language l on l.oid = p.prolang
    where p.provolatile = 'v' or p.prokind = 'p'
        or (p.oid < 16384 and p.proparallel = 'u')
        or (l.lanname in ('internal', 'c')
            and (p.prosrc in (select source from runners)
                or p.prosrc in (
                    select b.prosrc from pg_catalog.pg_proc b
                    where b.oid < 16384 and (b.provolatile = 'v' or b.proparallel = 'u'))))
),
-- Operators that are used where none is written: IN, BETWEEN, CASE, NULLIF, IS DISTINCT FROM, LIKE,
-- JOIN USING, ORDER BY, GROUP BY, DISTINCT, UNION.
implied as materialized (
    select o.oid, o.oprleft, o.oprright, n.name is not null as common
    from pg_catalog.pg_operator o left join (values ('='), ('<>'), ('<'), ('<='), ('>'), ('>='),
        ('~~'), ('!~~'), ('~~*'), ('!~~*'), ('~'), ('!~'), ('~*'), ('!~*')) n(name)
        on n.name = o.oprname
    where n.name is not null
        or exists (select from pg_catalog.pg_amop a where a.amopopr = o.oid)
),
-- Those of them that take a type of a user's which nothing turns into by itself: where one is used
-- there is a column, function or name of that type, which is then unsafe. So the symbol need not be.
told_by_type as (
    select i.oid
    from implied i
    where i.common and exists (
        select from (values (i.oprleft), (i.oprright)) s(oid)
        where s.oid >= 16384 and not exists (
            select from pg_catalog.pg_cast c where c.casttarget = s.oid and c.castcontext = 'i'))
),
-- Stored expressions: whose they are, and their tree as text.
trees as materialized (
    select 'r'::"char" as class, w.ev_class as oid, w.ev_action::text as tree
    from pg_catalog.pg_rewrite w join pg_catalog.pg_class c on c.oid = w.ev_class
    where c.relkind = 'v' and w.ev_type = '1'
    union all
    select 'r', p.polrelid, coalesce(p.polqual::text, '') || coalesce(p.polwithcheck::text, '')
    from pg_catalog.pg_policy p join pg_catalog.pg_class c on c.oid = p.polrelid
    where c.relrowsecurity
    union all
    select 't', k.contypid, k.conbin::text
    from pg_catalog.pg_constraint k where k.contypid <> 0
    union all
    -- As JSON, since before PostgreSQL 14 there is no such column.
    select 'f', p.oid, to_jsonb(p) ->> 'prosqlbody'
    from pg_catalog.pg_proc p where p.oid >= 16384
    union all
    -- What an argument that is left out is computed by.
    select 'f', p.oid, p.proargdefaults::text
    from pg_catalog.pg_proc p where p.proargdefaults is not null
),
-- Numbers of functions, by the names of the fields that hold them; and any number that may be that
-- of an object of a user's, whichever field it is in.
named as materialized (
    select distinct t.class, t.oid, m[1]::oid as number
    from trees t,
        regexp_matches(t.tree, ':\w*(?:funcid|fnoid|tsmhandler|Func) (\d+)', 'g') m
),
mentioned as materialized (
    select distinct t.class, t.oid, m[1]::numeric as number
    from trees t, regexp_matches(t.tree, '\m(\d{5,10})\M', 'g') m
),
-- Functions whose text names what runs text of its own, or a function that is volatile: they are
-- not what they are declared to be. By their text, since the catalogue knows nothing of it.
liars(oid) as materialized (
    select f.oid
    from (
        select p.oid, m[1] as word
        from pg_catalog.pg_proc p join pg_catalog.pg_language l on l.oid = p.prolang,
            regexp_matches(p.prosrc, '([[:alpha:]_][[:alnum:]_$]*)"?\s*\(', 'g') m
        where p.oid >= 16384 and p.provolatile <> 'v' and l.lanname in ('sql', 'plpgsql')
    ) f join pg_catalog.pg_proc c on c.proname = lower(f.word)
    where c.oid in (select oid from volatile)
    union
    select p.oid
    from pg_catalog.pg_proc p join pg_catalog.pg_language l on l.oid = p.prolang
    where p.oid >= 16384 and l.lanname = 'plpgsql' and p.prosrc ~* '\mexecute\M'
),
-- Who depends on whom. A type is followed only if it is a user's.
edges(class, oid, on_class, on_oid) as materialized (
    select class, oid, 'f'::"char", number from named
    union all
    select m.class, m.oid, k.class, m.number::text::oid
    from mentioned m, (values ('f'::"char"), ('r'), ('t'), ('o')) k(class)
    where m.number between 16384 and 4294967295
    union all
    select 'f', a.aggfnoid::oid, 'f', s.oid
    from pg_catalog.pg_aggregate a,
        lateral (values (a.aggtransfn::oid), (a.aggfinalfn::oid), (a.aggcombinefn::oid),
            (a.aggserialfn::oid), (a.aggdeserialfn::oid), (a.aggmtransfn::oid),
            (a.aggminvtransfn::oid), (a.aggmfinalfn::oid)) s(oid)
    where s.oid <> 0
    union all
    select 'f', p.oid, 't', t
    from pg_catalog.pg_proc p,
        lateral unnest(coalesce(p.proallargtypes, p.proargtypes::oid[]) || p.prorettype) t
    where t >= 16384
    union all
    select 'o', o.oid, 'f', o.oprcode::oid from pg_catalog.pg_operator o where o.oprcode <> 0
    union all
    select 'o', o.oid, 't', s.oid
    from pg_catalog.pg_operator o, lateral (values (o.oprleft), (o.oprright)) s(oid)
    where s.oid >= 16384
    union all
    select 't', t.oid, 'f', s.oid
    from pg_catalog.pg_type t,
        lateral (values (t.typinput::oid), (t.typoutput::oid), (t.typreceive::oid),
            (t.typsend::oid), (t.typmodin::oid), (t.typmodout::oid)) s(oid)
    where s.oid <> 0 and t.typtype in ('b', 'e')
        and s.oid::regproc::text not in ('array_in', 'pg_catalog.array_in')
    union all
    select 't', t.oid, 't', s.oid
    from pg_catalog.pg_type t, lateral (values (t.typelem), (t.typbasetype)) s(oid)
    where s.oid >= 16384
    union all
    select 't', t.oid, 't', a.atttypid
    from pg_catalog.pg_type t join pg_catalog.pg_attribute a on a.attrelid = t.typrelid
    where t.typrelid <> 0 and a.atttypid >= 16384 and not a.attisdropped
    union all
    select 't', s.oid, 't', r.rngsubtype
    from pg_catalog.pg_range r,
        lateral (values (r.rngtypid), ((to_jsonb(r) ->> 'rngmultitypid')::oid)) s(oid)
    where r.rngsubtype >= 16384 and s.oid is not null
    union all
    select 't', s.oid, 'f', f.oid
    from pg_catalog.pg_range r,
        lateral (values (r.rngtypid), ((to_jsonb(r) ->> 'rngmultitypid')::oid)) s(oid),
        lateral (values (r.rngcanonical::oid), (r.rngsubdiff::oid)) f(oid)
    where f.oid <> 0 and s.oid is not null
    union all
    select 't', s.oid, 'f', c.castfunc
    from pg_catalog.pg_cast c, lateral (values (c.castsource), (c.casttarget)) s(oid)
    where c.castfunc <> 0 and s.oid >= 16384
    union all
    select 't', s.oid, 'o', o.oid
    from implied o, lateral (values (o.oprleft), (o.oprright)) s(oid)
    where s.oid >= 16384
    union all
    select 't', s.oid, 'f', a.amproc::oid
    from pg_catalog.pg_amproc a, lateral (values (a.amproclefttype), (a.amprocrighttype)) s(oid)
    where s.oid >= 16384
    union all
    select 'r', a.attrelid, 't', a.atttypid
    from pg_catalog.pg_attribute a
    where a.attnum > 0 and not a.attisdropped and a.atttypid >= 16384
    union all
    select 'r', i.inhparent, 'r', i.inhrelid from pg_catalog.pg_inherits i
),
unsafe(class, oid) as (
    select 'f'::"char", oid from volatile
    union
    select 'f', oid from liars
    union
    -- A foreign table is another server's matter; an unlogged one is empty or absent on a standby.
    select 'r', oid from pg_catalog.pg_class
    where relkind = 'f' or (relpersistence = 'u' and relkind in ('r', 'p', 'm', 'S'))
    union
    select e.class, e.oid from unsafe u join edges e on e.on_class = u.class and e.on_oid = u.oid
),
bad as materialized (select class, oid from unsafe),
-- Builtins that are stable and no more since they write a value as settings and its type say, or
-- read a setting: they tell nothing of the transaction.
by_settings(source) as (
    values ('text_concat'), ('text_concat_ws'), ('text_format'), ('text_format_nv'),
        ('array_to_text'), ('array_to_text_null'), ('length_in_encoding'),
        ('to_json'), ('to_jsonb'), ('row_to_json'), ('row_to_json_pretty'),
        ('array_to_json'), ('array_to_json_pretty'),
        ('json_build_object'), ('json_build_object_noargs'),
        ('json_build_array'), ('json_build_array_noargs'),
        ('jsonb_build_object'), ('jsonb_build_object_noargs'),
        ('jsonb_build_array'), ('jsonb_build_array_noargs'),
        ('timestamptz_trunc'), ('timestamptz_trunc_zone'), ('timestamptz_part'),
        ('extract_timestamptz'), ('generate_series_timestamptz'),
        ('generate_series_timestamptz_at_zone'),
        ('to_tsvector'), ('json_string_to_tsvector'), ('jsonb_string_to_tsvector'),
        ('to_tsquery'), ('plainto_tsquery'), ('phraseto_tsquery'), ('websearch_to_tsquery')
),
-- Nothing else that is not immutable is sure not to tell of the transaction. Of a user's function
-- its text is looked at too. Of a relation, only rows that are stored are sure.
fickle(class, oid) as (
    select class, oid from bad
    union
    select 'f', p.oid
    from pg_catalog.pg_proc p join pg_catalog.pg_language l on l.oid = p.prolang
    where (p.provolatile <> 'i' and not (p.oid < 16384
            and (p.prokind = 'a' or p.prosrc in (select source from by_settings))))
        or (p.oid >= 16384 and l.lanname in ('sql', 'plpgsql') and p.prosrc ~* (
            '\m(now|today|tomorrow|yesterday|current_(date|time|timestamp)|localtime|localtimestamp'
            '|transaction_timestamp|age)\M'))
    union
    -- CURRENT_DATE and its kin are no functions, and a text may become any time.
    select class, oid from trees where tree ~ '\{(SQLVALUEFUNCTION|COERCEVIAIO) '
    union
    select n.class, n.oid
    from named n join pg_catalog.pg_proc p on p.oid = n.number
    where p.provolatile <> 'i'
    union
    select 'r', oid from pg_catalog.pg_class where relkind not in ('r', 'p', 'm') or relrowsecurity
    union
    -- A builtin that is merely stable depends on settings where a type or another builtin uses it:
    -- how an enum is written, or which day a timestamptz is on.
    select e.class, e.oid
    from fickle f join edges e on e.on_class = f.class and e.on_oid = f.oid
    where not (f.class = 'f' and f.oid < 16384 and (e.class = 't' or e.oid < 16384))
),
unsteady as materialized (select class, oid from fickle),
functions as (
    select p.oid, p.proname, b.oid is null as safe, u.oid is null as steady,
        p.pronargs > 0 and p.pronargs - p.pronargdefaults <= 1
        and a.typname not in ('internal', 'cstring')
        and (p.provariadic <> 0 or a.typtype in ('c', 'p', 'd') or exists (
            select from pg_catalog.pg_cast c join pg_catalog.pg_type s on s.oid = c.castsource
            where c.casttarget = a.oid and c.castcontext = 'i' and s.typtype in ('c', 'd', 'p')))
        as attribute
    from pg_catalog.pg_proc p
        join spaces n on n.oid = p.pronamespace
        left join pg_catalog.pg_type a on a.oid = p.proargtypes[0]
        left join bad b on b.class = 'f' and b.oid = p.oid
        left join unsteady u on u.class = 'f' and u.oid = p.oid
),
facts(what, name, safe, steady) as (
    select 'function', proname::text, bool_and(safe), bool_and(steady) from functions group by 2
    union all
    select 'attribute', proname::text, bool_and(safe), false
    from functions where attribute and not steady group by 2
    union all
    select 'relation', c.relname::text, bool_and(b.oid is null), bool_and(u.oid is null)
    from pg_catalog.pg_class c
        join spaces n on n.oid = c.relnamespace
        left join bad b on b.class = 'r' and b.oid = c.oid
        left join unsteady u on u.class = 'r' and u.oid = c.oid
    where c.relkind in ('r', 'p', 'v', 'm', 'S', 'f')
    group by 2
    union all
    select 'operator', o.oprname::text, bool_and(b.oid is null or i.oid is not null),
        bool_and(u.oid is null or i.oid is not null)
    from pg_catalog.pg_operator o
        left join bad b on b.class = 'o' and b.oid = o.oid
        left join unsteady u on u.class = 'o' and u.oid = o.oid
        left join told_by_type i on i.oid = o.oid
    group by 2
    union all
    select 'type', t.typname::text, bool_and(b.oid is null), bool_and(u.oid is null)
    from pg_catalog.pg_type t
        join spaces n on n.oid = t.typnamespace
        left join bad b on b.class = 't' and b.oid = t.oid
        left join unsteady u on u.class = 't' and u.oid = t.oid
    group by 2
    union all
    -- Functions whose text leaves something on the session. Their callers keep their server.
    select distinct 'pin', p.proname::text, false, false
    from pg_catalog.pg_proc p
        join pg_catalog.pg_language l on l.oid = p.prolang
        join spaces n on n.oid = p.pronamespace
    where p.oid >= 16384 and l.lanname in ('sql', 'plpgsql') and (
        p.prosrc ~* '\mpg_(try_)?advisory_lock(_shared)?\M|\mdblink_connect'
        or p.prosrc ~* '\mset_config\s*\([^;]*,\s*(false|''f)'
        or p.prosrc ~* '(^|;|\m(begin|then|else|loop))\s*(re)?set\s+(?!(local|transaction|constraints)\M)'
        or (p.prosrc ~* '\mcreate\s+((local|global|or\s+replace)\s+)*temp(orary)?\s'
            and p.prosrc !~* '\mon\s+commit\s+drop\M'))
    union all
    select 'type_oid', t.oid::text, b.oid is null, u.oid is null
    from pg_catalog.pg_type t
        left join bad b on b.class = 't' and b.oid = t.oid
        left join unsteady u on u.class = 't' and u.oid = t.oid
    where t.oid >= 16384
    union all
    -- What is used without being named, between types that every statement has.
    select 'catalogue', 'operator', b.oid is null, false
    from implied o
        join unsteady u on u.class = 'o' and u.oid = o.oid
        left join bad b on b.class = 'o' and b.oid = o.oid
    where o.oprleft < 16384 and o.oprright < 16384
    union all
    select 'catalogue', 'cast', b.oid is null, false
    from pg_catalog.pg_cast c
        join unsteady u on u.class = 'f' and u.oid = c.castfunc
        left join bad b on b.class = 'f' and b.oid = c.castfunc
    where c.castsource < 16384 and c.casttarget < 16384
        and (c.castfunc >= 16384 or b.oid is not null)
    union all
    select 'catalogue', 'support function', b.oid is null, false
    from pg_catalog.pg_amproc a
        join unsteady u on u.class = 'f' and u.oid = a.amproc::oid
        left join bad b on b.class = 'f' and b.oid = a.amproc::oid
    where a.amproclefttype < 16384 and a.amprocrighttype < 16384
        and (a.amproc::oid >= 16384 or b.oid is not null)
    union all
    -- Of any other isolation, a transaction sees what was there when it read first.
    select 'isolation', 'default', true,
        current_setting('default_transaction_isolation') in ('read committed', 'read uncommitted')
        and not exists (
            select
            from pg_catalog.pg_db_role_setting s
                left join pg_catalog.pg_database d on d.oid = s.setdatabase,
                lateral unnest(s.setconfig) c
            where (s.setdatabase = 0 or d.datname = current_database())
                and c ~* '^default_transaction_isolation=')
),
-- Tables of which a change runs code of users', changes other tables or depends on who makes it.
loud(oid) as materialized (
    select oid from bad where class = 'r'
    union
    select oid from pg_catalog.pg_class where relrowsecurity
    union
    select tgrelid from pg_catalog.pg_trigger where not tgisinternal
    union
    select confrelid from pg_catalog.pg_constraint
    where contype = 'f' and not (confdeltype in ('a', 'r') and confupdtype in ('a', 'r'))
    union
    select coalesce(a.adrelid, k.conrelid, i.indrelid)
    from pg_catalog.pg_depend d
        join pg_catalog.pg_proc p on p.oid = d.refobjid
        join pg_catalog.pg_language l on l.oid = p.prolang
        left join pg_catalog.pg_attrdef a
            on d.classid = 'pg_catalog.pg_attrdef'::regclass and a.oid = d.objid
        left join pg_catalog.pg_constraint k
            on d.classid = 'pg_catalog.pg_constraint'::regclass and k.oid = d.objid
        left join pg_catalog.pg_index i
            on d.classid = 'pg_catalog.pg_class'::regclass and i.indexrelid = d.objid
    where d.refclassid = 'pg_catalog.pg_proc'::regclass and l.lanname not in ('internal', 'c')
),
-- Columns whose constants are not what parameters would be: a parameter is given the domain itself,
-- whose CHECK then holds for a value that no row gets, and not the fields of an interval (bits 16 to
-- 30 of its type's modifier, all of them where it has none), which say what a bare number means.
particular as materialized (
    select distinct a.attrelid as oid
    from pg_catalog.pg_attribute a join pg_catalog.pg_type t on t.oid = a.atttypid
    where a.attnum > 0 and not a.attisdropped
        and (t.typtype = 'd' or (t.oid = 'pg_catalog.interval'::regtype
            and a.atttypmod <> -1 and (a.atttypmod >> 16) & 32767 <> 32767))
),
-- Tables of users, by names that nothing else bears: their rows are nowhere else, and no rule says
-- what becomes of a statement.
tables as (
    select c.relname, count(*) as namesakes, bool_and(l.oid is null) as quiet
    from pg_catalog.pg_class c
        join spaces n on n.oid = c.relnamespace
        left join loud l on l.oid = c.oid
        left join particular p on p.oid = c.oid
    where c.relkind in ('r', 'p', 'v', 'm', 'f')
    group by 1
    having bool_and(c.relkind = 'r' and c.oid >= 16384
        and not c.relhasrules and not c.relhassubclass and p.oid is null)
),
-- What tells their rows apart, where it does so in all of one name.
keys as (
    select t.relname, k.columns
    from tables t
        join pg_catalog.pg_class c on c.relname = t.relname
        join spaces n on n.oid = c.relnamespace
        join pg_catalog.pg_index i on i.indrelid = c.oid,
        lateral (
            select string_agg(a.attname, ',' order by a.attname) as columns,
                bool_and(a.attname ~ '^[a-z_][a-z0-9_]*$') as plain
            from unnest(i.indkey::int2[]) with ordinality u(number, place)
                join pg_catalog.pg_attribute a
                    on a.attrelid = i.indrelid and a.attnum = u.number
            where u.place <= i.indnkeyatts
        ) k
    where c.relkind = 'r' and i.indisunique and i.indisvalid and i.indimmediate
        and i.indpred is null and i.indexprs is null and k.plain
    group by t.relname, t.namesakes, k.columns
    having count(distinct c.oid) = t.namesakes
)
select what, name,
    case when safe and steady then 'steady' when safe then 'safe' else 'unsafe' end
from facts
union all
select 'table', t.relname::text, coalesce(string_agg(k.columns, ';'), '')
from tables t left join keys k on k.relname = t.relname
group by 2
union all
select 'quiet', relname::text, 'steady' from tables where quiet
union all
-- The last row: without it rows are missing.
select 'end', '', '';
