use proptest::prelude::*;

use super::*;

fn kinds(text: &str) -> Vec<Kind> {
    split(text).unwrap().into_iter().map(|statement| statement.kind).collect()
}

fn texts(text: &str) -> Vec<&str> {
    split(text).unwrap().into_iter().map(|statement| statement.text).collect()
}

fn error(text: &str) -> String {
    split(text).unwrap_err().to_string()
}

fn databases(text: &str) -> Vec<String> {
    split(text).unwrap().iter().flat_map(Statement::databases).collect()
}

#[test]
fn statements_are_split_at_semicolons_outside_strings_names_regexes_and_comments() {
    assert_eq!(texts("SELECT a FROM b; SELECT c FROM d"), ["SELECT a FROM b", "SELECT c FROM d"]);
    assert_eq!(texts(" ;; \n SELECT a FROM b ;\t"), ["SELECT a FROM b"]);
    let whole = [
        "SELECT a FROM b WHERE c = 'x;y'",
        r"SELECT a FROM b WHERE c = 'x\';y'",
        r#"SELECT "a;b" FROM c"#,
        r#"SELECT "a\";b" FROM c"#,
        "SELECT a FROM /b;c/",
        "SELECT a FROM /x/, /b;c/",
        r"SELECT a FROM /b\/;c/",
        "SELECT a FROM db.rp./b;c/",
        "SELECT a FROM db../b;c/",
        "SELECT a FROM b WHERE c =~ /d;e/",
        "SELECT a FROM b WHERE c !~ /d;e/ AND f =~ /;/",
        "SELECT /a;b/ FROM c",
        "SELECT a, /b;c/ FROM d",
        "SELECT mean(/b;c/) FROM d",
        "SELECT a FROM b GROUP BY /c;d/",
        "SELECT a FROM b GROUP BY x, /c;d/",
        "SHOW TAG VALUES WITH KEY =~ /a;b/",
        "SHOW MEASUREMENTS WITH MEASUREMENT = /a;b/",
        "SHOW MEASUREMENTS WITH MEASUREMENT = db.rp./a;b/",
        "SELECT a -- ; comment\n FROM b",
        "SELECT a -- ; comment\r FROM b",
        "SELECT a /* ; ** / */ FROM b",
    ];
    for text in whole {
        assert_eq!(texts(text), [text]);
        assert_eq!(kinds(text), [Kind::Read]);
    }
    assert_eq!(texts("-- first\nSELECT a FROM b -- last"), ["SELECT a FROM b"]);
    assert!(texts("").is_empty());
    assert!(texts(" ; -- only a comment").is_empty());
}

#[test]
fn a_slash_that_divides_hides_no_statement() {
    let drop = Kind::Change(Change::DropDatabase { name: "x".to_owned() });
    let hiding = [
        "SELECT a / b FROM c; DROP DATABASE x",
        "SELECT a/b FROM c; DROP DATABASE x -- /",
        "SELECT a ./b FROM c; DROP DATABASE x -- /",
        "SELECT a./b FROM c; DROP DATABASE x -- /",
        "SELECT (a) / b FROM c; DROP DATABASE x -- /",
        "SELECT 1 / b FROM c; DROP DATABASE x -- /",
        "SELECT 1. / b FROM c; DROP DATABASE x -- /",
        "SELECT 1h / b FROM c; DROP DATABASE x -- /",
        "SELECT 'a' / b FROM c; DROP DATABASE x -- /",
        "SELECT \"a\" / b FROM c; DROP DATABASE x -- /",
        "SELECT $a / b FROM c; DROP DATABASE x -- /",
        "SELECT a::field / b FROM c; DROP DATABASE x -- /",
        "SELECT a::float / b FROM c; DROP DATABASE x -- /",
        "SELECT true / b FROM c; DROP DATABASE x -- /",
        "SELECT * / b FROM c; DROP DATABASE x -- /",
        "SELECT a /* c */ / b FROM c; DROP DATABASE x -- /",
        "SELECT a FROM c WHERE b =~ /x/ / 2; DROP DATABASE x -- /",
        "SELECT a FROM c WHERE b = 'it''; DROP DATABASE x; --'; DROP DATABASE x",
    ];
    for text in hiding {
        let kinds = kinds(text);
        assert_eq!((kinds.len(), kinds.last()), (2, Some(&drop)), "{text}");
    }
    assert_eq!(
        error("SELECT a FROM b \0; DROP DATABASE x"),
        "error parsing query: found NUL at line 1, char 17"
    );
}

