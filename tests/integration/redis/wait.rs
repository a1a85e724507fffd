//! Whether replicas have what a client wrote.

use std::path::Path;
use std::time::{Duration, Instant};

use rig::redis::{Redis, RedisCluster, valkey, valkeys};
use rig::wait;
use rustix::process::Signal;

use super::scene::{client, key_on, weir};

/// A server and a replica of it, which is there.
fn pair(start: impl Fn(&[&str]) -> Redis) -> [Redis; 2] {
    let master = start(&["--appendonly", "yes", "--repl-diskless-sync-delay", "0"]);
    let of = format!("{} {}", master.address.ip(), master.address.port());
    let replica = start(&["--replicaof", &of]);
    wait::until("the replica is there", wait::LONG, || {
        master.client().line("INFO replication").contains("state=online")
    });
    [master, replica]
}

fn counts_what_rode_a_lane(start: impl Fn(&[&str]) -> Redis) {
    let [master, mut replica] = pair(start);
    let weir = weir(&[&master], "timeout = \"1s\"", "");
    let [mut ann, mut bob] = [client(&weir), client(&weir)];
    assert_eq!(ann.line("SET a 1"), "+OK");
    assert_eq!(ann.line("WAIT 1 20000"), ":1");
    replica.running().signal(Signal::STOP);
    for (n, line) in ["SET a 2", "MSET b 1 c 2", "EVAL return{} 0"].iter().enumerate() {
        ann.line(line);
        assert_eq!(ann.line("WAIT 1 200"), ":0", "{n}: it has not acknowledged");
    }
    // Pipelined, too; and nobody waits behind the question.
    ann.send(b"SET a 3\r\nWAIT 1 5000\r\nGET a\r\n");
    assert_eq!(ann.hear(), "+OK");
    let begun = Instant::now();
    assert_eq!(bob.line("INCR n"), ":1");
    assert!(begun.elapsed() < Duration::from_secs(4));
    assert_eq!([ann.hear(), ann.hear()], [":0", "$1 3"]);
    // Longer than an answer may take, until it goes on.
    ann.send(b"SET a 4\r\nWAIT 1 0\r\n");
    assert_eq!(ann.hear(), "+OK");
    replica.running().signal(Signal::CONT);
    assert_eq!(ann.hear(), ":1");
    assert_eq!(replica.client().line("GET a"), "$1 4");
    replica.running().signal(Signal::STOP);
    // Where keys are watched, and after RESET.
    for line in ["SET a 5", "WATCH k", "WAIT 1 100", "UNWATCH", "RESET", "WAIT 1 100"] {
        let heard = ann.line(line);
        assert!(!line.starts_with("WAIT") || heard == ":0", "{line}: {heard}");
    }
    assert_eq!(ann.line("MULTI"), "+OK");
    assert_eq!(ann.line("WAIT 1 100"), "-ERR weir: WAIT is refused within MULTI");
    replica.running().signal(Signal::CONT);
}

#[test]
fn wait_counts_what_rode_a_lane() {
    counts_what_rode_a_lane(Redis::start_with);
}

#[test]
fn wait_counts_what_rode_a_lane_on_valkey() {
    let Some(valkey) = valkey() else { return };
    let start = |args: &[&str]| Redis::start_as(&valkey, args);
    counts_what_rode_a_lane(start);
    let [master, mut replica] = pair(start);
    let weir = weir(&[&master], "", "");
    let mut ann = client(&weir);
    assert_eq!(ann.line("SET a 1"), "+OK");
    assert_eq!(ann.line("WAITAOF 1 0 20000"), "*2 :1 :0");
    replica.running().signal(Signal::STOP);
    assert_eq!(ann.line("SET a 2"), "+OK");
    assert_eq!(ann.line("WAITAOF 0 1 100").rsplit(' ').next(), Some(":0"));
    assert_eq!(ann.line("WAIT 1 100"), ":0");
    replica.running().signal(Signal::CONT);
}

