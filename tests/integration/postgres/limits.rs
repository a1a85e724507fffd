//! Each limit and timeout that PgBouncer's users know, as a client meets it.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use pg::NoTls;
use rig::postgres::{Auth, Cluster, PASSWORD, SUPERUSER, Setup as ClusterSetup};
use rig::wait;
use rig::weir::{Setup, Weir};
use wire::postgres::frontend::put_query;
use wire::postgres::startup::put_start;

use super::scene::{client, config, console, reload, rows, said, value, weir};

/// What a client is told up to where it is closed that sends these bytes and no more. A driver
/// would see that it is closed, and perhaps not why.
fn told(weir: &Weir, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(weir.postgres).expect("it listens");
    stream.set_read_timeout(Some(wait::LONG)).expect("a socket's option");
    stream.write_all(bytes).expect("it takes them");
    let mut said = Vec::new();
    let _ = stream.read_to_end(&mut said);
    String::from_utf8_lossy(&said).into_owned()
}

/// The bytes of a client that logs in and asks these queries one behind the other.
fn session(queries: &[&str]) -> Vec<u8> {
    let mut out = Vec::new();
    put_start(&mut out, 0, [("user", SUPERUSER), ("database", SUPERUSER)]);
    for query in queries {
        put_query(&mut out, query.as_bytes());
    }
    out
}

#[test]
fn statements_and_pauses_that_take_too_long_end_with_an_answer() {
    let cluster = Cluster::start();
    let with = |lines: &str| weir(&[&cluster], &format!("[postgres.timeouts]\n{lines}"));
    let ends = |weir: &Weir, queries: &[&str], code: &str| {
        let said = told(weir, &session(queries));
        assert!(said.contains(&format!("C{code}\0")), "{queries:?}: {said:?}");
    };

    // query_timeout: what runs at the server ends, too.
    let weir = with("query = \"300ms\"");
    ends(&weir, &["SELECT pg_sleep(30)"], "57014");
    wait::until("nothing sleeps there", wait::LONG, || {
        let asleep = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'SELECT pg_sleep%'
                      AND state = 'active'";
        cluster.value(asleep) == "0"
    });

    // idle_transaction_timeout, in a transaction that a server knows of and in one that none does.
    let weir = with("idle-in-transaction = \"200ms\"");
    ends(&weir, &["BEGIN", "SELECT 1"], "25P03");
    ends(&weir, &["BEGIN"], "25P03");
    let mut app = client(&weir).expect("let in");
    app.batch_execute("SELECT 1").expect("it is run");
    std::thread::sleep(Duration::from_millis(700));
    assert_eq!(value(&mut app, "SELECT 1"), Ok("1".into()), "outside it may pause");

    // transaction_timeout, however busy it is.
    let weir = with("transaction = \"400ms\"");
    let mut busy = vec!["SELECT pg_sleep(0.05)"; 60];
    busy.insert(0, "BEGIN");
    ends(&weir, &busy, "25P04");

    // client_idle_timeout.
    ends(&with("idle = \"200ms\""), &["SELECT 1"], "57P05");
}

#[test]
fn a_client_that_stops_half_way_is_closed_with_a_reason() {
    let cluster = Cluster::start();
    let with = |limit: &str| weir(&[&cluster], &format!("[postgres.timeouts]\n{limit}"));
    // client_login_timeout.
    assert!(told(&with("login = \"300ms\""), b"").contains("timeouts.login"));
    let weir = with("read = \"300ms\"");
    let mut half = session(&[]);
    half.extend_from_slice(b"Q\0\0\0\x20SELECT");
    let said = told(&weir, &half);
    assert!(said.contains("C08006") && said.contains("timeouts.read"), "{said:?}");
    // Within a transaction a server waits for the rest.
    let mut half = session(&[]);
    half.extend_from_slice(b"Q\0\0\0\x14BEGIN; SELECT 1\0Q\0\0");
    let said = told(&weir, &half);
    assert!(said.contains("C08006") && said.contains("timeouts.read"), "{said:?}");
}

