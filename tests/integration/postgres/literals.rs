//! A literal is read under the settings of whoever has sent it, and at its own time.

use rig::wait;

use super::beside::{Beside, ONE, extended, prepare, run};
use super::scene::asks;
use rig::postgres::{MessageClient, Reply};

/// Functions that set something where nobody sees it in a statement's text.
const FUNCTIONS: &str = "
    CREATE FUNCTION quietly(k text, v text) RETURNS text LANGUAGE plpgsql
    AS $$ BEGIN RETURN set_config(k, v, true); END $$;
    CREATE TABLE noted (
        id int PRIMARY KEY, day date, at timestamptz, span interval, list text[], flag bool
    );
    INSERT INTO noted (id) SELECT generate_series(1, 9);
";

/// A setting that is not the default, and what is read in another way under it.
const READ: [(&str, &str, &str); 7] = [
    ("datestyle", "ISO, DMY", "SELECT ('01/02/2003'::date)::text WHERE $1"),
    (
        "timezone",
        "Asia/Tokyo",
        "SELECT extract(epoch FROM '2003-01-02 03:04:05'::timestamptz)::text WHERE $1",
    ),
    (
        "intervalstyle",
        "sql_standard",
        "SELECT extract(epoch FROM '-1 2:03:04'::interval)::text WHERE $1",
    ),
    ("standard_conforming_strings", "off", "SELECT length('a\\\\b')::text WHERE $1"),
    ("transform_null_equals", "on", "SELECT coalesce((NULL = NULL)::text, 'null') WHERE $1"),
    ("array_nulls", "off", "SELECT coalesce(('{null}'::text[])[1], 'no text') WHERE $1"),
    ("xmloption", "document", "SELECT length('<a>b</a>'::xml::text)::text WHERE $1"),
];

/// How a client comes to have a setting that is gone when it is done: what is said before its
/// statement, and after it.
const WAYS: [(&str, [&str; 3], &str); 6] = [
    ("SET LOCAL", ["BEGIN", "SET LOCAL {k} = '{v}'", ""], "COMMIT"),
    ("SET, rolled back", ["BEGIN", "SET {k} = '{v}'", ""], "ROLLBACK"),
    ("set_config", ["BEGIN", "SELECT set_config('{k}', '{v}', true)", ""], "COMMIT"),
    ("a function", ["BEGIN", "SELECT quietly('{k}', '{v}')", ""], "COMMIT"),
    ("a savepoint", ["BEGIN", "SAVEPOINT s", "SET LOCAL {k} = '{v}'"], "ROLLBACK TO s; COMMIT"),
    ("a pinned session", ["CREATE TEMP TABLE held ()", "SET {k} = '{v}'", ""], "DISCARD ALL"),
];

fn all(peer: &mut MessageClient, statements: &[&str], k: &str, v: &str) {
    for sql in statements.iter().filter(|sql| !sql.is_empty()) {
        let sql = sql.replace("{k}", k).replace("{v}", v);
        for sql in sql.split("; ") {
            let reply = extended(peer, sql, &[]);
            assert_eq!(reply.error, None, "{sql}");
        }
    }
}

/// What is told without the way in which it was told.
fn told(reply: &Reply) -> (Vec<Vec<Option<String>>>, Option<String>) {
    (reply.rows.clone(), reply.error.clone())
}

#[test]
fn a_literal_is_read_as_its_own_client_has_it_set() {
    for lines in [ONE, "", "mode = \"session\""] {
        let beside = Beside::new(FUNCTIONS, lines);
        let mut wrong = Vec::new();
        for (way, before, after) in WAYS {
            for (k, v, sql) in READ {
                let say = |mut peer: MessageClient| {
                    all(&mut peer, &before, k, v);
                    let first = told(&extended(&mut peer, sql, &["true"]));
                    all(&mut peer, &[after], k, v);
                    (first, told(&extended(&mut peer, sql, &["true"])))
                };
                let (wanted, found) = (say(beside.directly()), say(beside.through()));
                let another = told(&extended(&mut beside.through(), sql, &["true"]));
                let directly = told(&extended(&mut beside.directly(), sql, &["true"]));
                if found != wanted || another != directly {
                    wrong.push(format!(
                        "{way} {k}: {found:?} for {wanted:?}; another client {another:?} for \
                         {directly:?}"
                    ));
                }
            }
        }
        assert!(wrong.is_empty(), "{lines:?}:\n{}", wrong.join("\n"));
    }
}

