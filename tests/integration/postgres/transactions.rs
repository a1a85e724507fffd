//! Transactions whose reads need no server connection of their own.

use std::time::{Duration, Instant};

use rig::postgres::{Cluster, MessageClient, SUPERUSER};
use rig::wait;
use rig::weir::Weir;
use wire::postgres::frontend::{put_bind, put_execute, put_parse, put_query, put_sync};

use super::scene::{asks, client, peer, reload, said, value, weir};

/// A read of which nothing depends on its transaction.
const READ: &str = "SELECT v FROM small WHERE id = 1";

/// However long a read takes on a busy machine, it goes on to ride.
const NONE_IS_SLOW: &str = "lanes.slow = \"60s\"\n";

struct Scene {
    cluster: Cluster,
    weir: Weir,
}

impl Scene {
    fn new(lines: &str) -> Self {
        let cluster = Cluster::start();
        for sql in [
            "CREATE TABLE small (id int PRIMARY KEY, v int)",
            "INSERT INTO small SELECT n, n * 10 FROM generate_series(1, 9) n",
            "CREATE TABLE large AS SELECT n AS id, repeat('x', 100) AS v \
             FROM generate_series(1, 5000) n",
        ] {
            cluster.sql(sql);
        }
        let lines = format!("{NONE_IS_SLOW}{lines}");
        let scene = Self { weir: weir(&[&cluster], &lines), cluster };
        let mut peer = scene.peer();
        wait::until("reads ride", wait::LONG, || {
            let before = scene.ridden();
            assert_eq!(asks(&mut peer, READ).value(), Some("10"));
            scene.ridden() > before
        });
        scene
    }

    fn peer(&self) -> MessageClient {
        peer(&self.weir)
    }

    /// Rounds that rode lanes.
    fn ridden(&self) -> f64 {
        self.weir.metrics().sum("weir_postgres_rounds_total", &[("way", "lane")])
    }

    /// Rounds that rode lanes meanwhile.
    fn rides(&self, what: impl FnOnce()) -> f64 {
        let before = self.ridden();
        what();
        self.ridden() - before
    }

    /// Has a statement learned, so that it is known to be quick.
    fn learn(&self, sql: &str) {
        let mut peer = self.peer();
        for _ in 0..3 {
            asks(&mut peer, sql);
        }
    }
}

/// Asks, and holds the answer against its first value or error, and the status behind it.
#[track_caller]
fn says(peer: &mut MessageClient, sql: &str, what: &str, status: char) {
    let reply = asks(peer, sql);
    let said = reply.error.as_deref().or(reply.value()).or(reply.tags.last().map(|tag| &**tag));
    assert_eq!((said, reply.status), (Some(what), status), "{sql}: {reply:?}");
}

#[test]
fn reads_ride_until_the_first_statement_that_is_none() {
    let scene = Scene::new("");
    let mut peer = scene.peer();
    let rides = scene.rides(|| {
        says(&mut peer, "BEGIN", "BEGIN", 'T');
        for _ in 0..5 {
            says(&mut peer, READ, "10", 'T');
        }
        says(&mut peer, "COMMIT", "COMMIT", 'I');
    });
    assert_eq!(rides, 5.0);
    let rides = scene.rides(|| {
        says(&mut peer, "BEGIN ISOLATION LEVEL READ COMMITTED", "BEGIN", 'T');
        says(&mut peer, READ, "10", 'T');
        says(&mut peer, "UPDATE small SET v = 11 WHERE id = 1", "UPDATE 1", 'T');
        says(&mut peer, READ, "11", 'T');
        says(&mut peer, "ROLLBACK", "ROLLBACK", 'I');
    });
    assert_eq!(rides, 1.0);
    says(&mut peer, READ, "10", 'I');
    // The same with prepared statements.
    let mut client = client(&scene.weir).expect("let in");
    let read = client.prepare("SELECT v FROM small WHERE id = $1").expect("it is prepared");
    let mut transaction = client.transaction().expect("it begins");
    for id in 1..9 {
        let row = transaction.query_one(&read, &[&id]).expect("it is there");
        assert_eq!(row.get::<_, i32>(0), id * 10);
    }
    transaction.execute("UPDATE small SET v = 20 WHERE id = $1", &[&1]).expect("it is updated");
    assert_eq!(transaction.query_one(&read, &[&1]).expect("it is there").get::<_, i32>(0), 20);
    transaction.commit().expect("it commits");
    says(&mut peer, READ, "20", 'I');
}