#[test]
fn connections_are_counted_for_a_pool_a_database_and_a_user() {
    let cluster = Cluster::start();
    cluster.sql("CREATE DATABASE other");
    cluster.sql("CREATE ROLE ann LOGIN SUPERUSER");
    let lanes = |wait: &str| {
        format!("[postgres.lanes]\non = false\n[postgres.timeouts]\nquery-wait = {wait:?}\n")
    };
    let databases = "[[postgres.database]]\nname = \"postgres\"\n\
                     [[postgres.database]]\nname = \"other\"\n";
    // What is limited, and who has the other place: (user, database).
    for (limit, second, waits) in [
        ("[postgres.pool]\nsize = 1", (SUPERUSER, "postgres"), true),
        ("[postgres.pool]\nsize = 1", ("ann", "postgres"), false),
        ("[postgres.pool]\nmax-per-database = 1", ("ann", "postgres"), true),
        ("[postgres.pool]\nmax-per-database = 1", (SUPERUSER, "other"), false),
        ("[postgres.pool]\nmax-per-user = 1", (SUPERUSER, "other"), true),
        ("[postgres.pool]\nmax-per-user = 1", ("ann", "other"), false),
        ("[postgres.pool]\nmax-per-backend = 1", ("ann", "other"), true),
        (
            "[[postgres.user]]\nname = \"postgres\"\nmax-server-connections = 1",
            (SUPERUSER, "other"),
            true,
        ),
    ] {
        let with = |wait: &str| format!("{}{limit}\n{databases}", lanes(wait));
        let mut weir = weir(&[&cluster], &with("60s"));
        let mut holder = client(&weir).expect("let in");
        holder.batch_execute("BEGIN; SELECT 1").expect("it is run");
        // Short only where somebody is to wait in vain: a login at a server takes its time.
        if waits {
            reload(&mut weir, &[&cluster], &with("1s"));
        }
        let (user, database) = second;
        let app = config(weir.postgres, user, database).connect(NoTls);
        let said = match app {
            Ok(mut app) => value(&mut app, "SELECT 1"),
            Err(error) => Err(said(&error)),
        };
        match said {
            Ok(_) => assert!(!waits, "{limit} {second:?} waits"),
            Err(said) => assert!(waits && said.starts_with("57014"), "{limit} {second:?}: {said}"),
        }
        // query_wait_timeout: who waited stays, and has its turn.
        holder.batch_execute("COMMIT").expect("it is run");
        wait::until("it has its turn", wait::LONG, || {
            let app = config(weir.postgres, user, database).connect(NoTls);
            app.is_ok_and(|mut app| value(&mut app, "SELECT 1") == Ok("1".into()))
        });
    }
}

#[test]
fn a_statement_that_waits_too_long_fails_and_its_client_stays() {
    let cluster = Cluster::start();
    let lines = "[postgres.lanes]\non = false\n[postgres.pool]\nsize = 1\n\
                 [[postgres.database]]\nname = \"postgres\"\nquery-wait = \"200ms\"";
    let weir = weir(&[&cluster], lines);
    let (mut holder, mut app) = (client(&weir).expect("let in"), client(&weir).expect("let in"));
    holder.batch_execute("BEGIN; SELECT 1").expect("it is run");
    let said = value(&mut app, "SELECT 1").expect_err("there is no connection");
    assert!(said.starts_with("57014"), "{said}");
    holder.batch_execute("COMMIT").expect("it is run");
    assert_eq!(value(&mut app, "SELECT 1"), Ok("1".into()));
}

#[test]
fn clients_are_counted_for_all_a_database_and_a_user() {
    let cluster = Cluster::start();
    cluster.sql("CREATE DATABASE other");
    cluster.sql("CREATE ROLE ann LOGIN SUPERUSER");
    for (limit, second, refused) in [
        ("max-connections = 1", ("ann", "other"), true),
        ("max-connections-per-user = 1", (SUPERUSER, "other"), true),
        ("max-connections-per-user = 1", ("ann", "postgres"), false),
        ("max-connections-per-database = 1", ("ann", "postgres"), true),
        ("max-connections-per-database = 1", (SUPERUSER, "other"), false),
    ] {
        let weir = weir(&[&cluster], limit);
        let _first = client(&weir).expect("let in");
        let (user, database) = second;
        match config(weir.postgres, user, database).connect(NoTls) {
            Ok(_) => assert!(!refused, "{limit} {second:?}"),
            // Closed before it had said anything, it may see no more than that.
            Err(_) if limit == "max-connections = 1" => assert!(refused),
            Err(error) => assert!(refused && said(&error).starts_with("53300"), "{limit} {error}"),
        }
    }
}

