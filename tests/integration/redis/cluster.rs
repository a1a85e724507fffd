//! A Redis Cluster that changes under load.

use std::io::Write as _;
use std::net::TcpListener;
use std::process::{Command, Stdio};

use rig::places;
use rig::redis::{Redis, RedisClient, RedisCluster};
use rig::wait;
use rig::weir::Weir;
use rustix::process::Signal;

use super::ledger::{Load, Servers, WriteOutcomes, check, write};
use super::operating::{cell, waits};
use super::scene::{client, weir};
use wire::resp::{Value, value};

const CLUSTER: &str = "distribution = \"cluster\"\n";
/// What a client hears in the place of a redirect, and that of a script, which could have said it.
const MOVED: &str = "-TRYAGAIN weir: the slot has moved";
const MOVED_OR_SAID: &str =
    "-ERR weir: the slot has moved, or the script said so; whether it ran is unknown";

/// Sets a key within `MULTI`, without waiting for answers; what each of its three steps says.
fn sets_in_transaction(client: &mut RedisClient, key: &str) -> [String; 3] {
    client.say(&["MULTI"]);
    client.say(&["SET", key, "2"]);
    client.say(&["EXEC"]);
    [client.hear(), client.hear(), client.hear()]
}

/// Whether this is what `WAIT` says of what several nodes have, or one that has sent it on.
fn tells_that_nobody_knows(heard: &str) -> bool {
    let ended = heard.strip_prefix("-ERR weir: a connection to ").is_some_and(|rest| {
        rest.ends_with(" has ended since this client wrote there, or keys have left it")
    });
    ended || heard == "-ERR weir: WAIT: this client has written to several servers"
}

/// Moves a slot and asks, until that is answered as where the slot has `moved`. Weir may have asked
/// for the slots in the meantime, but not each time: then it is answered as `expected`.
fn until_told<T: PartialEq<U> + std::fmt::Debug, U: PartialEq + std::fmt::Debug>(
    expected: U,
    moved: U,
    mut moves_and_asks: impl FnMut() -> T,
) {
    for _ in 0..3 {
        let heard = moves_and_asks();
        if heard != expected {
            return assert_eq!(heard, moved);
        }
    }
    panic!("{moved:?} was never heard");
}

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
    let renamed = ["--rename-command", "GETSET", "MY.GETSET"];
    let cluster = RedisCluster::start(2, false, &renamed);
    let weir = before(&cluster, 0, "");
    let mut ann = admin(&weir);
    let key = "{one}k";
    let slot = slot_of(&cluster, key);
    let mut home = usize::from(slot) * 2 / 16384;
    let mut moves = || {
        cluster.migrate(slot, home, 1 - home);
        home = 1 - home;
    };
    let large = "x".repeat(300 << 10);
    let says = "return redis.call('SET', KEYS[1], ARGV[1]) or redis.error_reply('x')";
    let library = "#!lua name=m\nredis.register_function('f', \
                   function(k, a) return redis.call('SET', k[1], a[1]) end)";
    assert_eq!(ann.ask(&["FUNCTION", "LOAD", library]), "$1 m");
    for (words, moved, expected) in [
        (vec!["WATCH", key], MOVED, "+OK"),
        (vec!["EVAL", says, "1", key, "v"], MOVED_OR_SAID, "+OK"),
        (vec!["FCALL", "f", "1", key, "v"], MOVED_OR_SAID, "+OK"),
        // What Weir does not know may have run.
        (vec!["MY.GETSET", key, "1"], MOVED_OR_SAID, "$1 1"),
        (vec!["SET", key, &large], MOVED, "+OK"),
    ] {
        until_told(expected, moved, || {
            assert_eq!(ann.ask(&["SET", key, "1"]), "+OK");
            moves();
            ann.ask(&words)
        });
        assert_eq!(ann.ask(&words), expected, "{}", words[0]);
        assert_eq!(ann.line("UNWATCH"), "+OK");
    }
    assert_eq!(ann.ask(&["GET", key]).len(), large.len() + 8);

    let transaction = |ann: &mut RedisClient| sets_in_transaction(ann, key);
    let done = ["+OK", "+QUEUED", "*1 +OK"];
    let aborted = "-EXECABORT Transaction discarded because of previous errors.";
    until_told(done.map(str::to_owned), ["+OK", MOVED, aborted].map(str::to_owned), || {
        moves();
        transaction(&mut ann)
    });
    assert_eq!(transaction(&mut ann), ["+OK", "+QUEUED", "*1 +OK"]);

    ann.say(&["MULTI"]);
    ann.say(&["SET", key, "2"]);
    assert_eq!([ann.hear(), ann.hear()], ["+OK", "+QUEUED"]);
    moves();
    assert_eq!(ann.line("EXEC"), "-EXECABORT weir: the slot has moved");
    assert_eq!(transaction(&mut ann), ["+OK", "+QUEUED", "*1 +OK"]);

    let subscribe = || admin(&weir).line("SSUBSCRIBE {one}news");
    let subscribed = "*3 $10 ssubscribe $9 {one}news :1";
    until_told(subscribed, MOVED, || {
        moves();
        subscribe()
    });
    assert_eq!(subscribe(), subscribed);

    moves();
    let plain = "return redis.call('APPEND', KEYS[1], ARGV[1])";
    assert_eq!(ann.ask(&["EVAL", plain, "1", key, "v"]), ":2");
    // What was written is with several nodes, or a node has sent it on.
    let mut bob = admin(&weir);
    assert_eq!(bob.ask(&["SET", key, "1"]), "+OK");
    moves();
    assert_eq!(bob.ask(&["SET", key, "1"]), "+OK");
    let heard = bob.line("WAIT 0 10");
    assert!(tells_that_nobody_knows(&heard), "{heard}");
}

