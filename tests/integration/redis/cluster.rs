//! A Redis Cluster that changes under load.

use rig::redis::{RedisClient, RedisCluster};
use rig::wait;
use rig::weir::Weir;
use rustix::process::Signal;

use super::ledger::{Load, Servers, WriteOutcomes, check, write};
use super::operating::{cell, waits};
use super::scene::{client, weir};
use wire::resp::{Value, value};

const CLUSTER: &str = "distribution = \"cluster\"\n";

/// Weir before one of the nodes, which is to find the others by itself.
fn before(cluster: &RedisCluster, seed: usize, lines: &str) -> Weir {
    weir(&[&cluster.nodes[seed]], &format!("{CLUSTER}{lines}"), super::scene::ADMIN)
}

fn admin(weir: &Weir) -> RedisClient {
    super::scene::admin(weir)
}

fn slot_of(cluster: &RedisCluster, key: &str) -> u16 {
    let heard = cluster.nodes[0].client().ask(&["CLUSTER", "KEYSLOT", key]);
    heard[1..].parse().unwrap()
}

#[test]
fn a_cluster_is_one_server_to_its_clients() {
    let cluster = RedisCluster::start(3, false, &[]);
    let weir = before(&cluster, 1, "");
    let mut ann = admin(&weir);
    let keys: Vec<String> = (0..60).map(|n| format!("k{n}")).collect();
    for key in &keys {
        assert_eq!(ann.ask(&["SET", key, key]), "+OK");
    }
    let words: Vec<&str> = ["MGET"].into_iter().chain(keys.iter().map(String::as_str)).collect();
    let all = ann.ask(&words);
    assert_eq!(all.split(' ').skip(2).step_by(2).collect::<Vec<_>>(), keys);
    assert_eq!(ann.line("DBSIZE"), ":60");
    let (mut cursor, mut found) = ("0".to_owned(), Vec::new());
    loop {
        let page = ann.try_ask(&["SCAN", &cursor, "COUNT", "7"]).unwrap();
        let Ok((Value::Array(page), _)) = value(&page) else { panic!("{page:?}") };
        let [Value::Bulk(next), Value::Array(some)] = &page[..] else { panic!("{page:?}") };
        let text = |of: &Value<'_>| match of {
            Value::Bulk(text) => String::from_utf8_lossy(text).into_owned(),
            other => panic!("{other:?}"),
        };
        found.extend(some.iter().map(text));
        cursor = String::from_utf8_lossy(next).into_owned();
        if cursor == "0" {
            break;
        }
    }
    let (mut wanted, crossed) = (keys.clone(), "-CROSSSLOT");
    wanted.sort();
    found.sort();
    assert_eq!(found, wanted);
    assert!(ann.line("SINTER k1 k2").starts_with(crossed));
    assert!(ann.line("MSETNX k1 a k2 b").starts_with(crossed));
    assert_eq!(ann.line("MSET k1 a k2 b k3 c"), "+OK");
    assert_eq!(ann.line("DEL k1 k2 k3 k3"), ":3");
    assert!(ann.line("SELECT 1").starts_with("-ERR DB index"));
    assert_eq!(ann.line("EVAL return{KEYS[1],redis.call('get',KEYS[1])} 1 k4"), "*2 $2 k4 $2 k4");
    ann.send(b"WATCH {a}1\r\nMULTI\r\nSET {a}1 x\r\nINCR {a}2\r\nEXEC\r\n");
    for expected in ["+OK", "+OK", "+QUEUED", "+QUEUED", "*2 +OK :1"] {
        assert_eq!(ann.hear(), expected);
    }
    assert_eq!(ann.line("SCRIPT LOAD return(1)").len(), 44);
    for key in &keys[..20] {
        let mut writes = admin(&weir);
        assert_eq!(writes.ask(&["SET", key, key]), "+OK");
        assert_eq!(writes.line("WAIT 0 10"), ":0", "{key} is at one of three");
        assert_eq!(writes.line("WAIT 1 1"), ":0");
    }
    let status = weir.ask_admin("/status").json();
    assert_eq!(status["redis"]["backends"].as_array().map(Vec::len), Some(3), "{status}");

    let mut hearers = [admin(&weir), admin(&weir), admin(&weir)];
    hearers[0].line("SUBSCRIBE news");
    hearers[1].line("PSUBSCRIBE n*");
    hearers[2].line("SSUBSCRIBE news");
    // From any node, and once.
    for node in &cluster.nodes {
        node.client().line("PUBLISH news hello");
    }
    assert_eq!(ann.line("SPUBLISH news shard"), ":1");
    for _ in 0..3 {
        assert_eq!(hearers[0].hear(), "*3 $7 message $4 news $5 hello");
        assert_eq!(hearers[1].hear(), "*4 $8 pmessage $2 n* $4 news $5 hello");
    }
    assert_eq!(hearers[2].hear(), "*3 $8 smessage $4 news $5 shard");
    hearers[0].line("UNSUBSCRIBE news");
    assert_eq!(hearers[0].line("PING"), "+PONG");
}