#[test]
fn server_connections_end_when_they_are_old_or_not_used() {
    let cluster = Cluster::start();
    // server_idle_timeout, with a connection that is kept (min_pool_size).
    let weir = weir(&[&cluster], "[postgres.pool]\nidle-timeout = \"300ms\"\nmin-idle = 1");
    let (mut app, mut operator) = (client(&weir).expect("let in"), console(&weir));
    let mut other = client(&weir).expect("let in");
    app.batch_execute("BEGIN; SELECT 1").expect("it is run");
    other.batch_execute("BEGIN; SELECT 1").expect("it is run");
    assert!(rows(&mut operator, "SHOW SERVERS").len() >= 2);
    app.batch_execute("COMMIT").expect("it is run");
    other.batch_execute("COMMIT").expect("it is run");
    wait::until("one is left", wait::LONG, || rows(&mut operator, "SHOW SERVERS").len() == 1);

    // server_lifetime, as a database has it.
    let lines = "[[postgres.database]]\nname = \"postgres\"\nmax-age = \"1s\"";
    let weir = super::scene::weir(&[&cluster], lines);
    let mut app = client(&weir).expect("let in");
    let process = |app: &mut pg::Client| value(app, "BEGIN; SELECT pg_backend_pid(); COMMIT");
    let first = process(&mut app);
    wait::until("it is another one", wait::LONG, || {
        std::thread::sleep(Duration::from_millis(50));
        process(&mut app) != first
    });
}

#[test]
fn startup_parameters_are_settings_unless_they_are_ignored() {
    let cluster = Cluster::start();
    let weir = weir(&[&cluster], "ignore-startup-parameters = [\"extra_float_digits\"]");
    let with = |options: &str| {
        let mut config = config(weir.postgres, SUPERUSER, SUPERUSER);
        let mut app = config.options(options).connect(NoTls).map_err(|error| said(&error))?;
        Ok::<_, String>((
            value(&mut app, "SHOW extra_float_digits"),
            value(&mut app, "SHOW work_mem"),
        ))
    };
    let (ignored, set) = with("-c extra_float_digits=3 -c work_mem=5MB").expect("let in");
    assert_eq!((ignored, set), (Ok("1".into()), Ok("5MB".into())));
    let refused = with("-c nobody_knows_it=1").expect_err("the server does not know it");
    assert!(refused.starts_with("42704"), "{refused}");
}

#[test]
fn a_login_that_a_server_has_refused_is_not_tried_again_at_once() {
    let cluster = ClusterSetup::new().auth(Auth::Scram).start();
    cluster.create_user("ann", "secret");
    let table = format!(
        "[postgres]\nlisten = \"{{postgres}}\"\n\
         [postgres.pool]\nlogin-retry = \"60s\"\n\
         [[postgres.user]]\nname = \"ann\"\npassword = \"another one\"\n\
         [[postgres.backend]]\nname = \"a\"\nurl = \"{}\"\n\
         user = \"{SUPERUSER}\"\npassword = \"{PASSWORD}\"\n",
        cluster.url()
    );
    let weir = Setup::new().table(&table).start();
    for _ in 0..5 {
        let mut config = config(weir.postgres, "ann", "postgres");
        let error = config.password("another one").connect(NoTls).map(|_| ()).expect_err("refused");
        assert!(said(&error).starts_with("28P01"), "{error}");
    }
    let tried = cluster.log().matches("password authentication failed for user \"ann\"").count();
    assert_eq!(tried, 1, "the server was asked once");
}

#[test]
fn what_clients_have_sent_and_is_not_whole_has_one_limit_together() {
    let cluster = Cluster::start();
    let weir = weir(&[&cluster], "held-messages = \"1MiB\"");
    // A Parse of 60 MB of which this much has come.
    let mut out = vec![b'P'];
    out.extend_from_slice(&60_000_000_u32.to_be_bytes());
    out.resize(900_000, b' ');
    let mut first = super::scene::peer(&weir);
    first.send(&out).expect("it is taken");
    let limit = Duration::from_millis(300);
    wait::until("one more is refused", wait::LONG, || {
        let mut other = super::scene::peer(&weir);
        other.send(&out).expect("it is taken");
        match other.hears_within(limit).expect("it is told") {
            true => {
                let (tag, body) = other.message().expect("it is told why");
                let said = String::from_utf8_lossy(&body).into_owned();
                assert!(tag == b'E' && said.contains("C53200\0"), "{said}");
                true
            }
            false => false,
        }
    });
    // Short ones are of no account.
    assert_eq!(super::scene::asks(&mut super::scene::peer(&weir), "SELECT 1").value(), Some("1"));
    assert!(!first.hears_within(limit).expect("it is there"), "who came first goes on");
    drop(first);
    wait::until("what it has sent is forgotten", wait::LONG, || {
        let mut other = super::scene::peer(&weir);
        other.send(&out).expect("it is taken");
        !other.hears_within(limit).expect("it is told")
    });
}