#[test]
fn the_day_that_is_stored_is_the_one_that_was_meant() {
    let beside = Beside::new(FUNCTIONS, ONE);
    let write = "UPDATE noted SET day = '01/02/2003' WHERE id = 3";
    let stored = |beside: &Beside| beside.cluster.value("SELECT day FROM noted WHERE id = 3");
    for turn in 0..4 {
        for ways in [extended as fn(&mut MessageClient, &str, &[&str]) -> Reply, |peer, sql, _| {
            asks(peer, sql)
        }] {
            let mut ann = beside.through();
            asks(&mut ann, "BEGIN");
            asks(&mut ann, "SET LOCAL datestyle = 'ISO, DMY'");
            assert_eq!(ways(&mut ann, write, &[]).error, None);
            asks(&mut ann, "COMMIT");
            assert_eq!(stored(&beside), "2003-02-01", "turn {turn}");
            let mut bob = beside.through();
            assert_eq!(ways(&mut bob, write, &[]).error, None);
            assert_eq!(stored(&beside), "2003-01-02", "turn {turn}");
            asks(&mut bob, "SET datestyle = 'ISO, DMY'");
            assert_eq!(ways(&mut bob, write, &[]).error, None);
            assert_eq!(stored(&beside), "2003-02-01", "turn {turn}");
        }
    }
}

#[test]
fn now_in_a_literal_is_the_time_of_its_own_transaction() {
    let beside = Beside::new(
        "CREATE TABLE moments (id serial, at timestamptz, really timestamptz DEFAULT now())",
        ONE,
    );
    let reads = [
        "SELECT (now() - 'now'::timestamptz)::text",
        "SELECT (now() - timestamptz 'now')::text WHERE $1",
        "SELECT (localtimestamp - 'NOW'::timestamp)::text",
        "SELECT (now() - E'\\156ow'::timestamptz)::text",
        "SELECT (now() - CAST('now' AS timestamptz))::text",
        "SELECT upper('[yesterday,now)'::tstzrange) = now()",
    ];
    for turn in 0..4 {
        for sql in reads {
            let values: &[&str] = if sql.contains("$1") { &["true"] } else { &[] };
            let wanted = if sql.contains("tstzrange") { "t" } else { "00:00:00" };
            let reply = extended(&mut beside.through(), sql, values);
            assert_eq!((reply.value(), &reply.error), (Some(wanted), &None), "turn {turn}: {sql}");
            if values.is_empty() {
                let reply = asks(&mut beside.through(), sql);
                assert_eq!(reply.value(), Some(wanted), "turn {turn}: {sql} as text");
            }
        }
        for sql in [
            "INSERT INTO moments (at) VALUES ('now')",
            "INSERT INTO moments (at) SELECT 'now' WHERE $1",
        ] {
            let values: &[&str] = if sql.contains("$1") { &["true"] } else { &[] };
            assert_eq!(extended(&mut beside.through(), sql, values).error, None);
        }
        asks(&mut beside.through(), "INSERT INTO moments (at) VALUES ('now')");
    }
    let other = "SELECT count(*) FROM moments WHERE at IS DISTINCT FROM really";
    assert_eq!(beside.cluster.value(other), "0", "rows that have somebody else's time");
}

