//! All three gateways in one process: what happens to the process happens to each of them.

use pg::Client;
use rig::fake::Fake;
use rig::http::Request;
use rig::postgres::{Cluster, psql};
use rig::redis::{Redis, RedisClient};
use rig::wait;
use rig::weir::{Setup, Weir};

use crate::postgres::scene::{client as sql_client, table as postgres_table};
use crate::redis::scene::{client as key_client, table as redis_table};
use crate::scene::{assert_points, point};

/// Weir before a server of each kind.
struct Three {
    influx: Fake,
    cluster: Cluster,
    redis: Redis,
    weir: Weir,
}

impl Three {
    fn start() -> Self {
        let (influx, cluster) = (Fake::start("a", &["db"]), Cluster::start());
        cluster.sql("CREATE TABLE t (n int)");
        let redis = Redis::start();
        let setup = setup(&influx, &cluster, &redis, "1.8.1", "");
        Self { weir: setup.start(), influx, cluster, redis }
    }

    /// Writes number `n` by each of the gateways.
    fn write(&self, n: u64, sql: &mut Client, keys: &mut RedisClient) {
        self.weir.must_write("db", &point(n));
        sql.execute("INSERT INTO t VALUES ($1)", &[&(n as i32)]).expect("it is taken");
        assert_eq!(keys.line(&format!("SET n{n} {n}")), "+OK");
    }

    /// Finds the first `count` numbers at each of the servers.
    #[track_caller]
    fn assert_written(&self, count: u64) {
        self.weir.wait_delivered();
        assert_points(&self.influx, 0, count);
        assert_eq!(self.cluster.value("SELECT count(DISTINCT n) FROM t"), count.to_string());
        let mut direct = self.redis.client();
        let names: Vec<String> = (0..count).map(|n| format!("n{n}")).collect();
        assert_eq!(direct.line(&format!("EXISTS {}", names.join(" "))), format!(":{count}"));
    }
}

fn setup(influx: &Fake, cluster: &Cluster, redis: &Redis, version: &str, more: &str) -> Setup {
    let tables =
        format!("{}{}{more}", postgres_table(&[cluster], ""), redis_table(&[redis], "", ""));
    Setup::new()
        .top("workers = 2")
        .default_segments()
        .influx(&format!("version = {version:?}"))
        .backend("a", &influx.url())
        .table(&tables)
}

#[test]
fn a_reload_is_for_all_gateways_or_for_none() {
    let mut three = Three::start();
    let (mut sql, mut keys) = (sql_client(&three.weir).expect("let in"), key_client(&three.weir));
    three.write(0, &mut sql, &mut keys);
    let version = |weir: &Weir| {
        let answer = weir.send(&Request::get("/ping"));
        answer.header("x-influxdb-version").unwrap_or_default().to_owned()
    };
    let nowhere = "[[redis.user]]\nname = \"nobody\"\npassword-file = \"/nowhere/password\"\n";
    let Three { influx, cluster, redis, weir } = &mut three;
    weir.configure(|_| setup(influx, cluster, redis, "1.8.2", nowhere));
    weir.reload();
    weir.wait_log("was not reloaded");
    assert_eq!(version(weir), "1.8.1");
    weir.configure(|_| setup(influx, cluster, redis, "1.8.2", ""));
    weir.reload();
    wait::until("the file is in force", wait::LONG, || version(weir) == "1.8.2");
    // Clients of before stay.
    three.write(1, &mut sql, &mut keys);
    three.assert_written(2);
}

#[test]
fn a_drain_lets_what_is_under_way_end_on_each_gateway() {
    let mut three = Three::start();
    let (at, redis) = (three.weir.postgres, three.weir.redis);
    let (host, port) = (at.ip(), at.port());
    let dsn = format!("host={host} port={port} user=postgres dbname=postgres");
    let (slow, blocked) = std::thread::scope(|scope| {
        // With libpq: a client in Rust tells of the goodbye where it comes with the last answer.
        let slow = scope.spawn(move || psql(&dsn, "SELECT 7 FROM pg_sleep(1)", &[]));
        let blocked = scope.spawn(move || RedisClient::connect(redis).line("BLPOP list 1"));
        wait::until("both are under way", wait::LONG, || {
            let sleeps = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'";
            three.cluster.value(sleeps) == "1"
                && three.redis.client().line("INFO clients").contains("blocked_clients:1")
        });
        three.weir.running().signal(rustix::process::Signal::TERM);
        (slow.join().expect("no panic"), blocked.join().expect("no panic"))
    });
    assert_eq!(slow, Ok("7".to_owned()));
    // Who waits for others is told so, or has waited as long as it wanted to.
    assert!(["-ERR weir: it stops", "*-1"].contains(&&*blocked), "{blocked}");
    let ended = wait::value("it ends", wait::LONG, || three.weir.running().ended());
    assert!(ended.success(), "{ended}");
    assert!(!three.weir.log().contains("stands still"), "{}", three.weir.log());
}

#[test]
fn after_a_stop_everything_that_was_acknowledged_is_there() {
    let mut three = Three::start();
    let mut sql = sql_client(&three.weir).expect("let in");
    let mut keys = key_client(&three.weir);
    (0..10).for_each(|n| three.write(n, &mut sql, &mut keys));
    drop((sql, keys));
    assert!(three.weir.terminate().success());
    three.weir.start_again();
    three.assert_written(10);
}

#[test]
fn after_kill_9_everything_that_was_acknowledged_is_there() {
    let mut three = Three::start();
    for round in 0..3 {
        let mut sql = sql_client(&three.weir).expect("let in");
        let mut keys = key_client(&three.weir);
        (0..50).for_each(|n| three.write(round * 50 + n, &mut sql, &mut keys));
        three.weir.kill();
        three.weir.start_again();
    }
    three.assert_written(150);
}