#[test]
fn the_servers_own_limits_of_pauses_hold_where_no_server_knows_of_a_transaction() {
    let cluster = Cluster::start();
    cluster.sql("CREATE ROLE app LOGIN");
    let weir = weir(&[&cluster], "");
    super::scene::until_known(&weir, &mut client(&weir).expect("let in"));
    let ends = |queries: &[&str], code: &str| {
        let said = told(&weir, &session(queries));
        assert!(said.contains(&format!("C{code}\0")), "{queries:?}: {said:?}");
    };
    let own = "SET idle_in_transaction_session_timeout = '300ms'";
    ends(&[own, "BEGIN"], "25P03");
    ends(&[own, "BEGIN", "SELECT count(*) FROM pg_class"], "25P03");
    ends(&[own, "BEGIN", "CREATE TEMP TABLE t ()"], "25P03");
    ends(&["SET idle_session_timeout = '300ms'", "SELECT 1"], "57P05");
    // The server's, and a role's.
    let rests = |user: &str| {
        let mut out = Vec::new();
        put_start(&mut out, 0, [("user", user), ("database", SUPERUSER)]);
        put_query(&mut out, b"BEGIN");
        out
    };
    cluster.sql("ALTER SYSTEM SET idle_in_transaction_session_timeout = '400ms'");
    cluster.reload();
    let is_closed = |user: &str| {
        let mut stream = TcpStream::connect(weir.postgres).expect("it listens");
        stream.set_read_timeout(Some(Duration::from_secs(2))).expect("a socket's option");
        stream.write_all(&rests(user)).expect("it takes them");
        let mut said = Vec::new();
        let _ = stream.read_to_end(&mut said);
        String::from_utf8_lossy(&said).contains("C25P03\0")
    };
    wait::until("the server's own limit is known", wait::LONG, || is_closed("app"));
    cluster.sql("ALTER SYSTEM RESET idle_in_transaction_session_timeout");
    cluster.sql("ALTER ROLE app SET idle_in_transaction_session_timeout = '400ms'");
    cluster.reload();
    wait::until("a role's limit is its own", wait::LONG, || {
        is_closed("app") && !is_closed(SUPERUSER)
    });
}

/// How long a statement may take of a client that finds all server connections taken by lanes: it
/// was seconds.
const SOON: Duration = Duration::from_secs(1);
/// The same of most statements: lanes give up their connections within 5 ms, the machine may be
/// busy.
const MOMENT: Duration = Duration::from_millis(250);

#[test]
fn lanes_give_their_connections_to_whoever_waits_for_one() {
    let cluster = Cluster::start();
    cluster.sql("CREATE TABLE t (id int PRIMARY KEY, v int); INSERT INTO t VALUES (1, 0)");
    let table = super::scene::table(&[&cluster], "");
    let weir = Setup::new().top("workers = 16").table(&table).start();
    let mut clients: Vec<_> = (0..64).map(|_| client(&weir).expect("let in")).collect();
    super::scene::until_known(&weir, &mut clients[0]);
    for turn in 0..3 {
        for client in &mut clients {
            for _ in 0..3 {
                assert_eq!(value(client, "SELECT count(*) FROM t").as_deref(), Ok("1"));
            }
        }
        for (n, client) in clients.iter_mut().enumerate() {
            let begun = Instant::now();
            client.batch_execute("BEGIN; UPDATE t SET v = v + 1; COMMIT").expect("it is run");
            let took = begun.elapsed();
            assert!(took < SOON, "turn {turn}, client {n}: {took:?}");
        }
    }
}

#[test]
fn clients_with_other_settings_take_turns_on_one_connection_at_once() {
    let cluster = Cluster::start();
    let table = super::scene::table(&[&cluster], "pool.size = 1");
    let weir = Setup::new().top("workers = 1").table(&table).start();
    let named = |name: &str| {
        let mut config = config(weir.postgres, SUPERUSER, SUPERUSER);
        config.application_name(name).connect(NoTls).expect("let in")
    };
    let (mut one, mut other) = (named("one"), named("other"));
    super::scene::until_known(&weir, &mut one);
    let mut took = Vec::new();
    for _ in 0..25 {
        for client in [&mut one, &mut other] {
            let begun = Instant::now();
            value(client, "SELECT count(*) FROM pg_class").expect("it is run");
            took.push(begun.elapsed());
            // A lane of its own, if there is one.
            for _ in 0..4 {
                value(client, "SELECT count(*) FROM pg_class").expect("it is run");
            }
        }
    }
    took.sort();
    let (median, longest) = (took[took.len() / 2], took[took.len() - 1]);
    println!("50 turns: {median:?} in the median, {longest:?} at most");
    assert!(median < MOMENT, "{took:?}");
}

