-- Settings that anybody may set, with what else each may be. Left out: what ends statements by time,
-- what the socket decides, what only a fresh process takes, and what ends a session at its first error.
SELECT 'setting', s.name, s.vartype, coalesce(CASE s.vartype
    WHEN 'bool' THEN 'on|off'
    WHEN 'enum' THEN array_to_string(s.enumvals, '|')
    WHEN 'string' THEN CASE s.name
        WHEN 'TimeZone' THEN 'Europe/Vienna|Asia/Tokyo|America/Lima|UTC|<+03>-03'
        WHEN 'DateStyle' THEN 'ISO, DMY|ISO, MDY|SQL, DMY|German|Postgres, MDY|ISO, YMD'
        WHEN 'client_encoding' THEN (SELECT string_agg(DISTINCT pg_encoding_to_char(c.conforencoding), '|')
            FROM pg_conversion c WHERE c.contoencoding = 6)
        WHEN 'search_path' THEN 'public|tenant_1|tenant_2, public|"$user", public|pg_temp, tenant_1|nowhere'
        WHEN 'default_text_search_config' THEN (SELECT string_agg(cfgname, '|') FROM pg_ts_config)
        WHEN 'timezone_abbreviations' THEN 'Default|Australia|India'
        WHEN 'role' THEN 'none|actor'
        ELSE concat_ws('|', s.boot_val, CASE WHEN s.name LIKE 'lc_%' THEN 'C.UTF-8' END) END
    ELSE concat_ws('|', s.boot_val, greatest(s.min_val::float8, s.boot_val::float8 / 2),
        least(s.max_val::float8, greatest(s.boot_val::float8 * 2, 1))) END, '')
FROM pg_settings s
-- Left out, too: those of a library, which a server process has once it has loaded that.
WHERE s.context = 'user' AND s.name !~ 'timeout|^tcp_|temp_buffers|^exit_on_error|check_interval|preload|[.]'
UNION ALL
-- Functions that anybody may call, that may leave something or depend on what is there, with their
-- arguments. Left out: what tells of the server's own doings, and what waits.
SELECT 'function', p.oid::regprocedure::text, p.provolatile::text || p.prokind::text, concat_ws('|', n.nspname,
    p.proname, (SELECT string_agg(coalesce(p.proargnames[a.at], '') || ':' || format_type(a.kind, NULL), ','
        ORDER BY a.at) FROM unnest(p.proargtypes) WITH ORDINALITY a(kind, at)))
FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
WHERE p.prokind IN ('f', 'p') AND p.provariadic = 0 AND p.pronargs <= 4
    AND (p.provolatile = 'v' OR p.provolatile = 's' AND p.pronargs <= 2)
    AND n.nspname IN ('pg_catalog', 'public') AND has_function_privilege('ann', p.oid, 'EXECUTE')
    AND p.proname !~ '^pg_stat|^pg_ls|^lo_creat|^lo_from|^lo_import|xact|txid|xid|snapshot|wal|lsn|sleep|^pg_(terminate|cancel)|recv$|in$|out$|send$|memory|^binary_upgrade|lock_status|conf_load|prepared|replication|cursor|control|available|walk|schemas$|my_temp|filenode|filepath|io$|listening'
    AND NOT EXISTS (SELECT FROM unnest(p.proargtypes::oid[] || p.prorettype) t(kind)
        JOIN pg_type ON pg_type.oid = t.kind WHERE pg_type.typtype = 'p'
        AND pg_type.typname NOT IN ('void', 'record', 'anyelement', 'any'))
UNION ALL
-- Types of which a literal is read, or a value written, in a way that something decides.
SELECT 'type', format_type(t.oid, NULL), t.typtype::text, ''
FROM pg_type t JOIN pg_namespace n ON n.oid = t.typnamespace
JOIN pg_proc i ON i.oid = t.typinput JOIN pg_proc o ON o.oid = t.typoutput
WHERE (i.provolatile <> 'i' OR o.provolatile <> 'i') AND t.typtype IN ('b', 'd', 'r', 'm')
    AND (t.typelem = 0 OR t.typelem IN ('date'::regtype, 'timestamptz'::regtype, 'text'::regtype, 'money'::regtype))
    AND n.nspname IN ('pg_catalog', 'public')
ORDER BY 1, 2
