//! What a client leaves on a server connection reaches nobody else, however it was left.

use rig::postgres::{MessageClient, SUPERUSER};
use wire::postgres::frontend::put_query;

use super::beside::{Beside, ONE, extended, prepare, run};
use super::scene::asks;

/// All that can be seen of a session.
const LOOK: &str = "SELECT session_user, current_user, \
    coalesce(current_setting('app.tenant', true), '') AS tenant, \
    (SELECT string_agg(relname, ',' ORDER BY relname) FROM pg_catalog.pg_class \
     WHERE relnamespace = pg_catalog.pg_my_temp_schema() AND relkind = 'r') AS temporary, \
    (SELECT string_agg(objid::text, ',' ORDER BY objid) FROM pg_catalog.pg_locks \
     WHERE locktype = 'advisory' AND pid = pg_catalog.pg_backend_pid()) AS locks, \
    (SELECT string_agg(name, ',' ORDER BY name) FROM pg_catalog.pg_cursors \
     WHERE is_holdable) AS cursors, \
    (SELECT string_agg(c, ',' ORDER BY c) FROM pg_catalog.pg_listening_channels() c) AS channels, \
    (SELECT string_agg(name || '=' || setting, ' ' ORDER BY name) FROM pg_catalog.pg_settings \
     WHERE context = 'user' AND name !~ '^tcp_|plpgsql|temp_buffers') AS settings, \
    (SELECT string_agg(secret, ',') FROM secrets) AS secrets";

/// Tables, and functions that leave something without a word of it in a statement's text.
const CONTENTS: &str = "
    CREATE ROLE app LOGIN; CREATE ROLE actor; GRANT actor TO app;
    GRANT CREATE ON SCHEMA public TO app;
    CREATE TABLE secrets (id int PRIMARY KEY, tenant text, secret text);
    INSERT INTO secrets VALUES (1, '', 'nobody''s'), (2, 'one', 'one''s'), (3, 'two', 'two''s');
    ALTER TABLE secrets ENABLE ROW LEVEL SECURITY;
    CREATE POLICY own ON secrets USING (tenant = coalesce(current_setting('app.tenant', true), ''));
    CREATE FUNCTION sets(v text) RETURNS text LANGUAGE sql
    BEGIN ATOMIC SELECT set_config('app.tenant', v, false); END;
    CREATE FUNCTION deep(v text) RETURNS text LANGUAGE plpgsql
    AS $$ BEGIN RETURN public.sets(v); END $$;
    CREATE FUNCTION stable_lie(v text) RETURNS text LANGUAGE plpgsql STABLE
    AS $$ BEGIN RETURN public.deep(v); END $$;
    CREATE FUNCTION runs(what text) RETURNS text LANGUAGE plpgsql
    AS $$ BEGIN EXECUTE what; RETURN 'done'; END $$;
    CREATE FUNCTION tenant_of(o secrets) RETURNS text LANGUAGE sql
    AS $$ SELECT public.deep('one') $$;
    CREATE PROCEDURE calls(what text) LANGUAGE plpgsql AS $$ BEGIN EXECUTE what; END $$;
    CREATE FUNCTION by_trigger() RETURNS trigger LANGUAGE plpgsql
    AS $$ BEGIN PERFORM public.deep('one'); RETURN NEW; END $$;
    CREATE TABLE triggered (id int PRIMARY KEY, v text);
    INSERT INTO triggered VALUES (1, 'x');
    CREATE TRIGGER t BEFORE INSERT OR UPDATE ON triggered FOR EACH ROW
    EXECUTE FUNCTION by_trigger();
    CREATE TABLE parent (id int, v text) PARTITION BY RANGE (id);
    CREATE TABLE child PARTITION OF parent FOR VALUES FROM (0) TO (1000000);
    CREATE TRIGGER t AFTER INSERT ON child FOR EACH ROW EXECUTE FUNCTION by_trigger();
    CREATE VIEW viewed AS SELECT 1 AS n, public.deep('one') AS v;
    CREATE TABLE defaulted (id int, v text DEFAULT public.deep('one'));
    CREATE TABLE generated_by (id int, v text CHECK (public.deep(v) IS NOT NULL));
    CREATE DOMAIN watchful AS text CHECK (public.deep('one') <> VALUE);
    CREATE DOMAIN filled AS text DEFAULT public.deep('one');
    CREATE TABLE of_domain (id int, v filled);
    CREATE FUNCTION idle() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NEW; END $$;
    CREATE TABLE asked (id int, v text);
    CREATE TRIGGER t BEFORE INSERT ON asked FOR EACH ROW
    WHEN (public.deep('one') IS NULL) EXECUTE FUNCTION idle();
    CREATE FUNCTION part(v text) RETURNS int LANGUAGE plpgsql IMMUTABLE
    AS $$ BEGIN PERFORM public.deep('one'); RETURN length(v); END $$;
    CREATE TABLE split (v text) PARTITION BY RANGE (part(v));
    CREATE TABLE piece PARTITION OF split FOR VALUES FROM (0) TO (9);
    CREATE OPERATOR ### (LEFTARG = text, RIGHTARG = text, FUNCTION = concat_with);
