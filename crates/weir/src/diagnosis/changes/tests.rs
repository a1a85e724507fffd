use std::sync::Arc;

use serde_json::{Value, json};

use super::*;
use crate::diagnosis::installation::{ConsoleLogin, Installation};
use crate::diagnosis::observation::Expiry;

fn document() -> Value {
    let backend = |name: &str, state: &str, waiting: u64| {
        let waiting =
            json!({ "items": waiting, "bytes": waiting * 60, "oldest_age_seconds": null });
        json!({
            "name": name, "url": format!("http://{name}:8086"), "state": state, "reason": null,
            "cursor": {
                "delivered": 1, "dead_lettered": 0, "dropped": 0, "dropped_oldest": 0,
                "dropped_damaged": 0, "waiting": waiting,
            },
        })
    };
    let server = |name: &str, role: &str| {
        json!({
            "name": name, "address": format!("{name}:5432"), "role": role, "trouble": null,
            "lag_bytes": null, "lag_seconds": null, "connections": 1, "in_flight": 0,
            "latencies": [],
        })
    };
    json!({
        "process": { "version": "1", "pid": 1, "uptime_seconds": 1.0, "workers": 1 },
        "ready": { "yes": true, "reason": null },
        "journal": {
            "ack": "durable", "when_full": "reject", "poisoned": null, "full": false,
            "disk_full": false, "bytes_used": 1, "bytes_max": 100, "until_full_seconds": null,
        },
        "influx": {
            "connections": 1, "points_accepted": 1, "collisions": null,
            "backends": [backend("a", "delivering", 0), backend("b", "delivering", 7)],
        },
        "postgres": {
            "connections": 1, "waiting": 0, "paused": false, "queries": 0, "lane_queries": 0,
            "replica_queries": 0, "pools": [],
            "backends": [server("p", "primary"), server("q", "replica")],
        },
        "redis": {
            "connections": 1, "commands": 0, "lane_commands": 0, "refused": 0,
            "failed_connections": 0, "backends": [{
                "pool": "redis", "name": "r", "url": "redis://r:6379", "weight": 1,
                "ejected_seconds": null, "wrong": null,
            }],
        },
    })
}

fn observation(at: f64, document: &Value) -> Observation {
    let status = serde_json::from_value(document.clone()).unwrap();
    let (address, user) = ("127.0.0.1:6432".parse().unwrap(), "ann".to_owned());
    let console = Some(ConsoleLogin { address, user, database: "weir".to_owned() });
    let installation = Arc::new(Installation { console, ..Installation::default() });
    Observation { at, status, installation, ..Observation::default() }
}

/// What is told of one change of the document, and then of its way back.
fn both_ways(path: &str, value: Value) -> (Vec<Change>, Vec<Change>) {
    let mut after = document();
    *after.pointer_mut(path).unwrap() = value;
    let (was, mut is) = (observation(100.0, &document()), observation(160.0, &after));
    is.follow(&was);
    let mut back = observation(220.0, &document());
    back.follow(&is);
    (changes(&was, &is), changes(&is, &back))
}

fn texts(of: &[Change]) -> String {
    of.iter().map(|change| format!("{:?} {}\n", change.level, change.text)).collect()
}

#[test]
fn each_kind_of_trouble_is_told_when_it_comes_and_when_it_goes() {
    for (path, value, comes, goes) in [
        ("/ready", json!({ "yes": false, "reason": "x" }), "Bad Weir is not ready: x", "is ready"),
        ("/journal/disk_full", json!(true), "Bad the journal's disk is full", "has room again"),
        ("/journal/full", json!(true), "Bad the journal has reached max-size", "has room again"),
        ("/journal/bytes_used", json!(85), "Warn the journal is at 85 B of 100 B", "far from full"),
        ("/journal/until_full_seconds", json!(600.0), "it is full in 10m", "far from full"),
        (
            "/influx/backends/1/state",
            json!("retrying"),
            "Warn backend b went",
            "after 1m; 7 points",
        ),
        ("/influx/backends/1/state", json!("stopped"), "Bad backend b needs somebody", "b is back"),
        ("/postgres/backends/1/role", json!("down"), "server q is down", "q is back, as replica"),
        (
            "/postgres/backends/0/role",
            json!("down"),
            "Bad PostgreSQL has no primary",
            "p is primary",
        ),
        ("/postgres/paused", json!(true), "PAUSE is in force", "PAUSE has ended"),
        ("/redis/backends/0/wrong", json!("gone"), "Redis server r fails: gone", "r is back"),
        ("/redis/backends/0/ejected_seconds", json!(3.0), "r is ejected", "has its keys again"),
    ] {
        let (there, back) = both_ways(path, value);
        assert!(texts(&there).contains(comes), "{path}: {}", texts(&there));
        assert!(texts(&back).contains(goes), "{path}: {}", texts(&back));
        assert!(back.iter().any(|change| change.level == Level::Good), "{path}");
        assert!(there.iter().any(|change| change.remedy.is_some()) || path == "/ready", "{path}");
    }
}

