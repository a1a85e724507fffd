//! What a client has prepared is nobody else's: it can't be run, seen or taken away by whoever
//! comes to have the server connection, not by its name there either.

use wire::postgres::backend::Fields;
use wire::postgres::frontend::{put_bind, put_execute, put_parse, put_query, put_sync};

use super::beside::{Beside, ONE, extended, prepare, put_bound, run};
use super::left_behind::until_known;
use super::scene::asks;
use rig::postgres::{MessageClient, Reply};

const CONTENTS: &str = "
    CREATE ROLE app LOGIN;
    CREATE TABLE t (id int PRIMARY KEY, v text);
    INSERT INTO t VALUES (1, 'x');
    GRANT ALL ON t TO app;
    GRANT CREATE ON SCHEMA public TO app;
    CREATE FUNCTION runs(what text) RETURNS text LANGUAGE plpgsql
    AS $$ DECLARE found text; BEGIN EXECUTE what INTO found; RETURN found; END $$;
    CREATE FUNCTION runs_v() RETURNS trigger LANGUAGE plpgsql
    AS $$ BEGIN NEW.v := runs(NEW.v); RETURN NEW; END $$;
    CREATE TABLE triggered (id int PRIMARY KEY, v text);
    GRANT ALL ON triggered TO app;
    CREATE TRIGGER t BEFORE INSERT ON triggered FOR EACH ROW EXECUTE FUNCTION runs_v();
    CREATE FUNCTION looks() RETURNS trigger LANGUAGE plpgsql
    AS $$ BEGIN NEW.v := (SELECT string_agg(statement, ',') FROM pg_prepared_statements);
    RETURN NEW; END $$;
    CREATE TABLE looked (id int, v text);
    GRANT ALL ON looked TO app;
    CREATE TRIGGER t BEFORE INSERT ON looked FOR EACH ROW EXECUTE FUNCTION looks();
";

/// What another client has prepared, with a literal that nobody else is to see.
const SECRET: &str = "SELECT 'ann''s secret' AS v FROM t WHERE id = $1";

/// By which something is done with a statement that has this name on the server.
fn doors(name: &str) -> Vec<String> {
    vec![
        format!("EXECUTE {name}(1)"),
        format!("EXPLAIN ANALYZE EXECUTE {name}(1)"),
        format!("CREATE TEMP TABLE stolen AS EXECUTE {name}(1)"),
        format!("SELECT 1; EXECUTE {name}(1)"),
        format!("ROLLBACK; EXECUTE {name}(1)"),
        format!("SELECT runs('EXECUTE {name}(1)')"),
        format!("DO $$ BEGIN EXECUTE 'EXECUTE {name}(1)'; END $$"),
        format!("INSERT INTO triggered VALUES (1, 'EXECUTE {name}(1)')"),
        format!("DEALLOCATE {name}"),
        format!("DEALLOCATE PREPARE {name}"),
        format!("BEGIN; DEALLOCATE {name}; COMMIT"),
        format!("SELECT runs('DEALLOCATE {name}')"),
        "SELECT runs('SELECT statement FROM pg_prepared_statements LIMIT 1')".to_owned(),
        "INSERT INTO triggered VALUES (2, 'SELECT max(statement) FROM pg_prepared_statements')"
            .to_owned(),
        "INSERT INTO looked VALUES (1) RETURNING v".to_owned(),
        "SELECT statement FROM pg_prepared_statements WHERE statement ~ 'secret'".to_owned(),
    ]
}

/// A client prepares and runs its statement, and goes; the name that it has on the server, which
/// nobody knows but whoever reads the server's log.
fn prepared_by_ann(beside: &Beside) -> String {
    let mut ann = beside.through_as("app", &[]);
    for _ in 0..2 {
        prepare(&mut ann, "mine", SECRET);
        assert_eq!(run(&mut ann, "mine", &["1"]).value(), Some("ann's secret"));
        asks(&mut ann, "DEALLOCATE mine");
    }
    let log = beside.cluster.log();
    let line = log.lines().rev().find(|line| line.contains(SECRET)).expect("it is logged");
    let (_, behind) = line.split_once("execute ").expect("it says which");
    behind.split_once(':').expect("a name").0.to_owned()
}

fn beside() -> Beside {
    let beside = Beside::new(CONTENTS, ONE);
    beside.cluster.sql("ALTER SYSTEM SET log_statement = 'all'");
    beside.cluster.reload();
    until_known(&beside);
    beside
}

/// Goes through a door, by text or as drivers do with parameters.
fn goes(peer: &mut MessageClient, sql: &str, by_text: bool) -> Reply {
    let reply = if by_text { asks(peer, sql) } else { extended(peer, sql, &[]) };
    if reply.status != 'I' {
        asks(peer, "ROLLBACK");
    }
    reply
}

