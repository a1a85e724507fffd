//! `LISTEN` of clients that share server connections.

use std::time::Duration;

use pg::fallible_iterator::FallibleIterator;
use rig::postgres::{Cluster, SUPERUSER};
use rig::wait;
use rig::weir::{Setup, Weir};

/// For what must not come.
const NEVER: Duration = Duration::from_millis(300);

fn weir(clusters: &[&Cluster]) -> Weir {
    let mut table = String::from(
        "[postgres]\nlisten = \"{postgres}\"\npoll-interval = \"100ms\"\n\
         poll-timeout = \"20s\"\n\
         [postgres.pool]\nsize = 3\n\
         [[postgres.auth]]\nmethod = \"trust\"\n",
    );
    for (name, cluster) in ["a", "b"].iter().zip(clusters) {
        let url = cluster.url();
        table += &format!("[[postgres.backend]]\nname = \"{name}\"\nurl = \"{url}\"\n");
    }
    Setup::new().table(&table).start()
}

struct Client(pg::Client);

impl Client {
    fn new(weir: &Weir) -> Self {
        let mut config = pg::Config::new();
        config.host(&weir.postgres.ip().to_string()).port(weir.postgres.port());
        config.user(SUPERUSER).dbname(SUPERUSER);
        Self(config.connect(pg::NoTls).expect("it is let in"))
    }

