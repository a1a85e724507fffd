//! `weir load` as its users run it, beside real servers. What is held is what came and what the
//! servers have, and not the verdict: a machine that runs other tests earns an INVALID.

mod agents;
mod jmeter_schema;
mod ledger;
mod parts;
mod pauses;
mod several;
mod stream;
mod truth;

use std::fs;
use std::process::{Command, Output};

use rig::influxd::Influxd;
use rig::places;
use rig::postgres::{self, Auth, Cluster, Setup};
use rig::redis::Redis;
use serde_json::Value;

fn load(args: &[&str]) -> Output {
    // Its results are left there.
    let place = places::directory();
    let mut command = Command::new(places::weir());
    command.current_dir(place.path());
    command.arg("load").args(args).args(["--duration", "1s", "--warmup", "0s"]);
    command.output().expect("weir can be started")
}

/// What a load printed; it may have been judged INVALID, and has no errors.
#[track_caller]
fn told(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(matches!(output.status.code(), Some(0 | 4)), "{text}{errors}");
    assert!(text.contains("no errors"), "{text}{errors}");
    text
}

/// The number in front of a word.
fn before(text: &str, word: &str) -> u64 {
    let (front, _) = text.split_once(word).expect("the word is there");
    let number = front.trim_end().rsplit(' ').next().unwrap_or_default();
    number.replace(',', "").parse().expect("a number is in front of it")
}

/// How often a server was asked for a command.
fn calls(server: &Redis, command: &str) -> u64 {
    let stats = server.client().ask(&["INFO", "commandstats"]);
    let behind = stats.split_once(&format!("cmdstat_{command}:calls="));
    let digits = behind.and_then(|(_, rest)| rest.split(',').next());
    digits.map_or(0, |digits| digits.parse().expect("a count is a number"))
}

#[test]
fn a_mix_of_redis_comes_as_it_was_asked_for() {
    let server = Redis::start();
    let args = ["--mix", "get=9,set=1", "--rate", "500", "--keys", "100", "--size", "10-50"];
    let text = told(&load(&[&[&*server.url()], &args[..]].concat()));
    assert_eq!(before(&text, "requests in"), 500);
    let (gets, sets) = (calls(&server, "get"), calls(&server, "set"));
    assert!(gets + sets == 500 && (20..=80).contains(&sets), "{gets} {sets}");
}

#[test]
fn a_pipeline_is_one_request_and_its_commands_are_counted_beside() {
    let server = Redis::start();
    let args = ["--mix", "incr", "--pipeline", "16", "--closed", "--connections", "2"];
    let text = told(&load(&[&[&*server.url()], &args[..]].concat()));
    let requests = before(&text, "requests in");
    assert_eq!(before(&text, "commands or points"), requests * 16, "{text}");
    assert_eq!(calls(&server, "incr"), requests * 16, "{text}");
}

