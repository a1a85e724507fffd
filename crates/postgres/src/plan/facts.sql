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
        -- What servers have prepared is under Weir's names, of all clients.
        or p.prosrc = 'pg_prepared_statement'
        -- What is written in another language may be anything, whatever it is declared as.
        or l.lanname not in ('internal', 'c', 'sql', 'plpgsql')
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
    -- What a column of a domain is filled with that has no default of its own.
    select 't', t.oid, t.typdefaultbin::text
    from pg_catalog.pg_type t where t.typtype = 'd' and t.typdefaultbin is not null
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
-- Builtin views, which bear numbers that users' objects do not.
related as materialized (
    select distinct t.class, t.oid, m[1]::oid as number
    from trees t, regexp_matches(t.tree, ':relid (1[0-6]\d{3})\M', 'g') m
),
-- The texts of users' functions: as they are, and without comments, by either kind first. What may
-- be hidden from one of the three is seen in another.
texts as materialized (
    select p.oid, l.lanname = 'sql' as is_sql, v.text
    from pg_catalog.pg_proc p join pg_catalog.pg_language l on l.oid = p.prolang,
        lateral (values (lower(p.prosrc)),
            (lower(regexp_replace(regexp_replace(p.prosrc, '--[^\n]*', ' ', 'g'),
                '/\*.*?\*/', ' ', 'g'))),
            (lower(regexp_replace(regexp_replace(p.prosrc, '/\*.*?\*/', ' ', 'g'),
                '--[^\n]*', ' ', 'g')))) v(text)
    where p.oid >= 16384 and l.lanname in ('sql', 'plpgsql')
),
-- Each word in them, in strings and comments, too, may be the name of what they use. A name that is
-- written with escapes may be any.
said(oid, word) as materialized (
    select distinct p.oid, w.word
    from pg_catalog.pg_proc p join pg_catalog.pg_language l on l.oid = p.prolang,
        regexp_matches(p.prosrc, '[[:alpha:]_][[:alnum:]_$]*', 'g') m,
        lateral (values (m[1]), (lower(m[1]))) w(word)
    where p.oid >= 16384 and l.lanname in ('sql', 'plpgsql')
        -- A reserved word is a name in quotes only.
        and (w.word not in (select word from pg_catalog.pg_get_keywords() where catcode = 'R')
            or position('"' || w.word || '"' in p.prosrc) > 0)
),
told(oid, on_class, on_oid) as materialized (
    select s.oid, 'f'::"char", p.oid from said s join pg_catalog.pg_proc p on p.proname = s.word
    union
    select s.oid, 'r', c.oid from said s join pg_catalog.pg_class c on c.relname = s.word
    where c.relkind in ('r', 'p', 'v', 'm', 'f')
    union
    select s.oid, 't', t.oid from said s join pg_catalog.pg_type t on t.typname = s.word
    where t.oid >= 16384
    union
    select p.oid, 'o', o.oid
    from pg_catalog.pg_proc p join pg_catalog.pg_language l on l.oid = p.prolang,
        pg_catalog.pg_operator o
    where p.oid >= 16384 and l.lanname in ('sql', 'plpgsql')
        and o.oid >= 16384 and position(o.oprname in p.prosrc) > 0
        and o.oid not in (select oid from told_by_type)
),
-- Functions whose text runs a text that it makes: they are not what they are declared to be. By
-- their text, since the catalogue knows nothing of it.
liars(oid) as materialized (
    select t.oid from texts t where t.text ~ '\mexecute\M|\mu&"'
),
-- Who depends on whom. A type is followed only if it is a user's.
edges(class, oid, on_class, on_oid) as materialized (
    select class, oid, 'f'::"char", number from named
    union all
    select class, oid, 'r', number from related
    union all
    select 'f', t.oid, t.on_class, t.on_oid from told t where t.oid <> t.on_oid
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
-- What leaves something on the session that only DISCARD ALL takes away; `lasts`: nothing does but
-- the connection's end. Of functions that run a text, whatever any function of a user's leaves.
doings(name, lasts) as (
    values ('set_config', false), ('pg_advisory_lock', false), ('pg_advisory_lock_shared', false),
        ('pg_try_advisory_lock', false), ('pg_try_advisory_lock_shared', false),
        ('pg_stat_force_next_flush', false), ('setseed', true),
        ('pg_create_physical_replication_slot', true), ('pg_create_logical_replication_slot', true),
        ('pg_copy_physical_replication_slot', true), ('pg_copy_logical_replication_slot', true),
        ('pg_logical_slot_get_changes', true), ('pg_logical_slot_peek_changes', true),
        ('pg_logical_slot_get_binary_changes', true),
        ('pg_logical_slot_peek_binary_changes', true),
        ('pg_replication_origin_session_setup', true), ('pg_replication_origin_xact_setup', true),
        ('pg_start_backup', true), ('pg_backup_start', true)
),
-- Extensions whose functions in C keep nothing of their callers, volatile as they may be.
tidy(name) as (
    values ('adminpack'), ('amcheck'), ('autoinc'), ('bloom'), ('btree_gin'), ('btree_gist'),
        ('citext'), ('cube'), ('dict_int'), ('dict_xsyn'), ('earthdistance'), ('file_fdw'),
        ('fuzzystrmatch'), ('hstore'), ('insert_username'), ('intagg'), ('intarray'), ('lo'),
        ('ltree'), ('moddatetime'), ('pageinspect'), ('pg_buffercache'), ('pg_freespacemap'),
        ('pg_prewarm'), ('pg_stat_statements'), ('pg_surgery'), ('pg_trgm'), ('pg_visibility'),
        ('pg_walinspect'), ('pgcrypto'), ('pgrowlocks'), ('pgstattuple'), ('postgis'),
        ('postgis_raster'), ('postgis_topology'), ('postgres_fdw'), ('refint'), ('seg'),
        ('sslinfo'), ('tablefunc'), ('tcn'), ('tsm_system_rows'), ('tsm_system_time'),
        ('unaccent'), ('uuid-ossp'), ('vector'), ('xml2')
),
foreigners(oid) as materialized (
    select p.oid
    from pg_catalog.pg_proc p join pg_catalog.pg_language l on l.oid = p.prolang
    where p.oid >= 16384 and (l.lanname not in ('internal', 'c', 'sql', 'plpgsql')
        or (l.lanname = 'c' and p.provolatile = 'v' and not exists (
            select
            from pg_catalog.pg_depend d join pg_catalog.pg_extension e on e.oid = d.refobjid
            where d.classid = 'pg_catalog.pg_proc'::regclass and d.objid = p.oid
                and d.refclassid = 'pg_catalog.pg_extension'::regclass and d.deptype = 'e'
                and e.extname in (select name from tidy))))
),
running(oid) as materialized (
    select oid from liars
    union
    select t.oid from texts t where t.text ~ '\mdo\M\s*(language\M\s*\S+\s*)?(e?''|\$)'
    union
    select p.oid
    from pg_catalog.pg_proc p join pg_catalog.pg_language l on l.oid = p.prolang
    where l.lanname in ('internal', 'c') and p.prosrc in (select source from runners)
        and p.prosrc !~ '_(in|is_valid|info)$'
),
doers(oid, lasts) as materialized (
    select p.oid, d.lasts
    from doings d
        join pg_catalog.pg_proc b on b.proname = d.name and b.oid < 16384
        join pg_catalog.pg_proc p on p.prosrc = b.prosrc
        join pg_catalog.pg_language l on l.oid = p.prolang and l.lanname = 'internal'
    union
    -- Of `pg_trgm`, which is tidy otherwise.
    select p.oid, false from pg_catalog.pg_proc p where p.oid >= 16384 and p.proname = 'set_limit'
    union
    select oid, true from foreigners
    union
    select oid, exists (select from foreigners) from running
    union
    -- Commands of the session and changes of the catalogue, wherever they stand; what a SET belongs
    -- to an UPDATE is taken out first.
    select t.oid, t.text ~ '\mload\M\s*e?'''
    from texts t
    where t.text ~ ('\m(listen|unlisten|discard|deallocate|prepare|reset|create|alter|drop|grant'
            '|revoke)\M|\mwith\s+hold\M|\mload\M\s*e?''|\m(refresh\s+materialized|import\s+foreign'
            '|security\s+label|comment\s+on|reassign\s+owned)\M')
        or regexp_replace(t.text, '\mupdate\M[^;]*?\mset\M', ' ', 'g')
            ~ '\mset\M(?!\s+(null|default)\M)'
        or (t.is_sql and t.text ~ '\m(select|with|values|table)\M[^;]*\minto\M')
),
-- Expressions that a change of a relation computes.
changing(oid, tree) as materialized (
    select a.adrelid, a.adbin::text from pg_catalog.pg_attrdef a
    union all
    select k.conrelid, k.conbin::text
    from pg_catalog.pg_constraint k where k.conrelid <> 0 and k.conbin is not null
    union all
    select i.indrelid, coalesce(i.indexprs::text, '') || coalesce(i.indpred::text, '')
    from pg_catalog.pg_index i where i.indexprs is not null or i.indpred is not null
    union all
    select p.partrelid, p.partexprs::text
    from pg_catalog.pg_partitioned_table p where p.partexprs is not null
    union all
    -- Whether a trigger is fired at all.
    select g.tgrelid, g.tgqual::text
    from pg_catalog.pg_trigger g where g.tgqual is not null and g.tgenabled <> 'D'
    union all
    select w.ev_class, coalesce(w.ev_qual::text, '') || w.ev_action::text
    from pg_catalog.pg_rewrite w
    union all
    select p.polrelid, coalesce(p.polqual::text, '') || coalesce(p.polwithcheck::text, '')
    from pg_catalog.pg_policy p
),
-- Who runs what when something is changed, beside the edges of reading.
changes(class, oid, on_class, on_oid) as materialized (
    select 'r'::"char", c.oid, 'f'::"char", m[1]::oid
    from changing c,
        regexp_matches(c.tree, ':\w*(?:funcid|fnoid|tsmhandler|Func) (\d+)', 'g') m
    union
    select 'r', c.oid, k.class, m[1]::oid
    from changing c, regexp_matches(c.tree, '\m(\d{5,9})\M', 'g') m,
        (values ('f'::"char"), ('r'), ('t'), ('o')) k(class)
    where m[1]::oid >= 16384
    union
    select 'r', c.oid, 'r', m[1]::oid
    from changing c, regexp_matches(c.tree, ':relid (1[0-6]\d{3})\M', 'g') m
    union
    select 'r', g.tgrelid, 'f', g.tgfoid
    from pg_catalog.pg_trigger g where not g.tgisinternal and g.tgenabled <> 'D'
    union
    select 'r', k.confrelid, 'r', k.conrelid
    from pg_catalog.pg_constraint k
    where k.contype = 'f' and (k.confdeltype in ('c', 'n', 'd') or k.confupdtype in ('c', 'n', 'd'))
    union
    select 'r', i.indrelid, 'f', a.amproc::oid
    from pg_catalog.pg_index i, lateral unnest(i.indclass) o(oid)
        join pg_catalog.pg_opclass c on c.oid = o.oid and c.oid >= 16384
        join pg_catalog.pg_amproc a on a.amprocfamily = c.opcfamily
    union
    select 'r', k.conrelid, 'o', o.oid
    from pg_catalog.pg_constraint k, lateral unnest(k.conexclop) o(oid)
    union
    -- A partition computes its parent's key to know whether a row is its own.
    select 'r', i.inhrelid, 'r', i.inhparent
    from pg_catalog.pg_inherits i join pg_catalog.pg_partitioned_table p on p.partrelid = i.inhparent
),
leaving(class, oid, lasts) as (
    select 'f'::"char", d.oid, d.lasts from doers d
    union
    select e.class, e.oid, l.lasts
    from leaving l join (select * from edges union all select * from changes) e
        on e.on_class = l.class and e.on_oid = l.oid
),
traces(class, oid, lasts) as materialized (
    select class, oid, bool_or(lasts) from leaving group by 1, 2
),
-- What shows the statements that the server has prepared.
looking(class, oid) as (
    select 'f'::"char", p.oid from pg_catalog.pg_proc p where p.prosrc = 'pg_prepared_statement'
    union
    select e.class, e.oid
    from looking l join (select * from edges union all select * from changes) e
        on e.on_class = l.class and e.on_oid = l.oid
),
-- Whether something of users' may ask for the last value that the session drew from a sequence.
asking(is_so) as (
    select exists (select from said where word in ('currval', 'lastval'))
        or exists (select from running where oid >= 16384)
        or exists (select from foreigners)
        or exists (
            select
            from (select number from named where oid >= 16384
                    union all select on_oid from changes where on_class = 'f') n(number)
                join pg_catalog.pg_proc p on p.oid = n.number
            where p.prosrc in ('currval_oid', 'lastval'))
        or exists (
            select from pg_catalog.pg_proc p
            where p.oid >= 16384 and p.prosrc in ('currval_oid', 'lastval'))
),
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
-- How long the server lets a session rest in a transaction, in milliseconds; unsafe where a role or
-- a database has another limit than the rest.
resting(ms, alike) as (
    select coalesce((
            select setting from pg_catalog.pg_settings
            where name = 'idle_in_transaction_session_timeout'), '0'),
        not exists (
            select
            from pg_catalog.pg_db_role_setting s
                left join pg_catalog.pg_database d on d.oid = s.setdatabase,
                lateral unnest(s.setconfig) c
            where (s.setdatabase = 0 or d.datname = current_database())
                and c ~* '^idle_in_transaction_session_timeout=')
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
-- Columns that draw from a sequence, which nothing else bears the name of, where they are given no
-- value: serial ones and identities.
drawn as (
    select t.relname, a.attname, s.relname as sequence
    from tables t
        join pg_catalog.pg_class c on c.relname = t.relname and c.relkind = 'r'
        join spaces n on n.oid = c.relnamespace
        join pg_catalog.pg_attribute a on a.attrelid = c.oid and not a.attisdropped
        join pg_catalog.pg_depend d on d.refclassid = 'pg_catalog.pg_class'::regclass
            and d.refobjid = c.oid and d.refobjsubid = a.attnum
            and d.classid = 'pg_catalog.pg_class'::regclass and d.deptype in ('a', 'i')
        join pg_catalog.pg_class s on s.oid = d.objid and s.relkind = 'S'
        left join pg_catalog.pg_attrdef f on f.adrelid = c.oid and f.adnum = a.attnum
    where t.namesakes = 1 and a.attname ~ '^[a-z_][a-z0-9_]*$' and s.relname ~ '^[a-zA-Z0-9_]+$'
        and (a.attidentity <> '' or pg_catalog.pg_get_expr(f.adbin, f.adrelid)
            = format('nextval(%L::regclass)', s.oid::regclass::text))
        and not exists (
            select from pg_catalog.pg_class o where o.relname = s.relname and o.oid <> s.oid)
),
-- What has a name that a statement may use, by its class.
objects(class, oid, name) as (
    select 'f'::"char", oid, proname::text from pg_catalog.pg_proc
    union all
    select 'r', oid, relname::text from pg_catalog.pg_class
    union all
    select 't', oid, typname::text from pg_catalog.pg_type
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
select 'resting', ms, case when alike then 'steady' else 'unsafe' end from resting
union all
select 'table', t.relname::text, coalesce(string_agg(k.columns, ';'), '')
from tables t left join keys k on k.relname = t.relname
group by 2
union all
select 'draws', relname::text, string_agg(attname || ':' || sequence, ';') from drawn group by 2
union all
select 'quiet', relname::text, 'steady' from tables where quiet
union all
select distinct 'shows_prepared', o.name, 'steady'
from looking l join objects o on o.class = l.class and o.oid = l.oid
where l.class in ('f', 'r')
union all
select 'asks_last_values', '', 'steady' from asking where is_so
union all
select t.what, t.name, case when bool_or(t.lasts) then 'lasting' else 'some' end
from (
    select 'leaves', o.name, l.lasts
    from traces l join objects o on o.class = l.class and o.oid = l.oid
    union all
    select 'leaves_operator', o.oprname::text, l.lasts
    from traces l join pg_catalog.pg_operator o on l.class = 'o' and o.oid = l.oid
    union all
    -- What a text leaves that is made when it is run.
    select 'leaves_text', '', exists (select from foreigners)
        or exists (select from traces t where t.lasts and t.oid >= 16384)
) t(what, name, lasts)
group by 1, 2
union all
-- The last row: without it rows are missing.
select 'end', '', '';
