//! The console of the PostgreSQL gateway, by an operator's own client.

use std::net::SocketAddr;

use pg::SimpleQueryMessage::Row;
use rig::postgres::{Cluster, PASSWORD, SUPERUSER};
use rig::weir::{Setup, Weir};

fn weir(cluster: &Cluster) -> Weir {
    let url = cluster.url();
    let table = format!(
        "[postgres]\nlisten = \"{{postgres}}\"\n\
         [[postgres.auth]]\nmethod = \"trust\"\n\
         [postgres.console]\nadmin-users = [\"{SUPERUSER}\"]\nstats-users = [\"look\"]\n\
         [[postgres.user]]\nname = \"{SUPERUSER}\"\npassword = \"{PASSWORD}\"\n\
         [[postgres.database]]\nname = \"postgres\"\n\
         [[postgres.backend]]\nname = \"a\"\nurl = \"{url}\"\n\
         user = \"{SUPERUSER}\"\npassword = \"{PASSWORD}\"\n"
    );
    Setup::new().table(&table).start()
}

fn connect(weir: &Weir, user: &str, database: &str) -> Result<pg::Client, String> {
    connect_to(weir.postgres, user, database)
}

fn connect_to(at: SocketAddr, user: &str, database: &str) -> Result<pg::Client, String> {
    let mut config = pg::Config::new();
    config.host(&at.ip().to_string()).port(at.port());
    config.user(user).password(PASSWORD).dbname(database);
    config.connect(pg::NoTls).map_err(|error| said(&error))
}

fn said(error: &pg::Error) -> String {
    error
        .as_db_error()
        .map_or(error.to_string(), |error| format!("{} {}", error.code().code(), error.message()))
}

/// The cell of a column in the first row, or what is said instead.
fn ask(client: &mut pg::Client, sql: &str, column: &str) -> Result<String, String> {
    let answer = client.simple_query(sql).map_err(|error| said(&error))?;
    let cell = answer.iter().find_map(|message| match message {
        Row(row) => row.get(column).map(str::to_owned),
        _ => None,
    });
    Ok(cell.unwrap_or_default())
}

#[test]
fn an_operator_pauses_a_database_while_its_server_is_restarted() {
    let mut cluster = Cluster::start();
    let weir = weir(&cluster);
    let mut app = connect(&weir, SUPERUSER, "postgres").expect("it is let in");
    let mut console = connect(&weir, SUPERUSER, "weir").expect("it is let in");
    assert_eq!(ask(&mut app, "SELECT 1 AS one", "one"), Ok("1".into()));
    assert_eq!(ask(&mut console, "SHOW POOLS", "database"), Ok("postgres".into()));
    ask(&mut console, "PAUSE", "").expect("nothing is in use");
    assert_eq!(ask(&mut console, "SHOW STATE", "value"), Ok("no".into()));
    cluster.restart();
    let waiting = std::thread::spawn(move || ask(&mut app, "SELECT 2 AS two", "two"));
    rig::wait::until("somebody waits", rig::wait::LONG, || {
        ask(&mut console, "SHOW POOLS", "cl_waiting") == Ok("1".into())
    });
    ask(&mut console, "RESUME", "").expect("it was paused");
    assert_eq!(waiting.join().expect("it ends"), Ok("2".into()));
    let twice = ask(&mut console, "RESUME", "");
    assert_eq!(twice, Err("55000 pooler is not paused/suspended".into()));
}

#[test]
fn who_may_look_may_not_act_and_nobody_else_gets_in() {
    let cluster = Cluster::start();
    let weir = weir(&cluster);
    let mut look = connect(&weir, "look", "pgbouncer").expect("it is let in");
    assert_eq!(ask(&mut look, "SHOW BACKENDS", "name"), Ok("a".into()));
    for command in ["PAUSE", "KILL_CLIENT 1", "RELOAD", "SHUTDOWN", "DISABLE postgres"] {
        assert_eq!(ask(&mut look, command, ""), Err("42501 admin access needed".into()));
    }
    let refused = connect(&weir, "ann", "weir").map(|_| ());
    assert_eq!(refused, Err("28000 not allowed".into()));
    let mut app = connect(&weir, SUPERUSER, "postgres").expect("it is let in");
    let mut console = connect(&weir, SUPERUSER, "weir").expect("it is let in");
    let id = ask(&mut console, "SHOW CLIENTS", "id").expect("it is shown");
    ask(&mut console, &format!("KILL_CLIENT {id}"), "").expect("it is there");
    assert!(ask(&mut app, "SELECT 1", "").is_err(), "it was killed");
    ask(&mut console, "DISABLE postgres", "").expect("it is known");
    let refused = connect(&weir, SUPERUSER, "postgres").map(|_| ());
    assert_eq!(refused, Err("08004 database \"postgres\" is disabled".into()));
}

#[test]
fn commands_do_what_they_say_or_say_why_not() {
    let cluster = Cluster::start();
    let mut weir = weir(&cluster);
    let mut console = connect(&weir, SUPERUSER, "weir").expect("it is let in");
    let at = weir.postgres;
    let enter = || connect_to(at, SUPERUSER, "postgres");
    ask(&mut console, "DISABLE postgres", "").expect("it is known");
    assert!(enter().is_err());
    ask(&mut console, "ENABLE postgres", "").expect("it is known");
    let mut app = enter().expect("it is enabled");
    assert_eq!(ask(&mut app, "SELECT 1 AS one", "one"), Ok("1".into()));
    ask(&mut console, "KILL postgres", "").expect("it is known");
    assert!(ask(&mut app, "SELECT 1", "").is_err(), "it was killed");
    assert_eq!(ask(&mut console, "SHOW DATABASES", "paused"), Ok("1".into()));
    rig::wait::until("its connections are gone", rig::wait::LONG, || {
        ask(&mut console, "SHOW SERVERS", "id") == Ok(String::new())
    });
    ask(&mut console, "RESUME postgres", "").expect("it was paused");
    let mut app = enter().expect("it goes on");
    assert_eq!(ask(&mut app, "SELECT 1 AS one", "one"), Ok("1".into()));
    for (command, why) in [
        ("SUSPEND", "0A000 SUSPEND is not done here"),
        ("SHOW FDS", "0A000 SHOW FDS is not done here"),
        ("SET pool_mode = 'session'", "0A000 settings are not changed at the console"),
        ("PAUSE nowhere", "3D000 no such database: nowhere"),
        ("KILL_CLIENT 999999", "42704 client not found"),
    ] {
        let said = ask(&mut console, command, "").expect_err(command);
        assert!(said.starts_with(why), "{command}: {said}");
    }
    drop(app);
    ask(&mut console, "SHUTDOWN", "").expect("it is taken");
    rig::wait::until("it has stopped", rig::wait::LONG, || weir.running().ended().is_some());
}