#[test]
fn today_in_a_literal_is_today_where_the_client_is() {
    let beside = Beside::new("", ONE);
    // These two never have the same day.
    let zones = ["Pacific/Kiritimati", "Pacific/Midway"];
    for _ in 0..3 {
        for zone in zones {
            let mut peer = beside.through();
            asks(&mut peer, "BEGIN");
            asks(&mut peer, &format!("SET LOCAL timezone = '{zone}'"));
            let reply =
                extended(&mut peer, "SELECT 'today'::date = current_date WHERE $1", &["true"]);
            assert_eq!(reply.value(), Some("t"), "{zone}");
            asks(&mut peer, "COMMIT");
        }
    }
}

#[test]
fn each_tenant_reads_and_writes_its_own_schema() {
    const SCHEMAS: &str = "
        CREATE SCHEMA one; CREATE SCHEMA two;
        CREATE TABLE one.things (id int PRIMARY KEY, v text);
        CREATE TABLE two.things (id int PRIMARY KEY, v int8, more text DEFAULT 'more');
        INSERT INTO one.things SELECT n, 'one' FROM generate_series(1, 9) n;
        INSERT INTO two.things SELECT n, 2 FROM generate_series(1, 9) n;
    ";
    const STATEMENTS: [(&str, &[&str]); 4] = [
        ("SELECT * FROM things WHERE id = $1", &["3"]),
        ("SELECT v FROM things WHERE id = 4", &[]),
        ("UPDATE things SET v = v WHERE id = 5", &[]),
        ("SELECT count(*), min(v) FROM things", &[]),
    ];
    for lines in [ONE, ""] {
        let beside = Beside::new(SCHEMAS, lines);
        let say = |mut peer: MessageClient, schema: &str| {
            asks(&mut peer, "BEGIN");
            asks(&mut peer, &format!("SET LOCAL search_path = {schema}"));
            let mut said = Vec::new();
            for (sql, values) in STATEMENTS {
                said.push((sql, told(&extended(&mut peer, sql, values))));
                if values.is_empty() {
                    said.push((sql, told(&asks(&mut peer, sql))));
                }
            }
            asks(&mut peer, "COMMIT");
            said
        };
        for turn in 0..5 {
            for schema in ["one", "two"] {
                let wanted = say(beside.directly(), schema);
                let found = say(beside.through(), schema);
                assert_eq!(found, wanted, "{schema}, turn {turn}");
            }
        }
    }
}

/// A name keeps what it was parsed as, on whichever connection it comes to be used.
#[test]
fn a_prepared_statement_of_one_client_is_not_anothers() {
    let beside = Beside::new(FUNCTIONS, ONE);
    let sql = "SELECT ('01/02/2003'::date)::text";
    let [mut ann, mut bob] = [beside.through(), beside.through()];
    asks(&mut ann, "SET datestyle = 'ISO, DMY'");
    prepare(&mut ann, "s", sql);
    prepare(&mut bob, "s", sql);
    for turn in 0..5 {
        assert_eq!(run(&mut ann, "s", &[]).value(), Some("2003-02-01"), "turn {turn}");
        assert_eq!(run(&mut bob, "s", &[]).value(), Some("2003-01-02"), "turn {turn}");
    }
}

#[test]
fn a_reload_of_the_servers_settings_reaches_what_was_prepared_before() {
    let beside = Beside::new("", ONE);
    let sql = "SELECT ('01/02/2003'::date)::text WHERE $1";
    let ask = || extended(&mut beside.through(), sql, &["true"]).value().map(str::to_owned);
    assert_eq!(ask().as_deref(), Some("2003-01-02"));
    beside.cluster.sql("ALTER SYSTEM SET datestyle = 'ISO, DMY'");
    beside.cluster.reload();
    wait::until("new clients read days first", wait::LONG, || {
        let shown = asks(&mut beside.through(), "SHOW datestyle");
        let read = ask();
        let is_one = matches!(read.as_deref(), Some("2003-01-02" | "2003-02-01"));
        assert!(is_one, "{read:?}");
        shown.value() == Some("ISO, DMY") && read.as_deref() == Some("2003-02-01")
    });
}