";

/// The operator's function comes before it.
const OPERATED: &str = "
    CREATE FUNCTION concat_with(a text, b text) RETURNS text LANGUAGE plpgsql
    AS $$ BEGIN PERFORM set_config('app.tenant', b, false); RETURN a || b; END $$;
";

/// The rest, which needs the operator.
const REST: &str = "
    CREATE FUNCTION summed(state text, v text) RETURNS text LANGUAGE sql
    AS $$ SELECT public.deep(v) $$;
    CREATE AGGREGATE leaving(text) (SFUNC = summed, STYPE = text);
    CREATE TABLE ruled (id int, v text);
    CREATE RULE r AS ON INSERT TO ruled DO ALSO SELECT public.deep('one');
    CREATE FUNCTION policed() RETURNS bool LANGUAGE plpgsql
    AS $$ BEGIN PERFORM public.deep('one'); RETURN true; END $$;
    CREATE TABLE policed (id int);
    INSERT INTO policed VALUES (1);
    ALTER TABLE policed ENABLE ROW LEVEL SECURITY;
    CREATE POLICY p ON policed USING (public.policed());
    GRANT ALL ON ALL TABLES IN SCHEMA public TO app;
";

/// Objects through which something is left, each named for what the user did.
const OBJECTS: [(&str, &str); 23] = [
    ("a function in SQL", "SELECT sets('one')"),
    ("a function that calls one", "SELECT deep('one')"),
    ("a function by its schema", "SELECT public.deep('one')"),
    ("a stable function that lies", "SELECT stable_lie('one')"),
    ("a function as an attribute", "SELECT s.tenant_of FROM secrets s"),
    ("a trigger", "UPDATE triggered SET v = 'y' WHERE id = 1"),
    ("a trigger of an insert", "INSERT INTO triggered VALUES (2, 'z') ON CONFLICT DO NOTHING"),
    ("a trigger of a partition", "INSERT INTO parent VALUES (1, 'p')"),
    ("a view", "SELECT * FROM viewed"),
    ("a default", "INSERT INTO defaulted (id) VALUES (1)"),
    ("a check", "INSERT INTO generated_by VALUES (1, 'one')"),
    ("a domain", "SELECT 'x'::watchful"),
    ("the default of a domain", "INSERT INTO of_domain (id) VALUES (1)"),
    ("the condition of a trigger", "INSERT INTO asked VALUES (1, 'x')"),
    ("the key of partitions", "INSERT INTO split VALUES ('x')"),
    ("the key of a partition's parent", "INSERT INTO piece VALUES ('x')"),
    ("an operator", "SELECT 'a' ### 'one'"),
    ("an aggregate", "SELECT leaving('one')"),
    ("a rule", "INSERT INTO ruled VALUES (1, 'x')"),
    ("a policy", "SELECT count(*) FROM policed"),
    ("set_config with a variable", "SELECT set_config('app.tenant', 'one', id = 1) FROM secrets"),
    (
        "an UPDATE of pg_settings",
        "UPDATE pg_settings SET setting = 'off' WHERE name = 'enable_seqscan'",
    ),
    ("an EXPLAIN", "EXPLAIN ANALYZE CREATE TEMP TABLE explained AS SELECT 1"),
];