#[test]
fn operators_see_all_nodes_also_after_a_slot_has_moved() {
    let cluster = RedisCluster::start(3, false, &[]);
    let weir = before(&cluster, 0, "slow-command = \"1us\"\n");
    let (mut root, mut ann) = (admin(&weir), admin(&weir));
    assert_eq!(ann.line("CLIENT SETNAME ann"), "+OK");
    let slot = slot_of(&cluster, "k");
    let home = usize::from(slot) * 3 / 16384;
    // That of the file has its name there, the others their addresses.
    let [_, second, third] = &cluster.nodes[..] else { panic!("there are three") };
    let names = ["s0".to_owned(), second.address.to_string(), third.address.to_string()];
    let (from, to) = (&names[home], &names[(home + 1) % 3]);
    let counted = |name: &str, command: &str| {
        let labels = [("server", name), ("command", command)];
        weir.metrics().sum("weir_redis_command_answers_total", &labels)
    };
    (1..=50).for_each(|n| assert_eq!(ann.line("INCR k"), format!(":{n}")));
    assert_eq!((counted(from, "INCR"), counted(to, "INCR")), (50.0, 0.0));
    cluster.migrate(slot, home, (home + 1) % 3);
    (51..=100).for_each(|n| assert_eq!(ann.line("INCR k"), format!(":{n}")));
    // A redirect answers no client.
    assert_eq!((counted(from, "INCR"), counted(to, "INCR")), (50.0, 50.0));
    let backends = root.line("WEIR SHOW BACKENDS");
    let lanes = root.line("WEIR SHOW LANES");
    for name in &names {
        assert_eq!(cell(&backends, name, "state"), "ok", "{backends}");
    }
    assert!(lanes.contains(from) && lanes.contains(to), "{lanes}");
    assert!(root.line("WEIR SHOW SLOW").contains(to));
    wait::until("the key is found to be hot", wait::LONG, || {
        (0..50).for_each(|_| assert_eq!(ann.line("GET k"), "$3 100"));
        root.line("WEIR SHOW HOT").contains("$1 k")
    });
    assert_eq!(root.line("WEIR PAUSE"), "+OK");
    ann.say(&["INCR", "k"]);
    wait::until("it waits", wait::LONG, || waits(&mut root, "ann"));
    assert_eq!(root.line("WEIR RESUME"), "+OK");
    assert_eq!(ann.hear(), ":101");
    let status = weir.must_run(&["status"]);
    assert!(names.iter().all(|name| status.contains(name)), "{status}");
}

#[test]
fn slots_that_move_under_load_lose_nothing_and_keep_the_order() {
    let cluster = RedisCluster::start(3, false, &[]);
    let weir = before(&cluster, 2, "");
    let lists = ["{one}l", "{two}l"];
    let slots = lists.map(|list| slot_of(&cluster, list));
    let mut homes = slots.map(|slot| usize::from(slot) * 3 / 16384);
    let load = Load::default();
    let mut blocked = admin(&weir);
    blocked.say(&["BLPOP", "{one}empty", "0"]);
    let told: Vec<Vec<WriteOutcomes>> = std::thread::scope(|scope| {
        let writers = lists.map(|list| {
            let of = |n: usize| {
                let (weir, load) = (&weir, &load);
                scope.spawn(move || write(weir, list, &format!("c{n}"), load))
            };
            [of(0), of(1), of(2)]
        });
        for round in 0..24 {
            let at = round % 2;
            let to = (homes[at] + 1 + round % 3 / 2) % 3;
            cluster.migrate(slots[at], homes[at], to);
            homes[at] = to;
            load.goes_on(40);
        }
        load.ends();
        let told = writers.map(|of| of.map(|writer| writer.join().unwrap()));
        told.into_iter().map(Vec::from).collect()
    });
    let mut ann = admin(&weir);
    for (list, told) in lists.iter().zip(&told) {
        check(&mut ann, list, told, Servers::KeepAll);
    }
    // Who waits is taken along.
    assert_eq!(ann.line("RPUSH {one}empty x"), ":1");
    assert_eq!(blocked.hear(), "*2 $10 {one}empty $1 x");
}

