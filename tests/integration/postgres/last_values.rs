//! `currval` and `lastval` tell a client what it has drawn itself, and never what another has; what
//! a server has prepared shows nothing of others.

use std::time::{Duration, Instant};

use pg::{Client, NoTls};
use rig::postgres::{Cluster, SUPERUSER};
use rig::weir::{Setup, Weir};

use super::scene::{client, config, said, table, value, weir};

const NOT_OWN: &str =
    "55000 the last value drawn from this sequence is not known to be this client's";

const TABLES: &str = "
    CREATE TABLE t (id serial, a int);
    CREATE TABLE u (id bigint GENERATED ALWAYS AS IDENTITY, a int);
    CREATE TABLE by_function (id int, a int);
    CREATE SEQUENCE s;
    CREATE FUNCTION numbered() RETURNS trigger LANGUAGE plpgsql AS
        'begin new.id = nextval(''s''); return new; end';
    CREATE TRIGGER numbered BEFORE INSERT ON by_function FOR EACH ROW EXECUTE FUNCTION numbered();";

/// One server connection for all, which has drawn for another.
fn shared() -> (Cluster, Weir, Client, Client) {
    let cluster = Cluster::start();
    cluster.sql(TABLES);
    let weir = weir(&[&cluster], "[postgres.pool]\nsize = 1");
    let (mut ann, mut bob) = (client(&weir).unwrap(), client(&weir).unwrap());
    for sql in ["INSERT INTO t (a) VALUES (1)", "INSERT INTO u (a) VALUES (1)"] {
        ann.simple_query(sql).unwrap();
        bob.simple_query(sql).unwrap();
    }
    (cluster, weir, ann, bob)
}

#[test]
fn currval_is_never_the_value_of_another_client() {
    let (_cluster, _weir, mut ann, mut bob) = shared();
    for ask in [
        "SELECT currval('t_id_seq')",
        "SELECT lastval()",
        "SELECT currval(pg_get_serial_sequence('t', 'id'))",
        "BEGIN; INSERT INTO t (a) VALUES (2); SELECT currval('u_id_seq')",
        "SELECT currval('t_id_seq'); INSERT INTO t (a) VALUES (2)",
    ] {
        ann.simple_query("INSERT INTO t (a) VALUES (1)").unwrap();
        let asked = value(&mut bob, ask).unwrap_err();
        // Of a connection on which nobody else has drawn the server says it.
        let is_server = asked.starts_with("55000 currval of sequence \"u_id_seq\" is not yet");
        assert!(asked == NOT_OWN || is_server, "{ask}: {asked}");
        let _ = bob.simple_query("ROLLBACK");
    }
    // By a statement that is prepared, too.
    let error = bob.query("SELECT currval('t_id_seq') WHERE $1", &[&true]).unwrap_err();
    assert_eq!(said(&error), NOT_OWN);
    let hint = error.as_db_error().and_then(|error| error.hint()).unwrap_or_default().to_owned();
    for word in ["RETURNING", "transaction", "last-values"] {
        assert!(hint.contains(word), "{hint}");
    }
    // What a block or a function asks for, the server answers for a session that has drawn nothing.
    ann.simple_query("INSERT INTO t (a) VALUES (1)").unwrap();
    let block = value(&mut bob, "DO $$ BEGIN PERFORM currval('t_id_seq'); END $$").unwrap_err();
    assert!(block.starts_with("55000 currval of sequence"), "{block}");
    assert_eq!(value(&mut bob, "SELECT 1").unwrap(), "1");
}

