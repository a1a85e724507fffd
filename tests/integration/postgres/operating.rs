//! What the console, `/status`, `/metrics` and the log say while clients are at work is true.

use std::process::Command;
use std::time::Duration;

use rig::postgres::{Cluster, SUPERUSER, program};
use rig::wait;
use rig::weir::Weir;

use super::scene::{Row, client, console, number, row, rows, said, until_known, value, weir};

/// The counts of the only database that there is.
fn totals(console: &mut pg::Client) -> Row {
    row(console, "SHOW STATS_TOTALS", "database", SUPERUSER)
}

/// How much a count has grown.
fn grown(before: &Row, after: &Row, column: &str) -> u64 {
    number(after, column) - number(before, column)
}

#[test]
fn every_server_connection_is_shown_with_what_it_does() {
    let cluster = Cluster::start();
    let weir = weir(&[&cluster], "");
    let (mut app, mut console) = (client(&weir).expect("let in"), console(&weir));
    until_known(&weir, &mut app);
    app.batch_execute("BEGIN; SELECT 1").expect("it is run");
    let process = value(&mut app, "SELECT pg_backend_pid()").expect("it is run");
    let server = row(&mut console, "SHOW SERVERS", "remote_pid", &process);
    let own = row(&mut console, "SHOW CLIENTS", "database", SUPERUSER);
    assert_eq!((&*server["state"], &*server["backend"]), ("active", "a"));
    assert_eq!((&server["link"], &own["link"]), (&own["ptr"], &server["ptr"]));
    assert_eq!(server["port"], cluster.address.port().to_string());
    assert_eq!(server["addr"], cluster.address.ip().to_string());
    assert_eq!(own["local_port"], weir.postgres.port().to_string());
    let pool = row(&mut console, "SHOW POOLS", "database", SUPERUSER);
    assert_eq!((&*pool["sv_active"], &*pool["cl_active"]), ("1", "1"));
    app.batch_execute("COMMIT").expect("it is run");
    assert_eq!(row(&mut console, "SHOW SERVERS", "remote_pid", &process)["state"], "idle");
    for _ in 0..50 {
        assert_eq!(value(&mut app, "SELECT 2"), Ok("2".into()));
    }
    let lane = row(&mut console, "SHOW LANES", "backend", "a");
    assert!(number(&lane, "statements") > 0, "{lane:?}");
    let shared = row(&mut console, "SHOW SERVERS", "state", "lane");
    assert_eq!(shared["id"], lane["server"]);
    app.batch_execute("CREATE TEMP TABLE t (n int)").expect("it is run");
    let own = row(&mut console, "SHOW CLIENTS", "database", SUPERUSER);
    assert_eq!(own["pinned"], "state");
    assert_eq!(row(&mut console, "SHOW POOLS", "database", SUPERUSER)["cl_pinned"], "1");
    let memory = row(&mut console, "SHOW MEM", "name", "client");
    assert_eq!(memory["used"], "1");
    let backend = row(&mut console, "SHOW BACKENDS", "name", "a");
    assert_eq!(number(&backend, "connections"), rows(&mut console, "SHOW SERVERS").len() as u64);
}

#[test]
fn counts_and_times_of_a_database_are_those_of_its_statements() {
    let cluster = Cluster::start();
    let weir = weir(&[&cluster], "");
    let (mut app, mut console) = (client(&weir).expect("let in"), console(&weir));
    assert_eq!(value(&mut app, "SELECT 1"), Ok("1".into()));
    let before = totals(&mut console);
    for _ in 0..40 {
        assert_eq!(value(&mut app, "SELECT 1"), Ok("1".into()));
    }
    let after = totals(&mut console);
    assert_eq!(grown(&before, &after, "query_count"), 40);
    assert_eq!(grown(&before, &after, "xact_count"), 40);
    // A Query of 14 bytes; its answer of 66.
    assert_eq!(grown(&before, &after, "bytes_received"), 40 * 14);
    let sent = grown(&before, &after, "bytes_sent");
    assert!((40 * 50..40 * 90).contains(&sent), "{sent}");
    assert!(grown(&before, &after, "lane_query_count") > 0);

    let before = totals(&mut console);
    app.batch_execute("BEGIN").expect("it is run");
    app.batch_execute("SELECT pg_sleep(0.1)").expect("it is run");
    std::thread::sleep(Duration::from_millis(100));
    app.batch_execute("COMMIT").expect("it is run");
    let after = totals(&mut console);
    assert_eq!(grown(&before, &after, "query_count"), 3);
    assert_eq!(grown(&before, &after, "xact_count"), 1);
    let (query, whole) =
        (grown(&before, &after, "query_time"), grown(&before, &after, "xact_time"));
    assert!(query >= 100_000 && whole >= query + 100_000, "{query} {whole}");

    let before = totals(&mut console);
    let statement = app.prepare("SELECT $1::int + 1").expect("it is prepared");
    for n in 0..5 {
        assert_eq!(app.query_one(&statement, &[&n]).expect("it is run").get::<_, i32>(0), n + 1);
    }
    let after = totals(&mut console);
    assert_eq!(grown(&before, &after, "bind_count"), 5);
    assert!(grown(&before, &after, "client_parse_count") >= 1);
    assert!(grown(&before, &after, "server_parse_count") >= 1);
    drop(app);
    wait::until("it has gone", wait::LONG, || {
        rows(&mut console, "SHOW CLIENTS").iter().all(|row| row["database"] != SUPERUSER)
    });
    let gone = totals(&mut console);
    assert!(number(&gone, "bytes_sent") >= number(&after, "bytes_sent"), "it is not forgotten");
}