#[test]
fn by_its_name_a_statement_of_another_client_is_not_there() {
    let beside = beside();
    let mut wrong = Vec::new();
    for (at, by_text) in (0..doors("").len()).flat_map(|at| [(at, true), (at, false)]) {
        let name = prepared_by_ann(&beside);
        let sql = &doors(&name)[at];
        let wanted = goes(&mut beside.directly_as("app", &[]), sql, by_text);
        beside.cluster.sql("TRUNCATE triggered, looked");
        let found = goes(&mut beside.through_as("app", &[]), sql, by_text);
        beside.cluster.sql("TRUNCATE triggered, looked");
        // By Weir its own has a name on the server, too, where it has none directly.
        let own = |value: &Option<String>| value.as_deref() == Some(sql);
        let is_own = !by_text && found.rows.iter().flatten().any(own);
        if found != wanted && !is_own {
            wrong.push(format!("{sql}: {found:?}, directly {wanted:?}"));
        }
        // What was to be taken away is there for whoever goes on with it.
        prepared_by_ann(&beside);
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_name_can_not_be_found_by_counting() {
    let beside = beside();
    let name = prepared_by_ann(&beside);
    let number = name.trim_start_matches("weir_").split('_').next().expect("a number");
    assert!(name.len() > "weir__0123456789abcdef".len(), "{name}");
    let mut bob = beside.through_as("app", &[]);
    for guess in [format!("weir_{number}"), "weir_0".to_owned(), "weir_1".to_owned()] {
        prepared_by_ann(&beside);
        let reply = asks(&mut bob, &format!("EXECUTE {guess}(1)"));
        assert_eq!(reply.error.as_deref(), Some("26000"), "{guess}");
        asks(&mut bob, "DISCARD ALL");
        assert_eq!(run(&mut bob, &guess, &["1"]).error.as_deref(), Some("26000"), "{guess}");
    }
}

/// A FunctionCall of a function that takes a text and gives one.
fn function_call(oid: u32, argument: &str) -> Vec<u8> {
    let mut body = oid.to_be_bytes().to_vec();
    // No formats of arguments, which are texts then; one argument; a text as result.
    body.extend([0, 0, 0, 1]);
    body.extend((argument.len() as u32).to_be_bytes());
    body.extend(argument.as_bytes());
    body.extend([0, 0]);
    let len = (body.len() as u32 + 4).to_be_bytes();
    [&b"F"[..], &len, &body].concat()
}

#[test]
fn nor_is_it_for_a_function_that_is_called_by_its_number() {
    let beside = beside();
    let oid = beside.cluster.value("SELECT 'runs(text)'::regprocedure::oid").parse().unwrap();
    let secret = "SELECT statement FROM pg_prepared_statements WHERE statement ~ 'secret'";
    for at in 0..3 {
        let name = prepared_by_ann(&beside);
        let sql = [format!("EXECUTE {name}(1)"), format!("DEALLOCATE {name}"), secret.to_owned()];
        let call = function_call(oid, &sql[at]);
        let answers = [beside.through_as("app", &[]), beside.directly_as("app", &[])].map(
            |mut peer: MessageClient| {
                peer.send(&call).expect("it is taken");
                let said = peer.messages().expect("it is answered").into_iter();
                let shown = said.map(|(tag, body)| match tag {
                    b'E' => Fields::read(&body).expect("an error").code().to_vec(),
                    _ => body,
                });
                shown.collect::<Vec<_>>()
            },
        );
        let [through, directly] = answers;
        assert_eq!(through, directly, "{}", sql[at]);
        prepared_by_ann(&beside);
    }
}

/// What closes the statements of others is left out behind an error, as all up to the Sync is.
#[test]
fn behind_an_error_in_one_packet_nothing_of_others_is_seen_either() {
    let beside = beside();
    let look = "SELECT statement FROM pg_prepared_statements WHERE statement ~ 'secret'";
    for at_once in [true, false] {
        prepared_by_ann(&beside);
        let mut bob = beside.through_as("app", &[]);
        prepare(&mut bob, "look", look);
        let mut out = Vec::new();
        put_query(&mut out, b"BEGIN");
        put_query(&mut out, b"SAVEPOINT s");
        put_parse(&mut out, b"", b"SELEC", &[]);
        put_bound(&mut out, "look", &[]);
        put_query(&mut out, b"ROLLBACK TO s");
        let mut later = Vec::new();
        put_bind(&mut later, b"", b"look", &[]);
        put_execute(&mut later, b"", 0);
        put_sync(&mut later);
        if at_once {
            out.append(&mut later);
        }
        bob.send(&out).expect("it is taken");
        let mut replies: Vec<_> = (0..4).map(|_| bob.reply().expect("it is answered")).collect();
        if !at_once {
            bob.send(&later).expect("it is taken");
        }
        replies.push(bob.reply().expect("it is answered"));
        assert_eq!(replies[2].error.as_deref(), Some("42601"));
        assert_eq!(replies[4].error, None);
        assert!(replies[4].rows.iter().flatten().all(|of| of.as_deref() == Some(look)));
    }
}