#[test]
fn what_depends_on_the_transaction_has_one() {
    let scene = Scene::new("");
    let mut peer = scene.peer();
    let now = "SELECT transaction_timestamp()";
    scene.learn(now);
    says(&mut peer, "BEGIN", "BEGIN", 'T');
    says(&mut peer, READ, "10", 'T');
    let first = asks(&mut peer, now).value().map(str::to_owned);
    says(&mut peer, READ, "10", 'T');
    assert_eq!(asks(&mut peer, now).value().map(str::to_owned), first);
    says(&mut peer, "COMMIT", "COMMIT", 'I');
    // Whatever else is asked in the same round, though it takes longer.
    let mut round = Vec::new();
    let longer = "SELECT count(*) FROM large";
    scene.learn(longer);
    for sql in [longer, now, longer] {
        put_parse(&mut round, b"", sql.as_bytes(), &[]);
        put_bind(&mut round, b"", b"", &[]);
        put_execute(&mut round, b"", 0);
    }
    put_sync(&mut round);
    for begun in [false, false, true, true] {
        if begun {
            says(&mut peer, "BEGIN", "BEGIN", 'T');
        }
        peer.send(&round).expect("it is taken");
        let reply = peer.reply().expect("it is answered");
        let first = reply.rows[1][0].clone();
        assert_eq!((reply.value(), reply.rows.len()), (Some("5000"), 3));
        if begun {
            assert_eq!(asks(&mut peer, now).value().map(str::to_owned), first);
            says(&mut peer, "COMMIT", "COMMIT", 'I');
        }
    }
    // So has a value that stands for its time.
    let today = "SELECT TIMESTAMP '2020-01-01'::text";
    scene.learn(today);
    let rides = scene.rides(|| {
        says(&mut peer, "BEGIN", "BEGIN", 'T');
        says(&mut peer, today, "2020-01-01 00:00:00", 'T');
        let now = asks(&mut peer, "SELECT TIMESTAMP 'now'::text").value().map(str::to_owned);
        says(&mut peer, READ, "10", 'T');
        assert_eq!(asks(&mut peer, "SELECT TIMESTAMP 'now'::text").value(), now.as_deref());
        says(&mut peer, "COMMIT", "COMMIT", 'I');
    });
    assert!(rides <= 1.0, "{rides}");
    // Where statements see what was there when the transaction began, all of them do.
    for (begin, set) in [
        ("BEGIN ISOLATION LEVEL REPEATABLE READ", ""),
        ("BEGIN", "SET default_transaction_isolation = 'repeatable read'"),
    ] {
        if !set.is_empty() {
            says(&mut peer, set, "SET", 'I');
        }
        says(&mut peer, begin, "BEGIN", 'T');
        let before = asks(&mut peer, READ).value().map(str::to_owned);
        scene.cluster.sql("UPDATE small SET v = v + 1 WHERE id = 1");
        assert_eq!(asks(&mut peer, READ).value().map(str::to_owned), before, "{begin} {set}");
        says(&mut peer, "COMMIT", "COMMIT", 'I');
    }
}