#[test]
fn what_reads() {
    let reads = [
        "SELECT * FROM cpu",
        "select mean(v) from cpu where time > now() - 1h group by time(1m) fill(none)",
        r#"SELECT "into" FROM m"#,
        "SELECT a FROM m WHERE b = 'INTO'",
        "SELECT a FROM (SELECT b FROM c)",
        "EXPLAIN SELECT a FROM b",
        "EXPLAIN ANALYZE SELECT a FROM b",
        "EXPLAIN ANALYZE VERBOSE SELECT a FROM b",
        "SHOW CONTINUOUS QUERIES",
        "SHOW FIELD KEYS FROM m",
        "SHOW FIELD KEY CARDINALITY",
        "SHOW MEASUREMENT CARDINALITY",
        "SHOW MEASUREMENTS",
        "SHOW QUERIES",
        "SHOW RETENTION POLICIES ON db",
        "SHOW SERIES",
        "SHOW SERIES EXACT CARDINALITY",
        "SHOW TAG KEYS",
        "SHOW TAG KEY CARDINALITY",
        "SHOW TAG VALUES WITH KEY = host",
    ];
    for text in reads {
        assert_eq!(kinds(text), [Kind::Read], "{text}");
    }
    for text in [
        "SHOW DIAGNOSTICS",
        "SHOW GRANTS FOR jane",
        "SHOW SHARD GROUPS",
        "SHOW SHARDS",
        "SHOW STATS FOR 'indexes'",
        "SHOW SUBSCRIPTIONS",
        "SHOW USERS",
        "show shards",
    ] {
        assert_eq!(kinds(text), [Kind::ReadAsAdmin], "{text}");
    }
    // InfluxDB reads the name `b` here, and then misses a FROM: no server runs it.
    assert_eq!(kinds("SELECT a into\"b\" FROM c"), [Kind::Read]);
    assert_eq!(kinds("show databases"), [Kind::ShowDatabases]);
}