/// What is run as text.
const TEXTS: [&str; 9] = [
    "SET app.tenant = 'one'",
    "SET search_path = pg_catalog",
    "SET ROLE actor",
    "SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY",
    "CREATE TEMP TABLE secrets AS SELECT 'stolen'::text AS secret",
    "SELECT pg_advisory_lock(7)",
    "DECLARE c CURSOR WITH HOLD FOR SELECT 1",
    "LISTEN left_behind",
    "PREPARE left_behind AS SELECT 1",
];

fn beside(lines: &str) -> Beside {
    let operator = CONTENTS.find("    CREATE OPERATOR").expect("it has one");
    let (before, after) = CONTENTS.split_at(operator);
    let beside = Beside::new(&format!("{before}{OPERATED}{after}{REST}"), lines);
    until_known(&beside);
    beside
}

/// Waits until the catalogue is known: clients come to have the connection of those before them,
/// and it is not cleaned in between. Before that nothing that is left could reach anybody.
pub(super) fn until_known(beside: &Beside) {
    const LAST: &str = "SELECT query FROM pg_stat_activity \
        WHERE usename = 'app' AND backend_type = 'client backend'";
    let sql = "SELECT pg_backend_pid()";
    let connection = || asks(&mut beside.through_as("app", &[]), sql).rows.remove(0);
    rig::wait::until("a connection is kept as it is", rig::wait::LONG, || {
        let first = connection();
        (0..5).all(|_| {
            let is_same = connection() == first;
            std::thread::sleep(std::time::Duration::from_millis(20));
            is_same && asks(&mut beside.directly(), LAST).value() == Some(sql)
        })
    });
}

/// Runs what leaves something, and holds what another client sees then against what one without
/// Weir does.
fn reaches_nobody(beside: &Beside, cases: &[(String, Vec<String>)]) {
    let mut wrong = Vec::new();
    for (name, statements) in cases {
        for way in ["text", "extended"] {
            let mut ann = beside.through_as("app", &[]);
            for sql in statements {
                match way {
                    "text" => asks(&mut ann, sql),
                    _ => extended(&mut ann, sql, &[]),
                };
            }
            // Those that pin keep it to themselves, and take it with them.
            drop(ann);
            let wanted = asks(&mut beside.directly_as("app", &[]), LOOK).rows;
            let found = asks(&mut beside.through_as("app", &[]), LOOK).rows;
            let parted: Vec<_> = wanted[0].iter().zip(&found[0]).filter(|(a, b)| a != b).collect();
            if !parted.is_empty() {
                wrong.push(format!("{name} as {way}: {:.300}", format!("{parted:?}")));
            }
        }
    }
    assert!(wrong.is_empty(), "another client saw it:\n{}", wrong.join("\n"));
}

fn of_objects() -> Vec<(String, Vec<String>)> {
    OBJECTS.iter().map(|(name, sql)| ((*name).to_owned(), vec![(*sql).to_owned()])).collect()
}

fn of_texts() -> Vec<(String, Vec<String>)> {
    let mut cases = Vec::new();
    for text in TEXTS {
        let quoted = text.replace('\'', "''");
        for (name, sql) in [
            ("a function", format!("SELECT runs('{quoted}')")),
            ("a procedure", format!("CALL calls('{quoted}')")),
            ("a block", format!("DO $$ BEGIN EXECUTE '{quoted}'; END $$")),
            ("a block without EXECUTE", format!("DO $$ BEGIN {text}; END $$")),
        ] {
            cases.push((format!("{text}, by {name}"), vec![sql]));
        }
    }
    cases
}

#[test]
fn by_a_function_a_trigger_a_view_a_default_or_any_other_object() {
    reaches_nobody(&beside(ONE), &of_objects());
}

#[test]
fn by_text_that_a_function_a_procedure_or_a_block_runs() {
    reaches_nobody(&beside(ONE), &of_texts());
}

