-- One value that changes with any row that facts are made of: its number, the transaction that wrote
-- it and its place. What VACUUM and ANALYZE write in place changes none of them.
select md5(string_agg(n || ':' || coalesce(s, 0), ',' order by n)) from (
    select 1 as n, sum(hashtextextended(concat(oid, xmin, ctid), 0)) as s from pg_catalog.pg_proc
    union all
    select 2, sum(hashtextextended(concat(oid, xmin, ctid), 0)) from pg_catalog.pg_class
    union all
    select 3, sum(hashtextextended(concat(attrelid, attnum, xmin, ctid), 0))
    from pg_catalog.pg_attribute where atttypid >= 16384 or attrelid >= 16384
    union all
    select 4, sum(hashtextextended(concat(oid, xmin, ctid), 0)) from pg_catalog.pg_rewrite
    union all
    select 5, sum(hashtextextended(concat(oid, xmin, ctid), 0)) from pg_catalog.pg_policy
    union all
    select 6, sum(hashtextextended(concat(oid, xmin, ctid), 0)) from pg_catalog.pg_type
    union all
    select 7, sum(hashtextextended(concat(oid, xmin, ctid), 0)) from pg_catalog.pg_operator
    union all
    select 8, sum(hashtextextended(concat(oid, xmin, ctid), 0)) from pg_catalog.pg_cast
    union all
    select 9, sum(hashtextextended(concat(aggfnoid::oid, xmin, ctid), 0))
    from pg_catalog.pg_aggregate
    union all
    select 10, sum(hashtextextended(concat(oid, xmin, ctid), 0))
    from pg_catalog.pg_constraint where contypid <> 0 or contype in ('c', 'f')
    union all
    select 11, sum(hashtextextended(concat(inhrelid, inhparent, xmin, ctid), 0))
    from pg_catalog.pg_inherits
    union all
    select 12, sum(hashtextextended(concat(oid, xmin, ctid), 0)) from pg_catalog.pg_amproc
    union all
    select 13, sum(hashtextextended(concat(oid, xmin, ctid), 0)) from pg_catalog.pg_amop
    union all
    select 14, sum(hashtextextended(concat(rngtypid, xmin, ctid), 0)) from pg_catalog.pg_range
    union all
    select 15, sum(hashtextextended(concat(oid, xmin, ctid), 0)) from pg_catalog.pg_namespace
    union all
    select 16, sum(hashtextextended(concat(s.setdatabase, '/', s.setrole, c), 0))
    from pg_catalog.pg_db_role_setting s
        left join pg_catalog.pg_database d on d.oid = s.setdatabase,
        lateral unnest(s.setconfig) c
    where (s.setdatabase = 0 or d.datname = current_database()) and c ~* '^(default_transaction_isolation|idle_in_transaction_session_timeout)='
    union all
    select 17, hashtextextended(concat(current_setting('default_transaction_isolation'), '/',
        current_setting('idle_in_transaction_session_timeout', true)), 0)
    union all
    select 18, sum(hashtextextended(concat(oid, xmin, ctid), 0))
    from pg_catalog.pg_trigger where not tgisinternal
    union all
    select 19, sum(hashtextextended(concat(oid, xmin, ctid), 0)) from pg_catalog.pg_attrdef
) states;