#[test]
fn redis_cli_that_follows_redirects_stays_with_weir() {
    let cluster = RedisCluster::start(2, false, &[]);
    let weir = before(&cluster, 0, "");
    let slot = slot_of(&cluster, "k");
    let home = usize::from(slot) * 2 / 16384;
    assert_eq!(admin(&weir).line("SET k 1"), "+OK");
    cluster.migrate(slot, home, 1 - home);
    let port = weir.redis.port().to_string();
    let mut command = Command::new(places::need("redis-cli"));
    command.args(["-c", "-a", "p", "--no-auth-warning", "-p", &port]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut cli = command.spawn().unwrap();
    cli.stdin.take().unwrap().write_all(b"MULTI\nSET k 2\nEXEC\nWEIR HELP\nGET k\n").unwrap();
    let said = String::from_utf8(cli.wait_with_output().unwrap().stdout).unwrap();
    assert!(!said.contains("Redirected") && said.contains("SHOW BACKENDS"), "{said}");
    let may_be = ["1", "2"];
    assert!(may_be.iter().any(|value| said.trim_end().ends_with(value)), "{said}");
}

#[test]
fn a_script_that_says_a_slot_has_moved_sends_nobody_anywhere() {
    let cluster = RedisCluster::start(2, false, &[]);
    let weir = before(&cluster, 0, "");
    let (mut ann, slot) = (admin(&weir), slot_of(&cluster, "k"));
    assert_eq!(ann.line("SET k 1"), "+OK");
    let elsewhere = TcpListener::bind("127.0.0.1:0").unwrap();
    elsewhere.set_nonblocking(true).unwrap();
    let nodes = cluster.nodes.iter().map(|node| node.address);
    for at in nodes.chain([elsewhere.local_addr().unwrap()]) {
        for word in ["MOVED", "ASK"] {
            let script = format!("return redis.error_reply('{word} {slot} {at}')");
            assert_eq!(ann.ask(&["EVAL", &script, "1", "k"]), MOVED_OR_SAID);
            assert_eq!(ann.ask(&["EVAL", &script, "0"]), MOVED_OR_SAID);
            assert_eq!(ann.line("GET k"), "$1 1");
        }
    }
    assert!(elsewhere.accept().is_err(), "Weir has logged in where a client said");
    // Whoever follows redirects does so before any server.
    let alone = Redis::start();
    let weir = super::scene::weir(&[&alone], "", "");
    let mut bob = client(&weir);
    let script = format!("return redis.error_reply('MOVED {slot} {}')", alone.address);
    assert_eq!(bob.ask(&["EVAL", &script, "0"]), MOVED_OR_SAID);
    let within = format!("return {{redis.error_reply('MOVED {slot} a:1')}}");
    assert_eq!(bob.ask(&["EVAL", &within, "0"]), format!("*1 -MOVED {slot} a:1"));
}

#[test]
fn a_pool_that_is_not_told_of_its_cluster_says_so() {
    let cluster = RedisCluster::start(2, false, &[]);
    let weir = super::scene::weir(&[&cluster.nodes[0]], "", "");
    let mut ann = client(&weir);
    let all: Vec<String> = (0..8).map(|n| ann.line(&format!("SET k{n} 1"))).collect();
    let refused = "-ERR weir: not run: the server is a node of a Cluster, and the key is with \
                   another one: set distribution = \"cluster\"";
    assert!(all.iter().all(|heard| heard == "+OK" || heard == refused), "{all:?}");
    assert!(all.iter().any(|heard| heard == refused), "{all:?}");
}