#[test]
fn currval_is_known_in_the_transaction_that_has_drawn() {
    let (_cluster, _weir, mut ann, mut bob) = shared();
    let inserted = "INSERT INTO t (a) VALUES (3) RETURNING id";
    for _ in 0..3 {
        bob.simple_query("INSERT INTO t (a) VALUES (1)").unwrap();
        let mut transaction = ann.transaction().unwrap();
        let id: i32 = transaction.query_one(inserted, &[]).unwrap().get(0);
        let ask = "SELECT currval('t_id_seq') WHERE $1";
        let asked: i64 = transaction.query_one(ask, &[&true]).unwrap().get(0);
        assert_eq!(asked, i64::from(id));
        let last: i64 = transaction.query_one("SELECT lastval()", &[]).unwrap().get(0);
        assert_eq!(last, i64::from(id));
        transaction.commit().unwrap();
    }
    let both = "INSERT INTO u (a) VALUES (3); SELECT lastval() - (SELECT max(id) FROM u)";
    assert_eq!(value(&mut ann, both).unwrap(), "0");
    // An insert that fails before it draws says nothing.
    let mut transaction = ann.transaction().unwrap();
    let mut savepoint = transaction.savepoint("x").unwrap();
    savepoint.simple_query("INSERT INTO t (a) VALUES (3, 4)").unwrap_err();
    savepoint.rollback().unwrap();
    let error = transaction.query("SELECT currval('t_id_seq')", &[]).unwrap_err();
    assert!(said(&error).starts_with("55000 "), "{error}");
}