#[test]
fn the_database_s_own_isolation_holds() {
    let scene = Scene::new("");
    scene.cluster.sql(&format!(
        "ALTER DATABASE {SUPERUSER} SET default_transaction_isolation = 'repeatable read'"
    ));
    let weir = weir(&[&scene.cluster], "");
    let scene = Scene { weir, ..scene };
    let mut peer = scene.peer();
    (0..3).for_each(|_| drop(asks(&mut peer, READ)));
    says(&mut peer, "BEGIN", "BEGIN", 'T');
    says(&mut peer, READ, "10", 'T');
    scene.cluster.sql("UPDATE small SET v = 12 WHERE id = 1");
    says(&mut peer, READ, "10", 'T');
    says(&mut peer, "COMMIT", "COMMIT", 'I');
    says(&mut peer, READ, "12", 'I');
}

#[test]
fn an_error_fails_the_transaction() {
    let scene = Scene::new("");
    let mut peer = scene.peer();
    let fails = "SELECT v / (id - 1) FROM small WHERE id = 1";
    let late = "SELECT v, 1 / (id - 4990) FROM large";
    // Their like is known to be quick.
    scene.learn("SELECT v / (id - 100) FROM small WHERE id = 1");
    scene.learn("SELECT v, 1 / (id - 10000) FROM large");
    for end in ["COMMIT", "ROLLBACK"] {
        says(&mut peer, "BEGIN", "BEGIN", 'T');
        says(&mut peer, READ, "10", 'T');
        says(&mut peer, fails, "22012", 'E');
        says(&mut peer, READ, "25P02", 'E');
        says(&mut peer, end, "ROLLBACK", 'I');
    }
    // Rows were passed on before it failed.
    for end in ["COMMIT", "ROLLBACK"] {
        let rides = scene.rides(|| {
            says(&mut peer, "BEGIN", "BEGIN", 'T');
            let reply = asks(&mut peer, late);
            assert_eq!((reply.error.as_deref(), reply.status), (Some("22012"), 'E'));
            assert!(reply.rows.len() > 1000);
        });
        assert_eq!(rides, 1.0);
        says(&mut peer, end, "ROLLBACK", 'I');
    }
    for (next, answer, status) in
        [(READ, "25P02", 'E'), ("INSERT INTO small VALUES (10, 1)", "25P02", 'E')]
    {
        says(&mut peer, "BEGIN", "BEGIN", 'T');
        assert_eq!(asks(&mut peer, late).status, 'E');
        says(&mut peer, next, answer, status);
        says(&mut peer, "ROLLBACK; SELECT 5", "5", 'I');
    }
    says(&mut peer, "SELECT count(*) FROM small", "9", 'I');
    says(&mut peer, "BEGIN", "BEGIN", 'T');
    says(&mut peer, READ, "10", 'T');
    says(&mut peer, "INSERT INTO small VALUES (11, 1)", "INSERT 0 1", 'T');
    says(&mut peer, "COMMIT", "COMMIT", 'I');
    says(&mut peer, "SELECT count(*) FROM small", "10", 'I');
}

#[test]
fn rounds_that_are_sent_ahead_are_answered_in_their_transaction() {
    let scene = Scene::new("");
    let mut peer = scene.peer();
    let fails = "SELECT v / (id - 1) FROM small WHERE id = 1";
    scene.learn("SELECT v / (id - 100) FROM small WHERE id = 1");
    let mut out = Vec::new();
    let sent = [READ, "BEGIN", READ, fails, READ, "ROLLBACK", READ, "BEGIN", READ, "COMMIT", READ];
    sent.iter().for_each(|sql| put_query(&mut out, sql.as_bytes()));
    for _ in 0..20 {
        peer.send(&out).expect("it is taken");
        let heard: Vec<_> = sent
            .iter()
            .map(|_| {
                let reply = peer.reply().expect("it is answered");
                (reply.error.clone(), reply.value().map(str::to_owned), reply.status)
            })
            .collect();
        let (ten, none) = (Some("10".to_owned()), None::<String>);
        let error = |code: &str| Some(code.to_owned());
        let expected = [
            (None, ten.clone(), 'I'),
            (None, none.clone(), 'T'),
            (None, ten.clone(), 'T'),
            (error("22012"), none.clone(), 'E'),
            (error("25P02"), none.clone(), 'E'),
            (None, none.clone(), 'I'),
            (None, ten.clone(), 'I'),
            (None, none.clone(), 'T'),
            (None, ten.clone(), 'T'),
            (None, none, 'I'),
            (None, ten, 'I'),
        ];
        assert_eq!(heard, expected);
    }
}