#[test]
fn what_a_server_may_have_lost_is_not_counted() {
    let mut server = Redis::start();
    let weir = weir(&[&server], "", "");
    let mut ann = client(&weir);
    assert_eq!(ann.line("SET a 1"), "+OK");
    assert_eq!(ann.line("WAIT 0 10"), ":0");
    server.kill();
    server.start_again();
    wait::until("it is reached", wait::LONG, || client(&weir).line("GET a") == "$-1");
    let lost = "-ERR weir: a connection to s0 has ended since this client wrote there";
    assert!(ann.line("WAIT 0 10").starts_with(lost));
    assert_eq!(ann.line("SET a 2"), "+OK");
    assert_eq!(ann.line("WAIT 0 10"), ":0");
}

#[test]
fn what_was_written_to_several_servers_is_not_counted() {
    let servers = [Redis::start(), Redis::start()];
    let servers: Vec<&Redis> = servers.iter().collect();
    let weir = weir(&servers, "", "");
    let keys: Vec<String> = (0..2).map(|n| key_on(&servers, &weir, n)).collect();
    let mut ann = client(&weir);
    assert_eq!(ann.line("WAIT 0 0"), "-ERR weir: WAIT: this client has written nothing");
    ann.ask(&["SET", &keys[0], "x"]);
    assert_eq!(ann.line("WAIT 0 0"), ":0");
    ann.ask(&["SET", &keys[1], "x"]);
    let several = "-ERR weir: WAIT: this client has written to several servers";
    assert_eq!(ann.line("WAIT 0 0"), several);
}

/// Nodes of a Cluster whose first replica has been stopped, and a key of its primary.
fn with_a_stopped_replica(program: &Path) -> (RedisCluster, String) {
    let mut cluster =
        RedisCluster::start_as(program, 2, true, &["--cluster-node-timeout", "60000"]);
    let key = (0..).map(|n| format!("k{n}"));
    let mut first = cluster.nodes[0].client();
    let key = key.into_iter().find(|key| first.ask(&["SET", key, "0"]) == "+OK").unwrap();
    assert_eq!(first.line("WAIT 1 20000"), ":1");
    cluster.nodes[2].running().signal(Signal::STOP);
    (cluster, key)
}

#[test]
fn a_write_to_a_cluster_is_not_counted_at_a_replica_that_stands_still() {
    for program in valkeys().into_iter().chain([rig::places::need("redis-server")]) {
        let (mut cluster, key) = with_a_stopped_replica(&program);
        let weir = weir(&[&cluster.nodes[0]], "distribution = \"cluster\"", "");
        let mut ann = client(&weir);
        for (n, line) in ["SET", "APPEND"].iter().enumerate() {
            ann.ask(&[line, &key, "1"]);
            assert_eq!(ann.line("WAIT 1 300"), ":0", "{n}: {}", program.display());
        }
        cluster.nodes[2].running().signal(Signal::CONT);
        assert_eq!(ann.line("WAIT 1 20000"), ":1");
        // Nothing is left of the mark.
        let mut first = cluster.nodes[0].client();
        assert_eq!([first.line("DBSIZE"), first.line("FUNCTION LIST")], [":1", "*0"]);
        let mut replica = cluster.nodes[2].client();
        assert_eq!([replica.line("DBSIZE"), replica.line("FUNCTION LIST")], [":1", "*0"]);
    }
}

#[test]
fn a_clusters_node_in_a_pool_of_one_server_is_not_asked_what_it_would_answer_at_once() {
    for program in valkeys() {
        let mut cluster = RedisCluster::start_as(&program, 1, true, &[]);
        cluster.nodes[1].running().signal(Signal::STOP);
        let weir = weir(&[&cluster.nodes[0]], "", "");
        let mut ann = client(&weir);
        assert_eq!(ann.line("SET a 1"), "+OK");
        let heard = ann.line("WAIT 1 300");
        assert!(heard.starts_with("-ERR weir: s0 is a Cluster's node"), "{heard}");
        cluster.nodes[1].running().signal(Signal::CONT);
    }
}