/// `pgbench` with so many clients, each running as many statements.
fn load(weir: &Weir, script: &str, clients: u32, each: u32) {
    let file = weir.dir().join("script.sql");
    std::fs::write(&file, script).expect("a file can be written");
    let mut command = Command::new(program("pgbench"));
    command.args(["-n", "-h", &weir.postgres.ip().to_string(), "-U", SUPERUSER]);
    command.args(["-p", &weir.postgres.port().to_string(), "-c", &clients.to_string()]);
    command.args(["-t", &each.to_string(), "-f"]).arg(file).arg(SUPERUSER);
    let output = command.output().expect("pgbench is there");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn latencies_and_counts_agree_under_a_load() {
    let cluster = Cluster::start();
    let replica = cluster.replica();
    // The time of an answer that many have in common counts once.
    let weir = weir(&[&cluster, &replica], "share-reads = false");
    let mut console = console(&weir);
    wait::until("both are known", wait::LONG, || {
        let standing = |row: &Row| row["role"] == "primary" || row["role"] == "replica";
        rows(&mut console, "SHOW BACKENDS").iter().filter(|row| standing(row)).count() == 2
    });
    load(&weir, "SELECT 1;\n", 16, 100);
    load(&weir, "BEGIN;\nSELECT txid_current();\nCOMMIT;\n", 4, 25);
    let totals = totals(&mut console);
    assert_eq!(number(&totals, "query_count"), 1600 + 300);
    assert_eq!(number(&totals, "xact_count"), 1600 + 100);
    // It looks around before each load.
    assert_eq!(number(&totals, "client_login_count"), 22);
    let metrics = weir.metrics();
    // A read that is asked again has gone its way twice.
    let repeated = metrics.sum("weir_postgres_repeats_total", &[]);
    for (way, repeated) in [("lane", repeated), ("lease", 0.0)] {
        let rounds = metrics.sum("weir_postgres_rounds_total", &[("way", way)]) - repeated;
        for part in ["queue", "server", "total"] {
            let name = format!("weir_postgres_{part}_seconds_count");
            assert_eq!(metrics.sum(&name, &[("way", way)]), rounds, "{way} {part}: {repeated}");
        }
        let sum =
            |part: &str| metrics.sum(&format!("weir_postgres_{part}_seconds_sum"), &[("way", way)]);
        let (parts, total) = (sum("queue") + sum("server"), sum("total"));
        assert!((parts - total).abs() < total * 0.01, "{way}: {parts} of {total}");
    }
    assert!(metrics.sum("weir_postgres_total_seconds_count", &[("backend", "b")]) > 0.0);
    let statements = metrics.sum("weir_postgres_server_seconds_sum", &[]);
    let shown = number(&totals, "query_time") as f64 / 1e6;
    assert!((statements - shown).abs() < statements * 0.02, "{statements} and {shown}");
    let status = wait::value("the status has it", wait::LONG, || {
        let status = weir.ask_admin("/status").json()["postgres"].clone();
        (status["queries"] == 1900).then_some(status)
    });
    // Reads go to the replica, by lane and by lease.
    assert_eq!(status["backends"][1]["latencies"].as_array().map(Vec::len), Some(2), "{status}");
    // Its gauges are of the same moment.
    assert_eq!(weir.metrics().sum("weir_postgres_clients", &[("state", "waiting")]), 0.0);
    wait::until("the gauges are there", wait::LONG, || {
        let metrics = weir.metrics();
        let gauges = ["clients", "servers", "lane_statements", "backend_lag_bytes"];
        gauges.iter().all(|gauge| metrics.has(&format!("weir_postgres_{gauge}")))
    });
}

#[test]
fn slow_statements_are_logged_from_lanes_and_leases_without_their_literals() {
    let cluster = Cluster::start();
    let weir = weir(&[&cluster], "slow-statement = \"100ms\"");
    let mut app = client(&weir).expect("let in");
    value(&mut app, "SELECT pg_sleep(0.2), 'a secret'").expect("it is run");
    let has = |way: &str, text: &str| {
        let (log, way) = (weir.log(), format!("\"way\":\"{way}\""));
        let mut slow = log.lines().filter(|line| line.contains("a slow statement"));
        slow.any(|line| line.contains(&way) && line.contains(text))
    };
    wait::until("it is in the log", wait::LONG, || has("lease", "pg_sleep"));
    // Quick, so that it rides a lane from then on; and then it isn't.
    let read = |last: u32| format!("SELECT count(*) FROM generate_series(1, {last}) AS s(n)");
    wait::until("one is slow on a lane", wait::LONG, || {
        for _ in 0..20 {
            assert_eq!(value(&mut app, &read(10)), Ok("10".into()));
        }
        assert_eq!(value(&mut app, &read(1_234_567)), Ok("1234567".into()));
        has("lane", "generate_series")
    });
    let log = weir.log();
    assert!(!log.contains("a secret") && !log.contains("1234567"), "{log}");
}

#[test]
fn connections_of_before_a_reconnect_are_waited_for() {
    let cluster = Cluster::start();
    let weir = weir(&[&cluster], "");
    let (mut app, mut operator) = (client(&weir).expect("let in"), console(&weir));
    app.batch_execute("BEGIN; SELECT 1").expect("it is run");
    let process = value(&mut app, "SELECT pg_backend_pid()").expect("it is run");
    operator.simple_query("RECONNECT").expect("it is done");
    let server = row(&mut operator, "SHOW SERVERS", "remote_pid", &process);
    assert_eq!(server["close_needed"], "1");
    let waiting = std::thread::spawn({
        let mut other = console(&weir);
        move || other.simple_query("WAIT_CLOSE").map(|_| ()).map_err(|error| said(&error))
    });
    std::thread::sleep(Duration::from_millis(200));
    assert!(!waiting.is_finished(), "a transaction is open");
    app.batch_execute("COMMIT").expect("it is run");
    assert_eq!(waiting.join().expect("it ends"), Ok(()));
    app.batch_execute("BEGIN").expect("it is run");
    assert_ne!(value(&mut app, "SELECT pg_backend_pid()"), Ok(process));
}

#[test]
fn whoever_waits_for_a_server_can_be_cancelled_and_killed() {
    let cluster = Cluster::start();
    let weir = weir(&[&cluster], "[postgres.lanes]\non = false\n[postgres.pool]\nsize = 1");
    let (mut holder, mut console) = (client(&weir).expect("let in"), console(&weir));
    holder.batch_execute("BEGIN; SELECT 1").expect("it is run");
    let mut app = client(&weir).expect("let in, by what another has heard of the server");
    let cancel = app.cancel_token();
    let (tell, told) = std::sync::mpsc::channel();
    let waiter = std::thread::spawn(move || {
        for sql in ["SELECT 1", "SELECT 2"] {
            tell.send(value(&mut app, sql)).expect("somebody listens");
        }
    });
    let mut id_of_who_waits = || {
        wait::value("it waits", wait::LONG, || {
            let clients = rows(&mut console, "SHOW CLIENTS");
            let waits = clients.into_iter().find(|row| row["state"] == "waiting")?;
            Some(waits["id"].clone())
        })
    };
    id_of_who_waits();
    cancel.cancel_query(pg::NoTls).expect("it is taken");
    let first = told.recv_timeout(wait::LONG).expect("it is cancelled");
    assert_eq!(first, Err("57014 canceling statement due to user request".into()));
    let id = id_of_who_waits();
    console.simple_query(&format!("KILL_CLIENT {id}")).expect("it is there");
    let second = told.recv_timeout(wait::LONG).expect("it ends").expect_err("it is closed");
    waiter.join().expect("no panic");
    assert!(second.contains("57P01") || second.contains("closed"), "{second}");
    assert!(rows(&mut console, "SHOW CLIENTS").iter().all(|row| row["state"] != "waiting"));
}

#[test]
fn the_status_shows_who_is_idle_in_a_transaction_what_is_slow_and_whose_password_ends() {
    let cluster = Cluster::start();
    cluster.create_user("ends", "secret");
    cluster.sql("ALTER ROLE ends VALID UNTIL 'tomorrow'");
    let weir = weir(&[&cluster], "slow-statement = \"50ms\"");
    let mut app = client(&weir).expect("let in");
    for seconds in ["0.06", "0.07"] {
        app.batch_execute(&format!("SELECT pg_sleep({seconds})")).expect("it is run");
    }
    app.batch_execute("BEGIN; SELECT 1").expect("it is run");
    let status =
        |at: &str| weir.ask_admin("/status").json().pointer(at).cloned().unwrap_or_default();
    wait::until("it is idle in its transaction", wait::LONG, || {
        status("/postgres/pools/0/idle_in_transaction") == 1
    });
    assert!(status("/postgres/pools/0/idle_in_transaction_max_seconds").as_f64() > Some(0.0));
    let slow = status("/postgres/slow/0");
    let statement = slow["statement"].as_str().unwrap_or_default();
    assert!(statement.contains("pg_sleep") && !statement.contains("0.0"), "{slow}");
    assert!(slow["count"] == 2 && slow["max_seconds"].as_f64() >= Some(0.07), "{slow}");
    wait::until("the end of a password is known", wait::LONG, || {
        status("/postgres/expiring/0/role") == "ends"
    });
    app.batch_execute("COMMIT").expect("it is run");
    wait::until("it is idle in none", wait::LONG, || {
        status("/postgres/pools/0/idle_in_transaction") == 0
    });
    let shown = weir.ask_admin("/history").text();
    assert!(shown.contains("password of PostgreSQL role ends ends in"), "{shown}");
}