#[test]
fn a_primary_that_is_handed_over_or_dies_loses_nothing_by_weir() {
    let mut cluster = RedisCluster::start(3, true, &[]);
    let weir = before(&cluster, 0, "timeout = \"3s\"\n");
    let list = "{one}l";
    let home = usize::from(slot_of(&cluster, list)) * 3 / 16384;
    let load = Load::default();
    let hand_over = |told: &mut Vec<WriteOutcomes>| {
        std::thread::scope(|scope| {
            let writers: Vec<_> = (0..4)
                .map(|n| {
                    let (weir, load) = (&weir, &load);
                    scope.spawn(move || write(weir, list, &format!("c{n}"), load))
                })
                .collect();
            load.goes_on(100);
            let mut replica = cluster.nodes[home + 3].client();
            assert_eq!(replica.line("CLUSTER FAILOVER"), "+OK");
            wait::until("it is the primary", wait::LONG, || {
                replica.line("ROLE").starts_with("*3 $6 master")
            });
            load.goes_on(100);
            load.ends();
            told.extend(writers.into_iter().map(|writer| writer.join().unwrap()));
        });
    };
    let mut told = Vec::new();
    hand_over(&mut told);
    let mut ann = admin(&weir);
    check(&mut ann, list, &told, Servers::KeepAll);

    // The other one takes over where it dies; what had not reached that is lost by Redis.
    let load = Load::default();
    let follows = |cluster: &RedisCluster| {
        cluster.nodes[home].client().line("INFO replication").contains("link_status:up")
    };
    wait::until("the former one follows", wait::LONG, || follows(&cluster));
    let more: Vec<WriteOutcomes> = std::thread::scope(|scope| {
        let writers: Vec<_> = (4..8)
            .map(|n| {
                let (weir, load) = (&weir, &load);
                scope.spawn(move || write(weir, list, &format!("c{n}"), load))
            })
            .collect();
        load.goes_on(100);
        cluster.nodes[home + 3].running().signal(Signal::KILL);
        let mut ann = client(&weir);
        ann.line("AUTH p");
        wait::until("its keys are served again", wait::LONG, || {
            ann.ask(&["SET", "{one}x", "1"]) == "+OK"
        });
        load.goes_on(100);
        load.ends();
        writers.into_iter().map(|writer| writer.join().unwrap()).collect()
    });
    told.extend(more);
    check(&mut ann, list, &told, Servers::Lose);
}

#[test]
fn what_cannot_be_asked_again_is_told_and_goes_right_the_second_time() {
    let cluster = RedisCluster::start(2, false, &[]);
    let weir = before(&cluster, 0, "");
    let mut ann = admin(&weir);
    let key = "{one}k";
    let slot = slot_of(&cluster, key);
    let mut home = usize::from(slot) * 2 / 16384;
    let mut moves = || {
        cluster.migrate(slot, home, 1 - home);
        home = 1 - home;
    };
    let moved = |heard: &str| heard.starts_with(&format!("-MOVED {slot} "));
    let large = "x".repeat(300 << 10);
    let says = "return redis.call('SET', KEYS[1], ARGV[1]) or redis.error_reply('x')";
    for (words, expected) in [
        (vec!["WATCH", key], "+OK"),
        (vec!["EVAL", says, "1", key, "v"], "+OK"),
        (vec!["SET", key, &large], "+OK"),
    ] {
        assert_eq!(ann.ask(&["SET", key, "1"]), "+OK");
        moves();
        // Weir may have asked in the meantime.
        let heard = ann.ask(&words);
        assert!(moved(&heard) || heard == expected, "{heard}");
        assert_eq!(ann.ask(&words), expected, "{}", words[0]);
        assert_eq!(ann.line("UNWATCH"), "+OK");
    }
    assert_eq!(ann.ask(&["GET", key]).len(), large.len() + 8);

    moves();
    let mut transaction = || {
        ann.say(&["MULTI"]);
        ann.say(&["SET", key, "2"]);
        ann.say(&["EXEC"]);
        [ann.hear(), ann.hear(), ann.hear()]
    };
    let heard = transaction();
    let is_refused = moved(&heard[1]) && heard[2].starts_with("-EXECABORT");
    assert!(is_refused || heard[2] == "*1 +OK", "{heard:?}");
    assert_eq!(transaction(), ["+OK", "+QUEUED", "*1 +OK"]);

    moves();
    let plain = "return redis.call('APPEND', KEYS[1], ARGV[1])";
    assert_eq!(ann.ask(&["EVAL", plain, "1", key, "v"]), ":2");
    // What was written is with several nodes, or a node has sent it on.
    let mut bob = admin(&weir);
    assert_eq!(bob.ask(&["SET", key, "1"]), "+OK");
    moves();
    assert_eq!(bob.ask(&["SET", key, "1"]), "+OK");
    let heard = bob.line("WAIT 0 10");
    assert!(heard.starts_with("-ERR weir: "), "{heard}");
}