#[test]
fn by_any_of_these_while_weir_itself_may_not_connect() {
    let beside = beside(ONE);
    beside.cluster.sql("CREATE ROLE weir LOGIN");
    let beside = without_facts(beside);
    reaches_nobody(&beside, &of_objects());
    reaches_nobody(&beside, &of_texts());
}

#[test]
fn by_any_of_these_within_a_transaction() {
    let within = |(name, mut statements): (String, Vec<String>)| {
        statements.insert(0, "BEGIN".to_owned());
        statements.push("COMMIT".to_owned());
        (name, statements)
    };
    let cases: Vec<_> = of_objects().into_iter().chain(of_texts()).map(within).collect();
    reaches_nobody(&beside(ONE), &cases);
}

#[test]
fn by_any_of_these_right_behind_a_change_of_the_catalogue() {
    let behind = |(name, mut statements): (String, Vec<String>)| {
        statements.insert(0, "CREATE TABLE IF NOT EXISTS changes ()".to_owned());
        statements.insert(1, "DROP TABLE changes".to_owned());
        (name, statements)
    };
    let cases: Vec<_> = of_objects().into_iter().map(behind).collect();
    reaches_nobody(&beside(ONE), &cases);
}

#[test]
fn by_a_table_in_a_path_that_begins_with_the_temporary_schema() {
    let statements = [
        "BEGIN",
        "SELECT set_config('search_path', 'pg_temp, public', true)",
        "CREATE TABLE secrets AS SELECT 'stolen'::text AS secret",
        "COMMIT",
    ];
    let statements = statements.map(str::to_owned).to_vec();
    reaches_nobody(&beside(ONE), &[("a table".to_owned(), statements)]);
}

/// Weir, whose own user is let in nowhere.
fn without_facts(beside: Beside) -> Beside {
    let Beside { cluster, mut weir } = beside;
    let table = super::scene::table(&[&cluster], ONE);
    let url = format!("url = \"{}\"", cluster.url());
    let table = table.replace(&url, &format!("{url}\nuser = \"weir\"\ndatabase = \"template1\""));
    cluster.sql("REVOKE CONNECT ON DATABASE postgres FROM PUBLIC");
    cluster.sql("GRANT CONNECT ON DATABASE postgres TO app");
    weir.terminate();
    weir.configure(|_| rig::weir::Setup::new().table(&table));
    weir.start_again();
    Beside { cluster, weir }
}

#[test]
fn what_is_kept_behind_a_discard_in_one_packet_stays_its_clients() {
    let kept = [
        ("CREATE TEMP TABLE mine AS SELECT 42 AS n", "SELECT n FROM mine", "42"),
        (
            "SELECT pg_advisory_lock(9)",
            "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()",
            "1",
        ),
        ("PREPARE q AS SELECT 43", "EXECUTE q", "43"),
        (
            "SELECT set_config('app.tenant', 'one', false)",
            "SELECT current_setting('app.tenant')",
            "one",
        ),
        ("DECLARE c CURSOR WITH HOLD FOR SELECT 44", "FETCH c", "44"),
        ("SET ROLE actor", "SELECT current_user", "actor"),
    ];
    let beside = beside(ONE);
    for (sql, look, wanted) in kept {
        let mut ann = beside.through_as("app", &[]);
        // Pinned already, and not yet.
        for first in ["SELECT 1", "CREATE TEMP TABLE other ()"] {
            let mut out = Vec::new();
            put_query(&mut out, first.as_bytes());
            put_query(&mut out, b"DISCARD ALL");
            put_query(&mut out, sql.as_bytes());
            ann.send(&out).expect("it is taken");
            for _ in 0..3 {
                let reply = ann.reply().expect("it is answered");
                assert_eq!(reply.error, None, "{first}, {sql}");
            }
            assert_eq!(asks(&mut ann, look).value(), Some(wanted), "{first}, DISCARD ALL, {sql}");
            asks(&mut ann, "DISCARD ALL");
        }
        drop(ann);
    }
    reaches_nobody(&beside, &[("after them".to_owned(), vec!["SELECT 1".to_owned()])]);
}