#[test]
fn a_lane_that_nobody_uses_gives_its_connection_beside_a_transaction_that_stays() {
    let cluster = Cluster::start();
    let table = super::scene::table(&[&cluster], "pool.size = 2");
    let weir = Setup::new().top("workers = 1").table(&table).start();
    let mut clients: Vec<_> = (0..3).map(|_| client(&weir).expect("let in")).collect();
    super::scene::until_known(&weir, &mut clients[0]);
    let [reader, stays, waits] = &mut clients[..] else { unreachable!("there are three") };
    stays.batch_execute("BEGIN; CREATE TEMPORARY TABLE own (v int)").expect("it is run");
    let mut took = Vec::new();
    for _ in 0..10 {
        for _ in 0..5 {
            value(reader, "SELECT count(*) FROM pg_class").expect("it is run");
        }
        let begun = Instant::now();
        waits.batch_execute("BEGIN; SELECT pg_sleep(0); COMMIT").expect("it is run");
        took.push(begun.elapsed());
        // No lane is opened before that in the place of one that was given up.
        std::thread::sleep(Duration::from_millis(600));
    }
    took.sort();
    println!("10 leases beside a lane: {:?} in the median, {:?} at most", took[5], took[9]);
    assert!(took[5] < MOMENT, "{took:?}");
    stays.batch_execute("COMMIT").expect("it is run");
}

#[test]
fn lanes_that_nobody_uses_give_their_connections_beside_leases_that_stay() {
    let cluster = Cluster::start();
    let table = super::scene::table(&[&cluster], "pool.size = 4");
    let weir = Setup::new().top("workers = 1").table(&table).start();
    let named = |name: &str| {
        let mut config = config(weir.postgres, SUPERUSER, SUPERUSER);
        config.application_name(name).connect(NoTls).expect("let in")
    };
    let mut readers = [named("one"), named("other")];
    super::scene::until_known(&weir, &mut readers[0]);
    let mut stay = [named("stays"), named("stays too")];
    let mut waits = named("waits");
    for client in &mut stay {
        client.batch_execute("BEGIN; CREATE TEMPORARY TABLE own (v int)").expect("it is run");
    }
    let mut took = Vec::new();
    for _ in 0..5 {
        for client in &mut readers {
            for _ in 0..5 {
                value(client, "SELECT count(*) FROM pg_class").expect("it is run");
            }
        }
        let begun = Instant::now();
        waits.batch_execute("BEGIN; SELECT pg_sleep(0); COMMIT").expect("it is run");
        took.push(begun.elapsed());
        std::thread::sleep(Duration::from_millis(600));
    }
    took.sort();
    println!("5 leases beside two lanes: {:?} in the median, {:?} at most", took[2], took[4]);
    assert!(took[2] < MOMENT, "{took:?}");
}

#[test]
fn a_lane_that_nobody_uses_gives_its_connection_to_another_user_of_the_server() {
    let cluster = Cluster::start();
    cluster.sql("CREATE ROLE ann LOGIN SUPERUSER");
    let table = super::scene::table(&[&cluster], "pool.max-per-backend = 3");
    let weir = Setup::new().top("workers = 1").table(&table).start();
    let as_ann = || config(weir.postgres, "ann", SUPERUSER).connect(NoTls).expect("let in");
    let mut reader = client(&weir).expect("let in");
    super::scene::until_known(&weir, &mut reader);
    // Each of the two users has a connection, so that nobody is without any.
    let (mut stays, mut too, mut waits) = (client(&weir).expect("let in"), as_ann(), as_ann());
    for client in [&mut stays, &mut too] {
        client.batch_execute("BEGIN; CREATE TEMPORARY TABLE own (v int)").expect("it is run");
    }
    let mut took = Vec::new();
    for _ in 0..5 {
        for _ in 0..5 {
            value(&mut reader, "SELECT count(*) FROM pg_class").expect("it is run");
        }
        let begun = Instant::now();
        waits.batch_execute("BEGIN; SELECT pg_sleep(0); COMMIT").expect("it is run");
        took.push(begun.elapsed());
        std::thread::sleep(Duration::from_millis(600));
    }
    took.sort();
    println!("5 leases of another user: {:?} in the median, {:?} at most", took[2], took[4]);
    assert!(took[4] < SOON, "{took:?}");
}