#[test]
fn a_function_that_asks_for_a_last_value_gets_no_other_clients() {
    let cluster = Cluster::start();
    cluster.sql(TABLES);
    cluster.sql("CREATE FUNCTION last() RETURNS bigint LANGUAGE sql AS 'SELECT lastval()'");
    let weir = weir(&[&cluster], "[postgres.pool]\nsize = 1");
    let (mut ann, mut bob) = (client(&weir).unwrap(), client(&weir).unwrap());
    for _ in 0..20 {
        ann.simple_query("INSERT INTO t (a) VALUES (1)").unwrap();
        let asked = value(&mut bob, "SELECT last()").unwrap_err();
        assert!(asked.starts_with("55000 lastval is not yet defined"), "{asked}");
        let own = value(&mut bob, "BEGIN; INSERT INTO t (a) VALUES (1); SELECT last(); COMMIT");
        own.unwrap();
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_default_that_asks_for_a_last_value_can_be_made_and_gets_no_other_clients() {
    let (_cluster, _weir, mut ann, mut bob) = shared();
    for sql in [
        "CREATE TABLE kept (a int, n bigint DEFAULT currval('t_id_seq'))",
        "CREATE VIEW asked AS SELECT currval('t_id_seq')",
        "CREATE DOMAIN asking AS bigint DEFAULT currval('t_id_seq')",
        "CREATE TABLE of_domain (a int, n asking)",
        "ALTER TABLE u ALTER a SET DEFAULT currval('t_id_seq')",
    ] {
        bob.simple_query(sql).unwrap();
    }
    for n in 0..20 {
        for sql in [
            "INSERT INTO kept (a) VALUES (1) RETURNING n",
            "SELECT * FROM asked",
            "INSERT INTO of_domain (a) VALUES (1) RETURNING n",
            "INSERT INTO u DEFAULT VALUES RETURNING a",
        ] {
            ann.simple_query("INSERT INTO t (a) VALUES (1)").unwrap();
            let asked = value(&mut bob, sql).unwrap_err();
            assert!(asked.starts_with("55000 currval of sequence"), "{n}: {sql}: {asked}");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    // In the transaction that makes it, too; and there what was drawn before stays known.
    ann.simple_query("INSERT INTO t (a) VALUES (1)").unwrap();
    let made = "CREATE TABLE made (a int, n bigint DEFAULT currval('t_id_seq'))";
    bob.simple_query("BEGIN; SELECT 1").unwrap();
    bob.simple_query(made).unwrap();
    let asked = value(&mut bob, "INSERT INTO made (a) VALUES (1) RETURNING n").unwrap_err();
    assert!(asked.starts_with("55000 currval of sequence"), "{asked}");
    bob.simple_query("ROLLBACK").unwrap();
    bob.simple_query("BEGIN; INSERT INTO t (a) VALUES (1)").unwrap();
    bob.simple_query(made).unwrap();
    value(&mut bob, "INSERT INTO made (a) VALUES (1) RETURNING n").unwrap();
    bob.simple_query("ROLLBACK").unwrap();
}

#[test]
fn who_keeps_its_last_values_hears_them_outside_a_transaction() {
    let cluster = Cluster::start();
    cluster.sql(TABLES);
    cluster.sql(
        "CREATE ROLE keeper LOGIN; GRANT ALL ON ALL TABLES IN SCHEMA public TO keeper;
        GRANT ALL ON ALL SEQUENCES IN SCHEMA public TO keeper",
    );
    let lines = "[postgres.pool]\nsize = 1\n\
        [[postgres.user]]\nname = \"keeper\"\nlast-values = \"keep\"\nmax-server-connections = 1";
    let weir = weir(&[&cluster], lines);
    let keeper = || config(weir.postgres, "keeper", SUPERUSER).connect(NoTls).unwrap();
    let (mut ann, mut bob) = (keeper(), keeper());
    for n in 0..5 {
        bob.simple_query("INSERT INTO t (a) VALUES (1)").unwrap();
        bob.simple_query("SELECT 1").unwrap();
        for table in ["t", "u", "by_function"] {
            ann.simple_query(&format!("INSERT INTO {table} (a) VALUES ({n})")).unwrap();
            let newest = value(&mut ann, "SELECT lastval()").unwrap();
            let max = format!("SELECT max(id) FROM {table}");
            assert_eq!(value(&mut ann, &max).unwrap(), newest, "{table}");
        }
    }
    // Nobody waits for long for a client that asks for nothing more.
    bob.simple_query("INSERT INTO t (a) VALUES (1)").unwrap();
    let since = Instant::now();
    assert_eq!(value(&mut ann, "SELECT 1 FOR UPDATE").unwrap(), "1");
    let waited = since.elapsed();
    assert!(waited > Duration::from_millis(500) && waited < Duration::from_secs(5), "{waited:?}");
    assert_eq!(value(&mut bob, "SELECT lastval()"), Err(NOT_OWN.to_owned()));
}

#[test]
fn a_client_with_a_server_of_its_own_has_its_own_last_values() {
    let (cluster, weir, mut ann, mut bob) = shared();
    ann.simple_query("CREATE TEMP TABLE mine (id serial, a int)").unwrap();
    ann.simple_query("INSERT INTO mine (a) VALUES (1)").unwrap();
    assert_eq!(value(&mut ann, "SELECT currval('mine_id_seq')").unwrap(), "1");
    let other = value(&mut ann, "SELECT currval('t_id_seq')").unwrap_err();
    assert!(other.starts_with("55000 currval of sequence"), "{other}");
    ann.simple_query("INSERT INTO by_function (a) VALUES (1)").unwrap();
    assert_eq!(value(&mut ann, "SELECT lastval()").unwrap(), "1");
    drop(ann);
    bob.simple_query("INSERT INTO t (a) VALUES (1)").unwrap();
    drop((bob, weir));
    let weir = Setup::new().table(&table(&[&cluster], "mode = \"session\"")).start();
    let mut ann = client(&weir).unwrap();
    ann.simple_query("INSERT INTO by_function (a) VALUES (1)").unwrap();
    assert_eq!(value(&mut ann, "SELECT lastval()").unwrap(), "2");
}

#[test]
fn what_a_server_has_prepared_shows_nothing_of_others() {
    let (cluster, _weir, mut ann, mut bob) = shared();
    cluster.sql("CREATE VIEW prepared AS SELECT * FROM pg_prepared_statements");
    let secret = ann.prepare("SELECT 'a secret of ann' WHERE $1").unwrap();
    for ask in [
        "SELECT count(*) FROM pg_prepared_statements WHERE statement LIKE '%secret of%'",
        "SELECT count(*) FROM pg_prepared_statement() WHERE statement LIKE '%secret of%'",
        "SELECT count(*) FROM prepared WHERE statement LIKE '%secret of%'",
    ] {
        ann.query(&secret, &[&true]).unwrap();
        // The question itself is one, where it is prepared.
        assert_eq!(value(&mut bob, ask).unwrap(), "0", "{ask}");
        let counted: i64 =
            bob.query_one(&format!("{ask} AND statement NOT LIKE '%count%'"), &[]).unwrap().get(0);
        assert_eq!(counted, 0, "{ask}");
    }
    ann.query(&secret, &[&true]).unwrap();
    let own = "PREPARE mine AS SELECT 1";
    bob.simple_query(own).unwrap();
    let names = "SELECT string_agg(name, ',') FROM pg_prepared_statements WHERE name = 'mine'";
    assert_eq!(value(&mut bob, names).unwrap(), "mine");
    assert_eq!(value(&mut bob, "EXECUTE mine").unwrap(), "1");
}