#[test]
fn what_changes() {
    let database = |name: &str, policy: Option<&str>| Change::CreateDatabase {
        name: name.to_owned(),
        policy: policy.map(str::to_owned),
    };
    let create = |db: &str, name: &str, default| Change::CreateRetentionPolicy {
        db: db.to_owned(),
        name: name.to_owned(),
        default,
    };
    let alter = |db: &str, name: &str, default| Change::AlterRetentionPolicy {
        db: db.to_owned(),
        name: name.to_owned(),
        default,
    };
    let policy = ("d".to_owned(), "r".to_owned());
    let changes = [
        ("CREATE DATABASE d", database("d", None)),
        (r#"create database "a \"b\"""#, database("a \"b\"", None)),
        ("CREATE DATABASE future", database("future", None)),
        ("CREATE DATABASE d WITH NAME r", database("d", Some("r"))),
        (
            "CREATE DATABASE d WITH DURATION 1d12h REPLICATION 1 SHARD DURATION 30m NAME \"r r\"",
            database("d", Some("r r")),
        ),
        ("CREATE DATABASE d WITH DURATION INF", database("d", None)),
        ("CREATE DATABASE d WITH PAST LIMIT 1h NAME r", database("d", Some("r"))),
        ("DROP DATABASE d", Change::DropDatabase { name: "d".to_owned() }),
        (
            "CREATE RETENTION POLICY r ON d DURATION 1h REPLICATION 1 DEFAULT",
            create("d", "r", true),
        ),
        (
            "CREATE RETENTION POLICY r ON d DURATION 1h REPLICATION 2 SHARD DURATION 1h",
            create("d", "r", false),
        ),
        ("ALTER RETENTION POLICY r ON d DEFAULT", alter("d", "r", true)),
        ("ALTER RETENTION POLICY default ON d DURATION 1w", alter("d", "default", false)),
        (
            "ALTER RETENTION POLICY r ON d SHARD DURATION 1h REPLICATION 3 DEFAULT DURATION 0s",
            alter("d", "r", true),
        ),
        (
            "DROP RETENTION POLICY r ON d",
            Change::DropRetentionPolicy { db: policy.0, name: policy.1 },
        ),
        ("DELETE FROM m WHERE time < now()", Change::Delete),
        ("DELETE WHERE a = 'b'", Change::Delete),
        ("DROP SERIES FROM m", Change::DropSeries),
        ("DROP MEASUREMENT m", Change::Other),
        ("DROP SHARD 1", Change::Other),
        ("SELECT a INTO b FROM c", Change::Into),
        ("EXPLAIN ANALYZE SELECT a INTO b FROM c", Change::Into),
        ("CREATE SUBSCRIPTION s ON d.r DESTINATIONS ALL 'udp://h:1'", Change::Other),
        ("DROP SUBSCRIPTION s ON d.r", Change::Other),
        (
            "CREATE CONTINUOUS QUERY q ON d BEGIN SELECT mean(a) INTO b FROM c \
             GROUP BY time(1m) END",
            Change::Other,
        ),
        ("DROP CONTINUOUS QUERY q ON d", Change::Other),
    ];
    for (text, change) in changes {
        assert_eq!(kinds(text), [Kind::Change(change)], "{text}");
    }
}

#[test]
fn what_concerns_users_or_one_server() {
    let users = [
        "CREATE USER jane WITH PASSWORD 'x' WITH ALL PRIVILEGES",
        "DROP USER jane",
        "SET PASSWORD FOR jane = 'x'",
        "GRANT READ ON db TO jane",
        "GRANT ALL PRIVILEGES TO jane",
        "REVOKE ALL FROM jane",
    ];
    for text in users {
        assert_eq!(kinds(text), [Kind::User], "{text}");
    }
    assert_eq!(kinds("KILL QUERY 36"), [Kind::Local]);
}

#[test]
fn what_is_wrong_is_said_as_influxdb_says_it() {
    let verbs = "SELECT, DELETE, SHOW, CREATE, DROP, EXPLAIN, GRANT, REVOKE, ALTER, SET, KILL";
    let cases = [
        ("FOO", format!("found FOO, expected {verbs} at line 1, char 1")),
        ("  foo bar", format!("found foo, expected {verbs} at line 1, char 3")),
        ("FROM x", format!("found FROM, expected {verbs} at line 1, char 1")),
        ("'x'", format!("found x, expected {verbs} at line 1, char 1")),
        ("SELECT a FROM b;\n\n é", format!("found é, expected {verbs} at line 3, char 2")),
        ("a;\r\nb", format!("found a, expected {verbs} at line 1, char 1")),
        ("DROP DATABASE a;\r\nb", format!("found b, expected {verbs} at line 2, char 1")),
        ("DROP DATABASE", "found EOF, expected identifier at line 1, char 15".to_owned()),
        ("DROP DATABASE a b", "found b, expected ; at line 1, char 17".to_owned()),
        ("DROP DATABASE 'a'", "found a, expected identifier at line 1, char 14".to_owned()),
        ("SET PASSWORD", "found EOF, expected FOR at line 1, char 14".to_owned()),
        ("DELETE", "found EOF, expected FROM, WHERE at line 1, char 8".to_owned()),
        ("DROP SERIES", "found EOF, expected FROM, WHERE at line 1, char 13".to_owned()),
        ("EXPLAIN", "found EOF, expected SELECT at line 1, char 9".to_owned()),
        (
            "SHOW",
            "found EOF, expected CONTINUOUS, DATABASES, DIAGNOSTICS, FIELD, GRANTS, MEASUREMENT, \
             MEASUREMENTS, QUERIES, RETENTION, SERIES, SHARD, SHARDS, STATS, SUBSCRIPTIONS, TAG, \
             USERS at line 1, char 6"
                .to_owned(),
        ),
        (
            "CREATE DATABASE a WITH",
            "found EOF, expected DURATION, NAME, REPLICATION, SHARD at line 1, char 24".to_owned(),
        ),
        ("SELECT f FROM /b", "bad regex:  at line 1, char 14".to_owned()),
        ("DROP DATABASE ''", "found STRING, expected identifier at line 1, char 14".to_owned()),
        ("SHOW DATABASES;'x\\q'", format!("found \\q, expected {verbs} at line 1, char 19")),
        ("SHOW DATABASES;\n'x", format!("found x, expected {verbs} at line 1, char 16")),
        ("DROP DATABASE a /*", "found ILLEGAL, expected ; at line 1, char 17".to_owned()),
        ("DROP RETENTION POLICY \"r\"", "found EOF, expected ON at line 1, char 26".to_owned()),
        ("KILL QUERY x", "found x, expected integer at line 1, char 12".to_owned()),
        ("GRANT x", "found x, expected READ, WRITE, ALL [PRIVILEGES] at line 1, char 7".to_owned()),
        ("CREATE USER a WITH PASSWORD", "found EOF, expected string at line 1, char 29".to_owned()),
        (
            "ALTER RETENTION POLICY r ON d DEFAULT DEFAULT",
            "found duplicate DEFAULT option at line 1, char 39".to_owned(),
        ),
        (
            "CREATE RETENTION POLICY r ON d DURATION 1x REPLICATION 1",
            "invalid duration at line 1, char 41".to_owned(),
        ),
        (
            "CREATE RETENTION POLICY r ON d DURATION 1h REPLICATION 0",
            "invalid value 0: must be 1 <= n <= 2147483647 at line 1, char 56".to_owned(),
        ),
        (
            "ALTER RETENTION POLICY r ON d",
            "found EOF, expected DURATION, REPLICATION, SHARD, DEFAULT at line 1, char 31"
                .to_owned(),
        ),
    ];
    for (text, why) in cases {
        assert_eq!(error(text), format!("error parsing query: {why}"), "{text}");
    }
    for text in ["SELECT 'a", "SELECT \"a", "SELECT a /* b", "SELECT '\\q'"] {
        assert!(error(text).contains("expected identifier, string, number, bool"), "{text}");
    }
    assert!(error(&"x".repeat(1 << 20)).len() < 1024);
}

#[test]
fn databases_that_a_statement_names() {
    let cases: [(&str, &[&str]); 26] = [
        ("SELECT a FROM b", &[]),
        ("SELECT a FROM rp.b", &[]),
        ("SELECT a FROM db.rp.b", &["db"]),
        ("SELECT a FROM db..b", &["db"]),
        (r#"SELECT a FROM "d.b"."r.p".b"#, &["d.b"]),
        ("SELECT a FROM db.rp./x/", &["db"]),
        ("SELECT a FROM db../x/", &["db"]),
        ("SELECT a FROM x, db1.rp.b, y.z, db2..c WHERE d = 1", &["db1", "db2"]),
        ("SELECT a.b.c FROM m WHERE d.e.f = 1 GROUP BY g.h.i", &[]),
        ("SELECT a FROM (SELECT b FROM db.rp.c), e..f", &["db", "e"]),
        ("SELECT a INTO db.rp.b FROM src..c", &["db", "src"]),
        ("SELECT a INTO db.rp.:MEASUREMENT FROM c", &["db"]),
        ("SELECT a FROM $db.rp.b", &["$db"]),
        ("CREATE DATABASE db", &["db"]),
        ("DROP DATABASE db", &["db"]),
        ("SHOW MEASUREMENTS ON db", &["db"]),
        ("SHOW MEASUREMENTS ON *.*", &["*"]),
        ("SHOW MEASUREMENTS WITH MEASUREMENT = db.rp.m", &["db"]),
        ("SHOW TAG VALUES ON $x WITH KEY = a", &["$x"]),
        ("SHOW TAG KEYS FROM db.rp.m", &["db"]),
        ("CREATE RETENTION POLICY r ON db DURATION 1h REPLICATION 1", &["db"]),
        ("GRANT READ ON db TO jane", &["db"]),
        ("CREATE SUBSCRIPTION s ON db.rp DESTINATIONS ALL 'x'", &["db"]),
        (
            "CREATE CONTINUOUS QUERY q ON a BEGIN SELECT b INTO c.d.e FROM f..g END",
            &["a", "c", "f"],
        ),
        ("KILL QUERY 1 ON host", &[]),
        ("SELECT a FROM -- x\n db /* y */..b", &["db"]),
    ];
    for (text, expected) in cases {
        assert_eq!(databases(text), expected, "{text}");
    }
}

#[test]
fn now_becomes_a_literal() {
    let at = "'2023-11-14T22:13:20.000000001Z'";
    let frozen = |text: &str| freeze_now(text, 1_700_000_000_000_000_001);
    assert_eq!(frozen("DELETE WHERE time < now() - 1h"), format!("DELETE WHERE time < {at} - 1h"));
    assert_eq!(frozen("DELETE WHERE time<NOW( )AND a=1"), format!("DELETE WHERE time<{at}AND a=1"));
    assert_eq!(
        frozen("SELECT a INTO b FROM c GROUP BY time(1h, now())"),
        "SELECT a INTO b FROM c GROUP BY time(1h, 1700000000000000001ns)"
    );
    let kept = [
        "DELETE WHERE a = 'now()'",
        "DELETE WHERE \"now\" = 1",
        "DELETE WHERE now = 1 -- now()",
        "DELETE FROM /now()/",
        "DELETE WHERE known() = 1",
        "CREATE CONTINUOUS QUERY q ON d BEGIN SELECT a INTO b FROM c WHERE time > now() END",
    ];
    for text in kept {
        assert_eq!(frozen(text), text);
    }
}

#[test]
fn passwords_are_redacted() {
    let cases = [
        ("CREATE USER a WITH PASSWORD 'x y'", "CREATE USER a WITH PASSWORD [REDACTED]"),
        (
            "CREATE USER a WITH PASSWORD 'x' WITH ALL PRIVILEGES; SHOW USERS",
            "CREATE USER a WITH PASSWORD [REDACTED] WITH ALL PRIVILEGES; SHOW USERS",
        ),
        ("set password for \"a\" = 'x'", "set password for \"a\" = [REDACTED]"),
        ("SET PASSWORD FOR a='it\\'s'", "SET PASSWORD FOR a=[REDACTED]"),
        ("SET PASSWORD FOR a = 'unended", "SET PASSWORD [REDACTED]"),
        (
            "SELECT a FROM b WHERE c = 'password' AND d = 1",
            "SELECT a FROM b WHERE c = 'password' AND d = 1",
        ),
        ("SELECT 'x' FROM a -- b", "SELECT 'x' FROM a -- b"),
        ("SELECT 'x FROM a\nb", "SELECT 'x FROM a\nb"),
        ("SELECT a -- with password 'x'\n, b", "SELECT a , b"),
        ("'a SET PASSWORD FOR a = 'x'", "'a SET PASSWORD [REDACTED]"),
    ];
    for (text, expected) in cases {
        assert_eq!(redact(text), expected);
    }
    let secret = [
        "CREATE USER a WITH PASSWORD secret",
        "CREATE USER a WITH PASSWORD \"secret\"",
        "CREATE USER a WITH PASSWORD 'it's secret",
        "CREATE USER a WITH PASSWORD 'x'secret",
        "CREATE USER a WITH PASSWORD x;secret",
        "SET PASSWORD FOR a secret",
        "SET PASSWORD FOR a = $secret",
        "SELECT \"\n; SET PASSWORD FOR a = 'secret'",
        "SELECT a FROM /b\n; SET PASSWORD FOR a = 'secret'",
        "/* SET PASSWORD FOR a = 'secret'",
    ];
    for text in secret {
        assert!(!redact(text).contains("secret"), "{text}: {}", redact(text));
    }
}

#[test]
fn quoted_names_and_strings_read_back() {
    assert_eq!(quote_identifier("a\"b\\c\nd"), r#""a\"b\\c\nd""#);
    assert_eq!(quote_string("it's"), r"'it\'s'");
}

proptest! {
    #[test]
    fn nothing_panics(text in "(?s).{0,80}", now in any::<i64>()) {
        if let Ok(statements) = split(&text) {
            for statement in statements {
                statement.databases();
            }
        }
        freeze_now(&text, now);
        redact(&text);
    }

    #[test]
    fn statements_split_alone_as_in_company(
        parts in proptest::collection::vec(
            "(SELECT|DELETE FROM|SHOW SERIES|DROP DATABASE)( |/|'|\"|a|b|;|\\.|,|=~|\\(|\\)){0,12}",
            1..4,
        ),
    ) {
        let text = parts.join(";");
        if let Ok(statements) = split(&text) {
            for statement in statements {
                prop_assert_eq!(split(statement.text).unwrap(), vec![statement]);
            }
        }
    }

    #[test]
    fn quoted_names_come_back(name in "[^\0\r]{1,20}") {
        let statement = format!("DROP DATABASE {}", quote_identifier(&name));
        prop_assert_eq!(kinds(&statement), [Kind::Change(Change::DropDatabase { name })]);
    }
}