#[test]
fn what_no_discard_takes_away_goes_with_its_connection() {
    let beside = beside(ONE);
    asks(&mut beside.through(), "CREATE EXTENSION dblink");
    until_known(&beside);
    let random = "SELECT random()::text";
    let seeded = {
        let mut twin = beside.directly();
        asks(&mut twin, "SELECT setseed(0.5)");
        asks(&mut twin, random).value().map(str::to_owned)
    };
    for seed in [
        "SELECT setseed(0.5)",
        "SET seed = 0.5",
        "SELECT runs('SELECT setseed(0.5)')",
        "DO $$ BEGIN PERFORM setseed(0.5); END $$",
    ] {
        let mut ann = beside.through();
        asks(&mut ann, seed);
        asks(&mut ann, "DISCARD ALL");
        drop(ann);
        let found = asks(&mut beside.through(), random);
        assert_ne!(found.value(), seeded.as_deref(), "{seed} of somebody else");
    }
    let own = format!(
        "host={} port={} dbname=postgres user={SUPERUSER}",
        beside.cluster.address.ip(),
        beside.cluster.address.port()
    );
    for connect in [
        format!("SELECT dblink_connect('mine', '{own}')"),
        format!("SELECT runs('SELECT dblink_connect(''mine'', ''{own}'')')"),
    ] {
        let mut ann = beside.through();
        assert_eq!(asks(&mut ann, &connect).error, None, "{connect}");
        asks(&mut ann, "DISCARD ALL");
        drop(ann);
        let left =
            asks(&mut beside.through(), "SELECT coalesce(dblink_get_connections()::text, 'none')");
        assert_eq!(left.value(), Some("none"), "{connect}");
    }
}

#[test]
fn no_function_can_put_a_statement_in_the_place_of_another_clients() {
    const TAKERS: &str = "
        CREATE ROLE app LOGIN;
        CREATE FUNCTION takes(name text) RETURNS text LANGUAGE plpgsql AS $$ BEGIN
            BEGIN EXECUTE format('DEALLOCATE %I', name); EXCEPTION WHEN OTHERS THEN NULL; END;
            EXECUTE format('PREPARE %I AS SELECT ''stolen''::text', name);
            RETURN 'taken';
        EXCEPTION WHEN OTHERS THEN RETURN SQLERRM; END $$;
    ";
    let beside = Beside::new(TAKERS, ONE);
    beside.cluster.sql("ALTER SYSTEM SET log_statement = 'all'");
    beside.cluster.reload();
    until_known(&beside);
    let mut ann = beside.through();
    for n in 0..8 {
        prepare(&mut ann, &format!("s{n}"), &format!("SELECT 'ann''s {n}'::text"));
        run(&mut ann, &format!("s{n}"), &[]);
    }
    // Nobody but whoever reads the server's log knows what they are called there.
    let log = beside.cluster.log();
    let name = |n: usize| {
        let text = format!(": SELECT 'ann''s {n}'::text");
        let line = log.lines().find(|line| line.contains("execute ") && line.contains(&text));
        let (_, behind) = line.expect("it is logged").split_once("execute ").unwrap();
        behind.split(':').next().unwrap().to_owned()
    };
    let names: Vec<String> = (0..8).map(name).collect();
    assert!(names.iter().all(|name| name.starts_with("weir_")), "{names:?}");
    let mut bob = beside.through();
    for name in &names {
        let name = name.split('/').next().unwrap();
        asks(&mut bob, &format!("SELECT takes('{name}')"));
    }
    for n in 0..8 {
        let reply = run(&mut ann, &format!("s{n}"), &[]);
        let wanted = format!("ann's {n}");
        assert_eq!((reply.value(), &reply.error), (Some(&*wanted), &None));
        let mut new: MessageClient = beside.through();
        let reply = extended(&mut new, &format!("SELECT 'ann''s {n}'::text"), &[]);
        assert_eq!((reply.value(), &reply.error), (Some(&*wanted), &None));
    }
}
