//! Logins that fail are in the log, of every gateway, and passwords never are.

use rig::http::Request;
use rig::postgres::Cluster;
use rig::redis::{Redis, RedisClient};
use rig::weir::{Setup, Weir};

use crate::users::user;

const SECRET: &str = "hunter2-of-a-stranger";

/// A line of the log that a login failed, with all of these words in it.
#[track_caller]
fn is_logged(weir: &Weir, words: &[&str]) {
    let is_there = || {
        let log = weir.log();
        let mut failed = log.lines().filter(|line| line.contains("a login failed"));
        failed.any(|line| words.iter().all(|word| line.contains(word)))
    };
    rig::wait::until(&format!("{words:?} is in the log"), rig::wait::LONG, is_there);
}

#[test]
fn each_gateway_logs_who_failed_to_log_in_from_where_and_why() {
    let (cluster, server) = (Cluster::start(), Redis::start());
    let tables = user("ann", "right", "admin = true")
        + &format!(
            "[postgres]\nlisten = \"{{postgres}}\"\n\
             [[postgres.user]]\nname = \"bob\"\npassword = \"right\"\n\
             [[postgres.backend]]\nname = \"a\"\nurl = \"{}\"\n\
             [redis]\nlisten = \"{{redis}}\"\n\
             [[redis.user]]\nname = \"cid\"\npassword = \"right\"\n\
             [[redis.backend]]\nname = \"a\"\nurl = \"{}\"\n",
            cluster.url(),
            server.url()
        );
    let weir = Setup::new().table(&tables).start();
    let write = |query: &str| Request::post(&format!("/write?db=shop{query}"), "cpu v=1");
    let status = |request: &Request| weir.send(request).status();
    assert_eq!(status(&write(&format!("&u=ann&p={SECRET}"))), 401);
    is_logged(&weir, &["influx", "ann", "shop", "127.0.0.1", "wrong password"]);
    assert_eq!(status(&write(&format!("&u=eve%0a&p={SECRET}"))), 401);
    is_logged(&weir, &["influx", "eve\\", "no such user"]);
    assert_eq!(status(&write("").header("Authorization", &format!("Bearer {SECRET}"))), 401);
    is_logged(&weir, &["influx", "bearer auth disabled"]);
    assert_eq!(status(&Request::query("SHOW DATABASES", &[("db", "till")])), 401);
    is_logged(&weir, &["influx", "till", "unable to parse"]);

    for (name, why) in [("bob", "wrong password"), (&"x".repeat(100), "no such user")] {
        let mut config = pg::Config::new();
        config.host("127.0.0.1").port(weir.postgres.port()).user(name).dbname("shop");
        assert!(config.password(SECRET).connect(pg::NoTls).is_err());
        let shown = &name[..name.len().min(64)];
        is_logged(&weir, &["postgres", shown, "shop", "127.0.0.1", "28P01", why]);
    }
    assert!(!weir.log().contains(&"x".repeat(65)), "names are cut");

    for line in [format!("AUTH cid {SECRET}"), format!("HELLO 3 AUTH dan {SECRET}")] {
        let mut client = RedisClient::connect(weir.redis);
        assert!(client.line(&line).starts_with("-WRONGPASS"), "{line}");
    }
    is_logged(&weir, &["redis", "cid", "127.0.0.1", "WRONGPASS"]);
    is_logged(&weir, &["redis", "dan", "127.0.0.1", "WRONGPASS"]);
    assert!(!weir.log().contains(SECRET), "{}", weir.log());
}

#[test]
fn who_guesses_on_and_on_does_not_fill_the_log() {
    let users = user("ann", "right", "admin = true");
    let weir = Setup::new().table(&users).start();
    for _ in 0..200 {
        let request = Request::query("SHOW DATABASES", &[]);
        assert_eq!(weir.send(&request).status(), 401);
    }
    is_logged(&weir, &["unable to parse"]);
    let log = weir.log();
    let lines = log.lines().filter(|line| line.contains("a login failed")).count();
    assert!((1..20).contains(&lines), "{lines}");
}