#[test]
fn notifications_wait_for_its_end() {
    let scene = Scene::new("");
    let (mut peer, mut other) = (scene.peer(), scene.peer());
    says(&mut peer, "LISTEN news", "LISTEN", 'I');
    says(&mut peer, "BEGIN", "BEGIN", 'T');
    for _ in 0..50 {
        says(&mut other, "NOTIFY news", "NOTIFY", 'I');
        assert_eq!(asks(&mut peer, READ).notified, 0);
    }
    says(&mut peer, "COMMIT", "COMMIT", 'I');
    let mut heard = 0;
    wait::until("it hears of all", wait::LONG, || {
        heard += asks(&mut peer, READ).notified;
        heard == 50
    });
}

#[test]
fn a_statement_that_gets_no_server_fails_its_transaction() {
    let lines = "pool.size = 2\nlanes.count = 1";
    let mut scene = Scene::new(lines);
    // The server connections are there by now: a login there may take longer.
    let lines = format!("{NONE_IS_SLOW}{lines}\ntimeouts.query-wait = \"300ms\"");
    reload(&mut scene.weir, &[&scene.cluster], &lines);
    let (mut peer, mut others) = (scene.peer(), [scene.peer(), scene.peer()]);
    says(&mut peer, "BEGIN", "BEGIN", 'T');
    says(&mut peer, READ, "10", 'T');
    // The lane gives its connection to the second of them.
    for (n, other) in others.iter_mut().enumerate() {
        says(other, "BEGIN", "BEGIN", 'T');
        let insert = format!("INSERT INTO small VALUES ({}, 1)", 20 + n);
        says(other, &insert, "INSERT 0 1", 'T');
    }
    let refused = asks(&mut peer, "INSERT INTO small VALUES (13, 1)");
    assert!(refused.error.is_some(), "{refused:?}");
    assert_eq!(refused.status, 'E');
    others.iter_mut().for_each(|other| says(other, "ROLLBACK", "ROLLBACK", 'I'));
    says(&mut peer, READ, "25P02", 'E');
    says(&mut peer, "COMMIT", "ROLLBACK", 'I');
    says(&mut peer, "SELECT count(*) FROM small", "9", 'I');
}

#[test]
fn a_transaction_may_last_only_so_long_whether_a_server_knows_of_it_or_not() {
    let scene = Scene::new("timeouts.transaction = \"1s\"");
    let mut client = client(&scene.weir).expect("let in");
    client.batch_execute("BEGIN").expect("it begins");
    let ended = wait::value("it is ended", wait::LONG, || {
        std::thread::sleep(Duration::from_millis(20));
        client.simple_query(READ).err()
    });
    let said = said(&ended);
    assert!(said.starts_with("25P04") || ended.is_closed(), "{said}");
    // However busy it is.
    let mut busy = super::scene::client(&scene.weir).expect("let in");
    busy.batch_execute("BEGIN").expect("it begins");
    let begun = Instant::now();
    while busy.simple_query(READ).is_ok() {
        assert!(begun.elapsed() < wait::LONG, "it goes on for ever");
    }
}

#[test]
fn it_can_be_turned_off() {
    let scene = Scene::new("lanes.transactions = false");
    let mut client = client(&scene.weir).expect("let in");
    let rides = scene.rides(|| {
        client.batch_execute("BEGIN").expect("it begins");
        assert_eq!(value(&mut client, READ), Ok("10".into()));
        client.batch_execute("COMMIT").expect("it commits");
    });
    assert_eq!(rides, 0.0);
}