#[test]
fn nothing_is_told_where_nothing_has_changed() {
    let (was, is) = (observation(1.0, &document()), observation(2.0, &document()));
    assert_eq!(changes(&was, &is), []);
}

#[test]
fn a_failover_names_both_servers() {
    let mut after = document();
    after["postgres"]["backends"][0]["role"] = json!("replica");
    after["postgres"]["backends"][1]["role"] = json!("primary");
    let told = changes(&observation(1.0, &document()), &observation(2.0, &after));
    assert_eq!(texts(&told), "Warn PostgreSQL: the primary is q; it was p\n");
}

#[test]
fn a_failover_of_redis_is_told_whoever_does_it() {
    let told =
        |was: &Value, is: &Value| texts(&changes(&observation(1.0, was), &observation(2.0, is)));
    let mut unknown = document();
    unknown["redis"]["backends"][0]["url"] = json!("m by Sentinel");
    unknown["redis"]["backends"][0]["sentinel"] = json!({ "url": "redis://s:1", "master": "m" });
    let mut moved = document();
    moved["redis"]["backends"][0]["url"] = json!("redis://r2:6379");
    assert_eq!(told(&unknown, &document()), "", "a start is no failover");
    assert_eq!(
        told(&document(), &moved),
        "Warn Redis server r is at redis://r2:6379; it was at redis://r:6379\n"
    );
    let mut node = document();
    node["redis"]["backends"][0]["name"] = json!("r2:6379");
    assert_eq!(
        told(&document(), &node),
        "Warn servers of Redis pool redis: r left; r2:6379 came\n"
    );
    let mut replica = document();
    replica["redis"]["backends"][0]["replica_of"] = json!("q");
    assert_eq!(told(&replica, &document()), "Warn Redis server r is a master; q was its master\n");
}

#[test]
fn a_redis_server_that_begins_to_evict_keys_is_told_once() {
    let with = |evicted: u64| {
        let mut document = document();
        let memory = json!({ "evicted": evicted, "used_bytes": 4 << 20, "max_bytes": 4 << 20 });
        document["redis"]["backends"][0]["memory"] = memory;
        observation(1.0, &document)
    };
    let told = changes(&with(0), &with(3));
    assert_eq!(texts(&told), "Info Redis server r evicts keys: its memory of 4.0 MiB is full\n");
    assert_eq!(told[0].remedy.as_deref(), Some("redis-cli -u redis://r:6379 info memory"));
    assert_eq!(changes(&with(3), &with(9)), []);
    assert_eq!(changes(&observation(1.0, &document()), &with(9)), [], "a start is no beginning");
}

#[test]
fn a_reload_tells_what_it_refused_and_what_waits_for_a_restart() {
    let told = |refused: Value, keys: Value| {
        let mut after = document();
        after["process"]["config"] = json!("/etc/weir.toml");
        after["process"]["reload"] =
            json!({ "at": 5.0, "refused": refused, "needs_restart": keys });
        let (was, is) = (observation(1.0, &document()), observation(2.0, &after));
        assert_eq!(changes(&is, &is.clone()), [], "it is told once");
        let mut told = changes(&was, &is);
        told.pop().unwrap()
    };
    let refused = told(json!("line 3: no"), json!([]));
    assert!(refused.text.contains("line 3: no"));
    assert_eq!(refused.remedy.as_deref(), Some("weir check --config /etc/weir.toml"));
    assert!(told(json!(null), json!(["workers"])).text.contains("but for workers"));
    assert_eq!(told(json!(null), json!([])).level, Level::Info);
}

#[test]
fn stalls_are_told_with_their_stage_and_ends_once() {
    let mut was = observation(1e9, &document());
    let mut is = observation(1e9 + 1.0, &document());
    was.stalls.insert(("worker-0".into(), "parse".into()), 1);
    is.stalls.insert(("worker-0".into(), "parse".into()), 2);
    let expiry = |at| vec![Expiry { what: "certificate c.pem".into(), at }];
    (was.expiries, is.expiries) = (expiry(1e9 + 1_209_600.5), expiry(1e9 + 1_209_600.5));
    let told = texts(&changes(&was, &is));
    assert!(told.contains("worker-0 stood still in stage parse"), "{told}");
    assert!(told.contains("certificate c.pem ends in 13d 23h"), "{told}");
    assert_eq!(changes(&is, &is.clone()), []);
}

#[test]
fn somebody_elses_long_words_are_cut() {
    let (told, _) = both_ways("/redis/backends/0/wrong", json!("é".repeat(10_000)));
    assert!(told[0].text.chars().count() < 300, "{}", told[0].text.len());
}