    fn run(&mut self, sql: &str) {
        self.0.batch_execute(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
    }

    /// The next payload, within a while.
    fn next(&mut self, wait: Duration) -> Option<String> {
        let mut notifications = self.0.notifications();
        let next = notifications.timeout_iter(wait).next().expect("the connection stays");
        next.map(|notification| notification.payload().to_owned())
    }

    fn hears(&mut self, payloads: &[&str]) {
        for payload in payloads {
            assert_eq!(self.next(wait::LONG).as_deref(), Some(*payload));
        }
        assert_eq!(self.next(NEVER), None);
    }
}

fn listening(cluster: &Cluster) -> String {
    let sql = "SELECT string_agg(pid::text, ',') FROM pg_stat_activity \
               WHERE application_name = 'weir: listen'";
    cluster.value(sql)
}

#[test]
fn more_clients_than_server_connections_listen() {
    let cluster = Cluster::start();
    let weir = weir(&[&cluster]);
    let mut clients: Vec<_> = (0..10).map(|_| Client::new(&weir)).collect();
    for (n, client) in clients.iter_mut().enumerate() {
        client.run("LISTEN Everyone");
        client.run(&format!("LISTEN \"One \"\"{n}\"\"\""));
        // Without waiting: the answer says that the server listens.
        cluster.sql(&format!("SELECT pg_notify('One \"{n}\"', '{n}')"));
    }
    cluster.sql("NOTIFY everyone, 'all'; NOTIFY nobody, 'none'");
    for (n, client) in clients.iter_mut().enumerate() {
        client.hears(&[&n.to_string(), "all"]);
    }
    assert!(!listening(&cluster).contains(','), "one connection listens");
    let (one, others) = clients.split_first_mut().expect("ten");
    one.run("UNLISTEN everyone");
    others[0].run("DISCARD ALL");
    // A client hears its own as well.
    others[1].run("NOTIFY everyone, 'some'");
    one.hears(&[]);
    others[0].hears(&[]);
    others[1..].iter_mut().for_each(|client| client.hears(&["some"]));
    // With a server connection of its own it hears both: what Weir listens to for it, and what it
    // has listened to there.
    one.run("CREATE TEMPORARY TABLE own (a int)");
    one.run("LISTEN there");
    cluster.sql("SELECT pg_notify('One \"0\"', 'weir')");
    one.hears(&["weir"]);
    cluster.sql("NOTIFY there, 'server'");
    one.hears(&["server"]);
    one.run("SELECT 1; UNLISTEN *");
    cluster.sql("NOTIFY there, 'server'; SELECT pg_notify('One \"0\"', 'weir')");
    one.hears(&[]);
}

#[test]
fn what_drivers_reset_a_session_with_does_not_bind_it() {
    let cluster = Cluster::start();
    let weir = weir(&[&cluster]);
    let mut clients: Vec<_> = (0..10).map(|_| Client::new(&weir)).collect();
    let show = |client: &mut Client| -> String {
        client.0.query_one("SHOW work_mem", &[]).expect("it is shown").get(0)
    };
    for (n, client) in clients.iter_mut().enumerate() {
        client.run("LISTEN a");
        client.run(&format!("SET work_mem = '{}MB'; SET statement_timeout = '9s'", n + 10));
    }
    for (n, client) in clients.iter_mut().enumerate() {
        assert_eq!(show(client), format!("{}MB", n + 10));
    }
    // As asyncpg's pool does it.
    for client in &mut clients {
        client.run("SELECT pg_advisory_unlock_all();\nCLOSE ALL;\nUNLISTEN *;\nRESET ALL;");
    }
    cluster.sql("NOTIFY a, 'x'");
    for client in &mut clients {
        assert_eq!(show(client), "4MB");
        client.hears(&[]);
    }
    // Nothing of a text that fails holds.
    let failed = clients[0].0.batch_execute("SET work_mem = '7MB'; SELECT 1 / 0");
    assert!(failed.is_err());
    assert_eq!(show(&mut clients[0]), "4MB");
}

#[test]
fn a_transaction_hears_nothing_before_its_end() {
    let cluster = Cluster::start();
    let weir = weir(&[&cluster]);
    let mut client = Client::new(&weir);
    client.run("LISTEN a");
    for statement in ["", "SELECT 1"] {
        client.run("BEGIN");
        client.run(statement);
        cluster.sql("NOTIFY a, 'within'");
        client.hears(&[]);
        client.run("COMMIT");
        client.hears(&["within"]);
    }
    // What is rolled back has not happened.
    client.run("BEGIN");
    client.run("UNLISTEN a");
    client.run("ROLLBACK");
    cluster.sql("NOTIFY a, 'still'");
    client.hears(&["still"]);
    client.run("BEGIN");
    client.run("UNLISTEN a");
    client.run("LISTEN b");
    client.run("COMMIT");
    cluster.sql("NOTIFY a, 'a'; NOTIFY b, 'b'");
    client.hears(&["b"]);
}

#[test]
fn a_lost_connection_is_opened_again_and_the_clients_are_told() {
    let mut cluster = Cluster::start();
    let weir = weir(&[&cluster]);
    let mut client = Client::new(&weir);
    client.run("LISTEN a");
    let before = listening(&cluster);
    cluster.sql(&format!("SELECT pg_terminate_backend({before})"));
    wait::until("the loss is counted", wait::LONG, || {
        weir.metrics().sum("weir_postgres_listen_gaps_total", &[]) >= 1.0
    });
    // Answered by the next connection only.
    Client::new(&weir).run("LISTEN a");
    assert_ne!(listening(&cluster), before);
    cluster.sql("NOTIFY a, 'again'");
    client.hears(&["again"]);
    cluster.restart();
    Client::new(&weir).run("LISTEN a");
    cluster.sql("NOTIFY a, 'and again'");
    client.hears(&["and again"]);
}

#[test]
fn a_promotion_is_followed() {
    let mut cluster = Cluster::start();
    let replica = cluster.replica();
    let weir = weir(&[&cluster, &replica]);
    let mut client = Client::new(&weir);
    client.run("LISTEN a");
    cluster.sql("NOTIFY a, 'before'");
    client.hears(&["before"]);
    cluster.kill();
    replica.promote();
    Client::new(&weir).run("LISTEN a");
    replica.sql("NOTIFY a, 'after'");
    client.hears(&["after"]);
}

#[test]
fn a_client_that_can_not_be_told_is_closed() {
    let cluster = Cluster::start();
    let weir = weir(&[&cluster]);
    let mut client = Client::new(&weir);
    client.run("LISTEN a");
    client.run("BEGIN");
    client.run("SELECT 1");
    let notify = |times: u32| {
        cluster.sql(&format!("SELECT pg_notify('a', n::text) FROM generate_series(1, {times}) n"))
    };
    notify(12_000);
    wait::until("it is closed", wait::LONG, || client.0.batch_execute("SELECT 1").is_err());
    // One that takes them gets all.
    let mut client = Client::new(&weir);
    client.run("LISTEN a");
    notify(2000);
    for n in 1..=2000 {
        assert_eq!(client.next(wait::LONG), Some(n.to_string()));
    }
}