#[test]
fn redis_asks_for_a_password_and_has_databases() {
    let server = Redis::start_with(&["--requirepass", "secret"]);
    let address = server.address;
    let refused = load(&[&server.url(), "--rate", "10"]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(refused.status.code() == Some(1) && said.contains("NOAUTH"), "{said}");
    told(&load(&[&format!("redis://:secret@{address}/3"), "--mix", "set", "--rate", "50"]));
    let mut client = server.client();
    client.ask(&["AUTH", "secret"]);
    assert!(client.ask(&["INFO", "keyspace"]).contains("db3:keys="));
}

/// How many points of a measurement a server has.
fn points(server: &Influxd, field: &str, from: &str) -> u64 {
    let q = format!("SELECT count({field}) FROM {from} WHERE time > 0 AND time < now() + 365d");
    let answer = server.ask(&q, &[("db", "load")]);
    let count = answer.pointer("/results/0/series/0/values/0/1").and_then(Value::as_u64);
    count.unwrap_or_else(|| panic!("{answer}"))
}

#[test]
fn a_server_has_each_point_that_was_written() {
    let server = Influxd::start();
    let load = |args: &[&str]| {
        let url = server.url();
        let fixed = [&*url, "--workload", "influx-write", "--db", "load", "--prepare"];
        told(&load(&[&fixed[..], args].concat()))
    };
    let text = load(&["--closed", "--connections", "4", "--gzip"]);
    assert_eq!(points(&server, "\"int\"", "stress"), before(&text, "commands or points"), "{text}");
    let rest = ["--rate", "20", "--batch", "50", "--series", "7", "--out-of-order", "0.2"];
    for (rows, field, measurement) in
        [("jmeter", "\"count\"", "jmeter"), ("cpu-only", "usage_user", "cpu")]
    {
        let text = load(&[&rest[..], &["--rows", rows]].concat());
        assert_eq!(before(&text, "commands or points"), 1000, "{text}");
        assert_eq!(points(&server, field, measurement), 1000, "{text}");
    }
}

/// The server for loads of PostgreSQL, which counts each statement.
fn counting() -> Cluster {
    let cluster = Setup::new().setting("shared_preload_libraries", "pg_stat_statements").start();
    cluster.sql("CREATE EXTENSION pg_stat_statements");
    cluster
}

/// The scripts that are built in.
const SCRIPTS: [&str; 11] = [
    "oltp_point_select",
    "oltp_read_only",
    "oltp_write_only",
    "oltp_read_write",
    "oltp_update_index",
    "oltp_update_non_index",
    "oltp_insert",
    "oltp_delete",
    "select-only",
    "simple-update",
    "tpcb-like",
];

/// What a user's connections ran at least as often as there were transactions.
fn ran(cluster: &Cluster, user: &str) -> Vec<String> {
    let rows = cluster.sql(&format!(
        "SELECT calls || ' ' || query FROM pg_stat_statements s JOIN pg_roles r \
         ON r.oid = s.userid WHERE rolname = '{user}' AND calls >= 20 ORDER BY query, calls"
    ));
    rows.into_iter().flatten().flatten().collect()
}

/// Runs a script 20 times by the tool that it is of.
fn run_by_its_own_tool(cluster: &Cluster, script: &str, user: &str, more: &[&str]) {
    let (host, port) = (cluster.address.ip().to_string(), cluster.address.port().to_string());
    let mut command = if script.starts_with("oltp_") {
        let mut command = Command::new(places::need("sysbench"));
        command.args([script, "--db-driver=pgsql", "--pgsql-db=bench", "--events=20", "--time=0"]);
        command.args([format!("--pgsql-host={host}"), format!("--pgsql-port={port}")]);
        command.arg(format!("--pgsql-user={user}")).args(more).arg("run");
        command
    } else {
        let mut command = Command::new(postgres::program("pgbench"));
        command
            .args(["-h", &host, "-p", &port, "-U", user, "-n", "-t", "20", "-b", script, "bench"]);
        command
    };
    let output = command.output().expect("the tool can be started");
    assert!(output.status.success(), "{script}: {}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_server_sees_the_statements_that_pgbench_and_sysbench_send() {
    let cluster = counting();
    let url = |user: &str| format!("postgres://{user}@{}/bench", cluster.address);
    let both = "oltp_point_select,tpcb-like";
    let made = ["--script", both, "--prepare", "--rate", "50", "--connections", "2"];
    told(&load(&[&[&*url("postgres")], &made[..]].concat()));
    let count = |table: &str| {
        let mut client = cluster.connect_as("postgres", "", "bench").expect("it is there");
        let rows = postgres::rows(&mut client, &format!("SELECT count(*) FROM {table}"));
        rows.expect("the table is there").remove(0).remove(0).unwrap_or_default()
    };
    assert_eq!((count("sbtest1"), count("pgbench_accounts")), ("10000".into(), "100000".into()));
    for at in 0..SCRIPTS.len() {
        cluster.sql(&format!("CREATE ROLE ours_{at} SUPERUSER LOGIN"));
        cluster.sql(&format!("CREATE ROLE theirs_{at} SUPERUSER LOGIN"));
    }
    // Each has a user of its own, by whom its statements are told apart.
    std::thread::scope(|scope| {
        for (at, script) in SCRIPTS.iter().enumerate() {
            let url = url(&format!("ours_{at}"));
            scope.spawn(move || {
                // What waits for a connection at the end is not sent, as on a busy machine.
                let args = ["--script", script, "--rate", "20", "--connections", "8"];
                told(&load(&[&[&*url], &args[..]].concat()));
            });
        }
    });
    for (at, script) in SCRIPTS.iter().enumerate() {
        run_by_its_own_tool(&cluster, script, &format!("theirs_{at}"), &[]);
        let ours = ran(&cluster, &format!("ours_{at}"));
        assert_eq!(ours, ran(&cluster, &format!("theirs_{at}")), "{script}");
        assert!(!ours.is_empty(), "{script}");
    }
}

#[test]
fn several_tables_are_made_and_drawn_as_sysbench_does() {
    let cluster = counting();
    for user in ["ours", "theirs"] {
        cluster.sql(&format!("CREATE ROLE {user} SUPERUSER LOGIN"));
    }
    let url = |user: &str| format!("postgres://{user}@{}/bench", cluster.address);
    let script = ["--script", "oltp_read_write", "--tables", "2", "--rate", "20"];
    let made = ["--prepare", "--table-size", "100", "--connections", "1"];
    told(&load(&[&[&*url("postgres")], &script[..], &made[..]].concat()));
    let mut client = cluster.connect_as("postgres", "", "bench").expect("it is there");
    let each = "SELECT (SELECT count(*) FROM sbtest1), (SELECT max(id) FROM sbtest2)";
    let rows = postgres::rows(&mut client, each).expect("the tables are there");
    assert_eq!(rows[0], vec![Some("100".to_owned()); 2]);
    told(&load(&[&[&*url("ours")], &script[..], &["--connections", "8"]].concat()));
    let of_theirs = ["--tables=2", "--table-size=100"];
    run_by_its_own_tool(&cluster, "oltp_read_write", "theirs", &of_theirs);
    // Which table is by chance, how many statements of a kind there are is not.
    let ran = |user: &str| {
        let rows = cluster.sql(&format!(
            "SELECT sum(calls) || ' ' || regexp_replace(query, 'sbtest[12]', 'sbtest') AS of, \
             count(*) FROM pg_stat_statements s JOIN pg_roles r ON r.oid = s.userid \
             WHERE rolname = '{user}' GROUP BY regexp_replace(query, 'sbtest[12]', 'sbtest') \
             HAVING sum(calls) >= 20 ORDER BY of"
        ));
        rows.into_iter().flatten().flatten().collect::<Vec<_>>()
    };
    let ours = ran("ours");
    assert_eq!(ours, ran("theirs"));
    assert!(ours.iter().any(|text| text.starts_with("200 SELECT c FROM sbtest WHERE id=$1")));
    assert_eq!(ours.iter().filter(|count| *count == "2").count(), 9, "{ours:?}");
}

#[test]
fn postgres_asks_for_a_password_in_each_of_its_ways_and_under_tls() {
    let cluster = Setup::new()
        .auth(Auth::Scram)
        .tls()
        .hba("hostssl all plain all password")
        .hba("host all hashed all md5")
        .start();
    cluster.create_user("plain", "hush hush");
    cluster.sql("SET password_encryption = 'md5'; CREATE ROLE hashed LOGIN PASSWORD 'hush'");
    cluster.create_user("scrammed", "hush");
    let (address, ca) = (cluster.address, cluster.certificate().expect("it has one"));
    let script = tempfile::NamedTempFile::new().expect("there is room");
    std::fs::write(script.path(), "SELECT 1;").expect("there is room");
    let script = format!("@{}", script.path().display());
    let rest = ["--script", &script, "--rate", "20", "--connections", "2"];
    let login = |url: &str, more: &[&str]| load(&[&[url], &rest[..], more].concat());
    for url in [
        format!("postgres://hashed:hush@{address}/postgres"),
        format!("postgres://scrammed:hush@{address}/postgres"),
        format!("postgresql://plain:hush%20hush@{address}/postgres?sslmode=require"),
    ] {
        told(&login(&url, &[]));
    }
    let checked = format!("postgres://scrammed:hush@{address}/postgres?sslmode=verify-ca");
    let dir = tempfile::tempdir().expect("there is room");
    let file = ca.write(dir.path()).0.display().to_string();
    told(&login(&checked, &["--ca", &file, "--protocol", "prepared"]));
    for (url, words) in [
        (checked, "TLS"),
        (format!("postgres://scrammed:wrong@{address}/postgres"), "28P01"),
        (format!("postgres://scrammed@{address}/postgres"), "PGPASSWORD"),
        (format!("postgres://scrammed:hush@{address}/nowhere"), "3D000"),
    ] {
        let refused = login(&url, &[]);
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(refused.status.code() == Some(1) && said.contains(words), "{url}: {said}");
    }
}

#[test]
fn a_statement_that_fails_is_an_error_of_the_servers_and_its_transaction_is_rolled_back() {
    let cluster = Setup::new().start();
    let script = tempfile::NamedTempFile::new().expect("there is room");
    let text = "\\set x key(1, 5)\nBEGIN;\nSELECT 1 / (:x - 3);\nCOMMIT;\n";
    std::fs::write(script.path(), text).expect("there is room");
    let (url, script) =
        (format!("postgres://postgres@{}", cluster.address), script.path().display().to_string());
    for more in [&["--protocol", "simple"][..], &["--protocol", "extended", "--pipelined"]] {
        let script = format!("@{script}");
        let fixed = [&*url, "--script", &script, "--key-order", "sequence", "--connections", "1"];
        let output = load(&[&fixed[..], more, &["--rate", "50"]].concat());
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(matches!(output.status.code(), Some(0 | 4)), "{said}");
        // A fifth of what was asked, of which a busy machine may not have sent all. The first words
        // say what is worst, and may have `requests` in them.
        let number_before = |word: &str| {
            let number = said.split(word).next().and_then(|before| before.split(' ').next_back());
            number.and_then(|number| number.parse::<u64>().ok()).expect("it is counted")
        };
        let (requests, errors) = (number_before(" requests in"), number_before(" errors"));
        assert!(errors > 0 && errors.abs_diff(requests / 5) <= 1, "{said}");
        assert!(said.contains("division by zero (22012)"), "{said}");
    }
}

/// The value of a percentile in the table of HdrHistogram's tool.
fn tools(table: &str, percentile: &str) -> f64 {
    let rows = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let mut rows = rows.filter(|row| row.get(1).is_some_and(|of| of.starts_with(percentile)));
    let row = rows.next().unwrap_or_else(|| panic!("{percentile} is in\n{table}"));
    row[0].parse().expect("a value is a number")
}

#[test]
fn hdrhistograms_own_tool_reads_the_same_percentiles_from_the_interval_log() {
    places::need("java");
    let (server, place) = (Redis::start(), places::directory());
    let out = place.path().join("run");
    let out = out.to_str().expect("a path is text");
    told(&load(&[&server.url(), "--closed", "--connections", "4", "--out", out]));
    let report = fs::read_to_string(format!("{out}/report.json")).expect("there is a report");
    let report: Value = serde_json::from_str(&report).expect("it is JSON");
    let script = places::root().join("tests/clients/hdrhistogram/run.sh");
    let ran = Command::new("bash").arg(script).arg(format!("{out}/windows.hlog")).output();
    let ran = ran.expect("bash can be started");
    let table = String::from_utf8_lossy(&ran.stdout).into_owned();
    assert!(ran.status.success(), "{table}{}", String::from_utf8_lossy(&ran.stderr));
    let shares = [("0.50000", "p50_ns"), ("0.75000", "p75_ns"), ("0.90000", "p90_ns")];
    for (percentile, name) in shares.into_iter().chain([("0.95000", "p95_ns"), ("1.0", "max_ns")]) {
        let (theirs, ours) = (tools(&table, percentile), report["latency"][name].as_f64());
        let ours = ours.expect("a percentile is a number");
        assert!((theirs - ours).abs() <= 1.0, "{name}: {theirs} for {ours}\n{table}");
    }
    let total = report["requests"].as_u64().expect("requests are counted");
    let total = format!("Total count    = {total:>12}");
    assert!(table.contains(&total), "{total} in\n{table}");
}
