//! Statements so long that looking into them would keep a worker from its other clients.

use std::sync::atomic::{AtomicBool, Ordering};

use pg::Client;
use rig::beside::EndGuard;
use rig::postgres::{Cluster, SUPERUSER};
use rig::weir::{Setup, Weir};

use super::scene::{client, said, table, value};

/// Just below what Weir looks into.
const BYTES: usize = 4 * 1024 * 1024 - 100;

/// One worker, whose watchdog counts what keeps it for longer than a debug build may need for its
/// own.
fn weir(cluster: &Cluster) -> Weir {
    let top = "workers = 1\nstall-limit = \"1s\"";
    Setup::new().top(top).table(&table(&[cluster], "")).start()
}

fn repeated(text: &str, bytes: usize) -> String {
    text.repeat(bytes / text.len())
}

/// Runs it while another client of the same worker asks and is answered; how often the worker has
/// stood still since the start. In the Weir that `WEIR_BIN` names, a release build, every piece of
/// work counts that has taken more than 10 ms of the worker's CPU time.
fn stalls(weir: &Weir, run: impl FnOnce(&mut Client)) -> f64 {
    let mut one = client(weir).expect("let in");
    let mut other = client(weir).expect("let in");
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let asking = scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                assert_eq!(value(&mut other, "SELECT 1"), Ok("1".to_owned()));
            }
        });
        let end = EndGuard(&over);
        run(&mut one);
        drop(end);
        asking.join().expect("no panic");
    });
    let held = std::env::var_os("WEIR_BIN").map_or(0.0, |_| weir.held());
    weir.metrics().sum("weir_worker_stalls_total", &[]) + held
}

#[test]
fn four_megabytes_of_set_in_one_query_hold_nobody_up() {
    let _alone = rig::machine::alone();
    let cluster = Cluster::start();
    let weir = weir(&cluster);
    let stalls = stalls(&weir, |client| {
        client.batch_execute(&repeated("set a.b=1;", BYTES)).expect("it is run");
        assert_eq!(value(client, "SHOW a.b"), Ok("1".to_owned()));
        // A few of them among much else are followed, wherever the session goes on.
        let few = format!("set a.b = 2;{}set a.c = 'x'", repeated("select 1;", 200_000));
        client.batch_execute(&few).expect("it is run");
        assert_eq!(value(client, "SHOW a.b"), Ok("2".to_owned()));
        assert_eq!(value(client, "SHOW a.c"), Ok("x".to_owned()));
    });
    assert_eq!(stalls, 0.0, "{}", weir.log());
}

#[test]
fn long_texts_of_other_kinds_hold_nobody_up_either() {
    let _alone = rig::machine::alone();
    let cluster = Cluster::start();
    cluster.sql(
        "CREATE TABLE n (n int); CREATE SEQUENCE s; CREATE TABLE d (d int DEFAULT nextval('s'))",
    );
    let weir = weir(&cluster);
    let rows = format!("INSERT INTO n VALUES {}(1)", repeated("(1),", BYTES / 4));
    let calls = format!("{}1", "abs(".repeat(1_500));
    let nested = format!("SELECT {calls}{}", ")".repeat(1_500));
    let local = "set_config('a.b',".repeat(1_000) + "'x'" + &",true)".repeat(1_000);
    let draws = repeated("INSERT INTO d DEFAULT VALUES;SELECT currval('s');", 400_000);
    let stalls = stalls(&weir, |client| {
        for text in [
            rows.clone(),
            repeated("select 1;", BYTES / 4),
            repeated(&format!("{nested};"), 300_000),
            repeated(&format!("SELECT {local};"), 300_000),
            draws,
            format!("SELECT '{}'", "it''s ".repeat(BYTES / 8)),
            format!("SELECT 1 /* {} */", repeated("/* */ ", BYTES / 2)),
        ] {
            let start: String = text.chars().take(40).collect();
            client.batch_execute(&text).unwrap_or_else(|error| panic!("{start}: {}", said(&error)));
        }
        // By Parse as well, and bound again when the catalogue has changed.
        let insert = client.prepare(&rows).expect("it is prepared");
        assert_eq!(client.execute(&insert, &[]).ok(), Some(BYTES as u64 / 16 + 1));
        cluster.sql("CREATE TABLE another (n int)");
        client.execute(&insert, &[]).expect("it is run again");
        let several = client.prepare(&repeated("set a.b=1;", BYTES / 2));
        let said = said(&several.map(drop).expect_err("more than one statement"));
        assert!(said.starts_with("42601"), "{said}");
    });
    assert_eq!(stalls, 0.0, "{}", weir.log());
    let count = format!("SELECT count(*) FROM n /* {SUPERUSER} */");
    let expected = 3 * (BYTES / 16 + 1);
    assert_eq!(cluster.value(&count), expected.to_string());
}

#[test]
fn texts_that_are_just_not_long_hold_nobody_up() {
    let _alone = rig::machine::alone();
    const BYTES: usize = 64 * 1024 - 100;
    let cluster = Cluster::start();
    cluster.sql("CREATE TABLE n (n int); CREATE SEQUENCE s");
    let weir = weir(&cluster);
    let calls = format!("SELECT {}1{};", "abs(".repeat(1_000), ")".repeat(1_000));
    let local = "set_config('a.b',".repeat(500) + "'x'" + &",true)".repeat(500);
    let stalls = stalls(&weir, |client| {
        for text in [
            repeated("set a.b=1;", BYTES),
            repeated("select 1;", BYTES),
            repeated(";", BYTES),
            repeated("BEGIN;COMMIT;", BYTES),
            repeated("SELECT nextval('s'),currval('s');", BYTES),
            repeated(&calls, BYTES),
            repeated(&format!("SELECT {local};"), BYTES),
            format!("INSERT INTO n VALUES {}(1)", repeated("(1),", BYTES - 100)),
            format!("SELECT 1 WHERE 1 IN ({}1)", repeated("1,", BYTES - 100)),
            format!("SELECT 1 WHERE {}true", repeated("1=1 OR ", BYTES / 8)),
            format!("DO $$ BEGIN {} END $$", repeated("PERFORM 1;", BYTES - 100)),
            format!("SELECT {}1", repeated("- ", BYTES / 16)),
        ] {
            let start: String = text.chars().take(40).collect();
            for _ in 0..3 {
                let ran = client.batch_execute(&text);
                ran.unwrap_or_else(|error| panic!("{start}: {}", said(&error)));
            }
            // Several are an error of the server's by Parse.
            let _ = client.prepare(&text);
            let stood = weir.metrics().sum("weir_worker_stalls_total", &[]);
            assert_eq!(stood, 0.0, "{start}");
        }
    });
    assert_eq!(stalls, 0.0, "{}", weir.log());
}
