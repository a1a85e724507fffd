//! Statements that change something run on every backend at their place among the writes.

use std::collections::BTreeSet;

use rig::fake::{Event, Mode};
use rig::http::Request;
use rig::influxd::Influxd;
use rig::wait;
use rig::weir::Setup;
use serde_json::Value;

use crate::scene::{Scene, point, points};

#[test]
fn what_is_written_before_a_delete_goes_and_what_is_written_after_it_stays() {
    let (a, mut b) = (Influxd::start(), Influxd::start());
    let weir = Setup::new().backend("a", &a.url()).backend("b", &b.url()).start();
    let answer = weir.query("CREATE DATABASE db", &[]);
    assert_eq!(answer.json()["results"][0]["error"], Value::Null, "{}", answer.text());
    weir.must_write("db", &points(0, 100));
    weir.wait_delivered();
    b.kill();
    weir.must_write("db", &points(100, 100));
    let answer = weir.query("DROP MEASUREMENT load", &[("db", "db")]);
    assert!(answer.text().contains('b'), "the client hears who follows: {}", answer.text());
    assert_eq!(weir.account("b").waiting_statements, 1, "it was not waited for");
    weir.must_write("db", &points(1_000, 10));
    b.start_again();
    weir.wait_delivered();
    assert_eq!((a.count("db", "load", "v"), b.count("db", "load", "v")), (10, 10));
}

#[test]
fn a_database_is_known_on_every_worker_before_its_create_is_answered() {
    let server = Influxd::start();
    let weir = Setup::new().top("workers = 4").backend("a", &server.url()).start();
    for round in 0..10 {
        let answer = weir.query(&format!("CREATE DATABASE \"db{round}\""), &[]);
        assert_eq!(answer.status(), 200);
        // Each request has a connection of its own, so that all workers have their turn.
        for n in 0..8 {
            weir.must_write(&format!("db{round}"), &point(n));
        }
    }
    weir.wait_delivered();
    assert_eq!(server.count("db9", "load", "v"), 8);
}

#[test]
fn now_means_the_moment_of_the_statement_on_every_backend() {
    let scene = Scene::with_b(|setup| setup, "statement-timeout = \"500ms\"");
    scene.b.set_queries(Mode::Hang);
    let q = "DELETE FROM load WHERE time < now() - 1h AND note != 'now()'";
    let answer = scene.weir.query(q, &[("db", "db")]);
    assert_eq!(answer.status(), 200, "{}", answer.text());
    scene.b.set_queries(Mode::Accept);
    scene.weir.wait_delivered();
    let statement = |events: Vec<Event>| {
        events.into_iter().find_map(|event| match event {
            Event::Statement { text, db } => Some((text, db)),
            Event::Write { .. } => None,
        })
    };
    let (a, b) = (statement(scene.a.events()).unwrap(), statement(scene.b.events()).unwrap());
    assert_eq!(a, b, "the same words, however late");
    assert!(!a.0.replace("'now()'", "").contains("now()"), "{a:?}");
    assert!(a.0.contains("note != 'now()'"), "a string is left alone: {a:?}");
    assert_eq!(a.1, "db");
}

#[test]
fn no_batch_spans_a_statement() {
    let scene = Scene::with_b(|setup| setup, "timeout = \"500ms\"");
    scene.b.set(Mode::Hang);
    scene.write_one_by_one(0, 20);
    let answer = scene.weir.query("DROP SERIES FROM load", &[("db", "db")]);
    assert_eq!(answer.status(), 200);
    scene.write_one_by_one(20, 20);
    scene.b.set(Mode::Accept);
    scene.weir.wait_delivered();
    for fake in [&scene.a, &scene.b] {
        let mut before = BTreeSet::new();
        let mut after = BTreeSet::new();
        let mut dropped = false;
        for event in fake.events() {
            match event {
                Event::Statement { .. } => dropped = true,
                Event::Write { lines, .. } => {
                    let side = if dropped { &mut after } else { &mut before };
                    side.extend(lines.lines().map(str::to_owned));
                }
            }
        }
        // A request that hung until it was given up may be taken late, and is a repetition.
        let after: BTreeSet<_> = after.difference(&before).cloned().collect();
        let expected = |first| points(first, 20).lines().map(str::to_owned).collect();
        assert_eq!((before, after), (expected(0), expected(20)));
    }
}

#[test]
fn a_statement_that_fails_is_answered_with_the_backends_words() {
    let server = Influxd::start();
    server.create("db");
    let weir = Setup::new().backend("a", &server.url()).start();
    for q in [
        "DROP RETENTION POLICY nothing ON db",
        "CREATE RETENTION POLICY p ON nowhere DURATION 1h REPLICATION 1",
        "DROP SHARD 4711",
    ] {
        let expected = server.ask(q, &[("db", "db")]);
        let answer = weir.query(q, &[("db", "db")]);
        let ours = answer.json()["results"][0].clone();
        assert_eq!(ours["error"], expected["results"][0]["error"], "{q}: {}", answer.text());
    }
    weir.must_write("db", &point(0));
    weir.wait_delivered();
    assert_eq!(server.count("db", "load", "v"), 1, "and holds up nothing");
}

#[test]
fn users_of_the_backends_are_changed_on_all_of_them_or_on_none() {
    let (a, mut b) = (Influxd::start(), Influxd::start());
    let weir = Setup::new().backend("a", &a.url()).backend("b", &b.url()).start();
    let create =
        |name: &str| weir.query(&format!("CREATE USER {name} WITH PASSWORD 'secret-{name}'"), &[]);
    let answer = create("anna");
    assert_eq!(answer.json()["results"][0]["error"], Value::Null, "{}", answer.text());
    for server in [&a, &b] {
        assert!(server.ask("SHOW USERS", &[]).to_string().contains("anna"));
    }
    b.kill();
    wait::until("it is refused in words", wait::LONG, || {
        let answer = create("berta");
        answer.text().contains("error") && answer.text().contains('b')
    });
    assert!(!a.ask("SHOW USERS", &[]).to_string().contains("berta"));
    let journal = weir.journal_dir();
    for entry in std::fs::read_dir(journal).unwrap().flatten().filter(|e| e.path().is_file()) {
        let bytes = std::fs::read(entry.path()).unwrap();
        let found = bytes.windows(7).any(|window| window == b"secret-");
        assert!(!found, "{} holds a password", entry.path().display());
    }
    assert!(!weir.log().contains("secret-"), "nor does the log");
}

#[test]
fn several_statements_at_once_are_answered_each_in_its_place() {
    let server = Influxd::start();
    let weir = Setup::new().backend("a", &server.url()).start();
    let q = "CREATE DATABASE x; SHOW DATABASES; CREATE DATABASE \"y;z\"; SHOW MEASUREMENTS ON x";
    let answer = weir.send(&Request::query(q, &[])).json();
    let results = answer["results"].as_array().unwrap();
    let numbers: Vec<_> = results.iter().map(|r| r["statement_id"].as_u64().unwrap()).collect();
    assert_eq!(numbers, [0, 1, 2, 3], "{answer}");
    assert!(results[1].to_string().contains("\"x\""), "{answer}");
    assert!(server.databases().contains(&"y;z".to_owned()));
}
