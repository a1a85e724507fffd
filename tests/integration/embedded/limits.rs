//! What it refuses: points of another type, points that are too old, and writes it has no room for.

use std::fs;

use rig::http::{Connection, Request};
use rig::wait;
use rig::weir::Setup;
use rig::{places, status::Account};

use super::{count, get, must_run, rows, store, with};
use crate::disk_faults::Mount;
use crate::scene::{point, points};

#[test]
fn a_value_of_another_type_is_refused_in_influxdbs_words_and_the_rest_is_kept() {
    let weir = store();
    weir.must_write("db", "m f=1.5 1\n");
    let answer = weir.write("db", "m f=2i 2\nm f=3.5 3\nm f=4i 4\n");
    assert_eq!(answer.status(), 400);
    assert_eq!(
        answer.text(),
        "{\"error\":\"partial write: field type conflict: input field \\\"f\\\" on measurement \
         \\\"m\\\" is type integer, already exists as type float dropped=2\"}\n"
    );
    assert_eq!(rows(&weir, "SELECT f FROM m").len(), 2);
    let account = weir.account("store");
    assert_eq!((account.accepted, account.dead_lettered), (2, 0), "{account:?}");
}

#[test]
fn points_that_are_too_old_are_refused() {
    let weir = store();
    must_run(&weir, "CREATE RETENTION POLICY hour ON db DURATION 1h REPLICATION 1");
    let answer = weir.send(&Request::post("/write?db=db&rp=hour", "m f=1 1\nm f=2"));
    assert_eq!(answer.status(), 400);
    let expected = "{\"error\":\"partial write: points beyond retention policy dropped=1\"}\n";
    assert_eq!(answer.text(), expected);
    assert_eq!(rows(&weir, "SELECT f FROM \"hour\".m").len(), 1);
}

#[test]
fn partitions_that_are_too_old_go_whole_with_their_files() {
    let mut weir = with(|setup| setup.store("flush-interval = \"50ms\""));
    must_run(&weir, "CREATE RETENTION POLICY p ON db DURATION INF REPLICATION 1 SHARD DURATION 1h");
    let hours = |hours: u64| {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        now.as_secs() - hours * 3_600
    };
    let line = |ago: u64| format!("m,ago={ago} v={ago}i {}\n", hours(ago));
    let lines: String = [0, 3, 5, 100].into_iter().map(line).collect();
    let answer = weir.send(&Request::post("/write?db=db&rp=p&precision=s", lines));
    assert_eq!(answer.status(), 204, "{}", answer.text());
    let files = |weir: &rig::weir::Weir| weir.metrics().sum("weir_store_files", &[]);
    wait::until("each partition is a file", wait::LONG, || files(&weir) == 4.0);
    must_run(&weir, "ALTER RETENTION POLICY p ON db DURATION 4h");
    weir.terminate();
    weir.start_again();
    wait::until("the old ones have gone", wait::LONG, || files(&weir) == 2.0);
    assert_eq!(rows(&weir, "SELECT v FROM p.m").len(), 2);
    assert_eq!(rows(&weir, "SHOW TAG VALUES FROM p.m WITH KEY = ago").len(), 2);
    let parquet = |dir: &std::path::Path| {
        let entries = fs::read_dir(dir).unwrap().flatten();
        entries.filter(|file| file.path().extension().is_some_and(|e| e == "parquet")).count()
    };
    let policies = || fs::read_dir(weir.store_dir().join("data")).unwrap().flatten();
    wait::until("their files, too", wait::LONG, || {
        policies().map(|policy| parquet(&policy.path())).sum::<usize>() == 2
    });
}

#[test]
fn a_database_is_made_by_a_write_only_where_that_is_asked_for() {
    let weir = store();
    let answer = weir.write("other", &point(0));
    assert_eq!(answer.status(), 404);
    assert_eq!(answer.text(), "{\"error\":\"database not found: \\\"other\\\"\"}\n");
    let weir = Setup::new().embedded().influx("auto-create-database = true").start();
    weir.must_write("other", &point(0));
    assert!(weir.query("SHOW DATABASES", &[]).text().contains("other"));
}

#[test]
fn a_store_is_not_left_out_of_sight_by_mistake() {
    let mut weir = store();
    weir.must_write("db", &points(0, 10));
    weir.terminate();
    weir.configure(|_| Setup::new().backend("a", "http://127.0.0.1:1"));
    let (code, log) = weir.start_in_vain();
    assert_eq!(code, Some(78), "{log}");
    assert!(log.contains("embedded = true"), "{log}");
}

#[test]
fn a_full_disk_refuses_writes_and_recovers_by_itself() {
    let dir = places::directory();
    let mount = dir.path().join("disk");
    fs::create_dir(&mount).unwrap();
    let mounted = Mount::tmpfs(&mount, "24m");
    let small = "segment-size = \"1MiB\"\nmax-size = \"1GiB\"";
    let mut weir = with(|setup| {
        let setup = setup.journal(small).journal_dir(mount.join("journal"));
        setup.store("memory = \"1MiB\"").store_dir(mount.join("store"))
    });
    weir.must_write("db", &points(0, 500));
    let ballast = mount.join("ballast");
    assert!(fs::write(&ballast, vec![1; 24 << 20]).is_err(), "there is no room left");
    let mut taken = 500;
    let refusal = wait::value("the disk is full", wait::LONG, || {
        let answer = weir.write("db", &points(taken, 500));
        if answer.status() == 204 {
            taken += 500;
            return None;
        }
        Some(answer)
    });
    assert_eq!(refusal.status(), 503, "{}", refusal.text());
    assert_eq!(get(&weir, "SHOW DATABASES", "").status(), 200, "reading goes on");
    fs::remove_file(&ballast).unwrap();
    wait::until("writes are taken again", wait::LONG, || {
        weir.write("db", &points(taken, 1)).status() == 204
    });
    assert!(count(&weir) > taken);
    weir.kill();
    weir.start_again();
    assert!(count(&weir) > taken);
    assert!(weir.accounts().iter().all(Account::adds_up));
    drop(weir);
    drop(mounted);
}

#[test]
fn a_query_ends_when_its_client_goes() {
    let weir = with(|setup| setup.store("query-timeout = \"600s\""));
    let lines: String = (0..2_000).map(|n| format!("m,t={n} v={n} {n}\n")).collect();
    weir.must_write("db", &lines);
    let mut client = Connection::open(weir.http).unwrap();
    let q = "SELECT mean(v) FROM m WHERE time < 2000000000000000000 GROUP BY time(1u), t fill(0)";
    let request = Request::get(&format!("/query?db=db&q={}", rig::http::escape(q)));
    client.push(&request.encode()).unwrap();
    let running = || {
        let shown = rows(&weir, "SHOW QUERIES");
        shown.iter().any(|row| row[1].to_string().contains("fill(0)") && row[4] == "running")
    };
    wait::until("the query runs", wait::LONG, running);
    drop(client);
    wait::until("the query is told to end", wait::LONG, || !running());
}
